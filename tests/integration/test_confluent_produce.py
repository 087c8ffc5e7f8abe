"""confluent-kafka (librdkafka) produces with codecs, acknowledgements and idempotence.

The tests have all that a record may carry, and every refusal.
"""

import logging
from collections.abc import Callable

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from tests.integration.confluent import (
    WAIT_SECONDS,
    Sent,
    admin,
    consumer,
    create_topic,
    produce,
    read_all,
    read_records,
    wait_until,
)

NewTopic = Callable[..., str]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_come_back(bootstrap: str, topic: str, codec: str) -> None:
    values = [f"record {number} ".encode() * 20 for number in range(500)]
    produce(bootstrap, topic, values, compression_type=codec, linger_ms=20)
    assert read_all(bootstrap, topic, len(values)) == values


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_the_topic_decides_the_codec_of_what_it_stores(
    bootstrap: str, new_topic: NewTopic, codec: str
) -> None:
    topic = new_topic(compression_type=codec)
    values = [f"record {number} ".encode() * 20 for number in range(50)]
    produce(bootstrap, topic, values, compression_type="zstd", linger_ms=20)
    assert read_all(bootstrap, topic, len(values)) == values


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_of_every_acks_are_stored(bootstrap: str, topic: str, acks: str) -> None:
    produce(bootstrap, topic, [b"one", b"two"], acks=acks)
    assert read_all(bootstrap, topic, 2) == [b"one", b"two"]


def test_delivery_reports_tell_the_offset(bootstrap: str, topic: str) -> None:
    sent = Sent(bootstrap)
    for number in range(5):
        sent.send(topic, str(number).encode(), partition=0)
        sent.flush()
    assert [(record.partition(), record.offset()) for record in sent.delivered] == [
        (0, number) for number in range(5)
    ]


def test_keys_headers_and_timestamps_come_back(bootstrap: str, topic: str) -> None:
    sent = Sent(bootstrap)
    headers = [("a", b"1"), ("b", None), ("a", b"again"), ("", b""), ("ключ", bytes(range(256)))]
    sent.send(topic, b"value", key=b"key", headers=headers, timestamp=1_700_000_000_123)
    sent.flush()
    (record,) = read_records(bootstrap, topic, 1)
    assert (record.key(), record.value(), record.headers()) == (b"key", b"value", headers)
    assert record.timestamp() == (confluent_kafka.TIMESTAMP_CREATE_TIME, 1_700_000_000_123)


def test_null_and_empty_are_not_the_same(bootstrap: str, topic: str) -> None:
    sent = Sent(bootstrap)
    pairs = [(None, None), (b"", b""), (b"key", None), (None, b"value"), (b"", None)]
    for key, value in pairs:
        sent.send(topic, value, key=key)
    sent.flush()
    assert [
        (record.key(), record.value()) for record in read_records(bootstrap, topic, len(pairs))
    ] == pairs


def test_a_topic_with_log_append_time_tells_the_brokers_clock(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    sent = Sent(bootstrap)
    sent.send(topic, b"late", timestamp=1_000_000_000_000)
    sent.flush()
    (record,) = read_records(bootstrap, topic, 1)
    kind, timestamp = record.timestamp()
    assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
    assert timestamp > 1_700_000_000_000
    assert sent.delivered[0].timestamp() == (kind, timestamp)


def test_a_timestamp_out_of_bounds_is_refused(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_before_max_ms="60000")
    assert (
        refusal(bootstrap, topic, b"ancient", timestamp=1_000_000_000_000)
        == KafkaError.INVALID_TIMESTAMP
    )


def test_an_idempotent_producer_is_served(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    sent = Sent(bootstrap, enable_idempotence=True, linger_ms=1)
    for number in range(3_000):
        sent.send(topic, str(number).encode(), partition=number % 3)
    sent.flush()
    for partition in range(3):
        assert read_all(bootstrap, topic, 1_000, partition) == [
            str(number).encode() for number in range(partition, 3_000, 3)
        ]


def test_large_records_come_back(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="6000000")
    values = [bytes([number]) * 5_000_000 for number in range(3)]
    produce(bootstrap, topic, values, message_max_bytes=6_000_000)
    assert read_all(bootstrap, topic, 3) == values


def test_a_record_that_is_too_large_is_refused(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    assert refusal(bootstrap, topic, b"x" * 5_000) == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_keyless_record_is_refused_by_a_compacted_topic_and_one_with_a_key_is_not(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(cleanup_policy="compact")
    assert refusal(bootstrap, topic, b"no key") == KafkaError.INVALID_RECORD
    sent = Sent(bootstrap)
    sent.send(topic, b"value", key=b"key")
    sent.flush()
    assert read_all(bootstrap, topic, 1) == [b"value"]


def test_a_minimum_of_in_sync_replicas_above_the_replicas_refuses_nothing(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(min_insync_replicas="2")
    produce(bootstrap, topic, [b"x"], acks="all")
    assert read_all(bootstrap, topic, 1) == [b"x"]


def test_producing_to_a_name_that_is_not_there_creates_the_topic(bootstrap: str, name: str) -> None:
    produce(bootstrap, name, [b"first"])
    assert read_all(bootstrap, name, 1) == [b"first"]
    assert name in admin(bootstrap).list_topics(timeout=WAIT_SECONDS).topics


def test_many_producers_share_a_partition(bootstrap: str, topic: str) -> None:
    producers = [
        Sent(bootstrap, linger_ms=1, enable_idempotence=number % 2 == 0) for number in range(6)
    ]
    for number in range(300):
        for which, sent in enumerate(producers):
            sent.send(topic, f"{which}:{number}".encode())
    for sent in producers:
        sent.flush()
    records = read_all(bootstrap, topic, 1_800)
    for which in range(6):
        assert [value for value in records if value.startswith(f"{which}:".encode())] == [
            f"{which}:{n}".encode() for n in range(300)
        ]


def test_a_partition_that_is_not_there_is_told(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [b"known"])
    assert refusal(bootstrap, topic, b"x", partition=7) == KafkaError._UNKNOWN_PARTITION


def test_a_topic_deleted_under_a_producer_fails_its_records_or_comes_back_empty(
    bootstrap: str, name: str
) -> None:
    create_topic(bootstrap, name)
    sent = Sent(bootstrap, message_timeout_ms=3_000)
    sent.send(name, b"before")
    sent.flush()
    client = admin(bootstrap)
    client.delete_topics([name])[name].result(WAIT_SECONDS)
    sent.send(name, b"after")
    sent.flush_quietly(WAIT_SECONDS)
    assert len(sent.failed) + len(sent.delivered) == 2
    if not sent.failed:
        assert sent.delivered[1].offset() == 0


def test_a_consumer_sees_records_in_the_order_of_each_partition(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=10)
    sent = Sent(bootstrap, linger_ms=5)
    for number in range(3_000):
        sent.send(topic, str(number).encode(), partition=number % 10)
    sent.flush()
    source = consumer(bootstrap, topic)
    source.subscribe([topic])
    seen: dict[int, list[int]] = {}

    def has_all() -> bool:
        for record in source.consume(1_000, 0.2):
            seen.setdefault(record.partition(), []).append(int(record.value()))
        return sum(map(len, seen.values())) == 3_000

    wait_until(has_all, "3000 records")
    source.close()
    assert seen == {partition: list(range(partition, 3_000, 10)) for partition in range(10)}


def refusal(bootstrap: str, topic: str, value: bytes, **more: object) -> int:
    """Send one record and return the code that it failed with."""
    sent = Sent(bootstrap, message_timeout_ms=10_000)
    sent.send(topic, value, **more)
    sent.flush_quietly(WAIT_SECONDS)
    (error,) = sent.failed
    code: int = error.code()
    return code


def test_a_transactional_producer_is_ready_without_a_topic_made_for_it(
    tidelog_bootstrap: str,
) -> None:
    """The topic that keeps transactional ids is created when the first producer asks for its
    coordinator.
    """
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": tidelog_bootstrap, "transactional.id": "first of all"},
        logger=logging.getLogger(__name__),
    )
    producer.init_transactions(WAIT_SECONDS)
