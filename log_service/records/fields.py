"""Where the fields of many records lie, found for all of them at once with numpy.

The records of a run of batches are seen as one buffer: the one that they were fetched into, where that can be. ``walk`` finds where each
record ends, and from there on every step takes one field of all records. ``columns`` makes Arrow columns of the fields, and the client's
consumer makes records of them. Imported only where many records are opened, because numpy comes with it.

Invariants: what is found equals what ``read_records`` yields for the same batches; bytes that it refuses are refused here, with the same
code, but for headers, of which only the number is looked at. A timestamp past 64 bits wraps around, as it does in Java. A run holds less
than 2 GiB, so that 32-bit offsets reach everywhere.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer
from log_service.records.batch import BatchHeader, OpenBatch
from log_service.records.varint import INT32_VARINT_BYTES, INT64_VARINT_BYTES, read_varint
from log_service.records.varint_arrays import Integers, Octets, read_varints
from log_service.records.walk import find_records

MAX_RUN_BYTES = 1 << 30
"""The largest run of batches that is opened at once."""

_MAX_ROUNDS = 64  # of headers; records with more are few, and are followed one by one


class Spans(NamedTuple):
    """One key or value of every record: where it begins and ends in the body, and whether it is null."""

    starts: Integers
    ends: Integers
    is_null: NDArray[np.bool_]


class Fields(NamedTuple):
    """The fields of a run's records. Headers are not opened: there are so many, from that position on to the record's end."""

    body: Buffer
    octets: Octets
    offsets: Integers
    timestamps: Integers
    keys: Spans
    values: Spans
    header_counts: Integers
    header_positions: Integers
    ends: Integers


def find_fields(batches: Sequence[OpenBatch]) -> Fields:
    """Return the fields of all records of ``batches``, at least one batch, in their order.

    Raises:
        KafkaError: INVALID_RECORD, a record is malformed.
    """
    body, batch_starts, batch_ends = _laid_out(batches)
    octets: Octets = np.frombuffer(body, np.uint8)
    counts = np.array([batch.header.record_count for batch in batches], np.int64)
    starts, ends = find_records(body, octets, counts, batch_starts, batch_ends)
    sizes, positions = read_varints(octets, starts, INT32_VARINT_BYTES)
    refuse(positions + sizes != ends, "a record's length is negative")
    deltas, positions = read_varints(octets, positions + 1, INT64_VARINT_BYTES)  # behind the attributes
    timestamps = _timestamps(batches, deltas)
    deltas, positions = read_varints(octets, positions, INT32_VARINT_BYTES)
    offsets = repeat_field(batches, lambda header: header.base_offset) + deltas
    keys, positions = read_spans(octets, positions)
    values, header_positions = read_spans(octets, positions)
    header_counts, positions = read_varints(octets, header_positions, INT32_VARINT_BYTES)
    refuse((positions > ends) | ((header_counts == 0) & (positions != ends)), "a record's fields do not take what its length says")
    refuse((header_counts < 0) | (2 * header_counts > ends - positions), "a record announces more headers than it has room for")
    return Fields(body, octets, offsets, timestamps, keys, values, header_counts, header_positions, ends)


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


def repeat_field(batches: Sequence[OpenBatch], field: Callable[[BatchHeader], int]) -> Integers:
    """Return a header's field once for each of the batch's records."""
    values = np.array([field(header) for header, *_ in batches], np.int64)
    return np.repeat(values, [header.record_count for header, *_ in batches])


def _timestamps(batches: Sequence[OpenBatch], deltas: Integers) -> Integers:
    timestamps: Integers = repeat_field(batches, lambda header: header.base_timestamp) + deltas
    if any(header.is_append_time for header, *_ in batches):
        is_append_time = repeat_field(batches, lambda header: header.is_append_time) != 0
        timestamps = np.where(is_append_time, repeat_field(batches, lambda header: header.max_timestamp), timestamps)
    return timestamps


def read_spans(octets: Octets, positions: Integers) -> tuple[Spans, Integers]:
    """Return one key or value of every record, and the positions after them. The caller checks that these lie in the record."""
    sizes, starts = read_varints(octets, positions, INT32_VARINT_BYTES)
    is_null = sizes < 0
    if is_null.any():
        refuse(sizes < -1, "the length of a key or value is negative")
        sizes = np.maximum(sizes, 0)
    span_ends = starts + sizes
    return Spans(starts, span_ends, is_null), span_ends


# Errors


def refuse(is_wrong: NDArray[np.bool_], reason: str) -> None:
    """Raise INVALID_RECORD if anything is wrong with any record."""
    if is_wrong.any():
        raise invalid(reason)


def invalid(reason: str) -> KafkaError:
    """Return the error of a malformed record."""
    return KafkaError(ErrorCode.INVALID_RECORD, f"a batch is malformed: {reason}")


# Checks


def check_fields(batch: OpenBatch, max_items: int) -> None:
    """Check the records of a batch: their offset deltas, and headers where these are no more than ``max_items``.

    Raises:
        KafkaError: INVALID_RECORD, a record is malformed.
    """
    found = find_fields((batch,))
    expected = np.arange(batch.header.base_offset, batch.header.base_offset + batch.header.record_count)
    refuse(found.offsets != expected, "its offset deltas do not count up from 0")
    if found.header_counts.any() and int(found.header_counts.sum()) <= max_items:
        _check_headers(found)


def _check_headers(found: Fields) -> None:
    """Check that the headers of each record end where it does. A round takes one header of every record that has so many."""
    left, positions = read_varints(found.octets, found.header_positions, INT32_VARINT_BYTES)
    ends = found.ends
    for _ in range(_MAX_ROUNDS):
        refuse((positions != ends) & (left == 0), "a record's fields do not take what its length says")
        has_more = left > 0
        if not has_more.any():
            return
        left, positions, ends = left[has_more] - 1, positions[has_more], ends[has_more]
        sizes, positions = read_varints(found.octets, positions, INT32_VARINT_BYTES)
        refuse(sizes < 0, "the length of a header's name is negative")
        sizes, positions = read_varints(found.octets, positions + sizes, INT32_VARINT_BYTES)
        refuse(sizes < -1, "the length of a header's value is negative")
        positions = positions + np.maximum(sizes, 0)
        refuse(positions > ends, "a record's headers do not fit into it")
    for count, position, end in zip(left.tolist(), positions.tolist(), ends.tolist(), strict=True):
        _check_rest(found.body, count, position, end)


def _check_rest(body: Buffer, count: int, position: int, end: int) -> None:
    """Check the headers that are left of a record with very many."""
    try:
        for _ in range(count):
            for least in (0, -1):
                size, position = read_varint(body, position)
                if not least <= size <= end - position:
                    raise invalid("the length in a header does not fit")
                position += max(size, 0)
    except IndexError:
        raise invalid("the batch ends inside a record") from None
    if position != end:
        raise invalid("a record's fields do not take what its length says")
