"""confluent-kafka (librdkafka) consumes by the consumer group protocol (KIP-848).

Consumers share partitions, hand them over, and commit.
"""

from collections.abc import Callable

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.integration.confluent import WAIT_SECONDS, admin
from tests.integration.group_readers import Reader, poll_until, send

NewTopic = Callable[..., str]


def test_two_consumers_share_a_topic_and_the_one_that_stays_takes_over(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=4)
    group = f"{topic}-readers"
    for partition in range(4):
        send(bootstrap, topic, [f"{partition}-{number}".encode() for number in range(5)], partition)
    first = Reader(bootstrap, topic, group)
    poll_until(lambda: len(first.values) == 20, "the first consumer reads everything", first)
    assert first.partitions == {0, 1, 2, 3}
    first.consumer.commit(asynchronous=False)
    second = Reader(bootstrap, topic, group)
    poll_until(
        lambda: len(first.partitions) == len(second.partitions) == 2,
        "each has two partitions",
        first,
        second,
    )
    assert first.partitions | second.partitions == {0, 1, 2, 3}
    first.close()
    poll_until(lambda: len(second.partitions) == 4, "the second has all", second)
    send(bootstrap, topic, [b"new"], 3)
    poll_until(lambda: b"new" in second.values, "the second reads on", second)
    assert second.values == [b"new"], "what the first one committed is not read again"
    second.close()


def test_tools_see_the_group_and_its_positions(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=1)
    group = f"{topic}-readers"
    send(bootstrap, topic, [b"1", b"2"], 0)
    reader = Reader(bootstrap, topic, group, group_instance_id="one")
    poll_until(lambda: len(reader.values) == 2, "everything is read", reader)
    reader.consumer.commit(asynchronous=False)
    client = admin(bootstrap)
    described = client.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
    assert str(described.type).endswith("CONSUMER")
    (member,) = described.members
    assert (
        member.group_instance_id,
        [each.partition for each in member.assignment.topic_partitions],
    ) == ("one", [0])
    reader.close()
    (position,) = reader_positions(bootstrap, group, topic)
    assert position.offset == 2


def reader_positions(bootstrap: str, group: str, topic: str) -> list[TopicPartition]:
    """The committed positions, as an outsider sees them."""
    client = admin(bootstrap)
    wanted = confluent_kafka.ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    found: list[TopicPartition] = (
        client.list_consumer_group_offsets([wanted])[group].result(WAIT_SECONDS).topic_partitions
    )
    return found
