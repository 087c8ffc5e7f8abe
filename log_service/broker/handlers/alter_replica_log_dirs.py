"""AlterReplicaLogDirs (API key 34), versions 1-2.

Behaviour: each partition moves to the log directory that is asked for: copied beside its log while it is served, then put in its place
(DescribeLogDirs shows the copy on its way). Answers when the move has begun. Asking for the directory where it is gives up a move that is
under way. LOG_DIR_NOT_FOUND for paths that the configuration does not name, INVALID_REPLICA_ASSIGNMENT for cordoned ones (KIP-1066),
KAFKA_STORAGE_ERROR for offline ones, UNKNOWN_TOPIC_OR_PARTITION for what does not exist.

Versions: 2 flexible. KIP-113.
"""

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
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), path in targets.items():
        result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=_move(node, topic, index, path))
        by_topic.setdefault(topic, []).append(result)
    results = [AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return AlterReplicaLogDirsResponse(results=results)


def _move(node: Node, topic: str, index: int, path: str) -> ErrorCode:
    try:
        node.replicas.move(topic, index, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
