"""Checks ranges of numbers, and names, that are reserved or belong to extensions.

Ranges are sorted, so that a lookup among many ranges takes logarithmic time.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from log_service.http.schema_registry.languages.protobuf.tree import (
    MAX_NUMBER,
    Extensions,
    Range,
    Reserved,
    ReservedName,
)
from log_service.http.schema_registry.languages.protobuf.validation.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Numbers that are reserved or belong to extensions, sorted, with no overlap."""

    ranges: tuple[Range, ...]
    starts: tuple[int, ...]

    def holder_of(self, number: int) -> Range | None:
        """Return the range that contains a number, or None."""
        index = bisect_right(self.starts, number) - 1
        if index >= 0 and self.ranges[index].last >= number:
            return self.ranges[index]
        return None


def reserved_ranges(statements: Iterable[Reserved]) -> list[Range]:
    """Return the ranges of numbers in ``reserved`` statements."""
    return [value for each in statements for value in each.values if isinstance(value, Range)]


def extension_ranges(statements: Iterable[Extensions]) -> list[Range]:
    """Return the ranges of numbers in ``extensions`` statements."""
    return [value for each in statements for value in each.ranges]


def taken_ranges(context: Context, ranges: Iterable[Range], owner: str) -> Taken:
    """Return the ranges in order. Check that none ends before it begins, and no two overlap."""
    ordered = sorted(ranges, key=lambda each: each.start)
    for each in ordered:
        context.budget.spend()
        context.require(
            each.at,
            f"the range ends at {each.last}, before it begins",
            that=each.last >= each.start,
        )
    for before, each in pairwise(ordered):
        context.require(
            max(each.at, before.at),
            f"the numbers {each.start} to {each.last} of {owner} overlap with"
            f" {before.start} to {before.last}, which are reserved or for extensions",
            that=before.last < each.start,
        )
    return Taken(ranges=tuple(ordered), starts=tuple(each.start for each in ordered))


def check_field_ranges(context: Context, ranges: Iterable[Range], most: int = MAX_NUMBER) -> None:
    """Check that ranges of field numbers are between 1 and ``most``."""
    for each in ranges:
        context.require(each.at, "the numbers of fields begin at 1", that=each.start > 0)
        context.require(each.at, f"the highest number of a field is {most}", that=each.last <= most)


def reserved_names(context: Context, statements: Iterable[Reserved], owner: str) -> set[str]:
    """Return the reserved names, after a check of how they are written.

    A statement has either names or numbers. Editions write names without quotes, proto2 and proto3
    with quotes.
    """
    names: set[str] = set()
    for statement in statements:
        found = [each for each in statement.values if isinstance(each, ReservedName)]
        context.require(
            statement.at,
            "a reserved statement has either names or numbers",
            that=len(found) in {0, len(statement.values)},
        )
        for each in found:
            context.budget.spend()
            quotes = "without quotes" if context.is_edition else "in quotes"
            context.require(
                each.at,
                f"a reserved name stands {quotes} here",
                that=each.is_quoted is not context.is_edition,
            )
            context.require(
                each.at, f"{each.text!r} is reserved twice in {owner}", that=each.text not in names
            )
            names.add(each.text)
    return names
