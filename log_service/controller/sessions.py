"""What the active controller knows of brokers and no log holds: when each was heard of, how far it is, and whether it is leaving.

Decides when a session ends. A session begins with the first heartbeat of a broker's epoch, not with its registration, and lasts
``timeout_ms`` from the last one. A new controller presumes that every broker which is not fenced is there, and gives it one session to be
heard of. Knows no clock and makes no record.

Invariants: a broker has at most one session, that of its newest epoch; what a refused decision has changed is taken back with it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from sys import maxsize
from typing import Any

from log_service.common.types import BrokerEpoch, NodeId
from log_service.state_machine.decision import Decision

UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSession:
    """One broker: ``contact_ms`` is when it was heard of (None: not since it registered), ``metadata_offset`` how far it was then.

    ``leaves_at`` is the metadata offset that the others have to reach before it may stop; -1 while it is not leaving. ``is_presumed`` says
    that this controller has not heard of it itself, or has reason to think that it is gone, and has not heard of it since.
    """

    epoch: BrokerEpoch
    contact_ms: int | None = None
    metadata_offset: int = UNKNOWN_OFFSET
    leaves_at: int = UNKNOWN_OFFSET
    is_presumed: bool = False

    @property
    def is_leaving(self) -> bool:
        """Whether the broker is in a controlled shutdown that this controller has begun."""
        return self.leaves_at != UNKNOWN_OFFSET


class BrokerSessions:
    """The sessions of all brokers."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[NodeId, BrokerSession] = {}

    def __repr__(self) -> str:
        return f"<BrokerSessions {len(self._sessions)}>"

    def get(self, node_id: NodeId, epoch: BrokerEpoch) -> BrokerSession:
        """Return what is known of a broker in its epoch."""
        session = self._sessions.get(node_id)
        return session if session is not None and session.epoch == epoch else BrokerSession(epoch=epoch)

    def is_live(self, node_id: NodeId, epoch: BrokerEpoch, now_ms: int) -> bool:
        """Whether a broker was heard of in time."""
        contact_ms = self.get(node_id, epoch).contact_ms
        return contact_ms is not None and now_ms - contact_ms < self.timeout_ms

    def end_ms(self, node_id: NodeId) -> int | None:
        """Return when the session of a broker is over unless it is heard of again; None where it has none."""
        session = self._sessions.get(node_id)
        return None if session is None or session.contact_ms is None else session.contact_ms + self.timeout_ms

    def lowest_offset(self, active: Iterable[tuple[NodeId, BrokerEpoch]]) -> int:
        """Return how far the furthest behind of those brokers is, leaving ones left out; more than any offset where there is none."""
        sessions = (self.get(node_id, epoch) for node_id, epoch in active)
        return min((session.metadata_offset for session in sessions if not session.is_leaving), default=maxsize)

    def presumed(self) -> frozenset[NodeId]:
        """Return the brokers whose sessions are only presumed."""
        return frozenset(node_id for node_id, session in self._sessions.items() if session.is_presumed)

    def put(self, node_id: NodeId, session: BrokerSession, decision: Decision[Any]) -> None:
        """Know this of a broker, unless the decision is refused."""
        before = self._sessions.get(node_id)
        self._sessions[node_id] = session
        decision.on_refused(lambda: self._restore(node_id, before))

    def forget(self, node_id: NodeId, decision: Decision[Any]) -> None:
        """End the session of a broker, unless the decision is refused."""
        before = self._sessions.pop(node_id, None)
        decision.on_refused(lambda: self._restore(node_id, before))

    def hear_of(self, node_id: NodeId, epoch: BrokerEpoch, decision: Decision[Any], *, metadata_offset: int, leaves_at: int) -> None:
        """Begin or renew the session of a broker."""
        session = BrokerSession(epoch=epoch, contact_ms=decision.now_ms, metadata_offset=metadata_offset, leaves_at=leaves_at)
        self.put(node_id, session, decision)

    def _restore(self, node_id: NodeId, before: BrokerSession | None) -> None:
        self._sessions.pop(node_id, None)
        if before is not None:
            self._sessions[node_id] = before
