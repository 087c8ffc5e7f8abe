"""The consumer for programs without an event loop: the same methods without ``await``, usable from any thread.

Each method is one call through a ``Portal`` into the thread that runs the consumer.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from log_service.client.blocking.calls import Blocking, blocking, blocking_sync
from log_service.client.consumer.consumer import Consumer
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.types import TopicPartition


class BlockingConsumer(Blocking[Consumer]):
    """``Consumer`` for threads. Rebalance callbacks are called in the consumer's own thread, while ``poll`` waits."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(Consumer(bootstrap_servers, **settings))
        self._is_woken = False

    subscribe = blocking(Consumer.subscribe)
    unsubscribe = blocking(Consumer.unsubscribe)
    poll = blocking(Consumer.poll)
    position = blocking(Consumer.position)
    seek = blocking(Consumer.seek)
    seek_to_beginning = blocking(Consumer.seek_to_beginning)
    seek_to_end = blocking(Consumer.seek_to_end)
    seek_to_time = blocking(Consumer.seek_to_time)
    current_lag = blocking(Consumer.current_lag)
    beginning_offsets = blocking(Consumer.beginning_offsets)
    end_offsets = blocking(Consumer.end_offsets)
    offsets_for_times = blocking(Consumer.offsets_for_times)
    partitions_for = blocking(Consumer.partitions_for)
    commit = blocking(Consumer.commit)
    committed = blocking(Consumer.committed)
    assign = blocking_sync(Consumer.assign)
    enforce_rebalance = blocking_sync(Consumer.enforce_rebalance)
    pause = blocking_sync(Consumer.pause)
    resume = blocking_sync(Consumer.resume)
    lag = blocking_sync(Consumer.lag)
    commit_soon = blocking_sync(Consumer.commit_soon)
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

    def wakeup(self) -> None:
        """End the poll that waits, or else the next one, at once; a loop over the consumer ends. For any thread and signal handlers."""
        self._is_woken = True
        self._portal.submit(self._client.wakeup)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield one record after the other, until ``wakeup``.

        Leaving the loop moves positions back to the first record that was not yielded.
        """
        waiting: deque[ConsumerRecord] = deque()
        self._is_woken = False
        try:
            while not self._is_woken:
                waiting.extend(self.poll())
                while waiting:
                    yield waiting.popleft()
        finally:
            self._go_back(waiting)

    def _go_back(self, waiting: Iterable[ConsumerRecord]) -> None:
        firsts: dict[TopicPartition, int] = {}
        for record in waiting:
            firsts.setdefault(record.topic_partition, record.offset)
        for topic_partition, offset in firsts.items():
            if self.is_open:
                self.seek(topic_partition, offset)
