"""A service as the server sees it: its routes, its logins, and the look of its errors."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from log_service.http.server.routes import Router
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse, plain_error

Authenticate = Callable[[HttpRequest], Awaitable[str]]
"""Return the principal of a request, which comes without its body.

The principal of the request is that of the client's certificate, if it has one. Raises HttpError to
refuse the request.
"""
NoteResponse = Callable[[str, str, int, int], None]
"""Count a response by method, path of the route, status, and its duration in nanoseconds.

The path is empty if no route was found. The status is 499 if the client left before.
"""


def ignore_response(_method: str, _path: str, _status: int, _duration_ns: int) -> None:
    """Count nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """One service. Without ``authenticate`` certificates alone name clients.

    ``host_names`` are names by which clients may reach a listener on a loopback address. A proxy
    on the same machine may pass them on. ``is_host_checked`` asks for known names on all addresses,
    because requests need no login, and a page could reach the service by a name of its own.
    """

    router: Router
    authenticate: Authenticate | None = None
    error_response: Callable[[HttpError], HttpResponse] = plain_error
    note_response: NoteResponse = ignore_response
    host_names: frozenset[str] = frozenset()
    is_host_checked: bool = False
