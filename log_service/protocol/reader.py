"""Rare cases of compiled decoders: long varints, unknown tags, and errors with field and size.

Invariants: a varint has at most five bytes (32 bits) or ten (64 bits). Nothing here allocates
memory in proportion to a size that a peer claims.
"""

from functools import lru_cache
from uuid import UUID

from log_service.common.errors import ProtocolError

MAX_STRING_BYTES = 0x7FFF
"""The longest string that the protocol can carry, in every version."""

UUIDS_KEPT = 4096
"""How many decoded uuids are remembered; topic ids come back in every request, and building one
costs a microsecond.
"""

NO_UUID = UUID(int=0)


@lru_cache(maxsize=UUIDS_KEPT)
def uuid_of(encoded: bytes) -> UUID:
    """Return the UUID that 16 bytes encode."""
    return UUID(bytes=encoded)


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Return (value, position after it) of an unsigned varint of at most 32 bits.

    Raises:
        ProtocolError: the varint is longer than five bytes.
        IndexError: the buffer ends inside the varint.
    """
    return read_long_uvarint(buffer, position + 1, buffer[position])


def read_long_uvarint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """Finish reading a varint whose first byte was already read.

    Returns and raises as ``read_uvarint``.
    """
    value = first & 0x7F
    shift = 7
    while first > 0x7F:
        first = buffer[position]
        position += 1
        value |= (first & 0x7F) << shift
        shift += 7
        if shift > 35 or value > 0xFFFFFFFF:
            message = f"the varint before byte {position} is longer than 32 bits"
            raise ProtocolError(message)
    return value, position


def skip_tags(buffer: memoryview, position: int, end: int, count: int, where: str) -> int:
    """Skip ``count`` unknown tagged fields and return the position after them.

    Raises:
        ProtocolError: the tags are not in increasing order, or a field extends past ``end``.
        IndexError: the buffer ends inside a field.
    """
    last = -1
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if tag <= last:
            raise tag_order(where, tag, last)
        if size > end - position:
            raise overrun(f"{where} tag {tag}", size, end - position)
        last = tag
        position += size
    return position


def overrun(where: str, size: int, rest: int) -> ProtocolError:
    """Return the error for a length that the remaining bytes cannot hold."""
    return ProtocolError(f"{where}: a length of {size} with {max(rest, 0)} bytes left")


def string_overrun(where: str, size: int, rest: int) -> ProtocolError:
    """Return the error for a string longer than the remaining bytes or than Kafka allows."""
    if 0 <= size <= rest:
        return ProtocolError(
            f"{where}: a string of {size} bytes; at most {MAX_STRING_BYTES} are allowed"
        )
    return overrun(where, size, rest)


def bad_count(where: str, count: int, rest: int) -> ProtocolError:
    """Return the error for a list longer than the remaining bytes can hold."""
    return ProtocolError(f"{where}: a list of {count} elements with {max(rest, 0)} bytes left")


class TooManyElementsError(ProtocolError):
    """A message has more list elements than its reader accepts at once.

    The message may be well-formed.
    """


def too_many(where: str, count: int) -> ProtocolError:
    """Return the error for a frame with more list elements than one frame may have."""
    return TooManyElementsError(f"{where}: {count} more elements are more than one frame may carry")


def null_value(where: str) -> ProtocolError:
    """Return the error for a null in a field that is not nullable in this version."""
    return ProtocolError(f"{where}: null is not allowed in this version")


def tag_order(where: str, tag: int, last: int) -> ProtocolError:
    """Return the error for tags that are not in increasing order."""
    return ProtocolError(f"{where}: tag {tag} after tag {last}")


def tag_size(where: str, tag: int, size: int) -> ProtocolError:
    """Return the error for a tagged field whose content does not fill its size."""
    return ProtocolError(f"{where}: tag {tag} does not hold the {size} bytes it announces")


def ends_early(where: str, position: int, size: int) -> ProtocolError:
    """Return the error for bytes that stop inside a field."""
    return ProtocolError(f"{where}: the {size} bytes end inside the field at byte {position}")


def not_text(where: str, position: int) -> ProtocolError:
    """Return the error for a string that is not UTF-8."""
    return ProtocolError(f"{where}: the string at byte {position} is not UTF-8")
