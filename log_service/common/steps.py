"""Work in steps: a generator that yields between steps, so that other work can run.

The return value of the generator is the result of the work.
"""

from collections.abc import Generator, Iterable
from heapq import merge
from typing import Any, TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]

SORTED_PER_STEP = 1_000


def finish(steps: Steps[T]) -> T:
    """Run all remaining steps without a pause, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


def sorted_in_steps(items: Iterable[Any]) -> Steps[list[Any]]:
    """Return the items sorted. A few items are sorted in a single step."""
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
