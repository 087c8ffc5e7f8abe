"""Search for the end of each record of many batches with numpy.

A record begins where the previous record ends, so its position follows from all earlier lengths.
This module follows that chain without a Python step for each record. It starts at hundreds of
positions at once (lanes). These are the known starts of batches, and positions between them that
look like a record's start. Every step of numpy moves all lanes to their next record. A lane ends
where the next lane began. A lane that steps over that position proves that no record starts there,
and the position is dropped.

Invariants: an end is only returned if the chain from the first record leads there. The ends agree
with the batches' sizes and record counts. If anything does not fit, or if lanes would not be faster
(few records, long ones), the chain is followed record by record, and the error names the fault.
"""

import re

import numpy as np

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import Steps, finish
from log_service.common.types import Buffer
from log_service.records.record import MIN_RECORD_BYTES
from log_service.records.varint import read_varint
from log_service.records.varint_arrays import NUMBERS, WIDTHS, Integers, Octets, pairs_at

FAR_AWAY = 1 << 40
"""A distance that leads out of every batch."""

HOPS: Integers = np.where(WIDTHS > 0, WIDTHS + (NUMBERS ^ (NUMBERS >> 63)), FAR_AWAY)
"""Distance of the next record from one whose length begins with two bytes.

``FAR_AWAY`` means that the two bytes do not hold all of the length. A negative length, which is
refused once the record is read, counts like a positive one of the same bits.
"""

# a numpy step costs the same for one lane as for hundreds, but more lanes need more start searches
_LANE_COUNT = 768
_MIN_LANE_COUNT = 32
_MIN_LANE_RECORDS = 16
_MIN_RECORD_COUNT = 1_024
_MAX_MEAN_BYTES = 4096  # lengths of longer records take three bytes
_PROBE_HOPS = 4
_STEPS_BETWEEN_LOOKS = 8
_STEPS_AT_ONCE = 64
_RECORDS_AT_ONCE = 8_192
_MAX_SKEW = 4
_TRIES = 3

_SHORT_BYTES = 128
_SAMPLE_BYTES = 4_096
_MAX_ZEROS = 256
_MAX_LOOK_BYTES = 512

_AFTER_ANY_LENGTH = re.compile(rb"\x00(?:(?<=[\x80-\xff][\x01-\x7f]\x00)|(?<=\x00[\x0c-\x7e]\x00))")
"""Pattern of attributes after a record's length.

It is a zero after two bytes of length, or after one byte of length behind the zero header count of
the record before. The search is for zeros, which texts have nowhere else.
"""

_AFTER_LONG_LENGTH = re.compile(rb"[\x80-\xff][\x01-\x7f]\x00")
"""Pattern of attributes after two bytes of length, for records that are full of zeros."""


def find_records(
    body: Buffer, octets: Octets, counts: Integers, batch_starts: Integers, batch_ends: Integers
) -> tuple[Integers, Integers]:
    """Return the start and end of each record of consecutive batches.

    ``counts`` are the numbers of records that the batches announce.

    Raises:
        KafkaError: INVALID_RECORD, the lengths of a batch's records do not add up to the batch.
    """
    return finish(find_in_steps(body, octets, counts, batch_starts, batch_ends))


def find_in_steps(
    body: Buffer, octets: Octets, counts: Integers, batch_starts: Integers, batch_ends: Integers
) -> Steps[tuple[Integers, Integers]]:
    """Find records as ``find_records`` does, in steps of about a millisecond."""
    ends = None
    if _may_pay(counts, batch_starts, batch_ends):
        ends = yield from walk_lanes(body, octets, counts, batch_starts, batch_ends)
    if ends is None:
        ends = yield from walk_each(body, counts, batch_starts, batch_ends)
    starts = np.empty_like(ends)
    starts[1:] = ends[:-1]
    first_indexes = np.cumsum(counts) - counts
    starts[first_indexes[counts > 0]] = batch_starts[counts > 0]
    return starts, ends


# All lanes at once


def _may_pay(counts: Integers, batch_starts: Integers, batch_ends: Integers) -> bool:
    """Return whether lanes may be faster: enough records, with a mean length that suits them."""
    record_count = int(counts.sum())
    size_bytes = int((batch_ends - batch_starts).sum())
    return (
        record_count >= _MIN_RECORD_COUNT
        and MIN_RECORD_BYTES <= size_bytes / record_count <= _MAX_MEAN_BYTES
    )


def walk_lanes(
    body: Buffer, octets: Octets, counts: Integers, batch_starts: Integers, batch_ends: Integers
) -> Steps[Integers | None]:
    """Return the ends of all records, or None if lanes cannot find them."""
    has_records = counts > 0
    if (batch_starts != batch_ends)[~has_records].any():
        return None
    counts, batch_starts, batch_ends = (
        counts[has_records],
        batch_starts[has_records],
        batch_ends[has_records],
    )
    record_count = int(counts.sum())
    guesses = _guess_starts(body, octets, record_count, batch_starts, batch_ends)
    wanted = min(_LANE_COUNT, record_count // _MIN_LANE_RECORDS)
    lane_count = max(len(batch_starts), wanted // 4)  # some guesses may fail, not nearly all
    most_steps = _MAX_SKEW * (record_count // lane_count + _STEPS_BETWEEN_LOOKS)
    for _ in range(_TRIES):
        starts = np.union1d(batch_starts, guesses)
        if len(starts) < _MIN_LANE_COUNT:
            return None
        owners = np.searchsorted(batch_starts, starts, side="right") - 1
        stops = np.minimum(np.append(starts[1:], batch_ends[-1]), batch_ends[owners])
        places = yield from _follow(octets, starts, stops, most_steps)
        if places is None:
            return None
        missed = stops[~(places == stops[:, None]).any(axis=1)]
        if not missed.size:
            ends: Integers = places[places <= stops[:, None]]
            is_agreed = (
                len(ends) == record_count and (ends[np.cumsum(counts) - 1] == batch_ends).all()
            )
            return ends if is_agreed else None
        guesses = np.setdiff1d(guesses, missed)
    return None


def _guess_starts(
    body: Buffer, octets: Octets, record_count: int, batch_starts: Integers, batch_ends: Integers
) -> Integers:
    """Return evenly spaced places at which records may start."""
    first, end = int(batch_starts[0]), int(batch_ends[-1])
    mean_bytes = (end - first) // record_count + 1
    distance = max((end - first) // _LANE_COUNT, _MIN_LANE_RECORDS * mean_bytes)
    if (
        mean_bytes < _SHORT_BYTES
        or bytes(body[first : first + _SAMPLE_BYTES]).count(0) < _MAX_ZEROS
    ):
        search, look_bytes = _AFTER_ANY_LENGTH.search, 2 * mean_bytes
    else:
        search, look_bytes = _AFTER_LONG_LENGTH.search, min(2 * mean_bytes, _MAX_LOOK_BYTES)
    looks = (
        search(body, near, near + look_bytes) for near in range(first + distance, end, distance)
    )
    attributes = np.array([look.end() - 1 for look in looks if look], np.int64)
    places: Integers = attributes - 1 - (octets.take(attributes - 2) > 0x7F)
    owners = np.searchsorted(batch_starts, places, side="right") - 1
    for _ in range(_PROBE_HOPS):  # a wrong guess is likely to run into the chain
        places = places + HOPS.take(pairs_at(octets, places))
    has_attributes = octets.take(places + WIDTHS.take(pairs_at(octets, places)), mode="clip") == 0
    found: Integers = places[(places < batch_ends[owners]) & has_attributes]
    return found


def _follow(
    octets: Octets, starts: Integers, stops: Integers, max_steps: int
) -> Steps[Integers | None]:
    """Return the positions that each lane visits, one row per lane.

    The walk ends when all lanes are at or past their stops. Return None if this takes more than
    ``max_steps``.
    """
    places = np.empty((max_steps, len(starts)), np.int64)
    place = starts
    for step in range(max_steps):
        place = np.add(place, HOPS.take(pairs_at(octets, place)), out=places[step])
        if step % _STEPS_BETWEEN_LOOKS == 0:
            if (place >= stops).all():
                return places[: step + 1].T
            if step % _STEPS_AT_ONCE == 0:
                yield
    return None


# One after the other


def walk_each(
    body: Buffer, counts: Integers, batch_starts: Integers, batch_ends: Integers
) -> Steps[Integers]:
    """Return the ends of all records, by jumping from length to length."""
    found: list[Integers] = []
    ends: list[int] = []  # of the last few records: a million in one list take too long to convert
    append = ends.append
    for index, (count, start, batch_end) in enumerate(
        zip(counts.tolist(), batch_starts.tolist(), batch_ends.tolist(), strict=True)
    ):
        position = start
        if count * MIN_RECORD_BYTES > batch_end - start:
            raise _invalid(index, f"it announces {count} records in {batch_end - start} bytes")
        for done in range(0, count, _RECORDS_AT_ONCE):
            if done:
                yield
            try:
                for _ in range(min(count - done, _RECORDS_AT_ONCE)):
                    first = body[position]
                    if first < 0x80:
                        position += (first >> 1) + 1
                    elif (second := body[position + 1]) < 0x80:
                        position += (first + (second << 7) - 0x80 >> 1) + 2
                    else:
                        position = _jump(body, position, batch_end)
                    append(position)
            except IndexError:
                position = batch_end + 1
            if position > batch_end:
                raise _invalid(index, "it ends before its last record")
            if len(ends) >= _RECORDS_AT_ONCE:
                found.append(np.array(ends, np.int64))
                ends.clear()
        if position != batch_end:
            raise _invalid(
                index, f"its records take {position - start} bytes, it has {batch_end - start}"
            )
    return np.concatenate((*found, np.array(ends, np.int64)))


def _jump(body: Buffer, position: int, batch_end: int) -> int:
    """Return the end of the record at ``position``, whose length takes more than two bytes.

    A negative length counts like a positive one of the same bits (``HOPS``). If the bytes end
    inside the length, the result is past ``batch_end``.
    """
    try:
        size, position = read_varint(body, position)
    except IndexError:
        return batch_end + 1
    return position + (size if size >= 0 else ~size)


def _invalid(index: int, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_RECORD, f"batch {index} of those that were read is malformed: {reason}"
    )
