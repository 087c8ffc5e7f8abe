"""Broker sessions of the active controller, which are only in memory.

A session has the time of the broker's last heartbeat, the broker's metadata offset, and the state
of its controlled shutdown. This file decides when a session ends. A session begins with the first
heartbeat of a broker epoch, not with the registration, and lasts ``timeout_ms`` from the last
heartbeat. A new controller presumes that every unfenced broker is alive, and gives it one session
timeout to send a heartbeat. This file reads no clock and writes no record.

Invariants: a broker has at most one session, that of its newest epoch. Changes by a refused
decision are reverted.
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
    """The session of one broker in one broker epoch.

    ``contact_ms``: time of the last heartbeat, None before the first heartbeat of the epoch.
    ``metadata_offset``: the broker's metadata offset in that heartbeat. ``leaves_at``: the metadata
    offset that all other brokers must reach before this broker may stop, -1 without a controlled
    shutdown. ``is_presumed``: the broker has sent this controller no heartbeat yet, or none since
    the controller suspects that the broker is dead.
    """

    epoch: BrokerEpoch
    contact_ms: int | None = None
    metadata_offset: int = UNKNOWN_OFFSET
    leaves_at: int = UNKNOWN_OFFSET
    is_presumed: bool = False

    @property
    def is_leaving(self) -> bool:
        """Whether the broker is in a controlled shutdown."""
        return self.leaves_at != UNKNOWN_OFFSET


class BrokerSessions:
    """The sessions of all brokers."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[NodeId, BrokerSession] = {}

    def __repr__(self) -> str:
        return f"<BrokerSessions {len(self._sessions)}>"

    def get(self, node_id: NodeId, epoch: BrokerEpoch) -> BrokerSession:
        """Return the session of a broker in its epoch, or an empty one."""
        session = self._sessions.get(node_id)
        return (
            session
            if session is not None and session.epoch == epoch
            else BrokerSession(epoch=epoch)
        )

    def is_live(self, node_id: NodeId, epoch: BrokerEpoch, now_ms: int) -> bool:
        """Return whether a broker's last heartbeat is less than ``timeout_ms`` ago."""
        contact_ms = self.get(node_id, epoch).contact_ms
        return contact_ms is not None and now_ms - contact_ms < self.timeout_ms

    def end_ms(self, node_id: NodeId) -> int | None:
        """Return when a broker's session ends if no heartbeat comes, or None without a session."""
        session = self._sessions.get(node_id)
        return (
            None
            if session is None or session.contact_ms is None
            else session.contact_ms + self.timeout_ms
        )

    def lowest_offset(self, active: Iterable[tuple[NodeId, BrokerEpoch]]) -> int:
        """Return the lowest metadata offset of the given brokers.

        Brokers in controlled shutdown do not count. Return ``maxsize`` if no broker is left.
        """
        sessions = (self.get(node_id, epoch) for node_id, epoch in active)
        return min(
            (session.metadata_offset for session in sessions if not session.is_leaving),
            default=maxsize,
        )

    def presumed(self) -> frozenset[NodeId]:
        """Return the brokers that are only presumed to be alive."""
        return frozenset(
            node_id for node_id, session in self._sessions.items() if session.is_presumed
        )

    def put(self, node_id: NodeId, session: BrokerSession, decision: Decision[Any]) -> None:
        """Store a broker's session. Revert it if the decision is refused."""
        before = self._sessions.get(node_id)
        self._sessions[node_id] = session
        decision.on_refused(lambda: self._restore(node_id, before))

    def forget(self, node_id: NodeId, decision: Decision[Any]) -> None:
        """End a broker's session, unless the decision is refused."""
        before = self._sessions.pop(node_id, None)
        decision.on_refused(lambda: self._restore(node_id, before))

    def note_heartbeat(
        self,
        node_id: NodeId,
        epoch: BrokerEpoch,
        decision: Decision[Any],
        *,
        metadata_offset: int,
        leaves_at: int,
    ) -> None:
        """Begin or renew the session of a broker."""
        session = BrokerSession(
            epoch=epoch,
            contact_ms=decision.now_ms,
            metadata_offset=metadata_offset,
            leaves_at=leaves_at,
        )
        self.put(node_id, session, decision)

    def _restore(self, node_id: NodeId, before: BrokerSession | None) -> None:
        self._sessions.pop(node_id, None)
        if before is not None:
            self._sessions[node_id] = before
