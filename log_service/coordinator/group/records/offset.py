"""Records of committed offsets in ``__consumer_offsets``, as values and as stored bytes."""

from dataclasses import dataclass
from uuid import UUID

from log_service.common.types import NO_TOPIC_ID, Buffer
from log_service.protocol.stored.group_records import OffsetCommitValue
from log_service.protocol.stored.serde import decode_versioned, encode_versioned

OFFSET_VALUE_VERSION = 4  # the first with topic ids
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1  # the only one with an expiry time
NO_EXPIRY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """One committed offset with its commit time.

    ``expire_timestamp_ms`` is set only if an old client named a retention. ``topic_id`` is zero if
    it is unknown, for example because the version of the stored record has no field for it.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY
    topic_id: UUID = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
    """A group's offset in one partition. If ``committed`` is None, the record deletes it."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


def encode_offset(committed: CommittedOffset | None) -> bytes | None:
    """Return the stored value, or None (a tombstone) to delete the offset."""
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
    return encode_versioned(
        value, OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else OFFSET_VALUE_VERSION
    )


def decode_offset(value: Buffer | None) -> CommittedOffset | None:
    """Return the committed offset of a stored value.

    Raises:
        ProtocolError: the bytes are not a committed offset.
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
