"""Assignors: everything is placed once, in balance, moving as little as the name promises."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.client.consumer.assignors import ASSIGNORS, Assignment, Member
from log_service.client.group_protocol import Subscription
from log_service.common.types import TopicPartition


def member(
    member_id: str,
    topics: str = "t",
    owned: str = "",
    generation_id: int = 1,
    instance: str | None = None,
) -> Member:
    """``owned`` lists partitions as ``t0 t1 u0``."""
    partitions = tuple(TopicPartition(each[0], int(each[1:])) for each in owned.split())
    subscription = Subscription(
        topics=tuple(topics.split()), owned=partitions, generation_id=generation_id
    )
    return Member(member_id=member_id, group_instance_id=instance, subscription=subscription)


def placed(assignment: Assignment) -> dict[str, str]:
    return {
        member_id: " ".join(f"{topic}{number}" for topic, number in sorted(owned))
        for member_id, owned in assignment.items()
    }


def test_range_gives_runs_and_the_first_members_one_more() -> None:
    assignment = ASSIGNORS["range"].assign([member("b"), member("a"), member("c")], {"t": 7})
    assert placed(assignment) == {"a": "t0 t1 t2", "b": "t3 t4", "c": "t5 t6"}


def test_range_keeps_equal_numbers_of_two_topics_together() -> None:
    assignment = ASSIGNORS["range"].assign(
        [member("a", "t u"), member("b", "t u")], {"t": 2, "u": 2}
    )
    assert placed(assignment) == {"a": "t0 u0", "b": "t1 u1"}


def test_range_orders_static_members_by_their_names() -> None:
    members = [member("x", instance="2"), member("y", instance="1"), member("a")]
    assert placed(ASSIGNORS["range"].assign(members, {"t": 3})) == {"y": "t0", "x": "t1", "a": "t2"}


def in_rack(member_id: str, rack: str | None, topics: str = "t") -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=None,
        subscription=Subscription(topics=tuple(topics.split()), rack=rack),
    )


def racks(**by_partition: str) -> dict[TopicPartition, frozenset[str]]:
    """``t0="x y"``: partition 0 of t has replicas in racks x and y."""
    return {
        TopicPartition(name[0], int(name[1:])): frozenset(told.split())
        for name, told in by_partition.items()
    }


def test_range_prefers_replicas_in_the_members_rack() -> None:
    members = [in_rack("a", "x"), in_rack("b", "y")]
    assignment = ASSIGNORS["range"].assign(members, {"t": 4}, racks(t0="y", t1="x", t2="y", t3="x"))
    assert placed(assignment) == {"a": "t1 t3", "b": "t0 t2"}


def test_range_gives_the_odd_partition_to_a_member_in_its_rack_and_none_more_than_that() -> None:
    """Shares differ by one at most, and racks decide which member gets the larger one, as in Java."""
    members = [in_rack("a", "x"), in_rack("b", "y"), in_rack("c", None)]
    assignment = ASSIGNORS["range"].assign(members, {"t": 4}, racks(t0="y", t1="y", t2="y", t3="x"))
    assert placed(assignment) == {"a": "t3", "b": "t0 t1", "c": "t2"}


def test_a_member_without_a_rack_is_near_to_everything_in_range() -> None:
    members = [in_rack("a", None), in_rack("b", "x")]
    assert placed(
        ASSIGNORS["range"].assign(members, {"t": 3}, racks(t0="x z", t1="x y", t2="x y"))
    ) == {"a": "t0 t1", "b": "t2"}


def test_range_places_topics_of_one_size_number_by_number() -> None:
    """Copartitioned topics go number by number, in Java's order.

    Each number goes to the first member that is near in all of them and has room.
    """
    members = [in_rack("a", "x", "t u"), in_rack("b", None, "t u"), in_rack("c", "x", "t u")]
    told = racks(t0="y", t1="x", t2="x", t3="x", u0="y", u1="x", u2="x", u3="x")
    assignment = ASSIGNORS["range"].assign(members, {"t": 4, "u": 4}, told)
    assert placed(assignment) == {"a": "t1 t2 u1 u2", "b": "t0 u0", "c": "t3 u3"}


def test_range_keeps_equal_numbers_together_where_racks_matter_too() -> None:
    members = [in_rack("a", "x", "t u"), in_rack("b", "y", "t u")]
    told = racks(t0="y", t1="x", u0="y", u1="x")
    assert placed(ASSIGNORS["range"].assign(members, {"t": 2, "u": 2}, told)) == {
        "a": "t1 u1",
        "b": "t0 u0",
    }


@pytest.mark.parametrize("told", [racks(t0="x y", t1="x y"), racks(t0="z", t1="w"), racks()])
def test_range_ignores_racks_that_make_no_difference(
    told: dict[TopicPartition, frozenset[str]],
) -> None:
    members = [in_rack("a", "y"), in_rack("b", "x")]
    assert placed(ASSIGNORS["range"].assign(members, {"t": 2}, told)) == {"a": "t0", "b": "t1"}


def test_roundrobin_deals_over_topics_and_passes_over_who_does_not_want() -> None:
    members = [member("a", "t u"), member("b", "u")]
    assert placed(ASSIGNORS["roundrobin"].assign(members, {"t": 2, "u": 3})) == {
        "a": "t0 t1 u1",
        "b": "u0 u2",
    }


def test_sticky_leaves_what_members_have_and_moves_only_for_balance() -> None:
    members = [member("a", owned="t0 t1 t2 t3"), member("b")]
    assert placed(ASSIGNORS["sticky"].assign(members, {"t": 4})) == {"a": "t0 t1", "b": "t2 t3"}
    members = [member("a", owned="t0 t1"), member("b", owned="t2 t3"), member("c")]
    assignment = placed(ASSIGNORS["sticky"].assign(members, {"t": 6}))
    assert assignment == {"a": "t0 t1", "b": "t2 t3", "c": "t4 t5"}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_sticky_members_begin_in_their_racks(name: str) -> None:
    members = [in_rack("a", "x"), in_rack("b", "y"), in_rack("c", None)]
    told = racks(t0="y", t1="y", t2="x", t3="x", t4="z", t5="y")
    assert placed(ASSIGNORS[name].assign(members, {"t": 6}, told)) == {
        "a": "t2 t3",
        "b": "t0 t5",
        "c": "t1 t4",
    }


def test_sticky_gives_no_member_more_for_the_sake_of_racks() -> None:
    members = [in_rack("a", "x"), in_rack("b", "y")]
    told = racks(t0="x", t1="x", t2="x", t3="x", t4="x", t5="y")
    assert placed(ASSIGNORS["sticky"].assign(members, {"t": 6}, told)) == {
        "a": "t0 t2 t4",
        "b": "t1 t3 t5",
    }


def owning(member_id: str, rack: str | None, owned: str) -> Member:
    told = member(member_id, owned=owned)
    return replace(told, subscription=replace(told.subscription, rack=rack))


def test_sticky_moves_a_partition_to_its_rack_and_no_other() -> None:
    """As Java does: what is owned far away is given up for what is near, as far as balance allows."""
    members = [owning("a", "x", "t0 t1 t2"), owning("b", "y", "t3 t4 t5")]
    told = racks(t0="x", t1="y", t2="z", t3="y", t4="x", t5="z")
    assert placed(ASSIGNORS["sticky"].assign(members, {"t": 6}, told)) == {
        "a": "t0 t2 t4",
        "b": "t1 t3 t5",
    }


def test_cooperative_members_give_up_what_is_far_before_others_get_it() -> None:
    members = [owning("a", "x", "t0 t1"), owning("b", "y", "t2 t3")]
    told = racks(t0="x", t1="y", t2="x", t3="y")
    first = ASSIGNORS["cooperative-sticky"].assign(members, {"t": 4}, told)
    assert placed(first) == {"a": "t0", "b": "t3"}
    members = [owning("a", "x", "t0"), owning("b", "y", "t3")]
    assert placed(ASSIGNORS["cooperative-sticky"].assign(members, {"t": 4}, told)) == {
        "a": "t0 t2",
        "b": "t1 t3",
    }


def test_sticky_goes_over_a_third_member_where_two_cannot_help_each_other() -> None:
    """Two members of nearly equal shares exchange partitions by way of a third.

    a wants t, b t and u, c u: a gives b a partition and b gives c one.
    """
    members = [
        member("a", "t", "t0 t1 t2 t3"),
        member("b", "t u", "u0 u1 u2"),
        member("c", "u", "u3 u4"),
    ]
    assert placed(ASSIGNORS["sticky"].assign(members, {"t": 4, "u": 5})) == {
        "a": "t0 t1 t2",
        "b": "t3 u0 u1",
        "c": "u2 u3 u4",
    }


def test_of_two_claims_the_newer_generation_holds_and_equal_ones_none() -> None:
    members = [
        member("a", owned="t0", generation_id=3),
        member("b", owned="t0 t1", generation_id=4),
    ]
    assert placed(ASSIGNORS["sticky"].assign(members, {"t": 2})) == {"a": "t1", "b": "t0"}
    members = [member("a", owned="t0", generation_id=4), member("b", owned="t0", generation_id=4)]
    assert placed(ASSIGNORS["sticky"].assign(members, {"t": 1})) == {"a": "t0", "b": ""}


def test_cooperative_gives_no_member_what_another_still_owns() -> None:
    cooperative = ASSIGNORS["cooperative-sticky"]
    first = cooperative.assign([member("a", owned="t0 t1 t2 t3"), member("b")], {"t": 4})
    assert placed(first) == {"a": "t0 t1", "b": ""}
    second = cooperative.assign([member("a", owned="t0 t1"), member("b")], {"t": 4})
    assert placed(second) == {"a": "t0 t1", "b": "t2 t3"}


def test_a_topic_that_does_not_exist_is_left_out() -> None:
    for assignor in ASSIGNORS.values():
        assert placed(assignor.assign([member("a", "t nope")], {"t": 1})) == {"a": "t0"}


groups = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(
        st.sets(st.sampled_from("tuv")),
        st.sets(st.tuples(st.sampled_from("tuv"), st.integers(0, 5))),
    ),
    min_size=1,
)
topics = st.dictionaries(st.sampled_from("tuv"), st.integers(1, 6))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(group=groups, counts=topics)
def test_every_wanted_partition_goes_to_one_member_that_wants_it(
    name: str, group: dict[str, tuple[set[str], set[tuple[str, int]]]], counts: dict[str, int]
) -> None:
    members = [
        Member(
            member_id=member_id,
            group_instance_id=None,
            subscription=Subscription(
                topics=tuple(sorted(wanted)),
                owned=tuple(TopicPartition(*each) for each in sorted(owned)),
                generation_id=1,
            ),
        )
        for member_id, (wanted, owned) in group.items()
    ]
    assignor = ASSIGNORS[name]
    assignment = assignor.assign(members, counts)
    assert assignment == assignor.assign(list(reversed(members)), dict(reversed(counts.items())))
    wanted_by = {each.member_id: set(each.subscription.topics) for each in members}
    given_out = [partition for owned in assignment.values() for partition in owned]
    assert len(given_out) == len(set(given_out))
    assert all(
        partition.topic in wanted_by[member_id]
        for member_id, owned in assignment.items()
        for partition in owned
    )
    all_wanted = set().union(*wanted_by.values())
    everything = {
        TopicPartition(topic, number)
        for topic, count in counts.items()
        if topic in all_wanted
        for number in range(count)
    }
    if assignor.is_cooperative:
        owners = {
            partition: each.member_id for each in members for partition in each.subscription.owned
        }
        withheld = everything - set(given_out)
        assert withheld <= set(owners)
    else:
        assert set(given_out) == everything


def with_racks(
    group: dict[str, tuple[set[str], set[tuple[str, int]]]], member_racks: list[str | None]
) -> list[Member]:
    owners = {
        partition: member_id
        for member_id, (_, owned) in sorted(group.items())
        for partition in sorted(owned)
    }
    return [
        Member(
            member_id=member_id,
            group_instance_id=None,
            subscription=Subscription(
                topics=tuple(sorted(wanted)),
                owned=tuple(
                    TopicPartition(*each) for each, owner in owners.items() if owner == member_id
                ),
                generation_id=1,
                rack=rack,
            ),
        )
        for (member_id, (wanted, _)), rack in zip(sorted(group.items()), member_racks, strict=False)
    ]


@given(
    group=groups,
    counts=topics,
    member_racks=st.lists(st.sampled_from(["x", "y", None]), min_size=6, max_size=6),
    partition_racks=st.lists(st.sets(st.sampled_from("xyz"), max_size=2), min_size=18, max_size=18),
)
def test_what_sticky_assigned_it_leaves_alone(
    group: dict[str, tuple[set[str], set[tuple[str, int]]]],
    counts: dict[str, int],
    member_racks: list[str | None],
    partition_racks: list[set[str]],
) -> None:
    """Or a cooperative group would rebalance for ever."""
    members = with_racks(group, member_racks)
    everything = [
        TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])
    ]
    told = {
        partition: frozenset(found)
        for partition, found in zip(everything, partition_racks, strict=False)
    }
    first = ASSIGNORS["sticky"].assign(members, counts, told)
    assert first == ASSIGNORS["sticky"].assign(
        list(reversed(members)), dict(reversed(counts.items())), told
    )
    again = [
        replace(each, subscription=replace(each.subscription, owned=tuple(first[each.member_id])))
        for each in members
    ]
    assert ASSIGNORS["sticky"].assign(again, counts, told) == first


@pytest.mark.parametrize("name", ["roundrobin", "sticky"])
@given(member_count=st.integers(1, 7), counts=topics)
def test_members_with_equal_wishes_get_equal_shares(
    name: str, member_count: int, counts: dict[str, int]
) -> None:
    members = [member(f"m{index}", "t u v") for index in range(member_count)]
    loads = [len(owned) for owned in ASSIGNORS[name].assign(members, counts).values()]
    assert max(loads) - min(loads) <= 1
