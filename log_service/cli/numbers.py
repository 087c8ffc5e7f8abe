"""Reads numbers on the command line, with error texts that a person understands.

The types are click's ranges under other names, because click's error text is that 'x' is not a
valid 'integer range'.
"""

from typing import Any

import click


class WholeNumber(click.IntRange):
    """A whole number within bounds, which also has to fit into a signed number of ``bits`` bits.

    A request's field has that size.
    """

    name = "whole number"

    def __init__(self, min: int | None = None, max: int | None = None, *, bits: int = 64) -> None:  # noqa: A002 - click's names
        super().__init__(min, max)
        self._largest = 2 ** (bits - 1) - 1

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        return checked_size(
            super().convert(value, param, ctx), self, param, ctx, largest=self._largest
        )


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"


def checked_size(
    number: int,
    kind: click.ParamType[int],
    param: click.Parameter | None,
    ctx: click.Context | None,
    *,
    largest: int = 2**63 - 1,
) -> int:
    """Return ``number`` if its absolute value is at most ``largest``, otherwise raise.

    Raises:
        BadParameter: the number is too large for the request's field.
    """
    if not -largest <= number <= largest:
        kind.fail(f"{number} is too large: at most {largest} is possible", param, ctx)
    return number
