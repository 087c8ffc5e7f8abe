"""Reads Avro values into the columns of a record, with one function for each type in a schema.

The functions are made once for a schema. Decides the column type of each Avro type, and which bytes
are invalid. Avro's libraries read a damaged index or length as another one. This module is
stricter. A number must be in the range of its type and an index in that of its union or enum, a
boolean is 0 or 1, and a record ends where its value ends. Does not know files.
Invariants: reading ends, and takes memory in proportion to the value. Every refusal is an
``UnfitError`` that names the field.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Context, Decimal
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception of a small name
from typing import Any
from uuid import UUID

from pyspark.sql import types

from orchestration.formats.avro_types import AGAIN, NO_NULL, NOTHING, TOO_DEEP, AvroField, AvroType
from orchestration.formats.columns import UnfitError, microseconds

Read = Callable[[bytes, int], tuple[Any, int]]
"""Returns the value that begins at a place, and its end.

It raises IndexError or struct.error if the bytes end before.
"""
Convert = Callable[[Any], Any]
SPARK_TYPES = {
    "null": types.StringType(),
    "boolean": types.BooleanType(),
    "int": types.IntegerType(),
    "long": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "bytes": types.BinaryType(),
    "fixed": types.BinaryType(),
    "string": types.StringType(),
    "enum": types.StringType(),
}
LOGICAL_TYPES = {
    "date": types.DateType(),
    "timestamp-millis": types.TimestampType(),
    "timestamp-micros": types.TimestampType(),
    "local-timestamp-millis": types.TimestampNTZType(),
    "local-timestamp-micros": types.TimestampNTZType(),
    "uuid": types.StringType(),
}
FLOAT, DOUBLE = Struct("<f"), Struct("<d")
INT_END, LONG_END, VARINT_END = 1 << 31, 1 << 63, 1 << 64
INTEGER_ENDS = {"int": INT_END, "long": LONG_END}
DEFAULTS: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "enum": (str,),
}
"""The types of JSON that a default of a type may have. Defaults of other types are not read."""
UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
EXACT = Context(prec=100)
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The years 1 to 9999, in days since 1970."""


# From a type to a column


def spark_fields(record: AvroType) -> types.StructType:
    """Return the columns of a record."""
    return types.StructType([_spark_field(one) for one in record.fields if one.is_column])


def _spark_field(one: AvroField) -> types.StructField:
    return types.StructField(
        one.name,
        _spark_type(one.type),
        one.type.is_nullable is True,
        {"comment": one.doc} if one.doc else None,
    )


def _spark_type(kind: AvroType) -> types.DataType:
    if kind.logical == "decimal":
        return types.DecimalType(kind.precision, kind.scale)
    if kind.logical:
        return LOGICAL_TYPES[kind.logical]
    if kind.name == "record":
        return spark_fields(kind)
    if kind.members:
        return types.StructType(
            [
                types.StructField(name, _spark_type(one))
                for name, one in kind.members
                if _is_column(one)
            ]
        )
    if kind.items is not None:
        items = _spark_type(kind.items)
        return (
            types.ArrayType(items)
            if kind.name == "array"
            else types.MapType(types.StringType(), items)
        )
    return SPARK_TYPES[kind.name]


def _is_column(member: AvroType) -> bool:
    return member.name != "null" and not member.is_too_deep


# From bytes to a value


def record_reader(
    record: AvroType, begin: Callable[[bytes], int], ends: Collection[int] = ()
) -> Callable[[bytes], Sequence[Any]]:
    """Return a function that reads a whole value as the fields of ``record``.

    ``begin`` returns the offset in the value at which the record begins. ``ends`` are numbers of
    fields: a value may end after so many fields, and the later fields then have their defaults.
    """
    fields = [(one.name, reader_of(one.type, one.name)) for one in record.fields]
    defaults = {
        end: [default_of(one) if one.is_column else None for one in record.fields[end:]]
        for end in ends
    }
    columns = [number for number, one in enumerate(record.fields) if one.is_column]

    def chosen(found: Sequence[Any]) -> Sequence[Any]:
        return found if len(columns) == len(found) else [found[number] for number in columns]

    def read(data: bytes) -> Sequence[Any]:
        at, name = begin(data), ""
        found: list[Any] = []
        try:
            for (
                name,  # noqa: B007 - the refusal below names the field that was read
                read_field,
            ) in fields:
                if at == len(data) and len(found) in defaults:
                    return chosen([*found, *defaults[len(found)]])
                value, at = read_field(data, at)
                found.append(value)
        except (IndexError, StructError):
            raise UnfitError(f"the value ends within field {name}") from None
        if at != len(data):
            raise UnfitError(f"the value goes on after its record, for {len(data) - at} bytes")
        return chosen(found)

    return read


def reader_of(kind: AvroType, where: str) -> Read:
    """Return a function that reads a value of type ``kind``. Errors name the field ``where``."""
    if kind.members:
        return _members_reader(kind, where)
    if kind.is_union:
        return _union_reader(kind, where)
    return _plain_reader(kind, where)


def _too_deep_reader(where: str) -> Read:
    def read(_data: bytes, _at: int) -> tuple[Any, int]:
        raise UnfitError(f"field {where} is nested deeper than the declared depth")

    return read


def _again_reader(kind: AvroType, where: str) -> Read:
    """Return a function that reads a record nested within itself, of any depth.

    It makes the reader of the record on first use, because the type contains itself.
    """
    made: list[Read] = []

    def read(data: bytes, at: int) -> tuple[Any, int]:
        if not made:
            assert kind.resolve is not None
            made.append(reader_of(kind.resolve(), where))
        return made[0](data, at)

    return read


def _plain_reader(kind: AvroType, where: str) -> Read:
    if kind.name in {TOO_DEEP, AGAIN}:
        return _too_deep_reader(where) if kind.name == TOO_DEEP else _again_reader(kind, where)
    if kind.name == "record":
        return _struct_reader(kind, where)
    if kind.items is not None:
        read_item = reader_of(kind.items, f"{where}[]")
        return (
            array_reader(read_item, where) if kind.name == "array" else map_reader(read_item, where)
        )
    read = raw_reader(kind, where)
    convert = conversion_of(kind, where)
    if convert is None:
        return read

    def read_converted(data: bytes, at: int) -> tuple[Any, int]:
        value, end = read(data, at)
        return convert(value), end

    return read_converted


def raw_reader(kind: AvroType, where: str) -> Read:
    """Return a function that reads a value and ignores its logical type."""
    readers: Mapping[str, Callable[[], Read]] = {
        "null": lambda: lambda data, at: (None, at),  # noqa: ARG005 - a reader's signature
        "boolean": lambda: _boolean_reader(where),
        "int": lambda: _int_reader(where),
        "enum": lambda: _int_reader(where),
        "long": lambda: lambda data, at: read_long(data, at, where),
        "float": lambda: lambda data, at: (FLOAT.unpack_from(data, at)[0], at + FLOAT.size),
        "double": lambda: lambda data, at: (DOUBLE.unpack_from(data, at)[0], at + DOUBLE.size),
        "fixed": lambda: lambda data, at: _cut(data, at, kind.size),
        "bytes": lambda: _octets_reader(where),
        "string": lambda: _text_reader(where),
    }
    return readers[kind.name]()


def _octets_reader(where: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        size, at = read_long(data, at, where)
        return _cut(data, at, size)

    return read


def read_long(data: bytes, at: int, where: str) -> tuple[int, int]:
    """Return the zigzag varint that begins at ``at``, and the offset after it.

    :raises IndexError: the bytes end before the varint does.
    :raises UnfitError: the varint has more than 64 bits.
    """
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if number >= VARINT_END or shift > 70:
            raise UnfitError(f"field {where} has a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), at


def _cut(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if size < 0 or end > len(data):
        raise IndexError
    return data[at:end], end


def _boolean_reader(where: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        byte = data[at]
        if byte > 1:
            raise UnfitError(f"field {where} is not BOOLEAN")
        return byte == 1, at + 1

    return read


def _int_reader(where: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        number, end = read_long(data, at, where)
        if not -INT_END <= number < INT_END:
            raise UnfitError(f"field {where} is not INT")
        return number, end

    return read


def _text_reader(where: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        size, at = read_long(data, at, where)
        octets, end = _cut(data, at, size)
        try:
            return octets.decode(), end
        except UnicodeDecodeError:
            raise UnfitError(f"field {where} is not UTF-8 text") from None

    return read


def _union_reader(kind: AvroType, where: str) -> Read:
    read = _plain_reader(kind, where)
    null = kind.null_index
    chosen = NO_NULL if kind.name == "null" else 0 if null == NO_NULL else 1 - null

    def read_union(data: bytes, at: int) -> tuple[Any, int]:
        index, at = read_long(data, at, where)
        if index == chosen:
            return read(data, at)
        if index != null or index == NO_NULL:
            raise UnfitError(f"field {where} is of type {index} of its union, which there is not")
        return None, at

    return read_union


def _members_reader(kind: AvroType, where: str) -> Read:
    """Return a function that reads a union of several types as a struct.

    Only the member that is present has a value.
    """
    readers = [(name, reader_of(one, f"{where}.{name}")) for name, one in kind.members]
    nothing: Mapping[str, Any] = {name: None for name, one in kind.members if _is_column(one)}

    def read_member(data: bytes, at: int) -> tuple[Any, int]:
        index, at = read_long(data, at, where)
        if not 0 <= index < len(readers):
            raise UnfitError(f"field {where} is of type {index} of its union, which there is not")
        if index == kind.null_index:
            return None, at
        name, read = readers[index]
        value, at = read(data, at)
        return {**nothing, name: value}, at

    return read_member


def _struct_reader(kind: AvroType, where: str) -> Read:
    fields = [
        (one.name, reader_of(one.type, f"{where}.{one.name}"), one.is_column) for one in kind.fields
    ]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = {}
        for name, read_field, is_column in fields:
            value, at = read_field(data, at)
            if is_column:
                found[name] = value
        return found, at

    return read


def _block(data: bytes, at: int, where: str) -> tuple[int, int]:
    """Return the number of items in the block at ``at``, and the offset of the first item.

    After a negative count comes the block's size, which is not needed.
    """
    count, at = read_long(data, at, where)
    if count < 0:
        _, at = read_long(data, at, where)
        count = -count
    if count > len(data) - at:
        raise IndexError
    return count, at


def array_reader(read_item: Read, where: str) -> Read:
    """Return a function that reads an array, whose items ``read_item`` reads."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = []
        count, at = _block(data, at, where)
        while count:
            for _ in range(count):
                item, at = read_item(data, at)
                found.append(item)
            count, at = _block(data, at, where)
        return found, at

    return read


def map_reader(read_item: Read, where: str) -> Read:
    """Return a function that reads a map as pairs, whose values ``read_item`` reads."""
    read_key = _text_reader(where)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found: dict[str, Any] = {}
        count, at = _block(data, at, where)
        while count:
            for _ in range(count):
                key, at = read_key(data, at)
                item, at = read_item(data, at)
                if key in found:
                    raise UnfitError(f"field {where} gives a key more than once")
                found[key] = item
            count, at = _block(data, at, where)
        return list(found.items()), at

    return read


# From a value to that of its logical type


def conversion_of(kind: AvroType, where: str) -> Convert | None:
    """Return a function that converts a raw value to the value of its logical type, or None."""
    if kind.name == "enum" or kind.logical == "decimal":
        return _symbol_of(kind.symbols, where) if kind.name == "enum" else _decimal_of(kind, where)
    if kind.logical == "date":
        return lambda days: _day(days, where)
    if "timestamp" in kind.logical:
        unit_us = 1_000 if kind.logical.endswith("millis") else 1
        return lambda number: microseconds(unit_us * number, where)
    if kind.logical == "uuid":
        return (
            (lambda octets: str(UUID(bytes=octets)))
            if kind.name == "fixed"
            else lambda text: _uuid(text, where)
        )
    return None


def _symbol_of(symbols: Sequence[str], where: str) -> Convert:
    def convert(index: int) -> str:
        if not 0 <= index < len(symbols):
            raise UnfitError(f"field {where} is symbol {index} of its enum, which there is not")
        return symbols[index]

    return convert


def _decimal_of(kind: AvroType, where: str) -> Convert:
    end, scale = 10**kind.precision, Decimal(-kind.scale)

    def convert(octets: bytes) -> Decimal:
        number = int.from_bytes(octets, "big", signed=True)
        if not -end < number < end:
            raise UnfitError(f"field {where} is not DECIMAL({kind.precision},{kind.scale})")
        return Decimal(number).scaleb(scale, EXACT)

    return convert


def _day(days: int, where: str) -> int:
    if not FIRST_DAY <= days <= LAST_DAY:
        raise UnfitError(f"field {where} is not a day of the years 1 to 9999")
    return days


def _uuid(text: str, where: str) -> str:
    if not UUID_TEXT.fullmatch(text):
        raise UnfitError(f"field {where} is not a UUID")
    return text


# From a default to a value


def default_of(one: AvroField) -> Any:
    """Return the default of a field, for records without the field.

    :raises ValueError: the field has no default, or its default cannot be read.
    """
    kind, default = one.type, one.default
    if default is NOTHING:
        raise ValueError(f"field {one.name} needs a default: older records do not have it")
    if default is None and kind.is_nullable:
        return None
    if (default == [] and kind.name == "array") or (default == {} and kind.name == "map"):
        return []
    is_read = type(default) in DEFAULTS.get(kind.name, ()) and (
        kind.name != "enum" or default in kind.symbols
    )
    end = INTEGER_ENDS.get(kind.name)
    if not is_read or (end is not None and not -end <= default < end):
        raise ValueError(
            f"field {one.name}: {default!r} is not a default that is read for {kind.name}; a union"
            " with null has null"
        )
    convert = None if kind.name == "enum" else conversion_of(kind, one.name)
    return default if convert is None else convert(default)
