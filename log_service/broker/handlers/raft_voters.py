"""AddRaftVoter (API key 80), versions 0-1, and RemoveRaftVoter (81), version 0.

Behaviour: checks what Kafka checks: INCONSISTENT_CLUSTER_ID; INVALID_REQUEST for a voter without an id, a directory or the quorum's
listener; UNSUPPORTED_VERSION where the metadata log has no dynamic voters; DUPLICATE_VOTER. What is left would have to answer and to fetch
the metadata log before it may vote: this quorum of one has no listener for that, so that a new voter is never ready (REQUEST_TIMED_OUT).
The last voter cannot go, and others are not there (VOTER_NOT_FOUND).

Versions: 80: 1 may answer before the change is committed. KIP-853.
"""

from uuid import UUID

from log_service.broker.call import Call
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.features import KRAFT_VERSION
from log_service.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from log_service.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

NO_DIRECTORY = UUID(int=0)


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
