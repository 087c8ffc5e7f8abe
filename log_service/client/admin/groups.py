"""Administers groups: lists, describes and deletes them, and reads and sets committed offsets.

The list of groups comes from every broker, everything else from the group's coordinator. Responses
of different versions and APIs are converted to the same types. The admin's requests for offsets
identify topics by name, never by id. A consumer commits by topic id if the broker supports ids.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from log_service.client import arguments
from log_service.client.admin.fan_out import Collected, by_topic, gather
from log_service.client.admin.streams_groups import describe_streams_group
from log_service.client.admin.values import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    OffsetAndMetadata,
)
from log_service.client.connections.cluster_metadata import GROUP_KEY_TYPE, ClusterMetadata
from log_service.client.connections.cluster_view import Node
from log_service.client.group_protocol import CONSUMER_PROTOCOL_TYPE, decode_assignment
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, TopicId, TopicPartition
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from log_service.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from log_service.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from log_service.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from log_service.rpc.connection import RpcConnection, raise_for

T = TypeVar("T")

LAST_OFFSET_VERSION_WITH_NAMES = 9
FIRST_OFFSET_FETCH_VERSION_WITH_GROUPS = 8
FIRST_OFFSET_FETCH_VERSION_WITH_STABLE = 7
NO_OFFSET = -1
DEAD = "Dead"
"""The state of a group that does not exist.

DescribeGroups also reports it for a group of another protocol (KIP-1043).
"""
MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors after which the coordinator is looked up again.

Timeouts are among them, because a broker that hangs may still hold its TCP connections.
"""


async def list_groups(
    cluster: ClusterMetadata, timeout_ms: int, states: Sequence[str], types: Sequence[str]
) -> list[GroupListing]:
    """List the groups of all brokers; see ``Admin.list_groups``."""

    async def ask(node_id: int) -> list[GroupListing]:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        response = await (await cluster.node(node_id)).request(request, ListGroupsResponse)
        raise_for(response.error_code, None, f"groups of broker {node_id}")
        return [
            GroupListing(
                group_id=each.group_id,
                protocol_type=each.protocol_type,
                state=each.group_state,
                group_type=each.group_type,
            )
            for each in response.groups
        ]

    async def attempt() -> list[GroupListing]:
        view = await cluster.refresh()
        parts = await gather(partial(ask, node_id) for node_id in sorted(view.nodes))
        return sorted((group for part in parts for group in part), key=lambda group: group.group_id)

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


async def describe_groups(
    cluster: ClusterMetadata, group_ids: Sequence[str], timeout_ms: int
) -> dict[str, GroupDescription]:
    """Describe groups of every type but share; see ``Admin.describe_groups``."""

    async def ask(group_id: str) -> GroupDescription:
        connection = await cluster.coordinator(group_id, "")
        response = await connection.request(
            DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse
        )
        (group,) = response.groups
        if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise_for(group.error_code, group.error_message, f"group {group_id!r}")
        found = _description(group, node_of(cluster, connection))
        if found.state != DEAD or ApiKey.CONSUMER_GROUP_DESCRIBE not in connection.versions.ranges:
            return found
        asked = ConsumerGroupDescribeRequest(group_ids=[group_id])
        (other,) = (await connection.request(asked, ConsumerGroupDescribeResponse)).groups
        if other.error_code in {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}:
            return (
                await describe_streams_group(cluster, connection, group_id, found.coordinator)
                or found
            )
        raise_for(other.error_code, other.error_message, f"group {group_id!r}")
        return _consumer_group_description(other, found.coordinator)

    async def attempt(group_id: str) -> GroupDescription:
        return await with_coordinator(cluster, group_id, partial(ask, group_id))

    described = await gather(
        partial(cluster.retry, partial(attempt, group_id), timeout_ms) for group_id in group_ids
    )
    return dict(zip(group_ids, described, strict=True))


async def delete_groups(
    cluster: ClusterMetadata, group_ids: Sequence[str], timeout_ms: int
) -> None:
    """Delete groups that have no members; see ``Admin.delete_groups``."""

    async def ask(group_id: str) -> None:
        connection = await cluster.coordinator(group_id, "")
        response = await connection.request(
            DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse
        )
        (result,) = response.results
        raise_for(result.error_code, None, f"group {group_id!r}")

    async def attempt(group_id: str) -> KafkaError | None:
        try:
            await cluster.retry(
                partial(with_coordinator, cluster, group_id, partial(ask, group_id)), timeout_ms
            )
        except KafkaError as error:
            return error
        return None

    collected = Collected()
    failures = await gather(partial(attempt, group_id) for group_id in group_ids)
    collected.errors = {
        group_id: error
        for group_id, error in zip(group_ids, failures, strict=True)
        if error is not None
    }
    collected.finish({})


async def list_group_offsets(
    cluster: ClusterMetadata,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    timeout_ms: int,
    *,
    is_stable_required: bool,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return committed offsets; see ``Admin.list_group_offsets``."""
    wanted = None if partitions is None else list(partitions)

    async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
        return await fetch_offsets(
            await cluster.coordinator(group_id, ""),
            group_id,
            wanted,
            is_stable_required=is_stable_required,
        )

    return await cluster.retry(partial(with_coordinator, cluster, group_id, ask), timeout_ms)


async def fetch_offsets(
    connection: RpcConnection,
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    *,
    is_stable_required: bool,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Request committed offsets from a coordinator, once. ``partitions`` None means all.

    Partitions without a committed offset are left out.

    Raises:
        KafkaError: the error that the coordinator returned for the group or for a partition. With
            ``is_stable_required`` it is UNSTABLE_OFFSET_COMMIT while an open transaction is about
            to commit some of the offsets.
    """
    version = min(connection.version_of(ApiKey.OFFSET_FETCH), LAST_OFFSET_VERSION_WITH_NAMES)
    request = OffsetFetchRequest(
        require_stable=is_stable_required and version >= FIRST_OFFSET_FETCH_VERSION_WITH_STABLE
    )
    topics = None if partitions is None else by_topic(partitions)
    if version >= FIRST_OFFSET_FETCH_VERSION_WITH_GROUPS:
        named = (
            None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=name, partition_indexes=each)
                for name, each in topics.items()
            ]
        )
        request.groups = [OffsetFetchRequestGroup(group_id=group_id, topics=named)]
    else:
        request.group_id = group_id
        request.topics = (
            None
            if topics is None
            else [
                OffsetFetchRequestTopic(name=name, partition_indexes=each)
                for name, each in topics.items()
            ]
        )
    response = await connection.request(
        request, OffsetFetchResponse, max_version=LAST_OFFSET_VERSION_WITH_NAMES
    )
    result = response.groups[0] if response.groups else response
    raise_for(result.error_code, None, f"offsets of group {group_id!r}")
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in result.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            raise_for(each.error_code, None, f"offset of group {group_id!r} for {partition}")
            if each.committed_offset != NO_OFFSET:
                offsets[partition] = OffsetAndMetadata(
                    offset=each.committed_offset,
                    leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata or "",
                )
    return offsets


async def alter_group_offsets(
    cluster: ClusterMetadata,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    timeout_ms: int,
) -> None:
    """Set committed offsets without being a member; see ``Admin.alter_group_offsets``."""
    request = commit_request(group_id, as_offsets(offsets))

    async def ask() -> None:
        connection = await cluster.coordinator(group_id, "")
        response = await connection.request(
            request, OffsetCommitResponse, max_version=LAST_OFFSET_VERSION_WITH_NAMES
        )
        _raise_refusals(response)

    await cluster.retry(partial(with_coordinator, cluster, group_id, ask), timeout_ms)


def _raise_refusals(response: OffsetCommitResponse | OffsetDeleteResponse) -> None:
    """Raise ``ItemsFailed`` if the coordinator refused some partitions."""
    collected = Collected()
    for topic in response.topics:
        for result in topic.partitions:
            place = TopicPartition(topic.name, result.partition_index)
            collected.note(place, result.error_code, None)
    collected.finish({})


async def delete_group_offsets(
    cluster: ClusterMetadata, group_id: str, partitions: Iterable[TopicPartition], timeout_ms: int
) -> None:
    """Delete committed offsets; see ``Admin.delete_group_offsets``."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name,
            partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
        )
        for name, numbers in by_topic(partitions).items()
    ]

    async def ask() -> None:
        connection = await cluster.coordinator(group_id, "")
        response = await connection.request(
            OffsetDeleteRequest(group_id=group_id, topics=topics), OffsetDeleteResponse
        )
        raise_for(response.error_code, None, f"offsets of group {group_id!r}")
        _raise_refusals(response)

    await cluster.retry(partial(with_coordinator, cluster, group_id, ask), timeout_ms)


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation_id: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
    topic_ids: Mapping[str, TopicId] = MappingProxyType({}),
) -> OffsetCommitRequest:
    """Return a request to commit offsets.

    ``generation_id`` -1 and an empty ``member_id`` are for a sender that is not a member. Versions
    after 9 of the request identify topics by ``topic_ids``.
    """
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_ids.get(topic, NO_TOPIC_ID),
                partitions=[
                    _commit_partition(number, offsets[TopicPartition(topic, number)])
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


def as_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets as ``OffsetAndMetadata``. A plain number gets no metadata.

    Raises:
        TypeError, ValueError: a partition or an offset is not valid.
    """
    return {
        each: _as_offset(offset)
        for each, offset in arguments.by_partition(offsets, "offsets").items()
    }


def _as_offset(given: OffsetAndMetadata | int) -> OffsetAndMetadata:
    if not isinstance(given, OffsetAndMetadata):
        return OffsetAndMetadata(offset=arguments.offset(given))
    arguments.offset(given.offset)
    arguments.offset_metadata(given.metadata)
    return given


async def with_coordinator(
    cluster: ClusterMetadata,
    key: str,
    ask: Callable[[], Awaitable[T]],
    *,
    key_type: int = GROUP_KEY_TYPE,
) -> T:
    """Call ``ask``, and forget the coordinator of ``key`` if the error says that it has moved.

    ``key`` is a group id or, with another ``key_type``, a transactional id. The next attempt looks
    the coordinator up. All errors of ``ask`` are raised.
    """
    try:
        return await ask()
    except KafkaError as error:
        if error.code in MOVED:
            cluster.forget_coordinator(key, key_type=key_type)
        raise


def _commit_partition(number: int, offset: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def node_of(cluster: ClusterMetadata, connection: RpcConnection) -> Node:
    """Return the broker at the other end of a connection.

    Its id is -1 if the client's view of the cluster does not contain the address.
    """
    address = connection.destination
    for node in cluster.view.nodes.values():
        if (node.host, node.port) == (address.host, address.port):
            return node
    return Node(node_id=-1, host=address.host, port=address.port)


def _consumer_group_description(
    group: DescribedConsumerGroup, coordinator: Node
) -> GroupDescription:
    members = tuple(
        MemberDescription(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            assignment=tuple(
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            ),
        )
        for member in group.members
    )
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=members,
    )


def _description(group: DescribedGroup, coordinator: Node) -> GroupDescription:
    is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    members = tuple(
        MemberDescription(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            assignment=decode_assignment(member.member_assignment) if is_consumer else (),
        )
        for member in group.members
    )
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state or DEAD,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=members,
    )
