"""DescribeProducers (API key 61), version 0.

Behaviour: tells the producers that each partition remembers: id, epoch, last sequence and time; transactions are not open here (-1).
UNKNOWN_TOPIC_OR_PARTITION for what does not exist, NOT_LEADER_OR_FOLLOWER and KAFKA_STORAGE_ERROR where the partition is not served here,
INVALID_TOPIC_EXCEPTION for names that no topic can have.

KIP-664.
"""

from log_service.broker.call import Call
from log_service.broker.node import Node
from log_service.common.errors import KafkaError
from log_service.controller.rules.topic_names import validate_topic_name
from log_service.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from log_service.storage.log import Log


def handle_describe_producers(node: Node, call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:  # noqa: ARG001 - one shape for all
    """Answer each partition by itself."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=[_described(node, topic.name, index) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _described(node: Node, topic: str, index: int) -> PartitionResponse:
    try:
        validate_topic_name(topic)
        log = node.replicas.get_partition(topic, index).leading_log()
    except KafkaError as error:
        text = None if topic in node.image().topics.by_name else str(error)
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=text)
    return PartitionResponse(partition_index=index, active_producers=_producers(log))


def _producers(log: Log) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_txn_first_offset,
        )
        for entry in log.producer_state
    ]
