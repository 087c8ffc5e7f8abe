"""Reads and prints JSON as Jackson does: comments are skipped, and numbers have Java's form.

A whole number is an ``int``. Any other number is a ``float``, with the precision of a double. If a
key occurs twice, the last value counts, at the position of the first.
"""

import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import accumulate, islice
from json import JSONDecodeError, JSONDecoder
from typing import NoReturn

from log_service.http.schema_registry.languages.avro.types import Json, utf16_order
from log_service.http.schema_registry.languages.language import InvalidSchemaError

NUMBER_CHARACTERS = 1_000
"""Jackson's bound on the length of a number."""

# What has no end runs to the end of the text, so that no character is looked at twice.
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|//[^\r\n]*+|[\[\]{}]|NaN|-?Infinity',
    re.DOTALL,
)
_BETWEEN_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[^"\[\]{}]++', re.DOTALL)
_DEPTHS = {"[": 1, "{": 1, "]": -1, "}": -1}
_BLANKS = " \t\r\n"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES = dict(zip('"\\\b\t\n\f\r', '"\\btnfr', strict=True))
_ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(0x20)} | {
    character: f"\\{letter}" for character, letter in _SHORT_ESCAPES.items()
}
_LITERALS = {True: "true", False: "false", None: "null"}


class _NotANumberError(Exception):
    """The text has a constant that JSON does not have, such as NaN."""


def parse_json(text: str, *, nesting: int) -> Json:
    """Parse a JSON text.

    Raises:
        InvalidSchemaError: the text is not JSON, or is nested deeper than ``nesting``.
    """
    if not text.strip(_BLANKS):
        raise InvalidSchemaError("the schema is empty")
    plain = _TOKEN.sub(_blank, text) if "/" in text else text
    if plain.count("[") + plain.count("{") > nesting:
        _validate_nesting(plain, nesting)
    value = _decoded(plain, text)
    if _SURROGATE_ESCAPE.search(text):
        _validate_unicode(value)
    return value


def _decoded(plain: str, text: str) -> Json:
    """Parse ``plain``, which is ``text`` with blanks instead of comments.

    A comment after the value is an error, as it is for Java's library.
    """
    value: Json
    try:
        value, end = _DECODER.raw_decode(plain, len(plain) - len(plain.lstrip(_BLANKS)))
    except JSONDecodeError as error:
        raise _no_json(f"{error.msg[:1].lower()}{error.msg[1:]}", text, error.pos) from None
    except _NotANumberError as error:
        names = (token for token in _TOKEN.finditer(plain) if token.group() == str(error))
        raise _no_json(f"{error} is not a number of JSON", text, next(names).start()) from None
    if rest := text[end:].lstrip(_BLANKS):
        raise _no_json("a second value begins", text, len(text) - len(rest))
    return value


def _blank(token: re.Match[str]) -> str:
    """Return a token unchanged, but a comment as blanks of the same length to keep positions."""
    text = token.group()
    is_whole = text.startswith("/*") and text.endswith("*/") and len(text) > len("/*/")
    return re.sub(r"[^\r\n]", " ", text) if is_whole or text.startswith("//") else text


def _validate_nesting(text: str, nesting: int) -> None:
    depths = list(accumulate(map(_DEPTHS.__getitem__, _BETWEEN_BRACKETS.sub("", text))))
    if max(depths, default=0) > nesting:
        first = next(number for number, depth in enumerate(depths) if depth > nesting)
        brackets = (token for token in _TOKEN.finditer(text) if token.group() in _DEPTHS)
        position = next(islice(brackets, first, None)).start()
        raise _no_json(f"more than {nesting} brackets are open", text, position)


def _validate_unicode(value: Json) -> None:
    try:
        json_text(value).encode()
    except UnicodeEncodeError:
        reason = "the text is not Unicode: it escapes one half of a surrogate pair"
        raise InvalidSchemaError(reason) from None


def _no_json(reason: str, text: str, position: int) -> InvalidSchemaError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return InvalidSchemaError(f"the text is not JSON: line {line}, column {column}: {reason}")


def _whole_number(text: str) -> int:
    return int(_bounded(text))


def _fraction(text: str) -> float:
    return float(_bounded(text))


def _bounded(text: str) -> str:
    if len(text) > NUMBER_CHARACTERS:
        shown = f"{text[:20]}..."
        raise InvalidSchemaError(f"the number {shown} has more than {NUMBER_CHARACTERS} characters")
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise _NotANumberError(name)


_DECODER = JSONDecoder(
    parse_int=_whole_number, parse_float=_fraction, parse_constant=_refuse_constant
)


def json_text(value: Json, *, is_sorted: bool = False) -> str:
    """Return the compact text of a value. With ``is_sorted`` the keys of objects are sorted."""
    match value:
        case str():
            text = quoted(value)
        case dict():
            keys: Iterable[str] = sorted(value, key=utf16_order) if is_sorted else value
            parts = [f"{quoted(key)}:{json_text(value[key], is_sorted=is_sorted)}" for key in keys]
            text = f"{{{','.join(parts)}}}"
        case list():
            text = f"[{','.join([json_text(part, is_sorted=is_sorted) for part in value])}]"
        case bool() | None:
            text = _LITERALS[value]
        case _:
            text = java_double(value) if isinstance(value, float) else str(value)
    return text


def quoted(text: str) -> str:
    """Return a text in quotes. Only characters that JSON has to escape are escaped."""
    return f'"{_TO_ESCAPE.sub(lambda found: _ESCAPES[found.group()], text)}"'


def java_double(number: float) -> str:
    """Return a number as Java's ``Double.toString`` does from Java 19 on.

    JSON has no infinite numbers and no NaN. Jackson puts their names in quotes.
    """
    if not math.isfinite(number):
        return '"NaN"' if math.isnan(number) else f'"{"-" if number < 0 else ""}Infinity"'
    digits, exponent = _shortest_digits(abs(number))
    return ("-" if math.copysign(1, number) < 0 else "") + _placed(digits, exponent)


def _shortest_digits(number: float) -> tuple[str, int]:
    """Return the fewest digits that identify a number, and the first digit's power of ten."""
    mantissa, _, exponent = f"{Decimal(repr(number)).normalize():e}".partition("e")
    # Of two digits Java takes those that come nearer, even if one digit would do: 4.9E-324.
    if len(mantissa) == 1 and float(nearer := f"{number:.1e}") == number:
        mantissa = nearer.partition("e")[0]
    return mantissa.replace(".", "").rstrip("0"), int(exponent)


def _placed(digits: str, exponent: int) -> str:
    """Return digits as a decimal number. From 0.001 up to ten million it has no exponent."""
    if not digits:
        return "0.0"
    if 0 <= exponent < 7:
        whole = digits[: exponent + 1].ljust(exponent + 1, "0")
        return f"{whole}.{digits[exponent + 1 :] or '0'}"
    if -3 <= exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{exponent}"


def scalars(value: Json) -> Iterator[Json]:
    """Yield each value inside a value that is neither an object nor a list."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        else:
            yield one
