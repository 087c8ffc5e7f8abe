"""confluent-kafka's AdminClient: topics, partitions, configs, records, offsets and the cluster."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

from tests.integration.confluent import (
    WAIT_SECONDS,
    ConfigEntry,
    ConfigOp,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    Sent,
    admin,
    create_topic,
    produce,
    read_all,
    wait_until,
)

MakeTopic = Callable[..., str]


@pytest.fixture
def client(bootstrap: str) -> Any:
    return admin(bootstrap)


def result(futures: dict[Any, "Future[Any]"]) -> Any:
    """The result of the only future."""
    (future,) = futures.values()
    return future.result(WAIT_SECONDS)


def error_of(futures: dict[Any, "Future[Any]"]) -> KafkaError:
    """The error of the only future."""
    with pytest.raises(KafkaException) as caught:
        result(futures)
    error: KafkaError = caught.value.args[0]
    return error


def topic_configs(client: Any, topic: str) -> dict[str, Any]:
    entries: dict[str, Any] = result(
        client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    )
    return entries


def alter(
    client: Any, topic: str, *changes: tuple[str, str | None, Any]
) -> dict[Any, "Future[Any]"]:
    entries = [
        ConfigEntry(key, value, incremental_operation=operation)
        for key, value, operation in changes
    ]
    futures: dict[Any, Future[Any]] = client.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)]
    )
    return futures


# Topics


def test_topics_are_created_listed_and_deleted(client: Any, name: str) -> None:
    result(client.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)]))
    found = client.list_topics(timeout=WAIT_SECONDS).topics[name]
    assert sorted(found.partitions) == [0, 1, 2]
    assert {
        (one.leader, tuple(one.replicas), tuple(one.isrs)) for one in found.partitions.values()
    } == {(1, (1,), (1,))}
    result(client.delete_topics([name]))
    wait_until(
        lambda: name not in client.list_topics(timeout=WAIT_SECONDS).topics, "the topic is gone"
    )


def test_a_topic_without_numbers_gets_the_brokers(client: Any, name: str) -> None:
    """KIP-464."""
    result(client.create_topics([NewTopic(name)]))
    assert len(client.list_topics(name, timeout=WAIT_SECONDS).topics[name].partitions) == 1


def test_a_request_for_several_topics_is_answered_for_each(client: Any, name: str) -> None:
    wanted = {
        name: (NewTopic(name, 1), None),
        "bad name!": (NewTopic("bad name!", 1), KafkaError.TOPIC_EXCEPTION),
        "x" * 250: (NewTopic("x" * 250, 1), KafkaError.TOPIC_EXCEPTION),
        f"{name}-config": (
            NewTopic(f"{name}-config", 1, config={"retention.ms": "soon"}),
            KafkaError.INVALID_CONFIG,
        ),
        f"{name}-key": (
            NewTopic(f"{name}-key", 1, config={"no.such.key": "1"}),
            KafkaError.INVALID_CONFIG,
        ),
        f"{name}-wide": (
            NewTopic(f"{name}-wide", 1, replication_factor=3),
            KafkaError.INVALID_REPLICATION_FACTOR,
        ),
    }
    futures = client.create_topics([topic for topic, _ in wanted.values()])
    codes: dict[str, int | None] = {}
    for which, future in futures.items():
        error = future.exception(WAIT_SECONDS)
        codes[which] = None if error is None else error.args[0].code()
    assert codes == {which: code for which, (_, code) in wanted.items()}
    assert f"{name}-config" not in client.list_topics(timeout=WAIT_SECONDS).topics


def test_a_topic_that_is_there_is_told_with_its_name(client: Any, topic: str) -> None:
    error = error_of(client.create_topics([NewTopic(topic, 1)]))
    assert error.code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert topic in error.str()


def test_names_that_would_collide_in_metrics_are_refused(client: Any, name: str) -> None:
    result(client.create_topics([NewTopic(f"{name}.a", 1)]))
    assert (
        error_of(client.create_topics([NewTopic(f"{name}_a", 1)])).code()
        == KafkaError.TOPIC_EXCEPTION
    )


def test_validating_only_decides_and_makes_nothing(client: Any, name: str) -> None:
    result(client.create_topics([NewTopic(name, 1)], validate_only=True))
    assert name not in client.list_topics(timeout=WAIT_SECONDS).topics
    assert (
        error_of(client.create_topics([NewTopic("bad name!", 1)], validate_only=True)).code()
        == KafkaError.TOPIC_EXCEPTION
    )


def test_replicas_may_be_placed_by_hand(client: Any, name: str) -> None:
    result(client.create_topics([NewTopic(name, num_partitions=2, replica_assignment=[[1], [1]])]))
    assert len(client.list_topics(name, timeout=WAIT_SECONDS).topics[name].partitions) == 2
    elsewhere = NewTopic(f"{name}-elsewhere", num_partitions=1, replica_assignment=[[77]])
    assert (
        error_of(client.create_topics([elsewhere])).code() == KafkaError.INVALID_REPLICA_ASSIGNMENT
    )


def test_deleting_what_is_not_there_is_told(client: Any, name: str) -> None:
    assert error_of(client.delete_topics([name])).code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_recreated_topic_is_empty(bootstrap: str, client: Any, topic: str) -> None:
    produce(bootstrap, topic, [b"old"])
    result(client.delete_topics([topic]))
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"new"])
    assert read_all(bootstrap, topic, 1) == [b"new"]


def test_partitions_are_added_and_never_taken_away(bootstrap: str, client: Any, topic: str) -> None:
    produce(bootstrap, topic, [b"stays"])
    result(client.create_partitions([NewPartitions(topic, 4)]))
    assert len(client.list_topics(topic, timeout=WAIT_SECONDS).topics[topic].partitions) == 4
    assert read_all(bootstrap, topic, 1) == [b"stays"]
    for count in (4, 2):
        assert (
            error_of(client.create_partitions([NewPartitions(topic, count)])).code()
            == KafkaError.INVALID_PARTITIONS
        )


def test_each_topic_of_a_request_for_partitions_is_answered(
    client: Any, topic: str, name: str
) -> None:
    futures = client.create_partitions(
        [NewPartitions(topic, 2), NewPartitions(f"{name}-nowhere", 2)]
    )
    futures[topic].result(WAIT_SECONDS)
    with pytest.raises(KafkaException) as caught:
        futures[f"{name}-nowhere"].result(WAIT_SECONDS)
    assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_topics_are_described_with_their_ids(bootstrap: str, client: Any, name: str) -> None:
    create_topic(bootstrap, name, 2)
    described = result(
        client.describe_topics(TopicCollection([name]), include_authorized_operations=True)
    )
    assert len(described.partitions) == 2
    assert not described.is_internal
    assert described.authorized_operations
    assert len(str(described.topic_id)) == 22
    assert (
        error_of(client.describe_topics(TopicCollection([f"{name}-nowhere"]))).code()
        == KafkaError.UNKNOWN_TOPIC_OR_PART
    )


# Configs


def test_every_config_of_a_topic_is_described(client: Any, new_topic: MakeTopic) -> None:
    entries = topic_configs(client, new_topic(retention_ms="60000"))
    own = entries["retention.ms"]
    assert (own.value, own.is_default, own.source) == (
        "60000",
        False,
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert [one.value for one in own.synonyms.values()][-1] in {"60000", "604800000", "168"}
    inherited = entries["max.message.bytes"]
    assert (inherited.value, inherited.is_default) == ("1048588", True)
    kafka_4_3 = {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "index.interval.bytes",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
    assert kafka_4_3 <= set(entries)


def test_a_change_takes_effect_at_once_and_can_be_taken_back(
    bootstrap: str, client: Any, topic: str
) -> None:
    result(alter(client, topic, ("max.message.bytes", "500", ConfigOp.SET)))
    sent = Sent(bootstrap)
    sent.send(topic, b"x" * 2_000)
    sent.flush_quietly(WAIT_SECONDS)
    assert [error.code() for error in sent.failed] == [KafkaError.MSG_SIZE_TOO_LARGE]
    result(alter(client, topic, ("max.message.bytes", None, ConfigOp.DELETE)))
    produce(bootstrap, topic, [b"x" * 2_000])
    assert topic_configs(client, topic)["max.message.bytes"].is_default


def test_lists_are_added_to_and_taken_from(client: Any, topic: str) -> None:
    result(alter(client, topic, ("cleanup.policy", "compact", ConfigOp.APPEND)))
    assert set(topic_configs(client, topic)["cleanup.policy"].value.split(",")) == {
        "delete",
        "compact",
    }
    result(alter(client, topic, ("cleanup.policy", "delete", ConfigOp.SUBTRACT)))
    assert topic_configs(client, topic)["cleanup.policy"].value == "compact"


@pytest.mark.parametrize(
    ("key", "value", "operation"),
    [
        ("retention.ms", "soon", ConfigOp.SET),
        ("retention.ms", "-5", ConfigOp.SET),
        ("no.such.key", "1", ConfigOp.SET),
        ("cleanup.policy", "shred", ConfigOp.SET),
        ("compression.type", "rar", ConfigOp.SET),
        ("segment.bytes", "10", ConfigOp.SET),
        ("min.insync.replicas", "0", ConfigOp.SET),
        ("retention.ms", "1", ConfigOp.APPEND),
        ("message.timestamp.type", "Yesterday", ConfigOp.SET),
        ("preallocate", "perhaps", ConfigOp.SET),
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(
    client: Any, topic: str, key: str, value: str, operation: Any
) -> None:
    error = error_of(
        alter(client, topic, ("retention.bytes", "123456", ConfigOp.SET), (key, value, operation))
    )
    assert error.code() == KafkaError.INVALID_CONFIG
    assert key in error.str()
    assert topic_configs(client, topic)["retention.bytes"].is_default


def test_configs_of_a_topic_that_is_not_there_are_an_error(client: Any, name: str) -> None:
    described = error_of(client.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))
    altered = error_of(alter(client, name, ("retention.ms", "1", ConfigOp.SET)))
    assert (described.code(), altered.code()) == (KafkaError.UNKNOWN_TOPIC_OR_PART,) * 2


def test_the_broker_is_described(client: Any) -> None:
    described = result(client.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert described["node.id"].value == "1"
    assert described["node.id"].is_read_only
    assert described["offsets.topic.num.partitions"].value == "4"
    assert described["log.retention.hours"].value == "168"


def test_a_change_for_a_broker_reaches_its_topics(client: Any, topic: str) -> None:
    def change(operation: Any) -> None:
        entry = ConfigEntry("log.retention.bytes", "987654321", incremental_operation=operation)
        result(
            client.incremental_alter_configs(
                [ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])]
            )
        )

    change(ConfigOp.SET)
    try:
        wait_until(
            lambda: topic_configs(client, topic)["retention.bytes"].value == "987654321",
            "the topic inherits it",
        )
        source = topic_configs(client, topic)["retention.bytes"].source
    finally:
        change(ConfigOp.DELETE)
    assert source == ConfigSource.DYNAMIC_BROKER_CONFIG.value


def test_the_cluster_is_described(bootstrap: str, client: Any) -> None:
    cluster = client.describe_cluster(include_authorized_operations=True).result(WAIT_SECONDS)
    assert [(node.id, f"{node.host}:{node.port}") for node in cluster.nodes] == [(1, bootstrap)]
    assert cluster.controller.id == 1
    assert len(cluster.cluster_id) == 22
    assert cluster.authorized_operations


# Records and offsets


def test_offsets_are_listed(bootstrap: str, client: Any, topic: str) -> None:
    sent = Sent(bootstrap)
    for stamp in (1_000, 9_000, 5_000):
        sent.send(topic, b"x", timestamp=1_700_000_000_000 + stamp)
        sent.flush()
    where = TopicPartition(topic, 0)
    assert result(client.list_offsets({where: OffsetSpec.earliest()})).offset == 0
    assert result(client.list_offsets({where: OffsetSpec.latest()})).offset == 3
    newest = result(client.list_offsets({where: OffsetSpec.max_timestamp()}))
    assert (newest.offset, newest.timestamp) == (1, 1_700_000_009_000)
    found = result(client.list_offsets({where: OffsetSpec.for_timestamp(1_700_000_003_000)}))
    assert (found.offset, found.timestamp) == (1, 1_700_000_009_000)


def test_an_empty_partition_has_no_newest_record(client: Any, topic: str) -> None:
    newest = result(client.list_offsets({TopicPartition(topic, 0): OffsetSpec.max_timestamp()}))
    assert (newest.offset, newest.timestamp) == (-1, -1)


def test_records_are_deleted(bootstrap: str, client: Any, topic: str) -> None:
    produce(bootstrap, topic, [b"one", b"two", b"three"])
    assert result(client.delete_records([TopicPartition(topic, 0, 2)])).low_watermark == 2
    assert read_all(bootstrap, topic, 1) == [b"three"]
    assert result(client.delete_records([TopicPartition(topic, 0, 1)])).low_watermark == 2
    assert (
        error_of(client.delete_records([TopicPartition(topic, 0, 4)])).code()
        == KafkaError.OFFSET_OUT_OF_RANGE
    )
    assert result(client.delete_records([TopicPartition(topic, 0, -1)])).low_watermark == 3
    produce(bootstrap, topic, [b"four"])
    assert read_all(bootstrap, topic, 1) == [b"four"]


def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(
    client: Any, new_topic: MakeTopic
) -> None:
    topic = new_topic(cleanup_policy="compact")
    assert (
        error_of(client.delete_records([TopicPartition(topic, 0, -1)])).code()
        == KafkaError.POLICY_VIOLATION
    )
