"""Reads the bodies of requests, and writes the JSON of responses.

Unknown fields of a request are refused, because a misspelt field would silently do nothing. A long
list is written in parts, so that other requests are handled between them.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import Any, Final, TypeVar

import trio

from log_service.http.rest_proxy.errors import UNPROCESSABLE, RestError
from log_service.http.server.json_bodies import LONG_BODY_BYTES, parse_json
from log_service.http.server.values import HttpRequest, HttpResponse

MAX_BODY_BYTES: Final = 4 << 20
JSON: Final = "application/json"
SHOWN_CHARACTERS: Final = 200
PART_COUNT: Final = 200
"""Items of a list that are written at once."""
MAX_NUMBER: Final = 2**63 - 1
COMPACT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)

T = TypeVar("T")


def compact(value: object) -> bytes:
    """Return the JSON of a value, without spaces."""
    return COMPACT.encode(value).encode("utf-8", "replace")


async def run_off_loop(work: Callable[[], T], size_bytes: int, *, has_schema: bool = False) -> T:
    """Call ``work`` on a body, and return its result.

    It runs in a thread for a long body. So it does for values with a schema, because a small value
    may take long with its schema.
    """
    if size_bytes <= LONG_BODY_BYTES and not has_schema:
        return work()
    return await trio.to_thread.run_sync(work)


async def read_object(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON object of a body. No body is an empty object.

    Raises:
        HttpError: the body is not JSON, or has too many fields and items.
        RestError: 422, the JSON is not an object.
    """
    if not request.body.strip():
        return {}
    found = await run_off_loop(partial(parse_json, request.body), len(request.body))
    return as_object(found, "The body")


def as_object(value: object, what: str, *, code: int = UNPROCESSABLE) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object. Errors call it ``what``.

    Raises:
        RestError: ``code``, the value is not an object.
    """
    if not isinstance(value, dict):
        raise RestError(code, f"{what} has to be a JSON object.")
    return value


def refuse_unknown(fields: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    """Refuse fields that are not in ``known``. Errors call the object ``what``.

    Raises:
        RestError: 422, a field is unknown.
    """
    allowed = frozenset(known)
    for name in fields:
        if name not in allowed:
            text = f"{what} has an unrecognized field: {name[:SHOWN_CHARACTERS]}"
            raise RestError(UNPROCESSABLE, text)


def text_of(fields: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    """Return the value of a text field.

    Raises:
        RestError: 422, the field is not text, or is missing and has no default.
    """
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        text = f"{name} is missing." if value is None else f"{name} has to be text."
        raise RestError(UNPROCESSABLE, text)
    return value


def number_of(
    fields: Mapping[str, Any],
    name: str,
    *,
    at_least: int = 0,
    at_most: int = MAX_NUMBER,
    default: int | None = None,
) -> int:
    """Return the value of a field that is a whole number. A number as text is accepted, too.

    Raises:
        RestError: 422, the field is not a number within the bounds, or is missing and has no
            default.
    """
    value = fields.get(name)
    if value is None and default is not None:
        return default
    found = whole_number(value)
    if found is None or not at_least <= found <= at_most:
        text = f"{name} has to be a whole number from {at_least} to {at_most}."
        raise RestError(UNPROCESSABLE, text)
    return found


def whole_number(value: object) -> int | None:
    """Return ``value`` as a whole number, None if it is not one.

    Text with a number and floats such as 80.0 are accepted, too.
    """
    if isinstance(value, str) and value.isascii() and len(value) <= 20:
        digits = value.removeprefix("-")
        return int(value) if digits.isdigit() else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def list_of(
    fields: Mapping[str, Any], name: str, *, max_count: int = 100_000, code: int = UNPROCESSABLE
) -> list[Any]:
    """Return the value of a field that is a list.

    Raises:
        RestError: ``code``, the field is not a list. 422, it has too many items.
    """
    value = fields.get(name)
    if not isinstance(value, list):
        raise RestError(code, f"{name} has to be a list.")
    if len(value) > max_count:
        raise RestError(UNPROCESSABLE, f"{name} has at most {max_count} items.")
    return value


def json_response(value: object, *, status: int = 200, content_type: str = JSON) -> HttpResponse:
    """Return a response with a JSON body."""
    return HttpResponse(status=status, body=compact(value), content_type=content_type)


def list_response(
    items: Iterable[object],
    *,
    before: bytes = b"[",
    after: bytes = b"]",
    content_type: str = JSON,
) -> HttpResponse:
    """Return a response with a JSON list between ``before`` and ``after``.

    A long list is made and written in parts.
    """
    rest = iter(items)
    first = list(islice(rest, PART_COUNT))
    start = before + b",".join(map(compact, first))
    following = next(rest, None)
    if following is None:
        return HttpResponse(body=start + after, content_type=content_type)
    body = _parts(start, chain([following], rest), after)
    return HttpResponse(body=body, content_type=content_type)


async def _parts(start: bytes, rest: Iterator[object], after: bytes) -> AsyncIterator[bytes]:
    yield start
    while part := list(islice(rest, PART_COUNT)):
        await trio.lowlevel.checkpoint()
        yield b"," + b",".join(map(compact, part))
    yield after
