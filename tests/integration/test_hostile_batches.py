"""Record batches that no honest producer sends get Kafka's error codes.

Nothing of them is stored, and the partition goes on.
"""

import gzip
import struct
from collections.abc import Callable
from typing import Any

import cramjam
import crc32c
import pytest

from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from tests.integration.confluent import produce, read_all, wait_until
from tests.integration.wire import Wire

MakeTopic = Callable[..., str]

NONE, CORRUPT, TOO_LARGE, BAD_ACKS = 0, 2, 10, 21
OUT_OF_ORDER, BAD_EPOCH, UNKNOWN_CODEC, INVALID_RECORD = 45, 47, 76, 87
NOT_AUTHORIZED = 53
ATTRIBUTES, LAST_DELTA, COUNT, CRC_START = 21, 23, 57, 21
HEADER_SIZE = 61


def batch(*values: bytes, **more: Any) -> bytearray:
    return bytearray(build_batch([(1_700_000_000_000, b"key", value) for value in values], **more))


def sealed(content: bytearray) -> bytearray:
    """The batch with a checksum that holds."""
    struct.pack_into(">I", content, 17, crc32c.crc32c(bytes(content[CRC_START:])))
    return content


def changed(position: int, layout: str, value: int, *, is_sealed: bool = True) -> bytearray:
    """An honest batch of two records with one field changed."""
    content = batch(b"one", b"two")
    struct.pack_into(layout, content, position, value)
    return sealed(content) if is_sealed else content


def with_records(codec: int, records: bytes, count: int = 1) -> bytearray:
    """A batch whose header is right and whose records are these bytes."""
    content = batch(b"one")[:HEADER_SIZE] + records
    struct.pack_into(">i", content, 8, len(content) - 12)
    struct.pack_into(">h", content, ATTRIBUTES, codec)
    struct.pack_into(">i", content, LAST_DELTA, count - 1)
    struct.pack_into(">i", content, COUNT, count)
    return sealed(content)


def send(
    wire: Wire,
    topic: str,
    records: bytes | bytearray | None,
    *,
    acks: int = -1,
    partition: int = 0,
    version: int = 12,
) -> Any:
    """Produce these bytes and return the partition's answer."""
    sent = None if records is None else bytes(records)
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=sent)]
            )
        ],
    )
    (answer,) = wire.ask(request, version).responses
    return answer.partition_responses[0]


def assert_refused(
    bootstrap: str, topic: str, records: bytes | bytearray | None, *codes: int
) -> None:
    """The batch gets one of these codes, nothing is stored, and an honest batch is."""
    with Wire(bootstrap) as wire:
        answer = send(wire, topic, records)
        assert answer.error_code in codes
        assert answer.base_offset == -1
        assert send(wire, topic, batch(b"honest")).base_offset == 0
    assert read_all(bootstrap, topic, 1) == [b"honest"]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(
            changed(17, ">I", 12_345, is_sealed=False), CORRUPT, id="a checksum that does not hold"
        ),
        pytest.param(changed(70, ">B", 0xFF, is_sealed=False), CORRUPT, id="a damaged record"),
        pytest.param(batch(b"one", b"two")[:-1], INVALID_RECORD, id="a batch cut short"),
        pytest.param(batch(b"one", b"two")[:HEADER_SIZE], INVALID_RECORD, id="a header alone"),
        pytest.param(
            changed(8, ">i", 10_000, is_sealed=False),
            INVALID_RECORD,
            id="more bytes announced than there are",
        ),
        pytest.param(changed(8, ">i", -1, is_sealed=False), CORRUPT, id="a negative size"),
        pytest.param(changed(8, ">i", 3, is_sealed=False), CORRUPT, id="a size below a header's"),
        pytest.param(
            changed(COUNT, ">i", 3), INVALID_RECORD, id="more records announced than there are"
        ),
        pytest.param(changed(COUNT, ">i", 0), INVALID_RECORD, id="no records announced"),
        pytest.param(changed(COUNT, ">i", 2**31 - 1), INVALID_RECORD, id="2 Gi records announced"),
        pytest.param(
            changed(LAST_DELTA, ">i", 7),
            INVALID_RECORD,
            id="a last offset delta that is not the count",
        ),
        pytest.param(changed(0, ">q", 5, is_sealed=False), INVALID_RECORD, id="a base offset"),
        pytest.param(changed(ATTRIBUTES, ">h", 0x20), INVALID_RECORD, id="a control batch"),
        pytest.param(batch(b"one") + batch(b"two"), INVALID_RECORD, id="two batches"),
        pytest.param(changed(16, ">b", 1, is_sealed=False), INVALID_RECORD, id="magic 1"),
    ],
)
def test_a_batch_that_is_wrong_gets_its_code_and_is_not_stored(
    bootstrap: str, topic: str, records: bytearray, code: int
) -> None:
    assert_refused(bootstrap, topic, records, code)


@pytest.mark.parametrize(
    ("records", "codes"),
    [
        pytest.param(b"", (CORRUPT, INVALID_RECORD), id="no bytes"),
        pytest.param(None, (INVALID_RECORD, CORRUPT), id="null"),
        pytest.param(b"\0" * 300, (CORRUPT, INVALID_RECORD), id="zeros"),
        pytest.param(
            changed(COUNT, ">i", -1), (CORRUPT, INVALID_RECORD), id="fewer than no records"
        ),
        pytest.param(b"\xff" * 300, (CORRUPT, INVALID_RECORD), id="ones"),
        pytest.param(
            changed(16, ">b", 9, is_sealed=False), (CORRUPT, INVALID_RECORD), id="magic 9"
        ),
        pytest.param(
            changed(ATTRIBUTES, ">h", 0x07), (CORRUPT, INVALID_RECORD, UNKNOWN_CODEC), id="codec 7"
        ),
        pytest.param(
            with_records(0, b"\xff" * 40), (INVALID_RECORD, CORRUPT), id="records that are none"
        ),
    ],
)
def test_bytes_that_are_no_batch_are_refused(
    tidelog_bootstrap: str, topic: str, records: bytes | None, codes: tuple[int, ...]
) -> None:
    """Apache Kafka closes the connection for some of these, or answers UNKNOWN_SERVER_ERROR."""
    assert_refused(tidelog_bootstrap, topic, records, *codes)


GIB_OF_ZEROS: dict[int, Callable[[bytes], bytes]] = {
    1: lambda plain: gzip.compress(plain, 1),
    2: lambda plain: bytes(cramjam.snappy.compress_raw(plain)),
    3: lambda plain: bytes(cramjam.lz4.compress(plain)),
    4: lambda plain: bytes(cramjam.zstd.compress(plain)),
}


@pytest.mark.parametrize("codec", GIB_OF_ZEROS)
def test_a_compression_bomb_is_refused_where_it_has_to_be_opened(
    tidelog_bootstrap: str, new_topic: MakeTopic, codec: int
) -> None:
    """A compacted topic must look into a batch of 256 MiB of zeros.

    The broker's memory does not grow with it.
    """
    topic = new_topic(cleanup_policy="compact", max_message_bytes="20000000")
    bomb = with_records(codec, GIB_OF_ZEROS[codec](b"\0" * (256 << 20)))
    with Wire(tidelog_bootstrap) as wire:
        assert send(wire, topic, bomb).error_code in {INVALID_RECORD, TOO_LARGE}
        assert send(wire, topic, batch(b"honest")).base_offset == 0


@pytest.mark.parametrize("codec", GIB_OF_ZEROS)
def test_garbage_behind_a_codec_is_refused_where_it_has_to_be_opened(
    bootstrap: str, new_topic: MakeTopic, codec: int
) -> None:
    topic = new_topic(cleanup_policy="compact")
    with Wire(bootstrap) as wire:
        for garbage in (
            b"\xff" * 25,
            b"",
            b"\x82SNAPPY\0" + b"\xff" * 30,
            b"\x04\x22\x4d\x18" + b"\xff" * 30,
        ):
            assert send(wire, topic, with_records(codec, garbage)).error_code in {
                INVALID_RECORD,
                CORRUPT,
                -1,
            }
        assert send(wire, topic, batch(b"honest")).base_offset == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_honest_batches_of_every_codec_are_stored_as_they_are(
    bootstrap: str, topic: str, codec: Codec
) -> None:
    content = batch(b"one" * 50, b"two" * 50, codec=codec)
    with Wire(bootstrap) as wire:
        assert send(wire, topic, content).base_offset == 0
        stored = fetch(wire, topic)
    assert stored[17:] == bytes(content[17:])


def fetch(wire: Wire, topic: str) -> bytes:
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
                ],
            )
        ],
    )
    (answer,) = wire.ask(request, 12).responses
    return bytes(answer.partitions[0].records)


def test_a_batch_above_max_message_bytes_is_too_large(bootstrap: str, new_topic: MakeTopic) -> None:
    topic = new_topic(max_message_bytes="500")
    with Wire(bootstrap) as wire:
        assert send(wire, topic, batch(b"x" * 600)).error_code == TOO_LARGE
        assert send(wire, topic, batch(b"x" * 300)).error_code == NONE


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(bootstrap: str, topic: str, acks: int) -> None:
    with Wire(bootstrap) as wire:
        assert send(wire, topic, batch(b"one"), acks=acks).error_code == BAD_ACKS


def test_unknown_topics_and_partitions_are_told(bootstrap: str, topic: str, name: str) -> None:
    with Wire(bootstrap) as wire:
        assert send(wire, f"{name}-nowhere", batch(b"one")).error_code == 3
        assert send(wire, topic, batch(b"one"), partition=5).error_code == 3
        assert send(wire, topic, batch(b"one"), partition=-1).error_code == 3


def test_with_acks_0_an_error_closes_the_connection(bootstrap: str, name: str) -> None:
    with Wire(bootstrap) as wire:
        topics = [
            TopicProduceData(
                name=name,
                partition_data=[PartitionProduceData(index=9, records=bytes(batch(b"one")))],
            )
        ]
        wire.send(
            ProduceRequest(transactional_id=None, acks=0, timeout_ms=1_000, topic_data=topics), 9
        )
        assert wire.is_closed_by_broker()


# Idempotent producers


def new_producer(wire: Wire) -> tuple[int, int]:
    answer = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4)
    return answer.producer_id, answer.producer_epoch


def test_sequences_are_held_to_their_order(bootstrap: str, topic: str) -> None:
    with Wire(bootstrap) as wire:
        producer_id, epoch = new_producer(wire)

        def numbered(sequence: int, value: bytes, *, with_epoch: int = epoch) -> Any:
            return send(
                wire,
                topic,
                batch(
                    value,
                    value,
                    producer_id=producer_id,
                    producer_epoch=with_epoch,
                    base_sequence=sequence,
                ),
            )

        assert numbered(0, b"a").base_offset == 0
        assert numbered(2, b"b").base_offset == 2
        again = numbered(0, b"a")
        assert (again.error_code, again.base_offset) == (NONE, 0)
        assert numbered(9, b"c").error_code == OUT_OF_ORDER
        assert numbered(0, b"d", with_epoch=epoch + 1).base_offset == 4
        assert numbered(4, b"e").error_code == BAD_EPOCH
    assert read_all(bootstrap, topic, 6) == [b"a", b"a", b"b", b"b", b"d", b"d"]


def test_a_repetition_out_of_memory_is_out_of_order(bootstrap: str, topic: str) -> None:
    """The broker remembers the last five batches of a producer."""
    with Wire(bootstrap) as wire:
        producer_id, epoch = new_producer(wire)
        batches = [
            batch(b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=number)
            for number in range(7)
        ]
        for number, content in enumerate(batches):
            assert send(wire, topic, content).base_offset == number
        assert send(wire, topic, batches[2]).base_offset == 2
        assert send(wire, topic, batches[1]).error_code in {45, 46}


def test_a_transactional_batch_without_a_transactional_id_is_refused(
    bootstrap: str, topic: str
) -> None:
    with Wire(bootstrap) as wire:
        producer_id, epoch = new_producer(wire)
        content = batch(
            b"x",
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        assert send(wire, topic, content).error_code == NOT_AUTHORIZED


def test_a_good_partition_is_stored_beside_bad_ones(bootstrap: str, new_topic: MakeTopic) -> None:
    topic = new_topic(partitions=3)
    contents = [batch(b"zero"), changed(17, ">I", 1, is_sealed=False), batch(b"two")]
    data = [
        PartitionProduceData(index=index, records=bytes(content))
        for index, content in enumerate(contents)
    ]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=topics)
    with Wire(bootstrap) as wire:
        wait_until(
            lambda: all(
                send(wire, topic, batch(b"x"), partition=n).error_code == NONE for n in range(3)
            ),
            "all are led",
        )
        (answer,) = wire.ask(request, 9).responses
    assert {one.index: one.error_code for one in answer.partition_responses} == {
        0: NONE,
        1: CORRUPT,
        2: NONE,
    }


def test_offsets_still_count_what_is_stored(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [b"a", b"b"])
    with Wire(bootstrap) as wire:
        send(wire, topic, changed(COUNT, ">i", 3))
        partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
        (found,) = wire.ask(
            ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=partitions)]), 7
        ).topics
    assert found.partitions[0].offset == 2
