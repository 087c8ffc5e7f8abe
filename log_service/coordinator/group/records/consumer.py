"""Records of consumer groups (KIP-848) in ``__consumer_offsets``: types 3 to 8 and 16.

A record whose content is None deletes an earlier one. Topics and partitions are stored in order, so
that equal values have equal bytes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from log_service.common.types import Buffer
from log_service.coordinator.group.values.consumer_member import (
    ClassicMetadata,
    CurrentAssignment,
    MemberState,
    Subscription,
)
from log_service.coordinator.group.values.epochs import GroupEpoch, TargetEpoch
from log_service.coordinator.group.values.partitions import (
    HeldPartitions,
    Partitions,
    in_order,
    partitions_of,
)
from log_service.protocol.schema import Message
from log_service.protocol.stored.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from log_service.protocol.stored.serde import decode_versioned, encode_key, encode_versioned

VALUE_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpochRecord:
    """Type 3: the group epoch. None removes the group."""

    group_id: str
    content: GroupEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTopicsRecord:
    """Type 4: the topics that a group reads, as Kafka stored them before 4.1.

    This coordinator never writes one with topics. It only deletes those that Kafka has written.
    """

    group_id: str
    is_there: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRecord:
    """Type 5: the subscription of one member. None removes the member."""

    group_id: str
    member_id: str
    content: Subscription | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochRecord:
    """Type 6: the epoch of the targets."""

    group_id: str
    content: TargetEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """Type 7: the target of one member."""

    group_id: str
    member_id: str
    content: Partitions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignmentRecord:
    """Type 8: the current assignment of one member."""

    group_id: str
    member_id: str
    content: CurrentAssignment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The matches of an expression. ``version`` is the offset of the searched metadata image."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexRecord:
    """Type 16: the matches of a regular expression."""

    group_id: str
    regex: str
    content: ResolvedRegex | None


ConsumerGroupRecord = (
    GroupEpochRecord
    | LegacyTopicsRecord
    | SubscriptionRecord
    | TargetEpochRecord
    | TargetRecord
    | CurrentAssignmentRecord
    | RegexRecord
)


def encode_consumer_record(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    """Return the stored key and value. A value of None is a tombstone."""
    value = _value(record)
    return encode_key(_key(record)), (
        None if value is None else encode_versioned(value, VALUE_VERSION)
    )


def is_tombstone(record: ConsumerGroupRecord) -> bool:
    """Whether a record deletes an earlier one."""
    return not record.is_there if isinstance(record, LegacyTopicsRecord) else record.content is None


def _key(record: ConsumerGroupRecord) -> Message:
    cls = _KEYS[type(record)]
    match record:
        case SubscriptionRecord() | TargetRecord() | CurrentAssignmentRecord():
            return cls(group_id=record.group_id, member_id=record.member_id)
        case RegexRecord():
            return cls(group_id=record.group_id, regular_expression=record.regex)
        case _:
            return cls(group_id=record.group_id)


_KEYS: Mapping[type[ConsumerGroupRecord], Callable[..., Message]] = {
    GroupEpochRecord: ConsumerGroupMetadataKey,
    LegacyTopicsRecord: ConsumerGroupPartitionMetadataKey,
    SubscriptionRecord: ConsumerGroupMemberMetadataKey,
    TargetEpochRecord: ConsumerGroupTargetAssignmentMetadataKey,
    TargetRecord: ConsumerGroupTargetAssignmentMemberKey,
    CurrentAssignmentRecord: ConsumerGroupCurrentMemberAssignmentKey,
    RegexRecord: ConsumerGroupRegularExpressionKey,
}


def _value(record: ConsumerGroupRecord) -> Message | None:
    assert not isinstance(record, LegacyTopicsRecord) or not record.is_there, (
        "topics of a group are stored as a hash"
    )
    if isinstance(record, LegacyTopicsRecord) or record.content is None:
        return None
    match record.content:
        case GroupEpoch(epoch=epoch, metadata_hash=metadata_hash):
            return ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        case TargetEpoch(epoch=epoch, computed_ms=computed_ms):
            return ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=computed_ms
            )
        case Subscription() as subscription:
            return _subscription_value(subscription)
        case CurrentAssignment() as current:
            return _current_value(current)
        case _:
            return _found_value(record.content)


def _found_value(content: Partitions | ResolvedRegex) -> Message:
    """Return the stored value of a target or of the matches of a regular expression."""
    if isinstance(content, ResolvedRegex):
        return ConsumerGroupRegularExpressionValue(
            topics=sorted(content.topics), version=content.version, timestamp=content.resolved_ms
        )
    topics = [
        TopicPartition(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in in_order(content)
    ]
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


def _subscription_value(subscription: Subscription) -> ConsumerGroupMemberMetadataValue:
    classic = subscription.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topics),
        subscribed_topic_regex=subscription.regex,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        server_assignor=subscription.assignor,
        classic_member_metadata=None if classic is None else _classic_value(classic),
    )


def _classic_value(classic: ClassicMetadata) -> ClassicMemberMetadata:
    protocols = [
        ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
    ]
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols
    )


def _current_value(current: CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_held_topics(current.assigned),
        partitions_pending_revocation=_held_topics(current.pending_revocation),
    )


def _held_topics(held: HeldPartitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=indexes,
            assignment_epochs=[held[topic_id][index] for index in indexes],
        )
        for topic_id, indexes in in_order(held)
    ]


# Decoding


def _decode_epoch(key: ConsumerGroupMetadataKey, value: Buffer | None) -> GroupEpochRecord:
    content = None
    if value is not None:
        stored = decode_versioned(ConsumerGroupMetadataValue, value)
        content = GroupEpoch(epoch=stored.epoch, metadata_hash=stored.metadata_hash)
    return GroupEpochRecord(group_id=key.group_id, content=content)


def _decode_legacy_topics(
    key: ConsumerGroupPartitionMetadataKey, value: Buffer | None
) -> LegacyTopicsRecord:
    return LegacyTopicsRecord(group_id=key.group_id, is_there=value is not None)


def _decode_subscription(
    key: ConsumerGroupMemberMetadataKey, value: Buffer | None
) -> SubscriptionRecord:
    content = None
    if value is not None:
        stored = decode_versioned(ConsumerGroupMemberMetadataValue, value)
        classic = stored.classic_member_metadata
        content = Subscription(
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            topics=tuple(stored.subscribed_topic_names),
            regex=stored.subscribed_topic_regex or "",
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            assignor=stored.server_assignor,
            classic=None if classic is None else _classic_metadata(classic),
        )
    return SubscriptionRecord(group_id=key.group_id, member_id=key.member_id, content=content)


def _classic_metadata(stored: ClassicMemberMetadata) -> ClassicMetadata:
    protocols = tuple(
        (protocol.name, bytes(protocol.metadata)) for protocol in stored.supported_protocols
    )
    return ClassicMetadata(session_timeout_ms=stored.session_timeout_ms, protocols=protocols)


def _decode_target_epoch(
    key: ConsumerGroupTargetAssignmentMetadataKey, value: Buffer | None
) -> TargetEpochRecord:
    content = None
    if value is not None:
        stored = decode_versioned(ConsumerGroupTargetAssignmentMetadataValue, value)
        content = TargetEpoch(
            epoch=stored.assignment_epoch, computed_ms=stored.assignment_timestamp
        )
    return TargetEpochRecord(group_id=key.group_id, content=content)


def _decode_target(
    key: ConsumerGroupTargetAssignmentMemberKey, value: Buffer | None
) -> TargetRecord:
    stored = (
        None if value is None else decode_versioned(ConsumerGroupTargetAssignmentMemberValue, value)
    )
    content = None if stored is None else partitions_of(stored.topic_partitions)
    return TargetRecord(group_id=key.group_id, member_id=key.member_id, content=content)


def _decode_current(
    key: ConsumerGroupCurrentMemberAssignmentKey, value: Buffer | None
) -> CurrentAssignmentRecord:
    content = None
    if value is not None:
        stored = decode_versioned(ConsumerGroupCurrentMemberAssignmentValue, value)
        content = CurrentAssignment(
            epoch=stored.member_epoch,
            previous_epoch=stored.previous_member_epoch,
            state=_state(stored.state),
            assigned=_held(stored.assigned_partitions, stored.member_epoch),
            pending_revocation=_held(stored.partitions_pending_revocation, stored.member_epoch),
        )
    return CurrentAssignmentRecord(group_id=key.group_id, member_id=key.member_id, content=content)


def _state(stored: int) -> MemberState:
    known = {state.value for state in MemberState}
    return MemberState(stored) if stored in known else MemberState.UNKNOWN


def _held(topics: Iterable[TopicPartitions], member_epoch: int) -> HeldPartitions:
    """Return held partitions with their assignment epochs.

    A record of an older version has no assignment epochs. Its partitions get the member epoch.
    """
    held: dict[UUID, dict[int, int]] = {}
    for topic in (topic for topic in topics if topic.partitions):
        epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        held.setdefault(topic.topic_id, {}).update(zip(topic.partitions, epochs, strict=False))
    return held


def _decode_regex(key: ConsumerGroupRegularExpressionKey, value: Buffer | None) -> RegexRecord:
    content = None
    if value is not None:
        stored = decode_versioned(ConsumerGroupRegularExpressionValue, value)
        content = ResolvedRegex(
            topics=frozenset(stored.topics), version=stored.version, resolved_ms=stored.timestamp
        )
    return RegexRecord(group_id=key.group_id, regex=key.regular_expression, content=content)


CONSUMER_DECODERS: Mapping[type[Message], Callable[[Any, Buffer | None], ConsumerGroupRecord]] = {
    ConsumerGroupMetadataKey: _decode_epoch,
    ConsumerGroupPartitionMetadataKey: _decode_legacy_topics,
    ConsumerGroupMemberMetadataKey: _decode_subscription,
    ConsumerGroupTargetAssignmentMetadataKey: _decode_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _decode_target,
    ConsumerGroupCurrentMemberAssignmentKey: _decode_current,
    ConsumerGroupRegularExpressionKey: _decode_regex,
}
"""The decoder of each key's value."""
