"""Records of share groups (KIP-932) in ``__consumer_offsets``: types 10 to 15.

A record whose content is None deletes an earlier one. Topics and partitions are stored in order, so
that equal values have equal bytes. A share state is the progress of a group in one partition. A
share coordinator stores the share states, and type 15 only lists the partitions that have one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from log_service.common.types import Buffer
from log_service.coordinator.group.values.epochs import GroupEpoch, TargetEpoch
from log_service.coordinator.group.values.partitions import Partitions, in_order, partitions_of
from log_service.protocol.schema import Message
from log_service.protocol.stored.serde import decode_versioned, encode_key, encode_versioned
from log_service.protocol.stored.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)

VALUE_VERSION = 0
STABLE = 0
"""The only state of a member of a share group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSubscription:
    """The subscription of a member. ``topics`` is sorted."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAssignment:
    """The partitions that a member may fetch, and the member's epoch."""

    epoch: int = 0
    previous_epoch: int = 0
    partitions: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTopic:
    """The partitions of one topic whose share states exist or are being initialized."""

    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePartitions:
    """The partitions of a group's share states, which are initializing, initialized or deleting.

    ``deleting`` holds the names of topics whose share states are being deleted, by topic id.
    """

    initializing: Mapping[UUID, StateTopic] = field(default_factory=dict)
    initialized: Mapping[UUID, StateTopic] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberRecord:
    """Type 10: the subscription of one member. None removes the member."""

    group_id: str
    member_id: str
    content: ShareSubscription | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEpochRecord:
    """Type 11: the group epoch. None removes the group."""

    group_id: str
    content: GroupEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTargetEpochRecord:
    """Type 12: the epoch of the targets."""

    group_id: str
    content: TargetEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTargetRecord:
    """Type 13: the target of one member."""

    group_id: str
    member_id: str
    content: Partitions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAssignmentRecord:
    """Type 14: the current assignment of one member."""

    group_id: str
    member_id: str
    content: ShareAssignment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePartitionsRecord:
    """Type 15: the partitions that have share states."""

    group_id: str
    content: StatePartitions | None


ShareGroupRecord = (
    ShareMemberRecord
    | ShareEpochRecord
    | ShareTargetEpochRecord
    | ShareTargetRecord
    | ShareAssignmentRecord
    | StatePartitionsRecord
)
SHARE_GROUP_RECORDS = (
    ShareMemberRecord,
    ShareEpochRecord,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    ShareAssignmentRecord,
    StatePartitionsRecord,
)

_KEYS: Mapping[type[ShareGroupRecord], Callable[..., Message]] = {
    ShareMemberRecord: ShareGroupMemberMetadataKey,
    ShareEpochRecord: ShareGroupMetadataKey,
    ShareTargetEpochRecord: ShareGroupTargetAssignmentMetadataKey,
    ShareTargetRecord: ShareGroupTargetAssignmentMemberKey,
    ShareAssignmentRecord: ShareGroupCurrentMemberAssignmentKey,
    StatePartitionsRecord: ShareGroupStatePartitionMetadataKey,
}


def encode_share_record(record: ShareGroupRecord) -> tuple[bytes, bytes | None]:
    """Return the stored key and value. A value of None is a tombstone."""
    cls = _KEYS[type(record)]
    match record:
        case ShareMemberRecord() | ShareTargetRecord() | ShareAssignmentRecord():
            key = cls(group_id=record.group_id, member_id=record.member_id)
        case _:
            key = cls(group_id=record.group_id)
    return encode_key(key), (
        None if record.content is None else encode_versioned(_value(record.content), VALUE_VERSION)
    )


def _value(
    content: (
        ShareSubscription
        | GroupEpoch
        | TargetEpoch
        | ShareAssignment
        | StatePartitions
        | Partitions
    ),
) -> Message:
    match content:
        case ShareSubscription():
            return ShareGroupMemberMetadataValue(
                rack_id=content.rack_id,
                client_id=content.client_id,
                client_host=content.client_host,
                subscribed_topic_names=list(content.topics),
            )
        case GroupEpoch():
            return ShareGroupMetadataValue(epoch=content.epoch, metadata_hash=content.metadata_hash)
        case TargetEpoch():
            return ShareGroupTargetAssignmentMetadataValue(
                assignment_epoch=content.epoch, assignment_timestamp=content.computed_ms
            )
        case ShareAssignment():
            topics = [
                TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in in_order(content.partitions)
            ]
            return ShareGroupCurrentMemberAssignmentValue(
                member_epoch=content.epoch,
                previous_member_epoch=content.previous_epoch,
                state=STABLE,
                assigned_partitions=topics,
            )
        case StatePartitions():
            return ShareGroupStatePartitionMetadataValue(
                initializing_topics=_stored_topics(content.initializing),
                initialized_topics=_stored_topics(content.initialized),
                deleting_topics=[
                    TopicInfo(topic_id=each, topic_name=content.deleting[each])
                    for each in sorted(content.deleting)
                ],
            )
        case _:
            targets = [
                TopicPartition(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in in_order(content)
            ]
            return ShareGroupTargetAssignmentMemberValue(topic_partitions=targets)


def _stored_topics(topics: Mapping[UUID, StateTopic]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(
            topic_id=topic_id,
            topic_name=topics[topic_id].name,
            partitions=sorted(topics[topic_id].partitions),
        )
        for topic_id in sorted(topics)
    ]


# Decoding


def _decode_member(key: ShareGroupMemberMetadataKey, value: Buffer | None) -> ShareMemberRecord:
    content = None
    if value is not None:
        stored = decode_versioned(ShareGroupMemberMetadataValue, value)
        content = ShareSubscription(
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            topics=tuple(stored.subscribed_topic_names),
        )
    return ShareMemberRecord(group_id=key.group_id, member_id=key.member_id, content=content)


def _decode_epoch(key: ShareGroupMetadataKey, value: Buffer | None) -> ShareEpochRecord:
    stored = None if value is None else decode_versioned(ShareGroupMetadataValue, value)
    content = (
        None
        if stored is None
        else GroupEpoch(epoch=stored.epoch, metadata_hash=stored.metadata_hash)
    )
    return ShareEpochRecord(group_id=key.group_id, content=content)


def _decode_target_epoch(
    key: ShareGroupTargetAssignmentMetadataKey, value: Buffer | None
) -> ShareTargetEpochRecord:
    stored = (
        None if value is None else decode_versioned(ShareGroupTargetAssignmentMetadataValue, value)
    )
    content = (
        None
        if stored is None
        else TargetEpoch(epoch=stored.assignment_epoch, computed_ms=stored.assignment_timestamp)
    )
    return ShareTargetEpochRecord(group_id=key.group_id, content=content)


def _decode_target(
    key: ShareGroupTargetAssignmentMemberKey, value: Buffer | None
) -> ShareTargetRecord:
    stored = (
        None if value is None else decode_versioned(ShareGroupTargetAssignmentMemberValue, value)
    )
    content = None if stored is None else partitions_of(stored.topic_partitions)
    return ShareTargetRecord(group_id=key.group_id, member_id=key.member_id, content=content)


def _decode_assignment(
    key: ShareGroupCurrentMemberAssignmentKey, value: Buffer | None
) -> ShareAssignmentRecord:
    content = None
    if value is not None:
        stored = decode_versioned(ShareGroupCurrentMemberAssignmentValue, value)
        content = ShareAssignment(
            epoch=stored.member_epoch,
            previous_epoch=stored.previous_member_epoch,
            partitions=partitions_of(stored.assigned_partitions),
        )
    return ShareAssignmentRecord(group_id=key.group_id, member_id=key.member_id, content=content)


def _decode_state_partitions(
    key: ShareGroupStatePartitionMetadataKey, value: Buffer | None
) -> StatePartitionsRecord:
    content = None
    if value is not None:
        stored = decode_versioned(ShareGroupStatePartitionMetadataValue, value)
        content = StatePartitions(
            initializing=_state_topics(stored.initializing_topics),
            initialized=_state_topics(stored.initialized_topics),
            deleting={topic.topic_id: topic.topic_name for topic in stored.deleting_topics},
        )
    return StatePartitionsRecord(group_id=key.group_id, content=content)


def _state_topics(stored: Iterable[TopicPartitionsInfo]) -> Mapping[UUID, StateTopic]:
    return {
        topic.topic_id: StateTopic(name=topic.topic_name, partitions=frozenset(topic.partitions))
        for topic in stored
    }


SHARE_DECODERS: Mapping[type[Message], Callable[[Any, Buffer | None], ShareGroupRecord]] = {
    ShareGroupMemberMetadataKey: _decode_member,
    ShareGroupMetadataKey: _decode_epoch,
    ShareGroupTargetAssignmentMetadataKey: _decode_target_epoch,
    ShareGroupTargetAssignmentMemberKey: _decode_target,
    ShareGroupCurrentMemberAssignmentKey: _decode_assignment,
    ShareGroupStatePartitionMetadataKey: _decode_state_partitions,
}
"""The decoder of each key's value."""
