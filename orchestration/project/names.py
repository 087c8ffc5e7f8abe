"""Reads names that people give as one text or as a list of texts.

A text is one name, never a list of its letters.
"""

from collections.abc import Sequence


def names_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return names, such as those of columns, as a tuple. A single name may be given as a text.

    >>> names_of("id"), names_of(["id", "day"])
    (('id',), ('id', 'day'))
    """
    return (given,) if isinstance(given, str) else tuple(given)
