"""Describe consumer groups (KIP-848), and validate commits and fetches of their offsets.

These are pure functions of a group's state.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.types import NO_TOPIC_ID, TopicId
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.values.consumer_member import ConsumerMember
from log_service.coordinator.group.values.partitions import (
    Partitions,
    in_order,
    merged,
    without_epochs,
)
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from log_service.protocol.messages.offset_commit import OffsetCommitRequest
from log_service.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from log_service.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
FIRST_COMMIT_VERSION_WITH_EPOCHS = 9


def describe_consumer_group(
    group_id: str, group: ConsumerGroup | None, image: MetadataImage, assignors: Sequence[str]
) -> DescribedGroup:
    """Return the description of one group.

    If ``group`` is None, no consumer group has the id, and the description holds
    GROUP_ID_NOT_FOUND.
    """
    if group is None:
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch.epoch,
        assignment_epoch=group.target_epoch.epoch,
        assignor_name=group.preferred_assignor(group.members.values(), tuple(assignors)),
        members=[_member(group, member, image) for _, member in sorted(group.members.items())],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: MetadataImage) -> Member:
    subscription = member.subscription
    return Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.current.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topics),
        subscribed_topic_regex=subscription.regex,
        assignment=_named(
            without_epochs(merged(member.current.assigned, member.current.pending_revocation)),
            image,
        ),
        target_assignment=_named(group.target_of(member), image),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _named(partitions: Partitions, image: MetadataImage) -> Assignment:
    """Return partitions with the names of their topics, without deleted topics."""
    topics = [
        TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=indexes)
        for topic_id, indexes in in_order(partitions)
        if (topic := image.topics.by_id.get(TopicId(topic_id))) is not None
    ]
    return Assignment(topic_partitions=topics)


def validate_commit(
    group: ConsumerGroup,
    request: OffsetCommitRequest,
    context: RequestContext,
    image: MetadataImage,
) -> ErrorCode:
    """Return NONE if a commit is valid, else its error.

    A commit of an older epoch is valid if the member has held every committed partition since that
    epoch (KIP-1251).
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and context.api_version < FIRST_COMMIT_VERSION_WITH_EPOCHS:
        return ErrorCode.UNSUPPORTED_VERSION
    wanted = (
        (_topic_id(topic.topic_id, topic.name, image), each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    )
    if epoch == member.current.epoch or (
        epoch < member.current.epoch and _has_held_since(member, epoch, wanted)
    ):
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def validate_commit_in_transaction(
    group: ConsumerGroup, request: TxnOffsetCommitRequest, image: MetadataImage
) -> ErrorCode:
    """Return NONE if a transactional commit is valid, else its error.

    A commit without member and generation is valid, because older producers send neither. A commit
    of an older epoch is valid if the member has held every committed partition since that epoch. A
    wrong epoch gets ILLEGAL_GENERATION, because producers know only generations.
    """
    is_outsider = request.generation_id < 0
    if is_outsider and (
        not group.members or (request.member_id == "" and request.group_instance_id is None)
    ):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    epoch = request.generation_id
    wanted = (
        (_topic_id(NO_TOPIC_ID, topic.name, image), each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    )
    if epoch == member.current.epoch or (
        epoch < member.current.epoch and _has_held_since(member, epoch, wanted)
    ):
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION


def _has_held_since(member: ConsumerMember, epoch: int, wanted: Iterable[tuple[UUID, int]]) -> bool:
    """Return whether a member has held all ``wanted`` partitions since ``epoch`` or longer."""
    return all(
        _assignment_epoch(member, topic_id, index, epoch + 1) <= epoch for topic_id, index in wanted
    )


def _topic_id(topic_id: UUID, name: str, image: MetadataImage) -> UUID:
    topic = image.topics.by_name.get(name)
    return topic.topic_id if not topic_id.int and topic is not None else topic_id


def _assignment_epoch(member: ConsumerMember, topic_id: UUID, index: int, default: int) -> int:
    held = (member.current.assigned, member.current.pending_revocation)
    return next(
        (epochs[index] for each in held if index in (epochs := each.get(topic_id, {}))), default
    )


def validate_fetch(group: ConsumerGroup, request: OffsetFetchRequestGroup) -> ErrorCode:
    """Return NONE if a fetch of offsets is valid, else its error.

    The fetch must come from a member in its current epoch, or from a tool that names no member.
    """
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(request.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if request.member_epoch == member.current.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
