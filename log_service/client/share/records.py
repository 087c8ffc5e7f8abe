"""What a queue hands out: records with the number of their delivery, and what may be said about them. Values only."""

from enum import IntEnum
from typing import Any, NamedTuple

from log_service.client.consumer.records import ConsumerRecord
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.records.record import RecordHeader

GAP = 0
"""What is said of an acquired offset at which there is no record: it is done with (KIP-932)."""


class AcknowledgeType(IntEnum):
    """What becomes of a record that was handed out (KIP-932, KIP-1222)."""

    ACCEPT = 1
    """It was worked on, and is not delivered again."""
    RELEASE = 2
    """It goes back into the queue, and is delivered again: to anybody, at once, until its deliveries are used up."""
    REJECT = 3
    """It can never be worked on, and is not delivered again."""
    RENEW = 4
    """It is still worked on: its acquisition lock begins anew."""


class ShareRecord(NamedTuple):
    """A record of a queue. ``delivery_count`` is 1 at its first delivery; ``timestamp_type`` is ``CreateTime`` or ``LogAppendTime``."""

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
        """Where the record lies."""
        return TopicPartition(self.topic, self.partition)


class ShareDeserializationError(KafkaError):
    """A deserializer failed; ``__cause__`` is what it raised, ``origin`` is ``key`` or ``value``.

    ``record`` has its key and value as bytes. It counts as handed out, and is released at the next poll, commit or close, unless the
    application says something else of it before: rejecting it keeps it from coming back (KIP-932).
    """

    def __init__(self, record: ShareRecord, origin: str, cause: Exception) -> None:
        text = f"the {origin} of the record at {record.topic_partition} offset {record.offset} cannot be deserialized: {cause!r}"
        super().__init__(ErrorCode.INVALID_RECORD, f"{text}; reject the record, or it is delivered again")
        self.record = record
        self.origin = origin


def as_share_record(record: ConsumerRecord, delivery_count: int) -> ShareRecord:
    """Return the record of a delivery."""
    return ShareRecord(*record, delivery_count)
