"""Counters that all connections of one server share, and their limits.

Invariant: each counted request and byte is discounted exactly once.
"""

import logging
from collections import Counter
from email.utils import formatdate
from functools import lru_cache

from log_service.common.addresses import is_loopback
from log_service.common.env import Clock
from log_service.common.quiet_log import QuietLogger
from log_service.http.server.heads import response_event
from log_service.http.server.limits import HttpLimits
from log_service.http.server.service import HttpService
from log_service.http.server.values import HttpError

MAX_REMEMBERED_HEADS = 256
LOG_WINDOW_MS = 60_000
MAX_LINES_PER_WINDOW = 20
"""Maximum for each kind of log line that clients can provoke."""

logger = logging.getLogger(__name__)


class ServerState:
    """The state of one server. ``is_stopping`` is never reset once it is set."""

    def __init__(self, clock: Clock, service: HttpService, limits: HttpLimits, host: str) -> None:
        self.clock = clock
        self.service = service
        self.limits = limits
        self.is_loopback = is_loopback(host)
        self.is_stopping = False
        self.open_request_count = 0
        self.buffered_body_bytes = 0
        self._open_counts = Counter[str]()
        self._body_bytes = Counter[str]()
        """By the address of the clients, as the one above. An address without any is not kept."""
        self.log = QuietLogger(logger, clock.monotonic_ms, LOG_WINDOW_MS, MAX_LINES_PER_WINDOW)
        self.response_event = lru_cache(MAX_REMEMBERED_HEADS)(response_event)
        """h11 takes 25 us to check a head, and many responses of a second have the same one."""
        self._date = 0, ""

    def __repr__(self) -> str:
        return f"<ServerState open_requests={self.open_request_count}>"

    def date(self) -> str:
        """Return the current time for the header ``Date``."""
        now_s = self.clock.wall_ms() // 1_000
        if now_s != self._date[0]:
            self._date = now_s, formatdate(now_s, usegmt=True)
        return self._date[1]

    def open_request(self, host: str) -> None:
        """Count a request whose response is not complete.

        Raises:
            HttpError: 503, too many requests are open, in total or of this host.
        """
        if self.open_request_count >= self.limits.max_open_request_count:
            raise self.busy("the server has too many requests at once")
        if self._open_counts[host] >= self.limits.max_open_request_count_per_host:
            raise self.busy("your address has too many requests at once")
        self.open_request_count += 1
        self._open_counts[host] += 1

    def close_request(self, host: str) -> None:
        """Discount a request that ``open_request`` has counted."""
        self.open_request_count -= 1
        _take(self._open_counts, host, 1)

    def hold_body(self, host: str, size_bytes: int) -> None:
        """Count bytes of a body as in memory.

        Raises:
            HttpError: 503, too many bytes are in memory, in total or of this host.
        """
        limits = self.limits
        if self.buffered_body_bytes + size_bytes > limits.max_buffered_body_bytes:
            raise self.busy("the server has too many bodies in memory")
        if self._body_bytes[host] + size_bytes > limits.max_buffered_body_bytes_per_host:
            raise self.busy("your address has too many bodies in memory")
        self.buffered_body_bytes += size_bytes
        self._body_bytes[host] += size_bytes

    def drop_body(self, host: str, size_bytes: int) -> None:
        """Discount bytes that ``hold_body`` has counted."""
        self.buffered_body_bytes -= size_bytes
        _take(self._body_bytes, host, size_bytes)

    def busy(self, text: str) -> HttpError:
        """Return the error 503 for a request that the client may repeat a little later."""
        return HttpError(503, text, (("retry-after", str(self.limits.retry_after_s)),))


def _take(counts: Counter[str], host: str, amount: int) -> None:
    counts[host] -= amount
    if counts[host] <= 0:
        del counts[host]
