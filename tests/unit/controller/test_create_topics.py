"""CreateTopics, decided topic by topic."""

from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode
from log_service.config.topic_keys import TOPIC_KEYS
from log_service.config.views import TopicDefaults
from log_service.protocol.messages.create_topics import CreatableTopic
from log_service.protocol.stored.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from tests.unit.controller.context import ControllerContext, new_topic


def code_of(context: ControllerContext, topic: CreatableTopic) -> ErrorCode:
    (result,) = context.create(topic)
    assert (result.error_message is None) == (result.error_code == 0)
    return ErrorCode(result.error_code)


def test_a_topic_is_a_topic_record_its_configuration_and_its_partitions() -> None:
    context = ControllerContext().start()
    before = len(context.records)
    (result,) = context.create(new_topic("orders", 2, 1, configs={"retention.ms": "5"}))
    kinds = [type(record) for record in context.records[before:]]
    assert kinds == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    assert result.topic_id == context.topic("orders").topic_id
    assert context.configs("orders") == {"retention.ms": "5"}


def test_a_new_partition_is_led_by_its_first_replica_in_epoch_zero_in_the_brokers_directory() -> (
    None
):
    context = ControllerContext().start()
    context.created("orders")
    partition = context.partition("orders")
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert [directory.int for directory in partition.directories] == [501]


def test_minus_one_means_the_brokers_defaults() -> None:
    context = ControllerContext(defaults=TopicDefaults(partition_count=4)).start()
    (result,) = context.create(new_topic("orders", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 1)


def test_the_response_shows_every_configuration_of_the_topic() -> None:
    context = ControllerContext(static_texts={"log.retention.hours": "1"}).start()
    (result,) = context.create(new_topic("orders", 1, 1, configs={"cleanup.policy": "compact"}))
    assert result.configs is not None
    rows = {row.name: (row.value, row.config_source) for row in result.configs}
    assert rows.keys() == {name for name, key in TOPIC_KEYS.items() if not key.is_internal}
    assert rows["cleanup.policy"] == ("compact", 1)
    assert rows["retention.ms"] == ("3600000", 4)
    assert rows["segment.bytes"] == ("1073741824", 5)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (new_topic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic(".", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("bad name", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("größe", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("line\n", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("x" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new_topic("x" * 249, 1, 1), ErrorCode.NONE),
        (new_topic("a.b-c_D9", 1, 1), ErrorCode.NONE),
        (new_topic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST),
        (new_topic("orders", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (new_topic("orders", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (new_topic("orders", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new_topic("orders", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new_topic("orders", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new_topic("orders", 10_001, 1), ErrorCode.POLICY_VIOLATION),
        (new_topic("orders", 2**31 - 1, 1), ErrorCode.POLICY_VIOLATION),
        (new_topic("orders", 1, 1, configs={"nope": "1"}), ErrorCode.INVALID_CONFIG),
        (new_topic("orders", 1, 1, configs={"retention.ms": "-7"}), ErrorCode.INVALID_CONFIG),
        (new_topic("orders", 1, 1, configs={"segment.ms": None}), ErrorCode.INVALID_CONFIG),
        (new_topic("orders", 1, 1, configs={"min.insync.replicas": "3"}), ErrorCode.NONE),
        (new_topic("orders", assignments={0: [1], 1: [1]}), ErrorCode.NONE),
        (new_topic("orders", 1, -1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (new_topic("orders", -1, 1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (new_topic("orders", assignments={0: [7]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("orders", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("orders", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("orders", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("orders", assignments={0: [1], 2: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_each_fault_has_the_code_that_kafka_gives_it(
    topic: CreatableTopic, code: ErrorCode
) -> None:
    assert code_of(ControllerContext().start(), topic) is code


def test_a_topic_that_is_there_already_exists() -> None:
    context = ControllerContext().start()
    context.created("orders")
    assert code_of(context, new_topic("orders", 1, 1)) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    context = ControllerContext().start()
    context.created("a.b")
    assert code_of(context, new_topic("a_b", 1, 1)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code_of(context, new_topic("a.c", 1, 1)) is ErrorCode.NONE


def test_names_of_one_request_collide_too() -> None:
    first, second = (
        ControllerContext().start().create(new_topic("a.b", 1, 1), new_topic("a_b", 1, 1))
    )
    assert (first.error_code, second.error_code) == (0, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_valid_topics_of_a_request_are_created_beside_invalid_ones() -> None:
    context = ControllerContext().start()
    results = context.create(
        new_topic("good", 1, 1),
        new_topic("bad name", 1, 1),
        new_topic("fine", 2, 1),
        new_topic("far", 1, 3),
    )
    assert [(result.name, result.error_code == 0) for result in results] == [
        ("good", True),
        ("bad name", False),
        ("fine", True),
        ("far", False),
    ]
    assert sorted(context.controller.image.topics.by_name) == ["fine", "good"]


def test_a_topic_that_stands_twice_has_one_result_and_not_created() -> None:
    context = ControllerContext().start()
    results = context.create(
        new_topic("twice", 1, 1), new_topic("once", 1, 1), new_topic("twice", 2, 1)
    )
    assert [(result.name, ErrorCode(result.error_code)) for result in results] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("once", ErrorCode.NONE),
    ]


def test_too_many_partitions_refuse_the_whole_request() -> None:
    context = ControllerContext(defaults=TopicDefaults(max_partitions_per_request=10)).start()
    results = context.create(new_topic("a", 6, 1), new_topic("b", 5, 1))
    assert [ErrorCode(result.error_code) for result in results] == [ErrorCode.POLICY_VIOLATION] * 2
    assert context.create(new_topic("a", 6, 1), new_topic("b", 4, 1))[1].error_code == 0


def test_validate_only_responds_the_same_and_writes_nothing() -> None:
    context = ControllerContext().start()
    before = len(context.records)
    good, bad = context.create(
        new_topic("orders", 3, 1), new_topic("bad name", 1, 1), validate_only=True
    )
    assert (good.error_code, good.num_partitions, bad.error_code) == (
        0,
        3,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )
    assert len(context.records) == before


def test_without_an_active_broker_nothing_can_be_placed() -> None:
    context = ControllerContext()
    context.register()
    assert code_of(context, new_topic("orders", 1, 1)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert (
        code_of(context, new_topic("orders", assignments={0: [1]}))
        is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


def test_partitions_are_spread_over_the_brokers() -> None:
    context = ControllerContext().start(1, 2, 3)
    context.created("orders", 6, 2)
    partitions = context.topic("orders").partitions.values()
    assert sorted(partition.leader for partition in partitions) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(partition.replicas)) == 2 for partition in partitions)


def test_a_broker_with_several_directories_chooses_by_itself() -> None:
    context = ControllerContext()
    context.register(log_dirs=(UUID(int=501), UUID(int=502)))
    context.beat()
    context.created("orders")
    assert context.partition("orders").directories == (UUID(int=1),), (
        "the id of a replica whose broker has not chosen yet"
    )
