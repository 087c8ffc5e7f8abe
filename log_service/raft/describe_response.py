"""The response to DescribeQuorum, built from the leader's description.

This file decides nothing.
"""

from log_service.common.types import CLUSTER_METADATA_TOPIC
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from log_service.raft.describe import QuorumDescription, ReplicaDescription
from log_service.raft.voters import NO_DIRECTORY

FIRST_VERSION_WITH_DIRECTORIES = 2


def describe_response(description: QuorumDescription, version: int) -> DescribeQuorumResponse:
    """Return a leader's response to a DescribeQuorum request of a version.

    Directories are included from version 2 on (KIP-853).
    """
    partition = ResponsePartitionData(
        partition_index=0,
        leader_id=description.leader_id,
        leader_epoch=description.epoch,
        high_watermark=description.high_watermark,
        current_voters=[_state(replica, version) for replica in description.voters],
        observers=[_state(replica, version) for replica in description.observers],
    )
    nodes = [
        Node(
            node_id=voter.node_id,
            listeners=[
                Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints
            ],
        )
        for voter in description.voter_set
    ]
    quorum = ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumResponse(
        topics=[quorum], nodes=nodes if version >= FIRST_VERSION_WITH_DIRECTORIES else []
    )


def _state(replica: ReplicaDescription, version: int) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.key.node_id,
        replica_directory_id=(
            replica.key.directory_id if version >= FIRST_VERSION_WITH_DIRECTORIES else NO_DIRECTORY
        ),
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )
