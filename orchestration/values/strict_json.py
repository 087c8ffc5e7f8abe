"""Checks and reads JSON values strictly by a schema, record by record, with faults in words.

It applies in every part of the platform in which records become rows. It accepts all values that
Arrow reads in bulk, and values that it refuses never reach Spark. A value fits if it is UTF-8 text
of one JSON object (RFC 8259) with nothing after it, if each declared field has its type, and if the
required fields (NOT NULL) are present. Unknown fields are ignored, missing optional fields are
null. A number is not text and a text is not a number. Only a DECIMAL may be written as text,
because many writers would lose its digits otherwise. A number has to be within its type's range. A
declared field may be given only once. ``scalars`` has the formats of decimals, times and bytes, and
``rule`` lists all formats with examples. Invariant: the same bytes give the same values, or the
same fault in the same words, in every process.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import accumulate
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql import types

from orchestration.values.scalars import (
    MisfitError,
    Reading,
    decimal_reader,
    read_base64,
    read_day,
    read_local_time,
    reading_of,
    timestamp_reader,
)
from orchestration.values.type_names import type_name

MAX_DEPTH = 500
"""Levels of nesting. Twice as many are too many for the parsers of Spark and Python."""
MAX_NUMBER_LENGTH, MAX_NAME_LENGTH = 1_000, 50_000
"""In characters. Spark's parser reads none that are longer."""
SAFE_LENGTH = 1_000
"""Values up to this length cannot reach any of these bounds."""
INTEGER_BITS: Mapping[type[types.DataType], int] = {
    types.ByteType: 8,
    types.ShortType: 16,
    types.IntegerType: 32,
    types.LongType: 64,
}
FLOAT_END, DOUBLE_END = (2**25 - 1) << 103, (2**54 - 1) << 970
"""Numbers from here on are rounded to a FLOAT's or a DOUBLE's infinity."""
NULL_VALUE = "the value is null"
NOT_JSON = "the value is not JSON"
TOO_DEEP = f"the value is nested deeper than {MAX_DEPTH} levels"
STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)

Read = Callable[[Any], Any]
"""Returns a JSON value as Arrow takes it for a column. Raises MisfitError if it does not fit."""
Row = tuple[list[Any], str | None]
"""The values of the fields, null for misfits, and the faults: None if there are none."""


class RepeatedNames(dict[str, Any]):
    """A JSON object that gives a name more than once.

    The last value counts for undeclared names.
    """

    names: frozenset[str]


class _RefusedError(ValueError):
    """A value is refused. The text is the reason."""


@dataclass(frozen=True, slots=True)
class StrictSchema:
    """Reads values by the ``fields`` of a topic, or says why they do not fit.

    It can be pickled for Spark's workers.
    """

    fields: types.StructType

    def fault_of(self, value: bytes | None) -> str | None:
        """Return why ``value`` does not fit, with the faulty fields, or None if it fits."""
        return _row_of(value, _readers_of(self.fields))[1]

    def faults_of(self, values: pa.Array) -> list[str | None]:
        """Return ``fault_of`` of each of ``values`` (binary)."""
        return [fault for _, fault in self.rows_of(values)]

    def rows_of(self, values: pa.Array) -> list[Row]:
        """Return for each of ``values`` (binary) its fields and its fault."""
        readers = _readers_of(self.fields)
        return [_row_of(value, readers) for value in values.to_pylist()]

    def row_of(self, document: Mapping[str, Any]) -> Row:
        """Return the fields and the fault of an object that ``load_document`` returned."""
        return _fields_of(document, _readers_of(self.fields))


def load_object(value: bytes | None) -> dict[str, Any]:
    """Return ``value`` as a JSON object.

    :raises ValueError: the value is not a JSON object. The text says why, in the words of a dead
        letter.
    """
    document = load_document(value)
    if not isinstance(document, dict):
        raise _RefusedError("the value is not a JSON object")
    return document


def load_document(value: bytes | None) -> Any:
    """Return ``value`` as a JSON document.

    Numbers with a fraction or exponent are decimals.

    :raises ValueError: the value is not a JSON document. The text says why, in the words of a dead
        letter.
    """
    if value is None:
        raise _RefusedError(NULL_VALUE)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise _RefusedError("the value is not UTF-8 text") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise _RefusedError(TOO_DEEP)
    try:
        return (DECODER if len(text) <= SAFE_LENGTH else BOUNDED_DECODER).decode(text)
    except json.JSONDecodeError as error:
        is_more = error.msg == "Extra data"
        raise _RefusedError(
            "the value goes on after its JSON document" if is_more else NOT_JSON
        ) from None


def _row_of(value: bytes | None, readers: Sequence[tuple[str, Read]]) -> Row:
    try:
        document = load_object(value)
    except _RefusedError as refused:
        return [None] * len(readers), str(refused)
    return _fields_of(document, readers)


def _fields_of(document: Mapping[str, Any], readers: Sequence[tuple[str, Read]]) -> Row:
    found, faults = [], []
    for name, read in readers:
        try:
            found.append(read(document))
        except MisfitError as misfit:
            found.append(None)
            faults.append(f"field {name}{misfit}")
    return found, "; ".join(faults) or None


# From bytes to a document


def _depth(text: str) -> int:
    brackets = re.findall(r"[][{}]", STRING.sub("", text))
    return max(accumulate(1 if one in "[{" else -1 for one in brackets), default=0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated = RepeatedNames(found)
    repeated.names = frozenset(
        name for name, count in Counter(name for name, _ in pairs).items() if count > 1
    )
    return repeated


def _bounded_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if any(len(name) > MAX_NAME_LENGTH for name, _ in pairs):
        raise _RefusedError(f"the value has a field name of more than {MAX_NAME_LENGTH} characters")
    return _object(pairs)


def _bounded(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse_bounded(text: str) -> Any:
        if len(text) > MAX_NUMBER_LENGTH:
            raise _RefusedError(
                f"the value has a number of more than {MAX_NUMBER_LENGTH} characters"
            )
        return parse(text)

    return parse_bounded


def _refuse_constant(_: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python reads and which are not JSON."""
    raise _RefusedError(NOT_JSON)


def _fraction(text: str) -> Decimal:
    """Return a number with all its digits.

    A number whose exponent is too large becomes infinite or zero, as a float would.
    """
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal(float(text))


DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_fraction
)
BOUNDED_DECODER = json.JSONDecoder(
    object_pairs_hook=_bounded_object,
    parse_constant=_refuse_constant,
    parse_int=_bounded(int),
    parse_float=_bounded(_fraction),
)


# From a document to the values of its fields


@lru_cache
def _readers_of(fields: types.StructType) -> Sequence[tuple[str, Read]]:
    return _field_readers(fields)


def _field_readers(
    fields: types.StructType, inherited: Reading | None = None
) -> list[tuple[str, Read]]:
    """Return each field's name, with a function that reads the field from a whole document.

    Inner fields have the ``Reading`` of the outer field.
    """
    return [
        (
            field.name,
            _in_document(
                field.name,
                is_optional=field.nullable,
                read=_reader(field.dataType, inherited or reading_of(field)),
            ),
        )
        for field in fields
    ]


def _in_document(name: str, *, is_optional: bool, read: Read) -> Read:
    def read_field(document: Any) -> Any:
        value = document.get(name)
        if type(document) is RepeatedNames and name in document.names:
            raise MisfitError(" is given more than once")
        if value is not None:
            return read(value)
        if not is_optional:
            raise MisfitError(f" is required and {'null' if name in document else 'missing'}")
        return None

    return read_field


def _reader(kind: types.DataType, reading: Reading) -> Read:
    fault = f" is not {type_name(kind)}"
    if isinstance(kind, types.StructType):
        return _struct_reader(_field_readers(kind, reading), fault)
    if isinstance(kind, types.ArrayType):
        return _array_reader(_reader(kind.elementType, reading), fault)
    if isinstance(kind, types.MapType):
        return _map_reader(_reader(kind.valueType, reading), fault)
    return _scalar_reader(kind, reading, fault)


def _scalar_reader(kind: types.DataType, reading: Reading, fault: str) -> Read:
    if isinstance(kind, types.DecimalType):
        return decimal_reader(kind, reading, fault)
    if isinstance(kind, types.TimestampType):
        return timestamp_reader(reading, fault)
    bits = INTEGER_BITS.get(type(kind))
    if bits is not None:
        return _integer_reader(bits, fault)
    read = _SCALARS.get(type(kind))
    return (lambda value: read(value, fault)) if read is not None else (lambda value: value)


def _struct_reader(readers: Sequence[tuple[str, Read]], fault: str) -> Read:
    def read_struct(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(fault)
        found = {}
        for name, read in readers:
            try:
                found[name] = read(value)
            except MisfitError as misfit:
                raise MisfitError(f".{name}{misfit}") from None
        return found

    return read_struct


def _array_reader(read: Read, fault: str) -> Read:
    def read_array(value: Any) -> Any:
        if not isinstance(value, list):
            raise MisfitError(fault)
        return _elements(value, read)

    return read_array


def _map_reader(read: Read, fault: str) -> Read:
    def read_map(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(fault)
        if type(value) is RepeatedNames:
            raise MisfitError(" gives a key more than once")
        if not all(_is_text(name) for name in value):
            raise MisfitError(fault)
        return list(zip(value, _elements(value.values(), read), strict=True))

    return read_map


def _elements(values: Iterable[Any], read: Read) -> list[Any]:
    try:
        return [None if one is None else read(one) for one in values]
    except MisfitError as misfit:
        raise MisfitError(f"[]{misfit}") from None


def _integer_reader(bits: int, fault: str) -> Read:
    least, end = -(1 << (bits - 1)), 1 << (bits - 1)

    def read_integer(value: Any) -> int:
        if type(value) is not int or not least <= value < end:
            raise MisfitError(fault)
        return value

    return read_integer


def _is_text(value: Any) -> bool:
    r"""Return whether a value is a text that UTF-8 can encode.

    It cannot encode half a surrogate pair (``\ud800``).
    """
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_text(value: Any, fault: str) -> str:
    if not _is_text(value):
        raise MisfitError(fault)
    return str(value)


def _read_boolean(value: Any, fault: str) -> bool:
    if type(value) is not bool:
        raise MisfitError(fault)
    return value


def _number_reader(end: int) -> Callable[[Any, str], float]:
    def read_number(value: Any, fault: str) -> float:
        if (type(value) is not int and type(value) is not Decimal) or not -end < value < end:
            raise MisfitError(fault)
        return float(value)

    return read_number


_SCALARS: Mapping[type[types.DataType], Callable[[Any, str], Any]] = {
    types.StringType: _read_text,
    types.FloatType: _number_reader(FLOAT_END),
    types.DoubleType: _number_reader(DOUBLE_END),
    types.BooleanType: _read_boolean,
    types.TimestampNTZType: read_local_time,
    types.DateType: read_day,
    types.BinaryType: read_base64,
}
"""VARIANT is missing because it takes any value."""
