"""confluent-kafka against one node: produce, consume, groups."""

from pathlib import Path

import confluent_kafka
import pytest

from tests.helpers.broker_process import BrokerProcess, BrokerThread
from tests.integration.confluent import WAIT_SECONDS, Sent, consumer, create_topic, produce, read_all, settings, take, wait_until


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_come_back(broker: BrokerThread, codec: str) -> None:
    values = [f"record {number} ".encode() * 20 for number in range(500)]
    produce(broker.bootstrap, "codecs", values, compression_type=codec, linger_ms=20)
    assert read_all(broker.bootstrap, "codecs", len(values)) == values


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_of_every_acks_are_stored(broker: BrokerThread, acks: str) -> None:
    create_topic(broker.bootstrap, "acks")
    produce(broker.bootstrap, "acks", [b"one", b"two"], acks=acks)
    assert read_all(broker.bootstrap, "acks", 2) == [b"one", b"two"]


def test_keys_headers_and_timestamps_come_back(broker: BrokerThread) -> None:
    sent = Sent(broker.bootstrap)
    sent.send("full", b"value", key=b"key", headers=[("a", b"1"), ("b", None)], timestamp=1_700_000_000_123)
    sent.send("full", None, key=b"gone")
    sent.flush()
    source = consumer(broker.bootstrap)
    source.subscribe(["full"])
    first, second = take(source, 2)
    source.close()
    assert (first.key(), first.value(), first.headers()) == (b"key", b"value", [("a", b"1"), ("b", None)])
    assert first.timestamp() == (confluent_kafka.TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert (second.key(), second.value()) == (b"gone", None)


def test_an_idempotent_producer_is_served(broker: BrokerThread) -> None:
    values = [str(number).encode() for number in range(2_000)]
    produce(broker.bootstrap, "exact", values, enable_idempotence=True, linger_ms=1)
    assert read_all(broker.bootstrap, "exact", len(values)) == values


def test_a_transactional_producer_does_not_begin(broker: BrokerThread) -> None:
    producer = confluent_kafka.Producer(settings(broker.bootstrap, transactional_id="tx"))
    with pytest.raises(confluent_kafka.KafkaException):
        producer.init_transactions(1.5)  # librdkafka asks again whatever it is told, until its caller's patience ends


def test_a_record_that_is_too_large_is_refused(broker: BrokerThread) -> None:
    create_topic(broker.bootstrap, "small", max_message_bytes="1000")
    sent = Sent(broker.bootstrap)
    sent.send("small", b"x" * 5_000)
    sent.flush_quietly(WAIT_SECONDS)
    assert [error.code() for error in sent.failed] == [confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_keyless_record_is_refused_by_a_compacted_topic(broker: BrokerThread) -> None:
    create_topic(broker.bootstrap, "compacted", cleanup_policy="compact")
    sent = Sent(broker.bootstrap)
    sent.send("compacted", b"no key")
    sent.flush_quietly(WAIT_SECONDS)
    assert [error.code() for error in sent.failed] == [confluent_kafka.KafkaError.INVALID_RECORD]


def test_many_partitions_are_consumed_in_their_own_order(broker: BrokerThread) -> None:
    create_topic(broker.bootstrap, "wide", partitions=10)
    sent = Sent(broker.bootstrap, linger_ms=5)
    for number in range(3_000):
        sent.send("wide", str(number).encode(), partition=number % 10)
    sent.flush()
    source = consumer(broker.bootstrap)
    source.subscribe(["wide"])
    records = take(source, 3_000)
    source.close()
    for partition in range(10):
        mine = [int(record.value()) for record in records if record.partition() == partition]
        assert mine == sorted(mine)
        assert len(mine) == 300


def test_a_consumer_that_waits_gets_a_record_soon(broker: BrokerThread) -> None:
    create_topic(broker.bootstrap, "live")
    source = consumer(broker.bootstrap, fetch_wait_max_ms=10_000)
    source.assign([confluent_kafka.TopicPartition("live", 0, 0)])
    assert source.poll(1.0) is None
    produce(broker.bootstrap, "live", [b"now"])
    record = source.poll(5.0)
    source.close()
    assert record is not None
    assert record.value() == b"now"


def test_a_fetch_waits_until_enough_bytes_are_there(broker: BrokerThread) -> None:
    create_topic(broker.bootstrap, "patient")
    source = consumer(broker.bootstrap, fetch_wait_max_ms=60_000, fetch_min_bytes=5_000)
    source.assign([confluent_kafka.TopicPartition("patient", 0, 0)])
    assert source.poll(0.5) is None
    produce(broker.bootstrap, "patient", [b"x" * 1_000])
    assert source.poll(1.0) is None
    produce(broker.bootstrap, "patient", [b"x" * 6_000])
    assert len(take(source, 2)) == 2
    source.close()


def test_consumption_starts_at_a_time(broker: BrokerThread) -> None:
    sent = Sent(broker.bootstrap)
    for number in range(100):
        sent.send("timed", str(number).encode(), timestamp=1_700_000_000_000 + number * 1_000)
    sent.flush()
    source = consumer(broker.bootstrap)
    wanted = confluent_kafka.TopicPartition("timed", 0, 1_700_000_000_000 + 41_500)
    (found,) = source.offsets_for_times([wanted], WAIT_SECONDS)
    assert found.offset == 42
    assert source.get_watermark_offsets(confluent_kafka.TopicPartition("timed", 0), WAIT_SECONDS) == (0, 100)
    source.close()


def test_a_group_shares_partitions_and_takes_over_from_a_member_that_left(broker: BrokerThread) -> None:
    create_topic(broker.bootstrap, "shared", partitions=4)
    first, second = consumer(broker.bootstrap), consumer(broker.bootstrap)
    first.subscribe(["shared"])
    second.subscribe(["shared"])

    def is_balanced() -> bool:
        first.poll(0.05)
        second.poll(0.05)
        return len(first.assignment()) == 2 and len(second.assignment()) == 2

    wait_until(is_balanced, "two members have two partitions each")
    second.close()

    def has_all() -> bool:
        first.poll(0.05)
        return len(first.assignment()) == 4

    wait_until(has_all, "the member that stayed has everything")
    first.close()


def test_a_cooperative_group_rebalances(broker: BrokerThread) -> None:
    create_topic(broker.bootstrap, "coop", partitions=4)
    members = [consumer(broker.bootstrap, partition_assignment_strategy="cooperative-sticky") for _ in range(2)]
    for member in members:
        member.subscribe(["coop"])

    def is_balanced() -> bool:
        for member in members:
            member.poll(0.05)
        return sorted(len(member.assignment()) for member in members) == [2, 2]

    wait_until(is_balanced, "two members have two partitions each")
    for member in members:
        member.close()


def test_a_group_goes_on_where_it_stopped_after_the_broker_was_restarted(broker_process: BrokerProcess) -> None:
    broker = broker_process
    produce(broker.bootstrap, "kept", [str(number).encode() for number in range(10)])
    source = consumer(broker.bootstrap)
    source.subscribe(["kept"])
    assert [record.value() for record in take(source, 4)] == [b"0", b"1", b"2", b"3"]
    source.commit(offsets=[confluent_kafka.TopicPartition("kept", 0, 4, metadata="four")], asynchronous=False)
    source.close()
    assert broker.stop() == 0
    broker.start()
    source = consumer(broker.bootstrap)
    (committed,) = source.committed([confluent_kafka.TopicPartition("kept", 0)], WAIT_SECONDS)
    assert (committed.offset, committed.metadata) == (4, "four")
    source.subscribe(["kept"])
    assert [record.value() for record in take(source, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
    source.close()


def test_clients_outlive_a_restart_of_the_broker(broker_process: BrokerProcess) -> None:
    broker = broker_process
    sent = Sent(broker.bootstrap, enable_idempotence=True, retry_backoff_ms=50, reconnect_backoff_max_ms=200)
    source = consumer(broker.bootstrap, reconnect_backoff_max_ms=200)
    source.subscribe(["through"])
    for number in range(50):
        sent.send("through", str(number).encode())
    sent.flush()
    take(source, 50)
    assert broker.stop() == 0
    for number in range(50, 100):
        sent.send("through", str(number).encode())
    broker.start()
    sent.flush()
    assert [int(record.value()) for record in take(source, 50)] == list(range(50, 100))
    source.close()


def test_topics_are_created_by_producing_only_where_that_is_allowed(tmp_path: Path) -> None:
    with BrokerThread(tmp_path, properties={"auto.create.topics.enable": "false"}) as broker:
        sent = Sent(broker.bootstrap, message_timeout_ms=2_000)
        sent.send("nobody-made-me", b"x")
        sent.flush_quietly(WAIT_SECONDS)
        assert len(sent.failed) == 1
        assert not broker.broker.image.topics.by_name
