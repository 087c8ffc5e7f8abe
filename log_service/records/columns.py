"""Record batches as Arrow columns, without touching each record in Python.

The module turns the places found by ``fields`` into columns. It cuts the buffer at the ends of
keys, values and headers, and Arrow gathers the pieces. It is imported only if columns are needed,
because it imports numpy and pyarrow.

Invariants: the columns equal the records of ``read_records`` for the same batches, with null for a
timestamp of -1. Bytes that ``read_records`` refuses are refused here with the same code. A
timestamp past 64 bits wraps around, as in Java. A run of batches holds less than 2 GiB, so that
32-bit offsets suffice.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from log_service.common.types import NO_TIMESTAMP, Buffer
from log_service.records.batch import OpenBatch
from log_service.records.fields import (
    Fields,
    Spans,
    find_fields,
    invalid,
    read_spans,
    refuse,
    repeat_field,
)
from log_service.records.varint import INT32_VARINT_BYTES, read_varint
from log_service.records.varint_arrays import Integers, read_varints

HEADER_TYPE = pa.struct(
    [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
)
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

_NO_HEADERS = pa.array([], HEADER_TYPE)
_FEW_RECORDS = 64  # for fewer, a step of numpy costs more than a loop


def to_record_batch(batches: Sequence[OpenBatch], start_offset: int, end_offset: int) -> Any:
    """Return a ``pyarrow.RecordBatch`` of ``SCHEMA`` with the records in [start, end).

    Raises:
        KafkaError: INVALID_RECORD, a record is malformed.
    """
    fields = find_fields(batches)
    headers = _headers(fields)
    offsets, timestamps = fields.offsets, fields.timestamps
    rows = np.flatnonzero((offsets >= start_offset) & (offsets < end_offset))
    is_whole = len(rows) == len(offsets)
    timestamps = timestamps if is_whole else timestamps[rows]
    is_null = timestamps == NO_TIMESTAMP
    epochs = repeat_field(batches, lambda header: header.partition_leader_epoch).astype(np.int32)
    columns = [
        pa.array(offsets if is_whole else offsets[rows]),
        pa.array(timestamps, mask=is_null if is_null.any() else None).view(
            pa.timestamp("ms", tz="UTC")
        ),
        _gather(fields.body, fields.keys, rows),
        _gather(fields.body, fields.values, rows),
        headers if is_whole else headers.take(pa.array(rows)),
        pa.array(epochs if is_whole else epochs[rows]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _gather(body: Buffer, spans: Spans, rows: Integers) -> Any:
    """Return the bytes of ``spans`` as a binary array, one value for each index in ``rows``.

    The body is cut at the start and end of every span, and every second piece is taken.
    """
    is_null = spans.is_null[rows]
    if is_null.all():
        return pa.nulls(len(is_null), pa.binary())
    cuts = np.empty(2 * len(spans.starts) + 1, np.int32)
    cuts[0:-1:2] = spans.starts
    cuts[1::2] = spans.ends
    cuts[-1] = spans.ends[-1]
    pieces = pa.Array.from_buffers(
        pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(body)]
    )
    return pieces.take(pa.array(2 * rows, mask=is_null if is_null.any() else None))


# Headers


def _headers(fields: Fields) -> Any:
    """Return the headers of all records as a list array.

    Each step reads one header of all records at once, as long as enough records have one.
    """
    body, octets, counts, ends = fields.body, fields.octets, fields.header_counts, fields.ends
    if not counts.any():
        return pa.ListArray.from_arrays(
            pa.array(np.zeros(len(counts) + 1, np.int32)),
            _NO_HEADERS,
            type=SCHEMA.field("headers").type,
        )
    list_offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    # The rows are: name start, name end, value start, value end, and whether the value is null.
    spans = np.empty((5, list_offsets[-1]), np.int64)
    records = np.nonzero(counts)[0]
    # Reading starts behind the header count.
    _, positions = read_varints(octets, fields.header_positions[records], INT32_VARINT_BYTES)
    index = 0
    while len(records) > _FEW_RECORDS:
        names, positions = read_spans(octets, positions)
        refuse(names.is_null, "the name of a header is null")
        values, positions = read_spans(octets, positions)
        refuse(positions > ends[records], "a record's headers do not take what its length says")
        spans[:, list_offsets[records] + index] = (
            names.starts,
            names.ends,
            values.starts,
            values.ends,
            values.is_null,
        )
        index += 1
        is_unfinished = counts[records] > index
        refuse(
            ~is_unfinished & (positions != ends[records]),
            "a record's headers do not take what its length says",
        )
        records, positions = records[is_unfinished], positions[is_unfinished]
    for record, position in zip(records.tolist(), positions.tolist(), strict=True):
        first, last = int(list_offsets[record]) + index, int(list_offsets[record + 1])
        spans[:, first:last] = _header_spans(body, position, int(ends[record]), last - first)
    everything = np.arange(spans.shape[1])
    names_array = _names(
        _gather(body, Spans(spans[0], spans[1], np.zeros(len(everything), bool)), everything)
    )
    values_array = _gather(body, Spans(spans[2], spans[3], spans[4] != 0), everything)
    structs = pa.StructArray.from_arrays([names_array, values_array], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(
        pa.array(list_offsets.astype(np.int32)), structs, type=SCHEMA.field("headers").type
    )


def _header_spans(body: Buffer, position: int, end: int, count: int) -> Integers:
    """Return the spans of the last ``count`` headers of one record, one column per header."""
    spans: list[tuple[int, int, int, int, int]] = []
    try:
        for _ in range(count):
            size, name_start = read_varint(body, position)
            name_end = name_start + size
            if size < 0 or name_end > end:
                raise invalid("the length of a header's name does not fit into its record")
            size, value_start = read_varint(body, name_end)
            position = value_start + max(size, 0)
            if size < -1 or position > end:
                raise invalid("the length of a header's value does not fit into its record")
            spans.append((name_start, name_end, value_start, position, size < 0))
    except IndexError:
        raise invalid("the bytes end inside a header") from None
    if position != end:
        raise invalid("a record's headers do not take what its length says")
    return np.array(spans, np.int64).T


def _names(names: Any) -> Any:
    """Return binary names as strings, with replacement characters for invalid UTF-8."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.as_py().decode("utf-8", "replace") for name in names], pa.string())
