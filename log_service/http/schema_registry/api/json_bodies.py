"""Reads the JSON bodies of requests within bounds.

Unknown fields are refused, because a misspelt field would silently do nothing. A long body is read
in another thread, so that other requests go on. Its parts are counted first, because the parser of
the standard library lets no other thread run until it is done. Long texts are no matter to it.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it
from typing import Any, Protocol, TypeVar

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.entities import BadFieldError
from log_service.http.server.negotiation import parse_media_type
from log_service.http.server.values import HttpError, HttpRequest

T = TypeVar("T")

MAX_BODY_BYTES = 4 << 20
LONG_BODY_BYTES = 32 << 10
MAX_PARTS = 50_000
"""Texts, separators and opening brackets of a body. A schema is one text, however long it is."""
SHOWN_CHARACTERS = 200
_SEPARATORS = ",[{"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class Workers(Protocol):
    """Other threads that do long work."""

    async def elsewhere(self, work: Callable[[], T]) -> T:
        """Do work in another thread, and return its result."""


def require_json(request: HttpRequest) -> None:
    """Refuse a body of another type that a page in a browser made.

    A browser sends a form, a plain text, or a body without a type to any site, without asking that
    first. Other programs name no page. Theirs is taken as JSON, whatever its type is.

    Raises:
        HttpError: 415.
    """
    if "origin" not in request.headers or request.method not in {"POST", "PUT"}:
        return
    media_type = parse_media_type(request.headers.get("content-type", ""))
    if media_type is None or not media_type.name.endswith(("/json", "+json")):
        raise HttpError(415, "HTTP 415 Unsupported Media Type: the body has to be application/json")


async def read_object(
    request: HttpRequest, known: Iterable[str], workers: Workers
) -> dict[str, Any]:
    """Return the JSON object of a request's body.

    Raises:
        HttpError: the body is no JSON, or has too many parts.
        RegistryError: it is no object, or has a field that is not ``known``.
    """
    parse = partial(parse_object, request.body, frozenset(known))
    return parse() if len(request.body) <= LONG_BODY_BYTES else await workers.elsewhere(parse)


def parse_object(body: bytes, known: frozenset[str]) -> dict[str, Any]:
    """Return the JSON object of a body, as ``read_object`` does."""
    try:
        text = body.decode()
        if len(body) > LONG_BODY_BYTES:
            _refuse_many_parts(text)
        found = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"The body is no JSON in UTF-8: {error}") from error
    if not isinstance(found, dict):
        raise errors.RegistryError(errors.UNPROCESSABLE, "The body has to be a JSON object.")
    for name in found:
        if name not in known:
            shown = f"Unrecognized field: {name[:SHOWN_CHARACTERS]}"
            raise errors.RegistryError(errors.UNPROCESSABLE, shown)
    if _SURROGATE_ESCAPE.search(text):
        _refuse_lone_surrogates(found)
    return found


def unprocessable(error: BadFieldError) -> errors.RegistryError:
    """Return the refusal of a field of the wrong type."""
    return errors.RegistryError(errors.UNPROCESSABLE, str(error))


def _refuse_many_parts(text: str) -> None:
    """Count the parts of a text without parsing it.

    Raises:
        HttpError: there are too many.
        ValueError: a text inside is no JSON.
    """
    count = end = 0
    while count <= MAX_PARTS:
        quote = text.find('"', end)
        between = text[end:] if quote < 0 else text[end:quote]
        count += 1 + sum(map(between.count, _SEPARATORS))
        if quote < 0:
            break
        _, end = scanstring(text, quote + 1)
    if count > MAX_PARTS:
        raise HttpError(413, f"a body has at most {MAX_PARTS} fields, items and texts")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the field {repeated[:SHOWN_CHARACTERS]!r} comes twice")
    return found


def _refuse_lone_surrogates(fields: dict[str, Any]) -> None:
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError) as error:
        text = "The body has half of a surrogate pair, which is no character."
        raise errors.RegistryError(errors.UNPROCESSABLE, text) from error
