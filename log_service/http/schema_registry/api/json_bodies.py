"""Reads the JSON bodies of requests within bounds.

Unknown fields are refused, because a misspelt field would silently do nothing. A long body is read
in another thread, so that other requests go on. Its parts are counted first, because the parser of
the standard library lets no other thread run until it is done. Long texts are no matter to it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, TypeVar

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.entities import BadFieldError
from log_service.http.server.json_bodies import LONG_BODY_BYTES, SHOWN_CHARACTERS, parse_json
from log_service.http.server.negotiation import parse_media_type
from log_service.http.server.values import HttpError, HttpRequest

T = TypeVar("T")

MAX_BODY_BYTES = 4 << 20


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
    found = parse_json(body)
    if not isinstance(found, dict):
        raise errors.RegistryError(errors.UNPROCESSABLE, "The body has to be a JSON object.")
    for name in found:
        if name not in known:
            shown = f"Unrecognized field: {name[:SHOWN_CHARACTERS]}"
            raise errors.RegistryError(errors.UNPROCESSABLE, shown)
    return found


def unprocessable(error: BadFieldError) -> errors.RegistryError:
    """Return the refusal of a field of the wrong type."""
    return errors.RegistryError(errors.UNPROCESSABLE, str(error))
