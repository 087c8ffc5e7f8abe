"""DeleteTopics and CreatePartitions."""

from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode
from log_service.config.views import TopicDefaults
from log_service.protocol.messages.delete_topics import DeleteTopicState
from log_service.protocol.stored.metadata_records import RemoveTopicRecord
from tests.unit.controller.context import SET, ControllerContext


def test_a_topic_is_deleted_by_name() -> None:
    context = ControllerContext().start()
    topic_id = context.created("orders").topic_id
    (result,) = context.delete("orders")
    assert (result.error_code, result.name, result.topic_id) == (0, "orders", topic_id)
    assert context.records[-1] == RemoveTopicRecord(topic_id=topic_id)
    assert context.controller.image.topics.by_name == {}


def test_a_topic_is_deleted_by_id_and_the_response_names_it() -> None:
    context = ControllerContext().start()
    topic_id = context.created("orders").topic_id
    (result,) = context.delete(states=[DeleteTopicState(topic_id=topic_id)])
    assert (result.error_code, result.name) == (0, "orders")


def test_a_deleted_topic_leaves_no_configuration_to_its_successor() -> None:
    context = ControllerContext().start()
    context.created("orders")
    context.alter("orders", ("retention.ms", SET, "5"))
    context.delete("orders")
    context.created("orders")
    assert context.configs("orders") == {}


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (DeleteTopicState(name="nothing"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (DeleteTopicState(topic_id=UUID(int=77)), ErrorCode.UNKNOWN_TOPIC_ID),
        (DeleteTopicState(), ErrorCode.INVALID_REQUEST),
        (DeleteTopicState(name="orders", topic_id=UUID(int=1000)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_deleted_says_why(state: DeleteTopicState, code: ErrorCode) -> None:
    context = ControllerContext().start()
    context.created("orders")
    (result,) = context.delete(states=[state])
    assert (ErrorCode(result.error_code), result.name) == (code, state.name)
    assert result.error_message
    assert "orders" in context.controller.image.topics.by_name


def test_a_topic_named_twice_is_not_deleted() -> None:
    context = ControllerContext().start()
    topic_id = context.created("orders").topic_id
    results = context.delete(
        states=[DeleteTopicState(name="orders"), DeleteTopicState(topic_id=topic_id)]
    )
    assert [(result.name, result.topic_id, ErrorCode(result.error_code)) for result in results] == [
        ("orders", topic_id, ErrorCode.INVALID_REQUEST)
    ]
    for name in ("orders", "nothing"):
        assert [ErrorCode(result.error_code) for result in context.delete(name, name)] == [
            ErrorCode.INVALID_REQUEST
        ]
    assert "orders" in context.controller.image.topics.by_name


def test_deletable_topics_of_a_request_go_beside_others_that_stay() -> None:
    context = ControllerContext().start()
    context.created("orders")
    assert [result.error_code for result in context.delete("nothing", "orders")] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0,
    ]
    assert context.controller.image.topics.by_name == {}


def test_partitions_are_added_behind_those_that_are_there() -> None:
    context = ControllerContext().start()
    before = context.created("orders", 2).partitions
    assert context.grow("orders", 5).error_code == 0
    after = context.topic("orders").partitions
    assert sorted(after) == [0, 1, 2, 3, 4]
    assert after[0] is before[0]
    assert (after[4].leader, after[4].leader_epoch) == (1, 0)


def test_added_partitions_have_as_many_replicas_as_the_first() -> None:
    context = ControllerContext().start(1, 2, 3)
    context.created("orders", 1, 2)
    context.grow("orders", 6)
    assert {
        len(partition.replicas) for partition in context.topic("orders").partitions.values()
    } == {2}


def test_added_partitions_go_where_they_are_assigned() -> None:
    context = ControllerContext().start(1, 2)
    context.created("orders", 1, 1)
    assert context.grow("orders", 3, [[2], [1]]).error_code == 0
    assert [context.partition("orders", index).replicas for index in (1, 2)] == [(2,), (1,)]


@pytest.mark.parametrize(
    ("name", "total", "assignments", "code"),
    [
        ("nothing", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 3, [[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 4, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 100, None, ErrorCode.POLICY_VIOLATION),
        ("orders", 2**31 - 1, None, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_what_cannot_grow_says_why(
    name: str, total: int, assignments: list[list[int]] | None, code: ErrorCode
) -> None:
    context = ControllerContext(defaults=TopicDefaults(max_partitions_per_request=50)).start(1, 2)
    context.created("orders", 2, 1)
    result = context.grow(name, total, assignments)
    assert ErrorCode(result.error_code) is code
    assert result.error_message
    assert len(context.topic("orders").partitions) == 2


def test_the_bound_counts_all_topics_of_a_request() -> None:
    context = ControllerContext(defaults=TopicDefaults(max_partitions_per_request=10)).start()
    context.created("a")
    context.created("b")
    first, second = context.grow_all(("a", 7, None), ("b", 7, None))
    assert (first.error_code, ErrorCode(second.error_code)) == (0, ErrorCode.POLICY_VIOLATION)


def test_a_topic_that_stands_twice_does_not_grow() -> None:
    context = ControllerContext().start()
    context.created("orders")
    (result,) = context.grow_all(("orders", 2, None), ("orders", 3, None))
    assert ErrorCode(result.error_code) is ErrorCode.INVALID_REQUEST


def test_validate_only_adds_nothing() -> None:
    context = ControllerContext().start()
    context.created("orders")
    assert context.grow("orders", 3, validate_only=True).error_code == 0
    assert len(context.topic("orders").partitions) == 1
