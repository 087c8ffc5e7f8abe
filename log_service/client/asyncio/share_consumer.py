"""The share consumer for programs on asyncio.

Each method is one call through a ``Bridge`` into the thread that runs the consumer. A loop over the
consumer makes one call for each poll.

Invariant: an acquired record is returned once in each delivery, whatever is cancelled. Records that
arrive after their task was cancelled come with the next poll.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from log_service.client.asyncio.calls import OnAsyncio, awaited, awaited_sync
from log_service.client.share.acknowledgements import AcknowledgeCallback
from log_service.client.share.consumer import ShareConsumer
from log_service.client.share.held_records import HeldShareRecords, nothing
from log_service.client.share.records import ShareRecord
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition

T = TypeVar("T")


class AsyncioShareConsumer(OnAsyncio[ShareConsumer]):
    """``ShareConsumer`` for tasks on asyncio. Settings are those of ``ShareConsumer``.

    ``on_acknowledged`` runs on the event loop.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        on_acknowledged: AcknowledgeCallback | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(ShareConsumer(bootstrap_servers, **settings))
        if on_acknowledged is not None:
            self._client.on_acknowledged = self._on_loop(on_acknowledged)
        self._is_woken = False
        self._held = HeldShareRecords()

    subscribe = awaited(ShareConsumer.subscribe)
    acknowledge = awaited_sync(ShareConsumer.acknowledge)
    accept = awaited_sync(ShareConsumer.accept)
    release = awaited_sync(ShareConsumer.release)
    reject = awaited_sync(ShareConsumer.reject)
    renew = awaited_sync(ShareConsumer.renew)
    metrics = awaited_sync(ShareConsumer.metrics)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._settle_passed()
        finally:
            await super().__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Close the consumer and its thread. Idempotent.

        It acknowledges records as leaving the ``async with`` block does.
        """
        try:
            await self._settle_passed()
        finally:
            await super().close()

    async def assignment(self) -> list[TopicPartition]:
        """Return the partitions of which the consumer acquires records now, sorted."""
        return await self._bridge.call_sync(lambda: self._client.assignment)

    async def acquisition_lock_timeout_ms(self) -> int | None:
        """Return the duration of acquisition locks in ms, as leaders reported it.

        It is None before the first response.
        """
        return await self._bridge.call_sync(lambda: self._client.acquisition_lock_timeout_ms)

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics."""
        return self._client.subscription

    async def unsubscribe(self) -> None:
        """Leave the group, as closing does."""
        await self._call(self._client.unsubscribe)

    async def poll(
        self, max_records: int | None = None, timeout_ms: int = 1_000
    ) -> list[ShareRecord]:
        """Return records as ``ShareConsumer.poll``.

        If the task is cancelled, the next poll returns the records that had arrived.
        """
        await self._call(partial(self._client.poll, max_records, timeout_ms), self._held.extend)
        self._is_woken = False
        return self._held.take_all()

    def wakeup(self) -> None:
        """End the waiting poll at once, or else the next one. A loop over the consumer ends.

        The poll returns the ready records, maybe none, and raises no error because of this.
        Any thread and any signal handler may call this.
        """
        self._is_woken = True
        self._portal.submit(self._client.wakeup)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord:
        """Return the next record. It waits until there is one, or until ``wakeup``.

        With implicit acknowledgement a record is accepted when the loop asks for the next one.
        """
        self._held.note_passed()
        while not (self._held or self._is_woken):
            await self._call(
                partial(self._client.poll, None, self._client.config.default_api_timeout_ms),
                self._held.extend,
            )
        if self._is_woken:
            self._is_woken = False
            raise StopAsyncIteration
        return self._held.next_of_loop()

    async def commit(self, timeout_ms: int | None = None) -> None:
        """Send the acknowledgements, and wait for the responses.

        Raises as ``ShareConsumer.commit``.
        """
        await self._call(partial(self._client.commit, timeout_ms))

    async def commit_soon(self) -> None:
        """Send the acknowledgements without waiting for the responses."""

        async def commit_soon() -> None:
            self._client.commit_soon()

        await self._call(commit_soon)

    async def _call(
        self, function: Callable[[], Awaitable[T]], on_result: Callable[[T], object] | None = None
    ) -> T:
        """Tell the consumer which records were passed or not seen, then call ``function``.

        A record is *passed* once the loop has asked for the next one.
        """
        self._bridge.require_loop()
        outcome = self._held.take_outcome()

        async def call() -> T:
            outcome.settle_passed(self._client)
            return await function()

        return await self._bridge.call(call, on_result)

    async def _settle_passed(self) -> None:
        """Tell the consumer which records were passed or not seen, even if the task is cancelled.

        Without this, closing would also accept the records that the application has not seen.
        """
        if self._bridge.is_usable:
            await self._call(nothing)

    def _on_loop(self, callback: AcknowledgeCallback) -> AcknowledgeCallback:
        def report(where: TopicPartition, offsets: Sequence[int], error: KafkaError | None) -> None:
            self._bridge.put(partial(callback, where, offsets, error))

        return report
