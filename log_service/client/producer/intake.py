"""Puts a record from ``send`` into its batch, after interceptors, serializers and partitioner.

No function here waits. So the producer's task and the threads of a blocking producer can share this
module. The caller makes sure that there is room before it places a record. This module knows
nothing of sending.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import index
from random import Random
from typing import Any

from log_service.client.arguments import whole_number
from log_service.client.connections.cluster_view import TopicView
from log_service.client.producer.accumulator import Accumulator
from log_service.client.producer.delivery import Delivery, DeliveryCallback, require_callback
from log_service.client.producer.interception import (
    ProducerInterceptor,
    ProducerRecord,
    Serializer,
    serializing,
)
from log_service.client.producer.partitioning import KeyPlacement, Partitioner, StickyPlacement
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TIMESTAMP, TopicPartition
from log_service.config.client import ProducerConfig
from log_service.records.record import RecordHeader

RECORD_OVERHEAD_BYTES = 64
MAX_TIMESTAMP_MS = 2**63


class Intake:
    """Puts records of the application into batches.

    ``is_plain`` means that keys and values are used unchanged.
    """

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        *,
        partitioner: Partitioner | None,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        interceptors: Iterable[ProducerInterceptor],
        rng: Random,
        wall_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._accumulator = accumulator
        self._wall_ms = wall_ms
        self._keyed = KeyPlacement()
        load = (
            accumulator.waiting_count if config.partitioner_adaptive_partitioning_enable else None
        )
        self._sticky = StickyPlacement(rng, config.batch_size, load)
        self.partitioner = partitioner
        self.serialize_key = serializing(key_serializer)
        self.serialize_value = serializing(value_serializer)
        self.interceptors = tuple(interceptors)
        self.is_plain = (
            not self.interceptors and key_serializer is None and value_serializer is None
        )

    @property
    def is_run_possible(self) -> bool:
        """Whether many values without keys can be added to a batch with one call.

        There must be no interceptor, serializer or partitioner, because they see each record.
        """
        return self.is_plain and self.partitioner is None

    def leave(self, topic_partition: TopicPartition) -> None:
        """Stop placing keyless records on a partition, because it has no leader."""
        self._sticky.leave(topic_partition)

    def prepared(  # noqa: PLR0917 - one argument per field, as they were given
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Iterable[RecordHeader],
        timestamp_ms: int | None,
        partition: int | None,
    ) -> tuple[str, bytes | None, bytes | None, Iterable[RecordHeader], int | None, int | None]:
        """Return the fields of a record after interceptors and serializers.

        Raises their exceptions.
        """
        if self.interceptors:
            record = ProducerRecord(topic, value, key, tuple(headers), timestamp_ms, partition)
            for interceptor in self.interceptors:
                record = interceptor(record)
                if not isinstance(record, ProducerRecord):
                    raise TypeError(f"an interceptor returns a ProducerRecord, not {record!r}")
            topic, value, key, headers, timestamp_ms, partition = record
        return (
            topic,
            self.serialize_value(value),
            self.serialize_key(key),
            headers,
            timestamp_ms,
            partition,
        )

    def size_of(
        self, key: bytes | None, value: bytes | None, headers: tuple[RecordHeader, ...]
    ) -> int:
        """Return an upper bound of a record's size in bytes.

        Raises:
            KafkaError: MESSAGE_TOO_LARGE, more than ``max_request_size``.
        """
        size_bytes = RECORD_OVERHEAD_BYTES
        if key is not None:
            size_bytes += len(key)
        if value is not None:
            size_bytes += len(value)
        if headers:
            size_bytes += sum(len(name) * 4 + len(content or b"") + 10 for name, content in headers)
        if size_bytes > self._config.max_request_size:
            text = (
                f"the record takes about {size_bytes} bytes, more than max_request_size"
                f" {self._config.max_request_size}"
            )
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
        return size_bytes

    def place(  # noqa: PLR0917 - called for every record, where keywords cost
        self,
        view: TopicView,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[RecordHeader, ...],
        timestamp_ms: int | None,
        size_bytes: int,
        on_delivery: DeliveryCallback | None,
    ) -> tuple[Delivery, int]:
        """Put a record into a batch. The caller has checked that there is room.

        Return its receipt, and the time for the sender to check the queues; see
        ``Accumulator.append``.

        Raises:
            KafkaError: INVALID_TIMESTAMP, INVALID_PARTITIONS.
            TypeError: partition or timestamp is not a whole number, or ``on_delivery`` cannot be
                called.
        """
        if on_delivery is not None:
            require_callback(on_delivery)
        partition = (
            self._choose(view, key, value, size_bytes) if partition is None else index(partition)
        )
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        elif not NO_TIMESTAMP <= whole_number(timestamp_ms, "a timestamp in ms") < MAX_TIMESTAMP_MS:
            text = (
                f"a timestamp is from 0 to {MAX_TIMESTAMP_MS - 1} ms, or {NO_TIMESTAMP} for none,"
                f" not {timestamp_ms}"
            )
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)
        return self._accumulator.append(
            view.name, partition, timestamp_ms, key, value, headers, on_delivery
        )

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
        before_bytes = first.batch.size_bytes
        placed = self._accumulator.append_run(first, contents, start, headers, on_delivery)
        self._sticky.note_placed(first.batch.topic_partition, first.batch.size_bytes - before_bytes)
        return placed

    def _choose(
        self, view: TopicView, key: bytes | None, value: bytes | None, size_bytes: int
    ) -> int:
        count = len(view.partitions)
        if self.partitioner is not None:
            chosen = self.partitioner(view.name, key, value, count)
            if chosen is not None:
                if not 0 <= index(chosen) < count:
                    raise KafkaError(
                        ErrorCode.INVALID_PARTITIONS,
                        f"the partitioner chose {chosen}; {view.name!r} has partitions 0 to"
                        f" {count - 1}",
                    )
                return chosen
        if key is not None and not self._config.partitioner_ignore_keys:
            return self._keyed.partition(key, count)
        return self._sticky.place(view.name, size_bytes, count, view.available)
