"""Where the replicas of new partitions go.

Decides by going round the active brokers: each partition begins one broker further than the one before, and its other replicas follow;
fenced brokers come only where the active ones do not suffice. Knows no racks, and no load.

Invariants: a partition never has two replicas on one broker; leaders of one topic differ by at most one per active broker; the same
arguments give the same placement.
"""

from collections.abc import Sequence

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId


def place_replicas(
    active: Sequence[NodeId],
    fenced: Sequence[NodeId],
    *,
    partition_count: int,
    replication_factor: int,
    first_broker: int,
    first_partition: int = 0,
) -> list[tuple[NodeId, ...]]:
    """Return the replicas of ``partition_count`` partitions, the preferred leader of each first.

    ``active`` and ``fenced`` are brokers in a fixed order; ``first_broker`` is any number, so that topics of one partition do not all begin
    on the same broker; ``first_partition`` is the index of the first new one.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, there are fewer brokers than replicas, or none is active.
    """
    broker_count = len(active) + len(fenced)
    if replication_factor > broker_count or not active:
        text = f"replication factor {replication_factor} cannot be reached: {broker_count} broker(s) are registered, {len(active)} active"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    first = first_broker + first_partition
    return [(*_from(active, first + step), *_from(fenced, first + step))[:replication_factor] for step in range(partition_count)]


def _from(brokers: Sequence[NodeId], start: int) -> tuple[NodeId, ...]:
    """Return all brokers once, going round from ``start``."""
    if not brokers:
        return ()
    turn = start % len(brokers)
    return (*brokers[turn:], *brokers[:turn])
