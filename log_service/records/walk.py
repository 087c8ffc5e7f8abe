"""Where each record of many batches ends, though a record's place is known only from all lengths before it.

Decides how that chain is followed without a step of Python for each record: it is begun at hundreds of places at once (lanes), at the
batches' starts, which are known, and at places between that look like a record's start, and every step of numpy takes all lanes one record
further. A lane ends where the next one began; if it steps over that place, the place was no start of a record and is given up.

Invariants: an end is only returned if the chain from the first record leads there; the ends agree with the batches' sizes and counts of
records. Where anything does not fit, or lanes do not pay (few records, long ones), the chain is followed step by step, which names what is
wrong.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer
from log_service.records.batch import BatchHeader
from log_service.records.record import MIN_RECORD_BYTES
from log_service.records.varint import read_varint
from log_service.records.varint_arrays import NUMBERS, WIDTHS, Integers, Octets, pairs_at

_HOPS: Integers = np.where(WIDTHS > 0, WIDTHS + (NUMBERS ^ (NUMBERS >> 63)), 0)
"""How far the next record is from one whose length is spelled by two bytes; 0: they do not hold all of the length."""

_LANE_COUNT = 768  # a step of numpy costs as much for one lane as for hundreds; more lanes cost searches for their starts
_MIN_LANE_RECORDS = 16
_MIN_RECORD_COUNT = 512
_MAX_MEAN_BYTES = 4096  # lengths of longer records take three bytes
_PROBE_HOPS = 4
_STEPS_BETWEEN_LOOKS = 8
_MAX_SKEW = 4
_TRIES = 3

_LOOKS_LIKE_ATTRIBUTES = re.compile(rb"\x00(?:(?<=[\x80-\xff][\x01-\x7f]\x00)|(?<=\x00[\x0c-\x7e]\x00))")
"""A zero after a length: one of two bytes, or one of one byte after a record without headers. Searching for the zero first is fast."""


class OpenBatch(NamedTuple):
    """A batch's header and its records, decompressed."""

    header: BatchHeader
    plain: Buffer


def find_ends(body: bytes, octets: Octets, batches: Sequence[OpenBatch]) -> Integers:
    """Return where each record of ``batches`` ends in ``body``, which holds their records end to end and some bytes of padding.

    Raises:
        KafkaError: INVALID_RECORD, the lengths of a batch's records do not add up to the batch.
    """
    record_count = sum(header.record_count for header, _ in batches)
    batch_ends = np.cumsum([len(plain) for _, plain in batches], dtype=np.int64)
    if record_count >= _MIN_RECORD_COUNT and MIN_RECORD_BYTES <= batch_ends[-1] / record_count <= _MAX_MEAN_BYTES:
        ends = _walk_lanes(body, octets, batch_ends, record_count)
        if ends is not None and _is_agreed(ends, batches, batch_ends):
            return ends
    return _walk_each(body, batches)


def _is_agreed(ends: Integers, batches: Sequence[OpenBatch], batch_ends: Integers) -> bool:
    """Whether every batch ends with a record, and after as many records as it announces."""
    counts = np.cumsum([header.record_count for header, _ in batches])
    if counts[-1] != len(ends):
        return False
    with_zero = np.concatenate((np.zeros(1, np.int64), ends))
    return bool((with_zero[counts] == batch_ends).all())


# All lanes at once


def _walk_lanes(body: bytes, octets: Octets, batch_ends: Integers, record_count: int) -> Integers | None:
    """Return the ends of the chain that begins at 0, None where lanes cannot tell them."""
    end = int(batch_ends[-1])
    guesses = _guess_starts(body, octets, end, record_count)
    starts = np.unique(np.concatenate((np.zeros(1, np.int64), batch_ends[:-1], guesses)))
    starts = starts[starts < end]
    for _ in range(_TRIES):
        stops = np.append(starts[1:], end)
        reached = _follow(octets, starts, stops, _MAX_SKEW * (record_count // len(starts) + _STEPS_BETWEEN_LOOKS))
        if reached is None:
            return None
        is_missed = ~(reached == stops[:, None]).any(axis=1)
        if not is_missed.any():
            return reached[reached <= stops[:, None]]
        starts = np.delete(starts, np.nonzero(is_missed[:-1])[0] + 1)
    return None


def _guess_starts(body: bytes, octets: Octets, end: int, record_count: int) -> Integers:
    """Return places at even distances where records may start."""
    mean_bytes = end // record_count + 1
    distance = max(end // _LANE_COUNT, _MIN_LANE_RECORDS * mean_bytes)
    looks = (_LOOKS_LIKE_ATTRIBUTES.search(body, near, near + 2 * mean_bytes) for near in range(distance, end, distance))
    attributes = np.array([look.start() for look in looks if look], np.int64)
    starts = attributes - 1 - (octets.take(attributes - 2) > 0x7F)
    for _ in range(_PROBE_HOPS):  # a wrong guess is likely to run into the chain
        starts = np.minimum(starts + _HOPS.take(pairs_at(octets, starts)), end)
    return starts


def _follow(octets: Octets, starts: Integers, stops: Integers, max_steps: int) -> Integers | None:
    """Return the places that each lane comes to, one row a lane, until all are at or past their stops; None if that takes too long."""
    beyond = int(stops[-1]) + 1
    places = np.empty((max_steps, len(starts)), np.int64)
    place = starts
    for step in range(max_steps):
        hops = _HOPS.take(pairs_at(octets, place))
        if not hops.all():
            return None
        place = np.minimum(place + hops, beyond, out=places[step])
        if step % _STEPS_BETWEEN_LOOKS == 0 and (place >= stops).all():
            return places[: step + 1].T
    return None


# One after the other


def _walk_each(body: bytes, batches: Sequence[OpenBatch]) -> Integers:
    """Return the same, jumping from length to length."""
    ends: list[int] = []
    append = ends.append
    position = batch_end = 0
    for header, plain in batches:
        batch_end += len(plain)
        if header.record_count * MIN_RECORD_BYTES > len(plain):
            raise _invalid(f"a batch announces {header.record_count} records in {len(plain)} bytes")
        for _ in range(header.record_count):
            first = body[position]
            if first < 0x80:
                position += (first >> 1) + 1
            else:
                second = body[position + 1]
                if second < 0x80:
                    position += (first >> 1) + (second << 6) - 62
                else:
                    size, position = read_varint(body, position)
                    position += max(size, 0)
            if position > batch_end:
                raise _invalid(f"a record of the batch at offset {header.base_offset} reaches past its end")
            append(position)
        if position != batch_end:
            raise _invalid(f"{batch_end - position} bytes are left after the records of the batch at offset {header.base_offset}")
    return np.array(ends, np.int64)


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"a batch is malformed: {reason}")
