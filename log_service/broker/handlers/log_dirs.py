"""Log directories: AlterReplicaLogDirs (API key 34, versions 1-2) and DescribeLogDirs (35, 1-5).

AlterReplicaLogDirs: moves each partition to the requested log directory. The log is copied while
it is still served. Then the copy replaces it. DescribeLogDirs shows the copy meanwhile.
Responds when the move has begun. Naming the present directory cancels a move under way.
LOG_DIR_NOT_FOUND for paths that the configuration does not name, INVALID_REPLICA_ASSIGNMENT for
cordoned ones (KIP-1066), KAFKA_STORAGE_ERROR for offline ones, UNKNOWN_TOPIC_OR_PARTITION for
unknown partitions.

Versions: 2 flexible. KIP-113.

DescribeLogDirs: responds with each log directory of this node. It has the directory's state
(KAFKA_STORAGE_ERROR if it failed), the size and the free bytes of its file system, and the size of
every requested partition in it (null: all). The lag of a partition counts to the high watermark (0
on a leader). The lag of a copy under way counts to the log that it will replace. Partitions that
are not on this node are left out.

Versions: 2 flexible; 3 an error at the top; 4 total and usable bytes (KIP-827); 5 cordoned
directories (KIP-1066).
"""

from collections.abc import Mapping
from operator import attrgetter

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Refusable
from log_service.broker.requests.step_scheduler import ITEMS_PER_STEP
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import Steps, sorted_in_steps
from log_service.common.types import TopicPartition
from log_service.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from log_service.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory


def handle_alter_replica_log_dirs(
    node: Node,
    call: Call,  # noqa: ARG001 - one shape for all
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse:
    """Begin to move the partitions.

    A repeated partition moves to the last directory that the request gives it.
    """
    targets = {
        (topic.name, index): wanted.path
        for wanted in request.dirs
        for topic in wanted.topics
        for index in topic.partitions
    }
    return _response(
        {
            (topic, index): _move(node, topic, index, path)
            for (topic, index), path in targets.items()
        }
    )


def refuse_alter_replica_log_dirs(
    call: Refusable, error: KafkaError
) -> AlterReplicaLogDirsResponse:
    """Return an error for each partition."""
    request: AlterReplicaLogDirsRequest = call.request
    return _response(
        {
            (topic.name, index): error.code
            for wanted in request.dirs
            for topic in wanted.topics
            for index in topic.partitions
        }
    )


def _response(codes: Mapping[tuple[str, int], ErrorCode]) -> AlterReplicaLogDirsResponse:
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), code in codes.items():
        by_topic.setdefault(topic, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        )
    results = [
        AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
        for name, partitions in by_topic.items()
    ]
    return AlterReplicaLogDirsResponse(results=results)


def _move(node: Node, topic: str, index: int, path: str) -> ErrorCode:
    try:
        node.replicas.move(topic, index, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


Asked = frozenset[TopicPartition] | None
"""The requested partitions. None means all."""
Described = dict[LogDirectory, list[DescribeLogDirsTopic]]
"""The partitions of each directory."""


def handle_describe_log_dirs(node: Node, call: Call, request: DescribeLogDirsRequest) -> Deferred:
    """Describe every log directory."""
    return node.step_scheduler.run(call, _describe_all(node, request))


async def _describe_all(node: Node, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    asked = None
    if request.topics is not None:
        asked = frozenset(
            TopicPartition(topic.topic, index)
            for topic in request.topics
            for index in topic.partitions
        )
    results = [await _described(node, directory) for directory in node.logs.directories]
    partitions = await node.step_scheduler.take(_partitions(node, asked))
    for directory, result in zip(node.logs.directories, results, strict=True):
        if not result.error_code:
            result.topics = partitions.get(directory, [])
    return DescribeLogDirsResponse(results=results)


async def _described(node: Node, directory: LogDirectory) -> DescribeLogDirsResult:
    """Return the result for a directory, without its partitions."""
    is_cordoned = directory.path in node.logs.config.cordoned_log_dirs
    result = DescribeLogDirsResult(log_dir=str(directory.path), is_cordoned=is_cordoned)
    try:
        result.total_bytes, result.usable_bytes = await node.run_in_pool(
            lambda: (
                node.logs.env.files.total_bytes(directory.path),
                node.logs.env.files.free_bytes(directory.path),
            )
        )
    except OSError as error:
        directory.note_error(error)
    if directory.is_offline:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        result.total_bytes = result.usable_bytes = -1
    return result


def _partitions(node: Node, asked: Asked) -> Steps[Described]:
    """Return the requested partitions, ``ITEMS_PER_STEP`` of them in each step.

    Copies that are not current yet (``logs.futures``) come after the logs.
    """
    found: dict[LogDirectory, dict[str, list[DescribeLogDirsPartition]]] = {}
    left = ITEMS_PER_STEP
    for is_future, logs in ((False, node.logs.logs), (True, node.logs.futures.logs)):
        for where, log in tuple(logs.items()):
            if asked is not None and where not in asked:
                continue
            topics = found.setdefault(log.home, {})
            topics.setdefault(where.topic, []).append(
                _partition(node, where, log, is_future=is_future)
            )
            left -= 1
            if left <= 0:
                yield
                left = ITEMS_PER_STEP
    described: Described = {}
    for directory, topics in found.items():
        in_order = described[directory] = []
        for name in (yield from sorted_in_steps(topics)):
            partitions = sorted(topics[name], key=attrgetter("partition_index"))
            in_order.append(DescribeLogDirsTopic(name=name, partitions=partitions))
            left -= len(partitions)
            if left <= 0:
                yield
                left = ITEMS_PER_STEP
    return described


def _partition(
    node: Node, where: TopicPartition, log: Log, *, is_future: bool
) -> DescribeLogDirsPartition:
    if is_future:
        present = node.logs.logs.get(where)
        lag = 0 if present is None else present.log_end_offset - log.log_end_offset
    else:
        partition = node.replicas.partitions.get((where.topic, where.partition))
        lag = 0 if partition is None else max(partition.high_watermark - log.log_end_offset, 0)
    return DescribeLogDirsPartition(
        partition_index=where.partition,
        partition_size=log.size_bytes,
        offset_lag=lag,
        is_future_key=is_future,
    )
