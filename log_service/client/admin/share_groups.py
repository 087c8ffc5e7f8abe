"""Describes share groups (KIP-932), and reads and sets the offsets of their queues.

The queue of a group is the part of each partition that the group still has to process. All requests
go to the group's coordinator. The start offset of a queue is the first offset whose record is
neither acknowledged nor archived. The lag is the number of records between the start offset and the
end, without records that were acknowledged out of order (KIP-1226).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from log_service.client.admin.fan_out import Collected, by_topic, gather
from log_service.client.admin.groups import node_of, with_coordinator
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.connections.cluster_view import Node
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from log_service.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from log_service.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from log_service.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from log_service.rpc.connection import raise_for

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberDescription:
    """A member of a share group. Several members may have the same partition."""

    member_id: str
    client_id: str
    client_host: str
    rack: str | None
    member_epoch: int
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    """A share group. A group that does not exist has state ``Dead``."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    coordinator: Node
    members: tuple[ShareMemberDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupOffset:
    """The start offset and the lag of a queue in one partition.

    ``start_offset`` is None before the group has acquired a record of the partition.
    """

    start_offset: int | None
    leader_epoch: int
    lag: int | None


async def describe_share_groups(
    cluster: ClusterMetadata, group_ids: Sequence[str], timeout_ms: int
) -> dict[str, ShareGroupDescription]:
    """Describe share groups; see ``Admin.describe_share_groups``."""

    async def ask(group_id: str) -> ShareGroupDescription:
        connection = await cluster.coordinator(group_id, "")
        response = await connection.request(
            ShareGroupDescribeRequest(group_ids=[group_id]), ShareGroupDescribeResponse
        )
        (group,) = response.groups
        if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise_for(group.error_code, group.error_message, f"share group {group_id!r}")
        return _description(group, node_of(cluster, connection))

    described = await gather(
        _retried(cluster, group_id, partial(ask, group_id), timeout_ms) for group_id in group_ids
    )
    return dict(zip(group_ids, described, strict=True))


async def list_share_group_offsets(
    cluster: ClusterMetadata, group_id: str, topics: Sequence[str] | None, timeout_ms: int
) -> dict[TopicPartition, ShareGroupOffset]:
    """Return start offsets and lags of a queue; see ``Admin.list_share_group_offsets``."""

    async def ask() -> dict[TopicPartition, ShareGroupOffset]:
        named = None
        if topics is not None:
            view = await cluster.refresh(topics)
            named = [
                DescribeShareGroupOffsetsRequestTopic(
                    topic_name=name, partitions=list(range(view.topics[name].partition_count))
                )
                for name in topics
                if name in view.topics
            ]
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=named)]
        )
        response = await (await cluster.coordinator(group_id, "")).request(
            request, DescribeShareGroupOffsetsResponse
        )
        (group,) = response.groups
        raise_for(group.error_code, group.error_message, f"share group {group_id!r}")
        collected, found = Collected(), {}
        for topic in group.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.topic_name, each.partition_index)
                if not collected.note(where, each.error_code, each.error_message):
                    found[where] = ShareGroupOffset(
                        start_offset=each.start_offset if each.start_offset >= 0 else None,
                        leader_epoch=each.leader_epoch,
                        lag=each.lag if each.lag >= 0 else None,
                    )
        return collected.finish(found)

    return await _retried(cluster, group_id, ask, timeout_ms)()


async def alter_share_group_offsets(
    cluster: ClusterMetadata, group_id: str, offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> None:
    """Set the start offsets of a queue; see ``Admin.alter_share_group_offsets``."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(
                    partition_index=number, start_offset=offsets[TopicPartition(name, number)]
                )
                for number in numbers
            ],
        )
        for name, numbers in by_topic(offsets).items()
    ]

    async def ask() -> None:
        request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
        response = await (await cluster.coordinator(group_id, "")).request(
            request, AlterShareGroupOffsetsResponse
        )
        raise_for(response.error_code, response.error_message, f"share group {group_id!r}")
        collected = Collected()
        for topic in response.responses:
            for each in topic.partitions:
                collected.note(
                    TopicPartition(topic.topic_name, each.partition_index),
                    each.error_code,
                    each.error_message,
                )
        collected.finish({})

    await _retried(cluster, group_id, ask, timeout_ms)()


async def delete_share_group_offsets(
    cluster: ClusterMetadata, group_id: str, topics: Sequence[str], timeout_ms: int
) -> None:
    """Delete the start offsets of a queue; see ``Admin.delete_share_group_offsets``."""

    async def ask() -> None:
        named = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
        request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=named)
        response = await (await cluster.coordinator(group_id, "")).request(
            request, DeleteShareGroupOffsetsResponse
        )
        raise_for(response.error_code, response.error_message, f"share group {group_id!r}")
        collected = Collected()
        for topic in response.responses:
            collected.note(topic.topic_name, topic.error_code, topic.error_message)
        collected.finish({})

    await _retried(cluster, group_id, ask, timeout_ms)()


def _retried(
    cluster: ClusterMetadata, group_id: str, ask: Callable[[], Awaitable[T]], timeout_ms: int
) -> Callable[[], Awaitable[T]]:
    """Return a function that calls ``ask``, and calls it again after retriable errors.

    ``ask`` sends a request to the group's coordinator, which is looked up again if it moved.
    """
    return partial(cluster.retry, partial(with_coordinator, cluster, group_id, ask), timeout_ms)


def _description(group: DescribedGroup, coordinator: Node) -> ShareGroupDescription:
    members = tuple(
        ShareMemberDescription(
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rack=member.rack_id,
            member_epoch=member.member_epoch,
            topics=tuple(member.subscribed_topic_names),
            assignment=tuple(
                TopicPartition(topic.topic_name, number)
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            ),
        )
        for member in group.members
    )
    return ShareGroupDescription(
        group_id=group.group_id,
        state=group.group_state or "Dead",
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=members,
    )
