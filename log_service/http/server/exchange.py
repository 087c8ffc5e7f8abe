"""One request and its response so far: its counts, and the bounds of its body.

Nothing here waits. The connection reports to an exchange the bytes that it received and sent.
"""

from dataclasses import dataclass
from typing import Final

from log_service.http.server.heads import RequestHead
from log_service.http.server.limits import HttpLimits
from log_service.http.server.routes import Route
from log_service.http.server.values import HttpError

LEFT: Final = 499
"""The status in metrics of a request whose client left before its response."""
FREE_CHUNK_COUNT: Final = 256
MIN_CHUNK_BYTES: Final = 32
"""The mean size of a body's chunks beyond ``FREE_CHUNK_COUNT``.

Smaller ones cost too much time per byte.
"""
MAX_DISCARDED_BYTES: Final = 64 << 10
"""If the unread rest of a body is longer, the connection ends."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request. ``head`` is None if the request was refused, ``route`` until it is found.

    ``held_bytes`` is the part of the body that counts against the server's memory.
    """

    method: bytes = b""
    head: RequestHead | None = None
    route: Route | None = None
    began_ns: int | None = None
    is_open: bool = False
    """Whether it counts against the open requests of the server."""
    status: int = LEFT
    body_bytes: int = 0
    held_bytes: int = 0
    chunk_count: int = 0

    @property
    def is_streamed(self) -> bool:
        """Whether the handler reads the body piece by piece."""
        return self.route is not None and self.route.is_streamed

    @property
    def is_head(self) -> bool:
        """Whether the response has no body, because the client asked only for its head."""
        return self.method == b"HEAD"

    @property
    def is_rest_long(self) -> bool:
        """Whether the unread rest of the body may be too long to read and drop."""
        if self.head is None or "transfer-encoding" in self.head.headers:
            return True
        return self.head.declared_bytes - self.body_bytes > MAX_DISCARDED_BYTES

    def max_body_bytes(self, limits: HttpLimits) -> int | None:
        """Return the longest allowed body in bytes, None if its length is not bounded."""
        own = None if self.route is None else self.route.max_body_bytes
        return own if own is not None or self.is_streamed else limits.max_body_bytes

    def check_declared(self, limit: int | None) -> None:
        """Refuse a body whose declared length is over ``limit``.

        Raises:
            HttpError: 413, the body is too long.
        """
        if limit is not None and self.head is not None and self.head.declared_bytes > limit:
            raise _too_long(limit)

    def add_piece(self, size_bytes: int, limit: int | None, *, is_chunk_start: bool) -> None:
        """Count a piece of the body, of which ``limit`` bytes are allowed.

        Raises:
            HttpError: 413, the body is longer than the limit. 400, its chunks are too small.
        """
        self.body_bytes += size_bytes
        self.chunk_count += is_chunk_start
        if limit is not None and self.body_bytes > limit:
            raise _too_long(limit)
        if self.chunk_count > max(FREE_CHUNK_COUNT, self.body_bytes // MIN_CHUNK_BYTES):
            raise HttpError(400, "the chunks of the body are too small")


def _too_long(limit: int) -> HttpError:
    return HttpError(413, f"the body of this request has at most {limit} bytes")
