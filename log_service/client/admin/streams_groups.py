"""Describes groups of Kafka Streams instances (KIP-1071) as ``GroupDescription``.

The coordinator reports the tasks of each member, and this module derives the partitions from them.
A task belongs to a subtopology, which is a part of the application with its own input topics. The
task with number n reads partition n of each of these topics, if the topic has that partition.
"""

from collections.abc import Iterable, Mapping

from log_service.client.admin.values import GroupDescription, MemberDescription
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.connections.cluster_view import Node
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.streams_group_describe import (
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from log_service.rpc.connection import RpcConnection, raise_for

STREAMS_PROTOCOL_TYPE = "streams"
ASSIGNOR = "sticky"
"""The only assignor of streams groups."""

InputTopics = Mapping[str, tuple[str, ...]]
"""The input topics of each subtopology, by the subtopology's id."""


async def describe_streams_group(
    cluster: ClusterMetadata, connection: RpcConnection, group_id: str, coordinator: Node
) -> GroupDescription | None:
    """Describe a group, as its coordinator knows it.

    Returns None if the group is not a streams group, or if the coordinator does not know streams
    groups.
    """
    if ApiKey.STREAMS_GROUP_DESCRIBE not in connection.versions.ranges:
        return None
    response = await connection.request(
        StreamsGroupDescribeRequest(group_ids=[group_id]), StreamsGroupDescribeResponse
    )
    (group,) = response.groups
    if group.error_code in {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}:
        return None
    raise_for(group.error_code, group.error_message, f"group {group_id!r}")
    inputs = _input_topics(group)
    view = (
        await cluster.refresh(sorted({name for names in inputs.values() for name in names}))
        if inputs
        else None
    )
    counts = (
        {} if view is None else {name: topic.partition_count for name, topic in view.topics.items()}
    )
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=STREAMS_PROTOCOL_TYPE,
        assignor=ASSIGNOR,
        coordinator=coordinator,
        members=tuple(_member(member, inputs, counts) for member in group.members),
    )


def _input_topics(group: DescribedGroup) -> InputTopics:
    subtopologies = group.topology.subtopologies if group.topology is not None else None
    return {
        each.subtopology_id: (
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        )
        for each in subtopologies or ()
    }


def _member(member: Member, inputs: InputTopics, counts: Mapping[str, int]) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=tuple(sorted(_partitions(member, inputs, counts))),
    )


def _partitions(
    member: Member, inputs: InputTopics, counts: Mapping[str, int]
) -> Iterable[TopicPartition]:
    for task in member.assignment.active_tasks:
        for name in inputs.get(task.subtopology_id, ()):
            yield from (
                TopicPartition(name, index)
                for index in task.partitions
                if index < counts.get(name, 0)
            )
