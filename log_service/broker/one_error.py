"""The one error that matters out of a group.

trio raises groups, because several tasks may fail at once. Whoever starts a node wants a sentence: the first error that a task raised by
itself, and neither the cancellations that followed from it nor the errors that others made while they were cancelled.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_error() -> Iterator[None]:
    """Raise the first error of a group in the group's place; a group of nothing but cancellations stays as it is."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaf = _first_error(group)
        if leaf is None:
            raise
        raise leaf from leaf.__cause__


def _first_error(group: BaseExceptionGroup[BaseException]) -> Exception | None:
    for error in group.exceptions:
        found = _first_error(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, Exception):
            return found
    return None
