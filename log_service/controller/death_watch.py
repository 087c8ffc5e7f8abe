"""When a broker that has fallen silent counts as dead before its session is over: its connection has ended, and its host refuses new ones.

Decides for the active controller, from what happened and when: whether to probe a broker, and whether to fence it. A connection is refused
where the host responds and no process listens at the broker's addresses. Any other failure proves nothing, neither a host that does not
respond nor one that is out of reach: the process may be there and serve others, so that its session decides. So it is with a process that
hangs, for the system still accepts connections for it.

Invariants: a broker is fenced only after refusals at the beginning and at the end of the grace, none of its heartbeats between them; a
broker that responds, or that is heard of, is suspected no more; in one epoch of a controller a broker epoch is fenced from here once, so
that a live broker whose address refuses its controller costs one election and no more.
"""

from dataclasses import dataclass
from enum import Enum, auto

from log_service.common.types import BrokerEpoch, NodeId

PAUSE_MS = 20
"""Before another probe where the last one was broken off: the process is going, and the system closes its sockets one by one."""
MAX_BROKEN_OFF = 10


class Finding(Enum):
    """What a probe of a broker's addresses has found."""

    REFUSED = auto()
    """No process listens at any of them."""
    RESPONDED = auto()
    BROKEN_OFF = auto()
    """A connection was accepted, and closed before a response."""
    UNKNOWN = auto()
    """Anything else: silence, a host out of reach, a name that is not known."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Probe a broker after ``pause_ms``, and tell ``DeathWatch.probed``."""

    pause_ms: int


@dataclass(frozen=True, slots=True)
class Fence:
    """The broker is dead: fence it."""


Action = Probe | Fence | None
"""What to do about one broker; None is nothing."""


@dataclass(slots=True)
class _Suspicion:
    """A broker epoch that may be dead; ``refused_ms`` is when it was first refused."""

    epoch: BrokerEpoch
    refused_ms: int | None = None
    broken_off_count: int = 0


class DeathWatch:
    """What the active controller of one epoch knows of its brokers' connections. ``grace_ms`` is above 0."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._connections: dict[NodeId, tuple[BrokerEpoch, int]] = {}
        self._suspicions: dict[NodeId, _Suspicion] = {}
        self._fenced: dict[NodeId, BrokerEpoch] = {}

    def __repr__(self) -> str:
        return f"<DeathWatch grace_ms={self._grace_ms} suspicions={self._suspicions}>"

    def is_suspected(self, node_id: NodeId, epoch: BrokerEpoch) -> bool:
        """Whether a probe of this broker is still of use."""
        suspicion = self._suspicions.get(node_id)
        return suspicion is not None and suspicion.epoch == epoch

    def heard_of(self, node_id: NodeId, epoch: BrokerEpoch, connection_id: int) -> None:
        """Take note of a heartbeat: its sender is alive, and that is its connection now."""
        self._connections[node_id] = (epoch, connection_id)
        self._suspicions.pop(node_id, None)

    def connection_ended(self, node_id: NodeId, epoch: BrokerEpoch, connection_id: int) -> Action:
        """Suspect a broker whose connection has ended, unless its heartbeats come on another one by now."""
        if self._connections.get(node_id) != (epoch, connection_id):
            return None
        del self._connections[node_id]
        return self.suspect(node_id, epoch)

    def suspect(self, node_id: NodeId, epoch: BrokerEpoch) -> Action:
        """Suspect a broker: also each that a new controller finds unfenced, for it has no connection that could end."""
        if self.is_suspected(node_id, epoch) or node_id in self._connections or self._fenced.get(node_id) == epoch:
            return None
        self._suspicions[node_id] = _Suspicion(epoch)
        return Probe(0)

    def probed(self, node_id: NodeId, epoch: BrokerEpoch, finding: Finding, now_ms: int) -> Action:
        """Take what a probe has found."""
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
