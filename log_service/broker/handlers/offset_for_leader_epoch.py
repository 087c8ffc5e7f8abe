"""OffsetForLeaderEpoch (API key 23), versions 2-4.

Behaviour: responds for each partition with the end offset of the largest leader epoch up to the
requested one. A reader uses it to find the offset at which its log diverged from this one. Epoch
and offset are -1 if there is none. A reader with another current leader epoch than ours gets
FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.

Versions: 2 current leader epoch (KIP-320); 3 replica id (-2: not a replica); 4 flexible. librdkafka
speaks 2 only.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call
from log_service.common.errors import KafkaError
from log_service.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle_offset_for_leader_epoch(
    node: Node,
    call: Call,  # noqa: ARG001 - one shape for all
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse:
    """Respond for each partition by itself."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_find(node, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _find(node: Node, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = node.replicas.get_partition(topic, wanted.partition)
        epoch, end_offset = partition.end_offset_for_epoch(
            wanted.leader_epoch, wanted.current_leader_epoch
        )
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
