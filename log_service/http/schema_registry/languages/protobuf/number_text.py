"""Converts between numbers and their texts in a schema."""

import math
import struct

SPECIAL_FLOATS = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}


def integer_of(text: str) -> int:
    """Parse an integer, which may be octal or hexadecimal and have a minus sign."""
    digits = text.removeprefix("-")
    base = 8 if digits[0] == "0" else 10
    value = int(digits, 16 if digits[:2] in {"0x", "0X"} else base)
    return -value if text[0] == "-" else value


def is_integer_text(text: str) -> bool:
    """Return whether a number is written as an integer."""
    digits = text.removeprefix("-")
    return digits.isdigit() or digits[:2] in {"0x", "0X"}


def float_value(text: str) -> float:
    """Parse a number in any notation as a float."""
    if not is_integer_text(text):
        return float(text)
    try:
        return float(integer_of(text))
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def float_text(number: float, *, is_float: bool) -> str:
    """Return the text of a float or double, as C++ prints it, that reads back as the same number.

    A float has at most six digits if these suffice, or else nine. For a double it is 15 or 17.
    """
    if math.isnan(number):
        return "nan"
    short, long = ("%.6g", "%.9g") if is_float else ("%.15g", "%.17g")
    text = short % number
    read = as_float32(float(text)) if is_float else float(text)
    return text if read == number else long % number


def as_float32(number: float) -> float:
    """Round a number to a float of 32 bits."""
    try:
        found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return found
