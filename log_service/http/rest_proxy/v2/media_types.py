"""The media types of version 2, which name the format of keys and values.

``application/vnd.kafka.json.v2+json`` is JSON with keys and values in the format ``json``. A type
that names no format is ``binary`` in a request, and the consumer's own format in ``Accept``.
"""

from types import MappingProxyType
from typing import Final

from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.formats import FORMATS
from log_service.http.server.negotiation import best_media_type, parse_media_type
from log_service.http.server.values import HttpRequest

VERSIONS: Final = (".v2", ".v1", "")
"""The versions in accepted media types.

Version 1 has the same bodies, and old clients name it or no version.
"""
PLAIN_TYPES: Final = (
    "application/vnd.kafka.v2+json",
    "application/vnd.kafka.v1+json",
    "application/vnd.kafka+json",
    "application/json",
)
"""The types of responses without records, the best one first."""
UNNAMED_TYPES: Final = (*PLAIN_TYPES, "application/octet-stream")
FORMAT_OF: Final = MappingProxyType(
    {f"application/vnd.kafka.{name}{each}+json": name for each in VERSIONS for name in FORMATS}
)


def content_type_of(request: HttpRequest) -> str:
    """Return the media type of a response without records.

    Raises:
        RestError: 406, the client accepts no type of version 2.
    """
    offered = (*PLAIN_TYPES, *FORMAT_OF)
    found = best_media_type(request.headers.get("accept"), offered)
    if found is None:
        raise RestError(406, "HTTP 406 Not Acceptable: ask for application/vnd.kafka.v2+json")
    return found


def refusal_type_of(request: HttpRequest) -> str:
    """Return the media type of an error response.

    If the client accepts no type of version 2, return the default one.
    """
    return best_media_type(request.headers.get("accept"), PLAIN_TYPES) or PLAIN_TYPES[0]


def require_json(request: HttpRequest) -> None:
    """Refuse a body whose media type does not belong to version 2.

    Raises:
        RestError: 415, the type does not belong to version 2.
    """
    if request.body:
        format_of_body(request)


def format_of_body(request: HttpRequest) -> str:
    """Return the format of the records in a body.

    Raises:
        RestError: 415, the type does not belong to version 2.
    """
    name = _content_type(request)
    found = "binary" if name in {None, *UNNAMED_TYPES} else FORMAT_OF.get(name or "")
    if found is None:
        advice = "application/vnd.kafka.json.v2+json or another type of version 2"
        raise RestError(415, f"HTTP 415 Unsupported Media Type: the body has to be {advice}")
    return found


def is_format_named(request: HttpRequest) -> bool:
    """Return whether the media type of a body names a format. Without one it is ``binary``."""
    return _content_type(request) in FORMAT_OF


def _content_type(request: HttpRequest) -> str | None:
    """Return the media type of a body, None if it has none, and "" if it is malformed."""
    text = request.headers.get("content-type")
    if text is None:
        return None
    media_type = parse_media_type(text)
    return "" if media_type is None else media_type.name


def type_of_records(request: HttpRequest, own: str) -> str:
    """Return the media type of a response with records. ``own`` is the format of the consumer.

    Raises:
        RestError: 40601, ``Accept`` names another format. 406, it names no type of version 2.
    """
    accept = request.headers.get("accept")
    offered = [f"application/vnd.kafka.{own}{version}+json" for version in VERSIONS]
    found = best_media_type(accept, [*offered, *PLAIN_TYPES])
    if found is not None:
        return found
    other = best_media_type(accept, tuple(FORMAT_OF))
    if other is not None:
        raise errors.format_mismatch(FORMAT_OF[other], own)
    raise RestError(406, f"HTTP 406 Not Acceptable: ask for {offered[0]}")
