"""confluent-kafka (librdkafka) consumes from offsets and times.

It crosses gaps and rebuilt positions, patiently and in small bites.
"""

import time
from collections.abc import Callable

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.integration.confluent import (
    WAIT_SECONDS,
    Sent,
    admin,
    consumer,
    produce,
    read_all,
    read_records,
    take,
)

NewTopic = Callable[..., str]


def numbered(bootstrap: str, topic: str, count: int, **more: object) -> None:
    """Produce the numbers from 0; with linger they lie in few batches."""
    produce(
        bootstrap,
        topic,
        [str(number).encode() for number in range(count)],
        **{"linger_ms": 50, **more},
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_reading_starts_in_the_middle_of_a_batch(bootstrap: str, topic: str, codec: str) -> None:
    numbered(bootstrap, topic, 100, compression_type=codec)
    for offset in (1, 37, 99):
        records = read_records(bootstrap, topic, 100 - offset, offset=offset)
        assert [(record.offset(), record.value()) for record in records] == [
            (n, str(n).encode()) for n in range(offset, 100)
        ]


def test_an_empty_topic_gives_nothing_and_no_error(bootstrap: str, topic: str) -> None:
    source = consumer(bootstrap, topic)
    source.assign([TopicPartition(topic, 0, 0)])
    assert source.poll(1.0) is None
    assert source.get_watermark_offsets(TopicPartition(topic, 0), WAIT_SECONDS) == (0, 0)
    source.close()


def test_a_consumer_that_waits_gets_a_record_soon(bootstrap: str, topic: str) -> None:
    source = consumer(bootstrap, topic, fetch_wait_max_ms=10_000)
    source.assign([TopicPartition(topic, 0, 0)])
    assert source.poll(1.0) is None
    produce(bootstrap, topic, [b"now"])
    started = time.monotonic()
    record = source.poll(9.0)
    assert time.monotonic() - started < 5
    source.close()
    assert record is not None
    assert record.value() == b"now"


def test_a_fetch_waits_until_enough_bytes_are_there(bootstrap: str, topic: str) -> None:
    source = consumer(bootstrap, topic, fetch_wait_max_ms=60_000, fetch_min_bytes=5_000)
    source.assign([TopicPartition(topic, 0, 0)])
    assert source.poll(0.5) is None
    produce(bootstrap, topic, [b"x" * 1_000])
    assert source.poll(1.0) is None
    produce(bootstrap, topic, [b"x" * 6_000])
    assert len(take(source, 2)) == 2
    source.close()


def test_a_batch_larger_than_every_limit_of_the_consumer_is_read_all_the_same(
    bootstrap: str, topic: str
) -> None:
    """Progress comes before limits (KIP-74)."""
    values = [bytes([65 + number]) * 200_000 for number in range(3)]
    produce(bootstrap, topic, values)
    small = {"fetch_message_max_bytes": 1_000, "fetch_max_bytes": 1_000, "message_max_bytes": 1_000}
    assert read_all(bootstrap, topic, 3, **small) == values


def test_no_partition_starves_where_fetches_are_small(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=8)
    sent = Sent(bootstrap)
    for number in range(160):
        sent.send(topic, b"x" * 10_000, partition=number % 8)
    sent.flush()
    source = consumer(
        bootstrap,
        topic,
        fetch_max_bytes=20_000,
        fetch_message_max_bytes=20_000,
        message_max_bytes=20_000,
    )
    source.assign([TopicPartition(topic, partition, 0) for partition in range(8)])
    records = take(source, 160)
    source.close()
    for partition in range(8):
        assert [record.offset() for record in records if record.partition() == partition] == list(
            range(20)
        )


@pytest.mark.parametrize(
    ("wanted_ms", "offset"),
    [(-1_000, 0), (0, 0), (41_500, 42), (42_000, 42), (99_000, 99), (99_001, -1)],
)
def test_an_offset_is_found_by_time(
    bootstrap: str, topic: str, wanted_ms: int, offset: int
) -> None:
    start_ms = 1_700_000_000_000
    sent = Sent(bootstrap, linger_ms=20)
    for number in range(100):
        sent.send(topic, str(number).encode(), timestamp=start_ms + number * 1_000)
    sent.flush()
    source = consumer(bootstrap, topic)
    (found,) = source.offsets_for_times(
        [TopicPartition(topic, 0, start_ms + wanted_ms)], WAIT_SECONDS
    )
    source.close()
    assert found.offset == offset


def test_an_offset_is_found_by_time_where_timestamps_go_back_and_forth(
    bootstrap: str, topic: str
) -> None:
    sent = Sent(bootstrap)
    times = [5_000, 9_000, 2_000, 7_000, 12_000, 1_000]
    for stamp in times:
        sent.send(topic, str(stamp).encode(), timestamp=1_700_000_000_000 + stamp)
        sent.flush()
    source = consumer(bootstrap, topic)
    found = {
        stamp: source.offsets_for_times(
            [TopicPartition(topic, 0, 1_700_000_000_000 + stamp)], WAIT_SECONDS
        )[0].offset
        for stamp in (1_000, 5_001, 9_001, 12_001)
    }
    source.close()
    assert found == {1_000: 0, 5_001: 1, 9_001: 4, 12_001: -1}


@pytest.mark.parametrize(("reset", "first"), [("earliest", b"3"), ("latest", b"later")])
def test_an_offset_out_of_range_is_reset_as_the_consumer_wants(
    bootstrap: str, topic: str, reset: str, first: bytes
) -> None:
    numbered(bootstrap, topic, 5)
    client = admin(bootstrap)
    (cut,) = client.delete_records([TopicPartition(topic, 0, 3)]).values()
    assert cut.result(WAIT_SECONDS).low_watermark == 3
    source = consumer(bootstrap, topic, auto_offset_reset=reset)
    source.assign([TopicPartition(topic, 0, 0)])
    early = source.poll(2.0)
    produce(bootstrap, topic, [b"later"])
    record = early or take(source, 1)[0]
    source.close()
    assert record.value() == first


def test_an_offset_out_of_range_is_an_error_where_there_is_no_reset(
    bootstrap: str, topic: str
) -> None:
    numbered(bootstrap, topic, 5)
    source = consumer(bootstrap, topic, auto_offset_reset="error")
    source.assign([TopicPartition(topic, 0, 1_000)])
    record = source.poll(WAIT_SECONDS)
    source.close()
    assert record is not None
    assert record.error().code() == KafkaError._AUTO_OFFSET_RESET


def test_seeking_goes_back_and_forth(bootstrap: str, topic: str) -> None:
    numbered(bootstrap, topic, 20)
    source = consumer(bootstrap, topic)
    source.assign([TopicPartition(topic, 0, 0)])
    take(source, 5)
    source.seek(TopicPartition(topic, 0, 15))
    assert [record.value() for record in take(source, 5)] == [b"15", b"16", b"17", b"18", b"19"]
    source.seek(TopicPartition(topic, 0, 2))
    assert take(source, 1)[0].value() == b"2"
    source.close()


def test_a_paused_partition_stays_silent_while_others_speak(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    source = consumer(bootstrap, topic)
    source.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    source.pause([TopicPartition(topic, 0)])
    sent = Sent(bootstrap)
    for number in range(10):
        sent.send(topic, str(number).encode(), partition=number % 2)
    sent.flush()
    assert {record.partition() for record in take(source, 5)} == {1}
    source.resume([TopicPartition(topic, 0)])
    assert {record.partition() for record in take(source, 5)} == {0}
    source.close()


def test_the_end_of_a_partition_is_told(bootstrap: str, topic: str) -> None:
    numbered(bootstrap, topic, 3)
    source = consumer(bootstrap, topic, enable_partition_eof=True)
    source.assign([TopicPartition(topic, 0, 0)])
    take(source, 3)
    end = source.poll(WAIT_SECONDS)
    source.close()
    assert end.error().code() == KafkaError._PARTITION_EOF
    assert end.offset() == 3


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_isolation_levels_see_plain_records(bootstrap: str, topic: str, isolation: str) -> None:
    numbered(bootstrap, topic, 10)
    assert len(read_all(bootstrap, topic, 10, isolation_level=isolation)) == 10


def test_crcs_hold_where_the_consumer_checks_them(bootstrap: str, topic: str) -> None:
    numbered(bootstrap, topic, 200, compression_type="lz4")
    assert len(read_all(bootstrap, topic, 200, check_crcs=True)) == 200


def test_an_unknown_topic_is_an_error_and_is_not_made(bootstrap: str, name: str) -> None:
    source = consumer(bootstrap, name, allow_auto_create_topics=False)
    source.subscribe([name])
    record = source.poll(WAIT_SECONDS)
    source.close()
    assert record is not None
    assert record.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert name not in admin(bootstrap).list_topics(timeout=WAIT_SECONDS).topics


def test_an_unknown_partition_is_told(bootstrap: str, topic: str) -> None:
    source = consumer(bootstrap, topic)
    with pytest.raises(KafkaException) as caught:
        source.get_watermark_offsets(TopicPartition(topic, 9), WAIT_SECONDS)
    source.close()
    assert caught.value.args[0].code() in {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def test_records_appended_while_reading_are_read_too(bootstrap: str, topic: str) -> None:
    source = consumer(bootstrap, topic)
    source.assign([TopicPartition(topic, 0, 0)])
    sent = Sent(bootstrap, linger_ms=1)
    values: list[bytes] = []
    for number in range(2_000):
        sent.send(topic, str(number).encode())
        if number % 100 == 0:
            values += [record.value() for record in source.consume(1_000, 0.01)]
    sent.flush()
    values += [record.value() for record in take(source, 2_000 - len(values))]
    source.close()
    assert values == [str(number).encode() for number in range(2_000)]


def test_librdkafka_gives_no_warning_about_the_broker(bootstrap: str, topic: str) -> None:
    """A line of its log at its own default level would be a complaint about our responses."""
    lines: list[str] = []

    class Log:
        def log(self, _level: int, text: str, *arguments: object) -> None:
            lines.append(text % arguments)

    source = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "log_level": 5,
        },
        logger=Log(),
    )
    source.subscribe([topic])
    produce(bootstrap, topic, [b"one"])
    take(source, 1)
    source.commit(asynchronous=False)
    source.close()
    assert lines == []
