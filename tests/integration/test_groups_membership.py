"""Groups from without: members come, go, die and come back; partitions have one owner at a time."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import confluent_kafka
import pytest

from tests.integration.confluent import (
    WAIT_SECONDS,
    NewPartitions,
    Sent,
    admin,
    consumer,
    produce,
    serve_callbacks,
    take,
    wait_until,
)
from tests.integration.librdkafka_member import Member

NewTopic = Callable[..., str]
ASSIGNORS = ["range", "roundrobin", "cooperative-sticky"]


@contextmanager
def running(*members: Member) -> Iterator[None]:
    try:
        yield
    finally:
        for member in members:
            member.stop()


def owners(*members: Member) -> list[int]:
    """Every assigned partition, once per owner."""
    return sorted(partition for member in members for partition in member.assigned)


def wait_balanced(members: Sequence[Member], partitions: int) -> None:
    low, high = partitions // len(members), -(-partitions // len(members))

    def is_balanced() -> bool:
        sizes = [len(member.assigned) for member in members]
        return (
            owners(*members) == list(range(partitions)) and min(sizes) >= low and max(sizes) <= high
        )

    wait_until(is_balanced, f"{len(members)} members share {partitions} partitions")


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_share_the_partitions_as_they_come_and_go(
    bootstrap: str, new_topic: NewTopic, name: str, assignor: str
) -> None:
    topic = new_topic(partitions=6)
    first = Member(bootstrap, name, [topic], partition_assignment_strategy=assignor)
    with running(first):
        wait_balanced([first], 6)
        second = Member(bootstrap, name, [topic], partition_assignment_strategy=assignor)
        with running(second):
            wait_balanced([first, second], 6)
            third = Member(bootstrap, name, [topic], partition_assignment_strategy=assignor)
            with running(third):
                wait_balanced([first, second, third], 6)
            wait_balanced([first, second], 6)
        wait_balanced([first], 6)
        assert not first.errors


def test_more_members_than_partitions_leave_some_without(
    bootstrap: str, new_topic: NewTopic, name: str
) -> None:
    topic = new_topic(partitions=2)
    members = [Member(bootstrap, name, [topic]) for _ in range(4)]
    with running(*members):
        wait_until(lambda: owners(*members) == [0, 1], "two of four members have a partition each")


def test_every_record_is_received_through_rebalances(
    bootstrap: str, new_topic: NewTopic, name: str
) -> None:
    topic = new_topic(partitions=4)
    sent = Sent(bootstrap, linger_ms=1)
    more = {
        "partition_assignment_strategy": "cooperative-sticky",
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 50,
    }
    first = Member(bootstrap, name, [topic], **more)
    second = Member(bootstrap, name, [topic], **more)
    with running(first, second):
        for number in range(400):
            sent.send(topic, str(number).encode(), partition=number % 4)
            time.sleep(0.002)
            if number == 200:
                second.stop()
        sent.flush()
        wanted = {(partition, offset) for partition in range(4) for offset in range(100)}
        wait_until(
            lambda: wanted <= {*first.received, *second.received}, "all records were received"
        )


def test_a_member_that_dies_is_missed_and_replaced(
    bootstrap: str, new_topic: NewTopic, name: str
) -> None:
    topic = new_topic(partitions=2)
    dying = consumer(
        bootstrap,
        name,
        session_timeout_ms=1_500,
        heartbeat_interval_ms=300,
        max_poll_interval_ms=1_600,
    )
    dying.subscribe([topic])

    def is_owner() -> bool:
        dying.poll(0.05)
        return len(dying.assignment()) == 2

    wait_until(is_owner, "the first member owns both partitions")
    survivor = Member(bootstrap, name, [topic])
    with running(survivor):
        # Nobody polls the first member any more: its poll interval ends, then it is gone.
        wait_balanced([survivor], 2)
    serve_callbacks(dying)
    dying.close()


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    bootstrap: str, new_topic: NewTopic, name: str
) -> None:
    """KIP-345."""
    topic = new_topic(partitions=4)
    other = Member(bootstrap, name, [topic], group_instance_id="other")
    static = Member(bootstrap, name, [topic], group_instance_id="static")
    with running(other, static):
        wait_balanced([other, static], 4)
        mine, count = set(static.assigned), other.rebalance_count
        static.stop()
        again = Member(bootstrap, name, [topic], group_instance_id="static")
        with running(again):
            wait_until(lambda: again.assigned == mine, "the static member has its partitions back")
            assert other.rebalance_count == count
            assert other.assigned.isdisjoint(mine)


def test_a_second_member_with_the_same_instance_id_fences_the_first(
    bootstrap: str, new_topic: NewTopic, name: str
) -> None:
    """KIP-345: the newcomer is believed."""
    topic = new_topic(partitions=2)
    old = Member(bootstrap, name, [topic], group_instance_id="twin")
    with running(old):
        wait_balanced([old], 2)
        new = Member(bootstrap, name, [topic], group_instance_id="twin")
        with running(new):
            wait_until(lambda: len(new.assigned) == 2, "the newcomer owns the partitions")
            fenced = {
                confluent_kafka.KafkaError.FENCED_INSTANCE_ID,
                confluent_kafka.KafkaError._FATAL,
            }
            wait_until(
                lambda: any(error.code() in fenced for error in old.errors),
                "the first member is told that it is fenced",
            )


def test_members_without_a_common_protocol_are_refused(
    bootstrap: str, topic: str, name: str
) -> None:
    first = Member(bootstrap, name, [topic], partition_assignment_strategy="range")
    with running(first):
        wait_balanced([first], 1)
        stranger = Member(
            bootstrap, name, [topic], partition_assignment_strategy="cooperative-sticky"
        )
        with running(stranger):
            code = confluent_kafka.KafkaError.INCONSISTENT_GROUP_PROTOCOL
            wait_until(
                lambda: any(error.code() == code for error in stranger.errors),
                "the stranger is refused",
            )
        assert first.assigned == {0}


def test_a_new_partition_reaches_the_group(bootstrap: str, new_topic: NewTopic, name: str) -> None:
    topic = new_topic(partitions=1)
    member = Member(bootstrap, name, [topic], topic_metadata_refresh_interval_ms=200)
    with running(member):
        wait_balanced([member], 1)
        client = admin(bootstrap)
        client.create_partitions([NewPartitions(topic, 3)])[topic].result(WAIT_SECONDS)
        wait_balanced([member], 3)


def test_a_session_timeout_out_of_bounds_is_refused(bootstrap: str, topic: str, name: str) -> None:
    source = consumer(bootstrap, name, session_timeout_ms=10, heartbeat_interval_ms=5)
    source.subscribe([topic])
    record = source.poll(WAIT_SECONDS)
    source.close()
    assert record is not None
    assert record.error().code() == confluent_kafka.KafkaError.INVALID_SESSION_TIMEOUT


def test_a_group_spans_topics_by_pattern(bootstrap: str, new_topic: NewTopic, name: str) -> None:
    topics = [new_topic(), new_topic()]
    source = consumer(bootstrap, name)
    source.subscribe([f"^{name}-[0-9]+$"])
    for topic in topics:
        produce(bootstrap, topic, [topic.encode()])
    assert sorted(record.value().decode() for record in take(source, 2)) == topics
    source.close()
