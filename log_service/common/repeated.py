"""Finds names that occur more than once in a request."""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def repeated(values: Sequence[T]) -> Collection[T]:
    """Return each value that occurs more than once, in the order of the values.

    The cost is low if no value does.
    """
    if len(set(values)) == len(values):
        return ()
    return {value: None for value, count in Counter(values).items() if count > 1}.keys()
