"""The consumer for programs on asyncio.

Each method is one call through a ``Bridge`` into the thread that runs the consumer. A loop over the
consumer makes one call for each poll, not for each record.

Invariants: each polled record is returned exactly once, whatever is cancelled. Records that arrive
after their task was cancelled are held, and the next poll returns them first. Held records count as
not consumed. They are not committed, and a seek makes the consumer read them again.
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
from log_service.client.consumer.held_records import (
    HeldRecords,
    Positions,
    call_after_going_back,
    consumed_before,
    go_back,
    to_commit,
)
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
def moving(
    method: Callable[Concatenate[Consumer, P], None],
) -> Callable[Concatenate["AsyncioConsumer", P], Coroutine[Any, Any, None]]: ...


def moving(
    method: Callable[Concatenate[Consumer, P], Any],
) -> Callable[Concatenate["AsyncioConsumer", P], Coroutine[Any, Any, Any]]:
    """Return an awaitable form of a method that changes the assignment or the positions.

    It drops held records before the call. Unless the call moves their partition's position, they
    are read again.
    """

    async def call(self: "AsyncioConsumer", /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return await self._call_moving(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


class AsyncioConsumer(OnAsyncio[Consumer]):
    """``Consumer`` for tasks on asyncio. Settings are those of ``Consumer``.

    Rebalance callbacks run on the event loop while ``poll`` or ``close`` waits, and may be async.
    ``on_commit`` runs on the event loop too. Deserializers and interceptors run in the consumer's
    own thread. A loop polls many records at once and returns them one by one. ``lag``,
    ``current_lag`` and ``metrics`` count all polled records as read, ``position`` and ``commit``
    only those that the loop has returned.
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._return_held()
        finally:
            await super().__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Close the consumer and its thread. Idempotent, and possible from any event loop.

        Automatic commits are made as at the end of the ``async with`` block. If another event loop
        closes the consumer, they are made only if no records are held.

        Raises:
            KafkaError: INVALID_REQUEST, a rebalance callback called it, and the consumer waits for
                that callback.
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

        Callbacks run on the event loop.
        """
        callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        on_loop = {
            name: self._on_loop(callback)
            for name, callback in callbacks.items()
            if callback is not None
        }
        await self._call_moving(partial(self._client.subscribe, topics, **on_loop))

    async def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions, sorted."""
        return await self._bridge.call_sync(lambda: self._client.assignment)

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics."""
        return self._client.subscription

    async def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return await self._bridge.call_sync(lambda: self._client.paused)

    # Records

    async def poll(
        self, max_records: int | None = None, timeout_ms: int = 1_000
    ) -> list[ConsumerRecord]:
        """Return records as ``Consumer.poll``, and raise as ``Consumer.poll``.

        If the task is cancelled, the next poll or loop returns the records that had arrived.
        """
        self._bridge.require_loop()
        if not self._held:
            await self._bridge.call(
                partial(self._client.poll, max_records, timeout_ms), self._held.extend
            )
            self._is_woken = False
        return self._held.take(
            self._client.config.max_poll_records if max_records is None else max_records
        )

    def wakeup(self) -> None:
        """End the waiting poll at once, or else the next one. A loop over the consumer ends.

        The poll returns the ready records, maybe none, and raises no error because of this.
        Any thread and any signal handler may call this.
        """
        self._is_woken = True
        self._portal.submit(self._client.wakeup)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record. It waits until there is one, or until ``wakeup``.

        No record is lost if the loop is left or the task is cancelled.
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
        """Return the offset of the next record to return. Raises as ``Consumer.position``."""
        held = self._held.firsts().get(topic_partition)
        found = await self._bridge.call(partial(self._client.position, topic_partition))
        return found if held is None else held.offset

    async def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that ``commit`` commits by default.

        Each offset comes after all returned records of its partition. Partitions without new
        records are left out.
        """
        return await self._bridge.call_sync(
            partial(consumed_before, self._client, self._held.firsts())
        )

    async def commit(self, positions: Positions | None = None) -> None:
        """Commit these offsets (default: the next offsets after all returned records).

        Raises as ``Consumer.commit``.

        After a cancelled call it is not known whether the offsets were committed.
        """
        firsts = self._held.firsts()

        async def commit() -> None:
            await self._client.commit(to_commit(self._client, positions, firsts))

        await self._bridge.call(commit)

    async def commit_soon(
        self, positions: Positions | None = None, on_commit: CommitCallback | None = None
    ) -> None:
        """Commit without waiting. ``on_commit`` gets the result on the event loop.

        Raises as ``Consumer.commit_soon``.
        """
        firsts = self._held.firsts()

        def report(
            offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None
        ) -> None:
            self._bridge.put(partial(cast(CommitCallback, on_commit), offsets, error))

        def commit_soon() -> None:
            self._client.commit_soon(
                to_commit(self._client, positions, firsts), None if on_commit is None else report
            )

        await self._bridge.call_sync(commit_soon)

    # Inside

    def _on_loop(self, callback: RebalanceCallback) -> RebalanceCallback:
        bridge = self._bridge
        return lambda partitions: bridge.run_on_loop(partial(callback, partitions))

    async def _call_moving(self, function: Callable[[], Any]) -> Any:
        firsts = self._held.give_up() if self._bridge.is_usable else {}
        return await self._bridge.call(
            partial(call_after_going_back, self._client, firsts, function)
        )

    async def _return_held(self) -> None:
        """Move positions back to the first held records, so that these are not committed.

        This does nothing on a loop other than the consumer's own.
        """
        if self._held and self._bridge.is_usable:
            await self._bridge.call(partial(go_back, self._client, self._held.give_up()))
