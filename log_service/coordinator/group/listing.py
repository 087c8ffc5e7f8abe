"""Build responses of DescribeGroups and ListGroups, and those that refuse a whole commit.

These are pure functions of a group's state.
"""

from collections.abc import Mapping
from typing import NamedTuple

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.coordinator.group.classic.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from log_service.coordinator.group.classic.group import ClassicGroup, GroupState
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.records.offset import CommittedOffset
from log_service.coordinator.group.share.group import ShareGroup
from log_service.coordinator.group.streams.group import StreamsGroup
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from log_service.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


class GroupOverview(NamedTuple):
    """An overview of one group for metrics.

    ``protocol`` is the group type of ListGroups. ``offsets`` are the committed offsets.
    """

    group_id: str
    protocol: str
    state: str
    member_count: int
    offsets: Mapping[TopicPartition, int]


def describe(group_id: str, group: ClassicGroup | None, context: RequestContext) -> DescribedGroup:
    """Return the description of one group.

    A missing group is described as dead. From version 6, its description also holds an error
    (KIP-1043).
    """
    if group is None:
        missing = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if context.api_version >= 6:
            missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            missing.error_message = f"Group {group_id} not found."
        return missing
    is_stable = group.is_in(GroupState.STABLE)
    members = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata_for(group.protocol_name) if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=members,
    )


def listed(group: ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup) -> ListedGroup:
    """Return the entry of a group in ListGroups.

    A group that has only offsets is empty and has no protocol type.
    """
    if isinstance(group, ShareGroup):
        return ListedGroup(
            group_id=group.group_id, protocol_type=SHARE, group_state=group.state, group_type=SHARE
        )
    if isinstance(group, StreamsGroup):
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=STREAMS,
            group_state=group.state.value,
            group_type=STREAMS,
        )
    if isinstance(group, ConsumerGroup):
        state = group.state.value
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=state,
            group_type=CONSUMER,
        )
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=CLASSIC,
    )


def overview(
    group: ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> GroupOverview:
    """Return an overview of one group."""
    if isinstance(group, ShareGroup):
        return GroupOverview(group.group_id, SHARE, group.state, len(group.members), {})
    positions = {where: committed.offset for where, committed in offsets.items()}
    if not isinstance(group, ClassicGroup):
        protocol = CONSUMER if isinstance(group, ConsumerGroup) else STREAMS
        return GroupOverview(
            group.group_id, protocol, group.state.value, len(group.members), positions
        )
    return GroupOverview(group.group_id, CLASSIC, group.state.value, group.member_count, positions)


def is_wanted(group: ListedGroup, request: ListGroupsRequest) -> bool:
    """Whether a group passes the filters of the request. The filters ignore case."""
    states = {state.lower() for state in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    return (not states or group.group_state.lower() in states) and (
        not types or group.group_type.lower() in types
    )


def refused_txn_commit(
    request: TxnOffsetCommitRequest, error: ErrorCode
) -> TxnOffsetCommitResponse:
    """Return a response with the same error for every partition of a transactional commit."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def refused_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return a response with the same error for every partition of a commit."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
