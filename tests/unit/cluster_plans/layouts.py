"""Layouts of clusters for tests of plans: built by hand, or drawn by hypothesis."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import strategies as st

from log_service.cluster_plans.layout import (
    BrokerLayout,
    ClusterLayout,
    LogDirectory,
    PartitionLayout,
)
from log_service.cluster_plans.plan import Plan
from log_service.common.types import TopicPartition


def broker(
    broker_id: int,
    rack: str | None = None,
    *,
    is_fenced: bool = False,
    is_cordoned: bool = False,
    usable_bytes: int = 1 << 40,
) -> BrokerLayout:
    directory = LogDirectory(
        path="/data", is_cordoned=is_cordoned, total_bytes=1 << 40, usable_bytes=usable_bytes
    )
    return BrokerLayout(broker_id=broker_id, rack=rack, is_fenced=is_fenced, log_dirs=(directory,))


def partition(
    topic: str,
    number: int,
    replicas: Sequence[int],
    *,
    leader: int | None = None,
    isr: Sequence[int] | None = None,
    size: int = 0,
    min_isr: int = 1,
) -> PartitionLayout:
    return PartitionLayout(
        where=TopicPartition(topic, number),
        replicas=tuple(replicas),
        leader=replicas[0] if leader is None else leader,
        isr=tuple(replicas if isr is None else isr),
        size_bytes=size,
        min_isr=min_isr,
    )


def layout(brokers: Sequence[BrokerLayout], partitions: Sequence[PartitionLayout]) -> ClusterLayout:
    return ClusterLayout(brokers=tuple(brokers), partitions=tuple(partitions))


def counted(
    brokers: int, placed: Sequence[Sequence[int]], *, racks: Sequence[str | None] = ()
) -> ClusterLayout:
    """Brokers 1 to N, and topic t with one partition for each list of replicas."""
    named = racks or [None] * brokers
    return layout(
        [broker(number, rack) for number, rack in enumerate(named, start=1)],
        [partition("t", n, each) for n, each in enumerate(placed)],
    )


@st.composite
def layouts(
    draw: st.DrawFn,
    *,
    max_brokers: int = 6,
    max_partitions: int = 14,
    with_fenced: bool = False,
    with_racks: bool = True,
) -> ClusterLayout:
    count = draw(st.integers(1, max_brokers))
    racks = (
        draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=count, max_size=count))
        if with_racks
        else [None] * count
    )
    fenced = draw(st.sets(st.integers(1, count), max_size=count - 1)) if with_fenced else set()
    ids = list(range(1, count + 1))
    active = [each for each in ids if each not in fenced]
    partitions = []
    for number in range(draw(st.integers(0, max_partitions))):
        factor = draw(st.integers(1, min(3, count)))
        replicas = draw(st.permutations(ids))[:factor]
        serving = [each for each in replicas if each in active]
        leader = draw(st.sampled_from(serving)) if serving else -1
        size = draw(st.sampled_from([0, 10, 1000, 5000]))
        topic = draw(st.sampled_from(["x", "y"]))
        partitions.append(
            partition(
                topic, number, replicas, leader=leader, isr=serving or replicas[:1], size=size
            )
        )
    return layout(
        [
            broker(each, rack, is_fenced=each in fenced)
            for each, rack in zip(ids, racks, strict=True)
        ],
        partitions,
    )


def after(before: ClusterLayout, plan: Plan) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the places of all replicas once a plan is done."""
    return {each.where: each.replicas for each in before.partitions} | {
        move.where: move.after for move in plan.moves
    }


def replica_counts(
    brokers: Sequence[int], placed: dict[TopicPartition, tuple[int, ...]]
) -> list[int]:
    counts = Counter(each for replicas in placed.values() for each in replicas)
    return [counts[each] for each in brokers]


def leader_counts(
    brokers: Sequence[int], placed: dict[TopicPartition, tuple[int, ...]]
) -> list[int]:
    counts = Counter(replicas[0] for replicas in placed.values())
    return [counts[each] for each in brokers]
