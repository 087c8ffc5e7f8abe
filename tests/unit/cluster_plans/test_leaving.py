"""A serving broker is not forgotten, and a needed voter stays.

The replicas of a broker that is down are told.
"""

from collections.abc import Collection

import pytest

from log_service.cluster_plans.health import QuorumMember, QuorumState
from log_service.cluster_plans.layout import PlanRefused
from log_service.cluster_plans.leaving import (
    refuse_to_forget,
    refuse_to_lose_majority,
    refuse_to_lose_replicas,
    what_is_on,
)
from tests.unit.cluster_plans.layouts import broker, layout, partition

PARTITIONS = [
    partition("t", 0, [1, 2]),
    partition("t", 1, [2, 1]),
    partition("solo", 2, [2]),
    partition("t", 2, [1, 3]),
]


def test_what_is_on_a_broker_is_told() -> None:
    cluster = layout([broker(1), broker(2), broker(3), broker(4)], PARTITIONS)
    assert what_is_on(cluster, 2) == (
        "3 replicas, the leaders of 2 partitions and 1 partition without another replica in sync (solo-2)"
    )
    assert what_is_on(cluster, 3) == "1 replica"
    assert what_is_on(cluster, 4) == "no replica"


def test_the_first_few_partitions_that_only_one_broker_has_are_named() -> None:
    for isr in ([1], []):  # the last one in sync, and the last one that may lead (KIP-966)
        cluster = layout(
            [broker(1, is_fenced=True)],
            [partition("t", number, [1], leader=-1, isr=isr) for number in range(5)],
        )
        assert (
            what_is_on(cluster, 1)
            == "5 replicas and 5 partitions without another replica in sync (t-0, t-1, t-2 and 2 more)"
        )


def test_a_broker_that_serves_is_not_forgotten() -> None:
    with pytest.raises(
        PlanRefused, match=r"broker 2 serves, with 3 replicas.*tidelog cluster remove 2 --execute"
    ):
        refuse_to_forget(layout([broker(1), broker(2)], PARTITIONS), 2)
    with pytest.raises(PlanRefused, match="there is no broker 7; there are 1, 2"):
        refuse_to_forget(layout([broker(1), broker(2)], PARTITIONS), 7)
    refuse_to_forget(layout([broker(1), broker(2, is_fenced=True)], PARTITIONS), 2)


def test_a_broker_with_a_replica_that_cannot_be_copied_from_anywhere_is_not_forgotten() -> None:
    cluster = layout(
        [broker(1), broker(2, is_fenced=True)],
        [partition("t", 0, [1]), partition("solo", 1, [2], leader=-1, isr=[])],
    )
    with pytest.raises(
        PlanRefused,
        match=r"broker 2 is not forgotten: it holds a replica of solo-1, which is offline",
    ):
        refuse_to_lose_replicas(cluster, 2)
    refuse_to_lose_replicas(cluster, 3)


def test_a_broker_that_got_a_replica_while_it_was_emptied_is_not_forgotten() -> None:
    cluster = layout(
        [broker(1), broker(2)],
        [
            partition("new", 0, [2]),
            partition("t", 0, [1, 2]),
            partition("gone", 0, [1], leader=-1, isr=[]),
        ],
    )
    with pytest.raises(
        PlanRefused,
        match=r"broker 2 is not forgotten: it has 2 replicas.*the same command empties it again",
    ):
        refuse_to_lose_replicas(cluster, 2)


def quorum(count: int, *, behind: Collection[int] = ()) -> QuorumState:
    """So many voters, of which node 1 leads."""
    members = tuple(
        QuorumMember(
            node_id=each, is_voter=True, lag=0, caught_up_ms_ago=60_000 if each in behind else 0
        )
        for each in range(1, count + 1)
    )
    return QuorumState(
        leader_id=1,
        leader_epoch=1,
        members=(*members, QuorumMember(node_id=9, is_voter=False, lag=0)),
    )


@pytest.mark.parametrize("node_id", [1, 2])
def test_a_voter_that_the_quorum_needs_while_another_is_down_stays(node_id: int) -> None:
    said = (
        rf"voter 3 is down or behind: without node {node_id} only 1 of the 2 voters that remain could vote, which is not a majority, .* "
        "Bring it back, or take it out first: tidelog cluster voters remove 3 --execute"
    )
    with pytest.raises(PlanRefused, match=said):
        refuse_to_lose_majority(quorum(3, behind=[3]), node_id)
    with pytest.raises(PlanRefused, match=said):
        refuse_to_lose_majority(quorum(3), node_id, fenced=[3])


def test_all_voters_that_are_down_are_named() -> None:
    with pytest.raises(
        PlanRefused,
        match=r"voters 4, 5 are down or behind: without node 2 only 2 of the 4 voters .* take them out first",
    ):
        refuse_to_lose_majority(quorum(5, behind=[5]), 2, fenced=[4])


def test_a_voter_that_seems_to_be_down_stays_where_the_others_are_no_majority() -> None:
    with pytest.raises(
        PlanRefused,
        match="voter 3 is down or behind: without node 2 only 1 of the 2 voters that remain could vote",
    ):
        refuse_to_lose_majority(quorum(3, behind=[3]), 2, fenced=[2])


def test_a_voter_that_is_down_may_go_and_so_may_one_that_is_not_needed() -> None:
    refuse_to_lose_majority(quorum(3, behind=[3]), 3)
    refuse_to_lose_majority(quorum(3), 3, fenced=[3])
    refuse_to_lose_majority(quorum(5, behind=[5]), 5)
    refuse_to_lose_majority(quorum(5, behind=[5]), 2)
    refuse_to_lose_majority(quorum(3), 2)
    refuse_to_lose_majority(quorum(2), 1)
    refuse_to_lose_majority(quorum(3), 2, fenced=[1])
