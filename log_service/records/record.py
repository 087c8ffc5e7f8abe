"""One record, with its format, its encoding and its reading.

A well-formed record (KIP-98) has length, attributes, timestamp delta, offset delta, key, value and
headers. Every number is a zig-zag varint except the attributes byte. The module knows nothing of
batch headers and compression. It gets plain bytes and the numbers that the deltas are relative to.

Invariants: whatever the bytes, reading ends, allocates no more than the bytes hold, and raises only
``KafkaError`` INVALID_RECORD.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import Steps
from log_service.common.types import Buffer
from log_service.records.varint import (
    INT32_VARINT_BYTES,
    INT64_VARINT_BYTES,
    VARINTS,
    continue_varint,
    read_varint,
)

MIN_RECORD_BYTES = 7
"""The smallest record, whose fields take one byte each. It has no key, value or headers."""

ITEMS_PER_STEP = 2_048
"""Records or headers per step, if they are checked one by one."""

MAX_RECORD_OVERHEAD_BYTES = 1 + INT64_VARINT_BYTES + 5 * INT32_VARINT_BYTES
"""Maximum size of a record's fixed fields and lengths.

They are the attributes, both deltas, and the lengths of record, key, value and headers.
"""

RecordHeader = tuple[str, bytes | None]

_NULL = VARINTS[-1]
_NULL_BYTE = _NULL[0]
_NO_HEADERS: tuple[RecordHeader, ...] = ()
_new = tuple.__new__


class Record(NamedTuple):
    """A record as readers see it, with absolute offset and timestamp in ms (-1 for none)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = _NO_HEADERS


class NewRecord(NamedTuple):
    """A record without an offset.

    ``headers`` are (name, bytes or None) in order; names may repeat.
    """

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = _NO_HEADERS


# Writing


def encode_headers(headers: Sequence[RecordHeader]) -> bytes:
    """Return a record's headers as bytes that begin with their count."""
    parts = [VARINTS[len(headers)]]
    for name, value in headers:
        encoded = name.encode()
        parts += (VARINTS[len(encoded)], encoded)
        parts += (_NULL,) if value is None else (VARINTS[len(value)], value)
    return b"".join(parts)


def max_record_bytes(
    key: Buffer | None, value: Buffer | None, headers: Sequence[RecordHeader] = ()
) -> int:
    """Return a bound on the size of a record in a batch, for any offset and timestamp."""
    size_bytes = MAX_RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    return size_bytes + max_headers_bytes(headers)


def max_headers_bytes(headers: Sequence[RecordHeader]) -> int:
    """Return a bound on the size that headers add to a record."""
    size_bytes = 2 * INT32_VARINT_BYTES * len(headers)
    for name, value in headers:
        size_bytes += len(name.encode()) + (len(value) if value else 0)
    return size_bytes


# Reading


def read_records(  # noqa: PLR0912, PLR0915 - every client pays for this loop once a record: varints of one byte are read in place
    plain: bytes,
    record_count: int,
    *,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None = None,
) -> Iterator[Record]:
    """Yield the records of ``plain``. ``append_timestamp`` replaces their own (LogAppendTime).

    Raises:
        KafkaError: INVALID_RECORD, a record is malformed, or bytes follow the last record.
    """
    position = index = 0
    timestamp = base_timestamp if append_timestamp is None else append_timestamp
    try:
        for index in range(record_count):
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            end = position + (number >> 1 ^ -(number & 1))
            number, position = plain[position + 1], position + 2  # attributes have no meaning
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number, INT64_VARINT_BYTES)
            if append_timestamp is None:
                timestamp = base_timestamp + (number >> 1 ^ -(number & 1))
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            offset = base_offset + (number >> 1 ^ -(number & 1))
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            key = value = None
            if number != 1:  # the varint of -1
                if number & 1:
                    raise malformed(index, "the length of its key is negative")
                start, position = position, position + (number >> 1)
                key = plain[start:position]
            number, position = plain[position], position + 1
            if number > 0x7F:
                number, position = number + (plain[position] << 7) - 0x80, position + 1
                if number > 0x3FFF:
                    number, position = continue_varint(plain, position, number)
            if number != 1:
                if number & 1:
                    raise malformed(index, "the length of its value is negative")
                start, position = position, position + (number >> 1)
                value = plain[start:position]
            headers = _NO_HEADERS
            if plain[position]:
                headers, position = read_headers(plain, position, end, index)
            else:
                position += 1
            if position != end:
                raise overlong(index, position - end)
            yield _new(Record, (offset, timestamp, key, value, headers))
    except IndexError:
        raise malformed(index, "the batch ends inside it") from None
    if position != len(plain):
        raise left_over(len(plain) - position, record_count)


def overlong(index: int, excess_bytes: int) -> KafkaError:
    """Return the error for a record whose fields do not end where its length says."""
    return malformed(index, f"its fields take {excess_bytes} bytes more than its length says")


def left_over(size_bytes: int, record_count: int) -> KafkaError:
    """Return the error for a batch with bytes after its last record."""
    text = f"{size_bytes} bytes are left after the {record_count} records that the batch announces"
    return KafkaError(ErrorCode.INVALID_RECORD, text)


def read_headers(
    plain: bytes, position: int, end: int, index: int
) -> tuple[tuple[RecordHeader, ...], int]:
    """Return the headers of record ``index``, and the position after them.

    Their count is at ``position``, and the record ends at ``end``.

    Raises:
        IndexError: the bytes end inside the headers.
        KafkaError: INVALID_RECORD, the headers do not fit into the record.
    """
    count, position = read_varint(plain, position)
    if not 0 <= count <= max(end - position, 0) // 2:
        raise malformed(index, f"it announces {count} headers")
    headers: list[RecordHeader] = []
    for _ in range(count):
        size, position = read_varint(plain, position)
        if not 0 <= size <= end - position:
            raise malformed(index, "the length of a header's name does not fit")
        name = plain[position : position + size].decode("utf-8", "replace")
        position += size
        size, position = read_varint(plain, position)
        if not -1 <= size <= end - position:
            raise malformed(index, "the length of a header's value does not fit")
        headers.append((name, None if size < 0 else plain[position : position + size]))
        position += max(size, 0)
    return tuple(headers), position


def skip_headers(plain: Buffer, position: int, end: int, index: int, count: int) -> int:
    """Return the end of ``count`` headers that begin at ``position`` in record ``index``.

    The record ends at ``end``.

    Raises:
        IndexError: the bytes end inside the headers.
        KafkaError: INVALID_RECORD, the headers do not fit into the record.
    """
    for _ in range(count):
        size, position = read_varint(plain, position)
        if not 0 <= size <= end - position:
            raise malformed(index, "the length of a header's name does not fit")
        size, position = read_varint(plain, position + size)
        if not -1 <= size <= end - position:
            raise malformed(index, "the length of a header's value does not fit")
        position += max(size, 0)
    return position


def skip_in_steps(plain: Buffer, position: int, end: int, index: int, count: int) -> Steps[None]:
    """Check that the last ``count`` headers of record ``index`` fill ``position`` to ``end``.

    The check runs in steps.

    Raises:
        KafkaError: INVALID_RECORD.
    """
    try:
        while count:
            some = min(count, ITEMS_PER_STEP)
            position = skip_headers(plain, position, end, index, some)
            count -= some
            if count:
                yield
    except IndexError:
        raise malformed(index, "the batch ends inside it") from None
    if position != end:
        raise malformed(index, f"its fields take {position - end} bytes more than its length says")


def check_only_record(
    buffer: Buffer, position: int, take_items_alone: Callable[[int], None]
) -> None:
    """Check the record between ``position`` and the end of ``buffer``, in place.

    The value may have any size. The record must be well-formed, end at its length and at the end of
    the buffer, and have offset delta 0. ``take_items_alone`` gets the number of headers to check,
    and may raise.

    Raises:
        KafkaError: INVALID_RECORD.
    """
    try:
        size, position = buffer[position], position + 1
        if size > 0x7F:
            size, position = size + (buffer[position] << 7) - 0x80, position + 1
            if size > 0x3FFF:
                size, position = continue_varint(buffer, position, size)
        size = size >> 1 ^ -(size & 1)
        end = len(buffer)
        if position + size != end or size < MIN_RECORD_BYTES - 1:
            raise malformed(0, f"it announces {size} bytes where {end - position} are left")
        position += 1  # attributes
        if buffer[position] == 0 == buffer[position + 1]:  # both deltas, in nearly every batch
            position += 2
        else:
            _, position = read_varint(buffer, position, INT64_VARINT_BYTES)
            offset_delta, position = read_varint(buffer, position)
            if offset_delta:
                raise malformed(0, "its offset is not the base offset of the batch")
        position = (
            position + 1
            if buffer[position] == _NULL_BYTE
            else _skip_bytes(buffer, position, least=-1)
        )
        position = _skip_bytes(buffer, position, least=-1)
        if buffer[position] == 0 and position + 1 == end:
            return  # no headers
        count, position = read_varint(buffer, position)
        if not 0 <= count <= max(end - position, 0) // 2:
            raise malformed(0, f"it announces {count} headers")
        take_items_alone(count)
        position = skip_headers(buffer, position, end, 0, count)
    except IndexError:
        raise malformed(0, "the batch ends inside it") from None
    if position != end:
        raise malformed(0, f"its fields take {position - end} bytes more than its length says")


def _skip_bytes(buffer: Buffer, position: int, *, least: int) -> int:
    """Skip bytes that follow their length, and return the position after them.

    A length below ``least`` is malformed; -1 is null. The length is read as ``read_varint`` does,
    without a call, because each appended batch comes here and a call costs one in a hundred
    instructions.

    Raises:
        KafkaError: INVALID_RECORD, the length is below ``least``.
    """
    size, position = buffer[position], position + 1
    if size > 0x7F:
        size, position = size + (buffer[position] << 7) - 0x80, position + 1
        if size > 0x3FFF:
            size, position = continue_varint(buffer, position, size)
    size = size >> 1 ^ -(size & 1)
    if size < least:
        raise malformed(0, f"a length in it is {size}")
    return position + size if size > 0 else position


def malformed(index: int, reason: str) -> KafkaError:
    """Return the error for record ``index`` of a batch."""
    return KafkaError(
        ErrorCode.INVALID_RECORD, f"record {index} of the batch is malformed: {reason}"
    )
