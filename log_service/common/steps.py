"""Work in steps: a generator that yields between steps, so that other work can run.

Its return value is the result. Decides nothing.
"""

from collections.abc import Generator, Iterable
from heapq import merge
from typing import Any, TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]

SORTED_PER_STEP = 1_000


def finish(steps: Steps[T]) -> T:
    """Take all steps that are left, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


def sorted_in_steps(items: Iterable[Any]) -> Steps[list[Any]]:
    """Return the items in their order. Few of them take a single step."""
    left = list(items)
    runs = []
    for start in range(0, len(left), SORTED_PER_STEP):
        if start:
            yield
        runs.append(sorted(left[start : start + SORTED_PER_STEP]))
    if len(runs) <= 1:
        return runs[0] if runs else []
    found: list[Any] = []
    for item in merge(*runs):
        found.append(item)
        if len(found) % SORTED_PER_STEP == 0:
            yield
    return found
