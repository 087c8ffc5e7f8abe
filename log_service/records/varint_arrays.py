"""Varints at many positions of one buffer at once, with numpy.

The two bytes at each position are one index into tables of every varint of at most two bytes. That
covers nearly all varints. Longer ones are read group by group of seven bits, for all positions that
have them. The module knows nothing of records. It is imported only if numpy is installed.

Invariants: numbers and widths equal those of ``varint.read_varint``. Positions past the end read
the buffer's last byte, and the caller must refuse varints that ended there.
"""

import numpy as np
from numpy.typing import NDArray

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.varint import INT32_VARINT_BYTES

Octets = NDArray[np.uint8]
Integers = NDArray[np.int64]

_PAIRS = np.arange(1 << 16, dtype=np.int64)
_FIRST, _SECOND = _PAIRS & 0xFF, _PAIRS >> 8
ENCODED: Integers = np.where(_FIRST < 0x80, _FIRST, (_FIRST & 0x7F) | (_SECOND & 0x7F) << 7)
"""The bits that the varint at the front of two bytes holds in them, before zig-zag."""
NUMBERS: Integers = ENCODED >> 1 ^ -(ENCODED & 1)
"""The number at the front of two bytes, the first one lowest, if ``WIDTHS`` is not 0."""
WIDTHS: Integers = np.where(_FIRST < 0x80, 1, np.where(_SECOND < 0x80, 2, 0))
"""Width of the varint at the front of two bytes; 0 means more than two."""


def pairs_at(octets: Octets, positions: Integers) -> NDArray[np.uint16]:
    """Return the two bytes at each position as a little-endian number."""
    both = np.empty((len(positions), 2), np.uint8)
    both[:, 0] = octets.take(positions, mode="clip")
    both[:, 1] = octets[1:].take(positions, mode="clip")
    return both.view("<u2")[:, 0]


def read_varints(octets: Octets, positions: Integers, max_bytes: int) -> tuple[Integers, Integers]:
    """Return the zig-zag varints at ``positions``, and the positions after them.

    Raises:
        KafkaError: INVALID_RECORD, one is longer than ``max_bytes``.
    """
    pairs = pairs_at(octets, positions)
    numbers: Integers = NUMBERS.take(pairs)
    widths: Integers = WIDTHS.take(pairs)
    if np.count_nonzero(widths) != len(widths):  # takes a third of the time of ``all``
        is_long = widths == 0
        numbers[is_long], widths[is_long] = _read_long(octets, positions[is_long], max_bytes)
    return numbers, positions + widths


def _read_long(octets: Octets, positions: Integers, max_bytes: int) -> tuple[Integers, Integers]:
    """Return numbers and widths of varints of any length."""
    encoded = np.zeros(len(positions), np.uint64)
    widths = np.zeros(len(positions), np.int64)
    unfinished = np.arange(len(positions))
    for index in range(max_bytes):
        octet = octets.take(positions[unfinished] + index, mode="clip")
        encoded[unfinished] |= (octet & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        widths[unfinished] += 1
        unfinished = unfinished[octet > 0x7F]
        if not unfinished.size:
            break
    else:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a batch is malformed: a varint is longer than {max_bytes} bytes",
        )
    if max_bytes == INT32_VARINT_BYTES:
        encoded &= np.uint64(0xFFFF_FFFF)
    return (encoded >> np.uint64(1)).view(np.int64) ^ -(encoded & np.uint64(1)).view(
        np.int64
    ), widths
