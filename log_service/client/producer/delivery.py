"""A batch of a producer, and the receipts of its records.

A ``Delivery`` is a batch and an index, so a record costs one small object until a task waits for
it. The event for waiting tasks is created once per batch, and only if a task waits. This module
knows nothing of sending.

Invariants: a batch is settled once, with an offset or an error. Its callbacks are then called in
the order of the records.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import NamedTuple

import trio

from log_service.common.errors import KafkaError
from log_service.common.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition
from log_service.records.batch import iterate_records, next_sequence, stamp_producer
from log_service.records.builder import BatchBuilder
from log_service.records.compression import Codec

logger = logging.getLogger(__name__)

NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMetadata:
    """Partition, offset and timestamp of a delivered record.

    ``offset`` is -1 if it is unknown. This is so with acks=0, or if the broker got the record twice
    and no longer knows the offset.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


DeliveryCallback = Callable[[RecordMetadata | None, KafkaError | None], None]
"""Called once with (metadata, None) or (None, error), in the producer's own task.

It must not block.
"""

RecordCallback = tuple[int, int, DeliveryCallback]


class Delivery(NamedTuple):
    """The receipt of one record: a future of its metadata.

    It is a tuple, because one is made for every record, and tuples are cheap to make.
    """

    batch: "ProducerBatch"
    record_index: int
    timestamp_ms: int

    def behind(self, indexes: range) -> "Iterator[Delivery]":
        """Return the receipts of the records at ``indexes`` in the same batch.

        They have the same timestamp as this record.
        """
        return map(_new_delivery, zip(repeat(self.batch), indexes, repeat(self.timestamp_ms)))

    def __repr__(self) -> str:
        batch, index = self.batch.part_of(self.record_index)
        state = (
            "waiting"
            if not batch.is_settled
            else repr(batch.error)
            if batch.error
            else f"offset={batch.offset_of(index)}"
        )
        return f"<{type(self).__name__} {batch.topic_partition} {state}>"

    @property
    def is_done(self) -> bool:
        """Whether the record was delivered or given up."""
        return self.batch.part_of(self.record_index)[0].is_settled

    def result(self) -> RecordMetadata:
        """Return the metadata of the record.

        Raises:
            KafkaError: the record was given up.
            trio.WouldBlock: the result is not known yet.
        """
        batch, index = self.batch.part_of(self.record_index)
        if not batch.is_settled:
            raise trio.WouldBlock
        return batch.metadata_of(index, self.timestamp_ms)

    async def wait(self) -> RecordMetadata:
        """Wait until the record is acknowledged, and return its metadata.

        A cancelled wait does not cancel the delivery.

        Raises:
            KafkaError: the record was refused, or ``delivery_timeout_ms`` passed.
        """
        while True:
            batch, index = self.batch.part_of(self.record_index)
            if batch.is_settled:
                return batch.metadata_of(index, self.timestamp_ms)
            await batch.changed().wait()


_new_delivery = partial(tuple.__new__, Delivery)


class ProducerBatch:
    """Records of one partition that are sent together."""

    __slots__ = (
        "_callbacks",
        "_changed",
        "_encoded",
        "_listener",
        "_offset",
        "_parts",
        "_timestamp_ms",
        "attempt_count",
        "base_sequence",
        "builder",
        "created_ms",
        "error",
        "is_closed",
        "is_settled",
        "is_transactional",
        "last_error",
        "not_before_ms",
        "order",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        builder: BatchBuilder,
        created_ms: int,
        order: tuple[int, int] = (0, 0),
        *,
        is_transactional: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.is_transactional = is_transactional
        self.created_ms = created_ms
        self.order = order
        self.is_closed = False
        self.attempt_count = 0
        self.not_before_ms = 0
        self.producer_id: int = NO_PRODUCER_ID
        self.producer_epoch: int = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.record_count = 0
        self.size_bytes = 0
        self.is_settled = False
        self.error: KafkaError | None = None
        self.last_error: KafkaError | None = None  # of the last attempt
        self.builder: BatchBuilder | None = builder  # until the first ``encoded``
        self._encoded = bytearray()
        self._callbacks: list[RecordCallback] | None = None
        self._changed: trio.Event | None = None
        self._listener: Callable[[ProducerBatch], None] | None = None
        self._parts: tuple[ProducerBatch, ProducerBatch] | None = None
        self._offset = NO_OFFSET
        self._timestamp_ms = -1

    def __repr__(self) -> str:
        state = "settled" if self.is_settled else f"attempts={self.attempt_count}"
        return (
            f"<ProducerBatch {self.topic_partition} records={self.record_count}"
            f" sequence={self.base_sequence} {state}>"
        )

    @property
    def has_sequence(self) -> bool:
        """Whether the records have sequence numbers, for idempotence."""
        return self.base_sequence != NO_SEQUENCE

    def add_callback(self, index: int, timestamp_ms: int, callback: DeliveryCallback) -> None:
        """Call ``callback`` for record ``index`` when the batch is settled."""
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append((index, timestamp_ms, callback))

    def number(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Set producer id, epoch and sequence. A batch that is sent again may get a new number."""
        self.producer_id, self.producer_epoch, self.base_sequence = (
            producer_id,
            producer_epoch,
            base_sequence,
        )
        if self.builder is None:
            stamp_producer(
                self._encoded,
                0,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
            )

    def encoded(self) -> bytearray:
        """Return the encoded batch. The first call builds and compresses it."""
        if self.builder is not None:
            self.is_closed = True
            self._encoded = self.builder.build(
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                is_transactional=self.is_transactional,
            )
            self.builder = None
        return self._encoded

    def complete(self, base_offset: int, append_time_ms: int) -> None:
        """Settle the batch with the offset of the first record and the broker's timestamp.

        Offset -1 means unknown. With timestamp -1 the records keep their own timestamps.
        """
        self._offset, self._timestamp_ms = base_offset, append_time_ms
        self._settle()

    def fail(self, error: KafkaError) -> None:
        """Settle the batch with an error."""
        self.error = error
        self._settle()

    def split(self, codec: Codec, level: int | None) -> "tuple[ProducerBatch, ProducerBatch]":
        """Split the batch into two batches with half of the records each, and return them.

        The records keep their sequence numbers, and their receipts refer to the new batches.
        """
        half = (self.record_count + 1) // 2
        parts = (
            self._new_part(0, half, codec, level),
            self._new_part(half, self.record_count - half, codec, level),
        )
        for record in iterate_records(self.encoded()):
            builder = parts[record.offset >= half].builder
            assert builder is not None, "the parts are built below"
            builder.append(record.timestamp, record.key, record.value, record.headers)
        for index, timestamp_ms, callback in self._callbacks or ():
            parts[index >= half].add_callback(
                index - half if index >= half else index, timestamp_ms, callback
            )
        if self.has_sequence:
            parts[0].number(self.producer_id, self.producer_epoch, self.base_sequence)
            parts[1].number(
                self.producer_id, self.producer_epoch, next_sequence(self.base_sequence, half)
            )
        for part in parts:
            part.size_bytes = len(part.encoded())
        self._parts, self._callbacks, self._encoded = parts, None, bytearray()
        self._wake()
        return parts

    def part_of(self, index: int) -> "tuple[ProducerBatch, int]":
        """Return the batch that now contains record ``index``, and the record's index in it."""
        batch = self
        while batch._parts is not None:
            first, second = batch._parts
            batch, index = (
                (first, index)
                if index < first.record_count
                else (second, index - first.record_count)
            )
        return batch, index

    @property
    def is_fully_settled(self) -> bool:
        """Whether the batch, or every part that it was split into, is settled."""
        if self._parts is None:
            return self.is_settled
        return all(part.is_fully_settled for part in self._parts)

    def next_unsettled(self) -> "ProducerBatch":
        """Return the first part that is not settled, or the batch itself if it was not split."""
        batch = self
        while batch._parts is not None:
            batch = batch._parts[0] if not batch._parts[0].is_fully_settled else batch._parts[1]
        return batch

    def offset_of(self, index: int) -> int:
        """Return the offset of a record, or -1 if unknown."""
        return self._offset + index if self._offset >= 0 else NO_OFFSET

    def metadata_of(self, index: int, timestamp_ms: int) -> RecordMetadata:
        """Return the metadata of a record in a settled batch.

        Raises the error of a failed batch.
        """
        if self.error is not None:
            raise KafkaError(self.error.code, str(self.error))
        return RecordMetadata(
            topic=self.topic_partition.topic,
            partition=self.topic_partition.partition,
            offset=self.offset_of(index),
            timestamp_ms=timestamp_ms if self._timestamp_ms < 0 else self._timestamp_ms,
        )

    def changed(self) -> trio.Event:
        """Return the event that is set when this batch is settled or split."""
        if self._changed is None:
            self._changed = trio.Event()
        return self._changed

    def listen(self, listener: Callable[["ProducerBatch"], None]) -> bool:
        """Set a function to call in the producer's thread when the batch is settled or split.

        Any thread may call this. Returns False if the batch is settled or split already. It is then
        not certain that the function is called.
        """
        self._listener = listener  # first, so that the listener misses nothing from here on
        return not self.is_settled and self._parts is None

    def _new_part(
        self, first_index: int, record_count: int, codec: Codec, level: int | None
    ) -> "ProducerBatch":
        order = (self.order[0], self.order[1] + first_index)
        builder = BatchBuilder(codec, level)
        part = ProducerBatch(
            self.topic_partition,
            builder,
            self.created_ms,
            order,
            is_transactional=self.is_transactional,
        )
        part.record_count, part.is_closed, part.attempt_count = (
            record_count,
            True,
            self.attempt_count,
        )
        return part

    def _settle(self) -> None:
        assert not self.is_settled, "a batch is settled once"
        self.is_settled = True
        self.builder, self._encoded = None, bytearray()
        callbacks, self._callbacks = self._callbacks, None
        self._wake()
        for index, timestamp_ms, callback in callbacks or ():
            metadata = self.metadata_of(index, timestamp_ms) if self.error is None else None
            call_back(callback, metadata, self.error, self.topic_partition.topic)

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        if self._listener is not None:
            self._listener(self)


def require_callback(on_delivery: DeliveryCallback) -> None:
    """Raise TypeError if the callback cannot be called."""
    if not callable(on_delivery):
        raise TypeError(f"on_delivery is a function that takes a delivery, not {on_delivery!r}")


def call_back(
    callback: DeliveryCallback,
    metadata: RecordMetadata | None,
    error: KafkaError | None,
    topic: str,
) -> None:
    """Call a delivery callback and log its exceptions."""
    try:
        callback(metadata, error)
    except Exception:
        logger.exception("the delivery callback of a record of topic %s failed", topic)
