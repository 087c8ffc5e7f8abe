"""Values that a consumer returns: records, and errors that name a record.

``record_reader`` makes the records from fetched bytes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.records.record import RecordHeader

Deserializer = Callable[[bytes], Any]
"""Turns the bytes of a key or a value into an object of the application.

It is not called for null, which becomes None.
"""


class ConsumerRecord(NamedTuple):
    """A record of a consumer. ``timestamp_type`` is ``CreateTime`` or ``LogAppendTime``."""

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

    ``offset`` is the position. ``end_offset`` is the offset up to which the logs agree. Seek there.
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
