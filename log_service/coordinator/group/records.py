"""What ``__consumer_offsets`` holds, as values: committed offsets and the generations of groups.

The coordinator decides and replays these values; ``encode`` and ``decode`` turn them into the keys and values that Kafka stores, and back.
Those of consumer groups (KIP-848) are ``consumer_records``', those of share groups (KIP-932) ``share_records``' and those of streams groups
(KIP-1071) ``streams_records``'. A record type that this coordinator does not own decodes to None and stays untouched in the log.
"""

from dataclasses import dataclass
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, Buffer
from log_service.coordinator.group.classic_group import ClassicGroup, ClassicMember, GroupState
from log_service.coordinator.group.consumer_records import CONSUMER_DECODERS, ConsumerGroupRecord, encode_consumer_record
from log_service.coordinator.group.share_records import SHARE_DECODERS, SHARE_GROUP_RECORDS, ShareGroupRecord, encode_share_record
from log_service.coordinator.group.streams_records import (
    STREAMS_DECODERS,
    STREAMS_GROUP_RECORDS,
    StreamsGroupRecord,
    encode_streams_record,
)
from log_service.protocol.schema import Message
from log_service.protocol.stored.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from log_service.protocol.stored.serde import UnknownRecordTypeError, decode_key, decode_versioned, encode_key, encode_versioned

KEY_CLASSES: dict[int, type[Message]] = {
    0: LegacyOffsetCommitKey,
    1: OffsetCommitKey,
    2: GroupMetadataKey,
    **{cls.SCHEMA.key: cls for cls in (*CONSUMER_DECODERS, *SHARE_DECODERS, *STREAMS_DECODERS) if cls.SCHEMA.key is not None},
}
GROUP_VALUE_VERSION = 3
OFFSET_VALUE_VERSION = 4  # the first with topic ids
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1  # the only one with a retention of its own
NO_EXPIRY = -1
FOREIGN_TYPES = frozenset({9, 18})
"""Record types that Kafka reserves and does not use, which this coordinator leaves as they are."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member as a generation knows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGeneration:
    """A generation after its leader has synced, or an empty one."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[StoredMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRecord:
    """A group's last generation; None removes the group."""

    group_id: str
    generation: StoredGeneration | None


GroupRecord = OffsetRecord | GenerationRecord | ConsumerGroupRecord | ShareGroupRecord | StreamsGroupRecord


def store_group(group: ClassicGroup, wall_ms: int) -> GenerationRecord:
    """Return the record of a group as it stands, assignments included."""
    members = tuple(
        StoredMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            subscription=member.metadata_for(group.protocol_name),
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    generation = StoredGeneration(
        protocol_type=group.protocol_type or "",
        generation_id=group.generation_id,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        state_since_ms=group.state_since_ms if group.state_since_ms is not None else wall_ms,
        members=members,
    )
    return GenerationRecord(group_id=group.group_id, generation=generation)


def validate_size(record: GroupRecord, max_bytes: int) -> None:
    """Check that the topic takes the record of what a member says.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR, as Apache Kafka answers where a record is too large.
    """
    size_bytes = sum(len(part) for part in encode(record) if part is not None)
    if size_bytes > max_bytes:
        text = f"What the member says has {size_bytes} bytes, and one record of group {record.group_id} may have {max_bytes}."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


def restore_group(group_id: str, stored: StoredGeneration) -> ClassicGroup:
    """Build a group from its stored generation."""
    group = ClassicGroup(
        group_id,
        state=GroupState.STABLE if stored.members else GroupState.EMPTY,
        state_since_ms=stored.state_since_ms if stored.state_since_ms >= 0 else None,
        generation_id=stored.generation_id,
        protocol_name=stored.protocol_name,
    )
    for member in stored.members:
        group.add(_restored_member(member, stored))
    group.protocol_type = stored.protocol_type or None
    group.leader_id = stored.leader_id if stored.leader_id in group.members else group.leader_id
    group.note_subscriptions()
    return group


def _restored_member(member: StoredMember, stored: StoredGeneration) -> ClassicMember:
    """Build a member from its stored form; of its protocols only the chosen one was kept."""
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocol_type=stored.protocol_type,
        protocols=((stored.protocol_name or "", member.subscription),),
        assignment=member.assignment,
        is_new=False,
    )


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return key and value as they are stored; a value of None is a tombstone."""
    match record:
        case OffsetRecord():
            key = OffsetCommitKey(group=record.group_id, topic=record.topic, partition=record.partition)
            return encode_key(key), _encode_offset(record.committed)
        case GenerationRecord():
            return encode_key(GroupMetadataKey(group=record.group_id)), _encode_generation(record.generation)
        case record if isinstance(record, SHARE_GROUP_RECORDS):
            return encode_share_record(record)
        case record if isinstance(record, STREAMS_GROUP_RECORDS):
            return encode_streams_record(record)
        case _:
            return encode_consumer_record(record)


def _encode_offset(committed: CommittedOffset | None) -> bytes | None:
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


def _encode_generation(generation: StoredGeneration | None) -> bytes | None:
    if generation is None:
        return None
    value = GroupMetadataValue(
        protocol_type=generation.protocol_type,
        generation=generation.generation_id,
        protocol=generation.protocol_name,
        leader=generation.leader_id,
        current_state_timestamp=generation.state_since_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in generation.members
        ],
    )
    return encode_versioned(value, GROUP_VALUE_VERSION)


def decode(key: Buffer, value: Buffer | None) -> GroupRecord | None:
    """Return the record, or None for a type that belongs to another kind of group.

    Raises:
        ProtocolError: the bytes are not what their type says, or are of a type that does not exist.
    """
    try:
        stored_key = decode_key(KEY_CLASSES, key)
    except UnknownRecordTypeError as error:
        if error.record_type in FOREIGN_TYPES:
            return None
        raise
    decode_consumer_record = CONSUMER_DECODERS.get(type(stored_key))
    if decode_consumer_record is not None:
        return decode_consumer_record(stored_key, value)
    decode_share_record = SHARE_DECODERS.get(type(stored_key))
    if decode_share_record is not None:
        return decode_share_record(stored_key, value)
    decode_streams_record = STREAMS_DECODERS.get(type(stored_key))
    if decode_streams_record is not None:
        return decode_streams_record(stored_key, value)
    if isinstance(stored_key, GroupMetadataKey):
        return GenerationRecord(group_id=stored_key.group, generation=_decode_generation(value))
    assert isinstance(stored_key, OffsetCommitKey | LegacyOffsetCommitKey)
    return OffsetRecord(group_id=stored_key.group, topic=stored_key.topic, partition=stored_key.partition, committed=_decode_offset(value))


def _decode_offset(value: Buffer | None) -> CommittedOffset | None:
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


def _decode_generation(value: Buffer | None) -> StoredGeneration | None:
    if value is None:
        return None
    stored = decode_versioned(GroupMetadataValue, value)
    return StoredGeneration(
        protocol_type=stored.protocol_type,
        generation_id=stored.generation,
        protocol_name=stored.protocol,
        leader_id=stored.leader,
        state_since_ms=stored.current_state_timestamp,
        members=tuple(
            StoredMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout if member.rebalance_timeout >= 0 else member.session_timeout,
                session_timeout_ms=member.session_timeout,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in stored.members
        ),
    )
