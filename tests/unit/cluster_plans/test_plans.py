"""Plans keep their promises: racks, even counts, no move too many, and refusals that change
nothing.
"""

from itertools import combinations, product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from log_service.cluster_plans.layout import ClusterLayout, PartitionLayout, PlanRefused
from log_service.cluster_plans.plan import Plan
from log_service.cluster_plans.plans import (
    add,
    change_topics,
    drain,
    followed_by,
    join,
    lack_of_room,
    raise_internal_factors,
    rebalance,
)
from log_service.common.types import TopicPartition
from tests.unit.cluster_plans.layouts import (
    after,
    broker,
    counted,
    layout,
    layouts,
    leader_counts,
    partition,
    replica_counts,
)


def racks_of(cluster: ClusterLayout, replicas: tuple[int, ...]) -> set[str]:
    racks = {each.broker_id: each.rack or "" for each in cluster.brokers}
    return {racks[each] for each in replicas}


def unevenness(counts: list[int]) -> int:
    """The sum of squares: among counts of the same total, the most even ones have the least."""
    return sum(count**2 for count in counts)


def assert_is_sound(cluster: ClusterLayout, plan: Plan) -> None:
    """Check the promises of every plan.

    Each replica is on another broker, and nothing new is on a broker that does not serve.
    """
    for move in plan.moves:
        assert len(set(move.after)) == len(move.after)
        assert set(move.adding) <= set(cluster.active)
        assert move.before != move.after
    assert len({move.where for move in plan.moves}) == len(plan.moves)


@given(layouts())
def test_a_rebalanced_cluster_spans_all_racks_that_it_can(cluster: ClusterLayout) -> None:
    plan = rebalance(cluster)
    assert_is_sound(cluster, plan)
    racks = {each.rack for each in cluster.brokers}
    for replicas in after(cluster, plan).values():
        assert len(racks_of(cluster, replicas)) == min(len(racks), len(replicas))


@given(layouts(with_racks=False))
def test_without_racks_counts_and_leaders_differ_by_one_at_most_and_no_move_is_too_many(
    cluster: ClusterLayout,
) -> None:
    plan = rebalance(cluster)
    placed = after(cluster, plan)
    counts = replica_counts(cluster.active, placed)
    assert max(counts) - min(counts) <= 1
    leaders = leader_counts(cluster.active, placed)
    if len({len(replicas) for replicas in placed.values()}) == 1:
        # Else a broker of single replicas may have to lead them all.
        assert max(leaders) - min(leaders) <= 1
    present = sorted(
        replica_counts(cluster.active, {each.where: each.replicas for each in cluster.partitions})
    )
    surplus = sum(max(0, here - there) for here, there in zip(present, sorted(counts), strict=True))
    assert plan.copied_replicas == surplus


@given(layouts())
def test_a_second_rebalance_finds_nothing_to_copy(cluster: ClusterLayout) -> None:
    placed = after(cluster, rebalance(cluster))
    again = layout(
        cluster.brokers,
        [partition(each.topic, each.partition, replicas) for each, replicas in placed.items()],
    )
    assert rebalance(again).is_empty


@settings(max_examples=60)
@given(layouts(max_brokers=4, max_partitions=4))
def test_with_racks_no_placement_is_more_even_and_none_as_even_copies_less(
    cluster: ClusterLayout,
) -> None:
    """All placements of a small cluster are tried."""
    plan = rebalance(cluster)
    placed = after(cluster, plan)
    rack_count = len({each.rack for each in cluster.brokers})
    choices = [
        [
            hosts
            for hosts in combinations(cluster.active, len(each.replicas))
            if len(racks_of(cluster, hosts)) == min(rack_count, len(hosts))
        ]
        for each in cluster.partitions
    ]
    names = [each.where for each in cluster.partitions]
    ranked = min(
        (
            unevenness(replica_counts(cluster.active, dict(zip(names, chosen, strict=True)))),
            sum(
                len(set(hosts) - set(each.replicas))
                for hosts, each in zip(chosen, cluster.partitions, strict=True)
            ),
        )
        for chosen in product(*choices)
    )
    assert (unevenness(replica_counts(cluster.active, placed)), plan.copied_replicas) == ranked
    fewest = min(
        unevenness([leaders.count(each) for each in cluster.active])
        for leaders in product(*placed.values())
    )
    assert unevenness(leader_counts(cluster.active, placed)) == fewest


@given(layouts(), st.data())
def test_a_drained_broker_has_nothing_left_and_nothing_else_moves(
    cluster: ClusterLayout, data: st.DataObject
) -> None:
    leaving = data.draw(st.sampled_from(cluster.active))
    affected = [each for each in cluster.partitions if leaving in each.replicas]
    assume(len(cluster.brokers) > max([1, *(len(each.replicas) for each in affected)]))
    plan = drain(cluster, [leaving])
    assert_is_sound(cluster, plan)
    assert {move.where for move in plan.moves} == {each.where for each in affected}
    assert plan.copied_replicas == len(affected)
    racks = {each.rack for each in cluster.brokers if each.broker_id != leaving}
    for move in plan.moves:
        assert leaving not in move.after
        staying = racks_of(cluster, tuple(each for each in move.before if each != leaving))
        assert len(racks_of(cluster, move.after)) == min(len(staying | racks), len(staying) + 1)


@given(layouts(with_racks=False))
def test_a_new_broker_gets_its_share_and_nothing_else_moves(cluster: ClusterLayout) -> None:
    new = len(cluster.brokers) + 1
    grown = layout([*cluster.brokers, broker(new)], cluster.partitions)
    plan = add(grown, [new])
    assert_is_sound(grown, plan)
    assert all(move.adding in {(new,), ()} for move in plan.moves)
    counts = replica_counts(grown.active, after(grown, plan))
    assert all(other - counts[-1] <= 1 for other in counts)
    assert plan.copied_replicas == counts[-1]
    if len({len(each.replicas) for each in cluster.partitions}) <= 1:
        # Else the new broker may lead many single replicas that it gets.
        leaders = leader_counts(grown.active, after(grown, plan))
        before = leader_counts(
            grown.active, {each.where: each.replicas for each in grown.partitions}
        )
        assert unevenness(leaders) <= unevenness(before)


def test_a_new_broker_gets_its_share_of_leaders_too() -> None:
    grown = counted(4, [[1, 2], [2, 3], [3, 1]] * 8)
    plan = add(grown, [4])
    assert replica_counts(grown.active, after(grown, plan)) == [12, 12, 12, 12]
    assert leader_counts(grown.active, after(grown, plan)) == [6, 6, 6, 6]


@given(layouts(with_fenced=True), st.integers(1, 4))
def test_another_factor_keeps_what_is_there_and_uses_racks(
    cluster: ClusterLayout, factor: int
) -> None:
    topics = {each.where.topic for each in cluster.partitions}
    if factor > len(cluster.active) and any(each.leader >= 0 for each in cluster.partitions):
        with pytest.raises(PlanRefused, match="replicas"):
            change_topics(cluster, topics, replication_factor=factor)
        return
    plan = change_topics(cluster, topics, replication_factor=factor)
    assert_is_sound(cluster, plan)
    active_racks = {each.rack for each in cluster.brokers if not each.is_fenced}
    for each in cluster.partitions:
        replicas = after(cluster, plan)[each.where]
        if each.leader < 0:
            assert replicas == each.replicas
            continue
        assert len(replicas) == factor
        assert len(set(replicas) - set(each.replicas)) == max(0, factor - len(each.replicas))
        before = racks_of(cluster, each.replicas)
        if factor > len(each.replicas):
            assert len(racks_of(cluster, replicas)) == min(
                len(before | active_racks), len(before) + factor - len(each.replicas)
            )
        if factor < len(each.replicas) and len(each.isr) >= factor:
            assert set(replicas) <= set(each.isr)


@given(layouts(max_brokers=5), st.data())
def test_topics_on_chosen_brokers_are_only_there(
    cluster: ClusterLayout, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(cluster.active), min_size=1, unique=True))
    wanted = [each for each in cluster.partitions if each.where.topic == "x"]
    assume(wanted and max(len(each.replicas) for each in wanted) <= len(chosen))
    plan = change_topics(cluster, ["x"], brokers=chosen)
    assert_is_sound(cluster, plan)
    for move in plan.moves:
        assert move.where.topic == "x"
    for each in wanted:
        assert set(after(cluster, plan)[each.where]) <= set(chosen)


def test_bytes_are_evened_out_by_swaps_that_keep_the_counts() -> None:
    placed = [partition("t", n, [1], size=1000) for n in range(4)] + [
        partition("t", n, [2], size=10) for n in range(4, 8)
    ]
    cluster = layout([broker(1), broker(2)], placed)
    assert not rebalance(cluster).moves
    plan = rebalance(cluster, byte_tolerance=0.1)
    assert plan.copied_replicas == 4
    assert plan.received_bytes == {1: 20, 2: 2000}


def test_the_plan_of_an_even_cluster_is_empty_and_leaders_go_home() -> None:
    cluster = layout(
        [broker(1), broker(2)], [partition("t", 0, [1, 2], leader=2), partition("t", 1, [2, 1])]
    )
    plan = rebalance(cluster)
    assert plan.moves == ()
    assert plan.elections == (TopicPartition("t", 0),)


def test_only_the_order_changes_where_leaders_alone_are_uneven() -> None:
    plan = rebalance(counted(2, [[1, 2], [1, 2]]))
    (move,) = plan.moves
    assert (move.before, move.after, move.copied_bytes) == ((1, 2), (2, 1), 0)
    assert plan.elections == (move.where,)


def test_time_is_that_of_the_busiest_broker_at_the_throttle() -> None:
    cluster = layout(
        [broker(1), broker(2), broker(3)], [partition("t", n, [1], size=600) for n in range(3)]
    )
    plan = rebalance(cluster, throttle_bytes=100)
    assert (plan.copied_bytes, plan.sent_bytes, plan.received_bytes) == (
        1200,
        {1: 1200},
        {2: 600, 3: 600},
    )
    assert plan.expected_seconds == 12.0
    assert rebalance(cluster).expected_seconds is None


def test_what_cannot_be_planned_is_refused_with_a_sentence() -> None:
    cluster = counted(3, [[1, 2, 3]])
    down = layout([broker(1), broker(2), broker(3, is_fenced=True)], cluster.partitions)
    with pytest.raises(PlanRefused, match="broker 3 is down: start it first"):
        rebalance(down)
    with pytest.raises(PlanRefused, match="there is no broker 9; there are 1, 2, 3"):
        drain(cluster, [9])
    with pytest.raises(PlanRefused, match="t is to have 3 replicas, and only 2 brokers are there"):
        drain(cluster, [3])
    with pytest.raises(PlanRefused, match="the last one cannot be emptied"):
        drain(cluster, [1, 2, 3])
    with pytest.raises(PlanRefused, match="broker 3 is fenced"):
        add(down, [3])
    with pytest.raises(PlanRefused, match="t is to have 4 replicas, and only 3 brokers"):
        change_topics(cluster, ["t"], replication_factor=4)
    with pytest.raises(PlanRefused, match="there is no topic u"):
        change_topics(cluster, ["u"], replication_factor=1)
    with pytest.raises(PlanRefused, match="broker 3 is fenced"):
        change_topics(down, ["t"], brokers=[1, 2, 3])


def test_a_broker_that_is_down_is_emptied_from_the_replicas_that_are_left() -> None:
    brokers = [broker(1), broker(2), broker(3), broker(4, is_fenced=True)]
    cluster = layout(
        brokers,
        [partition("t", 0, [4, 1], leader=1, isr=[1]), partition("t", 1, [4], leader=-1, isr=[4])],
    )
    plan = drain(cluster, [4])
    (move,) = plan.moves
    assert (move.where.partition, move.source) == (0, 1)
    assert plan.notes == (
        "t-1 has no leader, so nothing can be copied from it: it stays where it is",
    )


def internal(count: int, replicas: list[int]) -> list[PartitionLayout]:
    return [partition("__consumer_offsets", number, replicas, size=10) for number in range(count)]


def test_internal_topics_get_more_replicas_when_brokers_join() -> None:
    own = [partition("t", number, [1], size=1000) for number in range(2)]
    grown = layout([broker(1), broker(2), broker(3)], [*internal(3, [1]), *own])
    plan = join(grown, [2, 3], 3)
    placed = after(grown, plan)
    assert all(
        sorted(placed[TopicPartition("__consumer_offsets", number)]) == [1, 2, 3]
        for number in range(3)
    )
    assert {len(placed[each.where]) for each in own} == {1}
    assert sorted(leader_counts(grown.active, placed)) == [1, 2, 2]
    assert plan.notes == (
        "more replicas, 3 each: __consumer_offsets; min.insync.replicas stays as it is: tidelog configs describe --topic NAME",
    )
    assert join(grown, [2, 3], 0).copied_replicas == 3, (
        "factors stay, and three of five replicas move"
    )


def test_internal_factors_are_never_more_than_there_are_brokers() -> None:
    two = layout([broker(1), broker(2), broker(3, is_fenced=True)], internal(2, [1]))
    assert {len(move.after) for move in raise_internal_factors(two, 3).moves} == {2}
    assert raise_internal_factors(layout([broker(1)], internal(2, [1])), 3).is_empty


@given(layouts(with_racks=False), st.integers(1, 3))
def test_two_plans_after_each_other_are_one_that_starts_where_the_replicas_are(
    cluster: ClusterLayout, factor: int
) -> None:
    assume(factor <= len(cluster.active))
    topics = {each.where.topic for each in cluster.partitions}
    first = change_topics(cluster, topics, replication_factor=factor)
    plan = followed_by(cluster, first, rebalance)
    assert_is_sound(cluster, plan)
    present = {each.where: each.replicas for each in cluster.partitions}
    assert all(move.before == present[move.where] for move in plan.moves)
    sizes = {each.where: each.size_bytes for each in cluster.partitions}
    assert {len(replicas) for replicas in after(cluster, plan).values()} <= {factor}
    counts = replica_counts(cluster.active, after(cluster, plan))
    assert max(counts) - min(counts) <= 1
    assert plan.copied_bytes == sum(sizes[move.where] * len(move.adding) for move in plan.moves)


def test_a_plan_that_does_not_fit_is_told() -> None:
    cluster = layout(
        [broker(1), broker(2, usable_bytes=500)],
        [partition("t", number, [1], size=1000) for number in range(2)],
    )
    plan = rebalance(cluster)
    assert lack_of_room(cluster, plan) == ["broker 2 has room for 500 bytes and would get 1,000"]
    assert lack_of_room(layout([broker(1), broker(2)], cluster.partitions), plan) == []


@pytest.mark.parametrize("factor", [1, 3])
def test_a_large_cluster_is_planned_soon(factor: int) -> None:
    placed = [[(n + shift) % 9 + 1 for shift in range(factor)] for n in range(3000)]
    plan = add(counted(10, placed), [10])
    assert plan.copied_replicas == 300 * factor
