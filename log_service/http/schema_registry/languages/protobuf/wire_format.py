"""Reads and writes the binary format of messages, which descriptors use for the values of options.

Source: protobuf.dev, "Encoding".
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
MAX_GROUP_DEPTH = 100
WIRE_TYPES = {
    "double": FIXED64,
    "fixed64": FIXED64,
    "sfixed64": FIXED64,
    "float": FIXED32,
    "fixed32": FIXED32,
    "sfixed32": FIXED32,
    "string": BYTES,
    "bytes": BYTES,
    "message": BYTES,
    "group": GROUP,
}
"""The wire type of a kind of field. All others are varints."""
FIXED = {
    "double": "<d",
    "float": "<f",
    "fixed64": "<Q",
    "fixed32": "<I",
    "sfixed64": "<q",
    "sfixed32": "<i",
}


class WireFormatError(Exception):
    """Bytes are not a valid message or value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawField:
    """A field as it is on the wire. ``payload`` has the bytes after the tag, without a length."""

    number: int
    wire_type: int
    payload: bytes


def varint(value: int) -> bytes:
    """Encode an integer as a varint. A negative integer takes ten bytes."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode the varint at an offset. Return its value and the offset after it.

    Raises:
        WireFormatError: the varint does not end.
    """
    value = 0
    for count in range(10):
        if at + count >= len(data):
            break
        byte = data[at + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & (2**64 - 1), at + count + 1
    raise WireFormatError("a varint does not end")


def tag(number: int, wire_type: int) -> bytes:
    """Return the tag of a field."""
    return varint(number << 3 | wire_type)


def encoded_number(kind: str, value: float) -> bytes:
    """Encode a number, boolean or enum for a field of the Protobuf type ``kind``, without a tag."""
    if kind in FIXED:
        return struct.pack(FIXED[kind], value)
    whole = int(value)
    if kind in {"sint32", "sint64"}:
        return varint(whole << 1 if whole >= 0 else (-whole << 1) - 1)
    return varint(whole)


def decoded_number(kind: str, payload: bytes) -> float:
    """Decode a payload as a number of the Protobuf type ``kind``.

    Raises:
        WireFormatError: the payload is not a number of this type.
    """
    try:
        if kind in FIXED:
            number: float = struct.unpack(FIXED[kind], payload)[0]
            return number
    except struct.error as error:
        raise WireFormatError(f"{len(payload)} bytes are not a {kind}") from error
    value, _ = read_varint(payload, 0)
    if kind in {"sint32", "sint64"}:
        return (value >> 1) ^ -(value & 1)
    if kind in {"int32", "int64", "enum"} and value >= 2**63:
        return value - 2**64
    return value


def raw_fields(data: bytes, depth: int = 0) -> Iterator[RawField]:
    """Yield the fields of a message.

    Raises:
        WireFormatError: the bytes are not a message.
    """
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire_type = key >> 3, key & 7
        end, payload_at, payload_end = payload_of(data, at, number, wire_type, depth)
        yield RawField(number=number, wire_type=wire_type, payload=data[payload_at:payload_end])
        at = end


def payload_of(
    data: bytes, at: int, number: int, wire_type: int, depth: int
) -> tuple[int, int, int]:
    """Return three offsets: the end of a field, and the start and the end of its payload."""
    if wire_type == VARINT:
        _, end = read_varint(data, at)
        return end, at, end
    if wire_type == BYTES:
        length, start = read_varint(data, at)
        end = start + length
        return within(data, end), start, end
    if wire_type == GROUP:
        return end_of_group(data, at, number, depth + 1)
    if wire_type in {FIXED32, FIXED64}:
        end = within(data, at + (4 if wire_type == FIXED32 else 8))
        return end, at, end
    raise WireFormatError(f"{wire_type} is not a wire type of a field")


def within(data: bytes, end: int) -> int:
    """Return an offset if it is inside the data.

    Raises:
        WireFormatError: it is not.
    """
    if end > len(data):
        raise WireFormatError("a field is longer than its message")
    return end


def end_of_group(data: bytes, at: int, number: int, depth: int) -> tuple[int, int, int]:
    """Return three offsets: the end of a group, and the start and the end of its payload."""
    if depth > MAX_GROUP_DEPTH:
        raise WireFormatError("groups are nested too deep")
    start = at
    while at < len(data):
        tag_at = at
        key, at = read_varint(data, at)
        if key & 7 == END_GROUP:
            if key >> 3 != number:
                break
            return at, start, tag_at
        at, _, _ = payload_of(data, at, key >> 3, key & 7, depth)
    raise WireFormatError("a group does not end")


def packed_payloads(kind: str, payload: bytes) -> list[bytes]:
    """Return the payloads of the values in a packed field."""
    size = struct.calcsize(FIXED[kind]) if kind in FIXED else 0
    if size:
        return [payload[at : at + size] for at in range(0, len(payload), size)]
    found, at = [], 0
    while at < len(payload):
        _, end = read_varint(payload, at)
        found.append(payload[at:end])
        at = end
    return found
