"""Decides which schema a key or value of a record names, and checks the records of a small batch.

A serializer of a schema registry writes byte 0 and the id of the schema before the payload, or byte
1 and a guid. Newer ones write the same into a header, and the payload alone as key or value. Of
several headers the last one counts, and a header takes precedence over a prefix. Nulls name no
schema and need none.

Invariant: no schema and no value is decoded. The caller has checked that records are well-formed.
"""

from struct import Struct
from typing import Final
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.steps import Steps
from log_service.common.types import Buffer
from log_service.records.record import ITEMS_PER_STEP, read_headers
from log_service.records.rules import RecordFaults, SchemaName
from log_service.records.varint import continue_varint, read_varint

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
MAGIC_ID: Final = 0
MAGIC_GUID: Final = 1
PREFIX: Final = Struct(">BI")
GUID_END: Final = 17

MAX_HEADERS_WITH_SCHEMA: Final = 1_000
"""A record with more headers is not searched for one that names a schema."""


def header_name(*, is_key: bool) -> str:
    """Return the name of the header that names the schema of a key or a value."""
    return KEY_HEADER if is_key else VALUE_HEADER


def read_name(named: Buffer) -> SchemaName | None:
    """Return the schema that a prefix or a header names, or None if the bytes name none."""
    size = len(named)
    if size >= PREFIX.size and named[0] == MAGIC_ID:
        schema_id: int = PREFIX.unpack_from(named)[1]
        return schema_id
    if size >= GUID_END and named[0] == MAGIC_GUID:
        return bytes(named[1:GUID_END])
    return None


def shown(name: SchemaName) -> str:
    """Return a schema's name as text for errors."""
    return f"schema id {name}" if isinstance(name, int) else f"schema guid {UUID(bytes=name)}"


def header_value(headers: bytes, *, is_key: bool, index: int) -> bytes | None:
    """Return the value of the header that names a schema, None without such a header.

    ``headers`` are all headers of record ``index``, from their count on. The value is empty if
    there are too many headers to search.
    """
    wanted = header_name(is_key=is_key)
    if wanted.encode() not in headers:
        return None
    count, _ = read_varint(headers, 0)
    if count > MAX_HEADERS_WITH_SCHEMA:
        return b""
    found, _ = read_headers(headers, 0, len(headers), index)
    values = (value for name, value in reversed(found) if name == wanted and value is not None)
    return next(values, None)


def check_schema_name(
    faults: RecordFaults, index: int, name: SchemaName | None, *, is_key: bool
) -> bool:
    """Return whether record ``index`` may name this schema, by the known decisions of the registry.

    A refusal is added to ``faults``, as is a schema that the registry has to be asked about.
    """
    reason = refusal_of(faults, name, is_key=is_key)
    if reason:
        faults.add(index, ErrorCode.INVALID_RECORD, reason)
    return reason == ""


def refusal_of(faults: RecordFaults, name: SchemaName | None, *, is_key: bool) -> str | None:
    """Return the reason why records may not name this schema, or an empty text if they may.

    Return None if the registry has neither accepted nor refused the schema. The schema is then
    noted, so that the registry is asked about it.
    """
    schemas = faults.schemas
    assert schemas is not None, "only a log that asks for schemas checks them"
    reason = nameless(is_key=is_key) if name is None else schemas.decision(name, is_key=is_key)
    if reason is None:
        assert name is not None, "a record without a name is refused"
        faults.want(name, is_key=is_key)
    return reason


def nameless(*, is_key: bool) -> str:
    """Return the fault of a key or value that names no schema."""
    part = "key" if is_key else "value"
    return (
        f"its {part} names no schema: it begins neither with 00 and the id of a schema, "
        f"nor is there a header {header_name(is_key=is_key)}; "
        f"the topic has confluent.{part}.schema.validation=true"
    )


def check_schemas_one_by_one(plain: Buffer, count: int, faults: RecordFaults) -> Steps[None]:
    """Check the schemas that the well-formed records of a batch name, one by one."""
    faults.allowance.take_items_alone(count)
    content, position = bytes(plain), 0
    accepted: tuple[set[bytes], set[bytes]] = (set(), set())
    for first in range(0, count, ITEMS_PER_STEP):
        if first:
            yield
        stop = min(first + ITEMS_PER_STEP, count)
        position = _check_some(content, position, range(first, stop), faults, accepted)


def _check_some(
    plain: bytes,
    position: int,
    indexes: range,
    faults: RecordFaults,
    accepted: tuple[set[bytes], set[bytes]],
) -> int:
    """Check records from ``position`` on, and return the end of the last one.

    ``accepted`` has the prefixes of values and of keys that are known to be accepted. Short varints
    are read in place, as in ``checks``, because each batch of a small producer comes here.
    """
    schemas = faults.schemas
    assert schemas is not None, "only a log that asks for schemas checks them"
    parts = schemas.parts
    for index in indexes:
        number, position = plain[position], position + 1
        if number > 0x7F:
            number, position = _longer(plain, position, number)
        end = position + (number >> 1)
        position += 1  # attributes
        while plain[position] > 0x7F:  # timestamp delta
            position += 1
        position += 1
        while plain[position] > 0x7F:  # offset delta
            position += 1
        number, position = plain[position + 1], position + 2
        if number > 0x7F:
            number, position = _longer(plain, position, number)
        key = (-1, position) if number & 1 else (position, position + (number >> 1))
        position = key[1]
        number, position = plain[position], position + 1
        if number > 0x7F:
            number, position = _longer(plain, position, number)
        value = (-1, position) if number & 1 else (position, position + (number >> 1))
        headers = value[1]
        for is_key in parts:
            start, stop = key if is_key else value
            if start < 0:
                continue
            prefix = plain[start : min(start + PREFIX.size, stop)]
            if plain[headers]:
                named = header_value(plain[headers:end], is_key=is_key, index=index)
                if named is not None:
                    check_schema_name(faults, index, read_name(named), is_key=is_key)
                    continue
            if prefix not in accepted[is_key]:
                name = read_name(plain[start : min(start + GUID_END, stop)])
                if check_schema_name(faults, index, name, is_key=is_key) and isinstance(name, int):
                    accepted[is_key].add(prefix)
        position = end
    return position


def _longer(plain: bytes, position: int, number: int) -> tuple[int, int]:
    """Finish reading a varint of several bytes, whose first byte is ``number``.

    Return its encoded value (without zig-zag decoding) and the position after it.
    """
    number, position = number + (plain[position] << 7) - 0x80, position + 1
    return continue_varint(plain, position, number) if number > 0x3FFF else (number, position)
