"""Compares strings, numbers and listed values.

A removed or looser limit is compatible, a new or tighter one is not. Limits are compared
exactly. Confluent's registry compares numbers as doubles instead, and ``multipleOf`` as integers.
"""

from dataclasses import dataclass

from log_service.http.schema_registry.languages.json_schema.changes import Change
from log_service.http.schema_registry.languages.json_schema.comparison import Notebook
from log_service.http.schema_registry.languages.json_schema.shapes import (
    Number,
    Numbers,
    Strings,
    Values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A keyword with a limit, and the kinds of change that the limit may undergo."""

    keyword: str
    added: Change
    removed: Change
    increased: Change
    decreased: Change


def _limit(keyword: str, name: str) -> Limit:
    return Limit(
        keyword=keyword,
        added=Change[f"{name}_ADDED"],
        removed=Change[f"{name}_REMOVED"],
        increased=Change[f"{name}_INCREASED"],
        decreased=Change[f"{name}_DECREASED"],
    )


MAX_LENGTH = _limit("maxLength", "MAX_LENGTH")
MIN_LENGTH = _limit("minLength", "MIN_LENGTH")
MAXIMUM = _limit("maximum", "MAXIMUM")
MINIMUM = _limit("minimum", "MINIMUM")
EXCLUSIVE_MAXIMUM = _limit("exclusiveMaximum", "EXCLUSIVE_MAXIMUM")
EXCLUSIVE_MINIMUM = _limit("exclusiveMinimum", "EXCLUSIVE_MINIMUM")
MAX_PROPERTIES = _limit("maxProperties", "MAX_PROPERTIES")
MIN_PROPERTIES = _limit("minProperties", "MIN_PROPERTIES")
MAX_ITEMS = _limit("maxItems", "MAX_ITEMS")
MIN_ITEMS = _limit("minItems", "MIN_ITEMS")
MAX_CONTAINS = _limit("maxContains", "MAX_CONTAINS")
MIN_CONTAINS = _limit("minContains", "MIN_CONTAINS")


def compare_limit(
    notes: Notebook, limit: Limit, writer: Number | None, reader: Number | None
) -> None:
    """Note whether a limit was added, removed, increased or decreased."""
    if writer is None and reader is None:
        return
    if writer is None:
        notes.note(limit.added, limit.keyword)
    elif reader is None:
        notes.note(limit.removed, limit.keyword)
    elif writer < reader:
        notes.note(limit.increased, limit.keyword)
    elif writer > reader:
        notes.note(limit.decreased, limit.keyword)


def compare_strings(notes: Notebook, writer: Strings, reader: Strings) -> None:
    """Note how the limits of strings differ."""
    compare_limit(notes, MAX_LENGTH, writer.max_length, reader.max_length)
    compare_limit(notes, MIN_LENGTH, writer.min_length, reader.min_length)
    if writer.pattern == reader.pattern:
        return
    if writer.pattern is None:
        notes.note(Change.PATTERN_ADDED, "pattern")
    elif reader.pattern is None:
        notes.note(Change.PATTERN_REMOVED, "pattern")
    else:
        notes.note(Change.PATTERN_CHANGED, "pattern")


def compare_numbers(notes: Notebook, writer: Numbers, reader: Numbers) -> None:
    """Note how the limits of numbers differ."""
    compare_limit(notes, MAXIMUM, writer.maximum, reader.maximum)
    compare_limit(notes, MINIMUM, writer.minimum, reader.minimum)
    compare_limit(notes, EXCLUSIVE_MAXIMUM, writer.exclusive_maximum, reader.exclusive_maximum)
    compare_limit(notes, EXCLUSIVE_MINIMUM, writer.exclusive_minimum, reader.exclusive_minimum)
    _compare_multiples(notes, writer.multiple_of, reader.multiple_of)
    if writer.is_integer != reader.is_integer:
        notes.note(Change.TYPE_EXTENDED if writer.is_integer else Change.TYPE_NARROWED)


def compare_values(notes: Notebook, writer: Values, reader: Values) -> None:
    """Note whether the values of an enumeration were extended, narrowed or changed."""
    if writer.keys == reader.keys:
        return
    if writer.keys < reader.keys:
        notes.note(Change.ENUM_ARRAY_EXTENDED, "enum")
    elif writer.keys > reader.keys:
        notes.note(Change.ENUM_ARRAY_NARROWED, "enum")
    else:
        notes.note(Change.ENUM_ARRAY_CHANGED, "enum")


def _compare_multiples(notes: Notebook, writer: Number | None, reader: Number | None) -> None:
    if writer == reader:
        return
    if writer is None:
        notes.note(Change.MULTIPLE_OF_ADDED, "multipleOf")
    elif reader is None:
        notes.note(Change.MULTIPLE_OF_REMOVED, "multipleOf")
    elif _is_multiple(reader, writer):
        notes.note(Change.MULTIPLE_OF_EXPANDED, "multipleOf")
    elif _is_multiple(writer, reader):
        notes.note(Change.MULTIPLE_OF_REDUCED, "multipleOf")
    else:
        notes.note(Change.MULTIPLE_OF_CHANGED, "multipleOf")


def _is_multiple(number: Number, of: Number) -> bool:
    """Whether a number is an integer multiple of another. Nothing is a multiple of zero here."""
    numerator, denominator = number.as_integer_ratio()
    of_numerator, of_denominator = of.as_integer_ratio()
    divisor = of_numerator * denominator
    return divisor != 0 and numerator * of_denominator % divisor == 0
