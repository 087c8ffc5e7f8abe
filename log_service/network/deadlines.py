"""Deadlines of a connection, for incomplete frames, unread responses and idleness.

``ConnectionWatch`` compares a connection's counters at two sweeps, so that deadlines cost nothing
when a frame is handled. A counter that has not moved since a sweep means a wait that began at or
after that sweep. Hence a deadline fires at most one sweep interval late and never early. The module
reads no clock and closes nothing.
"""

from dataclasses import dataclass
from typing import Protocol

from log_service.config.views import NetworkLimits

SWEEPS_PER_DEADLINE = 8
MIN_SWEEP_INTERVAL_MS = 10


def sweep_interval_ms(limits: NetworkLimits) -> int:
    """Return the interval between sweeps, an eighth of the shortest deadline."""
    shortest_ms = min(limits.frame_deadline_ms, limits.idle_timeout_ms, limits.login_deadline_ms)
    return max(MIN_SWEEP_INTERVAL_MS, shortest_ms // SWEEPS_PER_DEADLINE)


class Watched(Protocol):
    """The counters and flags of a connection from which its deadlines are computed.

    ``is_mid_frame`` is true while the connection waits for its peer to send the rest of a frame. It
    is false while the frame waits for memory or for its turn.
    """

    request_count: int
    bytes_received: int
    is_mid_frame: bool
    is_sending: bool

    @property
    def bytes_sent(self) -> int:
        """Number of bytes that the transport has accepted so far."""

    @property
    def is_muted(self) -> bool:
        """Whether the connection is muted, because a quota is used up."""

    @property
    def queued_response_count(self) -> int:
        """Requests that are not answered yet."""


@dataclass(slots=True)
class ConnectionWatch:
    """State of one connection at the last sweep, from which its deadlines are computed."""

    limits: NetworkLimits
    active_ms: int
    sending_ms: int | None = None
    frame_ms: int | None = None
    bytes_received: int = 0
    bytes_sent: int = 0
    request_count: int = 0

    def overdue(self, connection: Watched, now_ms: int) -> str | None:
        """Compare the counters with those of the last sweep.

        Return the reason why the connection must be closed, or None.
        """
        has_sent = connection.bytes_sent != self.bytes_sent
        has_received = connection.bytes_received != self.bytes_received
        if has_sent or has_received or connection.queued_response_count or connection.is_muted:
            self.active_ms = now_ms
        if not connection.is_sending:
            self.sending_ms = None
        elif has_sent or self.sending_ms is None:
            self.sending_ms = now_ms
        if not connection.is_mid_frame:
            self.frame_ms = None
        elif connection.request_count != self.request_count or self.frame_ms is None:
            self.frame_ms = now_ms
        self.bytes_received, self.bytes_sent = connection.bytes_received, connection.bytes_sent
        self.request_count = connection.request_count
        return self._verdict(now_ms)

    def _verdict(self, now_ms: int) -> str | None:
        deadline_ms = self.limits.frame_deadline_ms
        if self.frame_ms is not None and now_ms - self.frame_ms >= deadline_ms:
            return f"a frame was not complete after {deadline_ms} ms"
        if self.sending_ms is not None and now_ms - self.sending_ms >= deadline_ms:
            return f"the peer read nothing of its responses for {deadline_ms} ms"
        if now_ms - self.active_ms >= self.limits.idle_timeout_ms:
            return f"it was idle for {self.limits.idle_timeout_ms} ms"
        return None
