"""Reads names as people give them: one as it is, or several in a list.

A text is a name, never a list of its letters.
"""

from collections.abc import Sequence


def names_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return names, e.g. of columns. A single one may be given as it is.

    >>> names_of("id"), names_of(["id", "day"])
    (('id',), ('id', 'day'))
    """
    return (given,) if isinstance(given, str) else tuple(given)
