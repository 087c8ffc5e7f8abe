"""confluent-kafka's AdminClient against one node."""

from concurrent.futures import Future
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.helpers.broker_process import BrokerThread
from tests.integration.confluent import WAIT_SECONDS, admin, consumer, create_topic, produce, read_all, take


def result(futures: dict[Any, "Future[Any]"]) -> Any:
    """The result of the only future."""
    (future,) = futures.values()
    return future.result(WAIT_SECONDS)


def code_of(caught: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = caught.value.args[0].code()
    return code


def configs(client: AdminClient, kind: ResourceType, name: str) -> dict[str, Any]:
    entries: dict[str, Any] = result(client.describe_configs([ConfigResource(kind, name)]))
    return entries


def alter(client: AdminClient, topic: str, key: str, value: str, operation: AlterConfigOpType = AlterConfigOpType.SET) -> None:
    entry = ConfigEntry(key, value, incremental_operation=operation)
    result(client.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))


def test_topics_are_created_listed_and_deleted(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    result(client.create_topics([NewTopic("made", num_partitions=3)]))
    found = client.list_topics(timeout=WAIT_SECONDS).topics["made"]
    assert sorted(found.partitions) == [0, 1, 2]
    assert {partition.leader for partition in found.partitions.values()} == {1}
    result(client.delete_topics(["made"]))
    assert "made" not in client.list_topics(timeout=WAIT_SECONDS).topics


def test_a_request_for_several_topics_is_answered_for_each(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    topics = [NewTopic("good", 1), NewTopic("bad name!", 1), NewTopic("worse", 1, config={"retention.ms": "soon"})]
    futures = client.create_topics(topics)
    futures["good"].result(WAIT_SECONDS)
    with pytest.raises(KafkaException) as caught:
        futures["bad name!"].result(WAIT_SECONDS)
    assert code_of(caught) == confluent_kafka.KafkaError.TOPIC_EXCEPTION
    with pytest.raises(KafkaException) as caught:
        futures["worse"].result(WAIT_SECONDS)
    assert code_of(caught) == confluent_kafka.KafkaError.INVALID_CONFIG
    with pytest.raises(KafkaException) as caught:
        result(client.create_topics([NewTopic("good", 1)]))
    assert code_of(caught) == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS


def test_a_recreated_topic_is_empty(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    produce(broker.bootstrap, "again", [b"old"])
    result(client.delete_topics(["again"]))
    create_topic(broker.bootstrap, "again")
    produce(broker.bootstrap, "again", [b"new"])
    assert read_all(broker.bootstrap, "again", 1) == [b"new"]


def test_partitions_are_added(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    create_topic(broker.bootstrap, "grows", 1)
    result(client.create_partitions([NewPartitions("grows", 4)]))
    assert len(client.list_topics("grows", timeout=WAIT_SECONDS).topics["grows"].partitions) == 4
    with pytest.raises(KafkaException) as caught:
        result(client.create_partitions([NewPartitions("grows", 2)]))
    assert code_of(caught) == confluent_kafka.KafkaError.INVALID_PARTITIONS


def test_topic_configuration_is_described_and_takes_effect_at_once(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    create_topic(broker.bootstrap, "tuned", retention_ms="60000")
    before = configs(client, ResourceType.TOPIC, "tuned")
    assert (before["retention.ms"].value, before["retention.ms"].is_default) == ("60000", False)
    assert before["max.message.bytes"].is_default
    assert "cleanup.policy" in before
    alter(client, "tuned", "max.message.bytes", "500")
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        produce(broker.bootstrap, "tuned", [b"x" * 2_000])
    alter(client, "tuned", "max.message.bytes", "", AlterConfigOpType.DELETE)
    produce(broker.bootstrap, "tuned", [b"x" * 2_000])


def test_a_bad_value_is_refused_and_changes_nothing(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    create_topic(broker.bootstrap, "strict")
    with pytest.raises(KafkaException) as caught:
        alter(client, "strict", "retention.ms", "soon")
    assert code_of(caught) == confluent_kafka.KafkaError.INVALID_CONFIG
    assert configs(client, ResourceType.TOPIC, "strict")["retention.ms"].is_default


def test_the_broker_is_described(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    described = configs(client, ResourceType.BROKER, "1")
    assert described["node.id"].value == "1"
    assert described["offsets.topic.num.partitions"].value == "4"
    cluster = client.describe_cluster().result(WAIT_SECONDS)
    assert [node.id for node in cluster.nodes] == [1]
    assert len(cluster.cluster_id) == 22


def test_topics_are_described_with_their_ids(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    create_topic(broker.bootstrap, "told", 2)
    described = result(client.describe_topics(confluent_kafka.TopicCollection(["told"])))
    assert len(described.partitions) == 2
    assert not described.is_internal


def test_offsets_are_listed(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    produce(broker.bootstrap, "listed", [b"one", b"two", b"three"])
    partition = TopicPartition("listed", 0)
    assert result(client.list_offsets({partition: OffsetSpec.earliest()})).offset == 0
    assert result(client.list_offsets({partition: OffsetSpec.latest()})).offset == 3
    assert result(client.list_offsets({partition: OffsetSpec.max_timestamp()})).offset >= 0


def test_records_are_deleted(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    produce(broker.bootstrap, "cut", [b"one", b"two", b"three"])
    assert result(client.delete_records([TopicPartition("cut", 0, 2)])).low_watermark == 2
    assert read_all(broker.bootstrap, "cut", 1) == [b"three"]
    with pytest.raises(KafkaException) as caught:
        result(client.delete_records([TopicPartition("cut", 0, 4)]))
    assert code_of(caught) == confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE


def test_groups_are_listed_described_and_deleted(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    produce(broker.bootstrap, "seen", [b"one"])
    member = consumer(broker.bootstrap, "readers")
    member.subscribe(["seen"])
    take(member, 1)
    described = result(client.describe_consumer_groups(["readers"]))
    assert described.state == confluent_kafka.ConsumerGroupState.STABLE
    assert [[at.partition for at in one.assignment.topic_partitions] for one in described.members] == [[0]]
    with pytest.raises(KafkaException) as caught:
        result(client.delete_consumer_groups(["readers"]))
    assert code_of(caught) == confluent_kafka.KafkaError.NON_EMPTY_GROUP
    member.commit(asynchronous=False)
    member.close()
    listed = client.list_consumer_groups().result(WAIT_SECONDS)
    assert [group.group_id for group in listed.valid] == ["readers"]
    offsets = result(client.list_consumer_group_offsets([ConsumerGroupTopicPartitions("readers")]))
    assert [(at.topic, at.partition, at.offset) for at in offsets.topic_partitions] == [("seen", 0, 1)]
    result(client.delete_consumer_groups(["readers"]))
    assert client.list_consumer_groups().result(WAIT_SECONDS).valid == []


def test_the_offsets_of_an_empty_group_are_altered(broker: BrokerThread) -> None:
    client = admin(broker.bootstrap)
    produce(broker.bootstrap, "moved", [b"one", b"two", b"three"])
    wanted = ConsumerGroupTopicPartitions("later", [TopicPartition("moved", 0, 2)])
    result(client.alter_consumer_group_offsets([wanted]))
    member = consumer(broker.bootstrap, "later")
    member.subscribe(["moved"])
    assert [record.value() for record in take(member, 1)] == [b"three"]
    member.close()
