"""The share consumer for programs without an event loop.

It has the same methods without ``await``, and any thread may call them. Each method is one call
through a ``Portal`` into the thread that runs the consumer. A loop over the consumer makes one call
for each poll.

Invariant: an acquired record is returned once in each delivery, even if Ctrl-C interrupts a poll.
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
    """``ShareConsumer`` for threads. Settings are those of ``ShareConsumer``.

    ``on_acknowledged`` runs in the consumer's own thread.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._settle_passed()
        finally:
            super().__exit__(kind, error, trace)

    def close(self) -> None:
        """Close the consumer and its thread. Idempotent.

        It acknowledges records as leaving the ``with`` block does.
        """
        try:
            self._settle_passed()
        finally:
            super().close()

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions of which the consumer acquires records now, sorted."""
        return self._portal.call_sync(lambda: self._client.assignment)

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics."""
        return self._client.subscription

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """The duration of acquisition locks in ms, as leaders reported it.

        It is None before the first response.
        """
        return self._portal.call_sync(lambda: self._client.acquisition_lock_timeout_ms)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics. Raises as ``ShareConsumer.subscribe``."""
        self._portal.call(partial(self._client.subscribe, topics))

    def unsubscribe(self) -> None:
        """Leave the group, as closing does."""
        self._call(self._client.unsubscribe)

    def poll(self, max_records: int | None = None, timeout_ms: int = 1_000) -> list[ShareRecord]:
        """Return records as ``ShareConsumer.poll``.

        If Ctrl-C interrupts it, the next poll returns the records that had arrived.
        """
        self._fill(max_records, timeout_ms)
        self._is_woken = False
        return self._held.take_all()

    def wakeup(self) -> None:
        """End the waiting poll at once, or else the next one. A loop over the consumer ends.

        The poll returns the ready records, maybe none, and raises no error because of this.
        Any thread and any signal handler may call this.
        """
        self._is_woken = True
        self._portal.submit(self._client.wakeup)

    def __iter__(self) -> Iterator[ShareRecord]:
        """Yield one record after the other, until ``wakeup``.

        With implicit acknowledgement a record is accepted when the loop asks for the next one. If
        the loop is left early, the next poll returns the remaining records. If this consumer closes
        before that, they become available to other consumers.
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
        """Send the acknowledgements, and wait for the responses.

        Raises as ``ShareConsumer.commit``.
        """
        self._call(partial(self._client.commit, timeout_ms))

    def commit_soon(self) -> None:
        """Send the acknowledgements without waiting for the responses."""

        async def commit_soon() -> None:
            self._client.commit_soon()

        self._call(commit_soon)

    def _fill(self, max_records: int | None, timeout_ms: int) -> None:
        """Poll, and add the records to the held ones in the client's thread.

        So they are not lost if Ctrl-C interrupts the calling thread.
        """

        async def poll() -> None:
            self._held.extend(await self._client.poll(max_records, timeout_ms))

        self._call(poll)

    def _call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Tell the consumer which records were passed or not seen, then call ``function``.

        A record is *passed* once the loop has asked for the next one.
        """

        async def call() -> T:
            self._held.take_outcome().settle_passed(self._client)
            return await function()

        return self._portal.call(call)

    def _settle_passed(self) -> None:
        """Tell the consumer which records were passed or not seen.

        Without this, closing would also accept the records that the application has not seen. The
        consumer learns this even if Ctrl-C interrupts the call.
        """
        if self.is_open:
            self._call(nothing)
