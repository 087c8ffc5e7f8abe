"""Passes the records of a poll through interceptors before the application gets them.

If an interceptor raises, the records of the poll are read again.
"""

from collections.abc import Callable, Iterable

from log_service.client.consumer.records import ConsumerRecord
from log_service.client.consumer.subscriptions import Subscriptions

ConsumerInterceptor = Callable[[list[ConsumerRecord]], list[ConsumerRecord]]
"""Sees the records of a poll and may change them or leave some out.

An exception is raised by the poll, and those records are read again.
"""


def intercepted(
    records: list[ConsumerRecord],
    interceptors: Iterable[ConsumerInterceptor],
    subscriptions: Subscriptions,
) -> list[ConsumerRecord]:
    """Pass the records through the interceptors. If one raises, the records are read again."""
    seen = records
    try:
        for interceptor in interceptors:
            seen = _listed(interceptor(seen))
    except BaseException:
        for record in reversed(records):
            subscriptions.of(record.topic_partition).seek(record.offset)
        raise
    return seen


def _listed(records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """Return the list of records that an interceptor returned.

    Raises TypeError for other values, because None, for example, would skip all records.
    """
    if not isinstance(records, list):
        raise TypeError(f"an interceptor returns a list of records, not {type(records).__name__}")
    return records
