"""Holds records in batches, one queue per partition, until the batches are settled.

A batch is settled when it is acknowledged or given up. Decides which batch takes a record, which
batches may be sent now, and when the sender must check again. One limit, ``buffer_memory``, applies
to all batches together. No call waits. The caller passes a function that returns the leader of a
partition.

Invariants: ``buffered_bytes`` counts every batch that is not settled. The batches of a partition
are sent in order. With idempotence, a batch that was sent before is sent again only if no earlier
batch is outstanding. A batch is in exactly one of ``waiting`` and ``in_flight``.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count, islice, takewhile
from operator import attrgetter

from log_service.client.producer.delivery import Delivery, DeliveryCallback, ProducerBatch
from log_service.client.producer.sequences import PartitionSequence, Sequences
from log_service.client.producer.transaction_state import Transactions
from log_service.common.errors import ConfigError
from log_service.common.types import NO_SEQUENCE, TopicPartition
from log_service.config.client import ProducerConfig
from log_service.records.builder import BatchBuilder
from log_service.records.compression import LEVELS, Codec
from log_service.records.record import RecordHeader

NEVER_MS = 2**62
REQUEST_OVERHEAD_BYTES = 512

_new = tuple.__new__


class PartitionQueue:
    """The batches of one partition that are not settled, and the partition's sequence numbers."""

    __slots__ = ("in_flight", "sequence", "topic_partition", "waiting")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.sequence = PartitionSequence()

    def __repr__(self) -> str:
        return (
            f"<PartitionQueue {self.topic_partition} waiting={len(self.waiting)}"
            f" in_flight={len(self.in_flight)}>"
        )

    def is_overtaking(self, batch: ProducerBatch) -> bool:
        """Return whether a batch earlier than ``batch`` waits to be sent again."""
        return bool(self.waiting) and self.waiting[0].order < batch.order

    def may_leave(self, batch: ProducerBatch, connection: object) -> bool:
        """Return whether a batch with a sequence number may be sent over a connection now.

        It may not be sent while an earlier batch waits to be sent again. While an earlier batch has
        no response, it may be sent only if the broker has acknowledged the producer over this
        connection.
        """
        return not self.is_overtaking(batch) and (
            self.in_flight[0] is batch or self.sequence.is_known_over(connection)
        )

    @property
    def is_empty(self) -> bool:
        """Whether no batch waits or is in flight."""
        return not self.waiting and not self.in_flight

    @property
    def oldest_ms(self) -> int:
        """The creation time of the oldest batch in ms, or ``NEVER_MS`` if there is no batch."""
        first = min((each.created_ms for each in self.in_flight), default=NEVER_MS)
        return min(first, self.waiting[0].created_ms) if self.waiting else first

    def is_first_outstanding(self, batch: ProducerBatch) -> bool:
        """Return whether no earlier batch with a sequence number is outstanding."""
        earlier = self.in_flight[0] if self.in_flight else None
        if earlier is not None and earlier is not batch:
            return False
        return (
            not self.waiting
            or not self.waiting[0].has_sequence
            or self.waiting[0].order > batch.order
        )


@dataclass(slots=True)
class Drained:
    """The result of ``Accumulator.drain``.

    ``requests`` has the batches to send now by node id, ``leaderless`` the partitions with a ready
    batch and no leader. ``ready_ms`` is the time at which the next batch has lingered long enough,
    ``expires_ms`` that of the first delivery timeout. A ready batch that may not be sent yet does
    not count for ``ready_ms``, because an event will wake the sender.
    """

    requests: dict[int, list[ProducerBatch]] = field(default_factory=dict)
    leaderless: list[TopicPartition] = field(default_factory=list)
    ready_ms: int = NEVER_MS
    expires_ms: int = NEVER_MS


class Accumulator:
    """Holds all records of a producer that are not settled, in batches."""

    def __init__(
        self,
        config: ProducerConfig,
        sequences: Sequences | None,
        monotonic_ms: Callable[[], int],
        transactions: Transactions | None = None,
    ) -> None:
        self._config = config
        self._transactions = transactions
        self._monotonic_ms = monotonic_ms
        self._codec = Codec.of_name(config.compression)
        if config.compression_level is not None and config.compression_level not in LEVELS.get(
            self._codec, ()
        ):
            raise ConfigError(
                f"compression_level {config.compression_level}: {config.compression} has no such"
                " level"
            )
        self._sequences = sequences
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._by_topic: dict[
            str, dict[int, PartitionQueue]
        ] = {}  # the same queues, without a TopicPartition per record
        self._active: dict[TopicPartition, PartitionQueue] = {}
        self._used_ms: dict[str, int] = {}  # by topic, when its latest batch began
        self.buffered_bytes = 0
        self._urgent_count = 0
        self.waiting_thread_count = 0
        self._order = count()

    def __repr__(self) -> str:
        return f"<Accumulator partitions={len(self._active)} buffered={self.buffered_bytes}>"

    def __iter__(self) -> Iterator[PartitionQueue]:
        return iter(list(self._active.values()))

    @property
    def is_empty(self) -> bool:
        """Whether every record is settled."""
        return not self._active

    @property
    def is_urgent(self) -> bool:
        """Whether a task flushes, closes, or waits for room. Then no batch lingers."""
        return self._urgent_count > 0

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Make batches ready without lingering during the block."""
        self._add_urgency(1)
        try:
            yield
        finally:
            self._add_urgency(-1)

    def _add_urgency(self, count: int) -> None:
        self._urgent_count += count

    def wake_all(self) -> None:
        """Do nothing. In ``SharedAccumulator`` this wakes the threads that wait for room."""

    def guarded(self) -> AbstractContextManager[object]:
        """Return an empty context. In ``SharedAccumulator`` it is a lock against other threads."""
        return nullcontext()

    @property
    def codec(self) -> Codec:
        """The codec of new batches."""
        return self._codec

    def has_room_for(self, size_bytes: int) -> bool:
        """Return whether a record of about ``size_bytes`` may be added.

        A record larger than ``buffer_memory`` is accepted when the buffer is empty.
        """
        return (
            self.buffered_bytes == 0
            or self.buffered_bytes + size_bytes <= self._config.buffer_memory
        )

    def waiting_count(self, topic: str, partition: int) -> int:
        """Return the number of batches that wait for a partition."""
        queue = self._queues.get(TopicPartition(topic, partition))
        return 0 if queue is None else len(queue.waiting)

    def is_idle(self, topic: str, since_ms: int) -> bool:
        """Return whether a topic got no record for ``metadata_max_idle_ms``, and none waits.

        ``since_ms`` is the time at which the topic was last watched; see ``ClusterMetadata.watch``.
        """
        used_ms = max(self._used_ms.get(topic, since_ms), since_ms)
        is_late = self._monotonic_ms() - used_ms >= self._config.metadata_max_idle_ms
        return is_late and all(queue.is_empty for queue in self._by_topic.get(topic, {}).values())

    def append(  # noqa: PLR0917 - called for every record, where keywords cost
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[RecordHeader, ...],
        callback: DeliveryCallback | None,
    ) -> tuple[Delivery, int]:
        """Append a record, and return its receipt and the time for the sender to check the queues.

        ``NEVER_MS`` means that the record does not change the sender's next check.
        """
        queues = self._by_topic.get(topic)
        queue = None if queues is None else queues.get(partition)
        if queue is None:
            queue = self._open_queue(TopicPartition(topic, partition))
        batch = queue.waiting[-1] if queue.waiting else None
        due_ms = NEVER_MS
        size_bytes = 0
        if batch is not None and not batch.is_closed and batch.builder is not None:
            size_bytes = batch.builder.append_within(timestamp_ms, key, value, headers)
        if batch is None or not size_bytes:
            now_ms = self._monotonic_ms()
            due_ms = (
                now_ms
                if batch is not None or self._urgent_count
                else now_ms + self._config.linger_ms
            )
            builder = BatchBuilder(
                self._codec, self._config.compression_level, self._config.batch_size
            )
            size_bytes = builder.append_within(timestamp_ms, key, value, headers)
            batch = self._open_batch(queue, builder, now_ms)
        index = batch.record_count
        batch.record_count = index + 1
        self.buffered_bytes += size_bytes - batch.size_bytes
        batch.size_bytes = size_bytes
        if size_bytes >= self._config.batch_size:
            batch.is_closed = True
            due_ms = self._monotonic_ms()
        if callback is not None:
            batch.add_callback(index, timestamp_ms, callback)
        return _new(Delivery, (batch, index, timestamp_ms)), due_ms

    def append_run(
        self,
        first: Delivery,
        contents: Sequence[bytes | None],
        start: int,
        headers: tuple[RecordHeader, ...],
        callback: DeliveryCallback | None,
    ) -> range:
        """Append values from index ``start`` on to the batch of ``first`` while there is room.

        Both the batch and the buffer need room. Return the record indexes of the values in the
        batch.
        """
        batch, _, timestamp_ms = first
        if batch.is_closed or batch.builder is None:
            return range(0)
        limit_bytes = min(
            self._config.batch_size,
            batch.size_bytes + self._config.buffer_memory - self.buffered_bytes,
        )
        max_bytes = self._config.max_request_size - REQUEST_OVERHEAD_BYTES
        fitting: Iterator[bytes | None] = islice(contents, start, None)
        if self._config.batch_size > max_bytes:  # otherwise a batch has no room for a larger value
            fitting = takewhile(
                lambda content: content is None or len(content) <= max_bytes, fitting
            )
        added = range(
            batch.record_count,
            batch.record_count
            + batch.builder.append_values(timestamp_ms, fitting, headers, limit_bytes),
        )
        if callback is not None:
            for index in added:
                batch.add_callback(index, timestamp_ms, callback)
        batch.record_count = added.stop
        self._resize(batch, batch.builder.estimated_size_bytes)
        batch.is_closed = batch.size_bytes >= self._config.batch_size
        return added

    def drain(
        self,
        now_ms: int,
        leader_of: Callable[[TopicPartition], int],
        has_capacity: Callable[[int], bool],
    ) -> Drained:
        """Move the batches that may be sent now to ``in_flight``, and return them.

        A call takes at most one batch per partition and one request per node. The caller must
        ``seal`` each batch.
        """
        drained = Drained()
        sizes: dict[int, int] = {}
        for queue in list(self._active.values()):
            drained.expires_ms = min(
                drained.expires_ms, queue.oldest_ms + self._config.delivery_timeout_ms
            )
            if not queue.waiting:
                continue
            batch = queue.waiting[0]
            ready_ms = self._ready_ms(queue, batch)
            if ready_ms > now_ms:
                drained.ready_ms = min(drained.ready_ms, ready_ms)
                continue
            if self._sequences is not None and not self._may_number(queue, batch):
                continue
            if self._transactions is not None and not self._transactions.may_send(
                queue.topic_partition
            ):
                continue
            leader = leader_of(queue.topic_partition)
            if leader < 0:
                drained.leaderless.append(queue.topic_partition)
                continue
            size_bytes = sizes.get(leader, REQUEST_OVERHEAD_BYTES) + batch.size_bytes
            if not has_capacity(leader) or (
                leader in drained.requests and size_bytes > self._config.max_request_size
            ):
                continue
            self._take(queue, batch)
            sizes[leader] = size_bytes
            drained.requests.setdefault(leader, []).append(batch)
        return drained

    def expired(self, now_ms: int) -> list[ProducerBatch]:
        """Remove and return the batches whose delivery timeout has passed.

        Within a partition, those in flight come first, because they are older.
        """
        oldest_ms = now_ms - self._config.delivery_timeout_ms
        taken: list[ProducerBatch] = []
        for queue in list(self._active.values()):
            while queue.in_flight and queue.in_flight[0].created_ms <= oldest_ms:
                taken.append(queue.in_flight.pop(0))
                self._forget(queue, taken[-1])
            while queue.waiting and queue.waiting[0].created_ms <= oldest_ms:
                taken.append(queue.waiting.popleft())
                self._forget(queue, taken[-1])
        return taken

    def settle(self, batch: ProducerBatch) -> None:
        """Remove a batch that got its response. The caller completes or fails the batch."""
        queue = self._queues[batch.topic_partition]
        queue.in_flight.remove(batch)
        self._forget(queue, batch)

    def retry(self, batch: ProducerBatch, not_before_ms: int) -> None:
        """Put back a batch in flight, to be sent again before all later batches.

        It is not sent before the time ``not_before_ms``.
        """
        queue = self._queues[batch.topic_partition]
        queue.in_flight.remove(batch)
        batch.not_before_ms = not_before_ms
        queue.sequence.note_sent_again()
        self._put_back(queue, (batch,))

    def hold_back(self, batch: ProducerBatch) -> None:
        """Put back a drained batch that was not sent. This does not count as an attempt."""
        batch.attempt_count -= 1
        self.retry(batch, batch.not_before_ms)

    def split(self, batch: ProducerBatch) -> None:
        """Put a batch back as two halves, because the broker found it too large."""
        queue = self._queues[batch.topic_partition]
        queue.in_flight.remove(batch)
        parts = batch.split(self._codec, self._config.compression_level)
        self.buffered_bytes += sum(part.size_bytes for part in parts) - batch.size_bytes
        self._put_back(queue, parts)

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue:
        """Return the queue of a batch."""
        return self._queues[batch.topic_partition]

    def take_all(self, *, is_in_flight_included: bool) -> list[ProducerBatch]:
        """Remove and return waiting batches, with ``is_in_flight_included`` those in flight too."""
        taken: list[ProducerBatch] = []
        for queue in list(self._active.values()):
            while queue.waiting:
                taken.append(queue.waiting.popleft())
                self._forget(queue, taken[-1])
            while is_in_flight_included and queue.in_flight:
                taken.append(queue.in_flight.pop(0))
                self._forget(queue, taken[-1])
        return taken

    def seal(self, batch: ProducerBatch) -> None:
        """Build and compress a batch before it is sent, and count its exact size from now on."""
        self._resize(batch, len(batch.encoded()))

    def unsettled(self) -> list[ProducerBatch]:
        """Return every batch that is not settled, by partition and in order."""
        return [
            batch for queue in self._active.values() for batch in (*queue.in_flight, *queue.waiting)
        ]

    def _resize(self, batch: ProducerBatch, size_bytes: int) -> None:
        if not batch.is_settled:
            self.buffered_bytes += size_bytes - batch.size_bytes
            batch.size_bytes = size_bytes

    def _open_queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        queue = self._queues[topic_partition] = PartitionQueue(topic_partition)
        self._by_topic.setdefault(topic_partition.topic, {})[topic_partition.partition] = queue
        return queue

    def _open_batch(
        self, queue: PartitionQueue, builder: BatchBuilder, now_ms: int
    ) -> ProducerBatch:
        """Add a new batch to the end of a queue, and close the previous one, which is full."""
        if queue.waiting:
            queue.waiting[-1].is_closed = True
        order = (next(self._order), 0)
        batch = ProducerBatch(
            queue.topic_partition,
            builder,
            now_ms,
            order,
            is_transactional=self._transactions is not None,
        )
        if self._transactions is not None:
            self._transactions.note_partition(queue.topic_partition)
        queue.waiting.append(batch)
        self._active[queue.topic_partition] = queue
        self._used_ms[queue.topic_partition.topic] = now_ms
        return batch

    def _may_number(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        assert self._sequences is not None
        if batch.has_sequence:
            return not queue.in_flight
        return self._sequences.can_number(
            queue.sequence, has_batches_in_flight=bool(queue.in_flight)
        )

    def _ready_ms(self, queue: PartitionQueue, batch: ProducerBatch) -> int:
        """Return the time in ms at which the first batch of a queue may be sent.

        A batch does not linger if it is full, was sent before, or if ``is_urgent``.
        """
        if batch.is_closed or len(queue.waiting) > 1 or self.is_urgent or batch.attempt_count:
            return batch.not_before_ms
        return batch.created_ms + self._config.linger_ms

    def _take(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.waiting.popleft()
        batch.is_closed = True
        if self._sequences is not None and not batch.has_sequence:
            self._sequences.number(queue.sequence, batch)
        batch.attempt_count += 1
        queue.in_flight.append(batch)
        # The partition goes to the end, so that the other partitions come first next time.
        self._active[queue.topic_partition] = self._active.pop(queue.topic_partition)

    def _put_back(self, queue: PartitionQueue, batches: tuple[ProducerBatch, ...]) -> None:
        """Put batches back in the order of creation, which is the order of sequences.

        A batch whose producer id or epoch is not the present one loses its sequence number.
        """
        for batch in batches:
            if batch.has_sequence and queue.sequence.identity != (
                batch.producer_id,
                batch.producer_epoch,
            ):
                batch.base_sequence = NO_SEQUENCE
        queue.waiting = deque(sorted((*batches, *queue.waiting), key=attrgetter("order")))
        self._active[queue.topic_partition] = queue

    def _forget(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self.buffered_bytes -= batch.size_bytes
        if queue.is_empty:
            self._active.pop(queue.topic_partition, None)
