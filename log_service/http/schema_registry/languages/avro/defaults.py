"""Decides whether a default is a value of its field's type, as Java's library does for new schemas.

Avro 1.12 accepts a default that fits any branch of a union. It only checks the JSON type of a
value: the default of an enum may be an unknown symbol, and that of a fixed may have another size.
"""

import re

from log_service.http.schema_registry.languages.avro.json_text import NUMBER_CHARACTERS
from log_service.http.schema_registry.languages.avro.types import (
    Array,
    Json,
    Kind,
    Map,
    Primitive,
    Record,
    Reference,
    Union,
    Use,
)
from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import Budget

INT_BITS, LONG_BITS = 32, 64
_DIGITS = r"(?:[0-9]++\.?[0-9]*+|\.[0-9]++)"
_DECIMAL = re.compile(rf"[+-]?(?:NaN|Infinity|{_DIGITS}(?:[eE][+-]?[0-9]++)?[fFdD]?)")
_HEXADECIMAL_DIGITS = r"(?:[0-9a-fA-F]++\.?|[0-9a-fA-F]*\.[0-9a-fA-F]++)"
_HEXADECIMAL = re.compile(rf"[+-]?0[xX]{_HEXADECIMAL_DIGITS}[pP][+-]?[0-9]++[fFdD]?")
_TRIMMED = "".join(map(chr, range(0x21)))


def fits_bits(number: int, bits: int) -> bool:
    """Return whether a whole number fits into a signed integer of this many bits."""
    return -(1 << bits - 1) <= number < 1 << bits - 1


def fits(use: Use, value: Json, budget: Budget, *, nesting: int) -> bool:
    """Return whether a default is a value of a type.

    A type that is not defined yet accepts any object, because it may become a record.

    Raises:
        InvalidSchemaError: defaults of fields are nested deeper than ``nesting``, maybe endlessly.
    """
    budget.spend()
    if nesting < 0:
        raise InvalidSchemaError("its fields have defaults that never end, or are nested too deep")
    inner = nesting - 1
    match use.target or use if isinstance(use, Reference) else use:
        case Union(branches=branches):
            is_value = _fits_a_branch(branches, value, budget, inner)
        case Array(items=items):
            is_value = isinstance(value, list) and _all_fit(items, value, budget, inner)
        case Map(values=values):
            parts = [*value.values()] if isinstance(value, dict) else []
            is_value = isinstance(value, dict) and _all_fit(values, parts, budget, inner)
        case Record() as record:
            is_value = isinstance(value, dict) and _fields_fit(record, value, budget, inner)
        case Reference():
            is_value = isinstance(value, dict)
        case Primitive(kind=kind):
            is_value = _fits_primitive(kind, value)
        case _:
            is_value = isinstance(value, str)
    return is_value


# Loops instead of generators keep a level of nesting to two frames of Python's stack.


def _fits_a_branch(branches: tuple[Use, ...], value: Json, budget: Budget, nesting: int) -> bool:
    for branch in branches:  # noqa: SIM110
        if fits(branch, value, budget, nesting=nesting):
            return True
    return False


def _all_fit(use: Use, values: list[Json], budget: Budget, nesting: int) -> bool:
    for value in values:  # noqa: SIM110
        if not fits(use, value, budget, nesting=nesting):
            return False
    return True


def _fields_fit(record: Record, value: dict[str, Json], budget: Budget, nesting: int) -> bool:
    """Return whether each field of a record has a fitting value, or else a fitting default."""
    for field in record.fields.values():
        if field.name not in value and not field.has_default:
            return False
        own = value.get(field.name, field.default)
        if not fits(field.type, own, budget, nesting=nesting):
            return False
    return True


def _fits_primitive(kind: Kind, value: Json) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case Kind.NULL:
            is_value = value is None
        case Kind.BOOLEAN:
            is_value = isinstance(value, bool)
        case Kind.INT | Kind.LONG:
            bits = INT_BITS if kind is Kind.INT else LONG_BITS
            is_value = is_number and isinstance(value, int) and fits_bits(value, bits)
        case Kind.FLOAT | Kind.DOUBLE:
            is_value = is_number
        case _:
            is_value = isinstance(value, str)
    return is_value


def number_in(text: str) -> float | None:
    """Return the number in a text, as Java's ``Double.parseDouble`` does, or None."""
    number = text.strip(_TRIMMED)
    if len(number) > NUMBER_CHARACTERS:
        return None
    if _HEXADECIMAL.fullmatch(number):
        return _hexadecimal(number.rstrip("fFdD"))
    return float(number.rstrip("fFdD")) if _DECIMAL.fullmatch(number) else None


def _hexadecimal(number: str) -> float:
    try:
        return float.fromhex(number)
    except OverflowError:
        return float("-inf" if number.startswith("-") else "inf")
