"""Records of a share group with their delivery counts, and the acknowledgement types.

Values only.
"""

from enum import IntEnum
from typing import Any, NamedTuple

from log_service.client.consumer.records import ConsumerRecord
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.records.record import RecordHeader

GAP = 0
"""Acknowledges an acquired offset that has no record (KIP-932).

The offset is not delivered again.
"""


class AcknowledgeType(IntEnum):
    """Acknowledgement of an acquired record (KIP-932, KIP-1222)."""

    ACCEPT = 1
    """The record was processed, and is not delivered again."""
    RELEASE = 2
    """The record is available to any member at once, until its delivery limit is reached."""
    REJECT = 3
    """The record can never be processed, and is not delivered again."""
    RENEW = 4
    """The record is still being processed. Its acquisition lock starts again."""


class ShareRecord(NamedTuple):
    """A record of a share group. ``delivery_count`` is 1 at its first delivery.

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
    delivery_count: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)


class ShareDeserializationError(KafkaError):
    """A deserializer failed. ``__cause__`` is its exception, ``origin`` is ``key`` or ``value``.

    ``record`` has its key and value as bytes. It counts as returned, and is released by the next
    poll, commit or close, unless the application acknowledges it before. If it is rejected, it is
    not delivered again (KIP-932).
    """

    def __init__(self, record: ShareRecord, origin: str, cause: Exception) -> None:
        text = (
            f"the {origin} of the record at {record.topic_partition} offset {record.offset} cannot"
            f" be deserialized: {cause!r}"
        )
        super().__init__(
            ErrorCode.INVALID_RECORD, f"{text}; reject the record, or it is delivered again"
        )
        self.record = record
        self.origin = origin


def as_share_record(record: ConsumerRecord, delivery_count: int) -> ShareRecord:
    """Return the record with its delivery count."""
    return ShareRecord(*record, delivery_count)
