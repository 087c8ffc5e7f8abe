"""The consumer for programs on asyncio.

Each method is one call through a ``Bridge`` into the thread that runs the consumer; a loop over the consumer is one call for each poll, not
for each record.

Invariants: a record that was polled is returned once, whatever is cancelled: what arrives after its task was cancelled is held, and comes
first when the next one polls. What is held counts as not consumed: it is not committed, and read again after a seek.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial, update_wrapper
from re import Pattern
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast, overload

from log_service.client.admin.values import OffsetAndMetadata
from log_service.client.asyncio.calls import OnAsyncio, awaited, awaited_sync
from log_service.client.consumer.commits import CommitCallback
from log_service.client.consumer.consumer import Consumer
from log_service.client.consumer.held_records import HeldRecords, Positions, call_after_going_back, consumed_before, go_back, to_commit
from log_service.client.consumer.rebalance import RebalanceCallback
from log_service.client.consumer.records import ConsumerRecord
from log_service.client.consumer.subscriptions import SubscriptionPattern
from log_service.client.portal import Departed
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")


@overload
def moving(
    method: Callable[Concatenate[Consumer, P], Awaitable[T]],
) -> Callable[Concatenate["AsyncioConsumer", P], Coroutine[Any, Any, T]]: ...


@overload
def moving(method: Callable[Concatenate[Consumer, P], None]) -> Callable[Concatenate["AsyncioConsumer", P], Coroutine[Any, Any, None]]: ...


def moving(method: Callable[Concatenate[Consumer, P], Any]) -> Callable[Concatenate["AsyncioConsumer", P], Coroutine[Any, Any, Any]]:
    """Return a method that changes what is read.

    Held records are dropped, and read again where their partition stays where it is.
    """

    async def call(self: "AsyncioConsumer", /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return await self._call_moving(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


class AsyncioConsumer(OnAsyncio[Consumer]):
    """``Consumer`` for tasks on asyncio. Settings are those of ``Consumer``.

    Rebalance callbacks are called on the event loop, and may be async, while ``poll`` or ``close`` waits; so is ``on_commit``.
    Deserializers and interceptors are called in the consumer's own thread. ``lag``, ``current_lag`` and ``metrics`` count from behind what
    was fetched for a loop; ``position`` and ``commit`` go by what the loop has returned.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(Consumer(bootstrap_servers, **settings))
        self._is_woken = False
        self._held = HeldRecords()

    unsubscribe = moving(Consumer.unsubscribe)
    assign = moving(Consumer.assign)
    seek = moving(Consumer.seek)
    seek_to_beginning = moving(Consumer.seek_to_beginning)
    seek_to_end = moving(Consumer.seek_to_end)
    seek_to_committed = moving(Consumer.seek_to_committed)
    seek_to_time = moving(Consumer.seek_to_time)
    pause = moving(Consumer.pause)
    resume = awaited_sync(Consumer.resume)
    current_lag = awaited(Consumer.current_lag)
    lag = awaited_sync(Consumer.lag)
    beginning_offsets = awaited(Consumer.beginning_offsets)
    end_offsets = awaited(Consumer.end_offsets)
    offsets_for_times = awaited(Consumer.offsets_for_times)
    partitions_for = awaited(Consumer.partitions_for)
    committed = awaited(Consumer.committed)
    enforce_rebalance = awaited_sync(Consumer.enforce_rebalance)
    group_metadata = awaited_sync(Consumer.group_metadata)
    metrics = awaited_sync(Consumer.metrics)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            await self._return_held()
        finally:
            await super().__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Close the consumer and its thread; commits as leaving its block does. Idempotent, and possible from any event loop.

        From another loop than its own it commits only where no record is held.

        Raises:
            KafkaError: INVALID_REQUEST, a rebalance callback called it, for which the consumer waits.
        """
        self._bridge.require_no_callback()
        try:
            await self._return_held()
        finally:
            await self._bridge.close(Departed() if self._held else None)

    # What is read

    async def subscribe(
        self,
        topics: Iterable[str] | Pattern[str] | SubscriptionPattern,
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics with the other members of the group, as ``Consumer.subscribe``.

        Callbacks are called on the loop.
        """
        callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        on_loop = {name: self._on_loop(callback) for name, callback in callbacks.items() if callback is not None}
        await self._call_moving(partial(self._client.subscribe, topics, **on_loop))

    async def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read now, sorted."""
        return await self._bridge.call_sync(lambda: self._client.assignment)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed."""
        return self._client.subscription

    async def paused(self) -> list[TopicPartition]:
        """Return the partitions that are paused."""
        return await self._bridge.call_sync(lambda: self._client.paused)

    # Records

    async def poll(self, max_records: int | None = None, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Return records as ``Consumer.poll``. Where it is cancelled, what had arrived already is what the next poll or loop returns.

        Raises as ``Consumer.poll``.
        """
        self._bridge.require_loop()
        if not self._held:
            await self._bridge.call(partial(self._client.poll, max_records, timeout_ms), self._held.extend)
            self._is_woken = False
        return self._held.take(self._client.config.max_poll_records if max_records is None else max_records)

    def wakeup(self) -> None:
        """End the poll that waits, or else the next one, at once; a loop over the consumer ends. For any thread and signal handlers."""
        self._is_woken = True
        self._portal.submit(self._client.wakeup)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record, waiting until there is one, or ``wakeup``.

        Leaving the loop or a cancellation loses nothing.
        """
        held = self._held
        while not (held or self._is_woken):
            timeout_ms = self._client.config.default_api_timeout_ms
            await self._bridge.call(partial(self._client.poll, None, timeout_ms), held.extend)
        if self._is_woken:
            self._is_woken = False
            raise StopAsyncIteration
        return held.popleft()

    # Positions and commits

    async def position(self, topic_partition: TopicPartition) -> int:
        """Return the offset of the next record that is returned. Raises as ``Consumer.position``."""
        held = self._held.firsts().get(topic_partition)
        found = await self._bridge.call(partial(self._client.position, topic_partition))
        return found if held is None else held.offset

    async def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that ``commit`` commits by itself.

        They lie behind all returned records, where not committed yet.
        """
        return await self._bridge.call_sync(partial(consumed_before, self._client, self._held.firsts()))

    async def commit(self, positions: Positions | None = None) -> None:
        """Commit these offsets (default: behind all records that were returned). Raises as ``Consumer.commit``.

        Where it is cancelled, the commit may have been made or not.
        """
        firsts = self._held.firsts()

        async def commit() -> None:
            await self._client.commit(to_commit(self._client, positions, firsts))

        await self._bridge.call(commit)

    async def commit_soon(self, positions: Positions | None = None, on_commit: CommitCallback | None = None) -> None:
        """Commit without waiting for it; ``on_commit`` hears on the loop how it went. Raises as ``Consumer.commit_soon``."""
        firsts = self._held.firsts()

        def report(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
            self._bridge.put(partial(cast(CommitCallback, on_commit), offsets, error))

        def commit_soon() -> None:
            self._client.commit_soon(to_commit(self._client, positions, firsts), None if on_commit is None else report)

        await self._bridge.call_sync(commit_soon)

    # Inside

    def _on_loop(self, callback: RebalanceCallback) -> RebalanceCallback:
        bridge = self._bridge
        return lambda partitions: bridge.run_on_loop(partial(callback, partitions))

    async def _call_moving(self, function: Callable[[], Any]) -> Any:
        firsts = self._held.give_up() if self._bridge.is_usable else {}
        return await self._bridge.call(partial(call_after_going_back, self._client, firsts, function))

    async def _return_held(self) -> None:
        """Go back to what is held, which is not committed then; impossible from another loop."""
        if self._held and self._bridge.is_usable:
            await self._bridge.call(partial(go_back, self._client, self._held.give_up()))
