"""The one error that matters out of a group.

trio raises groups, because several tasks may fail at once. The operator wants a sentence: what a disk did, whatever else failed
for its sake, or the first error that a task raised by itself; neither the cancellations that followed from it nor the errors that others
made while they were cancelled.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from log_service.common.errors import ErrorCode, KafkaError, StorageError


@contextmanager
def one_error() -> Iterator[None]:
    """Raise a group's first ``StorageError``, else its first error, in its place; a group of nothing but cancellations stays as it is."""
    try:
        yield
    except BaseExceptionGroup as group:
        errors = list(_errors(group))
        if not errors:
            raise
        leaf = next((error for error in errors if isinstance(error, StorageError)), errors[0])
        if isinstance(leaf, KafkaError) and leaf.code is ErrorCode.KAFKA_STORAGE_ERROR:
            raise StorageError(str(leaf)) from leaf
        raise leaf from leaf.__cause__


def _errors(group: BaseExceptionGroup[BaseException]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _errors(error)
        elif isinstance(error, Exception):
            yield error
