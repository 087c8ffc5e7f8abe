"""Maintenance (API key 32000, ours), versions 0-1: retention or compaction on request.

Behaviour: runs the pass that the broker's own timer would run, on the named topics (null: all that
are not internal), and responds with figures for each partition of this node. Retention (operation
0): the removed segments and bytes, and the log start offset after it. Compaction (operation 1): the
records and bytes before and after, tombstones, dirty ratios and time, for the passes that were due
by the topic's configuration. A pass that is still under way after ``timeout_ms`` continues and is
marked. A partition that cannot be compacted has a reason in the response instead of an error.

Kafka has no such request. Jobs that clean topics up use it, because they report these figures. The
key is far outside Kafka's range and ApiVersions does not list it.

Versions: 1 adds compaction.
"""

from collections.abc import Iterator

from log_service.broker.cluster_view import is_internal
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.protocol.messages.maintenance import (
    MaintenanceRequest,
    MaintenanceResponse,
    MaintenanceResult,
)
from log_service.replication.partition import Partition
from log_service.storage.cleaner.compaction import CompactionOutcome

APPLY_RETENTION = 0
APPLY_COMPACTION = 1
FIRST_VERSION_WITH_COMPACTION = 1
LONGEST_WAIT_MS = 600_000


def handle_maintenance(
    node: Node, call: Call, request: MaintenanceRequest
) -> MaintenanceResponse | Deferred:
    """Apply the operation to each partition by itself."""
    if request.operation == APPLY_RETENTION:
        now_ms = node.clock.wall_ms()
        removed = [_apply(partition, now_ms) for partition in _wanted(node, request)]
        return MaintenanceResponse(error_message=None, results=[*_missing(node, request), *removed])
    if request.operation == APPLY_COMPACTION and call.version >= FIRST_VERSION_WITH_COMPACTION:
        return call.run(_compact(node, request))
    text = (
        f"operation {request.operation} is not known; 0 applies retention, 1 (from version 1 on)"
        " compaction"
    )
    return MaintenanceResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=text)


def _missing(node: Node, request: MaintenanceRequest) -> list[MaintenanceResult]:
    names = [name for name in request.topics or () if name not in node.image().topics.by_name]
    return [
        MaintenanceResult(topic=name, partition=-1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for name in names
    ]


def _wanted(node: Node, request: MaintenanceRequest) -> Iterator[Partition]:
    names = None if request.topics is None else frozenset(request.topics)
    for (topic, _), partition in sorted(node.replicas.partitions.items()):
        if topic in names if names is not None else not is_internal(topic):
            yield partition


# Retention


def _apply(partition: Partition, now_ms: int) -> MaintenanceResult:
    topic, index = partition.topic_partition
    result = MaintenanceResult(topic=topic, partition=index)
    try:
        outcome = partition.apply_retention(now_ms)
    except KafkaError as error:
        result.error_code = error.code
        return result
    result.segments_deleted, result.bytes_deleted = outcome.segments_deleted, outcome.bytes_deleted
    result.log_start_offset = partition.log_start_offset
    return result


# Compaction


async def _compact(node: Node, request: MaintenanceRequest) -> MaintenanceResponse:
    wanted = [
        partition
        for partition in _wanted(node, request)
        if request.topics is not None or _is_compacted(partition)
    ]
    keys = [partition.topic_partition for partition in wanted if _is_compacted(partition)]
    timeout_ms = min(max(request.timeout_ms, 0), LONGEST_WAIT_MS)
    try:
        outcomes = await node.logs.cleaner.clean_now(keys, timeout_ms)
    except KafkaError as error:
        return MaintenanceResponse(error_code=error.code, error_message=str(error))
    results = [
        (
            _compacted(partition.topic_partition, outcomes.get(partition.topic_partition))
            if _is_compacted(partition)
            else _refused(partition)
        )
        for partition in wanted
    ]
    return MaintenanceResponse(error_message=None, results=[*_missing(node, request), *results])


def _is_compacted(partition: Partition) -> bool:
    return partition.log is not None and partition.log.config.is_compacted


def _refused(partition: Partition) -> MaintenanceResult:
    topic, index = partition.topic_partition
    if partition.is_offline:
        code, text = ErrorCode.KAFKA_STORAGE_ERROR, "the log directory is offline"
    else:
        code, text = (
            ErrorCode.INVALID_CONFIG,
            f"cleanup.policy of topic {topic} does not include compact",
        )
    return MaintenanceResult(topic=topic, partition=index, error_code=code, error_message=text)


def _compacted(key: TopicPartition, outcome: CompactionOutcome | None) -> MaintenanceResult:
    result = MaintenanceResult(topic=key.topic, partition=key.partition)
    if outcome is None:
        result.is_under_way = True
        return result
    result.error_message = outcome.reason
    result.pass_count, result.duration_ms, result.cleaned_offset = (
        outcome.pass_count,
        outcome.duration_ms,
        outcome.cleaned_offset,
    )
    result.segments_before, result.segments_after = outcome.segments_before, outcome.segments_after
    result.records_before, result.records_after = outcome.records_before, outcome.records_after
    result.bytes_before, result.bytes_after = outcome.bytes_before, outcome.bytes_after
    result.tombstones_kept, result.tombstones_removed = (
        outcome.tombstones_kept,
        outcome.tombstones_removed,
    )
    result.dirty_ratio_before, result.dirty_ratio_after = (
        outcome.dirty_ratio_before,
        outcome.dirty_ratio_after,
    )
    return result
