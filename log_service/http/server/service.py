"""A service as the server sees it: its routes, its logins, and the format of its errors."""

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
    """Do nothing. It is the default of ``HttpService.note_response``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """One service. Without ``authenticate`` only certificates identify clients.

    ``host_names`` are names by which clients may reach a listener on a loopback address, for
    example through a proxy on the same machine. With ``is_host_checked`` the names are checked on
    all addresses. That is for services without logins, because a page of another site could reach
    them by a name of its own.
    """

    router: Router
    authenticate: Authenticate | None = None
    error_response: Callable[[HttpError], HttpResponse] = plain_error
    note_response: NoteResponse = ignore_response
    host_names: frozenset[str] = frozenset()
    is_host_checked: bool = False
