"""DescribeQuorum (API key 55), versions 0-2.

Behaviour: tells the leader, epoch and high watermark of the metadata quorum and how far each voter is. A request has to ask for partition 0
of ``__cluster_metadata`` and nothing else; every partition of any other request gets UNKNOWN_TOPIC_OR_PARTITION.

Versions: 1 fetch times (KIP-836); 2 error texts, directory ids, the voters' listeners (KIP-853).
"""

from uuid import UUID

from log_service.broker.call import Call
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode
from log_service.common.types import CLUSTER_METADATA_TOPIC
from log_service.protocol.messages import describe_quorum as messages
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

FIRST_VERSION_WITH_DIRECTORIES = 2
NO_DIRECTORY = UUID(int=0)


def handle_describe_quorum(node: Node, call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Tell how the quorum is."""
    asked = [(topic.topic_name, [partition.partition_index for partition in topic.partitions]) for topic in request.topics]
    if asked != [(CLUSTER_METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(topics=[_unknown(name, indexes) for name, indexes in asked])
    quorum = ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[_described(node, call.version)])
    nodes = _voter_nodes(node) if call.version >= FIRST_VERSION_WITH_DIRECTORIES else []
    return DescribeQuorumResponse(topics=[quorum], nodes=nodes)


def _unknown(name: str, indexes: list[int]) -> ResponseTopicData:
    code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"only {CLUSTER_METADATA_TOPIC}-0, alone, has a quorum that can be described"
    partitions = [ResponsePartitionData(partition_index=index, error_code=code, error_message=text) for index in indexes]
    return ResponseTopicData(topic_name=name, partitions=partitions)


def _described(node: Node, version: int) -> ResponsePartitionData:
    raft, now_ms = node.raft, node.clock.wall_ms()
    return ResponsePartitionData(
        partition_index=0,
        leader_id=node.config.node_id,
        leader_epoch=raft.epoch,
        high_watermark=raft.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=voter.node_id,
                replica_directory_id=voter.directory_id if version >= FIRST_VERSION_WITH_DIRECTORIES else NO_DIRECTORY,
                log_end_offset=raft.log_end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for voter in raft.voters
        ],
    )


def _voter_nodes(node: Node) -> list[messages.Node]:
    return [
        messages.Node(
            node_id=voter.node_id, listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints]
        )
        for voter in node.raft.voters
    ]
