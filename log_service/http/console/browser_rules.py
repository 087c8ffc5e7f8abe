"""The rules between the console and a browser: headers, cookies, and the origin of a change.

A page may load scripts and styles only from the console, and may not contain any itself. No other
page may frame it. A change needs an ``Origin`` with the host of the request. Referrer-Policy is
``same-origin`` because ``no-referrer`` makes browsers send ``Origin: null`` with forms.
"""

from collections.abc import Mapping

from log_service.http.server.values import HttpError

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
)
"""On each response. The server adds ``nosniff``."""
PAGE_HEADERS = (*SECURITY_HEADERS, ("cache-control", "no-store"))
MAX_COOKIE_CHARACTERS = 4_096


def cookie_name(port: int, *, is_secure: bool) -> str:
    """Return the name of the session's cookie.

    A browser sends cookies to all ports of a host, so the name contains the port. With the prefix
    ``__Host-`` a browser takes the cookie over TLS alone, and from no other host of the domain.
    """
    return f"{'__Host-' if is_secure else ''}tidelog_console_{port}"


def cookie_of(headers: Mapping[str, str], name: str) -> str:
    """Return the value of a cookie, empty without it."""
    for part in headers.get("cookie", "")[:MAX_COOKIE_CHARACTERS].split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""


def set_cookie(name: str, value: str, *, is_secure: bool) -> tuple[str, str]:
    """Return a ``Set-Cookie`` header. The browser keeps the cookie until it closes.

    An empty ``value`` deletes the cookie.
    """
    parts = [f"{name}={value}", "Path=/", "HttpOnly", "SameSite=Strict"]
    return "set-cookie", "; ".join(
        [*parts, *(["Secure"] if is_secure else []), *([] if value else ["Max-Age=0"])]
    )


def require_own_origin(headers: Mapping[str, str]) -> None:
    """Refuse a change that does not come from a page of this console.

    Raises:
        HttpError: 403, the ``Origin`` is missing, or is not the host of the request.
    """
    origin, host = headers.get("origin", ""), headers.get("host", "")
    scheme, _, named = origin.lower().partition("://")
    if scheme not in {"http", "https"} or not host or named != host.lower():
        raise HttpError(403, "this change does not come from a page of the console: open it again")


def safe_path(path: str) -> str:
    """Return ``path`` if it is a path of the console, and ``/`` for anything else.

    A browser goes to this path after the login. It must not lead to another host.
    """
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and "\\" not in path
    return path if is_own and path.isascii() and path.isprintable() and len(path) < 2_048 else "/"
