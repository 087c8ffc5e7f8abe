"""Decides which schema a key or value of a record names, and judges the records of a small batch.

A serializer of a schema registry writes byte 0 and the id of the schema before the payload, or byte
1 and a guid. Newer ones write the same into a header, and the payload alone as key or value. Of
several headers the last one counts, and a header counts before a prefix. Nulls name no schema and
need none.

Invariant: no schema and no value is opened. The records were checked before.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.steps import Steps
from log_service.common.types import Buffer
from log_service.records.record import ITEMS_PER_STEP, read_headers
from log_service.records.rules import Judge, SchemaName
from log_service.records.varint import read_varint

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
MAGIC_ID: Final = 0
MAGIC_GUID: Final = 1
PREFIX: Final = Struct(">BI")
GUID_END: Final = 17

MAX_HEADERS_WITH_SCHEMA: Final = 1_000
"""A record with more headers is not searched for one that names a schema."""


class _Places(NamedTuple):
    """The places of a record's key, value and headers. A start of -1 is a null."""

    key_start: int
    key_end: int
    value_start: int
    value_end: int
    headers: int
    end: int


def header_name(*, is_key: bool) -> str:
    """Return the name of the header that names the schema of a key or a value."""
    return KEY_HEADER if is_key else VALUE_HEADER


def read_name(named: Buffer) -> SchemaName | None:
    """Return the schema that a prefix or a header names, None if it names none."""
    size = len(named)
    if size >= PREFIX.size and named[0] == MAGIC_ID:
        schema_id: int = PREFIX.unpack_from(named)[1]
        return schema_id
    if size >= GUID_END and named[0] == MAGIC_GUID:
        return bytes(named[1:GUID_END])
    return None


def shown(name: SchemaName) -> str:
    """Return a schema's name as people read it."""
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


def judge_name(judge: Judge, index: int, name: SchemaName | None, *, is_key: bool) -> None:
    """Note whether record ``index`` may name this schema."""
    schemas = judge.schemas
    assert schemas is not None, "only a log that asks for schemas judges them"
    reason = nameless(is_key=is_key) if name is None else schemas.verdict(name, is_key=is_key)
    if reason is None:
        assert name is not None, "a record without a name is refused"
        judge.want(name, is_key=is_key)
    elif reason:
        judge.add(index, ErrorCode.INVALID_RECORD, reason)


def nameless(*, is_key: bool) -> str:
    """Return the fault of a key or value that names no schema."""
    part = "key" if is_key else "value"
    return (
        f"its {part} names no schema: it begins neither with 00 and the id of a schema, "
        f"nor is there a header {header_name(is_key=is_key)}; "
        f"the topic has confluent.{part}.schema.validation=true"
    )


def judge_each(plain: Buffer, count: int, judge: Judge) -> Steps[None]:
    """Judge the schemas of a batch's records one by one."""
    schemas = judge.schemas
    assert schemas is not None, "only a log that asks for schemas judges them"
    judge.allowance.take_items_alone(count)
    content = memoryview(plain)
    for index, places in enumerate(_each(plain, count)):
        for is_key in schemas.parts:
            start = places.key_start if is_key else places.value_start
            if start < 0:
                continue
            end = places.key_end if is_key else places.value_end
            named: Buffer | None = None
            if plain[places.headers]:
                raw = bytes(content[places.headers : places.end])
                named = header_value(raw, is_key=is_key, index=index)
            name = read_name(
                content[start : min(end, start + GUID_END)] if named is None else named
            )
            judge_name(judge, index, name, is_key=is_key)
        if index % ITEMS_PER_STEP == ITEMS_PER_STEP - 1:
            yield


def _each(plain: Buffer, count: int) -> Iterator[_Places]:
    """Yield the places of checked records, in order."""
    position = 0
    for _ in range(count):
        size, position = read_varint(plain, position)
        end = position + size
        position += 1  # attributes
        while plain[position] > 0x7F:  # timestamp delta
            position += 1
        position += 1
        while plain[position] > 0x7F:  # offset delta
            position += 1
        size, key_start = read_varint(plain, position + 1)
        key_end = key_start + max(size, 0)
        is_keyless = size < 0
        size, value_start = read_varint(plain, key_end)
        value_end = value_start + max(size, 0)
        yield _Places(
            -1 if is_keyless else key_start,
            key_end,
            -1 if size < 0 else value_start,
            value_end,
            value_end,
            end,
        )
        position = end
