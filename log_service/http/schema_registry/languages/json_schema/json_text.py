"""Reads JSON text into values within bounds, and prints values as Jackson does.

Jackson is the library with which Confluent's registry prints schemas. Numbers keep their digits:
``1.0`` stays ``1.0``, and ``1e400`` becomes ``1E+400``. If a name occurs twice in an object, the
last value counts, at the position of the first. Unlike Confluent's registry, this file refuses NaN
and text after the value, because neither is JSON.
"""

import json
import re
from decimal import Decimal
from typing import NoReturn, TypeAlias

from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import SchemaLimits

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | Decimal | bool | None"
"""A value of JSON. Numbers with a fraction or an exponent are decimals."""

MAX_DIGITS = 1_000
"""The most characters that a number may have, as in Jackson."""
MAX_EXPONENT = 1_000
"""The largest exponent, of either sign. Larger ones make comparisons of numbers expensive."""

_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]|NaN|Infinity', re.DOTALL)
"""Strings, brackets, and names of numbers that JSON does not have.

An open string reaches to the end of the text, so that each character is read once.
"""
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def read_json(text: str, limits: SchemaLimits) -> Json:
    """Parse a JSON text.

    Raises:
        InvalidSchemaError: the text is not JSON, or is over a bound. The message names the line.
    """
    _validate_size(text, limits.text_bytes)
    _validate_structure(text, limits.nesting)
    try:
        value: Json = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidSchemaError(f"{place}: {error.msg}") from error
    return value


def print_json(value: Json, *, is_sorted: bool = False) -> str:
    """Return the JSON text of a value, without spaces.

    With ``is_sorted``, the names in each object are in the order of their UTF-16 code units.
    """
    parts: list[str] = []
    _print(value, parts, is_sorted=is_sorted)
    return "".join(parts)


def validate_unicode(text: str) -> None:
    """Check that a text has no half of a surrogate pair, because UTF-8 cannot hold one.

    Raises:
        InvalidSchemaError: the text has half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fault = f"half of a surrogate pair at character {error.start}"
        raise InvalidSchemaError(f"{fault}: write both halves") from error


def value_key(value: Json) -> object:
    """Return a key that is equal for values that JSON Schema considers equal, such as 1 and 1.0."""
    match value:
        case bool():
            return ("bool", value)
        case list():
            return ("list", tuple(value_key(item) for item in value))
        case dict():
            return ("object", frozenset((name, value_key(item)) for name, item in value.items()))
        case _:
            return value


def as_count(value: object) -> int | None:
    """Return a whole number, such as 2 or 2.0, as an int, and None for any other value."""
    match value:
        case bool():
            return None
        case int():
            return value
        case Decimal() if value == value.to_integral_value():
            return int(value)
        case _:
            return None


def as_number(value: object) -> int | Decimal | None:
    """Return the value if it is a number, and None otherwise."""
    return value if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def _validate_size(text: str, limit: int) -> None:
    validate_unicode(text)
    if (size := len(text.encode())) > limit:
        raise InvalidSchemaError(f"the schema has {size} bytes, the limit is {limit}")


def _validate_structure(text: str, limit: int) -> None:
    """Refuse nesting deeper than ``limit`` and names that JSON does not have, such as NaN.

    This runs before the JSON decoder, because the decoder recurses.
    """
    depth = 0
    for found in _STRUCTURE.finditer(text):
        match found[0]:
            case "{" | "[":
                depth += 1
                if depth > limit:
                    place = _place(text, found.start())
                    raise InvalidSchemaError(f"{place}: nested deeper than {limit} levels")
            case "}" | "]":
                depth -= 1
            case "NaN" | "Infinity":
                place = _place(text, found.start())
                raise InvalidSchemaError(f"{place}: {found[0]} is not a number in JSON")


def _place(text: str, index: int) -> str:
    line = text.count("\n", 0, index) + 1
    return f"line {line}, column {index - text.rfind(chr(10), 0, index)}"


def _integer(digits: str) -> int:
    _validate_digits(digits)
    return int(digits)


def _decimal(digits: str) -> Decimal:
    _validate_digits(digits)
    mantissa, _, exponent = digits.lower().partition("e")
    if exponent and (len(exponent) > 6 or abs(int(exponent)) > MAX_EXPONENT):
        number = f"the number {mantissa[:20]}e{exponent[:20]}"
        raise InvalidSchemaError(f"{number} has an exponent beyond {MAX_EXPONENT}")
    return Decimal(digits)


def _validate_digits(digits: str) -> None:
    if len(digits) > MAX_DIGITS:
        number = f"the number {digits[:20]}..."
        raise InvalidSchemaError(f"{number} has {len(digits)} digits, the limit is {MAX_DIGITS}")


def _refuse(name: str) -> NoReturn:
    raise InvalidSchemaError(f"{name} is not a number in JSON")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_decimal, parse_constant=_refuse)


def _print(value: Json, parts: list[str], *, is_sorted: bool) -> None:
    match value:
        case str():
            parts.append(_quoted(value))
        case dict():
            separator = "{"
            for name in sorted(value, key=_utf16) if is_sorted else value:
                parts.append(f"{separator}{_quoted(name)}:")
                _print(value[name], parts, is_sorted=is_sorted)
                separator = ","
            parts.append("}" if value else "{}")
        case list():
            separator = "["
            for item in value:
                parts.append(separator)
                _print(item, parts, is_sorted=is_sorted)
                separator = ","
            parts.append("]" if value else "[]")
        case _:
            parts.append(_scalar(value))


def _scalar(value: float | Decimal | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Decimal() if value.is_zero():
            return str(value.copy_abs())  # Java's decimals have no negative zero
        case _:
            return str(value)


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}"


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
