"""The bytes that name the schema of a key or a value: Confluent's prefix, and its newer header.

The prefix is byte 0 and the id in four bytes, before the payload. The header is byte 1 and the guid
in 16 bytes, and the payload has no prefix. Protobuf appends the position of the message type in its
file to either: the count of indexes, then each index, as zigzag varints. The first message of a
file, ``(0,)``, is the single byte 0.

Readers look for the header first, then for the prefix. Of several headers the last one counts, as
in Java.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from log_service.client.schemas.errors import SerializationError
from log_service.records.record import RecordHeader
from log_service.records.schema_names import GUID_END, MAGIC_GUID, MAGIC_ID, PREFIX, header_name

__all__ = [
    "MAGIC_GUID",
    "MAGIC_ID",
    "MAX_INDEXES",
    "MAX_VARINT_BYTES",
    "PREFIX",
    "Indexes",
    "SchemaIdentity",
    "header_name",
    "header_value_of",
    "prefix_of",
    "read_identity",
]

MAX_INDEXES: Final = 1_000
"""The deepest nesting of messages that is read."""
MAX_VARINT_BYTES: Final = 5

Indexes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIdentity:
    """The schema that some bytes name by id or by guid.

    With Protobuf, ``indexes`` are the position of the message type in the schema's file.
    """

    id: int | None = None
    guid: str | None = None
    indexes: Indexes = ()

    def __str__(self) -> str:
        return f"schema id {self.id}" if self.guid is None else f"schema guid {self.guid}"


def prefix_of(schema_id: int, indexes: Indexes = ()) -> bytes:
    """Return the bytes before a payload. ``indexes`` are needed for Protobuf only."""
    return PREFIX.pack(MAGIC_ID, schema_id) + _indexes_bytes(indexes)


def header_value_of(guid: str, indexes: Indexes = ()) -> bytes:
    """Return the value of the header that names a schema by its guid."""
    return bytes((MAGIC_GUID,)) + UUID(guid).bytes + _indexes_bytes(indexes)


def read_identity(
    data: bytes, headers: Sequence[RecordHeader], *, is_key: bool, has_indexes: bool
) -> tuple[SchemaIdentity, bytes]:
    """Return the schema that ``headers`` or the prefix of ``data`` name, and the payload.

    Raises:
        SerializationError: neither a header nor a prefix names a schema, or ``data`` is not bytes.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SerializationError(
            f"bytes are needed, not {type(data).__name__}: pass a record's value or key as the"
            " consumer returns it"
        )
    name = header_name(is_key=is_key)
    value = next(
        (content for key, content in reversed(headers) if key == name and content is not None), None
    )
    if value is None:
        identity, end = _read(data, has_indexes=has_indexes)
        return identity, data[end:]
    return _read(value, has_indexes=has_indexes)[0], data


def _read(named: bytes, *, has_indexes: bool) -> tuple[SchemaIdentity, int]:
    """Return the schema that a prefix or a header names, and the end of the prefix or header."""
    magic = named[0] if named else None
    if magic == MAGIC_ID and len(named) >= PREFIX.size:
        indexes, end = _read_indexes(named, PREFIX.size) if has_indexes else ((), PREFIX.size)
        return SchemaIdentity(id=PREFIX.unpack_from(named)[1], indexes=indexes), end
    if magic == MAGIC_GUID and len(named) >= GUID_END:
        indexes, end = _read_indexes(named, GUID_END) if has_indexes else ((), GUID_END)
        return SchemaIdentity(guid=str(UUID(bytes=named[1:GUID_END])), indexes=indexes), end
    shown = named[: PREFIX.size].hex(" ") or "nothing"
    text = (
        f"the bytes name no schema: they begin with {shown}, and not with 00 and the id of a schema"
    )
    raise SerializationError(f"{text}; they were not written by a serializer of a schema registry")


def _indexes_bytes(indexes: Indexes) -> bytes:
    if indexes in {(), (0,)}:
        return b"\x00" if indexes else b""
    return b"".join(_varint(each) for each in (len(indexes), *indexes))


def _varint(number: int) -> bytes:
    """Return a number that is not negative as a zigzag varint."""
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:
        encoded.append((rest & 0x7F) | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _read_indexes(named: bytes, position: int) -> tuple[Indexes, int]:
    count, position = _read_varint(named, position)
    if count == 0:
        return (0,), position
    if count > MAX_INDEXES:
        raise SerializationError(
            f"the bytes name a message at a depth of {count}; at most {MAX_INDEXES} is read"
        )
    indexes = []
    for _ in range(count):
        index, position = _read_varint(named, position)
        indexes.append(index)
    return tuple(indexes), position


def _read_varint(named: bytes, position: int) -> tuple[int, int]:
    value = 0
    for step, byte in enumerate(named[position : position + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * step)
        if byte < 0x80:
            number = (value >> 1) ^ -(value & 1)
            if number >= 0:
                return number, position + step + 1
            break
    raise SerializationError(
        "the bytes end within the indexes of a Protobuf message, or have wrong ones"
    )
