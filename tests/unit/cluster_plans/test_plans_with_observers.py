"""Observers' replicas stay in plans where someone put them.

None gets one unnamed, and none becomes a preferred leader.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from log_service.cluster_plans.health import QuorumMember, QuorumState
from log_service.cluster_plans.layout import ClusterLayout, PartitionLayout, PlanRefused
from log_service.cluster_plans.plans import (
    add,
    change_topics,
    drain,
    join,
    raise_internal_factors,
    rebalance,
)
from log_service.cluster_plans.rolling import obstacles, single_replicas
from tests.unit.cluster_plans.layouts import (
    after,
    broker,
    layout,
    leader_counts,
    partition,
    replica_counts,
)

QUORUM = QuorumState(
    leader_id=1, leader_epoch=1, members=(QuorumMember(node_id=1, is_voter=True, lag=0),)
)


def cluster(
    count: int, observers: set[int], partitions: Sequence[PartitionLayout]
) -> ClusterLayout:
    return replace(
        layout([broker(each) for each in range(1, count + 1)], partitions),
        observers=frozenset(observers),
    )


def copied(
    number: int,
    replicas: list[int],
    *,
    observers: Sequence[int] = (3,),
    topic: str = "t",
    min_isr: int = 1,
) -> PartitionLayout:
    """A partition whose replicas on observers are not in sync, as they should be."""
    return partition(
        topic,
        number,
        replicas,
        isr=[each for each in replicas if each not in observers],
        min_isr=min_isr,
    )


def test_a_rebalance_leaves_the_copies_on_observers_where_they_are() -> None:
    """An observer has more replicas than the others: it is there for a copy of everything."""
    uneven = cluster(3, {3}, [copied(number, [1, 3]) for number in range(4)])
    placed = after(uneven, rebalance(uneven))
    assert replica_counts([1, 2, 3], placed) == [2, 2, 4]
    assert leader_counts([1, 2, 3], placed) == [2, 2, 0]


def test_a_rebalance_by_bytes_leaves_the_copies_on_observers_where_they_are() -> None:
    sizes = {1: [4000, 3000], 2: [10, 10]}
    big_and_small = [(broker_id, size) for broker_id, each in sizes.items() for size in each]
    uneven = cluster(
        3,
        {3},
        [
            replace(copied(n, [own, 3]), size_bytes=size)
            for n, (own, size) in enumerate(big_and_small)
        ],
    )
    placed = after(uneven, rebalance(uneven, byte_tolerance=0.1))
    assert all(3 in replicas for replicas in placed.values())
    assert len({min(replicas) for replicas in list(placed.values())[:2]}) == 2, (
        "the two large ones are apart"
    )


def test_a_new_broker_gets_its_share_from_those_that_are_in_sync() -> None:
    grown = cluster(4, {3}, [copied(number, [1 + number % 2, 3]) for number in range(6)])
    placed = after(grown, add(grown, [4]))
    assert replica_counts([1, 2, 3, 4], placed) == [2, 2, 6, 2]


def test_an_observer_that_joins_gets_nothing_unnamed() -> None:
    grown = cluster(3, {3}, [partition("__consumer_offsets", 0, [1]), partition("t", 0, [1, 2])])
    assert 3 not in {
        each for replicas in after(grown, join(grown, [], 3)).values() for each in replicas
    }


def test_an_observer_gets_no_share_for_it_would_take_the_place_of_one_that_is_in_sync() -> None:
    grown = cluster(3, {3}, [partition("t", number, [1, 2]) for number in range(4)])
    with pytest.raises(
        PlanRefused,
        match=r"broker 3 is an observer: its replicas are never in sync.*unset tidelog.observer --broker 3$",
    ):
        add(grown, [3])


def test_internal_topics_count_the_brokers_that_can_be_in_sync() -> None:
    grown = cluster(3, {3}, [partition("__consumer_offsets", 0, [1])])
    (move,) = raise_internal_factors(grown, 3).moves
    assert sorted(move.after) == [1, 2]


def test_another_factor_puts_nothing_on_an_observer_unless_it_is_named() -> None:
    three = cluster(3, {3}, [partition("t", 0, [1])])
    assert [
        sorted(move.after) for move in change_topics(three, ["t"], replication_factor=2).moves
    ] == [[1, 2]]
    assert [
        sorted(move.after)
        for move in change_topics(three, ["t"], replication_factor=3, brokers=[1, 2, 3]).moves
    ] == [[1, 2, 3]]
    with pytest.raises(PlanRefused, match="t is to have 3 replicas, and only 2 brokers are there"):
        change_topics(three, ["t"], replication_factor=3)


def test_a_replica_on_an_observer_counts_for_a_factor_that_it_is_part_of() -> None:
    four = cluster(4, {3}, [copied(0, [1, 3])])
    assert [
        sorted(move.after) for move in change_topics(four, ["t"], replication_factor=4).moves
    ] == [[1, 2, 3, 4]]


def test_a_broker_is_emptied_beside_observers_which_keep_what_they_have() -> None:
    """Three replicas of which an observer has one need two other brokers, not three."""
    four = cluster(4, {3}, [copied(number, [1, 2, 3]) for number in range(4)])
    placed = after(four, drain(four, [2]))
    assert {tuple(sorted(replicas)) for replicas in placed.values()} == {(1, 3, 4)}


def test_an_observer_is_emptied_as_any_other_broker() -> None:
    four = cluster(4, {3}, [copied(number, [1, 2, 3]) for number in range(2)])
    placed = after(four, drain(four, [3]))
    assert {tuple(sorted(replicas)) for replicas in placed.values()} == {(1, 2, 4)}


def test_no_observer_becomes_the_preferred_leader_of_what_a_plan_moves() -> None:
    """It leads nothing, so that the broker with the fewest leaders is the last one to choose."""
    leaving = cluster(4, {3}, [copied(number, [4, 1, 3]) for number in range(4)])
    assert leader_counts([1, 2, 3], after(leaving, drain(leaving, [4]))) == [2, 2, 0]
    first = cluster(
        3, {3}, [partition("t", number, [3, 1, 2], leader=1, isr=[1, 2]) for number in range(4)]
    )
    assert leader_counts([1, 2, 3], after(first, rebalance(first))) == [2, 2, 0]


def test_a_broker_restarts_where_only_observers_keep_its_partitions_from_min_isr() -> None:
    """Two of three can be in sync, so no restart keeps both: as with a factor of two."""
    assert obstacles(cluster(3, {3}, [copied(0, [1, 2, 3], min_isr=2)]), QUORUM, 1) == []
    assert obstacles(cluster(3, {3}, [copied(0, [1, 3])]), QUORUM, 1) == []
    lagging = partition("t", 0, [1, 2, 3, 4], isr=[1, 2], min_isr=2)
    assert "t-0 is under min ISR without it" in obstacles(cluster(4, {3}, [lagging]), QUORUM, 1)
    alone = copied(0, [1, 3])
    assert single_replicas(
        cluster(3, {3}, [alone, copied(1, [1, 2, 3]), copied(2, [2, 3]), copied(3, [3])]), 1
    ) == [alone], "and it is told"
