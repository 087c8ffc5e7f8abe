"""Which JSON values fit a schema, record by record, and in words why another does not.

Decides it for every way on which records become rows: what Arrow reads in bulk it accepts too, what it refuses never comes to Spark. A
value fits when it is UTF-8 text of one JSON object (RFC 8259) and nothing after it, when each declared field has its type, and when the
required ones (NOT NULL) are there. Unknown fields are ignored, missing optional ones are null. A number is no text and a text is no number
(but a DECIMAL may be written as text, because many writers would lose its digits otherwise); a number has to be within its type's range; a
declared field is given once. How a text of a TIMESTAMP, DATE or DECIMAL has to look is Spark's to say.
Invariant: the same bytes get the same verdict in the same words, whatever process asks.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql import types

MAX_DEPTH = 500
"""Levels of nesting; twice as many are too many for the parsers of Spark and Python."""
MAX_NUMBER_LENGTH, MAX_NAME_LENGTH = 1_000, 50_000
"""In characters; Spark's parser reads none that are longer."""
SAFE_LENGTH = 1_000
"""Values up to it cannot reach any of these bounds."""
INTEGER_BITS: Mapping[type[types.DataType], int] = {
    types.ByteType: 8,
    types.ShortType: 16,
    types.IntegerType: 32,
    types.LongType: 64,
}
FLOAT_END, DOUBLE_END = (2**25 - 1) << 103, (2**54 - 1) << 970
"""From here on a number is rounded to a FLOAT's or a DOUBLE's infinity."""
NULL_VALUE = "the value is null"
NOT_JSON = "the value is not JSON"
TOO_DEEP = f"the value is nested deeper than {MAX_DEPTH} levels"
MAX_TIMESTAMP_S = (2**63 - 1) // 1_000_000
STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
DAYS = re.compile(r"\s*[-+]?[0-9]+\s*")
"""Spark would take such a DATE for a count of days since 1970, or for a year."""

Check = Callable[[Any], str | None]
"""Returns what is wrong with a field's value, as the end of a sentence that begins with the field's name; None where nothing is."""


class RepeatedNames(dict[str, Any]):
    """A JSON object that gives a name more than once; the last value counts for names that are not declared."""

    names: frozenset[str]


class _RefusedError(ValueError):
    """A value is not read; the text is the reason."""


@dataclass(frozen=True, slots=True)
class StrictSchema:
    """The verdict on values by the ``fields`` of a topic; plain values only, so that Spark's workers can take it with them."""

    fields: types.StructType

    def fault_of(self, value: bytes | None) -> str | None:
        """Return why ``value`` does not fit, naming the fields that are to blame; None where it fits."""
        return _fault_of(value, _field_checks(self.fields))

    def faults_of(self, values: pa.Array) -> list[str | None]:
        """Return ``fault_of`` of each of ``values`` (binary)."""
        checks = _field_checks(self.fields)
        return [_fault_of(value, checks) for value in values.to_pylist()]


def load_object(value: bytes | None) -> dict[str, Any]:
    """Return the JSON object that ``value`` is.

    :raises ValueError: it is none; the text says why, in the words of a dead letter.
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
        document = (DECODER if len(text) <= SAFE_LENGTH else BOUNDED_DECODER).decode(text)
    except json.JSONDecodeError as error:
        is_more = error.msg == "Extra data"
        raise _RefusedError("the value goes on after its JSON document" if is_more else NOT_JSON) from None
    if not isinstance(document, dict):
        raise _RefusedError("the value is not a JSON object")
    return document


def type_name(kind: types.DataType) -> str:
    """Return a type as a schema declares it."""
    return kind.simpleString().upper()


def _fault_of(value: bytes | None, checks: Iterable[tuple[str, Check]]) -> str | None:
    try:
        document = load_object(value)
    except _RefusedError as refused:
        return str(refused)
    return "; ".join([f"field {name}{fault}" for name, check in checks if (fault := check(document))]) or None


# From bytes to a document


def _depth(text: str) -> int:
    brackets = re.findall(r"[][{}]", STRING.sub("", text))
    return max(accumulate(1 if one in "[{" else -1 for one in brackets), default=0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated = RepeatedNames(found)
    repeated.names = frozenset(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    return repeated


def _bounded_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if any(len(name) > MAX_NAME_LENGTH for name, _ in pairs):
        raise _RefusedError(f"the value has a field name of more than {MAX_NAME_LENGTH} characters")
    return _object(pairs)


def _bounded(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse_bounded(text: str) -> Any:
        if len(text) > MAX_NUMBER_LENGTH:
            raise _RefusedError(f"the value has a number of more than {MAX_NUMBER_LENGTH} characters")
        return parse(text)

    return parse_bounded


def _refuse_constant(_: str) -> NoReturn:
    """Python reads NaN and Infinity, which are not JSON."""
    raise _RefusedError(NOT_JSON)


DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)
BOUNDED_DECODER = json.JSONDecoder(
    object_pairs_hook=_bounded_object, parse_constant=_refuse_constant, parse_int=_bounded(int), parse_float=_bounded(float)
)


# From a document to its faults


def _field_checks(fields: types.StructType) -> list[tuple[str, Check]]:
    """Return for each field its name and what looks at it in a whole document."""
    return [(field.name, _in_document(field.name, is_optional=field.nullable, check=_check(field.dataType))) for field in fields]


def _in_document(name: str, *, is_optional: bool, check: Check) -> Check:
    def look(document: Any) -> str | None:
        value = document.get(name)
        if type(document) is RepeatedNames and name in document.names:
            return " is given more than once"
        if value is None:
            return None if is_optional else f" is required and {'null' if name in document else 'missing'}"
        return check(value)

    return look


def _check(kind: types.DataType) -> Check:
    if isinstance(kind, types.StructType):
        return _struct_check(kind)
    if isinstance(kind, types.ArrayType):
        return _array_check(kind)
    if isinstance(kind, types.MapType):
        return _map_check(kind)
    fault = f" is not {type_name(kind)}"
    bits = INTEGER_BITS.get(type(kind))
    if bits is not None:
        least, end = -(1 << (bits - 1)), 1 << (bits - 1)
        return lambda value: None if type(value) is int and least <= value < end else fault
    does_fit = next((check for known, check in _SCALARS.items() if isinstance(kind, known)), None)
    return (lambda value: None if does_fit(value) else fault) if does_fit is not None else (lambda value: None)  # noqa: ARG005


def _struct_check(kind: types.StructType) -> Check:
    fault, checks = f" is not {type_name(kind)}", _field_checks(kind)

    def look(value: Any) -> str | None:
        if not isinstance(value, dict):
            return fault
        return next((f".{name}{inner}" for name, check in checks if (inner := check(value))), None)

    return look


def _array_check(kind: types.ArrayType) -> Check:
    fault, check = f" is not {type_name(kind)}", _check(kind.elementType)

    def look(value: Any) -> str | None:
        if not isinstance(value, list):
            return fault
        return next((f"[]{inner}" for one in value if one is not None and (inner := check(one))), None)

    return look


def _map_check(kind: types.MapType) -> Check:
    fault, check = f" is not {type_name(kind)}", _check(kind.valueType)

    def look(value: Any) -> str | None:
        if not isinstance(value, dict):
            return fault
        if type(value) is RepeatedNames:
            return " gives a key more than once"
        if not all(_is_text(name) for name in value):
            return fault
        return next((f"[]{inner}" for one in value.values() if one is not None and (inner := check(one))), None)

    return look


def _is_text(value: Any) -> bool:
    """A text with half a surrogate pair (``\\ud800``) is no text: it has no UTF-8."""
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(value: Any, end: int) -> bool:
    return (type(value) is int or type(value) is float) and -end < value < end


_SCALARS: Mapping[type[types.DataType], Callable[[Any], bool]] = {
    types.StringType: _is_text,
    types.FloatType: lambda value: _is_number(value, FLOAT_END),
    types.DoubleType: lambda value: _is_number(value, DOUBLE_END),
    types.DecimalType: lambda value: _is_number(value, DOUBLE_END) or _is_text(value),
    types.BooleanType: lambda value: type(value) is bool,
    types.TimestampType: lambda value: _is_text(value) or (type(value) is int and abs(value) <= MAX_TIMESTAMP_S),
    types.TimestampNTZType: _is_text,
    types.DateType: lambda value: _is_text(value) and not DAYS.fullmatch(value),
    types.BinaryType: _is_text,
}
"""Other types are Spark's alone to read."""
