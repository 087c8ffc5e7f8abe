"""Cordoned brokers keep their replicas in plans and get no new ones.

A plan tells if that leaves too few brokers.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.cluster_plans.health import QuorumMember, QuorumState, Severity, findings_of
from log_service.cluster_plans.layout import (
    BrokerLayout,
    ClusterLayout,
    LogDirectory,
    PartitionLayout,
    PlanRefused,
)
from log_service.cluster_plans.plans import (
    add,
    change_topics,
    drain,
    join,
    lack_of_room,
    raise_internal_factors,
    rebalance,
)
from log_service.cluster_plans.reassignment_file import plan_of, read
from tests.unit.cluster_plans.layouts import (
    after,
    broker,
    layout,
    layouts,
    leader_counts,
    partition,
    replica_counts,
)

QUORUM = QuorumState(
    leader_id=1,
    leader_epoch=1,
    members=tuple(QuorumMember(node_id=each, is_voter=True, lag=0) for each in (1, 2, 3)),
)
UNTIL = (
    "it is cordoned (cordoned.log.dirs), until: tidelog configs unset cordoned.log.dirs --broker"
)


def cluster(count: int, cordoned: set[int], partitions: Sequence[PartitionLayout]) -> ClusterLayout:
    return layout(
        [broker(each, is_cordoned=each in cordoned) for each in range(1, count + 1)], partitions
    )


def note_on(broker_id: int) -> str:
    return f"nothing new is put on broker {broker_id}: {UNTIL} {broker_id}"


def refusal(plan: object, *arguments: object, **named: object) -> str:
    assert callable(plan)
    with pytest.raises(PlanRefused) as refused:
        plan(*arguments, **named)
    return str(refused.value)


# What plans do


def test_a_rebalance_puts_nothing_on_a_cordoned_broker_and_says_so() -> None:
    """It got its share of what others had, as if it took new replicas."""
    uneven = cluster(3, {3}, [partition("t", number, [1]) for number in range(6)])
    plan = rebalance(uneven)
    assert replica_counts([1, 2, 3], after(uneven, plan)) == [3, 3, 0]
    assert plan.notes == (note_on(3),)


def test_a_rebalance_takes_from_a_cordoned_broker_and_lets_it_lead_what_it_keeps() -> None:
    heavy = cluster(3, {3}, [partition("t", number, [3]) for number in range(6)])
    assert replica_counts([1, 2, 3], after(heavy, rebalance(heavy))) == [2, 2, 2]
    full = cluster(3, {3}, [partition("t", number, [1, 2, 3]) for number in range(6)])
    assert leader_counts([1, 2, 3], after(full, rebalance(full))) == [2, 2, 2]


def test_a_partition_stays_in_the_rack_of_a_cordoned_broker() -> None:
    """No broker of that rack receives anything.

    A plan of the others' racks alone would leave the partition in one.
    """
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "c", is_cordoned=True)]
    uneven = layout(brokers, [partition("t", number, [1, 3]) for number in range(4)])
    assert {3 in replicas for replicas in after(uneven, rebalance(uneven)).values()} == {True}


@given(layouts(), st.sets(st.integers(1, 6)))
def test_no_rebalance_puts_anything_on_a_cordoned_broker_or_takes_racks_from_a_partition(
    before: ClusterLayout, cordoned: set[int]
) -> None:
    brokers = [
        replace(each, log_dirs=(LogDirectory(path="/", is_cordoned=each.broker_id in cordoned),))
        for each in before.brokers
    ]
    held = replace(before, brokers=tuple(brokers))
    racks = {each.broker_id: each.rack for each in brokers}
    for move in rebalance(held).moves:
        assert cordoned.isdisjoint(move.adding)
        assert len({racks[each] for each in move.after}) >= len(
            {racks[each] for each in move.before}
        )


def test_a_cordoned_broker_that_has_joined_gets_no_share() -> None:
    grown = cluster(3, {3}, [partition("t", number, [1 + number % 2]) for number in range(6)])
    joined = join(grown, [], 3)
    assert joined.is_empty
    assert joined.notes == (note_on(3),)
    assert refusal(add, grown, [3]) == f"nothing can be put on broker 3: {UNTIL} 3"
    assert refusal(join, grown, [3], 3) == f"nothing can be put on broker 3: {UNTIL} 3"


def test_a_cordoned_broker_that_has_its_share_is_no_reason_for_a_note_on_one_that_joins() -> None:
    grown = cluster(3, {1}, [partition("t", number, [1, 2]) for number in range(4)])
    plan = join(grown, [], 0)
    assert replica_counts([3], after(grown, plan)) == [2]
    assert plan.notes == ()


def test_internal_topics_get_as_many_replicas_as_brokers_take_and_a_note_tells_why_no_more() -> (
    None
):
    grown = cluster(3, {3}, [partition("__consumer_offsets", 0, [1])])
    plan = raise_internal_factors(grown, 3)
    assert [sorted(move.after) for move in plan.moves] == [[1, 2]]
    assert plan.notes[-1] == note_on(3)
    enough = raise_internal_factors(grown, 2)
    assert note_on(3) not in enough.notes


def test_a_drain_fills_no_cordoned_broker_and_says_where_that_leaves_too_few() -> None:
    four = cluster(4, {4}, [partition("t", number, [1, 2]) for number in range(4)])
    assert replica_counts([1, 2, 3, 4], after(four, drain(four, [2]))) == [4, 0, 4, 0]
    three = cluster(3, {3}, [partition("t", 0, [1, 2])])
    assert (
        refusal(drain, three, [2])
        == f"t is to have 2 replicas, and only 1 broker is there for them; {note_on(3)}"
    )
    two = cluster(2, {2}, [partition("t", 0, [1])])
    assert refusal(drain, two, [1]) == f"no broker would be left beside 1: {note_on(2)}"


def test_an_empty_broker_may_leave_where_all_others_are_cordoned() -> None:
    """Nothing has to go anywhere; the drain was refused, and so was the removal."""
    assert drain(cluster(2, {1}, [partition("t", 0, [1])]), [2]).moves == ()
    assert (
        refusal(drain, cluster(1, set(), []), [1])
        == "no broker would be left beside 1: the last one cannot be emptied"
    )
    kept = cluster(3, {3}, [partition("t", 0, [2, 3])])
    assert [sorted(move.after) for move in drain(kept, [2]).moves] == [[1, 3]], (
        "what is there stays and counts"
    )


def test_another_factor_counts_a_cordoned_broker_only_where_it_has_a_replica() -> None:
    three = cluster(3, {3}, [partition("t", 0, [1]), partition("u", 0, [1, 3])])
    assert refusal(change_topics, three, ["t"], replication_factor=3) == (
        f"t is to have 3 replicas, and only 2 brokers are there for them; {note_on(3)}"
    )
    assert [
        sorted(move.after) for move in change_topics(three, ["u"], replication_factor=3).moves
    ] == [[1, 2, 3]]


def test_brokers_that_are_named_for_a_topic_get_nothing_new_where_they_are_cordoned() -> None:
    three = cluster(3, {3}, [partition("t", 0, [1, 2]), partition("u", 0, [1, 3])])
    assert refusal(change_topics, three, ["t"], brokers=[1, 3]) == (
        f"t is to have 2 replicas, and only 1 broker is there for them; {note_on(3)}"
    )
    assert [sorted(move.after) for move in change_topics(three, ["u"], brokers=[2, 3]).moves] == [
        [2, 3]
    ], "what it has stays"


def test_a_plan_in_a_file_puts_nothing_on_a_cordoned_broker() -> None:
    three = cluster(3, {3}, [partition("t", 0, [1, 2]), partition("u", 0, [1, 3])])

    def wanted(topic: str, *replicas: int) -> str:
        return json.dumps(
            {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}
        )

    said = refusal(plan_of, read(wanted("t", 1, 3), "p"), three)
    assert said.endswith(f"partitions[0].replicas[1]: broker 3 takes no new replicas: {UNTIL} 3")
    assert len(plan_of(read(wanted("u", 3, 2), "p"), three).moves) == 1


# Directories


def two_disks(broker_id: int, *cordoned: bool) -> BrokerLayout:
    paths = zip(("/a", "/b"), cordoned, strict=True)
    return BrokerLayout(
        broker_id=broker_id,
        log_dirs=tuple(
            LogDirectory(path=path, is_cordoned=each, total_bytes=100, usable_bytes=50)
            for path, each in paths
        ),
    )


def test_a_cordoned_directory_gives_no_room() -> None:
    half = layout(
        [broker(1), two_disks(2, False, True)],
        [partition("t", number, [1], size=30) for number in range(4)],
    )
    assert lack_of_room(half, rebalance(half)) == [
        "broker 2 has room for 50 bytes and would get 60"
    ]


def test_a_broker_takes_new_replicas_while_one_of_its_directories_does() -> None:
    assert not two_disks(1, False, True).is_cordoned
    assert two_disks(1, True, True).is_cordoned
    failed = replace(two_disks(1, False, True).log_dirs[0], is_online=False)
    assert replace(
        two_disks(1, False, True), log_dirs=(failed, two_disks(1, False, True).log_dirs[1])
    ).is_cordoned, "the other has failed"
    assert not BrokerLayout(broker_id=1).is_cordoned, (
        "a broker that does not tell is no cordoned one"
    )


# What is told


def test_what_takes_no_new_partitions_is_told_and_nothing_is_at_risk_by_it() -> None:
    found = findings_of(
        layout([broker(1), two_disks(2, True, True), two_disks(3, False, True)], []), QUORUM
    )
    assert [(each.check, each.severity, each.text, each.items) for each in found] == [
        ("cordoned", Severity.NOTICE, f"broker 2 takes no new partitions: {UNTIL} 2", ("2",)),
        (
            "cordoned",
            Severity.NOTICE,
            "log directory /b of broker 3 takes no new partitions: cordoned.log.dirs names it",
            ("3:/b",),
        ),
    ]
