"""A group's description shows only topics that its client may describe."""

import pytest

from log_service.broker.authorization.group_gates import assigned_topics
from log_service.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)


def assignment(*names: str) -> Assignment:
    return Assignment(
        topic_partitions=[TopicPartitions(topic_name=name, partitions=[0]) for name in names]
    )


@pytest.mark.parametrize(
    ("has", "is_to_have", "shown"),
    [
        (("a",), (), {"a"}),
        ((), ("b",), {"b"}),
        (("a",), ("b", "c"), {"a", "b", "c"}),
        ((), (), set()),
    ],
)
def test_what_a_member_has_and_what_it_is_to_have_are_both_shown(
    has: tuple[str, ...], is_to_have: tuple[str, ...], shown: set[str]
) -> None:
    members = [
        Member(),
        Member(assignment=assignment(*has), target_assignment=assignment(*is_to_have)),
    ]
    assert set(assigned_topics(DescribedGroup(members=members))) == shown
