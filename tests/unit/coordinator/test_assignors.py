"""The assignors give every partition to one reader, evenly, with as few moves as possible."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from log_service.coordinator.group.consumer.assignors import (
    ASSIGNORS,
    MemberSpec,
    assign_range,
    assign_uniform,
)
from log_service.coordinator.group.values.partitions import Partitions

TOPICS = [UUID(int=number) for number in range(1, 5)]
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), max_size=4)
member_names = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True)


def spec(
    name: str, topics: frozenset[UUID], last: Partitions | None = None, instance: str | None = None
) -> MemberSpec:
    return MemberSpec(
        member_id=name, instance_id=instance, topic_ids=topics, last_target=last or {}
    )


def sizes(targets: dict[str, Partitions]) -> dict[str, int]:
    return {name: sum(map(len, target.values())) for name, target in targets.items()}


@given(
    counts,
    st.dictionaries(st.sampled_from("abcdefg"), st.frozensets(st.sampled_from(TOPICS)), min_size=1),
    st.sampled_from(sorted(ASSIGNORS)),
)
def test_every_partition_with_a_reader_has_exactly_one(
    partition_counts: dict[UUID, int], wanted: dict[str, frozenset[UUID]], assignor: str
) -> None:
    targets = ASSIGNORS[assignor](
        [spec(name, topics) for name, topics in wanted.items()], partition_counts
    )
    assert targets.keys() == wanted.keys()
    given_out = [
        (topic, index)
        for target in targets.values()
        for topic, indexes in target.items()
        for index in indexes
    ]
    read = {topic for topics in wanted.values() for topic in topics} & partition_counts.keys()
    assert sorted(given_out) == sorted(
        (topic, index) for topic in read for index in range(partition_counts[topic])
    )
    assert all(
        target.keys() <= wanted[name] and all(target.values()) for name, target in targets.items()
    )


@given(counts, member_names, member_names)
def test_uniform_is_even_and_moves_as_little_as_possible(
    partition_counts: dict[UUID, int], before: list[str], after: list[str]
) -> None:
    topics = frozenset(TOPICS)
    first = assign_uniform([spec(name, topics) for name in before], partition_counts)
    second = assign_uniform(
        [spec(name, topics, first.get(name)) for name in after], partition_counts
    )
    held = sizes(second)
    assert max(held.values()) - min(held.values()) <= 1
    share, extra = divmod(sum(partition_counts.values()), len(after))
    fullest = sorted((sizes(first).get(name, 0) for name in after), reverse=True)
    keepable = sum(min(size, share + (place < extra)) for place, size in enumerate(fullest))
    kept = sum(
        len(second[name].get(topic, frozenset()) & first[name].get(topic, frozenset()))
        for name in after
        if name in first
        for topic in topics
    )
    assert kept == keepable


@given(
    counts,
    st.dictionaries(
        st.sampled_from("abcd"), st.frozensets(st.sampled_from(TOPICS), min_size=1), min_size=1
    ),
)
def test_uniform_leaves_no_single_move_that_would_even_out_members_with_different_topics(
    partition_counts: dict[UUID, int], wanted: dict[str, frozenset[UUID]]
) -> None:
    targets = assign_uniform(
        [spec(name, topics) for name, topics in wanted.items()], partition_counts
    )
    held = sizes(targets)
    for giver, target in targets.items():
        for topic in target:
            assert all(held[giver] - held[taker] <= 1 for taker in wanted if topic in wanted[taker])


def test_uniform_keeps_what_members_with_different_topics_have() -> None:
    orders, bills = TOPICS[:2]
    both, one = frozenset({orders, bills}), frozenset({orders})
    last: dict[str, Partitions] = {
        "a": {orders: frozenset({1}), bills: frozenset({0})},
        "b": {orders: frozenset({0, 2})},
    }
    again = assign_uniform(
        [spec("a", both, last["a"]), spec("b", one, last["b"])], {orders: 3, bills: 1}
    )
    assert again == last


def test_range_divides_topics_of_equal_size_alike() -> None:
    orders, bills = TOPICS[:2]
    targets = assign_range(
        [spec(name, frozenset({orders, bills})) for name in "ba"], {orders: 5, bills: 5}
    )
    assert targets["a"] == {orders: frozenset({0, 1, 2}), bills: frozenset({0, 1, 2})}
    assert targets["b"] == {orders: frozenset({3, 4}), bills: frozenset({3, 4})}


def test_range_puts_static_members_first_by_their_instance_ids() -> None:
    orders = TOPICS[0]
    specs = [
        spec("a", frozenset({orders})),
        spec("z", frozenset({orders}), instance="1"),
        spec("y", frozenset({orders}), instance="2"),
    ]
    targets = assign_range(specs, {orders: 3})
    assert [sorted(targets[name][orders]) for name in ("z", "y", "a")] == [[0], [1], [2]]


def test_range_leaves_members_without_a_partition_empty() -> None:
    orders = TOPICS[0]
    assert assign_range([spec(name, frozenset({orders})) for name in "abc"], {orders: 1})["c"] == {}
