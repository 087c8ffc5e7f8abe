"""Leadership and placement of partitions: elections and reassignments.

ElectLeaders (API key 43, versions 0-2): the controller gives each partition its preferred leader
back, or, with election type 1, any replica if there is no leader. ELECTION_NOT_NEEDED if that
replica leads already (left out of the response if all partitions are asked for with null),
PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE if none can, INVALID_REQUEST for
other election types.

Versions: 0 preferred only; 1 election type (KIP-460); 2 flexible.

AlterPartitionReassignments (45, 0-1) and ListPartitionReassignments (46, 0): the controller moves
each partition to other brokers by itself. Null replicas cancel a move (NO_REASSIGNMENT_IN_PROGRESS
if there is none). Replicas that are empty, repeated or not registered are
INVALID_REPLICA_ASSIGNMENT. A request for the present replicas is not an error.
ListPartitionReassignments responds with the moves under way, without unknown partitions.

Versions: 45: 1 may forbid a new replication factor (INVALID_REPLICATION_FACTOR, KIP-860). KIP-455.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from log_service.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle_elect_leaders(node: Node, call: Call, request: ElectLeadersRequest) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, ElectLeadersResponse, call.caller()))


def handle_alter_partition_reassignments(
    node: Node, call: Call, request: AlterPartitionReassignmentsRequest
) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(
        node.controller.request(request, AlterPartitionReassignmentsResponse, call.caller())
    )


def handle_list_partition_reassignments(
    node: Node, call: Call, request: ListPartitionReassignmentsRequest
) -> Deferred:
    """Let the controller list the moves under way."""
    return call.run(
        node.controller.request(request, ListPartitionReassignmentsResponse, call.caller())
    )
