"""Outline of a batch's records for compaction, with keys, offsets, tombstones and ends.

One pass over the bytes finds it, and reads no timestamp, value or header. The module does not
decide which records compaction keeps.

Invariants: whatever the bytes, the pass ends, allocates no more than the bytes hold, and raises
only ``KafkaError`` INVALID_RECORD. Offsets increase strictly within the header's range, so that a
batch cannot claim offsets that are not its own.
"""

from operator import lt
from typing import NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import BatchHeader
from log_service.records.record import malformed
from log_service.records.varint import continue_varint, is_null

_NULL = 1  # the varint of -1


class Outline(NamedTuple):
    """The key (or None), absolute offset and end of each record, and the indexes of tombstones."""

    keys: list[bytes | None]
    offsets: list[int]
    ends: list[int]
    tombstones: list[int]


def outline_records(header: BatchHeader, plain: bytes) -> Outline:  # noqa: PLR0912 - compaction pays for this loop once a record
    """Return the outline of the records that fill ``plain``.

    Raises:
        KafkaError: INVALID_RECORD.
    """
    keys: list[bytes | None] = []
    offsets: list[int] = []
    ends: list[int] = []
    tombstones: list[int] = []
    base_offset, position, index = header.base_offset, 0, 0
    try:
        for index in range(header.record_count):
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            end = position + (number >> 1 ^ -(number & 1))
            position += 1  # attributes
            while plain[position] > 0x7F:  # the timestamp
                position += 1
            number, position = plain[position + 1], position + 2
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            offsets.append(base_offset + (number >> 1 ^ -(number & 1)))
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            if number == _NULL:
                keys.append(None)
            elif number & 1:
                raise malformed(index, "the length of its key is negative")
            else:
                start, position = position, position + (number >> 1)
                keys.append(plain[start:position])
            if plain[position] & 0x7F == _NULL and is_null(plain, position):
                tombstones.append(index)
            if position >= end:
                raise malformed(
                    index, f"its key takes {position - end + 1} bytes more than its length leaves"
                )
            ends.append(end)
            position = end
    except IndexError:
        raise malformed(index, "the batch ends inside it") from None
    if position != len(plain):
        text = (
            f"{len(plain) - position} bytes are left after the {header.record_count} records that"
            " the batch announces"
        )
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    if offsets and not (
        base_offset <= offsets[0]
        and offsets[-1] <= header.last_offset
        and all(map(lt, offsets, offsets[1:]))
    ):
        text = f"the offsets of the records do not rise from {base_offset} to {header.last_offset}"
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    return Outline(keys, offsets, ends, tombstones)
