"""Describe streams groups (KIP-1071), and validate commits and fetches of their offsets.

These are pure functions of a group's state.
"""

from collections.abc import Callable, Iterable, Sequence

from log_service.common.errors import ErrorCode
from log_service.coordinator.group.streams.configuration import ConfiguredTopology
from log_service.coordinator.group.streams.group import StreamsGroup
from log_service.coordinator.group.values.partitions import in_order, without_epochs
from log_service.coordinator.group.values.streams_tasks import (
    StreamsMember,
    TaskAssignment,
    Tasks,
    TaskSet,
)
from log_service.coordinator.group.values.streams_topology import InternalTopic, Topology
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.offset_commit import OffsetCommitRequest
from log_service.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from log_service.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    TaskIds,
    TopicInfo,
)
from log_service.protocol.messages.streams_group_describe import Subtopology as DescribedSubtopology
from log_service.protocol.messages.streams_group_describe import Topology as DescribedTopology
from log_service.protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    ResponseEndpoint,
    TopicPartition,
)
from log_service.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

FIRST_COMMIT_VERSION_WITH_EPOCHS = 9


def describe_streams_group(
    group_id: str, group: StreamsGroup | None, configured: ConfiguredTopology | None
) -> DescribedGroup:
    """Return the description of one group.

    If ``group`` is None, no streams group has the id, and the description holds GROUP_ID_NOT_FOUND.
    Partition counts are shown when the topology is ready.
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
        topology=_topology(group.topology, configured),
        members=[_member(group, member) for _, member in sorted(group.members.items())],
    )


def _topology(
    topology: Topology | None, configured: ConfiguredTopology | None
) -> DescribedTopology | None:
    if topology is None:
        return None
    by_id = topology.by_id()
    ready = configured.subtopologies if configured is not None and configured.is_ready else None
    shown = [(each, by_id[each] if ready is None else ready[each]) for each in sorted(by_id)]
    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=[
            DescribedSubtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                state_changelog_topics=_topics(each.state_changelog_topics),
                repartition_source_topics=_topics(each.repartition_source_topics),
            )
            for subtopology_id, each in shown
        ],
    )


def _topics(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    metadata, target = member.metadata, group.targets.get(member.member_id, Tasks())
    endpoint = None
    if metadata.endpoint is not None:
        host, port = metadata.endpoint
        endpoint = Endpoint(host=host, port=port)
    return Member(
        member_id=member.member_id,
        member_epoch=member.current.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=endpoint,
        client_tags=[KeyValue(key=key, value=value) for key, value in metadata.client_tags],
        assignment=_assignment(*member.current.assigned.by_role()),
        target_assignment=_assignment(target.active, target.standby, target.warmup),
    )


def _assignment(active: TaskSet, standby: TaskSet, warmup: TaskSet) -> Assignment:
    return Assignment(
        active_tasks=_task_ids(active),
        standby_tasks=_task_ids(standby),
        warmup_tasks=_task_ids(warmup),
    )


def _task_ids(tasks: TaskSet) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=each, partitions=partitions) for each, partitions in in_order(tasks)
    ]


# Partitions by endpoint


def partitions_by_endpoint(
    members: Iterable[StreamsMember],
    configured: ConfiguredTopology,
    partition_count: Callable[[str], int | None],
) -> list[EndpointToPartitions]:
    """Return the input partitions of active and standby tasks, for each member with an endpoint."""
    return [
        EndpointToPartitions(
            user_endpoint=ResponseEndpoint(
                host=member.metadata.endpoint[0], port=member.metadata.endpoint[1]
            ),
            active_partitions=_input_partitions(
                without_epochs(member.current.assigned.active), configured, partition_count
            ),
            standby_partitions=_input_partitions(
                member.current.assigned.standby, configured, partition_count
            ),
        )
        for member in members
        if member.metadata.endpoint is not None
    ]


def _input_partitions(
    tasks: TaskSet, configured: ConfiguredTopology, partition_count: Callable[[str], int | None]
) -> list[TopicPartition]:
    """Return the input partitions of tasks.

    If a topic has fewer partitions than the subtopology has tasks, only the first tasks read it.
    """
    found: list[TopicPartition] = []
    subtopologies = configured.subtopologies or {}
    for subtopology_id, partitions in in_order(tasks):
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is not None:
            repartitioned = (topic.name for topic in subtopology.repartition_source_topics)
            for name in sorted({*subtopology.source_topics, *repartitioned}):
                count = partition_count(name) or 0
                found.append(
                    TopicPartition(
                        topic=name, partitions=[each for each in partitions if each < count]
                    )
                )
    return found


# Offsets


def validate_streams_commit(
    group: StreamsGroup, request: OffsetCommitRequest, context: RequestContext
) -> ErrorCode:
    """Return NONE if a commit is valid, else its error.

    A commit of an older epoch is valid if the member has run the tasks of all committed partitions
    since that epoch (KIP-1251).
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if context.api_version < FIRST_COMMIT_VERSION_WITH_EPOCHS:
        return ErrorCode.UNSUPPORTED_VERSION
    wanted = [
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    ]
    return (
        ErrorCode.NONE
        if _is_timely(group, member.current, epoch, wanted)
        else ErrorCode.STALE_MEMBER_EPOCH
    )


def validate_streams_commit_in_transaction(
    group: StreamsGroup, request: TxnOffsetCommitRequest
) -> ErrorCode:
    """Return NONE if a transactional commit is valid, else its error.

    A commit without member and generation is valid, because older producers send neither. A wrong
    epoch gets ILLEGAL_GENERATION, because producers do not know STALE_MEMBER_EPOCH.
    """
    is_outsider = request.generation_id < 0
    if is_outsider and (
        not group.members or (request.member_id == "" and request.group_instance_id is None)
    ):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    wanted = [
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    ]
    return (
        ErrorCode.NONE
        if _is_timely(group, member.current, request.generation_id, wanted)
        else ErrorCode.ILLEGAL_GENERATION
    )


def _is_timely(
    group: StreamsGroup, current: TaskAssignment, epoch: int, wanted: Sequence[tuple[str, int]]
) -> bool:
    """Return whether an epoch is the member's current one, or an acceptable older one.

    An older epoch is acceptable if the member has run the active tasks of all wanted partitions
    since then.
    """
    if epoch >= current.epoch or group.topology is None:
        return epoch == current.epoch
    return all(
        _assignment_epoch(current, group.readers.get(topic), partition, epoch + 1) <= epoch
        for topic, partition in wanted
    )


def _assignment_epoch(
    current: TaskAssignment, subtopology_id: str | None, partition: int, default: int
) -> int:
    held = (current.assigned.active, current.pending_revocation.active)
    found = (
        epochs[partition]
        for each in held
        if partition in (epochs := each.get(subtopology_id or "", {}))
    )
    return next(found, default)


def validate_streams_fetch(group: StreamsGroup, request: OffsetFetchRequestGroup) -> ErrorCode:
    """Return NONE if a fetch of offsets is valid, else its error.

    The fetch must come from a member in its current epoch, or from a tool that names no member.
    """
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(request.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return (
        ErrorCode.NONE
        if request.member_epoch == member.current.epoch
        else ErrorCode.STALE_MEMBER_EPOCH
    )
