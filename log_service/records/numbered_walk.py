"""Fast check with numpy of a producer's batch, whose records are numbered from 0.

A record begins where the previous record ends, so its position follows from all earlier lengths.
This module guesses the starts of hundreds of records (lanes) and reads the number of each, its
offset delta. The numbers of two neighbouring guesses tell how many records lie between them. Each
step of numpy moves all unfinished lanes to their next record. Guesses are right if each lane ends
where the next one began. ``walk`` handles records that are not numbered, and several batches at
once.

Invariants: nothing is raised, whatever the bytes. Records are found only if the chain from the
first one leads through all of them to the end. ``are_plain`` accepts only records that
``fields.check_fields`` accepts.
"""

import numpy as np
from numpy.typing import NDArray

from log_service.common.steps import Steps
from log_service.common.types import Buffer
from log_service.records.varint import INT64_VARINT_BYTES
from log_service.records.varint_arrays import (
    ENCODED,
    NUMBERS,
    WIDTHS,
    Integers,
    Octets,
    pairs_at,
)
from log_service.records.walk import FAR_AWAY, HOPS

_SPANS: Integers = np.where(
    (WIDTHS > 0) & (NUMBERS >= -1), WIDTHS + np.maximum(NUMBERS, 0), FAR_AWAY
)
"""Distance from the length of a key or value to the field after it. -1 is null."""

# A step of numpy costs the same for one lane as for a hundred, but more lanes need more guesses.
_MAX_LANE_COUNT = 768
_MIN_LANE_COUNT = 16
_MIN_COUNT = 768  # for fewer, a loop costs less
_LANE_RECORDS = 8
_TRIES = 3
_MAX_MEAN_BYTES = 512  # windows of longer records cost more than a loop
_MAX_SKEW = 6
_STEPS_AT_ONCE = 64

Numbered = tuple[Integers, Integers]


def find_numbered(body: Buffer, octets: Octets, count: int) -> Steps[Numbered | None]:
    """Return the start and end of each record of one batch, in steps of about a millisecond.

    Return None if the batch is malformed, if following it in lanes would not be faster, or if the
    lanes do not meet.
    """
    guessed = _guess(body, octets, count)
    if guessed is None:
        return None
    places, numbers = guessed
    record_counts = np.diff(numbers, append=count)
    longest_first = np.argsort(-record_counts, kind="stable")
    record_counts = record_counts[longest_first]
    step_count = int(record_counts[0])
    most_steps = _MAX_SKEW * (count // _wanted_lane_count(count) + _LANE_RECORDS)
    if record_counts[-1] <= 0 or step_count > most_steps:
        return None
    stops = np.append(places[1:], len(octets))[longest_first]
    places, numbers = places[longest_first], numbers[longest_first]
    lane_counts = np.searchsorted(-record_counts, -np.arange(step_count))
    # The two bytes at each place as one number, the first one lowest.
    pairs = np.ndarray((len(octets) - 1,), "<u2", body, 0, (1,))
    ends = np.empty(count, np.int64)
    try:
        for step, lane_count in enumerate(lane_counts.tolist()):
            place = places[:lane_count]
            place += HOPS.take(pairs[place])
            ends[numbers[:lane_count] + step] = place
            if step % _STEPS_AT_ONCE == _STEPS_AT_ONCE - 1:
                yield
    except IndexError:  # a lane left the batch
        return None
    if (places != stops).any():
        return None
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1]
    return starts, ends


def are_plain(octets: Octets, starts: Integers, ends: Integers, first: int) -> bool:
    """Return whether records numbered from ``first`` on are well-formed and have no headers.

    If the result is false, the records may still be well-formed. ``fields`` then checks them.
    """
    pairs = pairs_at(octets, starts)
    widths: Integers = WIDTHS.take(pairs)
    if np.count_nonzero(pairs & 1) or np.count_nonzero(widths) != len(widths):
        return False  # a negative length, or one of more than two bytes
    offsets = _after_varints(octets, starts + widths + 1)  # after the attributes
    numbers, widths = _read_numbers(octets, offsets)
    if np.count_nonzero(numbers != np.arange(first, first + len(numbers))):
        return False
    keys = offsets + widths
    values = keys + _SPANS.take(pairs_at(octets, keys))
    header_counts = values + _SPANS.take(pairs_at(octets, values))
    return not (
        np.count_nonzero(header_counts + 1 != ends)
        or np.count_nonzero(octets.take(header_counts, mode="clip"))
    )


def _guess(body: Buffer, octets: Octets, count: int) -> Numbered | None:
    """Return the guessed starts of some records and the numbers of these records.

    Both increase from 0. A position is taken for a start if the next record has the next number.
    Return None if too few starts are found.
    """
    mean_bytes = len(octets) // count + 1
    if count < _MIN_COUNT or mean_bytes > _MAX_MEAN_BYTES:
        return None
    distance = len(octets) // _wanted_lane_count(count)
    likely = _likely_attributes(body, len(octets), distance, mean_bytes)
    rows = np.arange(len(likely))
    starts, numbers = np.zeros(len(rows) + 1, np.int64), np.zeros(len(rows) + 1, np.int64)
    for _ in range(_TRIES):
        columns = likely[rows].argmax(axis=1)
        is_likely = likely[rows, columns]
        rows, columns = rows[is_likely], columns[is_likely]
        attributes = (rows + 1) * distance + columns + 2
        places = attributes - 1 - (octets.take(attributes - 2) > 0x7F)
        found, nexts = _numbers_at(octets, places)
        is_start = _numbers_at(octets, nexts)[0] == found + 1
        is_start &= abs(found * mean_bytes - places) < len(octets) // 8  # in about the right place
        chosen = rows[is_start] + 1
        starts[chosen], numbers[chosen] = places[is_start], found[is_start]
        likely[rows, columns] = False
        rows = rows[~is_start]
        if len(rows) <= len(likely) // 32:
            break
    is_rising = np.diff(np.maximum.accumulate(starts), prepend=-1) > 0
    starts, numbers = starts[is_rising], numbers[is_rising]
    return (starts, numbers) if len(starts) >= _MIN_LANE_COUNT else None


def _wanted_lane_count(count: int) -> int:
    return min(_MAX_LANE_COUNT, count // _LANE_RECORDS)


def _likely_attributes(
    body: Buffer, size_bytes: int, distance: int, mean_bytes: int
) -> NDArray[np.bool_]:
    """Return whether the bytes of evenly spaced windows look like a record's attributes.

    Attributes are zero. They follow two bytes of length. Or they follow one byte of length and,
    before it, the header count of the previous record, which is zero, too. Each row is a window,
    ``distance`` bytes after the previous one. The first window begins 2 bytes after ``distance``.
    """
    window_bytes = mean_bytes + mean_bytes // 4 + 8
    row_count = max((size_bytes - window_bytes - 2) // distance, 0)
    first, second, third = (
        np.ndarray((row_count, window_bytes), np.uint8, body, distance + shift, (distance, 1))
        for shift in (0, 1, 2)
    )
    is_long = (first > 0x7F) & (second - np.uint8(1) < 0x7F)
    is_short = (first == 0) & (second - np.uint8(0x0C) < 0x73)
    is_likely: NDArray[np.bool_] = (is_long | is_short) & (third == 0)
    return is_likely


def _numbers_at(octets: Octets, places: Integers) -> Numbered:
    """Return the number of the record at each position, and the position of the next record."""
    pairs = pairs_at(octets, places)
    offsets = _after_varints(octets, places + WIDTHS.take(pairs) + 1)
    numbers, _ = _read_numbers(octets, offsets)
    return numbers, places + HOPS.take(pairs)


def _after_varints(octets: Octets, places: Integers) -> Integers:
    """Return the positions after 64-bit varints, or beyond all bytes for a longer varint.

    ``FAR_AWAY`` is added to the position of such a varint.
    """
    widths: Integers = WIDTHS.take(pairs_at(octets, places))
    if np.count_nonzero(widths) != len(widths):
        rows = np.flatnonzero(widths == 0)
        for width in range(3, INT64_VARINT_BYTES + 1):
            widths[rows] = width
            rows = rows[octets.take(places[rows] + (width - 1), mode="clip") > 0x7F]
            if not len(rows):
                break
        widths[rows] = FAR_AWAY
    return places + widths


def _read_numbers(octets: Octets, places: Integers) -> tuple[Integers, Integers]:
    """Return the varint of at most three bytes at each position, and its width.

    The number is -1 for a longer varint.
    """
    pairs = pairs_at(octets, places)
    numbers: Integers = NUMBERS.take(pairs)
    widths: Integers = WIDTHS.take(pairs)
    if np.count_nonzero(widths) != len(widths):
        is_long = widths == 0
        third = octets.take(places[is_long] + 2, mode="clip").astype(np.int64)
        low = ENCODED.take(pairs[is_long])
        numbers[is_long] = np.where((third > 0x7F) | (low & 1), -1, third << 13 | low >> 1)
        widths[is_long] = 3
    return numbers, widths
