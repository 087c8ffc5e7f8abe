"""The consumer for programs without an event loop.

It has the same methods without ``await``, and any thread may call them. Each method is one call
through a ``Portal`` into the thread that runs the consumer.

Invariants: each polled record is returned exactly once, even if Ctrl-C interrupts a poll. Records
that had arrived then are held, and the next poll returns them first. Held records count as not
consumed. They are not committed, and a seek makes the consumer read them again.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial, update_wrapper
from inspect import isawaitable
from re import Pattern
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

import trio

from log_service.client.admin.values import OffsetAndMetadata
from log_service.client.blocking.calls import Blocking, blocking, blocking_sync
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
from log_service.common.types import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")


@overload
def moving(
    method: Callable[Concatenate[Consumer, P], Awaitable[T]],
) -> Callable[Concatenate["BlockingConsumer", P], T]: ...


@overload
def moving(
    method: Callable[Concatenate[Consumer, P], None],
) -> Callable[Concatenate["BlockingConsumer", P], None]: ...


def moving(
    method: Callable[Concatenate[Consumer, P], Any],
) -> Callable[Concatenate["BlockingConsumer", P], Any]:
    """Return a blocking form of a method that changes the assignment or the positions.

    It drops held records before the call. Unless the call moves their partition's position, they
    are read again.
    """

    def call(self: "BlockingConsumer", /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._call_moving(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


class BlockingConsumer(Blocking[Consumer]):
    """``Consumer`` for threads.

    Rebalance callbacks run in another thread while ``poll`` waits. They may commit and seek.
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
    current_lag = blocking(Consumer.current_lag)
    beginning_offsets = blocking(Consumer.beginning_offsets)
    end_offsets = blocking(Consumer.end_offsets)
    offsets_for_times = blocking(Consumer.offsets_for_times)
    partitions_for = blocking(Consumer.partitions_for)
    committed = blocking(Consumer.committed)
    enforce_rebalance = blocking_sync(Consumer.enforce_rebalance)
    resume = blocking_sync(Consumer.resume)
    lag = blocking_sync(Consumer.lag)
    group_metadata = blocking_sync(Consumer.group_metadata)
    metrics = blocking_sync(Consumer.metrics)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._return_held()
        finally:
            super().__exit__(kind, error, trace)

    def close(self) -> None:
        """Close the consumer and its thread. Idempotent.

        Automatic commits are made as at the end of the ``with`` block.
        """
        try:
            self._return_held()
        finally:
            super().close()

    @property
    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, sorted."""
        return self._portal.call_sync(lambda: self._client.assignment)

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics."""
        return self._client.subscription

    @property
    def paused(self) -> list[TopicPartition]:
        """The paused partitions."""
        return self._portal.call_sync(lambda: self._client.paused)

    def subscribe(
        self,
        topics: Iterable[str] | Pattern[str] | SubscriptionPattern,
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics together with the other members of the group.

        Raises as ``Consumer.subscribe``.
        """
        callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        beside = {
            name: partial(_call_beside, callback)
            for name, callback in callbacks.items()
            if callback is not None
        }
        self._call_moving(partial(self._client.subscribe, topics, **beside))

    def poll(self, max_records: int | None = None, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Return records as ``Consumer.poll``, and raise as ``Consumer.poll``.

        If Ctrl-C interrupts it, the next poll or loop returns the records that had arrived.
        """
        if not self._held:
            self._fill(max_records, timeout_ms)
            self._is_woken = False
        return self._held.take(
            self._client.config.max_poll_records if max_records is None else max_records
        )

    def position(self, topic_partition: TopicPartition) -> int:
        """Return the offset of the next record to return. Raises as ``Consumer.position``."""
        held = self._held.firsts().get(topic_partition)
        found = self._portal.call(partial(self._client.position, topic_partition))
        return found if held is None else held.offset

    def wakeup(self) -> None:
        """End the waiting poll at once, or else the next one. A loop over the consumer ends.

        The poll returns the ready records, maybe none, and raises no error because of this.
        Any thread and any signal handler may call this.
        """
        self._is_woken = True
        self._portal.submit(self._client.wakeup)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that ``commit`` commits by default.

        Each offset comes after the records of its partition that ``poll`` or a loop returned.
        Partitions without new records are left out.
        """
        return self._portal.call_sync(partial(consumed_before, self._client, self._held.firsts()))

    def commit(self, positions: Positions | None = None) -> None:
        """Commit these offsets (default: after all records that ``poll`` or a loop returned).

        Raises as ``Consumer.commit``.
        """
        self._portal.call(partial(self._client.commit, self._to_commit(positions)))

    def commit_soon(
        self, positions: Positions | None = None, on_commit: CommitCallback | None = None
    ) -> None:
        """Commit without waiting, otherwise as ``commit``.

        ``on_commit`` gets the result in the consumer's own thread.
        """
        self._portal.call_sync(
            partial(self._client.commit_soon, self._to_commit(positions), on_commit)
        )

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield one record after the other, until ``wakeup``.

        Leaving the loop moves positions back to the first record that was not yielded.
        """
        held = self._held
        try:
            while not self._is_woken:
                if not held:
                    self._fill(None, self._client.config.default_api_timeout_ms)
                while held and not self._is_woken:
                    yield held.popleft()
            self._is_woken = False
        finally:
            self._return_held()

    # Inside

    def _fill(self, max_records: int | None, timeout_ms: int) -> None:
        """Poll, and add the records to the held ones in the client's thread.

        So they are not lost if Ctrl-C interrupts the calling thread.
        """

        async def poll() -> None:
            self._held.extend(await self._client.poll(max_records, timeout_ms))

        self._portal.call(poll)

    def _call_moving(self, function: Callable[[], Any]) -> Any:
        firsts = self._held.give_up() if self.is_open else {}
        return self._portal.call(partial(call_after_going_back, self._client, firsts, function))

    def _return_held(self) -> None:
        """Move positions back to the first held records, so that these are not committed."""
        if self._held and self.is_open:
            self._portal.call(partial(go_back, self._client, self._held.give_up()))

    def _to_commit(self, positions: Positions | None) -> Positions | None:
        """Return the given or default offsets to commit; see ``held_records.to_commit``."""
        if not self._held:
            return positions
        return self._portal.call_sync(
            partial(to_commit, self._client, positions, self._held.firsts())
        )


async def _call_beside(callback: RebalanceCallback, partitions: Sequence[TopicPartition]) -> None:
    """Call ``callback`` in another thread.

    The callback may call the client and wait, because the client's own thread stays free.
    """
    result = await trio.to_thread.run_sync(callback, partitions)
    if isawaitable(result):
        await result
