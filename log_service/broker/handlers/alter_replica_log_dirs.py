"""AlterReplicaLogDirs (API key 34), versions 1-2.

Behaviour: each partition moves to the log directory that is asked for: copied beside its log while it is served, then put in its place
(DescribeLogDirs shows the copy on its way). Answers when the move has begun. Asking for the directory where it is gives up a move that is
under way. LOG_DIR_NOT_FOUND for paths that the configuration does not name, INVALID_REPLICA_ASSIGNMENT for cordoned ones (KIP-1066),
KAFKA_STORAGE_ERROR for offline ones, UNKNOWN_TOPIC_OR_PARTITION for what does not exist.

Versions: 2 flexible. KIP-113.
"""

from collections.abc import Mapping

from log_service.broker.call import Call
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle_alter_replica_log_dirs(
    node: Node,
    call: Call,  # noqa: ARG001 - one shape for all
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse:
    """Begin the moves; a partition that is named twice goes where it is named last."""
    targets = {(topic.name, index): wanted.path for wanted in request.dirs for topic in wanted.topics for index in topic.partitions}
    return _told({(topic, index): _move(node, topic, index, path) for (topic, index), path in targets.items()})


def refuse_alter_replica_log_dirs(call: Call, error: KafkaError) -> AlterReplicaLogDirsResponse:
    """Tell an error for each partition."""
    request: AlterReplicaLogDirsRequest = call.request
    return _told({(topic.name, index): error.code for wanted in request.dirs for topic in wanted.topics for index in topic.partitions})


def _told(codes: Mapping[tuple[str, int], ErrorCode]) -> AlterReplicaLogDirsResponse:
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), code in codes.items():
        by_topic.setdefault(topic, []).append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    results = [AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return AlterReplicaLogDirsResponse(results=results)


def _move(node: Node, topic: str, index: int, path: str) -> ErrorCode:
    try:
        node.replicas.move(topic, index, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
