"""Maintenance (API key 32000, ours), version 0: apply retention now and say what it removed.

Behaviour: runs the pass that the retention timer would run, on the topics that are named (null: on all that are not internal), and
answers for each partition of this node with the segments and bytes that were removed and the log start offset after it. Kafka has no such
request: a cleaner of pipelines that wants figures asks for them here. The key is far outside Kafka's and is not told by ApiVersions.
"""

from collections.abc import Iterator

from log_service.broker.cluster_view import is_internal
from log_service.broker.node import Call, Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.messages.maintenance import MaintenanceRequest, MaintenanceResponse, MaintenanceResult
from log_service.replication.partition import Partition

APPLY_RETENTION = 0


def handle_maintenance(node: Node, call: Call, request: MaintenanceRequest) -> MaintenanceResponse:  # noqa: ARG001 - one shape for all
    """Apply retention to each partition by itself."""
    if request.operation != APPLY_RETENTION:
        text = f"operation {request.operation} is not known; 0 applies retention"
        return MaintenanceResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    missing = [name for name in request.topics or () if name not in node.image().topics.by_name]
    results = [MaintenanceResult(topic=name, partition=-1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in missing]
    now_ms = node.clock.wall_ms()
    return MaintenanceResponse(error_message=None, results=[*results, *(_apply(partition, now_ms) for partition in _wanted(node, request))])


def _wanted(node: Node, request: MaintenanceRequest) -> Iterator[Partition]:
    names = None if request.topics is None else frozenset(request.topics)
    for (topic, _), partition in sorted(node.replicas.partitions.items()):
        if topic in names if names is not None else not is_internal(topic):
            yield partition


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
