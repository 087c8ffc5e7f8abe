"""Produce and InitProducerId beside Apache Kafka: codes, offsets and times of every answer.

Meant differences, each held by ``tests/unit/broker/handlers/test_meant_differences.py``:

* Error texts say what is wrong; Apache Kafka sends none but for single records.
* A header is believed where it names the latest timestamp. Offset deltas count up from 0 in
  uncompressed batches, too, which Apache Kafka asks of compressed ones alone.
* What clients other than Java's cannot read is refused: bytes behind a gzip or lz4 frame or a
  snappy stream, and a wrong content checksum of lz4 (``tests/unit/records/framed_records.py`` has
  each case). Sections that do not decompress are INVALID_RECORD; Apache Kafka answers
  UNKNOWN_SERVER_ERROR.
* A producer id without an epoch is INVALID_PRODUCER_EPOCH; Apache Kafka appends it, and then cannot
  tell its repetitions.
* Codecs 5 to 7 are UNSUPPORTED_COMPRESSION_TYPE, and a partition without records INVALID_RECORD;
  Apache Kafka answers UNKNOWN_SERVER_ERROR, or not at all.
* Nobody writes to internal topics; Apache Kafka lets clients that are called ``__admin_client``.
* With ``flush.messages=1`` an append waits for a sync that it shares, and a timeout of 0 ends that
  wait at once.
"""

import time
from collections.abc import Collection
from typing import Any

import pytest

from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.fetch import FetchRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records.batch import iterate_headers, iterate_records
from log_service.records.compression import Codec
from tests.integration.differential import Cluster, Duel
from tests.integration.record_requests import (
    ATTRIBUTES,
    BASE_OFFSET,
    COUNT,
    LAST_DELTA,
    MAGIC,
    MAX_TIMESTAMP,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SEQUENCE,
    STRANGE_ID,
    THEN,
    batch,
    changed,
    configs_request,
    fetch_request,
    idempotent,
    offsets_request,
    produce_by_id,
    produce_request,
    ready_topic,
    wanted,
)
from tests.unit.records.framed_records import (
    ACCEPTED_BY_KAFKA_ALONE,
    Framed,
    framed_batch,
    framed_sections,
)

TEXTS = {"error_message", "batch_index_error_message"}
"""Ours say what is wrong where Apache Kafka is silent, and say it in other words."""

LAST_SEQUENCE = 2**31 - 1


def compare(duel: Duel, request: Any, version: int, *, ignore: Collection[str] = TEXTS) -> Any:
    """Compare all but texts."""
    return duel.compare(request, version, ignore=ignore)


# Requests


@pytest.mark.parametrize("version", range(3, 13))
def test_a_batch_is_appended_in_every_version(duel: Duel, version: int) -> None:
    topic = f"plain-{version}"
    ready_topic(duel, topic, 2)
    compare(duel, produce_request(topic, batch(), batch(THEN, THEN)), version)
    compare(duel, produce_request(topic, batch(), batch(THEN, THEN)), version)


def test_a_topic_that_is_not_there_is_told_by_name_and_by_id(duel: Duel) -> None:
    ready_topic(duel, "here", 2)
    for version in (3, 7, 9, 12):
        compare(duel, produce_request("nowhere", batch()), version)
        compare(duel, produce_request("here", batch(), batch(), batch()), version)
    compare(duel, produce_by_id("here", batch(), batch(), batch()), 13)
    compare(duel, produce_request("", batch(), topic_id=STRANGE_ID), 13)
    compare(duel, produce_request("", batch()), 13)
    for version in (3, 12):
        compare(duel, produce_request("", batch()), version)
        compare(
            duel,
            produce_request("here", batch(), batch(codec=Codec.ZSTD), batch(), acks=2),
            version,
        )


def test_a_topic_without_partitions_is_not_answered(duel: Duel) -> None:
    ready_topic(duel, "alone")
    for version in (3, 9, 12):
        compare(duel, produce_request("alone"), version)
        compare(duel, produce_request("nowhere"), version)
    compare(duel, produce_by_id("alone"), 13)


@pytest.mark.parametrize("acks", [2, -2, 100, -32768])
def test_acks_that_do_not_exist(duel: Duel, acks: int) -> None:
    ready_topic(duel, f"acks{acks}")
    for version in (3, 9, 12):
        compare(duel, produce_request(f"acks{acks}", batch(), acks=acks), version)


def test_a_partition_that_is_named_twice(duel: Duel) -> None:
    ready_topic(duel, "twice", 2)
    partitions = [
        PartitionProduceData(index=0, records=batch(THEN)),
        PartitionProduceData(index=0, records=batch(THEN, THEN)),
    ]
    request = ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name="twice", partition_data=partitions)],
    )
    compare(duel, request, 9)
    once = [PartitionProduceData(index=1, records=batch(THEN))]
    request.topic_data = [
        TopicProduceData(name="twice", partition_data=once),
        TopicProduceData(name="twice", partition_data=once),
    ]
    compare(duel, request, 9)
    duel.compare(fetch_request("twice", wanted(0), wanted(1)), 11, ignore={"records"})


def test_a_topic_that_was_deleted_and_created_again(duel: Duel) -> None:
    ready_topic(duel, "again")
    compare(duel, produce_by_id("again", batch()), 13)
    old = {cluster.bootstrap: cluster.topic_id("again") for cluster in duel.clusters.sides()}
    duel.on_both(DeleteTopicsRequest(topics=[DeleteTopicState(name="again")], timeout_ms=10_000), 6)

    def by_old_id(cluster: Cluster) -> ProduceRequest:
        return produce_request("", batch(), topic_id=old[cluster.bootstrap])

    duel.until(
        by_old_id, 13, lambda answer: answer.responses[0].partition_responses[0].error_code == 100
    )
    compare(duel, produce_request("again", batch()), 12)
    ready_topic(duel, "again")
    duel.compare(by_old_id, 13, ignore=TEXTS)
    compare(duel, produce_by_id("again", batch()), 13)


def test_a_request_without_topics(duel: Duel) -> None:
    duel.compare(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000), 9)


def test_a_timeout_below_zero(duel: Duel) -> None:
    ready_topic(duel, "no-time")
    compare(duel, produce_request("no-time", batch(), timeout_ms=-1), 9)
    compare(duel, produce_request("no-time", batch(), timeout_ms=0), 9)


# Batches


BAD: dict[str, bytes] = {
    "crc": changed(batch(THEN, THEN), MAX_TIMESTAMP, ">q", THEN + 1, is_sealed=False),
    "magic 0": changed(batch(THEN, THEN), MAGIC, ">b", 0, is_sealed=False),
    "magic 1": changed(batch(THEN, THEN), MAGIC, ">b", 1, is_sealed=False),
    "count too high": changed(batch(THEN, THEN), COUNT, ">i", 3),
    "count too low": changed(batch(THEN, THEN), COUNT, ">i", 1),
    "count zero": changed(batch(THEN, THEN), COUNT, ">i", 0),
    "count below zero": changed(batch(THEN, THEN), COUNT, ">i", -1),
    "last delta below zero": changed(batch(THEN, THEN), LAST_DELTA, ">i", -1),
    "damaged count below zero": changed(batch(THEN, THEN), COUNT, ">i", -1, is_sealed=False),
    "last delta too high": changed(batch(THEN, THEN), LAST_DELTA, ">i", 5),
    "last delta too low": changed(batch(THEN, THEN), LAST_DELTA, ">i", 0),
    "base offset": changed(batch(THEN, THEN), BASE_OFFSET, ">q", 7, is_sealed=False),
    "control": changed(batch(THEN, THEN), ATTRIBUTES, ">h", 0x20),
    "append time": changed(batch(THEN, THEN), ATTRIBUTES, ">h", 0x08),
    "two batches": batch() + batch(),
    "empty": b"",
    "sequence without id": batch(base_sequence=3),
    "id without sequence": batch(producer_id=1, producer_epoch=0),
    "transactional without an id of the transaction": batch(
        producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
    ),
    "delete horizon": changed(batch(THEN, THEN), ATTRIBUTES, ">h", 0x40),
    "unused bit": changed(batch(THEN, THEN), ATTRIBUTES, ">h", 0x80),
    "leader epoch": changed(batch(THEN, THEN), 12, ">i", 77, is_sealed=False),
    "producer id below none": changed(batch(), PRODUCER_ID, ">q", -2),
    "negative epoch": changed(idempotent(5, 0), PRODUCER_EPOCH, ">h", -2),
    "negative sequence": changed(idempotent(5, 0), SEQUENCE, ">i", -2),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_batch_that_is_wrong(duel: Duel, kind: str) -> None:
    topic = "bad-" + kind.replace(" ", "-")
    ready_topic(duel, topic)
    for version in (3, 8, 12):
        compare(duel, produce_request(topic, BAD[kind]), version)
    compare(duel, produce_request(topic, batch()), 12)


# Compacted topics


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_without_a_key_on_a_compacted_topic(duel: Duel, codec: Codec) -> None:
    topic = f"keyless-{codec.name.lower()}"
    ready_topic(duel, topic, cleanup_policy="compact")
    for version in (3, 7, 8, 12):
        compare(duel, produce_request(topic, batch(THEN, THEN, codec=codec, key=None)), version)
    compare(duel, produce_request(topic, batch(THEN, THEN, codec=codec)), 12)


# Sizes


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_that_is_too_large(duel: Duel, codec: Codec) -> None:
    topic = f"large-{codec.name.lower()}"
    ready_topic(duel, topic, max_message_bytes="1000")
    size = len(batch(codec=codec, value=b""))
    for extra in (800, 1000 - size - 1, 1000 - size, 1000 - size + 1, 5000):
        compare(duel, produce_request(topic, batch(value=b"x" * extra, codec=Codec.NONE)), 12)
    compare(duel, produce_request(topic, batch(value=b"x" * 100_000, codec=codec)), 12)


def test_a_batch_that_is_too_large_once_it_is_recompressed(duel: Duel) -> None:
    ready_topic(duel, "grows", max_message_bytes="1000", compression_type="uncompressed")
    compare(duel, produce_request("grows", batch(value=b"x" * 10_000, codec=Codec.GZIP)), 12)
    ready_topic(duel, "shrinks", max_message_bytes="1000", compression_type="gzip")
    compare(duel, produce_request("shrinks", batch(value=b"x" * 10_000)), 12)


def test_a_batch_that_no_segment_holds(duel: Duel) -> None:
    ready_topic(duel, "small-segments", segment_bytes="1048576", max_message_bytes="3000000")
    compare(duel, produce_request("small-segments", batch(value=b"x" * 2_000_000)), 12)


# Codecs


@pytest.mark.parametrize("target", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("codec", list(Codec))
def test_the_codec_of_the_topic(duel: Duel, codec: Codec, target: str) -> None:
    """Equal codecs leave the batch as it is; others open it, and every record comes back."""
    topic = f"codec-{codec.name.lower()}-{target}"
    ready_topic(duel, topic, compression_type=target)
    sent = batch(
        THEN + 5, THEN + 9, THEN + 7, codec=codec, producer_id=9, producer_epoch=1, base_sequence=4
    )
    compare(duel, produce_request(topic, sent), 12)
    compare(duel, produce_request(topic, sent), 12)
    for cluster in duel.clusters.sides():
        stored = stored_records(cluster, topic)
        (found,) = iterate_headers(stored)
        expected = codec if target == "producer" else Codec.of_name(target)
        assert (found[1].codec, found[1].base_timestamp, found[1].max_timestamp) == (
            expected,
            THEN + 5,
            THEN + 9,
        )
        assert (found[1].producer_id, found[1].producer_epoch, found[1].base_sequence) == (9, 1, 4)
        assert [record.timestamp for record in iterate_records(stored)] == [
            THEN + 5,
            THEN + 9,
            THEN + 7,
        ]
        if expected is codec:
            assert stored[16:] == sent[16:], (
                "an equal codec changes nothing behind the leader epoch"
            )


def stored_records(cluster: Cluster, topic: str, offset: int = 0) -> bytes:
    """Return the records that one side has in partition 0 of a topic."""
    request: FetchRequest = fetch_request(topic, wanted(offset=offset))(cluster)
    return bytes(cluster.ask(request, 11).responses[0].partitions[0].records)


# Timestamps


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_timestamps_out_of_bounds(duel: Duel, codec: Codec) -> None:
    """Beside now: a minute is allowed in both directions, a record without a timestamp is always
    allowed.
    """
    topic = f"bounds-{codec.name.lower()}"
    ready_topic(
        duel, topic, message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="60000"
    )
    now = _now_ms()
    for times in (
        (now, now),
        (now, now - 120_000),
        (now + 120_000, now, now + 130_000),
        (-1, -1),
        (now, -1),
    ):
        for version in (7, 12):
            compare(duel, produce_request(topic, batch(*times, codec=codec)), version)
    duel.compare(offsets_request(topic, -1)[0], 7)


def test_timestamps_before_1970(duel: Duel) -> None:
    ready_topic(duel, "ancient")
    for times in ((-1, -1), (-5,), (THEN, -2)):
        compare(duel, produce_request("ancient", batch(*times)), 12)


def test_timestamps_of_tomorrow_by_default(duel: Duel) -> None:
    ready_topic(duel, "tomorrow")
    compare(duel, produce_request("tomorrow", batch(_now_ms() + 86_400_000)), 12)
    compare(duel, produce_request("tomorrow", batch(_now_ms() + 1_800_000)), 12)


def test_a_max_timestamp_that_is_not_the_records(duel: Duel) -> None:
    ready_topic(duel, "lies")
    compare(
        duel,
        produce_request("lies", changed(batch(THEN, THEN + 1), MAX_TIMESTAMP, ">q", THEN + 50)),
        12,
    )
    compare(
        duel,
        produce_request("lies", changed(batch(THEN, THEN + 1), MAX_TIMESTAMP, ">q", THEN - 50)),
        12,
    )
    for request in offsets_request("lies", THEN, THEN + 1, THEN + 2, -3, -1):
        compare(duel, request, 7)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_a_topic_that_stamps_its_own_time(duel: Duel, codec: Codec) -> None:
    topic = f"stamps-{codec.name.lower()}"
    ready_topic(duel, topic, message_timestamp_type="LogAppendTime")
    before = _now_ms()
    for times in ((THEN, THEN + 5), (-1, -1), (before + 10**9,)):
        answer = compare(
            duel,
            produce_request(topic, batch(*times, codec=codec)),
            12,
            ignore={*TEXTS, "log_append_time_ms"},
        )
        assert before <= answer.responses[0].partition_responses[0].log_append_time_ms <= _now_ms()
    for cluster in duel.clusters.sides():
        for offset in (0, 2, 4):
            _, header = next(iterate_headers(stored_records(cluster, topic, offset)))
            assert header.is_append_time
            assert before <= header.max_timestamp <= _now_ms()


def test_the_timestamp_type_changes_while_records_come(duel: Duel) -> None:
    now = _now_ms()  # a topic rolls where stamped times follow old ones
    ready_topic(duel, "changes")
    compare(duel, produce_request("changes", batch(now)), 12)
    duel.on_both(configs_request("changes", message_timestamp_type="LogAppendTime"), 1)
    duel.until(
        produce_request("changes", batch(now)),
        12,
        lambda answer: answer.responses[0].partition_responses[0].log_append_time_ms > 0,
    )
    duel.on_both(configs_request("changes", message_timestamp_type="CreateTime"), 1)
    duel.until(
        produce_request("changes", batch(now)),
        12,
        lambda answer: answer.responses[0].partition_responses[0].log_append_time_ms < 0,
    )
    for cluster in duel.clusters.sides():
        flags = [
            header.is_append_time
            for _, header in iterate_headers(stored_records(cluster, "changes"))
        ]
        assert (flags[0], flags[-1], True in flags) == (False, False, True), (
            cluster.bootstrap,
            len(flags),
            flags[:3],
            flags[-3:],
        )


def _now_ms() -> int:
    return int(time.time() * 1000)


# Idempotent producers


def test_five_in_flight_are_recognised(duel: Duel) -> None:
    ready_topic(duel, "five")
    for sequence in range(0, 14, 2):
        compare(duel, produce_request("five", idempotent(1, sequence, 2)), 12)
    for sequence in (12, 10, 8, 6, 4, 2, 0):
        compare(duel, produce_request("five", idempotent(1, sequence, 2)), 12)
    compare(duel, produce_request("five", idempotent(1, 13)), 12)
    compare(duel, produce_request("five", idempotent(1, 12, 3)), 12)
    compare(duel, produce_request("five", idempotent(1, 10, 4)), 12)
    duel.compare(offsets_request("five", -1)[0], 7)


@pytest.mark.parametrize("version", [3, 5, 7, 8, 12])
def test_a_repeated_batch_is_answered_in_every_version(duel: Duel, version: int) -> None:
    topic = f"repeated-{version}"
    ready_topic(duel, topic)
    compare(duel, produce_request(topic, batch()), version)
    compare(duel, produce_request(topic, idempotent(1, 0, 3)), version)
    compare(duel, produce_request(topic, idempotent(1, 0, 3)), version)


def test_a_repeated_batch_tells_the_time_it_was_stamped_with(duel: Duel) -> None:
    ready_topic(duel, "stamped-twice", message_timestamp_type="LogAppendTime")
    for cluster in duel.clusters.sides():
        first, second = (
            cluster.ask(produce_request("stamped-twice", idempotent(1, 0, 3)), 12)
            .responses[0]
            .partition_responses[0]
            for _ in range(2)
        )
        assert first == second
        assert first.log_append_time_ms > THEN


def test_gaps_and_steps_back(duel: Duel) -> None:
    ready_topic(duel, "gaps")
    for producer_id, sequence, epoch in (
        (1, 0, 0),
        (1, 2, 0),
        (1, 1, 0),
        (1, 1, 1),
        (1, 0, 1),
        (1, 2, 0),
        (1, 5, 1),
        (1, 1, 1),
    ):
        compare(duel, produce_request("gaps", idempotent(producer_id, sequence, epoch=epoch)), 12)


def test_a_producer_that_is_not_known_begins_anywhere(duel: Duel) -> None:
    ready_topic(duel, "unknown")
    compare(duel, produce_request("unknown", idempotent(7, 40)), 12)
    compare(duel, produce_request("unknown", idempotent(7, 41)), 12)
    compare(duel, produce_request("unknown", idempotent(7, 40)), 12)
    compare(duel, produce_request("unknown", idempotent(8, 3, epoch=9)), 12)


def test_an_epoch_that_rises_begins_at_0(duel: Duel) -> None:
    ready_topic(duel, "epochs")
    for epoch, sequence in (
        (0, 0),
        (1, 1),
        (1, 0),
        (1, 0),
        (0, 1),
        (0, 0),
        (3, 0),
        (3, 1),
        (2, 0),
        (32767, 0),
        (32767, 1),
    ):
        compare(duel, produce_request("epochs", idempotent(1, sequence, epoch=epoch)), 12)


def test_sequences_begin_again_at_0_after_the_last(duel: Duel) -> None:
    ready_topic(duel, "wraps")
    for sequence, count in (
        (LAST_SEQUENCE - 2, 2),
        (LAST_SEQUENCE, 1),
        (0, 2),
        (LAST_SEQUENCE, 1),
        (2, 1),
    ):
        compare(duel, produce_request("wraps", idempotent(1, sequence, count)), 12)
    for sequence, count in ((LAST_SEQUENCE - 1, 4), (LAST_SEQUENCE - 1, 4), (1, 1), (2, 1), (3, 1)):
        compare(duel, produce_request("wraps", idempotent(2, sequence, count)), 12)


def test_state_goes_with_the_records_that_are_deleted(duel: Duel) -> None:
    ready_topic(duel, "trimmed")
    compare(duel, produce_request("trimmed", idempotent(1, 0)), 12)
    topics = [
        DeleteRecordsTopic(
            name="trimmed", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
        )
    ]
    duel.compare(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)
    compare(duel, produce_request("trimmed", idempotent(1, 0)), 12)
    compare(duel, produce_request("trimmed", idempotent(1, 5)), 12)
    compare(duel, produce_request("trimmed", idempotent(1, 1)), 12)


# InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_a_producer_id_is_given(duel: Duel, version: int) -> None:
    """Apache Kafka has to fetch its first block of ids before."""
    duel.until(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000),
        version,
        lambda answer: answer.error_code == 0,
    )
    duel.compare(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000),
        version,
        ignore={"producer_id"},
    )
    duel.compare(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1),
        version,
        ignore={"producer_id"},
    )


def test_producer_id_and_epoch_come_together(duel: Duel) -> None:
    for producer_id, epoch in ((4, -1), (-1, 4), (4, 0), (4, 32767), (-2, 0), (0, -2)):
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=1_000,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        compare(duel, request, 4, ignore={"producer_id"})


def test_a_transactional_id_that_is_empty(duel: Duel) -> None:
    for version in (0, 2, 4):
        duel.compare(
            InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1_000), version
        )


# What clients can read


@pytest.mark.parametrize(
    "case",
    [one for one in framed_sections() if len(one.section) < 1 << 20],
    ids=lambda case: case.name,
)
def test_each_framing_is_taken_or_refused(duel: Duel, case: Framed) -> None:
    """Both refuse it or neither does, but for cases that this product alone refuses. The codes
    differ by intent.
    """
    topic = f"framed-{case.name.replace(' ', '-')}"
    ready_topic(duel, topic)
    request = produce_request(topic, bytes(framed_batch(case)))

    def is_taken(cluster: Cluster) -> bool:
        code = cluster.ask(request, 12).responses[0].partition_responses[0].error_code
        return code == 0 and case.name not in ACCEPTED_BY_KAFKA_ALONE

    duel.compare_told(is_taken)
