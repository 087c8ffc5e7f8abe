"""Headers in place, checksums, stamping, and reading back what Apache Kafka wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import (
    HEADER,
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    batch_view,
    compute_crc,
    is_crc_valid,
    iterate_headers,
    iterate_records,
    next_sequence,
    parse_header,
    replace_records,
    stamp,
    stamp_append_time,
    stamp_producer,
)
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.record import NewRecord, Record
from tests.unit.records.golden import GOLDEN, RECORDS


def with_field(batch: bytes, **fields: int) -> bytes:
    """Return a batch with other header fields and a checksum that holds."""
    changed = bytearray(batch)
    HEADER.pack_into(changed, 0, *parse_header(batch)._replace(**fields))
    HEADER.pack_into(
        changed, 0, *parse_header_unchecked(changed)._replace(crc=compute_crc(changed))
    )
    return bytes(changed)


def count_or_code(batch: bytes | bytearray) -> int | ErrorCode:
    """Return how many records come out of a batch, or the code of the error that ended reading."""
    try:
        return len(list(iterate_records(batch)))
    except KafkaError as error:
        return error.code


def parse_header_unchecked(batch: bytes | bytearray) -> BatchHeader:
    return BatchHeader(*HEADER.unpack_from(batch))


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_reads_what_apache_kafka_wrote(name: str) -> None:
    batch = GOLDEN[name]
    header = parse_header(batch)
    assert header.size_bytes == len(batch)
    assert header.compression is Codec.of_name(name)
    assert (header.base_offset, header.last_offset, header.next_offset) == (1000, 1004, 1005)
    assert (header.partition_leader_epoch, header.record_count) == (7, 5)
    assert (header.base_timestamp, header.max_timestamp) == (1700000000123, 1700000090123)
    assert header.attributes == header.compression
    assert not header.has_producer_id
    assert header.timestamp_type == "CreateTime"
    assert is_crc_valid(batch)
    assert list(iterate_records(batch)) == [
        Record(1000 + index, *record) for index, record in enumerate(RECORDS)
    ]


def test_transactional_batch_tells_its_producer_and_wraps_its_sequence() -> None:
    header = parse_header(GOLDEN["transactional"])
    assert header.is_transactional
    assert header.has_producer_id
    assert (header.producer_id, header.producer_epoch) == (9000000001, 3)
    assert (header.base_sequence, header.last_sequence) == (2147483646, 2)


@pytest.mark.parametrize(
    ("sequence", "count", "expected"), [(0, 1, 1), (2147483647, 1, 0), (2147483646, 5, 3)]
)
def test_sequences_go_on_at_zero(sequence: int, count: int, expected: int) -> None:
    assert next_sequence(sequence, count) == expected


def test_batch_without_sequence_has_no_last_sequence() -> None:
    assert parse_header(GOLDEN["none"]).last_sequence == -1


def test_append_time_replaces_the_records_own_timestamps() -> None:
    header = parse_header(GOLDEN["append_time"])
    assert header.is_append_time
    assert header.timestamp_type == "LogAppendTime"
    assert {record.timestamp for record in iterate_records(GOLDEN["append_time"])} == {
        header.max_timestamp
    }


def test_records_are_read_at_a_position() -> None:
    joined = GOLDEN["none"] + GOLDEN["zstd"]
    assert list(iterate_records(joined, len(GOLDEN["none"]))) == list(
        iterate_records(GOLDEN["zstd"])
    )


def test_headers_are_found_back_to_back() -> None:
    joined = memoryview(b"".join(GOLDEN.values()))
    found = list(iterate_headers(joined))
    assert [header.size_bytes for _, header in found] == [len(batch) for batch in GOLDEN.values()]
    assert [bytes(batch_view(joined, position)) for position, _ in found] == list(GOLDEN.values())


@pytest.mark.parametrize("missing_bytes", [1, 60, 482 - 61, 482 - 30])
def test_torn_tail_ends_the_iteration_or_is_corrupt(missing_bytes: int) -> None:
    torn = GOLDEN["gzip"] + GOLDEN["none"][: len(GOLDEN["none"]) - missing_bytes]
    assert [position for position, _ in iterate_headers(torn, is_torn_tail_ok=True)] == [0]
    with pytest.raises(CorruptBatch):
        list(iterate_headers(torn))


def test_delete_horizon_is_the_base_timestamp() -> None:
    batch = with_field(GOLDEN["none"], attributes=0x40)
    assert parse_header(batch).delete_horizon_ms == 1700000000123
    assert parse_header(GOLDEN["none"]).delete_horizon_ms is None


# Stamping


def test_stamp_changes_offset_and_epoch_and_keeps_the_checksum() -> None:
    buffer = bytearray(GOLDEN["lz4"] + GOLDEN["none"])
    position = len(GOLDEN["lz4"])
    stamp(buffer, position, 1 << 40, 12)
    header = parse_header(buffer, position)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 12)
    assert is_crc_valid(batch_view(buffer, position))
    assert bytes(buffer[:position]) == GOLDEN["lz4"]
    assert [record.offset for record in iterate_records(buffer, position)] == [
        (1 << 40) + index for index in range(5)
    ]


def test_stamp_writes_through_a_memoryview() -> None:
    buffer = bytearray(GOLDEN["none"])
    stamp(memoryview(buffer), 0, 5, 6)
    assert parse_header(buffer).base_offset == 5


def test_append_time_is_what_apache_kafka_writes() -> None:
    buffer = bytearray(GOLDEN["none"])
    stamp(buffer, 0, 5, 2)
    stamp_append_time(buffer, 0, parse_header(GOLDEN["append_time"]).max_timestamp)
    assert bytes(buffer) == GOLDEN["append_time"]


def test_append_time_of_a_batch_that_is_cut_off_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        stamp_append_time(bytearray(GOLDEN["none"][:-1]), 0, 1)


def test_stamp_producer_renews_the_checksum() -> None:
    buffer = bytearray(GOLDEN["transactional"])
    stamp_producer(buffer, 0, producer_id=7, producer_epoch=4, base_sequence=0)
    header = parse_header(buffer)
    assert (
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_sequence,
    ) == (7, 4, 0, 4)
    assert is_crc_valid(buffer)
    assert header.is_transactional


def test_replaced_records_keep_the_rest_of_the_header() -> None:
    gzip = GOLDEN["gzip"]
    replaced = replace_records(GOLDEN["none"], Codec.GZIP, gzip[HEADER_SIZE:])
    assert bytes(replaced) == gzip


@given(st.binary(min_size=HEADER_SIZE, max_size=300), st.integers(0, 299), st.integers(1, 255))
def test_every_damaged_byte_behind_the_checksum_is_noticed(
    value: bytes, index: int, flip: int
) -> None:
    batch = bytearray(build_batch([NewRecord(0, None, value)]))
    assert is_crc_valid(batch)
    batch[17 + index % (len(batch) - 17)] ^= flip
    assert not is_crc_valid(batch)


# What is no batch


@pytest.mark.parametrize("size_bytes", [0, 1, 60])
def test_fewer_bytes_than_a_header_are_corrupt(size_bytes: int) -> None:
    with pytest.raises(CorruptBatch) as caught:
        parse_header(GOLDEN["none"][:size_bytes])
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"magic": 1}, "magic 1"),
        ({"magic": 3}, "magic 3"),
        ({"batch_length": 48}, "length 48"),
        ({"batch_length": -1}, "length -1"),
        ({"record_count": -1}, "-1 records"),
        ({"last_offset_delta": -1}, "last offset delta -1"),
    ],
)
def test_header_that_no_batch_has_is_corrupt(fields: dict[str, int], reason: str) -> None:
    changed = bytearray(GOLDEN["none"])
    HEADER.pack_into(changed, 0, *parse_header(changed)._replace(**fields))
    with pytest.raises(CorruptBatch, match=reason):
        parse_header(changed)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_codec_that_does_not_exist_is_named(number: int) -> None:
    batch = with_field(GOLDEN["none"], attributes=number)
    assert parse_header(batch).codec == number
    with pytest.raises(KafkaError, match=f"codec {number}") as caught:
        list(iterate_records(batch))
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_records_of_a_batch_that_is_cut_off_are_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        list(iterate_records(GOLDEN["none"][:-1]))


@pytest.mark.parametrize("record_count", [0, 4, 6, 2**31 - 1])
def test_count_that_is_not_the_number_of_records_is_invalid(record_count: int) -> None:
    batch = with_field(GOLDEN["none"], record_count=record_count)
    with pytest.raises(KafkaError) as caught:
        list(iterate_records(batch))
    assert caught.value.code is ErrorCode.INVALID_RECORD


@given(st.binary(max_size=400), st.integers(0, 1000), st.booleans())
def test_random_records_end_or_are_invalid(
    body: bytes, record_count: int, is_append_time: bool
) -> None:
    batch = bytearray(HEADER_SIZE) + body
    attributes = 8 if is_append_time else 0
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - 12,
        0,
        2,
        0,
        attributes,
        record_count,
        0,
        0,
        -1,
        -1,
        -1,
        record_count,
    )
    assert count_or_code(batch) in (record_count, ErrorCode.INVALID_RECORD)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_one_wrong_byte_in_the_records_ends_or_is_invalid(index: int, byte: int) -> None:
    batch = bytearray(GOLDEN["none"])
    batch[HEADER_SIZE + index % (len(batch) - HEADER_SIZE)] = byte
    assert count_or_code(batch) in (5, ErrorCode.INVALID_RECORD)


@given(st.binary(max_size=200))
def test_random_bytes_are_batches_or_corrupt(buffer: bytes) -> None:
    try:
        found = list(iterate_headers(buffer))
    except CorruptBatch:
        return
    assert sum(header.size_bytes for _, header in found) == len(buffer)
