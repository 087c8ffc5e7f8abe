"""Restarting brokers one by one: the order, and what keeps one from stopping."""

from dataclasses import replace

from log_service.cluster_plans.health import QuorumMember, QuorumState
from log_service.cluster_plans.layout import PartitionLayout
from log_service.cluster_plans.rolling import (
    obstacles,
    obstacles_to_stay_down,
    roll_order,
    single_replicas,
)
from tests.unit.cluster_plans.layouts import broker, layout, partition

QUORUM = QuorumState(
    leader_id=2,
    leader_epoch=1,
    members=tuple(QuorumMember(node_id=n, is_voter=True, lag=0) for n in (1, 2, 3)),
)
BROKERS = [broker(1), broker(2), broker(3)]
WELL = partition("t", 0, [1, 2, 3], min_isr=2)


def why(
    *partitions: PartitionLayout, broker_id: int = 1, quorum: QuorumState = QUORUM
) -> list[str]:
    return obstacles(layout(BROKERS, partitions), quorum, broker_id)


def test_the_active_controller_comes_last_and_brokers_that_are_down_do_not_come() -> None:
    cluster = layout([broker(1), broker(2), broker(3), broker(4, is_fenced=True)], [WELL])
    assert roll_order(cluster, QUORUM) == [1, 3, 2]


def test_a_broker_may_stop_while_all_is_in_sync() -> None:
    assert why(WELL) == []


def test_replicas_out_of_sync_are_waited_for_wherever_they_are() -> None:
    assert why(WELL, partition("t", 1, [2, 3], isr=[2])) == ["t-1 is not in sync everywhere"]


def test_min_isr_is_kept_but_for_factors_that_cannot() -> None:
    assert why(partition("t", 0, [1, 2, 3], min_isr=3)) == [], (
        "no restart ever keeps all three in sync"
    )
    assert why(partition("t", 0, [1, 2], min_isr=2)) == [], "and none keeps both of two"


def test_a_single_replica_is_told_and_not_waited_for() -> None:
    alone = partition("t", 0, [1])
    assert why(alone) == []
    assert single_replicas(layout(BROKERS, [alone, WELL]), 1) == [alone]


def test_offline_partitions_moves_and_late_voters_are_waited_for() -> None:
    assert why(partition("t", 0, [1, 2], leader=-1)) == ["t-0 is offline"]
    assert why(replace(WELL, adding=(3,))) == ["t-0 is on the way to other brokers"]
    late = replace(
        QUORUM,
        members=(
            *QUORUM.members[:2],
            QuorumMember(node_id=3, is_voter=True, lag=9, caught_up_ms_ago=60_000),
        ),
    )
    assert why(WELL, quorum=late) == ["voter 3 is behind"]
    alone = replace(
        QUORUM,
        members=(
            QUORUM.members[0],
            replace(QUORUM.members[1], lag=9, caught_up_ms_ago=60_000),
            QUORUM.members[2],
        ),
    )
    assert why(WELL, quorum=alone) == [], "a leader is behind nobody"
    assert why(WELL, quorum=replace(QUORUM, leader_id=-1)) == ["the metadata quorum has no leader"]


def test_another_broker_that_is_down_is_waited_for() -> None:
    cluster = layout([broker(1), broker(2), broker(3, is_fenced=True)], [WELL])
    assert obstacles(cluster, QUORUM, 1) == ["broker 3 is down"]


def test_a_broker_stays_down_only_where_a_majority_of_the_voters_is_left() -> None:
    """A quorum of two may wait for the seconds of a restart.

    A node that stays down takes the quorum with it.
    """
    brokers = [broker(1), broker(2), broker(3, is_fenced=True), broker(4)]
    sole = QuorumState(
        leader_id=1, leader_epoch=1, members=(QuorumMember(node_id=1, is_voter=True, lag=0),)
    )
    without_3 = layout(brokers, [])
    assert obstacles(without_3, QUORUM, 1) == []
    assert obstacles_to_stay_down(without_3, QUORUM, 1) == [
        "without it 1 of 3 voters of the metadata quorum would be left, which is not a majority"
    ]
    assert obstacles_to_stay_down(without_3, QUORUM, 4) == []
    behind = replace(
        QUORUM,
        members=(
            *QUORUM.members[:2],
            QuorumMember(node_id=3, is_voter=True, lag=9, caught_up_ms_ago=60_000),
        ),
    )
    told = obstacles_to_stay_down(layout(BROKERS, []), behind, 1)
    assert told == [
        "voter 3 is behind",
        "without it 1 of 3 voters of the metadata quorum would be left, which is not a majority",
    ]
    lost = layout([broker(1, is_fenced=True), broker(2), broker(3, is_fenced=True), broker(4)], [])
    assert obstacles_to_stay_down(lost, QUORUM, 4) == [], (
        "one that does not vote costs the quorum nothing"
    )
    assert obstacles_to_stay_down(layout(BROKERS, [WELL]), QUORUM, 1) == []
    assert obstacles_to_stay_down(layout(BROKERS, []), sole, 1) == [
        "without it 0 of 1 voters of the metadata quorum would be left, which is not a majority"
    ]
