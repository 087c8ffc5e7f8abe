"""Requests and responses as values. A service gets a request and returns a response.

A request has its whole body, because routes limit its size. Only a streaming route gets ``pieces``
instead. A response has its whole body, or makes it piece by piece. Header names are in lower case.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's principal of a client without a login."""
PLAIN_TEXT = "text/plain; charset=utf-8"


def hold_nothing(_size_bytes: int) -> None:
    """Do nothing, because the whole body of the request is counted already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request.

    ``path`` is as the client sent it, percent-encoded and without the query. ``path_values`` has
    the decoded values of the route's placeholders. ``query`` has decoded pairs in their order.
    Values of a repeated header are joined by commas. ``principal`` is Kafka's text, such as
    ``User:ann``. ``peer`` is the client's address. ``pieces`` is the body of a streaming route, and
    can be read once. The handler of a streaming route calls ``hold_bytes`` with the number of the
    body's bytes that are in memory now. The call raises HttpError if there are too many.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    path_values: Mapping[str, str] = field(default_factory=dict)
    principal: str = ANONYMOUS
    peer: str = ""
    pieces: AsyncIterator[bytes] | None = None
    hold_bytes: Callable[[int], None] = hold_nothing

    def query_value(self, name: str) -> str | None:
        """Return the first value of a query parameter, or None without one."""
        return next((value for key, value in self.query if key == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """One response. ``body`` is bytes, or an iterator of pieces that are sent as chunks.

    The server requests a piece from the iterator once the piece before was sent. It closes the
    iterator when the client leaves.
    """

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, eq=False)
class HttpError(Exception):
    """A refused request. The service decides the format of the response.

    ``status`` is HTTP's. ``headers`` are added to the response.
    """

    status: int
    text: str
    headers: tuple[tuple[str, str], ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.status}: {self.text}"


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]


def plain_error(error: HttpError) -> HttpResponse:
    """Return the response to a refused request as a line of plain text."""
    text = f"{error.text}\n".encode()
    return HttpResponse(
        status=error.status, body=text, content_type=PLAIN_TEXT, headers=error.headers
    )
