"""Committed offsets from without: what is committed comes back, and a group goes on where it
stopped.
"""

from collections.abc import Callable

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.integration.confluent import WAIT_SECONDS, admin, consumer, produce, take, wait_until

NewTopic = Callable[..., str]


def numbered(bootstrap: str, topic: str, count: int) -> None:
    produce(bootstrap, topic, [str(number).encode() for number in range(count)])


def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str, name: str) -> None:
    numbered(bootstrap, topic, 10)
    first = consumer(bootstrap, name)
    first.subscribe([topic])
    assert [record.value() for record in take(first, 4)] == [b"0", b"1", b"2", b"3"]
    first.commit(asynchronous=False)
    first.close()
    second = consumer(bootstrap, name)
    second.subscribe([topic])
    assert [record.value() for record in take(second, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
    second.close()


def test_what_is_not_committed_is_read_again(bootstrap: str, topic: str, name: str) -> None:
    numbered(bootstrap, topic, 3)
    for _ in range(2):
        source = consumer(bootstrap, name)
        source.subscribe([topic])
        assert [record.value() for record in take(source, 3)] == [b"0", b"1", b"2"]
        source.close()


def test_a_consumer_commits_by_itself_when_it_closes(bootstrap: str, topic: str, name: str) -> None:
    numbered(bootstrap, topic, 5)
    source = consumer(bootstrap, name, enable_auto_commit=True, auto_commit_interval_ms=60_000)
    source.subscribe([topic])
    take(source, 5)
    source.close()
    assert committed(bootstrap, name, topic) == 5


def test_metadata_and_several_partitions_come_back(
    bootstrap: str, new_topic: NewTopic, name: str
) -> None:
    topic = new_topic(partitions=3)
    source = consumer(bootstrap, name)
    wanted = [
        TopicPartition(topic, 0, 7, metadata="sieben"),
        TopicPartition(topic, 1, 0, metadata=""),
    ]
    source.commit(offsets=wanted, asynchronous=False)
    found = source.committed(
        [TopicPartition(topic, partition) for partition in range(3)], WAIT_SECONDS
    )
    source.close()
    assert [(one.offset, one.metadata or "") for one in found] == [
        (7, "sieben"),
        (0, ""),
        (OFFSET_INVALID, ""),
    ]


def test_metadata_beyond_the_limit_is_refused(bootstrap: str, topic: str, name: str) -> None:
    source = consumer(bootstrap, name)
    with pytest.raises(KafkaException) as caught:
        source.commit(
            offsets=[TopicPartition(topic, 0, 1, metadata="m" * 5_000)], asynchronous=False
        )
    source.close()
    assert caught.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE


def test_a_commit_for_a_topic_that_is_not_there_is_refused(
    bootstrap: str, topic: str, name: str
) -> None:
    source = consumer(bootstrap, name)
    answers = []
    for where in (TopicPartition(f"{name}-nowhere", 0, 1), TopicPartition(topic, 5, 1)):
        with pytest.raises(KafkaException) as caught:
            source.commit(offsets=[where], asynchronous=False)
        answers.append(caught.value.args[0].code())
    source.close()
    assert answers == [KafkaError.UNKNOWN_TOPIC_OR_PART] * 2


def test_a_group_that_was_never_there_has_committed_nothing(
    bootstrap: str, topic: str, name: str
) -> None:
    source = consumer(bootstrap, name)
    (found,) = source.committed([TopicPartition(topic, 0)], WAIT_SECONDS)
    source.close()
    assert found.offset == OFFSET_INVALID


def test_the_newest_commit_wins_also_when_it_goes_back(
    bootstrap: str, topic: str, name: str
) -> None:
    source = consumer(bootstrap, name)
    for offset in (1, 9, 4):
        source.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    source.close()
    assert committed(bootstrap, name, topic) == 4


def test_an_outsider_cannot_commit_for_a_group_that_has_members(
    bootstrap: str, topic: str, name: str
) -> None:
    numbered(bootstrap, topic, 1)
    member, outsider = consumer(bootstrap, name), consumer(bootstrap, name)
    member.subscribe([topic])
    take(member, 1)
    with pytest.raises(KafkaException) as caught:
        outsider.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    member.close()
    outsider.close()
    assert caught.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID


def test_deleting_a_topic_forgets_its_committed_offsets(
    bootstrap: str, topic: str, name: str
) -> None:
    source = consumer(bootstrap, name)
    source.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    source.close()
    client = admin(bootstrap)
    client.delete_topics([topic])[topic].result(WAIT_SECONDS)

    def is_forgotten() -> bool:
        futures = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])
        try:
            return not futures[name].result(WAIT_SECONDS).topic_partitions
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND)

    wait_until(is_forgotten, "the committed offset is forgotten")


def test_a_recreated_topic_starts_without_commits(bootstrap: str, topic: str, name: str) -> None:
    numbered(bootstrap, topic, 3)
    source = consumer(bootstrap, name)
    source.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    client = admin(bootstrap)
    client.delete_topics([topic])[topic].result(WAIT_SECONDS)
    wait_until(
        lambda: topic not in client.list_topics(timeout=WAIT_SECONDS).topics, "the topic is gone"
    )
    produce(bootstrap, topic, [b"new"])
    assert committed(bootstrap, name, topic) == OFFSET_INVALID
    source.close()


def test_many_offsets_fit_one_commit(bootstrap: str, new_topic: NewTopic, name: str) -> None:
    topic = new_topic(partitions=200)
    source = consumer(bootstrap, name)
    for base in range(0, 2_000, 200):
        source.commit(
            offsets=[
                TopicPartition(topic, partition, base + partition) for partition in range(200)
            ],
            asynchronous=False,
        )
    found = source.committed(
        [TopicPartition(topic, partition) for partition in range(200)], WAIT_SECONDS
    )
    source.close()
    assert [one.offset for one in found] == [1_800 + partition for partition in range(200)]


def committed(bootstrap: str, group: str, topic: str) -> int:
    """Return the committed offset of a group for partition 0."""
    source = consumer(bootstrap, group)
    (found,) = source.committed([TopicPartition(topic, 0)], WAIT_SECONDS)
    source.close()
    offset: int = found.offset
    return offset
