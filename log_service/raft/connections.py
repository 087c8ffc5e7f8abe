"""Decides which peer may be sent to. Each has one request at a time, with a pause after a failure.

Decides readiness from times that are handed in. Invariant: a response counts only while its request is the one under way; a change of role
forgets all of them.
"""

from dataclasses import dataclass

from log_service.common.types import NodeId


@dataclass(slots=True)
class _Connection:
    request_id: int | None
    busy_until_ms: int


class Connections:
    """The peers that are not ready."""

    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._busy: dict[NodeId, _Connection] = {}
        self._last_id = 0

    def __repr__(self) -> str:
        return f"<Connections {self._busy}>"

    def ready_at(self, peer_id: NodeId, now_ms: int) -> int:
        """Return when a peer may be sent to; ``now_ms`` where it may at once."""
        connection = self._busy.get(peer_id)
        return now_ms if connection is None else max(now_ms, connection.busy_until_ms)

    def send(self, peer_id: NodeId, now_ms: int) -> int:
        """Begin a request to a peer that is ready, and return its id."""
        self._last_id += 1
        self._busy[peer_id] = _Connection(self._last_id, now_ms + self._request_timeout_ms)
        return self._last_id

    def is_expected(self, peer_id: NodeId, request_id: int) -> bool:
        """Whether that request is the one under way."""
        connection = self._busy.get(peer_id)
        return connection is not None and connection.request_id == request_id

    def end(self, peer_id: NodeId, request_id: int, now_ms: int, *, is_well: bool) -> None:
        """End a request, if it still is under way; after a failure the peer rests."""
        if not self.is_expected(peer_id, request_id):
            return
        if is_well:
            del self._busy[peer_id]
        else:
            self._busy[peer_id] = _Connection(None, now_ms + self._retry_backoff_ms)

    def rest(self, peer_id: NodeId, now_ms: int) -> None:
        """Send nothing to a peer for the time of a retry."""
        self._busy[peer_id] = _Connection(None, now_ms + self._retry_backoff_ms)

    def is_resting(self, peer_id: NodeId, now_ms: int) -> bool:
        """Whether the last request to a peer failed just now."""
        connection = self._busy.get(peer_id)
        return connection is not None and connection.request_id is None and now_ms < connection.busy_until_ms

    def is_timed_out(self, peer_id: NodeId, now_ms: int) -> bool:
        """Whether a request to a peer is under way for longer than a request may take."""
        connection = self._busy.get(peer_id)
        return connection is not None and connection.request_id is not None and now_ms >= connection.busy_until_ms

    def is_any_under_way(self, now_ms: int) -> bool:
        """Whether any request is under way and not timed out."""
        return any(each.request_id is not None and now_ms < each.busy_until_ms for each in self._busy.values())

    def next_change_ms(self, now_ms: int) -> int | None:
        """Return when the next peer becomes ready; None where all are."""
        return min((each.busy_until_ms for each in self._busy.values() if each.busy_until_ms > now_ms), default=None)

    def forget(self, peer_id: NodeId | None = None) -> None:
        """Forget a peer's request, or all of them: their responses come too late."""
        if peer_id is None:
            self._busy.clear()
        else:
            self._busy.pop(peer_id, None)
