"""Columns equal what the reader of single records yields, for every codec, width and gap."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.arrow import UnreadableBatch, iterate_record_batches, schema
from log_service.records.batch import (
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    CorruptBatch,
    compute_crc,
    iterate_headers,
    iterate_records,
    parse_header,
)
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.control import ControlType, build_end_transaction_marker
from log_service.records.record import NewRecord, Record
from tests.unit.records.golden import GOLDEN, RECORDS
from tests.unit.records.strategies import CODECS, NEW_RECORDS

EVERYTHING = (0, 2**63 - 1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(
    buffers: Sequence[bytes | bytearray], start_offset: int, end_offset: int
) -> list[tuple[Record, int]]:
    """Return (record, leader epoch) as the reader of single records sees the range."""
    return [
        (record, header.partition_leader_epoch)
        for buffer in buffers
        for position, header in iterate_headers(buffer)
        if not header.is_control
        for record in iterate_records(buffer, position)
        if start_offset <= record.offset < end_offset
    ]


def to_table(
    buffers: Iterable[bytes | bytearray], start_offset: int, end_offset: int, **options: Any
) -> pa.Table:
    """Return all record batches of a range as one table."""
    return pa.Table.from_batches(
        iterate_record_batches(buffers, start_offset, end_offset, **options), schema=schema()
    )


def rows_in(table: pa.Table) -> list[tuple[Record, int]]:
    """Return the same of a table."""
    columns = [
        table.column(name).to_pylist()
        for name in ("offset", "key", "value", "headers", "leader_epoch")
    ]
    timestamps = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        (
            Record(
                offset,
                -1 if timestamp is None else timestamp,
                key,
                value,
                tuple((h["key"], h["value"]) for h in headers),
            ),
            epoch,
        )
        for timestamp, offset, key, value, headers, epoch in zip(timestamps, *columns, strict=True)
    ]


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Draw batches back to back with gaps between them.

    They have every codec, with and without append time, and markers among them.
    """
    next_offset = draw(st.integers(0, 2**40))
    batches: list[bytes] = []
    for _ in range(draw(st.integers(1, 4))):
        next_offset += draw(st.integers(0, 5))
        if draw(st.integers(0, 4)) == 0:
            marker = build_end_transaction_marker(
                ControlType.ABORT,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=5,
                base_offset=next_offset,
            )
            batches.append(marker)
        else:
            records = draw(st.lists(NEW_RECORDS, min_size=1, max_size=12))
            append_time_ms = draw(st.one_of(st.none(), st.integers(0, 2**42)))
            epoch = draw(st.integers(-1, 2**31 - 1))
            batches.append(
                build_batch(
                    records,
                    codec=draw(CODECS),
                    base_offset=next_offset,
                    leader_epoch=epoch,
                    append_time_ms=append_time_ms,
                )
            )
        next_offset = parse_header(batches[-1]).next_offset
    return b"".join(batches)


@settings(deadline=None)
@given(logs(), st.integers(0, 20), st.integers(0, 60))
def test_columns_equal_the_records(log: bytes, skip_count: int, count: int) -> None:
    start_offset = parse_header(log).base_offset + skip_count
    table = to_table([log], start_offset, start_offset + count)
    assert rows_in(table) == rows_of([log], start_offset, start_offset + count)
    table.validate(full=True)
    assert table.schema == schema()


@given(
    st.lists(st.lists(NEW_RECORDS, min_size=1, max_size=5), min_size=1, max_size=5),
    st.integers(1, 5000),
)
@settings(deadline=None)
def test_chunks_and_buffers_make_no_difference(
    lists: list[list[NewRecord]], chunk_bytes: int
) -> None:
    buffers = [build_batch(records, base_offset=10 * index) for index, records in enumerate(lists)]
    record_batches = list(iterate_record_batches(buffers, *EVERYTHING, chunk_bytes=chunk_bytes))
    assert rows_in(pa.Table.from_batches(record_batches)) == rows_of(buffers, *EVERYTHING)
    assert 1 <= len(record_batches) <= len(buffers)


@pytest.mark.parametrize(
    "name", ["none", "gzip", "snappy", "lz4", "zstd", "transactional", "append_time"]
)
def test_columns_of_what_apache_kafka_wrote(name: str) -> None:
    assert rows_in(to_table([GOLDEN[name]], *EVERYTHING)) == rows_of([GOLDEN[name]], *EVERYTHING)


@pytest.mark.parametrize("header_count", [1, 2, 40])
@pytest.mark.parametrize("record_count", [3, 64, 65, 300])
def test_headers_of_few_and_of_many_records(record_count: int, header_count: int) -> None:
    records = [
        NewRecord(
            0,
            None,
            b"v",
            tuple(
                (f"name-{n}", None if n % 3 else b"x" * n)
                for n in range(header_count if index % 2 else 1)
            ),
        )
        for index in range(record_count)
    ]
    batch = build_batch(records)
    assert rows_in(to_table([batch], 1, record_count - 1)) == rows_of([batch], 1, record_count - 1)


def test_name_of_a_header_that_is_not_utf_8_gets_replacement_characters() -> None:
    batch = bytearray(build_batch([NewRecord(0, None, None, (("abc", b"x"),))]))
    batch[batch.index(b"abc") + 1] = 0xFF
    table = to_table([batch], *EVERYTHING, is_crc_checked=False)
    assert table["headers"][0].as_py() == [{"key": "a\ufffdc", "value": b"x"}]
    assert next(iterate_records(batch)).headers == (("a\ufffdc", b"x"),)


def test_no_timestamp_is_null() -> None:
    table = to_table([build_batch([NewRecord(-1, None, b"x")])], *EVERYTHING)
    assert table["timestamp"].to_pylist() == [None]


def test_timestamps_are_instants() -> None:
    table = to_table([build_batch([NewRecord(1_700_000_000_123, None, b"x")])], *EVERYTHING)
    assert table["timestamp"].to_pylist() == [EPOCH + timedelta(milliseconds=1_700_000_000_123)]


@pytest.mark.parametrize("buffers", [[], [b""], [GOLDEN["commit"]]])
def test_range_without_records_is_an_empty_table(buffers: list[bytes]) -> None:
    table = to_table(buffers, *EVERYTHING)
    assert table.num_rows == 0
    assert table.schema == schema()


def test_batches_outside_the_range_are_not_opened() -> None:
    damaged = bytearray(GOLDEN["none"])
    damaged[-1] ^= 1
    behind = build_batch([NewRecord(0, None, b"v", ())], base_offset=1005)
    assert to_table([damaged + behind], 1005, 2000)["offset"].to_pylist() == [1005]
    assert to_table([damaged], 0, 1000).num_rows == 0
    with pytest.raises(CorruptBatch):
        to_table([damaged], 1005, 2000)
    with pytest.raises(CorruptBatch):
        to_table([damaged], 1004, 1005)


def test_batches_that_are_not_visible_are_left_out() -> None:
    buffer = GOLDEN["transactional"] + GOLDEN["none"]
    table = to_table(
        [buffer], *EVERYTHING, is_visible=lambda header: header.producer_id != 9000000001
    )
    assert table["offset"].to_pylist() == [1000, 1001, 1002, 1003, 1004]


def test_batch_that_is_cut_off_is_left_to_the_next_fetch() -> None:
    assert to_table([GOLDEN["none"] + GOLDEN["gzip"][:-1]], *EVERYTHING).num_rows == 5


def test_batch_without_records_has_no_rows() -> None:
    """Compaction leaves such batches behind, to remember a producer's sequence."""
    empty = bytearray(HEADER_SIZE)
    HEADER.pack_into(empty, 0, 7, HEADER_SIZE - 12, 0, 2, 0, 0, 4, 0, 0, 5, 0, 0, 0)
    table = to_table([empty + GOLDEN["none"]], *EVERYTHING, is_crc_checked=False)
    assert table.num_rows == 5


def test_large_values_come_whole() -> None:
    values = [bytes([number]) * (1 << 20) for number in range(5)]
    batch = build_batch([NewRecord(0, None, value) for value in values], codec=Codec.ZSTD)
    assert to_table([batch], *EVERYTHING)["value"].to_pylist() == values


def code_of(buffer: bytes | bytearray) -> ErrorCode | None:
    """Return the code of the error that making columns raises, None when it raises none."""
    try:
        to_table([buffer], *EVERYTHING, is_crc_checked=False)
    except KafkaError as error:
        return error.code
    return None


def reader_code_of(buffer: bytes | bytearray) -> ErrorCode | None:
    """Return the same of the reader of single records."""
    try:
        list(iterate_records(buffer))
    except KafkaError as error:
        return error.code
    return None


@given(
    st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), min_size=1, max_size=3),
    st.integers(1, 100),
)
@settings(deadline=None, max_examples=400)
def test_damaged_records_are_refused_where_the_reader_refuses_them(
    damages: list[tuple[int, int]], copies: int
) -> None:
    batch = bytearray(build_batch(list(RECORDS[:4]) * copies))
    for index, byte in damages:
        batch[HEADER_SIZE + index % (len(batch) - HEADER_SIZE)] = byte
    assert code_of(batch) == reader_code_of(batch)
    if code_of(batch) is None:
        assert rows_in(to_table([batch], *EVERYTHING, is_crc_checked=False)) == rows_of(
            [batch], *EVERYTHING
        )


@given(st.binary(max_size=300), st.integers(0, 60))
@settings(deadline=None)
def test_random_records_are_refused_where_the_reader_refuses_them(
    body: bytes, record_count: int
) -> None:
    batch = bytearray(HEADER_SIZE) + body
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - 12,
        0,
        2,
        0,
        0,
        max(record_count - 1, 0),
        0,
        0,
        -1,
        -1,
        -1,
        record_count,
    )
    assert code_of(batch) == reader_code_of(batch)


def test_importing_the_module_brings_neither_numpy_nor_pyarrow() -> None:
    code = "import sys, log_service.records.arrow; print(sorted({'numpy', 'pyarrow'} & set(sys.modules)))"
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "[]"


def damaged(batch: bytes, kind: str) -> bytes:
    """Return a batch that cannot be read; but for ``checksum`` its checksum holds."""
    broken = bytearray(batch)
    if kind == "header":
        HEADER.pack_into(
            broken,
            0,
            *[
                value + 500 if number == 6 else value
                for number, value in enumerate(HEADER.unpack_from(broken))
            ],
        )
    else:
        broken[HEADER_SIZE : HEADER_SIZE + 6] = b"\xff" * 6
    if kind == "codec":
        CRC.pack_into(broken, CRC_POSITION, compute_crc(broken))
    return bytes(broken)


@pytest.mark.parametrize("kind", ["checksum", "codec", "records", "header"])
def test_what_cannot_be_read_is_told_in_its_turn_with_its_offsets(kind: str) -> None:
    codec = Codec.ZSTD if kind == "codec" else Codec.NONE
    records = [NewRecord(0, None, b"v%d" % number, ()) for number in range(5)]
    batches = [build_batch(records, codec=codec, base_offset=10 * number) for number in range(3)]
    batches[1] = damaged(batches[1], kind)
    whole = b"".join(batches)
    options: dict[str, Any] = {"is_crc_checked": kind in {"checksum", "header"}}
    with pytest.raises(KafkaError):
        list(iterate_record_batches([whole], *EVERYTHING, **options))
    found: list[UnreadableBatch] = []

    def note(one: UnreadableBatch) -> pa.RecordBatch:
        found.append(one)
        return pa.RecordBatch.from_pydict({"offset": [-1]})

    def offsets(start: int, end: int) -> list[int]:
        found.clear()
        batches = iterate_record_batches([whole], start, end, on_unreadable=note, **options)
        return [offset for one in batches for offset in one["offset"].to_pylist()]

    last = 20 if options["is_crc_checked"] else 15
    assert offsets(*EVERYTHING) == [*range(5), -1, *range(20, 25)]
    assert [(one.start, one.end, bytes(one.raw)) for one in found] == [(10, last, batches[1])]
    assert f"the batch at offsets 10 to {last - 1} cannot be read: " in found[0].reason
    assert offsets(12, 22) == [-1, 20, 21]
    assert [(one.start, one.end) for one in found] == [(12, last)]
    assert offsets(0, 12) == [*range(5), -1]
    assert [(one.start, one.end) for one in found] == [(10, 12)]
    assert offsets(0, 10) == list(range(5))
