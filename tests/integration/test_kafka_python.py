"""kafka-python: producer, consumer and groups; it speaks the newest versions of most APIs."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kafka
import kafka.codec
import kafka.errors
import pytest
from kafka.structs import OffsetAndMetadata

from tests.integration.confluent import WAIT_SECONDS, wait_until

MakeTopic = Callable[..., str]
CODECS = [
    None,
    "gzip",
    *(name for name in ("snappy", "lz4", "zstd") if getattr(kafka.codec, f"has_{name}")()),
]


@contextmanager
def producer(bootstrap: str, **more: Any) -> Iterator[Any]:
    opened = kafka.KafkaProducer(bootstrap_servers=bootstrap, **more)
    try:
        yield opened
    finally:
        opened.close(WAIT_SECONDS)


@contextmanager
def consumer(bootstrap: str, *topics: str, **more: Any) -> Iterator[Any]:
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **more}
    opened = kafka.KafkaConsumer(*topics, bootstrap_servers=bootstrap, **settings)
    try:
        yield opened
    finally:
        opened.close(autocommit=False)


def take(source: Any, count: int) -> list[Any]:
    """Return that many records."""
    records: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        for polled in source.poll(timeout_ms=500, max_records=count - len(records)).values():
            records += polled
    return records


def fill(bootstrap: str, topic: str, count: int, **more: Any) -> None:
    with producer(bootstrap, linger_ms=20, **more) as sender:
        futures = [sender.send(topic, str(number).encode(), partition=0) for number in range(count)]
        sender.flush(WAIT_SECONDS)
        assert [future.get(WAIT_SECONDS).offset for future in futures] == list(range(count))


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_come_back(bootstrap: str, topic: str, codec: str | None) -> None:
    fill(bootstrap, topic, 300, compression_type=codec)
    with consumer(bootstrap, topic) as source:
        assert [record.value for record in take(source, 300)] == [
            str(number).encode() for number in range(300)
        ]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_of_every_acks_are_stored(bootstrap: str, topic: str, acks: int | str) -> None:
    with producer(bootstrap, acks=acks, enable_idempotence=False) as sender:
        sender.send(topic, b"one")
        sender.flush(WAIT_SECONDS)
    with consumer(bootstrap, topic) as source:
        assert take(source, 1)[0].value == b"one"


def test_everything_that_a_record_carries_comes_back(bootstrap: str, topic: str) -> None:
    headers = [("a", b"1"), ("a", b""), ("b", b"\xff")]
    with producer(bootstrap) as sender:
        told = sender.send(
            topic, b"value", key=b"key", headers=headers, timestamp_ms=1_700_000_000_123
        ).get(WAIT_SECONDS)
        sender.send(topic, None, key=b"gone").get(WAIT_SECONDS)
    assert (told.topic, told.partition, told.offset, told.timestamp) == (
        topic,
        0,
        0,
        1_700_000_000_123,
    )
    with consumer(bootstrap, topic) as source:
        first, second = take(source, 2)
    assert (first.key, first.value, list(first.headers), first.timestamp) == (
        b"key",
        b"value",
        headers,
        1_700_000_000_123,
    )
    assert (second.key, second.value) == (b"gone", None)


def test_an_idempotent_producer_is_served(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 500, enable_idempotence=True, acks="all")
    with consumer(bootstrap, topic) as source:
        assert [record.offset for record in take(source, 500)] == list(range(500))


def test_a_transactional_producer_commits_and_aborts(bootstrap: str, topic: str, name: str) -> None:
    with producer(bootstrap, transactional_id=name) as sender:
        sender.init_transactions()
        for number, is_kept in enumerate((True, False, True)):
            sender.begin_transaction()
            sender.send(topic, f"{number}".encode())
            (sender.commit_transaction if is_kept else sender.abort_transaction)()
    with consumer(bootstrap, topic, isolation_level="read_committed") as source:
        assert [record.value for record in take(source, 2)] == [b"0", b"2"]


def test_positions_count_with_the_transaction_until_a_second_producer_fences_the_first(
    bootstrap: str, topic: str, name: str
) -> None:
    where = kafka.TopicPartition(topic, 0)
    with (
        producer(bootstrap, transactional_id=name) as first,
        producer(bootstrap, transactional_id=name) as second,
        consumer(bootstrap, group_id=name) as member,
    ):
        first.init_transactions()
        for position, end in ((5, first.abort_transaction), (7, first.commit_transaction)):
            first.begin_transaction()
            first.send(topic, b"%d" % position)
            first.send_offsets_to_transaction(
                {where: OffsetAndMetadata(position, "", -1)}, member.group_metadata()
            )
            end()
        wait_until(lambda: member.committed(where) == 7, "the position is committed")
        first.begin_transaction()
        first.send(topic, b"9")
        second.init_transactions()
        with pytest.raises(kafka.errors.KafkaError):
            first.commit_transaction()
        second.begin_transaction()
        second.send(topic, b"11")
        second.commit_transaction()
    with consumer(bootstrap, topic, isolation_level="read_committed") as source:
        assert [record.value for record in take(source, 2)] == [b"7", b"11"]


def test_a_record_that_is_too_large_is_refused(bootstrap: str, new_topic: MakeTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    with producer(bootstrap) as sender, pytest.raises(kafka.errors.MessageSizeTooLargeError):
        sender.send(topic, b"x" * 5_000).get(WAIT_SECONDS)


def test_reading_starts_at_an_offset_in_the_middle_of_a_batch(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 50)
    where = kafka.TopicPartition(topic, 0)
    with consumer(bootstrap) as source:
        source.assign([where])
        source.seek(where, 33)
        assert [record.offset for record in take(source, 17)] == list(range(33, 50))
        source.seek_to_beginning(where)
        assert source.position(where) == 0
        source.seek_to_end(where)
        assert source.position(where) == 50
        assert source.poll(timeout_ms=300) == {}


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    with producer(bootstrap) as sender:
        for number in range(10):
            sender.send(topic, b"x", timestamp_ms=1_700_000_000_000 + number * 1_000).get(
                WAIT_SECONDS
            )
    where = kafka.TopicPartition(topic, 0)
    with consumer(bootstrap) as source:
        assert source.beginning_offsets([where]) == {where: 0}
        assert source.end_offsets([where]) == {where: 10}
        found = source.offsets_for_times({where: 1_700_000_003_500})[where]
        assert (found.offset, found.timestamp) == (4, 1_700_000_004_000)
        assert source.offsets_for_times({where: 1_800_000_000_000})[where] is None


@pytest.mark.parametrize(("reset", "is_found"), [("earliest", True), ("latest", False)])
def test_an_offset_out_of_range_is_reset(
    bootstrap: str, topic: str, reset: str, is_found: bool
) -> None:
    fill(bootstrap, topic, 3)
    where = kafka.TopicPartition(topic, 0)
    with consumer(bootstrap, auto_offset_reset=reset) as source:
        source.assign([where])
        source.seek(where, 77)
        polled: list[Any] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while source.position(where) == 77 and time.monotonic() < deadline:
            polled += source.poll(timeout_ms=200).get(where, [])
        assert source.position(where) in ({0, 3} if is_found else {3})


def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str, name: str) -> None:
    fill(bootstrap, topic, 10)
    where = kafka.TopicPartition(topic, 0)
    with consumer(bootstrap, topic, group_id=name) as first:
        assert [record.offset for record in take(first, 4)] == [0, 1, 2, 3]
        first.commit({where: OffsetAndMetadata(4, "four", -1)})
        assert first.committed(where) == 4
        assert first.committed(where, metadata=True).metadata == "four"
    with consumer(bootstrap, topic, group_id=name) as second:
        assert [record.offset for record in take(second, 6)] == [4, 5, 6, 7, 8, 9]


def test_two_members_share_the_partitions(bootstrap: str, new_topic: MakeTopic, name: str) -> None:
    topic = new_topic(partitions=4)
    assignments: dict[int, set[Any]] = {0: set(), 1: set()}
    is_done = threading.Event()

    def follow(number: int) -> None:
        # This client forgets a join that a poll had no time to wait for: each member has a thread
        # of its own, and long polls.
        with consumer(
            bootstrap, topic, group_id=name, heartbeat_interval_ms=300, session_timeout_ms=6_000
        ) as member:
            while not is_done.is_set():
                member.poll(timeout_ms=2_000)
                assignments[number] = member.assignment()

    members = [threading.Thread(target=follow, args=(number,)) for number in assignments]
    for member in members:
        member.start()
    try:
        wait_until(
            lambda: sorted(map(len, assignments.values())) == [2, 2],
            "two members have two partitions each",
        )
        assert not assignments[0] & assignments[1]
    finally:
        is_done.set()
        for member in members:
            member.join(WAIT_SECONDS)


def test_a_static_member_keeps_its_member_id_slot(bootstrap: str, topic: str, name: str) -> None:
    fill(bootstrap, topic, 2)
    for expected in (0, 1):
        with consumer(bootstrap, topic, group_id=name, group_instance_id="static") as member:
            assert take(member, 1)[0].offset == expected
            member.commit({kafka.TopicPartition(topic, 0): OffsetAndMetadata(expected + 1, "", -1)})


def test_the_highwater_is_told_with_the_records(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 5)
    with consumer(bootstrap, topic) as source:
        take(source, 1)
        assert source.highwater(kafka.TopicPartition(topic, 0)) == 5


def test_topics_and_partitions_are_told(bootstrap: str, new_topic: MakeTopic, name: str) -> None:
    topic = new_topic(partitions=3)
    with consumer(bootstrap) as source:
        assert topic in source.topics()
        assert source.partitions_for_topic(topic) == {0, 1, 2}
