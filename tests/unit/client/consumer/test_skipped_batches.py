"""A reader skips batches which cannot be read.

All other records come out, once, and the reader tells the skipped offsets.
"""

import logging
from typing import Any

import pytest

from log_service.client import Consumer
from log_service.client.consumer.aborted import AbortedFilter
from log_service.client.consumer.record_reader import RecordReader
from log_service.client.consumer.records import ConsumerRecord, RecordDeserializationError
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.protocol.messages.fetch import AbortedTransaction, PartitionData
from log_service.records.batch import HEADER_SIZE, LOG_OVERHEAD, compute_crc
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from tests.unit.client.scripted_leader import Leader, tell

PARTITION = TopicPartition("t", 3)
_CRC = slice(17, 21)
_LAST_DELTA = slice(23, 27)


def sealed(content: bytearray) -> bytearray:
    content[_CRC] = compute_crc(content).to_bytes(4, "big")
    return content


def good(base: int, count: int = 2, **more: Any) -> bytearray:
    """Return a batch whose values are its offsets."""
    records = [(1_000, b"k", b"%d" % offset) for offset in range(base, base + count)]
    return bytearray(build_batch(records, base_offset=base, leader_epoch=4, **more))


def torn(base: int, count: int = 2, **more: Any) -> bytearray:
    """Return a batch whose checksum does not hold."""
    content = good(base, count, **more)
    content[-2] ^= 1
    return content


def garbage(base: int, count: int = 2, **more: Any) -> bytearray:
    """Return a batch that does not decompress."""
    content = good(base, count, codec=Codec.GZIP, **more)
    content[HEADER_SIZE:] = b"\xa5" * (len(content) - HEADER_SIZE)
    return sealed(content)


def malformed(base: int, count: int = 2) -> bytearray:
    """Return a batch whose last record is longer than the batch."""
    content = good(base, count)
    last = content.rindex(b"%d" % (base + count - 1))
    content[last - 1] = 0x7E
    return sealed(content)


def surplus(base: int, count: int = 2) -> bytearray:
    """Return a batch that announces a record less than it has."""
    content = good(base, count)
    content[HEADER_SIZE - 1] -= 1
    return sealed(content)


def reader(*batches: bytearray, **more: Any) -> RecordReader:
    settings: dict[str, Any] = {
        "aborted": None,
        "check_crcs": True,
        "skip_corrupt": True,
        "deserializers": (None, None),
        **more,
    }
    return RecordReader(PARTITION, b"".join(batches), 0, **settings)


def read(source: RecordReader, portion: int = 1_000) -> list[int]:
    offsets: list[int] = []
    is_empty = False
    while not is_empty:
        taken: list[ConsumerRecord] = []
        is_empty = source.read_into(taken, portion)
        offsets += [record.offset for record in taken]
    return offsets


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("portion", [1, 3, 1_000])
@pytest.mark.parametrize(("make", "first_lost"), [(torn, 0), (garbage, 0), (malformed, 1)])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_all_but_the_batch_is_read_and_its_offsets_are_told(
    make: Any, first_lost: int, place: int, portion: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = reader(*(make(base) if base == 2 * place else good(base) for base in (0, 2, 4, 6)))
    lost = range(2 * place + first_lost, 2 * place + 2)
    assert read(source, portion) == [offset for offset in range(8) if offset not in lost]
    assert (source.position, source.leader_epoch) == (8, 4)
    (warning,) = told(caplog)
    assert warning.startswith(
        f"t-3: the batch at offsets {2 * place} to {2 * place + 1} cannot be read: "
    )
    assert warning.endswith(f"; offsets {lost[0]} to {lost[-1]} are skipped")


def test_several_batches_are_skipped_one_after_the_other(caplog: pytest.LogCaptureFixture) -> None:
    assert read(reader(malformed(0), torn(2), garbage(4), malformed(6), good(8), torn(10))) == [
        0,
        6,
        8,
        9,
    ]
    assert len(told(caplog)) == 5


def test_many_records_are_read_behind_a_malformed_one() -> None:
    assert read(reader(good(0, 300), malformed(300, 300), good(600, 300))) == [
        offset for offset in range(900) if offset != 599
    ]


def test_a_gap_before_the_batch_is_not_taken_for_it(caplog: pytest.LogCaptureFixture) -> None:
    compacted = good(0)
    compacted[_LAST_DELTA] = (4).to_bytes(4, "big")
    assert read(reader(sealed(compacted), malformed(5, 1), good(6))) == [0, 1, 6, 7]
    (warning,) = told(caplog)
    assert "offsets 5 to 5 are skipped" in warning


def test_a_batch_with_bytes_behind_its_records_does_not_hide_the_next() -> None:
    assert read(reader(surplus(0), good(2))) == [0, 2, 3]


def test_bytes_behind_the_last_record_skip_no_offset(caplog: pytest.LogCaptureFixture) -> None:
    longer = good(0) + b"\0\0"
    longer[8:12] = (len(longer) - LOG_OVERHEAD).to_bytes(4, "big")
    assert read(reader(sealed(longer), good(2))) == [0, 1, 2, 3]
    assert told(caplog) == []


def test_a_header_whose_checksum_does_not_hold_hides_no_other_batch() -> None:
    damaged = good(2)
    damaged[_LAST_DELTA] = (1_000).to_bytes(4, "big")
    assert read(reader(good(0), damaged, good(4))) == [0, 1, 4, 5]


@pytest.mark.parametrize("claimed", [0, 2, 1_000])
@pytest.mark.parametrize("position", [0, 2, 4])
def test_what_a_damaged_header_does_not_claim_is_told_too(
    claimed: int, position: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning named the offsets that the header claims, which are not all that are skipped."""
    damaged = good(2, 5)
    damaged[_LAST_DELTA] = claimed.to_bytes(4, "big")
    records = b"".join((good(0), damaged, good(7)))
    source = RecordReader(
        PARTITION,
        records,
        position,
        aborted=None,
        check_crcs=True,
        skip_corrupt=True,
        deserializers=(None, None),
    )
    assert read(source) == [offset for offset in (0, 1, 7, 8) if offset >= position]
    (warning,) = told(caplog)
    assert warning.startswith("t-3: the batch at offsets 2 to 6 cannot be read: ")
    assert warning.endswith(f"; offsets {max(2, position)} to 6 are skipped")


@pytest.mark.parametrize("claimed", [1, 1_000])
def test_a_damaged_header_at_the_end_of_a_response_moves_the_position_by_one_offset(
    claimed: int,
) -> None:
    """The next fetch went to the offset that the header claims, which may be behind the log's end."""
    damaged = good(2, 5)
    damaged[_LAST_DELTA] = claimed.to_bytes(4, "big")
    source = reader(good(0), damaged)
    assert source.end_position == 3
    assert read(source) == [0, 1]
    assert source.position == 3


def test_a_payload_that_is_damaged_at_the_end_of_a_response_is_left_at_once() -> None:
    source = reader(good(0), torn(2, 5))
    assert read(source) == [0, 1]
    assert source.position == source.end_position == 7


def test_a_marker_that_is_skipped_ends_its_transaction() -> None:
    ours: dict[str, Any] = {"producer_id": 7, "is_transactional": True}
    aborted = AbortedFilter()
    aborted.add([AbortedTransaction(producer_id=7, first_offset=0)])
    marker = garbage(2, 1, is_control=True, **ours)
    assert read(reader(good(0, **ours), marker, good(3, **ours), aborted=aborted)) == [3, 4]


@pytest.mark.parametrize("make", [torn, malformed])
def test_a_marker_behind_the_batch_is_passed_too(make: Any) -> None:
    source = reader(
        good(0), make(2), good(4, 1, producer_id=7, is_transactional=True, is_control=True)
    )
    read(source)
    assert source.position == source.end_position == 5


def test_a_consumer_goes_on_by_its_setting(caplog: pytest.LogCaptureFixture) -> None:
    async def story(leader: Leader, consumer: Consumer) -> None:
        leader.scripts[0].append(
            PartitionData(records=bytes(garbage(0) + good(2)), high_watermark=4)
        )
        assert [record.offset for record in await consumer.poll(timeout_ms=5_000)] == [2, 3]
        assert await consumer.position(TopicPartition("t", 0)) == 4

    tell(story, skip_corrupt_batches=True)
    (warning,) = told(caplog)
    assert "offsets 0 to 1 are skipped" in warning


def test_what_a_deserializer_refuses_is_not_skipped() -> None:
    def refuse(_value: bytes) -> None:
        raise ValueError

    source = reader(good(0), deserializers=(None, refuse))
    with pytest.raises(RecordDeserializationError):
        read(source)
    assert source.position == 0


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (torn, ErrorCode.CORRUPT_MESSAGE),
        (garbage, ErrorCode.CORRUPT_MESSAGE),
        (malformed, ErrorCode.INVALID_RECORD),
    ],
)
def test_the_error_names_the_batch_and_the_way_on(make: Any, code: ErrorCode) -> None:
    with pytest.raises(
        KafkaError,
        match=r"t-3: the batch at offsets 2 to 3 cannot be read: .*seek to offset 4, or set skip_corrupt",
    ) as caught:
        read(reader(good(0), make(2), good(4), skip_corrupt=False))
    assert caught.value.code is code
