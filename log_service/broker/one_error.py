"""Picks the one error that an operator has to know out of a group of errors.

trio raises groups, because several tasks may fail at once. A disk's error comes first, since other
tasks may have failed because of it. Next comes the first error that a task raised by itself.
Cancellations that follow from this error are left out, and so are errors of cancelled tasks.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from log_service.common.errors import ErrorCode, KafkaError, StorageError


@contextmanager
def one_error() -> Iterator[None]:
    """Raise a group's first ``StorageError``, else its first error, in place of the group.

    A group of cancellations alone stays as it is.
    """
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
