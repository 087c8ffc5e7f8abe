"""confluent-kafka (librdkafka) consumers of the consumer group protocol (KIP-848): they share partitions, hand them over, and commit."""

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.integration.confluent import WAIT_SECONDS, Sent, admin, settings

NewTopic = Callable[..., str]


class Reader:
    """One consumer, and what it was given."""

    def __init__(self, bootstrap: str, topic: str, group: str, **more: Any) -> None:
        named = settings(
            bootstrap, group_id=group, group_protocol="consumer", auto_offset_reset="earliest", enable_auto_commit=False, **more
        )
        self.consumer: Any = confluent_kafka.Consumer(named)
        self.consumer.subscribe([topic])
        self.values: list[bytes] = []

    def poll(self) -> None:
        """Read for a moment."""
        record = self.consumer.poll(0.05)
        if record is not None:
            assert record.error() is None, record.error()
            self.values.append(record.value())

    @property
    def partitions(self) -> set[int]:
        """What it holds."""
        return {each.partition for each in self.consumer.assignment()}


def send(bootstrap: str, topic: str, values: list[bytes], partition: int) -> None:
    """Produce to one partition."""
    sent = Sent(bootstrap)
    for value in values:
        sent.send(topic, value, partition=partition)
    sent.flush()


def poll_until(is_there: Callable[[], bool], what: str, *readers: Reader) -> None:
    """Let consumers read until something has come about."""
    deadline = time.monotonic() + 3 * WAIT_SECONDS
    while not is_there():
        assert time.monotonic() < deadline, f"{what}: {[(reader.partitions, len(reader.values)) for reader in readers]}"
        for reader in readers:
            reader.poll()


def test_two_consumers_share_a_topic_and_the_one_that_stays_takes_over(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4)
    group = f"{topic}-readers"
    for partition in range(4):
        send(bootstrap, topic, [f"{partition}-{number}".encode() for number in range(5)], partition)
    first = Reader(bootstrap, topic, group)
    poll_until(lambda: len(first.values) == 20, "the first consumer reads everything", first)
    assert first.partitions == {0, 1, 2, 3}
    first.consumer.commit(asynchronous=False)
    second = Reader(bootstrap, topic, group)
    poll_until(lambda: len(first.partitions) == len(second.partitions) == 2, "each has two partitions", first, second)
    assert first.partitions | second.partitions == {0, 1, 2, 3}
    first.consumer.close()
    poll_until(lambda: len(second.partitions) == 4, "the second has all", second)
    send(bootstrap, topic, [b"new"], 3)
    poll_until(lambda: b"new" in second.values, "the second reads on", second)
    assert second.values == [b"new"], "what the first one committed is not read again"
    second.consumer.close()


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
    assert (member.group_instance_id, [each.partition for each in member.assignment.topic_partitions]) == ("one", [0])
    reader.consumer.close()
    (position,) = reader_positions(bootstrap, group, topic)
    assert position.offset == 2


def reader_positions(bootstrap: str, group: str, topic: str) -> list[TopicPartition]:
    """The committed positions, as an outsider sees them."""
    client = admin(bootstrap)
    wanted = confluent_kafka.ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    found: list[TopicPartition] = client.list_consumer_group_offsets([wanted])[group].result(WAIT_SECONDS).topic_partitions
    return found
