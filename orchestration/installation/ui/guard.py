"""Refuses requests to Dagster's UI that a page of another site makes in a user's browser.

Dagster checks neither ``Host`` nor ``Origin``, and its GraphQL takes mutations by GET. So any page
that a user visits could launch runs. ``refusal`` decides, and ``GuardedUi`` applies the decision
before the application gets the request.
Invariants: each request names an allowed host. A request from a page of another site passes only
if it opens a page. Only a POST of JSON changes anything. A browser sends such a POST to another
site only after a preflight request (CORS), which Dagster never grants.
"""

from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from log_service.common.addresses import plain_address
from orchestration.settings import UI_HOSTS

GRAPHQL = "/graphql"
FORM_TYPE = "application/x-www-form-urlencoded"
FRAME_ANCESTORS = "frame-ancestors 'self'"
PAGE_TYPES = ("text/html", "text/plain", "application/json", "application/gzip")
POLICY_VIOLATION = 1008
DEFAULT_PORTS = {"http": ":80", "ws": ":80", "https": ":443", "wss": ":443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why a request is refused, and the HTTP status of the response."""

    status: int
    reason: str


def refusal(
    scope: Scope, allowed_hosts: Collection[str], form_paths: Collection[str] = ()
) -> Refusal | None:
    """Return why the request of ``scope`` is refused, or None if it may pass.

    ``form_paths`` are paths that accept forms from pages of this site.
    """
    headers = Headers(scope=scope)
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or not is_allowed_host(hosts[0], scope.get("server"), allowed_hosts):
        return Refusal(
            status=421,
            reason=f"The host {', '.join(hosts)!r} is not allowed: name it in {UI_HOSTS}.",
        )
    if any(not is_same_origin(origin, hosts[0]) for origin in origins):
        return Refusal(
            status=403,
            reason=f"The origin {', '.join(origins)!r} is another site's: open the UI itself.",
        )
    if not is_of_this_site(scope, headers):
        return Refusal(status=403, reason="Another site made this request: open the UI itself.")
    if scope["type"] == "websocket":
        return None
    return (
        _refused_form(scope, headers)
        if scope["path"] in form_paths
        else _refused_method(scope, headers)
    )


def _refused_form(scope: Scope, headers: Headers) -> Refusal | None:
    if scope["method"] in {"GET", "HEAD"}:
        return None
    if scope["method"] != "POST":
        return Refusal(
            status=405, reason=f"The method {scope['method']} is not served: use GET or POST."
        )
    if "origin" not in headers and "sec-fetch-site" not in headers:
        return Refusal(
            status=403,
            reason="A form needs the header Origin, which says that it is a page's of this site.",
        )
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        return Refusal(status=415, reason=f"The content type of a form is {FORM_TYPE}.")
    return None


def _refused_method(scope: Scope, headers: Headers) -> Refusal | None:
    if scope["method"] in {"GET", "HEAD"}:
        if scope["path"].endswith(GRAPHQL) and "text/html" not in headers.get("accept", ""):
            return Refusal(status=405, reason="GraphQL is served by POST: send the query as JSON.")
        return None
    if scope["method"] != "POST":
        return Refusal(
            status=405, reason=f"The method {scope['method']} is not served: use GET or POST."
        )
    content_type = headers.get("content-type", "")
    if content_type.partition(";")[0].strip() != "application/json":
        # In small letters: else Dagster reads the query from the address.
        return Refusal(
            status=415,
            reason=f"The content type {content_type!r} is refused: send application/json.",
        )
    return None


def is_allowed_host(
    host: str, server: tuple[str, int | None] | None, allowed_hosts: Collection[str]
) -> bool:
    """Return whether ``host`` is the address of the server's socket, or one of ``allowed_hosts``.

    A name that an attacker's DNS resolves to this address is not allowed.
    """
    name = host_name(host)
    dialled = "" if server is None else plain_address(server[0])
    is_loopback = dialled.startswith("127.") or dialled == "::1"
    return (
        name in allowed_hosts
        or (name != "" and name == dialled)
        or (is_loopback and name == "localhost")
    )


def host_name(host: str) -> str:
    """Return the name or address of a ``Host`` header, without its port."""
    text = host.strip().lower()
    if text.startswith("["):
        return plain_address(text[1:].partition("]")[0])
    return plain_address(text if text.count(":") > 1 else text.partition(":")[0])


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether ``origin`` is the site of ``host``.

    The scheme is ignored, because a proxy may add TLS.
    """
    scheme, separator, authority = origin.strip().lower().partition("://")
    port = DEFAULT_PORTS.get(scheme)
    if not separator or port is None:
        return False
    return authority.removesuffix(port) == host.strip().lower().removesuffix(port)


def is_of_this_site(scope: Scope, headers: Headers) -> bool:
    """Return whether a request is of this site, or only follows another site's link to a page."""
    if headers.get("sec-fetch-site", "none") in {"none", "same-origin"}:
        return True
    is_link = (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
    return (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and is_link
        and not scope["path"].endswith(GRAPHQL)
    )


def add_security_headers(headers: MutableHeaders) -> None:
    """Add the headers that keep a response from other sites' frames, scripts and caches."""
    given = headers.get("content-security-policy", "").rstrip("; ")
    headers["content-security-policy"] = f"{given}; {FRAME_ANCESTORS}" if given else FRAME_ANCESTORS
    headers["x-frame-options"] = "SAMEORIGIN"
    headers["x-content-type-options"] = "nosniff"
    headers["referrer-policy"] = "same-origin"
    headers["cross-origin-resource-policy"] = "same-origin"
    if headers.get("content-type", "").startswith(PAGE_TYPES):
        headers["cache-control"] = "no-store"


class GuardedUi:
    """ASGI application that serves requests which ``refusal`` accepts, with security headers."""

    def __init__(
        self, app: ASGIApp, allowed_hosts: Collection[str], form_paths: Collection[str] = ()
    ) -> None:
        self.app = app
        self.form_paths = frozenset(form_paths)
        self.allowed_hosts = frozenset(host_name(host) for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] not in {"http", "websocket"}:  # the application's start and stop
            await self.app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                add_security_headers(MutableHeaders(scope=message))
            await send(message)

        refused = refusal(scope, self.allowed_hosts, self.form_paths)
        if refused is None:
            await self.app(scope, receive, send_protected)
        elif scope["type"] == "websocket":
            await send(
                {
                    "type": "websocket.close",
                    "code": POLICY_VIOLATION,
                    "reason": refused.reason[:120],
                }
            )
        else:
            response = PlainTextResponse(refused.reason + "\n", status_code=refused.status)
            await response(scope, receive, send_protected)
