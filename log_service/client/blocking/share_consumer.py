"""The share consumer for programs without an event loop. It has the same methods without ``await``,
usable from any thread.

Each method is one call through a ``Portal`` into the thread that runs the consumer. A loop over the consumer is one call for each poll.

Invariant: a record that was acquired is returned once in each delivery, also where Ctrl-C interrupts a poll.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from log_service.client.blocking.calls import Blocking, blocking_sync
from log_service.client.share.consumer import ShareConsumer
from log_service.client.share.held_records import HeldShareRecords, nothing
from log_service.client.share.records import ShareRecord
from log_service.common.types import TopicPartition

T = TypeVar("T")


class BlockingShareConsumer(Blocking[ShareConsumer]):
    """``ShareConsumer`` for threads, with its settings.

    ``on_acknowledged`` is called in the consumer's own thread.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(ShareConsumer(bootstrap_servers, **settings))
        self._is_woken = False
        self._held = HeldShareRecords()

    acknowledge = blocking_sync(ShareConsumer.acknowledge)
    accept = blocking_sync(ShareConsumer.accept)
    release = blocking_sync(ShareConsumer.release)
    reject = blocking_sync(ShareConsumer.reject)
    renew = blocking_sync(ShareConsumer.renew)
    metrics = blocking_sync(ShareConsumer.metrics)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._tell()
        finally:
            super().__exit__(kind, error, trace)

    def close(self) -> None:
        """Close the consumer and its thread; acknowledges as leaving its block does. Idempotent."""
        try:
            self._tell()
        finally:
            super().close()

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that records are taken of now, sorted."""
        return self._portal.call_sync(lambda: self._client.assignment)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed."""
        return self._client.subscription

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is this consumer's own, as leaders told; None before the first response."""
        return self._portal.call_sync(lambda: self._client.acquisition_lock_timeout_ms)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Take records of these topics. Raises as ``ShareConsumer.subscribe``."""
        self._portal.call(partial(self._client.subscribe, topics))

    def unsubscribe(self) -> None:
        """Leave the group, as closing does."""
        self._call(self._client.unsubscribe)

    def poll(self, max_records: int | None = None, timeout_ms: int = 1_000) -> list[ShareRecord]:
        """Return records as ``ShareConsumer.poll``. Where Ctrl-C interrupts it, what had arrived already comes with the next poll."""
        self._fill(max_records, timeout_ms)
        self._is_woken = False
        return self._held.take_all()

    def wakeup(self) -> None:
        """End the poll that waits, or else the next one, at once; a loop over the consumer ends. For any thread and signal handlers."""
        self._is_woken = True
        self._portal.submit(self._client.wakeup)

    def __iter__(self) -> Iterator[ShareRecord]:
        """Yield one record after the other, until ``wakeup``.

        With implicit acknowledgement a record is accepted once the loop asks for the next. What a loop that is left has not yielded comes
        again with the next poll, and is free for others when the consumer closes.
        """
        held = self._held
        while not self._is_woken:
            if not held:
                self._fill(None, self._client.config.default_api_timeout_ms)
            while held and not self._is_woken:
                yield held.next_of_loop()
                held.note_passed()
        self._is_woken = False

    def commit(self, timeout_ms: int | None = None) -> None:
        """Send what was said, and wait. Raises as ``ShareConsumer.commit``."""
        self._call(partial(self._client.commit, timeout_ms))

    def commit_soon(self) -> None:
        """Send what was said without waiting."""

        async def commit_soon() -> None:
            self._client.commit_soon()

        self._call(commit_soon)

    def _fill(self, max_records: int | None, timeout_ms: int) -> None:
        """Poll, and hold what came before the caller hears of it."""

        async def poll() -> None:
            self._held.extend(await self._client.poll(max_records, timeout_ms))

        self._call(poll)

    def _call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call it once the consumer knows what became of the records that came before."""

        async def call() -> T:
            self._held.take_outcome().tell(self._client)
            return await function()

        return self._portal.call(call)

    def _tell(self) -> None:
        """Pass on what became of the records, also where Ctrl-C interrupts it.

        Closing accepts what was not put back.
        """
        if self.is_open:
            self._call(nothing)
