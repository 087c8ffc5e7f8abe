"""Checks that readers can read the records of a producer's batch, before a leader appends it.

Decides what is wrong with records: their count, lengths and offset deltas, and the framing of compressed ones. Apache Kafka's broker asks
for the same (``LogValidator``), but for offset deltas of uncompressed records, which may repeat there.

Many records are checked at once where numpy is installed, few of them one by one. Both ways refuse the same bytes.
Invariant: one call takes a few milliseconds. A batch of more than ``MAX_CHECKED_ITEMS`` records and headers, or of more than
``MAX_CHECKED_BYTES``, is not looked at.
"""

from functools import cache
from types import ModuleType

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer
from log_service.records.batch import BatchHeader, OpenBatch
from log_service.records.record import MIN_RECORD_BYTES, malformed
from log_service.records.varint import INT64_VARINT_BYTES, continue_varint, read_varint

MAX_CHECKED_ITEMS = 65_536
MAX_CHECKED_BYTES = 4 << 20
MIN_COUNT_AT_ONCE = 192
"""Steps of numpy cost more than a loop over fewer records."""
MAX_NAMED_COUNT = 4_096
"""Among more records the malformed one is not searched for, because that takes a loop."""


@cache
def checks_at_once() -> ModuleType | None:
    """Return what checks many records at once, None without numpy. The first call imports numpy."""
    try:
        from log_service.records import fields  # noqa: PLC0415 - a broker does without numpy, more slowly
    except ImportError:
        return None
    return fields


def check_records(header: BatchHeader, plain: Buffer) -> None:
    """Check the records of a batch, whose header was checked; ``plain`` holds all of them, decompressed.

    Raises:
        KafkaError: INVALID_RECORD, names the record and what is wrong.
    """
    count = header.record_count
    if count * MIN_RECORD_BYTES > len(plain):
        text = f"the batch announces {count} records in {len(plain)} bytes"
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    if count > MAX_CHECKED_ITEMS or len(plain) > MAX_CHECKED_BYTES:
        return
    fields = checks_at_once() if count >= MIN_COUNT_AT_ONCE else None
    if fields is None:
        _check_each(plain, count)
        return
    try:
        fields.check_fields(OpenBatch(header, plain, 0, len(plain)), MAX_CHECKED_ITEMS)
    except KafkaError:
        if count <= MAX_NAMED_COUNT:
            _check_each(plain, count)
        raise


def _check_each(plain: Buffer, count: int) -> None:  # noqa: PLR0912 - each batch of a client comes here: short varints are read in place
    """Check records one by one. Reads varints as ``record.read_records`` does, and makes no objects of what it reads."""
    position = index = 0
    items_left = MAX_CHECKED_ITEMS
    try:
        for index in range(count):
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            end = position + (number >> 1 ^ -(number & 1))
            position += 1  # attributes, of which no bit has a meaning
            if plain[position] < 0x80:
                position += 1
            else:
                _, position = read_varint(plain, position, INT64_VARINT_BYTES)
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            if number != index << 1:
                raise malformed(index, f"it has offset delta {number >> 1 ^ -(number & 1)} where {index} is due")
            for _ in (0, 1):  # key and value
                number, position = plain[position], position + 1
                if number > 0x7F:
                    number, position = number + (plain[position] << 7) - 0x80, position + 1
                    if number > 0x3FFF:
                        number, position = continue_varint(plain, position, number)
                if not number & 1:
                    position += number >> 1
                elif number != 1:  # the varint of -1
                    raise malformed(index, "the length of its key or value is negative")
            if plain[position]:
                position, header_count = _check_headers(plain, position, end, index, items_left)
                items_left -= header_count
            else:
                position += 1
            if position != end:
                raise malformed(index, f"its fields take {position - end} bytes more than its length says")
    except IndexError:
        raise malformed(index, "the batch ends inside it") from None
    if position != len(plain):
        text = f"{len(plain) - position} bytes are left after the {count} records that the batch announces"
        raise KafkaError(ErrorCode.INVALID_RECORD, text)


def _check_headers(plain: Buffer, position: int, end: int, index: int, most: int) -> tuple[int, int]:
    """Check the headers of a record, and return where they end and how many there are. More than ``most`` are not looked at."""
    count, position = read_varint(plain, position)
    if not 0 <= count <= max(end - position, 0) // 2:
        raise malformed(index, f"it announces {count} headers")
    if count > most:
        return end, 0
    for _ in range(count):
        size, position = read_varint(plain, position)
        if not 0 <= size <= end - position:
            raise malformed(index, "the length of a header's name does not fit")
        position += size
        size, position = read_varint(plain, position)
        if not -1 <= size <= end - position:
            raise malformed(index, "the length of a header's value does not fit")
        position += max(size, 0)
    return position, count
