"""The accumulator of a producer that several threads use.

Each thread puts its records into batches, and the sender's thread takes the batches out. One lock
protects all queues. It is held only for microseconds, because batches are built and compressed
without it. A thread that finds no room waits on the lock's condition until the sender has settled a
batch. This module knows neither trio nor the portal.

Invariant: a queue is changed only under the lock. Once a batch has left its queue, only the sender
uses it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Condition, RLock

from log_service.client.producer.accumulator import Accumulator, Drained
from log_service.client.producer.delivery import ProducerBatch
from log_service.client.producer.sequences import Sequences
from log_service.client.producer.transaction_state import Transactions
from log_service.common.types import TopicPartition
from log_service.config.client import ProducerConfig


class SharedAccumulator(Accumulator):
    """Holds the records of a producer that several threads use. Callers hold ``lock`` to append."""

    def __init__(
        self,
        config: ProducerConfig,
        sequences: Sequences | None,
        monotonic_ms: Callable[[], int],
        transactions: Transactions | None = None,
    ) -> None:
        super().__init__(config, sequences, monotonic_ms, transactions)
        self.lock = RLock()
        self._room = Condition(self.lock)

    def wait_for_room(self, size_bytes: int, timeout_ms: int, is_over: Callable[[], bool]) -> bool:
        """Wait until there is room for ``size_bytes``, or until ``is_over`` returns true.

        The caller holds the lock. Returns false if ``timeout_ms`` passed first.
        """
        self.waiting_thread_count += 1
        try:
            return self._room.wait_for(
                lambda: is_over() or self.has_room_for(size_bytes), timeout_ms / 1_000
            )
        finally:
            self.waiting_thread_count -= 1

    def wake_all(self) -> None:
        """Wake every thread that waits for room."""
        with self.lock:
            self._room.notify_all()

    def guarded(self) -> AbstractContextManager[object]:
        """Return the lock, as a context that excludes other threads."""
        return self.lock

    def drain(
        self,
        now_ms: int,
        leader_of: Callable[[TopicPartition], int],
        has_capacity: Callable[[int], bool],
    ) -> Drained:
        """Call ``Accumulator.drain`` under the lock."""
        with self.lock:
            return super().drain(now_ms, leader_of, has_capacity)

    def is_idle(self, topic: str, since_ms: int) -> bool:
        """Call ``Accumulator.is_idle`` under the lock."""
        with self.lock:
            return super().is_idle(topic, since_ms)

    def seal(self, batch: ProducerBatch) -> None:
        """Build and compress the batch, as ``Accumulator.seal`` does.

        This happens without the lock, so that other threads can continue.
        """
        size_bytes = len(batch.encoded())
        with self.lock:
            self._resize(batch, size_bytes)

    def unsettled(self) -> list[ProducerBatch]:
        """Call ``Accumulator.unsettled`` under the lock."""
        with self.lock:
            return super().unsettled()

    def expired(self, now_ms: int) -> list[ProducerBatch]:
        """Call ``Accumulator.expired`` under the lock, then wake threads that wait for room."""
        with self.lock:
            taken = super().expired(now_ms)
            self._notify_room()
            return taken

    def settle(self, batch: ProducerBatch) -> None:
        """Call ``Accumulator.settle`` under the lock, then wake threads that wait for room."""
        with self.lock:
            super().settle(batch)
            self._notify_room()

    def retry(self, batch: ProducerBatch, not_before_ms: int) -> None:
        """Call ``Accumulator.retry`` under the lock."""
        with self.lock:
            super().retry(batch, not_before_ms)

    def split(self, batch: ProducerBatch) -> None:
        """Call ``Accumulator.split`` under the lock."""
        with self.lock:
            super().split(batch)

    def take_all(self, *, is_in_flight_included: bool) -> list[ProducerBatch]:
        """Call ``Accumulator.take_all`` under the lock, then wake threads that wait for room."""
        with self.lock:
            taken = super().take_all(is_in_flight_included=is_in_flight_included)
            self._notify_room()
            return taken

    def _add_urgency(self, count: int) -> None:
        with self.lock:
            super()._add_urgency(count)

    def _notify_room(self) -> None:
        if self.waiting_thread_count:
            self._room.notify_all()
