"""Values of committed offsets, as ``__consumer_offsets`` holds them, and their stored form."""

from dataclasses import dataclass
from uuid import UUID

from log_service.common.types import NO_TOPIC_ID, Buffer
from log_service.protocol.stored.group_records import OffsetCommitValue
from log_service.protocol.stored.serde import decode_versioned, encode_versioned

OFFSET_VALUE_VERSION = 4  # the first with topic ids
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1  # the only one with a retention of its own
NO_EXPIRY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """One committed position, and since when.

    ``expire_timestamp_ms`` only where an old client named a retention; ``topic_id`` where the record could hold it.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY
    topic_id: UUID = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
    """A group's position in one partition; None takes it back."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


def encode_offset(committed: CommittedOffset | None) -> bytes | None:
    """Return the stored value; None, a tombstone, takes the position back."""
    if committed is None:
        return None
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    has_expiry = committed.expire_timestamp_ms != NO_EXPIRY
    return encode_versioned(value, OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else OFFSET_VALUE_VERSION)


def decode_offset(value: Buffer | None) -> CommittedOffset | None:
    """Return the position of a stored value.

    Raises:
        ProtocolError: the bytes are no committed offset.
    """
    if value is None:
        return None
    stored = decode_versioned(OffsetCommitValue, value)
    return CommittedOffset(
        offset=stored.offset,
        leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
        commit_timestamp_ms=stored.commit_timestamp,
        expire_timestamp_ms=stored.expire_timestamp,
        topic_id=stored.topic_id,
    )
