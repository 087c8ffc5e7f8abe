"""Places replicas of new partitions over racks and brokers, as Kafka's KRaft controller does.

The racks are visited in a cycle. Each partition begins one rack further than the previous one. If
this rack has no active broker, the leader comes from the next rack that has one. The other replicas
come from one rack after the other, beginning at the partition's rack. In each rack, active brokers
come before fenced ones. Racks and brokers are shuffled each time as many partitions are placed as
there are active brokers, so that the placement does not repeat. Load is not considered.

Invariants: a partition never has two replicas on one broker, nor two in one rack while another rack
has none. The leader of a new partition is active. The same arguments give the same placement.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.metadata.image import BrokerRegistration

_MULTIPLIER, _INCREMENT, _MODULUS = 6364136223846793005, 1442695040888963407, 1 << 64
_HIGH_BITS = 33


def place_replicas(
    brokers: Sequence[BrokerRegistration],
    *,
    partition_count: int,
    replication_factor: int,
    seed: int,
) -> list[tuple[NodeId, ...]]:
    """Return the replicas of ``partition_count`` partitions, each with its preferred leader first.

    ``seed`` is any number. It decides which brokers come first, and how brokers are shuffled.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, there are fewer brokers than replicas, or none is
            active.
    """
    active_count = sum(not broker.is_fenced for broker in brokers)
    if replication_factor > len(brokers) or not active_count:
        text = (
            f"replication factor {replication_factor} cannot be reached: {len(brokers)} broker(s)"
            f" take replicas, {active_count} active"
        )
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    racks = _Racks(brokers, _Draws(seed))
    return [racks.place(replication_factor) for _ in range(partition_count)]


class _Draws:
    """Pseudorandom numbers from a seed, by a linear congruential generator."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ (seed >> 64)) % _MODULUS

    def below(self, limit: int) -> int:
        """Return a number from 0 to ``limit`` - 1."""
        self._state = (self._state * _MULTIPLIER + _INCREMENT) % _MODULUS
        return (self._state >> _HIGH_BITS) % limit

    def shuffle(self, items: list[object]) -> None:
        """Put items into another order (Fisher and Yates)."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


@dataclass(slots=True)
class _Brokers:
    """The active or the fenced brokers of one rack.

    They are visited in a cycle. A turn places one partition. It takes each broker at most once, and
    begins one broker further than the previous turn.
    """

    node_ids: list[NodeId] = field(default_factory=list)
    offset: int = 0
    turn: int = 0
    taken_count: int = 0

    def next(self, turn: int) -> NodeId | None:
        """Return the next broker of this turn, or None if the turn has taken all brokers."""
        if not self.node_ids:
            return None
        if turn != self.turn:
            self.turn, self.taken_count = turn, 0
            self.offset = (self.offset + 1) % len(self.node_ids)
        if self.taken_count >= len(self.node_ids):
            return None
        node_id = self.node_ids[(self.taken_count + self.offset) % len(self.node_ids)]
        self.taken_count += 1
        return node_id


@dataclass(slots=True)
class _Rack:
    active: _Brokers = field(default_factory=_Brokers)
    fenced: _Brokers = field(default_factory=_Brokers)

    def next(self, turn: int) -> NodeId | None:
        """Return the next broker of this turn, or None. Active brokers come first."""
        found = self.active.next(turn)
        return self.fenced.next(turn) if found is None else found


class _Racks:
    """All racks in the order of their names. Brokers without a rack form the first rack."""

    def __init__(self, brokers: Sequence[BrokerRegistration], draws: _Draws) -> None:
        by_name: dict[str, _Rack] = {}
        for broker in sorted(brokers, key=lambda broker: broker.node_id):
            rack = by_name.setdefault("" if broker.rack is None else f"/{broker.rack}", _Rack())
            (rack.fenced if broker.is_fenced else rack.active).node_ids.append(broker.node_id)
        self._draws = draws
        self._racks = [rack for _, rack in sorted(by_name.items())]
        for each in self._lists():
            each.offset = draws.below(len(each.node_ids)) if each.node_ids else 0
        self._active_count = sum(len(rack.active.node_ids) for rack in self._racks)
        self._first = draws.below(len(self._racks))
        self._turn = 0

    def place(self, replication_factor: int) -> tuple[NodeId, ...]:
        """Return the replicas of the next partition.

        There must be enough brokers, and one of them must be active.
        """
        if self._turn == self._active_count > 1:
            self._shuffle()
        leader_rack, leader = self._next_leader()
        replicas = [leader]
        index = self._first
        while len(replicas) < replication_factor:
            if index == leader_rack:
                leader_rack = -1  # this rack's turn was the leader's
            else:
                found = self._racks[index].next(self._turn)
                if found is not None:
                    replicas.append(found)
            index = (index + 1) % len(self._racks)
        self._turn += 1
        self._first = (self._first + 1) % len(self._racks)
        return tuple(replicas)

    def _next_leader(self) -> tuple[int, NodeId]:
        """Return the index of a rack, and its broker that leads the next partition."""
        count = len(self._racks)
        for index in (*range(self._first, count), *range(self._first)):
            leader = self._racks[index].active.next(self._turn)
            if leader is not None:
                return index, leader
        raise AssertionError("some broker is active")

    def _shuffle(self) -> None:
        self._draws.shuffle(self._racks)  # type: ignore[arg-type]
        for each in self._lists():
            self._draws.shuffle(each.node_ids)  # type: ignore[arg-type]
        self._turn = 0

    def _lists(self) -> list[_Brokers]:
        return [each for rack in self._racks for each in (rack.fenced, rack.active)]
