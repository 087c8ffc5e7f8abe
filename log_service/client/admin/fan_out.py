"""Calls several brokers at once, and merges their responses into one result.

An item is a topic, a partition or another subject of the call. If some items fail, the results of
the others are not lost. ``Collected`` keeps the errors by item, and raises ``ItemsFailed`` with
errors and results.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

import trio

from log_service.client.admin.values import ItemsFailed
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


async def gather(calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run all calls at once, and return their results in the order of the calls.

    Raises:
        KafkaError: a call failed. All calls have ended. Of several errors, this is the one of the
            call that comes first in ``calls``.
    """
    pending = list(calls)
    if len(pending) == 1:
        return [await pending[0]()]
    results: dict[int, T] = {}
    errors: dict[int, KafkaError] = {}

    async def run(index: int, call: Callable[[], Awaitable[T]]) -> None:
        try:
            results[index] = await call()
        except KafkaError as error:
            errors[index] = error

    async with trio.open_nursery() as nursery:
        for index, call in enumerate(pending):
            nursery.start_soon(run, index, call)
    if errors:
        raise errors[min(errors)]
    return [results[index] for index in range(len(pending))]


class Collected:
    """Collects the errors of the items of one call, such as topics."""

    def __init__(self) -> None:
        self.errors: dict[object, KafkaError] = {}
        self._unsettled: KafkaError | None = None

    def note(self, item: object, code: int, text: str | None, what: str = "") -> bool:
        """Record the error code of an item, and return whether the code is an error.

        ``what`` is put before the item in the error's text.

        Raises:
            KafkaError: the error is retriable. The caller must try the whole call again.
        """
        if code == ErrorCode.NONE:
            return False
        name = ErrorCode.of(code)
        error = KafkaError(
            name, text if text and str(item) in text else f"{what}{item}: {text or name.name}"
        )
        if error.is_retriable and name not in TERMINAL_FOR_ADMIN:
            raise error
        self.errors[item] = error
        return True

    def settle(self, item: object, code: int, text: str | None, what: str = "") -> bool:
        """Record the outcome of an item, and return whether the outcome is final.

        A retriable error is not final. ``raise_unsettled`` raises it.
        """
        try:
            self.note(item, code, text, what)
        except KafkaError as error:
            self._unsettled = self._unsettled or error
            return False
        return True

    def raise_unsettled(self) -> None:
        """Raise the error of an item that must be tried again, if there is one.

        The caller sends such items again, and leaves out those with a final outcome.

        Raises:
            KafkaError: the first retriable error of an item since the last call.
        """
        unsettled, self._unsettled = self._unsettled, None
        if unsettled is not None:
            raise unsettled

    def finish(self, results: Mapping[K, V]) -> dict[K, V]:
        """Return ``results``, unless an item failed.

        Raises:
            ItemsFailed: some items failed.
        """
        if self.errors:
            raise ItemsFailed(self.errors, results)
        return dict(results)


TERMINAL_FOR_ADMIN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.ELECTION_NOT_NEEDED,
    }
)
"""Errors that Kafka calls retriable, but that are the final result of an admin's call.

A producer retries if its topic is unknown, because the topic may have just been created. An admin
that asks about a topic gets this as the result.
"""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partition numbers by topic, in the order of ``partitions``."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped
