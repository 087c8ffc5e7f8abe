"""The consumer for programs without an event loop: the same methods without ``await``, usable from any thread.

Each method is one call through a ``Portal`` into the thread that runs the consumer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from re import Pattern
from typing import Any

import trio

from log_service.client.admin.values import OffsetAndMetadata
from log_service.client.blocking.calls import Blocking, blocking, blocking_sync
from log_service.client.consumer.commits import CommitCallback
from log_service.client.consumer.consumer import Consumer
from log_service.client.consumer.held_records import HeldRecords, consumed_before, go_back
from log_service.client.consumer.rebalance import RebalanceCallback
from log_service.client.consumer.records import ConsumerRecord
from log_service.client.consumer.subscriptions import SubscriptionPattern
from log_service.common.types import TopicPartition


class BlockingConsumer(Blocking[Consumer]):
    """``Consumer`` for threads. Rebalance callbacks are called in another thread, while ``poll`` waits: they may commit and seek."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(Consumer(bootstrap_servers, **settings))
        self._is_woken = False
        self._held = HeldRecords()

    unsubscribe = blocking(Consumer.unsubscribe)
    poll = blocking(Consumer.poll)
    position = blocking(Consumer.position)
    seek = blocking(Consumer.seek)
    seek_to_beginning = blocking(Consumer.seek_to_beginning)
    seek_to_end = blocking(Consumer.seek_to_end)
    seek_to_committed = blocking(Consumer.seek_to_committed)
    seek_to_time = blocking(Consumer.seek_to_time)
    current_lag = blocking(Consumer.current_lag)
    beginning_offsets = blocking(Consumer.beginning_offsets)
    end_offsets = blocking(Consumer.end_offsets)
    offsets_for_times = blocking(Consumer.offsets_for_times)
    partitions_for = blocking(Consumer.partitions_for)
    committed = blocking(Consumer.committed)
    assign = blocking_sync(Consumer.assign)
    enforce_rebalance = blocking_sync(Consumer.enforce_rebalance)
    pause = blocking_sync(Consumer.pause)
    resume = blocking_sync(Consumer.resume)
    lag = blocking_sync(Consumer.lag)
    group_metadata = blocking_sync(Consumer.group_metadata)
    metrics = blocking_sync(Consumer.metrics)

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted."""
        return self._portal.call_sync(lambda: self._client.assignment)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed."""
        return self._client.subscription

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return self._portal.call_sync(lambda: self._client.paused)

    def subscribe(
        self,
        topics: Iterable[str] | Pattern[str] | SubscriptionPattern,
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics together with the other members of the group. Raises as ``Consumer.subscribe``."""
        callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        beside = {name: partial(_call_beside, callback) for name, callback in callbacks.items() if callback is not None}
        self._portal.call(partial(self._client.subscribe, topics, **beside))

    def wakeup(self) -> None:
        """End the poll that waits, or else the next one, at once; a loop over the consumer ends. For any thread and signal handlers."""
        self._is_woken = True
        self._portal.submit(self._client.wakeup)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what ``commit`` commits by itself: the offsets behind what ``poll`` or a loop returned, where not committed yet."""
        return self._portal.call_sync(partial(consumed_before, self._client, self._held.firsts()))

    def commit(self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Commit these offsets (default: behind all records that ``poll`` or a loop returned). Raises as ``Consumer.commit``."""
        self._portal.call(partial(self._client.commit, self._to_commit(positions)))

    def commit_soon(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, on_commit: CommitCallback | None = None
    ) -> None:
        """Commit without waiting, otherwise as ``commit``; ``on_commit`` hears how it went, in the consumer's own thread."""
        self._portal.call_sync(partial(self._client.commit_soon, self._to_commit(positions), on_commit))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield one record after the other, until ``wakeup``.

        Leaving the loop moves positions back to the first record that was not yielded.
        """
        held = self._held
        self._is_woken = False
        try:
            while not self._is_woken:
                held.extend(self.poll())
                while held:
                    yield held.popleft()
        finally:
            firsts = held.give_up()
            if firsts and self.is_open:
                self._portal.call(partial(go_back, self._client, firsts))

    def _to_commit(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> Mapping[TopicPartition, OffsetAndMetadata | int] | None:
        """Leave out what a loop has not yielded yet."""
        if positions is not None or not self._held:
            return positions
        return self._portal.call_sync(partial(consumed_before, self._client, self._held.firsts()))


async def _call_beside(callback: RebalanceCallback, partitions: Sequence[TopicPartition]) -> None:
    """Call it in a thread that may wait for the client, while the client's own thread serves it."""
    result = await trio.to_thread.run_sync(callback, partitions)
    if isawaitable(result):
        await result
