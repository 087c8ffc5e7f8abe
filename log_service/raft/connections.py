"""Decide which peers may be sent a request. Each peer has one request at a time.

After a failure, a peer gets no requests for a while. The caller passes in the time.

Invariants: A response counts only while its request is in flight. After a change of role, responses
to earlier requests no longer count.
"""

from dataclasses import dataclass

from log_service.common.types import NodeId


@dataclass(slots=True)
class _Connection:
    request_id: int | None
    busy_until_ms: int


class Connections:
    """The peers that may not be sent a request now."""

    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._busy: dict[NodeId, _Connection] = {}
        self._last_id = 0

    def __repr__(self) -> str:
        return f"<Connections {self._busy}>"

    def ready_at(self, peer_id: NodeId, now_ms: int) -> int:
        """Return when a request to a peer may be sent, or ``now_ms`` if it may be sent now."""
        connection = self._busy.get(peer_id)
        return now_ms if connection is None else max(now_ms, connection.busy_until_ms)

    def send(self, peer_id: NodeId, now_ms: int) -> int:
        """Mark a request to a ready peer as in flight, and return the id of the request."""
        self._last_id += 1
        self._busy[peer_id] = _Connection(self._last_id, now_ms + self._request_timeout_ms)
        return self._last_id

    def is_expected(self, peer_id: NodeId, request_id: int) -> bool:
        """Whether this request to a peer is in flight."""
        connection = self._busy.get(peer_id)
        return connection is not None and connection.request_id == request_id

    def end(self, peer_id: NodeId, request_id: int, now_ms: int, *, is_well: bool) -> None:
        """End a request, if it is in flight.

        After a failure, the peer gets no requests for a while.
        """
        if not self.is_expected(peer_id, request_id):
            return
        if is_well:
            del self._busy[peer_id]
        else:
            self._busy[peer_id] = _Connection(None, now_ms + self._retry_backoff_ms)

    def rest(self, peer_id: NodeId, now_ms: int) -> None:
        """Send no requests to a peer during the retry backoff."""
        self._busy[peer_id] = _Connection(None, now_ms + self._retry_backoff_ms)

    def is_resting(self, peer_id: NodeId, now_ms: int) -> bool:
        """Whether the last request to a peer failed within the retry backoff."""
        connection = self._busy.get(peer_id)
        return (
            connection is not None
            and connection.request_id is None
            and now_ms < connection.busy_until_ms
        )

    def is_timed_out(self, peer_id: NodeId, now_ms: int) -> bool:
        """Whether a request to a peer has been in flight for longer than the request timeout."""
        connection = self._busy.get(peer_id)
        return (
            connection is not None
            and connection.request_id is not None
            and now_ms >= connection.busy_until_ms
        )

    def is_any_under_way(self, now_ms: int) -> bool:
        """Whether any request is in flight and has not timed out."""
        return any(
            each.request_id is not None and now_ms < each.busy_until_ms
            for each in self._busy.values()
        )

    def next_change_ms(self, now_ms: int) -> int | None:
        """Return when the next peer that is not ready becomes ready, or None if all are ready."""
        return min(
            (each.busy_until_ms for each in self._busy.values() if each.busy_until_ms > now_ms),
            default=None,
        )

    def forget(self, peer_id: NodeId | None = None) -> None:
        """Forget the request to a peer, or all requests. Their responses no longer count."""
        if peer_id is None:
            self._busy.clear()
        else:
            self._busy.pop(peer_id, None)
