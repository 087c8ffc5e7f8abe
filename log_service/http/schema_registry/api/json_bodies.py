"""Reads the JSON bodies of requests within bounds.

Unknown fields are refused, because a misspelt field would silently do nothing. A long body is read
in another thread, so that other requests are not delayed. Its JSON values are counted first,
because the standard library's parser lets no other thread run until it is done. Only the number of
values makes it slow, not the length of texts.
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
UNNAMED_TYPES = frozenset({"application/octet-stream", "application/x-www-form-urlencoded"})
"""Types that programs send of their own accord, such as curl."""
UTF8 = "utf-8"
CHARSETS = frozenset({UTF8, "us-ascii", "utf-16", "utf-16le", "utf-16be"})


class Workers(Protocol):
    """A pool of threads that do long work."""

    async def run_off_loop(self, work: Callable[[], T]) -> T:
        """Do work in another thread, and return its result."""


def require_json(request: HttpRequest) -> None:
    """Refuse a body whose content type is not JSON.

    A browser may send a form, a plain text or a body without a type to another site without a CORS
    preflight. So a request with ``Origin`` must name JSON. Other programs do not send ``Origin``.
    Their requests may lack a type or have the type of a form, because curl sends that by default.

    Raises:
        HttpError: 415. Clients match its text; the header ``Accept`` names the accepted types.
    """
    if request.method not in {"POST", "PUT"}:
        return
    text = request.headers.get("content-type", "")
    media_type = parse_media_type(text)
    name = "" if media_type is None else media_type.name
    is_page = "origin" in request.headers
    if not name.endswith(("/json", "+json")) and (is_page or (text and name not in UNNAMED_TYPES)):
        raise HttpError(415, "HTTP 415 Unsupported Media Type", (("accept", "application/json"),))


async def read_object(
    request: HttpRequest, known: Iterable[str], workers: Workers
) -> dict[str, Any]:
    """Return the JSON object of a request's body.

    Raises:
        HttpError: the body is not JSON, has too many parts, or is in an unknown charset.
        RegistryError: the body is not an object, or has a field that is not ``known``.
    """
    parse = partial(parse_object, request.body, frozenset(known), charset_of(request))
    return parse() if len(request.body) <= LONG_BODY_BYTES else await workers.run_off_loop(parse)


def charset_of(request: HttpRequest) -> str:
    """Return the charset of a body, which is UTF-8 if its type names none.

    Raises:
        HttpError: 415, it is not a Unicode charset.
    """
    media_type = parse_media_type(request.headers.get("content-type", ""))
    found = UTF8 if media_type is None else media_type.parameters.get("charset", UTF8).lower()
    if found not in CHARSETS:
        raise HttpError(415, f"charset is {found[:SHOWN_CHARACTERS]!r}; send the body in UTF-8")
    return found


def parse_object(body: bytes, known: frozenset[str], charset: str = UTF8) -> dict[str, Any]:
    """Return the JSON object of a body.

    Raises:
        HttpError: the body is not JSON, has too many parts, or is not in its charset.
        RegistryError: the body is not an object, or has a field that is not ``known``.
    """
    if charset != UTF8:
        try:
            body = body.decode(charset).encode()
        except UnicodeError as error:
            raise HttpError(400, f"The body is not in its charset: {error}") from error
    found = parse_json(body)
    if not isinstance(found, dict):
        raise errors.RegistryError(errors.UNPROCESSABLE, "The body has to be a JSON object.")
    for name in found:
        if name not in known:
            shown = f"Unrecognized field: {name[:SHOWN_CHARACTERS]}"
            raise errors.RegistryError(errors.UNPROCESSABLE, shown)
    return found


def unprocessable(error: BadFieldError) -> errors.RegistryError:
    """Convert the error about a field of the wrong type to a registry error."""
    return errors.RegistryError(errors.UNPROCESSABLE, str(error))
