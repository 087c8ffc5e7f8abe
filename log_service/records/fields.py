"""Positions of the fields of many records, found for all of them at once with numpy.

The records of a run of batches are treated as one buffer, if possible the one that they were
fetched into. ``walk`` finds the end of each record. From there every step reads one field of all
records. ``columns`` makes Arrow columns of the fields, and the client's consumer makes records. The
module is imported only if many records are opened, because it imports numpy.

Invariants: the fields equal the records of ``read_records`` for the same batches. Bytes that
``read_records`` refuses are refused here with the same code, except for headers, of which only the
count is read. A timestamp past 64 bits wraps around, as in Java. A run of batches holds less than 2
GiB, so that 32-bit offsets suffice.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import Steps
from log_service.common.types import NO_TIMESTAMP, Buffer
from log_service.records.batch import BatchHeader, OpenBatch
from log_service.records.limits import UNITS_PER_ROUND, Allowance
from log_service.records.numbered_walk import are_plain, find_numbered
from log_service.records.record import ITEMS_PER_STEP, skip_in_steps
from log_service.records.rules import MAX_RECORD_ERRORS, RecordFaults, misplaced
from log_service.records.varint import INT32_VARINT_BYTES, INT64_VARINT_BYTES
from log_service.records.varint_arrays import Integers, Octets, read_varints
from log_service.records.walk import find_in_steps, find_records

MAX_RUN_BYTES = 1 << 30
"""The largest run of batches that is opened at once, in bytes."""

RECORDS_PER_STEP = 16_384
"""Records per step when a batch is checked in steps."""

_MAX_ROUNDS = 64  # rounds of headers; few records have more, and these are followed one by one
_FEW_RECORDS = 64  # for fewer, a round costs more than a loop


class Spans(NamedTuple):
    """The keys or the values of all records: the start and end of each, and whether it is null.

    Positions are those in the buffer that holds all records (``Fields.body``).
    """

    starts: Integers
    ends: Integers
    is_null: NDArray[np.bool_]


class Fields(NamedTuple):
    """The fields of all records of a run of batches.

    Headers are not opened. Each record has ``header_counts`` of them, which begin at
    ``header_positions`` with their count and extend to the record's end.
    """

    body: Buffer
    octets: Octets
    offsets: Integers
    timestamps: Integers
    keys: Spans
    values: Spans
    header_counts: Integers
    header_positions: Integers
    ends: Integers


MoreChecks = Callable[[Fields, int, RecordFaults], Steps[None]]


def find_fields(batches: Sequence[OpenBatch]) -> Fields:
    """Return the fields of all records of ``batches``, in order.

    At least one batch is needed.

    Raises:
        KafkaError: INVALID_RECORD, a record is malformed.
    """
    body, batch_starts, batch_ends = _laid_out(batches)
    octets: Octets = np.frombuffer(body, np.uint8)
    counts = np.array([batch.header.record_count for batch in batches], np.int64)
    found = _read_fields(
        body, octets, *find_records(body, octets, counts, batch_starts, batch_ends)
    )
    return found._replace(
        offsets=repeat_field(batches, lambda header: header.base_offset) + found.offsets,
        timestamps=_timestamps(batches, found.timestamps),
    )


def _read_fields(body: Buffer, octets: Octets, starts: Integers, ends: Integers) -> Fields:
    """Return the fields of the records between ``starts`` and ``ends``.

    Offsets and timestamps are deltas.

    Raises:
        KafkaError: INVALID_RECORD, a record is malformed.
    """
    sizes, positions = read_varints(octets, starts, INT32_VARINT_BYTES)
    refuse(positions + sizes != ends, "a record's length is negative")
    # The timestamp delta follows the attributes byte.
    timestamps, positions = read_varints(octets, positions + 1, INT64_VARINT_BYTES)
    offsets, positions = read_varints(octets, positions, INT32_VARINT_BYTES)
    keys, positions = read_spans(octets, positions)
    values, header_positions = read_spans(octets, positions)
    header_counts, positions = read_varints(octets, header_positions, INT32_VARINT_BYTES)
    refuse(
        (positions > ends) | ((header_counts == 0) & (positions != ends)),
        "a record's fields do not take what its length says",
    )
    refuse(
        (header_counts < 0) | (2 * header_counts > ends - positions),
        "a record announces more headers than it has room for",
    )
    return Fields(
        body, octets, offsets, timestamps, keys, values, header_counts, header_positions, ends
    )


def _laid_out(batches: Sequence[OpenBatch]) -> tuple[Buffer, Integers, Integers]:
    """Return a buffer with all records, and the start and end of each batch's records in it.

    If one buffer already holds all batches, it is used. Otherwise the records are copied.
    """
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
    """Return a header field, repeated for each record of its batch."""
    values = np.array([field(header) for header, *_ in batches], np.int64)
    return np.repeat(values, [header.record_count for header, *_ in batches])


def _timestamps(batches: Sequence[OpenBatch], deltas: Integers) -> Integers:
    timestamps: Integers = repeat_field(batches, lambda header: header.base_timestamp) + deltas
    if any(header.is_append_time for header, *_ in batches):
        is_append_time = repeat_field(batches, lambda header: header.is_append_time) != 0
        timestamps = np.where(
            is_append_time, repeat_field(batches, lambda header: header.max_timestamp), timestamps
        )
    return timestamps


def read_spans(octets: Octets, positions: Integers) -> tuple[Spans, Integers]:
    """Read the key or value at each position. Return their spans and the positions after them.

    Parts of headers are read in the same way. The caller checks that the spans lie within their
    records.
    """
    sizes, starts = read_varints(octets, positions, INT32_VARINT_BYTES)
    is_null = sizes < 0
    if np.count_nonzero(is_null):
        refuse(sizes < -1, "the length of a key or value is negative")
        sizes = np.maximum(sizes, 0)
    span_ends = starts + sizes
    return Spans(starts, span_ends, is_null), span_ends


# Errors


def refuse(is_wrong: NDArray[np.bool_], reason: str) -> None:
    """Raise INVALID_RECORD if any record is wrong."""
    if np.count_nonzero(is_wrong):  # takes a third of the time of ``any``
        raise invalid(reason)


def invalid(reason: str) -> KafkaError:
    """Return the error of a malformed record."""
    return KafkaError(ErrorCode.INVALID_RECORD, f"a batch is malformed: {reason}")


# Checks


def check_fields(
    header: BatchHeader, plain: Buffer, faults: RecordFaults, check_more: MoreChecks | None = None
) -> Steps[None]:
    """Check the records of a batch and their headers.

    ``faults`` collects the records that break the rules or have a wrong offset delta.
    ``check_more`` is called in each step with the fields of its records, the index of the first
    record, and ``faults``.

    Raises:
        KafkaError: INVALID_RECORD, a record is malformed; MESSAGE_TOO_LARGE, there are more headers
            than may be checked.
    """
    octets: Octets = np.frombuffer(plain, np.uint8)
    starts, ends = yield from _find_of_one(plain, octets, header.record_count)
    may_be_plain = check_more is None and faults.rules is None and octets[ends[0] - 1] == 0
    for first in range(0, header.record_count, RECORDS_PER_STEP):
        stop = first + RECORDS_PER_STEP
        places = starts[first:stop], ends[first:stop]
        if first:
            yield
        if may_be_plain and are_plain(octets, *places, first):
            continue
        found = _read_fields(plain, octets, *places)
        _note_faults(found, first, faults)
        if np.count_nonzero(found.header_counts):
            round_count = _round_count(found.header_counts)
            _take_headers(faults.allowance, found.header_counts, round_count)
            yield from _check_headers(found, first, round_count)
        if check_more is not None:
            yield from check_more(found, first, faults)


def _find_of_one(body: Buffer, octets: Octets, count: int) -> Steps[tuple[Integers, Integers]]:
    """Return the start and end of each record of one batch. Raises as ``find_in_steps``."""
    found = yield from find_numbered(body, octets, count)
    if found is not None:
        return found
    bounds = np.zeros(1, np.int64), np.array([len(octets)])
    return (yield from find_in_steps(body, octets, np.array([count]), *bounds))


def _note_faults(found: Fields, first: int, faults: RecordFaults) -> None:
    """Add records to ``faults`` that break the rules or whose offset delta is not their index.

    ``first`` is the index of the first record.
    """
    is_wrong = found.offsets != np.arange(first, first + len(found.offsets))
    rules, timestamps = faults.rules, found.timestamps
    if rules is not None:
        if rules.is_key_needed:
            is_wrong |= found.keys.is_null
        timestamps = rules.base_timestamp + timestamps
        is_wrong |= (timestamps != NO_TIMESTAMP) & (
            (timestamps < rules.earliest_ms) | (timestamps > rules.latest_ms)
        )
    if not np.count_nonzero(is_wrong):
        return
    wrong = np.flatnonzero(is_wrong)
    room = max(MAX_RECORD_ERRORS - faults.count, 0)
    for place in wrong[:room].tolist():
        index, delta = first + place, int(found.offsets[place])
        reason = misplaced(index, delta) if delta != index else None
        if reason is None and rules is not None:
            reason = rules.fault_of(
                int(timestamps[place]), is_keyless=bool(found.keys.is_null[place])
            )
        assert reason is not None, "one of the rules found it wrong"
        faults.add(index, *reason)
    faults.count += len(wrong[room:])


def _round_count(header_counts: Integers) -> int:
    """Return how many headers of each record are checked for all records at once."""
    if len(header_counts) <= _FEW_RECORDS:
        return 0
    place = len(header_counts) - _FEW_RECORDS - 1
    return min(int(np.partition(header_counts, place)[place]), _MAX_ROUNDS)


def _take_headers(allowance: Allowance, header_counts: Integers, round_count: int) -> None:
    """Charge ``allowance`` for the headers that are checked in rounds, and for the others.

    The others are checked one by one, which costs more.

    Raises:
        KafkaError: as ``Allowance.take_items``.
    """
    count, in_rounds_count = (
        int(header_counts.sum()),
        int(np.minimum(header_counts, round_count).sum()),
    )
    allowance.take_work(round_count * UNITS_PER_ROUND)
    allowance.take_items(in_rounds_count)
    allowance.take_items_alone(count - in_rounds_count)


def _check_headers(found: Fields, first: int, round_count: int) -> Steps[None]:
    """Check that the headers of each record end where the record ends.

    A round checks one header of every record that has another one.
    """
    left, positions = read_varints(found.octets, found.header_positions, INT32_VARINT_BYTES)
    indexes, ends, checked_count = np.arange(first, first + len(left)), found.ends, 0
    for round_number in range(round_count + 1):
        refuse(
            (positions != ends) & (left == 0), "a record's fields do not take what its length says"
        )
        has_more = left > 0
        if not has_more.any():
            return
        left, positions, ends, indexes = (
            left[has_more],
            positions[has_more],
            ends[has_more],
            indexes[has_more],
        )
        if round_number == round_count:
            break
        left -= 1
        sizes, positions = read_varints(found.octets, positions, INT32_VARINT_BYTES)
        refuse(sizes < 0, "the length of a header's name is negative")
        sizes, positions = read_varints(found.octets, positions + sizes, INT32_VARINT_BYTES)
        refuse(sizes < -1, "the length of a header's value is negative")
        positions = positions + np.maximum(sizes, 0)
        refuse(positions > ends, "a record's headers do not fit into it")
        checked_count += len(left)
        if checked_count > RECORDS_PER_STEP:
            checked_count = 0
            yield
    yield from _check_rest(
        found.body, left.tolist(), positions.tolist(), ends.tolist(), indexes.tolist()
    )


def _check_rest(
    body: Buffer, counts: list[int], positions: list[int], ends: list[int], indexes: list[int]
) -> Steps[None]:
    """Check the headers of records with very many headers that no round has checked, one by one."""
    checked_count = 0
    for count, position, end, index in zip(counts, positions, ends, indexes, strict=True):
        checked_count += count
        if checked_count > ITEMS_PER_STEP:
            checked_count = 0
            yield
        yield from skip_in_steps(body, position, end, index, count)
