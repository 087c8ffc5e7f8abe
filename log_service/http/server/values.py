"""Requests and responses as values. Services handle the first and return the second.

A request comes with its whole body, because routes bound its size. A response has its whole body,
or makes it piece by piece. Header names are in lower case.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

EMPTY: Mapping[str, str] = MappingProxyType({})
ANONYMOUS = "User:ANONYMOUS"
"""Kafka's principal of a client without a login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request.

    ``path`` is as the client sent it, percent-encoded and without the query. ``path_values`` has
    the decoded values of the route's placeholders. ``query`` has decoded pairs in their order.
    ``principal`` is Kafka's text, such as ``User:ann``. ``peer`` is the client's address.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    body: bytes = b""
    path_values: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    principal: str = ANONYMOUS
    peer: str = ""

    def query_value(self, name: str) -> str | None:
        """Return the first value of a query parameter, or None without one."""
        return next((value for key, value in self.query if key == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """One response. ``body`` is bytes, or an iterator of pieces that are sent as chunks."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class HttpError(Exception):
    """A refused request. The service decides how its body looks.

    ``status`` is HTTP's. ``headers`` are added to the response.
    """

    status: int
    text: str
    headers: tuple[tuple[str, str], ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.status}: {self.text}"


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]
