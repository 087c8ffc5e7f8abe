"""The metadata quorum: DescribeQuorum (API key 55, versions 0-2), AddRaftVoter (80, 0-1) and RemoveRaftVoter (81, 0).

DescribeQuorum: tells the leader, epoch and high watermark of the metadata quorum and how far each voter is. A request has to ask for
partition 0 of ``__cluster_metadata`` and nothing else; every partition of any other request gets UNKNOWN_TOPIC_OR_PARTITION.

Versions: 1 fetch times (KIP-836); 2 error texts, directory ids, the voters' listeners (KIP-853).

AddRaftVoter and RemoveRaftVoter: checks what Kafka checks: INCONSISTENT_CLUSTER_ID; INVALID_REQUEST for a voter without an id, a directory
or the quorum's listener; UNSUPPORTED_VERSION where the metadata log has no dynamic voters; DUPLICATE_VOTER. What is left would have to be
reached and to fetch the metadata log before it may vote: this quorum of one has no listener for that, so that a new voter is never ready
(REQUEST_TIMED_OUT). The last voter cannot go, and others are not there (VOTER_NOT_FOUND).

Versions: 80: 1 may respond before the change is committed. KIP-853.
"""

from uuid import UUID

from log_service.broker.call import Call
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import CLUSTER_METADATA_TOPIC
from log_service.metadata.features import KRAFT_VERSION
from log_service.protocol.messages import describe_quorum as messages
from log_service.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from log_service.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from log_service.raft.voters import NO_DIRECTORY

FIRST_VERSION_WITH_DIRECTORIES = 2


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


def handle_add_raft_voter(node: Node, call: Call, request: AddRaftVoterRequest) -> AddRaftVoterResponse:  # noqa: ARG001 - one shape for all
    """Say why the voter is not added."""
    refusal = _refusal_to_add(node, request)
    return AddRaftVoterResponse(error_code=refusal.code, error_message=str(refusal))


def _refusal_to_add(node: Node, request: AddRaftVoterRequest) -> KafkaError:
    fault = _request_fault(node, request.cluster_id, request.voter_id, request.voter_directory_id)
    if fault is not None:
        return fault
    needed = {voter.endpoints[0].name for voter in node.raft.voters if voter.endpoints}
    if not needed <= {listener.name for listener in request.listeners}:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"the voter has no endpoint for listener {', '.join(sorted(needed))}")
    fault = _version_fault(node)
    if fault is not None:
        return fault
    if any(voter.node_id == request.voter_id for voter in node.raft.voters):
        return KafkaError(ErrorCode.DUPLICATE_VOTER, f"node {request.voter_id} is a voter already")
    text = f"node {request.voter_id} cannot become a voter: it does not follow the metadata log of this node"
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)


def handle_remove_raft_voter(node: Node, call: Call, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:  # noqa: ARG001 - one shape for all
    """Say why the voter is not removed."""
    refusal = _request_fault(node, request.cluster_id, request.voter_id, request.voter_directory_id) or _version_fault(node)
    if refusal is None:
        is_voter = any((voter.node_id, voter.directory_id) == (request.voter_id, request.voter_directory_id) for voter in node.raft.voters)
        fault = "it is the last one" if is_voter else "it is not among the voters"
        refusal = KafkaError(ErrorCode.VOTER_NOT_FOUND, f"voter {request.voter_id} cannot be removed: {fault}")
    return RemoveRaftVoterResponse(error_code=refusal.code, error_message=str(refusal))


def _request_fault(node: Node, cluster_id: str | None, voter_id: int, directory_id: UUID) -> KafkaError | None:
    if cluster_id is not None and cluster_id != node.cluster_id:
        return KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {node.cluster_id}, not {cluster_id}")
    if voter_id < 0 or directory_id == NO_DIRECTORY:
        return KafkaError(ErrorCode.INVALID_REQUEST, "a voter is named by its node id and the id of its metadata directory")
    return None


def _version_fault(node: Node) -> KafkaError | None:
    if node.image().features.get(KRAFT_VERSION, 0) > 0:
        return None
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{KRAFT_VERSION} is 0: the voters of this cluster are fixed by its configuration")
