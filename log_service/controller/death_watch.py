"""Decides when a silent broker counts as dead before its session ends.

A broker counts as dead if its connection has ended and its host refuses new ones. A connection is
refused if the host responds and no process listens at the broker's addresses. Any other failure
proves nothing, for example a silent or unreachable host. The process may still run and serve
clients, so it counts as dead only when its session ends. The same holds for a process that hangs,
because the system still accepts connections for it. The active controller passes in all events and
times, and gets the next step: to probe the broker, or to fence it.

Invariants:

- A broker is fenced only after refusals at the beginning and at the end of the grace period, with
  none of its heartbeats between them.
- A broker that responds or sends a heartbeat is no longer suspected.
- In one controller epoch, this file fences a broker epoch at most once. So a live broker whose
  addresses refuse the controller loses its leaderships only once.
"""

from dataclasses import dataclass
from enum import Enum, auto

from log_service.common.types import BrokerEpoch, NodeId

PAUSE_MS = 20
"""Pause before the next probe after one that was broken off.

The process is exiting, and the system closes its sockets one by one.
"""
MAX_BROKEN_OFF = 10


class Finding(Enum):
    """Result of a probe of a broker's addresses."""

    REFUSED = auto()
    """No process listens at any of them."""
    RESPONDED = auto()
    BROKEN_OFF = auto()
    """A connection was accepted, and closed before a response."""
    UNKNOWN = auto()
    """Anything else: silence, an unreachable host, an unknown host name."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Probe a broker after ``pause_ms``, and pass the result to ``DeathWatch.probed``."""

    pause_ms: int


@dataclass(frozen=True, slots=True)
class Fence:
    """Fence the broker, because it is dead."""


Action = Probe | Fence | None
"""The next step for one broker, None for nothing."""


@dataclass(slots=True)
class _Suspicion:
    """A broker epoch that may be dead. ``refused_ms`` is the time of its first refusal."""

    epoch: BrokerEpoch
    refused_ms: int | None = None
    broken_off_count: int = 0


class DeathWatch:
    """The brokers' connections in one controller epoch. ``grace_ms`` is above 0."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._connections: dict[NodeId, tuple[BrokerEpoch, int]] = {}
        self._suspicions: dict[NodeId, _Suspicion] = {}
        self._fenced: dict[NodeId, BrokerEpoch] = {}

    def __repr__(self) -> str:
        return f"<DeathWatch grace_ms={self._grace_ms} suspicions={self._suspicions}>"

    def is_suspected(self, node_id: NodeId, epoch: BrokerEpoch) -> bool:
        """Whether a probe of this broker is still needed."""
        suspicion = self._suspicions.get(node_id)
        return suspicion is not None and suspicion.epoch == epoch

    def note_heartbeat(self, node_id: NodeId, epoch: BrokerEpoch, connection_id: int) -> None:
        """Note a heartbeat. Its sender is alive, and this is its connection now."""
        self._connections[node_id] = (epoch, connection_id)
        self._suspicions.pop(node_id, None)

    def connection_ended(self, node_id: NodeId, epoch: BrokerEpoch, connection_id: int) -> Action:
        """Suspect a broker whose connection ended, unless its heartbeats use another one by now.

        Return the next step for the broker, or None.
        """
        if self._connections.get(node_id) != (epoch, connection_id):
            return None
        del self._connections[node_id]
        return self.suspect(node_id, epoch)

    def suspect(self, node_id: NodeId, epoch: BrokerEpoch) -> Action:
        """Suspect a broker, and return the next step for it, or None.

        A new controller also suspects each unfenced broker. A broker without a connection to this
        controller may be dead already, and no connection would end to show this.
        """
        if (
            self.is_suspected(node_id, epoch)
            or node_id in self._connections
            or self._fenced.get(node_id) == epoch
        ):
            return None
        self._suspicions[node_id] = _Suspicion(epoch)
        return Probe(0)

    def probed(self, node_id: NodeId, epoch: BrokerEpoch, finding: Finding, now_ms: int) -> Action:
        """Process the result of a probe, and return the next step for the broker, or None."""
        suspicion = self._suspicions.get(node_id)
        if suspicion is None or suspicion.epoch != epoch:
            return None
        if finding is Finding.REFUSED:
            return self._take_refusal(node_id, suspicion, now_ms)
        if finding is Finding.BROKEN_OFF and suspicion.broken_off_count < MAX_BROKEN_OFF:
            suspicion.broken_off_count += 1
            suspicion.refused_ms = None
            return Probe(PAUSE_MS)
        del self._suspicions[node_id]
        return None

    def _take_refusal(self, node_id: NodeId, suspicion: _Suspicion, now_ms: int) -> Action:
        if suspicion.refused_ms is None:
            suspicion.refused_ms = now_ms
            return Probe(self._grace_ms)
        left_ms = suspicion.refused_ms + self._grace_ms - now_ms
        if left_ms > 0:
            return Probe(left_ms)
        del self._suspicions[node_id]
        self._fenced[node_id] = suspicion.epoch
        return Fence()
