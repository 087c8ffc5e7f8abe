r"""Java's .properties syntax: ``key=value`` lines with continuations and escapes.

Kafka's own files use it. This module parses lines and knows no key. Blank lines and lines that
begin with ``#`` or ``!`` are skipped. A line that ends with an odd number of backslashes continues
in the next one, without that line's leading blanks. ``=``, ``:`` or blanks end the key. Each of
``\t \n \r \f \uXXXX`` means one character, and any other escaped character means itself. If a key
is repeated, its last value counts, as in Java.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from log_service.common.errors import ConfigError

BLANKS = " \t\f"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedKey:
    """A key on several lines of a file. The value of the last line counts."""

    name: str
    line_numbers: tuple[int, ...]

    @property
    def text(self) -> str:
        """The name, its lines, and the line that counts.

        Values are omitted because they may be secret.
        """
        *before, last = self.line_numbers
        return (
            f"{self.name} is on line {' and '.join(map(str, before))}, and again on line {last},"
            " whose value holds"
        )


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of a file's text, in their order.

    Raises:
        ConfigError: a ``\\u`` that is not followed by four hexadecimal digits.
    """
    return {name: value for _, name, value in _pairs(text)}


def repeated_keys(text: str) -> tuple[RepeatedKey, ...]:
    """Return the keys that a file's text sets more than once. Raises as ``parse_properties``."""
    lines: dict[str, list[int]] = {}
    for line_number, name, _ in _pairs(text):
        lines.setdefault(name, []).append(line_number)
    return tuple(
        RepeatedKey(name=name, line_numbers=tuple(numbers))
        for name, numbers in lines.items()
        if len(numbers) > 1
    )


def _pairs(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (number of its first line, key, value) of each property."""
    for line_number, line in _logical_lines(text):
        key_end = _key_end(line)
        value = line[key_end:].lstrip(BLANKS)
        if value[:1] in {"=", ":"}:
            value = value[1:].lstrip(BLANKS)
        yield line_number, _unescape(line[:key_end], line_number), _unescape(value, line_number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number of its first line, text) of each property line, with continuations joined."""
    parts: list[str] = []
    first_line = 0
    for number, natural_line in enumerate(LINE_END.split(text), start=1):
        line = natural_line.lstrip(BLANKS)
        if not any(parts):  # even after a line with only a continuation mark
            parts = []
            if not line or line[0] in "#!":
                continue
            first_line = number
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if is_continued else line)
        if not is_continued:
            yield first_line, "".join(parts)
            parts = []
    if parts:
        yield first_line, "".join(parts)


def _key_end(line: str) -> int:
    is_escaped = False
    for position, character in enumerate(line):
        if is_escaped:
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif character in "=:" or character in BLANKS:
            return position
    return len(line)


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            parts.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            parts.append(_unicode(text[position : position + 4], line_number))
            position += 4
        else:
            parts.append(ESCAPES.get(escaped, escaped))
    return "".join(parts)


def _unicode(digits: str, line_number: int) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
        raise ConfigError(
            f"line {line_number}: \\u must be followed by four hexadecimal digits, not {digits!r}"
        )
    return chr(int(digits, 16))
