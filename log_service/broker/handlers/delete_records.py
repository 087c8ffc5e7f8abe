"""DeleteRecords (API key 21), versions 0-2.

Behaviour: moves each partition's log start offset up to the one asked for (-1: the high watermark) and answers with it as the low
watermark. Whole segments before it are deleted later, by retention. Beyond the high watermark it is OFFSET_OUT_OF_RANGE, on a topic that
is only compacted POLICY_VIOLATION, on an internal topic INVALID_TOPIC_EXCEPTION.

Versions: 2 flexible. KIP-107. With one replica there is no other to wait for, so that ``timeout_ms`` never matters.
"""

from log_service.broker.call import Call
from log_service.broker.cluster_view import is_internal
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle_delete_records(node: Node, call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:  # noqa: ARG001 - one shape for all
    """Respond for each partition by itself; of one that is named twice the last offset counts."""
    topics: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update({wanted.partition_index: wanted for wanted in topic.partitions})
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=name, partitions=[_delete(node, name, wanted) for wanted in partitions.values()])
            for name, partitions in topics.items()
            if partitions
        ]
    )


def _delete(node: Node, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    if is_internal(topic):
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return result
    try:
        partition = node.replicas.get_partition(topic, wanted.partition_index)
        result.low_watermark = partition.delete_records(wanted.offset)
    except KafkaError as error:
        result.error_code = error.code
    return result
