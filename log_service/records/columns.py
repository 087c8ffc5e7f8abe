"""Record batches as Arrow columns, without touching each record in Python.

Decides how the fields of many records are found at once. The bodies of a run of batches are laid end to end; ``walk`` finds where each
record ends, and from there on every step takes one field of all records: varints with numpy, keys and values by cutting the body at their
ends and letting Arrow gather the pieces. Imported only where columns are asked for, because numpy and pyarrow come with it.

Invariants: what comes out equals what ``read_records`` yields for the same batches, with null for a timestamp of -1; bytes that it refuses
are refused here, with the same code. A timestamp past 64 bits wraps around, as it does in Java. A run holds less than 2 GiB, so that
32-bit offsets reach everywhere.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TIMESTAMP, Buffer
from log_service.records.batch import BatchHeader
from log_service.records.varint import INT32_VARINT_BYTES, INT64_VARINT_BYTES, read_varint
from log_service.records.varint_arrays import Integers, Octets, read_varints
from log_service.records.walk import find_records

HEADER_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.field("element", HEADER_TYPE, nullable=False))),
        pa.field("leader_epoch", pa.int32(), nullable=False),
    ]
)

MAX_RUN_BYTES = 1 << 30
"""The largest run of batches that is turned into columns at once."""

_NO_HEADERS = pa.array([], HEADER_TYPE)
_FEW_RECORDS = 64  # for fewer, a step of numpy costs more than a loop


class OpenBatch(NamedTuple):
    """A batch's header, and where its records lie, decompressed: between two positions of a buffer."""

    header: BatchHeader
    buffer: Buffer
    start: int
    end: int


def to_record_batch(batches: Sequence[OpenBatch], start_offset: int, end_offset: int) -> Any:
    """Return a ``pyarrow.RecordBatch`` of ``SCHEMA``: the records of ``batches`` with offsets in [start, end).

    Raises:
        KafkaError: INVALID_RECORD, a record is malformed.
    """
    body, batch_starts, batch_ends = _laid_out(batches)
    octets: Octets = np.frombuffer(body, np.uint8)
    counts = np.array([batch.header.record_count for batch in batches], np.int64)
    starts, ends = find_records(body, octets, counts, batch_starts, batch_ends)
    sizes, positions = read_varints(octets, starts, INT32_VARINT_BYTES)
    _refuse(positions + sizes != ends, "a record's length is negative")
    deltas, positions = read_varints(octets, positions + 1, INT64_VARINT_BYTES)  # behind the attributes
    timestamps = _timestamps(batches, deltas)
    deltas, positions = read_varints(octets, positions, INT32_VARINT_BYTES)
    offsets = _repeat(batches, lambda header: header.base_offset) + deltas
    keys, positions = _read_spans(octets, positions)
    values, positions = _read_spans(octets, positions)
    header_counts, positions = read_varints(octets, positions, INT32_VARINT_BYTES)
    _refuse((positions > ends) | ((header_counts == 0) & (positions != ends)), "a record's fields do not take what its length says")
    headers = _headers(body, octets, header_counts, positions, ends)

    rows = np.flatnonzero((offsets >= start_offset) & (offsets < end_offset))
    is_whole = len(rows) == len(ends)
    timestamps = timestamps if is_whole else timestamps[rows]
    is_null = timestamps == NO_TIMESTAMP
    epochs = _repeat(batches, lambda header: header.partition_leader_epoch).astype(np.int32)
    columns = [
        pa.array(offsets if is_whole else offsets[rows]),
        pa.array(timestamps, mask=is_null if is_null.any() else None).view(pa.timestamp("ms", tz="UTC")),
        keys.gather(body, rows),
        values.gather(body, rows),
        headers if is_whole else headers.take(pa.array(rows)),
        pa.array(epochs if is_whole else epochs[rows]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _laid_out(batches: Sequence[OpenBatch]) -> tuple[Buffer, Integers, Integers]:
    """Return a buffer that holds all records, and where in it those of each batch start and end: the one they lie in, or else a copy."""
    starts = np.array([batch.start for batch in batches], np.int64)
    ends = np.array([batch.end for batch in batches], np.int64)
    buffer, first, last = batches[0].buffer, batches[0].start, batches[-1].end
    if last - first <= MAX_RUN_BYTES and all(batch.buffer is buffer for batch in batches):
        return memoryview(buffer)[first:last], starts - first, ends - first
    joined = b"".join([memoryview(batch.buffer)[batch.start : batch.end] for batch in batches])
    assert len(joined) <= MAX_RUN_BYTES
    sizes = ends - starts
    ends = np.cumsum(sizes)
    return joined, ends - sizes, ends


def _repeat(batches: Sequence[OpenBatch], field: Callable[[BatchHeader], int]) -> Integers:
    """Return a header's field once for each of the batch's records."""
    values = np.array([field(header) for header, *_ in batches], np.int64)
    return np.repeat(values, [header.record_count for header, *_ in batches])


def _timestamps(batches: Sequence[OpenBatch], deltas: Integers) -> Integers:
    timestamps: Integers = _repeat(batches, lambda header: header.base_timestamp) + deltas
    if any(header.is_append_time for header, *_ in batches):
        is_append_time = _repeat(batches, lambda header: header.is_append_time) != 0
        timestamps = np.where(is_append_time, _repeat(batches, lambda header: header.max_timestamp), timestamps)
    return timestamps


# One field of all records


class _Spans(NamedTuple):
    """One key or value of every record: where it begins and ends in the body, and whether it is null."""

    starts: Integers
    ends: Integers
    is_null: NDArray[np.bool_]

    def gather(self, body: Buffer, rows: Integers) -> Any:
        """Return the pieces of ``rows`` as a binary array: the body is cut at all ends, and every second piece is taken."""
        is_null = self.is_null[rows]
        if is_null.all():
            return pa.nulls(len(is_null), pa.binary())
        cuts = np.empty(2 * len(self.starts) + 1, np.int32)
        cuts[0:-1:2] = self.starts
        cuts[1::2] = self.ends
        cuts[-1] = self.ends[-1] if len(self.ends) else 0
        pieces = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(body)])
        return pieces.take(pa.array(2 * rows, mask=is_null if is_null.any() else None))


def _read_spans(octets: Octets, positions: Integers) -> tuple[_Spans, Integers]:
    """Return one key or value of every record, and the positions after them: whether these lie in the record is the caller's to look at."""
    sizes, starts = read_varints(octets, positions, INT32_VARINT_BYTES)
    is_null = sizes < 0
    if is_null.any():
        _refuse(sizes < -1, "the length of a key or value is negative")
        sizes = np.maximum(sizes, 0)
    span_ends = starts + sizes
    return _Spans(starts, span_ends, is_null), span_ends


# Headers


def _headers(body: Buffer, octets: Octets, counts: Integers, positions: Integers, ends: Integers) -> Any:
    """Return the headers of all records as a list array, one header of all records at a time for as long as that pays."""
    if not counts.any():
        return pa.ListArray.from_arrays(pa.array(np.zeros(len(counts) + 1, np.int32)), _NO_HEADERS, type=SCHEMA.field("headers").type)
    _refuse((counts < 0) | (2 * counts > ends - positions), "a record announces more headers than it has room for")
    list_offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    spans = np.empty((5, list_offsets[-1]), np.int64)  # name start and end, value start and end, whether the value is null
    records = np.nonzero(counts)[0]
    positions = positions[records]
    index = 0
    while len(records) > _FEW_RECORDS:
        names, positions = _read_spans(octets, positions)
        _refuse(names.is_null, "the name of a header is null")
        values, positions = _read_spans(octets, positions)
        _refuse(positions > ends[records], "a record's headers do not take what its length says")
        spans[:, list_offsets[records] + index] = (names.starts, names.ends, values.starts, values.ends, values.is_null)
        index += 1
        is_unfinished = counts[records] > index
        _refuse(~is_unfinished & (positions != ends[records]), "a record's headers do not take what its length says")
        records, positions = records[is_unfinished], positions[is_unfinished]
    for record, position in zip(records.tolist(), positions.tolist(), strict=True):
        first, last = int(list_offsets[record]) + index, int(list_offsets[record + 1])
        spans[:, first:last] = _header_spans(body, position, int(ends[record]), last - first)
    names_array = _names(_Spans(spans[0], spans[1], np.zeros(spans.shape[1], bool)).gather(body, np.arange(spans.shape[1])))
    values_array = _Spans(spans[2], spans[3], spans[4] != 0).gather(body, np.arange(spans.shape[1]))
    structs = pa.StructArray.from_arrays([names_array, values_array], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(pa.array(list_offsets.astype(np.int32)), structs, type=SCHEMA.field("headers").type)


def _header_spans(body: Buffer, position: int, end: int, count: int) -> Integers:
    """Return the spans of the last ``count`` headers of one record, a column for each."""
    spans: list[tuple[int, int, int, int, int]] = []
    for _ in range(count):
        size, name_start = read_varint(body, position)
        name_end = name_start + size
        if size < 0 or name_end > end:
            raise _invalid("the length of a header's name does not fit into its record")
        size, value_start = read_varint(body, name_end)
        position = value_start + max(size, 0)
        if size < -1 or position > end:
            raise _invalid("the length of a header's value does not fit into its record")
        spans.append((name_start, name_end, value_start, position, size < 0))
    if position != end:
        raise _invalid("a record's headers do not take what its length says")
    return np.array(spans, np.int64).T


def _names(names: Any) -> Any:
    """Return binary names as strings; what is not UTF-8 in them becomes replacement characters."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.as_py().decode("utf-8", "replace") for name in names], pa.string())


# Errors


def _refuse(is_wrong: NDArray[np.bool_], reason: str) -> None:
    if is_wrong.any():
        raise _invalid(reason)


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"a batch is malformed: {reason}")
