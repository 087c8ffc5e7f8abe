"""Batches that lost records to compaction keep everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import (
    HEADER_SIZE,
    is_crc_valid,
    iterate_records,
    parse_header,
    plain_records,
)
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.outline import outline_records
from log_service.records.record import NewRecord
from log_service.records.rewrite import empty_batch, retain_records
from tests.unit.records.golden import GOLDEN
from tests.unit.records.raw_records import OVERLONG_NULLS, raw_record
from tests.unit.records.strategies import CODECS, RECORDS


def retained(
    batch: bytes | bytearray, kept: list[int], delete_horizon_ms: int | None = None
) -> bytearray:
    header, plain = plain_records(batch)
    return retain_records(
        header, plain, outline_records(header, plain), kept, delete_horizon_ms=delete_horizon_ms
    )


@given(
    RECORDS,
    CODECS,
    st.sets(st.integers(0, 29)),
    st.one_of(st.none(), st.integers(0, 2**42)),
    st.one_of(st.none(), st.just(2**41)),
)
def test_kept_records_are_the_same_and_the_header_too(
    records: list[NewRecord],
    codec: Codec,
    chosen: set[int],
    delete_horizon_ms: int | None,
    append_time_ms: int | None,
) -> None:
    batch = build_batch(
        records,
        codec=codec,
        base_offset=500,
        leader_epoch=4,
        producer_id=9,
        producer_epoch=1,
        base_sequence=70,
        append_time_ms=append_time_ms,
    )
    kept = sorted(chosen & set(range(len(records)))) or [0]
    before = parse_header(batch)
    rewritten = retained(batch, kept, delete_horizon_ms)
    after = parse_header(rewritten)
    expected = [record for record in iterate_records(batch) if record.offset - 500 in kept]
    assert is_crc_valid(rewritten)
    assert after.size_bytes == len(rewritten)
    assert (after.base_offset, after.last_offset, after.last_sequence) == (
        before.base_offset,
        before.last_offset,
        before.last_sequence,
    )
    assert (after.producer_id, after.producer_epoch, after.codec, after.record_count) == (
        9,
        1,
        codec,
        len(kept),
    )
    assert after.max_timestamp == max(record.timestamp for record in expected)
    assert after.delete_horizon_ms == delete_horizon_ms
    assert list(iterate_records(rewritten)) == expected
    again = retained(rewritten, list(range(len(kept))))
    assert parse_header(again).delete_horizon_ms == delete_horizon_ms


def test_batch_that_lost_all_records_is_a_header() -> None:
    header = parse_header(GOLDEN["transactional"])
    rewritten = empty_batch(header)
    assert len(rewritten) == HEADER_SIZE
    assert is_crc_valid(rewritten)
    after = parse_header(rewritten)
    assert (after.record_count, after.base_timestamp, after.is_transactional) == (0, -1, True)
    assert (after.last_offset, after.last_sequence, after.max_timestamp) == (
        header.last_offset,
        header.last_sequence,
        header.max_timestamp,
    )
    assert list(iterate_records(rewritten)) == []


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batch_that_keeps_all_records_reads_the_same(name: str) -> None:
    records = list(iterate_records(GOLDEN[name]))
    assert list(iterate_records(retained(GOLDEN[name], list(range(len(records)))))) == records


def test_names_that_are_not_utf_8_are_copied_as_they_are() -> None:
    batch = bytearray(
        build_batch([NewRecord(0, b"k", None, (("abc", None),)), NewRecord(0, b"l", None)])
    )
    batch[batch.index(b"abc")] = 0xFF
    assert b"\xffbc" in retained(batch, [0], 5)


@given(RECORDS, CODECS)
def test_an_outline_says_what_reading_says(records: list[NewRecord], codec: Codec) -> None:
    batch = build_batch(records, codec=codec, base_offset=7)
    header, plain = plain_records(batch)
    outline = outline_records(header, plain)
    read = list(iterate_records(batch))
    assert outline.keys == [record.key for record in read]
    assert outline.offsets == [record.offset for record in read]
    assert outline.tombstones == [
        index for index, record in enumerate(read) if record.value is None
    ]
    assert outline.ends[-1] == len(plain)


@pytest.mark.parametrize("null", OVERLONG_NULLS, ids=bytes.hex)
def test_an_outline_knows_a_tombstone_and_a_null_key_by_their_decoded_lengths(null: bytes) -> None:
    plain = (
        raw_record(0, b"k", None, null=null)
        + raw_record(1, None, None, null=null)
        + raw_record(2, b"k", b"v")
    )
    header = parse_header(GOLDEN["none"])._replace(record_count=3, last_offset_delta=2)
    outline = outline_records(header, plain)
    assert (outline.keys, outline.tombstones) == ([b"k", None, b"k"], [0, 1])


@given(st.binary(max_size=60), st.integers(0, 9), st.integers(0, 2**31 - 1))
def test_bytes_that_are_no_records_are_refused(
    plain: bytes, record_count: int, last_offset_delta: int
) -> None:
    header = parse_header(GOLDEN["none"])._replace(
        record_count=record_count, last_offset_delta=last_offset_delta
    )
    codes = set()
    try:
        outline = outline_records(header, plain)
    except KafkaError as error:
        codes.add(error.code)
    else:
        assert len(outline.keys) == len(outline.offsets) == len(outline.ends) == record_count
    assert codes <= {ErrorCode.INVALID_RECORD}


def test_offsets_that_do_not_belong_to_the_batch_are_refused() -> None:
    header, plain = plain_records(build_batch([(0, b"k", b"v"), (0, b"l", b"w")]))
    with pytest.raises(KafkaError, match="do not rise"):
        outline_records(header._replace(last_offset_delta=0), plain)
