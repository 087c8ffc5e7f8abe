"""Batches that lost records to compaction keep everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.records.batch import HEADER_SIZE, is_crc_valid, iterate_records, parse_header
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.record import NewRecord, Record
from log_service.records.rewrite import retain_records
from tests.unit.records.golden import GOLDEN
from tests.unit.records.strategies import CODECS, RECORDS


@given(RECORDS, CODECS, st.sets(st.integers(0, 29)), st.one_of(st.none(), st.integers(0, 2**42)))
def test_kept_records_are_the_same_and_the_header_too(
    records: list[NewRecord], codec: Codec, kept: set[int], delete_horizon_ms: int | None
) -> None:
    batch = build_batch(records, codec=codec, base_offset=500, leader_epoch=4, producer_id=9, producer_epoch=1, base_sequence=70)
    before = parse_header(batch)
    rewritten = retain_records(batch, 0, lambda record: record.offset - 500 in kept, delete_horizon_ms=delete_horizon_ms)
    after = parse_header(rewritten)
    assert is_crc_valid(rewritten)
    assert after.size_bytes == len(rewritten)
    assert (after.base_offset, after.last_offset, after.last_sequence) == (before.base_offset, before.last_offset, before.last_sequence)
    assert (after.producer_id, after.producer_epoch, after.max_timestamp) == (9, 1, before.max_timestamp)
    assert after.delete_horizon_ms == delete_horizon_ms
    assert list(iterate_records(rewritten)) == [record for record in iterate_records(batch) if record.offset - 500 in kept]


def test_batch_that_lost_all_records_is_a_header() -> None:
    rewritten = retain_records(GOLDEN["zstd"], 0, lambda _: False)
    assert len(rewritten) == HEADER_SIZE
    assert parse_header(rewritten).record_count == 0
    assert list(iterate_records(rewritten)) == []


def test_batch_is_rewritten_at_a_position() -> None:
    buffer = GOLDEN["none"] + GOLDEN["transactional"]
    rewritten = retain_records(buffer, len(GOLDEN["none"]), lambda record: record.offset == 44)
    assert [record.offset for record in iterate_records(rewritten)] == [44]
    assert parse_header(rewritten).is_transactional


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batch_that_keeps_all_records_reads_the_same(name: str) -> None:
    seen: list[Record] = []

    def keep(record: Record) -> bool:
        seen.append(record)
        return True

    rewritten = retain_records(GOLDEN[name], 0, keep)
    assert list(iterate_records(rewritten)) == seen == list(iterate_records(GOLDEN[name]))


def test_names_that_are_not_utf_8_are_copied_as_they_are() -> None:
    batch = bytearray(build_batch([NewRecord(0, b"k", None, (("abc", None),)), NewRecord(0, b"l", None)]))
    batch[batch.index(b"abc")] = 0xFF
    assert b"\xffbc" in retain_records(batch, 0, lambda record: record.key == b"k", delete_horizon_ms=5)
