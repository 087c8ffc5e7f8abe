"""Groups as administrators see them through confluent-kafka: list, describe, alter, delete."""

from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.integration.confluent import WAIT_SECONDS, admin, consumer, produce, take, wait_until


@pytest.fixture
def client(bootstrap: str) -> Any:
    return admin(bootstrap)


def describe(client: Any, group: str) -> Any:
    return client.describe_consumer_groups([group], include_authorized_operations=True)[
        group
    ].result(WAIT_SECONDS)


def listed(client: Any, **more: Any) -> dict[str, Any]:
    result = client.list_consumer_groups(**more).result(WAIT_SECONDS)
    assert result.errors == []
    return {group.group_id: group for group in result.valid}


def delete_error(client: Any, group: str) -> int:
    with pytest.raises(KafkaException) as caught:
        client.delete_consumer_groups([group])[group].result(WAIT_SECONDS)
    code: int = caught.value.args[0].code()
    return code


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    source = consumer(bootstrap, group)
    source.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    source.close()


def test_a_group_from_its_first_member_to_its_deletion(
    bootstrap: str, client: Any, topic: str, name: str
) -> None:
    produce(bootstrap, topic, [b"one"])
    member = consumer(bootstrap, name, client_id="reader", group_instance_id="static")
    member.subscribe([topic])
    take(member, 1)
    described = describe(client, name)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    assert described.authorized_operations
    (one,) = described.members
    assert (one.client_id, one.group_instance_id) == ("reader", "static")
    assert "127.0.0.1" in one.host
    assert [(where.topic, where.partition) for where in one.assignment.topic_partitions] == [
        (topic, 0)
    ]
    assert listed(client)[name].state == ConsumerGroupState.STABLE
    assert delete_error(client, name) == KafkaError.NON_EMPTY_GROUP
    member.commit(asynchronous=False)
    member.close()
    client.delete_consumer_groups([name])  # refused: a static member stays until its session ends
    assert listed(client)[name].state == ConsumerGroupState.STABLE


def test_an_empty_group_is_deleted_with_its_offsets(
    bootstrap: str, client: Any, topic: str, name: str
) -> None:
    commit(bootstrap, name, topic, 3)
    assert describe(client, name).state == ConsumerGroupState.EMPTY
    client.delete_consumer_groups([name])[name].result(WAIT_SECONDS)
    assert name not in listed(client)
    assert delete_error(client, name) == KafkaError.GROUP_ID_NOT_FOUND
    source = consumer(bootstrap, name)
    (found,) = source.committed([TopicPartition(topic, 0)], WAIT_SECONDS)
    source.close()
    assert found.offset < 0


def test_groups_are_listed_by_state(bootstrap: str, client: Any, topic: str, name: str) -> None:
    commit(bootstrap, name, topic, 3)
    assert name in listed(client, states={ConsumerGroupState.EMPTY})
    assert name not in listed(client, states={ConsumerGroupState.STABLE})


def test_offsets_of_a_group_are_listed(bootstrap: str, client: Any, topic: str, name: str) -> None:
    commit(bootstrap, name, topic, 3)
    every = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result(
        WAIT_SECONDS
    )
    assert [(where.topic, where.partition, where.offset) for where in every.topic_partitions] == [
        (topic, 0, 3)
    ]
    wanted = ConsumerGroupTopicPartitions(
        name, [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    )
    some = client.list_consumer_group_offsets([wanted])[name].result(WAIT_SECONDS)
    assert [(where.partition, where.offset) for where in some.topic_partitions] == [
        (0, 3),
        (1, -1001),
    ]


def test_offsets_of_a_group_without_members_are_altered(
    bootstrap: str, client: Any, topic: str, name: str
) -> None:
    produce(bootstrap, topic, [b"one", b"two", b"three"])
    wanted = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 2)])

    def is_altered() -> bool:
        (answer,) = (
            client.alter_consumer_group_offsets([wanted])[name]
            .result(WAIT_SECONDS)
            .topic_partitions
        )
        # A coordinator that is loading refuses, and this call does not try again.
        return answer.error is None

    wait_until(is_altered, "the offsets are altered")
    member = consumer(bootstrap, name)
    member.subscribe([topic])
    assert [record.value() for record in take(member, 1)] == [b"three"]
    (refused,) = (
        client.alter_consumer_group_offsets([wanted])[name].result(WAIT_SECONDS).topic_partitions
    )
    assert refused.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    member.close()


def test_a_group_that_was_never_there_is_dead(
    client: Any, bootstrap: str, topic: str, name: str
) -> None:
    """Return the description by DescribeGroups up to version 5, which librdkafka speaks."""
    commit(bootstrap, name, topic, 1)
    assert describe(client, f"{name}-never").state == ConsumerGroupState.DEAD


def test_lag_is_what_lies_between_the_commit_and_the_end(
    bootstrap: str, client: Any, topic: str, name: str
) -> None:
    produce(bootstrap, topic, [b"x"] * 10)
    commit(bootstrap, name, topic, 4)
    source = consumer(bootstrap, name)
    (committed,) = source.committed([TopicPartition(topic, 0)], WAIT_SECONDS)
    low, high = source.get_watermark_offsets(TopicPartition(topic, 0), WAIT_SECONDS)
    source.close()
    assert (low, high - committed.offset) == (0, 6)
