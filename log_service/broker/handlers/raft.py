"""Requests between replicas of the metadata log, on the listeners of the controller.

Vote (API key 52, versions 0-2), BeginQuorumEpoch (53, 0-1), EndQuorumEpoch (54, 0-1), Fetch (1,
4-18), FetchSnapshot (59, 0-1) and UpdateRaftVoter (82, 0).

Behaviour: the metadata log of this node responds, by the rules of the quorum (``raft``), also while
no leader is known. A Fetch there is a fetch of the metadata log by topic id, so versions below 13
find nothing. It may wait as long as it requests.

Versions: 52: 1 directory ids, the leader's address (KIP-853); 2 pre-votes (KIP-996). 53 and 54: 1
directory ids, addresses (KIP-853). 59: 1 directory ids, the leader's address (KIP-853). KIP-595,
KIP-630.
"""

from log_service.broker.node import QuorumNode
from log_service.broker.requests.call import Call, Deferred
from log_service.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from log_service.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from log_service.protocol.messages.fetch import FetchRequest
from log_service.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from log_service.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from log_service.protocol.messages.vote import VoteRequest
from log_service.protocol.schema import has_version
from log_service.raft.messages import WireMessage

ADDRESSES = "node_endpoints"
"""The field with the leader's endpoints. Old versions of a response do not have it."""


def handle_vote(node: QuorumNode, call: Call, request: VoteRequest) -> Deferred:
    """Grant or refuse a vote."""
    return _handled(node, call, request)


def handle_begin_quorum_epoch(
    node: QuorumNode, call: Call, request: BeginQuorumEpochRequest
) -> Deferred:
    """Pass the leader of a new epoch to the metadata log."""
    return _handled(node, call, request)


def handle_end_quorum_epoch(
    node: QuorumNode, call: Call, request: EndQuorumEpochRequest
) -> Deferred:
    """Pass the resignation of a leader to the metadata log."""
    return _handled(node, call, request)


def handle_fetch(node: QuorumNode, call: Call, request: FetchRequest) -> Deferred:
    """Respond with a part of the metadata log to another replica."""
    return _handled(node, call, request)


def handle_fetch_snapshot(node: QuorumNode, call: Call, request: FetchSnapshotRequest) -> Deferred:
    """Send a snapshot to another replica."""
    return _handled(node, call, request)


def handle_update_raft_voter(
    node: QuorumNode, call: Call, request: UpdateRaftVoterRequest
) -> Deferred:
    """Pass a voter's endpoints to the metadata log."""
    return _handled(node, call, request)


def _handled(node: QuorumNode, call: Call, request: WireMessage) -> Deferred:
    """Have this node's metadata log respond to the request."""
    return call.run(_respond(node, call, request))


async def _respond(node: QuorumNode, call: Call, request: WireMessage) -> WireMessage:
    response = await node.raft.handle(request, listener_name=call.connection.listener_name)
    addresses_field = next(
        (each for each in response.SCHEMA.fields if each.name == ADDRESSES), None
    )
    if addresses_field is not None and not has_version(addresses_field.versions, call.version):
        setattr(response, ADDRESSES, [])
    return response
