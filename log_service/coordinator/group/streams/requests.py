"""Validate a StreamsGroupHeartbeat without looking at its group, and read its fields.

These are plain functions of the request. The source is KIP-1071 as of Kafka 4.3, which refuses
static members, task offsets, warmup tasks and regular expressions. The error texts are our own.
"""

from collections.abc import Mapping
from dataclasses import replace

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group.streams.configuration import ConfiguredSubtopology
from log_service.coordinator.group.values.epochs import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from log_service.coordinator.group.values.partitions import in_order, without_epochs
from log_service.coordinator.group.values.streams_tasks import (
    StreamsMember,
    StreamsMetadata,
    TaskAssignment,
    Tasks,
    TaskSet,
    is_part_of,
    tasks_of,
)
from log_service.coordinator.group.values.streams_topology import topology_of, validate_topology
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.streams_group_heartbeat import (
    ResponseTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

NO_TIMEOUT = -1


def validate_streams_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Validate the fields of a request, without looking at its group.

    Raises:
        KafkaError: INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY, with the reason.
    """
    complaint = _not_served(request) or _complaint(request)
    if complaint is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, complaint)
    if request.topology is not None and request.member_epoch == JOIN_EPOCH:
        validate_topology(topology_of(request.topology))
    complaint = _task_complaint(request)
    if complaint is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, complaint)


def _not_served(request: StreamsGroupHeartbeatRequest) -> str | None:
    subtopologies = [] if request.topology is None else request.topology.subtopologies
    rules = (
        (request.instance_id is not None, "Static membership is not yet supported."),
        (request.task_offsets is not None, "TaskOffsets are not supported yet."),
        (request.task_end_offsets is not None, "TaskEndOffsets are not supported yet."),
        (bool(request.warmup_tasks), "WarmupTasks are not supported yet."),
        (
            any(each.source_topic_regex for each in subtopologies),
            "Regular expressions for source topics are not supported yet.",
        ),
    )
    return next((text for is_wrong, text in rules if is_wrong), None)


def _complaint(request: StreamsGroupHeartbeatRequest) -> str | None:
    epoch = request.member_epoch
    is_joining = epoch == JOIN_EPOCH
    rules = (
        (not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty."),
        (
            is_joining and request.rebalance_timeout_ms == NO_TIMEOUT,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (is_joining and request.active_tasks != [], "ActiveTasks must be empty when (re-)joining."),
        (
            is_joining and request.standby_tasks != [],
            "StandbyTasks must be empty when (re-)joining.",
        ),
        (is_joining and request.warmup_tasks != [], "WarmupTasks must be empty when (re-)joining."),
        (is_joining and request.topology is None, "Topology must be non-null when (re-)joining."),
        (epoch == STATIC_LEAVE_EPOCH, "InstanceId can't be null."),
        (
            epoch < STATIC_LEAVE_EPOCH,
            f"MemberEpoch is {epoch}, but must be greater than or equal to -2.",
        ),
    )
    return next((text for is_wrong, text in rules if is_wrong), None)


def _task_complaint(request: StreamsGroupHeartbeatRequest) -> str | None:
    lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    missing_count = lists.count(None)
    rules = (
        (0 < missing_count < len(lists), "If one task-type is non-null, all must be non-null."),
        (
            request.member_epoch != JOIN_EPOCH and request.topology is not None,
            "Topology can only be provided when (re-)joining.",
        ),
    )
    return next((text for is_wrong, text in rules if is_wrong), None)


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that the member reports as running, or None if it does not report."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(active=tasks_of(active), standby=tasks_of(standby), warmup=tasks_of(warmup))


def updated_metadata(
    old: StreamsMetadata, request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> StreamsMetadata:
    """Return a member's metadata after a request. A null field leaves its value unchanged."""
    endpoint, tags = request.user_endpoint, request.client_tags
    return replace(
        old,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        rebalance_timeout_ms=(
            old.rebalance_timeout_ms
            if request.rebalance_timeout_ms == NO_TIMEOUT
            else request.rebalance_timeout_ms
        ),
        topology_epoch=old.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=old.process_id if request.process_id is None else request.process_id,
        endpoint=old.endpoint if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=(
            old.client_tags
            if tags is None
            else tuple(sorted({each.key: each.value for each in tags}.items()))
        ),
    )


def validate_member_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """Validate the member epoch of a request.

    The member's previous epoch is valid too, if the response with the current epoch may have been
    lost.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH, the member must give up all tasks and join again.
    """
    current = member.current
    if epoch in (JOIN_EPOCH, current.epoch):
        return
    was_reply_lost = (
        epoch == current.previous_epoch
        and owned is not None
        and is_part_of(owned, current.assigned)
    )
    if epoch > current.epoch or not was_reply_lost:
        how = "greater" if epoch > current.epoch else "smaller"
        text = (
            f"The streams group member has a {how} member epoch ({epoch}) than the one known by the"
            f" group coordinator ({current.epoch}). The member must abandon all its partitions and"
            " rejoin."
        )
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)


def validate_tasks(owned: Tasks | None, subtopologies: Mapping[str, ConfiguredSubtopology]) -> None:
    """Check that the tasks that a member reports exist in the topology.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    for tasks in () if owned is None else (owned.active, owned.standby, owned.warmup):
        for subtopology_id, partitions in tasks.items():
            subtopology = subtopologies.get(subtopology_id)
            if subtopology is None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Subtopology {subtopology_id} does not exist in the topology.",
                )
            wrong = [
                partition
                for partition in sorted(partitions)
                if not 0 <= partition < subtopology.task_count
            ]
            if wrong:
                text = (
                    f"Task {wrong[0]} for subtopology {subtopology_id} is invalid. "
                    f"Number of tasks for this subtopology: {subtopology.task_count}"
                )
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def set_assignment(current: TaskAssignment, response: StreamsGroupHeartbeatResponse) -> None:
    """Write a member's tasks to a response, without tasks that the member has yet to revoke."""
    response.active_tasks = _response_task_ids(without_epochs(current.assigned.active))
    response.standby_tasks = _response_task_ids(current.assigned.standby)
    response.warmup_tasks = _response_task_ids(current.assigned.warmup)


def _response_task_ids(tasks: TaskSet) -> list[ResponseTaskIds]:
    return [
        ResponseTaskIds(subtopology_id=each, partitions=partitions)
        for each, partitions in in_order(tasks)
    ]
