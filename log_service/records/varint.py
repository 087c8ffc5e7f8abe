"""Zig-zag varints, which encode every number of a record except the attributes byte.

Small numbers are looked up, so that encoding a record takes one join and no loop. Longer ones are
read and written here.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer

INT32_VARINT_BYTES = 5
INT64_VARINT_BYTES = 10
_INT32_MASK = (1 << 32) - 1
_INT64_MASK = (1 << 64) - 1
_KNOWN = range(-64, 2048)
_KEPT_ONCE_ASKED_FOR = 16_384


def encode_varint(number: int) -> bytes:
    """Return a signed number of at most 64 bits as a zig-zag varint."""
    encoded = ((number << 1) ^ (number >> 63)) & _INT64_MASK
    if encoded < 1 << 7:
        return bytes((encoded,))
    if encoded < 1 << 14:
        return bytes((encoded & 0x7F | 0x80, encoded >> 7))
    if encoded < 1 << 21:
        return bytes((encoded & 0x7F | 0x80, encoded >> 7 & 0x7F | 0x80, encoded >> 14))
    groups = bytearray()
    while encoded > 0x7F:
        groups.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    groups.append(encoded)
    return bytes(groups)


class Varints(dict[int, bytes]):
    """The varint of each number. Those of small numbers are stored in advance.

    Other varints are encoded on demand. Offsets in large batches are stored after their first use.
    """

    __slots__ = ()

    def __missing__(self, number: int) -> bytes:
        encoded = encode_varint(number)
        if 0 <= number < _KEPT_ONCE_ASKED_FOR:
            self[number] = encoded
        return encoded


VARINTS = Varints({number: encode_varint(number) for number in _KNOWN})


def read_varint(
    plain: Buffer, position: int, max_bytes: int = INT32_VARINT_BYTES
) -> tuple[int, int]:
    """Return the zig-zag varint at ``position``, and the position after it.

    Raises:
        IndexError: the bytes end inside it.
        KafkaError: INVALID_RECORD, it is longer than ``max_bytes``.
    """
    encoded, position = plain[position], position + 1
    if encoded > 0x7F:
        encoded, position = encoded + (plain[position] << 7) - 0x80, position + 1
        if encoded > 0x3FFF:
            encoded, position = continue_varint(plain, position, encoded, max_bytes)
    return encoded >> 1 ^ -(encoded & 1), position


def is_null(plain: Buffer, position: int) -> bool:
    """Return whether the length at ``position`` is that of a null.

    Clients may encode -1 in more bytes than it needs, so the first byte alone does not show it.
    Raises as ``read_varint``.
    """
    return read_varint(plain, position)[0] == -1


def continue_varint(
    plain: Buffer, position: int, encoded: int, max_bytes: int = INT32_VARINT_BYTES
) -> tuple[int, int]:
    """Continue after a varint's first two bytes.

    Return its zig-zag encoding and the position after.

    ``encoded`` holds the bits of the two bytes and, above them, the second byte's continuation bit.

    Raises:
        IndexError: the bytes end inside the varint.
        KafkaError: INVALID_RECORD, the varint is longer than ``max_bytes``.
    """
    encoded &= 0x3FFF
    for shift in range(14, 7 * max_bytes, 7):
        byte = plain[position]
        position += 1
        encoded |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (
                encoded & (_INT32_MASK if max_bytes == INT32_VARINT_BYTES else _INT64_MASK),
                position,
            )
    text = f"the varint before byte {position} of the records is longer than {max_bytes} bytes"
    raise KafkaError(ErrorCode.INVALID_RECORD, text)
