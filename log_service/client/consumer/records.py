"""Values that a consumer returns: records, and errors about a record or a log.

``record_reader`` makes the records from fetched bytes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.records.batch import BatchHeader
from log_service.records.control import ControlType, parse_control_key, parse_coordinator_epoch
from log_service.records.record import RecordHeader

Deserializer = Callable[[bytes], Any]
"""Turns the bytes of a key or a value into an object of the application.

It is not called for null, which becomes None.
"""


class ConsumerRecord(NamedTuple):
    """A record that a consumer returns.

    ``timestamp_type`` is ``CreateTime`` or ``LogAppendTime``.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: Any
    value: Any
    headers: tuple[RecordHeader, ...]
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)


class ControlMarker(NamedTuple):
    """The meaning of a control record: COMMIT and ABORT end the transaction of a producer.

    ``kind`` is UNKNOWN for a type that this version does not know. Only COMMIT and ABORT have a
    coordinator's epoch.
    """

    kind: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None


class LogRecord(ConsumerRecord):
    """A record with its producer. A consumer with ``include_control_records`` returns it.

    A control record has a ``marker``. Its key and value are not deserialized.
    """

    header: BatchHeader

    @classmethod
    def of(cls, record: ConsumerRecord, header: BatchHeader) -> Self:
        """Return a record with the header of its batch."""
        made = cls._make(record)
        made.header = header
        return made

    def _replace(self, **parts: Any) -> Self:
        return self.of(super()._replace(**parts), self.header)

    @property
    def producer_id(self) -> int:
        """The id of an idempotent producer, -1 without one."""
        return self.header.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch of an idempotent producer, -1 without one."""
        return self.header.producer_epoch

    @property
    def is_transactional(self) -> bool:
        """Whether the record belongs to a transaction."""
        return self.header.is_transactional

    @property
    def is_control(self) -> bool:
        """Whether this is a control record, which no application wrote."""
        return self.header.is_control

    @property
    def marker(self) -> ControlMarker | None:
        """The meaning of a control record, None for other records."""
        if not self.is_control:
            return None
        kind, coordinator_epoch = "UNKNOWN", None
        try:
            found = parse_control_key(self.key)
            if found in {ControlType.ABORT, ControlType.COMMIT}:
                coordinator_epoch = parse_coordinator_epoch(self.value or b"")
            kind = kind if found is None else found.name
        except KafkaError:
            pass  # bytes of a later version
        return ControlMarker(
            kind=kind,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )


class RecordDeserializationError(KafkaError):
    """A deserializer failed. ``__cause__`` is its exception, ``origin`` is ``key`` or ``value``.

    The position is at the record. Reading on at ``record.offset + 1`` skips it (KIP-334, KIP-1036).
    ``record`` has its key and value as bytes.
    """

    def __init__(self, record: ConsumerRecord, origin: str, cause: Exception) -> None:
        text = (
            f"the {origin} of the record at {record.topic_partition} offset {record.offset} cannot"
            f" be deserialized: {cause!r}"
        )
        super().__init__(
            ErrorCode.INVALID_RECORD, f"{text}; seek to {record.offset + 1} to skip it"
        )
        self.record = record
        self.origin = origin

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return self.record.topic_partition

    @property
    def offset(self) -> int:
        """The offset of the record."""
        return self.record.offset


class LogTruncation(KafkaError):  # noqa: N818 - it says what happened to the log
    """A log was truncated below the position, and ``auto_offset_reset`` is none (KIP-320).

    ``offset`` is the position. ``end_offset`` is the end of the part that was not truncated, and
    the offset to seek to.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, end_offset: int) -> None:
        text = (
            f"{topic_partition} was truncated to offset {end_offset} after offset {offset} had been"
            " read"
        )
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        self.topic_partition = topic_partition
        self.offset = offset
        self.end_offset = end_offset
