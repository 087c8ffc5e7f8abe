"""Heads of requests and responses: h11's events become values, and values become h11's events.

h11 refuses most broken heads: lengths that contradict each other, codings other than chunked,
spaces in names, a missing or second Host. This module refuses all others that two programs could
read in two ways, and everything beyond the bounds. Nothing here waits.
"""

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl

import h11

from log_service.http.server.limits import HttpLimits
from log_service.http.server.values import HttpError
from log_service.metrics.http_page import is_local_name

VERSIONS = (b"1.1", b"1.0")
REASONS = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}
WITHOUT_BODY = frozenset({204, 304})
SCHEMES = ("http://", "https://")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Target(NamedTuple):
    """The parts of a request's target, still percent-encoded.

    ``host`` is empty if the target is only a path, as usual.
    """

    host: str
    path: str
    query: str


class RequestHead(NamedTuple):
    """The head of a request that is within the bounds. Its fields are those of ``HttpRequest``."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]

    @property
    def declared_bytes(self) -> int:
        """Return the declared length of the body, 0 without one."""
        return int(self.headers.get("content-length", "0"))


def head_of(event: h11.Request, limits: HttpLimits) -> RequestHead:
    """Return the head of a request from h11's event.

    Raises:
        HttpError: the head is beyond a bound, or two programs could read it in two ways.
    """
    if event.http_version not in VERSIONS:
        raise HttpError(505, "this server speaks HTTP/1.1")
    if len(event.target) > limits.max_target_bytes:
        raise HttpError(414, f"a target has at most {limits.max_target_bytes} bytes")
    headers = _headers(event, limits)
    is_coded = "transfer-encoding" in headers
    if is_coded and ("content-length" in headers or event.http_version == b"1.0"):
        raise HttpError(400, "Transfer-Encoding stands beside Content-Length or HTTP/1.0")
    method = event.method.decode("ascii")
    host, path, query = parse_target(event.target.decode("ascii"), method)
    if host:
        headers["host"] = host
    pairs = _pairs(query, limits.max_query_pair_count) if query else ()
    return RequestHead(method, path, pairs, headers)


def parse_target(text: str, method: str) -> Target:
    """Return the parts of a target (RFC 9112, 3.2).

    Raises:
        HttpError: the target is neither a path, nor a URL with a path, nor the ``*`` of OPTIONS.
    """
    host = ""
    if text.lower().startswith(SCHEMES):
        host, slash, rest = text.partition("://")[2].partition("/")
        text = slash + rest or "/"
    if not text.startswith("/") and not (text == "*" and method == "OPTIONS"):
        raise HttpError(400, "the target of a request is a path")
    path, _, query = text.partition("?")
    return Target(host, path, query)


def require_known_host(
    headers: Mapping[str, str], host_names: Collection[str], *, is_loopback: bool
) -> None:
    """Refuse a request to an unknown host name, to prevent DNS rebinding.

    An attacker's DNS could let such a name point to this address. On addresses other than loopback,
    a name without a dot is accepted, too. The DNS of the internet has no such names, and containers
    are called by them.

    Raises:
        HttpError: 421, the host is not an address, not localhost, and none of ``host_names``.
    """
    host = headers.get("host", "").lower()
    name = host.partition(":")[0]
    if is_local_name(host) or name in host_names:
        return
    if is_loopback:
        raise HttpError(421, "requests to a loopback address have an address or localhost as Host")
    if "." in name:
        advice = "ask by its address, or add the name to host.names"
        raise HttpError(421, f"{name[:200]} is not a known name of this service: {advice}")


def refuse_foreign_page(
    head: RequestHead, host_names: Collection[str], *, is_loopback: bool
) -> None:
    """Refuse a change that a page of another site makes a browser send (request forgery).

    A browser sends some kinds of POST without a CORS preflight, and adds logins that it knows. It
    names the page's origin, which other programs do not. A page may come from one of
    ``host_names``. On a loopback address it may also be local. Elsewhere it may also come from the
    request's ``Host``, or have ``Sec-Fetch-Site: same-origin``, because a reverse proxy may have
    changed the host.

    Raises:
        HttpError: 403, the page is of another site.
    """
    if head.method in SAFE_METHODS:
        return
    site = head.headers.get("sec-fetch-site", "").lower()
    origin = head.headers.get("origin")
    host = "" if origin is None else origin.lower().rpartition("://")[2]
    is_own = host.partition(":")[0] in host_names or (
        is_local_name(host)
        if is_loopback
        else host == head.headers.get("host", "").lower() or site == "same-origin"
    )
    if site == "cross-site" or (origin is not None and not is_own):
        raise HttpError(403, "a page of another site may change nothing here")


class ResponseHead(NamedTuple):
    """The head of a response. ``body_bytes`` is None if the length is not known yet.

    ``is_last`` tells the client that the connection ends after the response.
    """

    status: int
    content_type: str
    body_bytes: int | None
    headers: tuple[tuple[str, str], ...]
    date: str
    is_last: bool


def response_event(head: ResponseHead) -> h11.Response:
    """Return the head of a response as h11's event.

    Raises:
        h11.LocalProtocolError: the status or a header is not valid.
    """
    headers = [("date", head.date), ("x-content-type-options", "nosniff"), *head.headers]
    if head.content_type:
        headers.append(("content-type", head.content_type))
    if head.body_bytes is not None and head.status not in WITHOUT_BODY:
        headers.append(("content-length", str(head.body_bytes)))
    if head.is_last:
        headers.append(("connection", "close"))
    reason = REASONS.get(head.status, b"")
    return h11.Response(status_code=head.status, headers=headers, reason=reason)


def _headers(event: h11.Request, limits: HttpLimits) -> dict[str, str]:
    found: dict[str, str] = {}
    size_bytes = len(event.target)
    for name, value in event.headers:
        key, text = name.decode("ascii"), value.decode("latin-1")
        size_bytes += len(key) + len(text)
        separator = "; " if key == "cookie" else ", "
        found[key] = f"{found[key]}{separator}{text}" if key in found else text
    if len(event.headers) > limits.max_header_count or size_bytes > limits.max_head_bytes:
        bounds = f"{limits.max_header_count} headers and {limits.max_head_bytes} bytes"
        raise HttpError(431, f"a request has at most {bounds}")
    return found


def _pairs(query: str, max_count: int) -> tuple[tuple[str, str], ...]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=max_count)
    except ValueError as error:
        raise HttpError(400, f"a query is UTF-8 and has at most {max_count} pairs") from error
    return tuple(pairs)
