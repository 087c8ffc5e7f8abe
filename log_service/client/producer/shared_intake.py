"""Takes records for a producer from threads other than its own.

A thread puts its records into the batches itself, under the accumulator's lock. It wakes the
producer's thread only when a batch begins to wait or is full. No function here waits. A record
without room, or with an unknown topic, is returned as ``Unplaced``. The caller decides how to wait.

Invariant: a record is put into a batch, returned as ``Unplaced``, or refused with an exception.
Interceptors and serializers see it once.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from log_service.client.connections.cluster_view import TopicView
from log_service.client.producer.delivery import Delivery, DeliveryCallback
from log_service.client.producer.interception import checked_headers
from log_service.client.producer.producer import Producer
from log_service.client.producer.shared_accumulator import SharedAccumulator
from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.record import RecordHeader


class Unplaced(NamedTuple):
    """A record that has to wait. It is serialized and checked, but not in a batch yet."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]
    timestamp_ms: int | None
    size_bytes: int
    on_delivery: DeliveryCallback | None


_placement = attrgetter(
    "partition", "key", "value", "headers", "timestamp_ms", "size_bytes", "on_delivery"
)


class SharedIntake:
    """Takes records for a shared producer.

    ``require_open`` raises if calls are refused. ``submit`` runs a function in the producer's
    thread.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        require_open: Callable[[], object],
        submit: Callable[[Callable[[], None]], None],
    ) -> None:
        accumulator = producer.accumulator
        assert isinstance(accumulator, SharedAccumulator), "it was asked to be shared"
        self.accumulator = accumulator
        self._producer = producer
        self._intake = producer.intake
        self._require_open = require_open
        self._submit = submit
        self._is_wake_sent = False

    @property
    def is_run_possible(self) -> bool:
        """Whether many values without keys can be added to a batch with one call."""
        return self._intake.is_run_possible

    def take(  # noqa: PLR0917 - called for every record, where keywords cost
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Iterable[RecordHeader],
        timestamp_ms: int | None,
        partition: int | None,
        on_delivery: DeliveryCallback | None,
        *,
        is_queued: bool = False,
    ) -> Delivery | Unplaced:
        """Put a record into a batch and return its receipt, or return the record as ``Unplaced``.

        The record is returned if it must wait, or if ``is_queued``, because other records wait
        before it. Raises those errors of ``Producer.send`` that are known without waiting.
        """
        producer, intake = self._producer, self._intake
        if not (intake.is_plain and type(value) is bytes and (key is None or type(key) is bytes)):
            topic, value, key, headers, timestamp_ms, partition = intake.prepared(
                topic, value, key, headers, timestamp_ms, partition
            )
        pairs = checked_headers(headers) if headers else ()
        size_bytes = intake.size_of(key, value, pairs)
        self._require_open()
        view = producer.cluster.view.topics.get(topic)
        if view is None or (partition is not None and not view.has(partition)) or is_queued:
            return Unplaced(
                topic, partition, key, value, pairs, timestamp_ms, size_bytes, on_delivery
            )
        accumulator = self.accumulator
        with accumulator.lock:
            if producer.is_barred or not accumulator.has_room_for(size_bytes):
                return Unplaced(
                    topic, partition, key, value, pairs, timestamp_ms, size_bytes, on_delivery
                )
            delivery, due_ms = intake.place(
                view, partition, key, value, pairs, timestamp_ms, size_bytes, on_delivery
            )
        if producer.is_sender_late_for(due_ms):
            self.wake()
        return delivery

    def place(self, record: Unplaced, view: TopicView) -> Delivery | None:
        """Put a waiting record into a batch and return its receipt, or None if there is no room.

        Raises:
            KafkaError: INVALID_REQUEST, the producer is closed. INVALID_TIMESTAMP,
                INVALID_PARTITIONS.
            TypeError: partition or timestamp is not a whole number.
        """
        with self.accumulator.lock:
            self.require_producing()
            if not self.accumulator.has_room_for(record.size_bytes):
                return None
            delivery, due_ms = self._intake.place(view, *_placement(record))
        if self._producer.is_sender_late_for(due_ms):
            self.wake()
        return delivery

    def place_run(
        self,
        first: Delivery,
        contents: Sequence[bytes | None],
        start: int,
        headers: tuple[RecordHeader, ...],
        on_delivery: DeliveryCallback | None,
    ) -> range:
        """Append values from index ``start`` on to the batch of ``first`` while there is room.

        Return the record indexes of the values in the batch.
        """
        with self.accumulator.lock:
            placed = self._intake.place_run(first, contents, start, headers, on_delivery)
        if first.batch.is_closed:
            self.wake()
        return placed

    def require_producing(self) -> None:
        """Check that the producer takes records now.

        Raises KafkaError INVALID_REQUEST if the producer is closed, and as
        ``Producer.require_transaction``.
        """
        if self._producer.is_closed:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the producer is closed: use it inside 'with'"
            )
        self._producer.require_transaction()

    def wake(self) -> None:
        """Wake the sender soon. Calls before it wakes up are combined."""
        if not self._is_wake_sent:
            self._is_wake_sent = True
            self._submit(self._wake)

    def _wake(self) -> None:
        self._is_wake_sent = (
            False  # first, so that a thread that appends from here on wakes it again
        )
        self._producer.wake_sender()
