"""Who leads and who holds a partition: ElectLeaders (API key 43, versions 0-2), AlterPartitionReassignments (45, 0-1) and
ListPartitionReassignments (46, 0).

ElectLeaders: the controller gives each partition its preferred leader back, or, with election type 1, any replica where there is no leader.
ELECTION_NOT_NEEDED where that replica leads already (left out of the response where all partitions are asked for with null),
PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE where none can, INVALID_REQUEST for other election types.

Versions: 0 preferred only; 1 election type (KIP-460); 2 flexible.

AlterPartitionReassignments and ListPartitionReassignments: the controller moves each partition to other brokers by itself; null replicas
take a move back (NO_REASSIGNMENT_IN_PROGRESS where there is none). Brokers that are not registered, repeated or none at all are
INVALID_REPLICA_ASSIGNMENT. A partition that is already where it shall be is no error. ListPartitionReassignments tells the moves that are
under way, without what does not exist.

Versions: 45: 1 may forbid a new replication factor (INVALID_REPLICATION_FACTOR, KIP-860). KIP-455.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
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
    """Have the controller decide."""
    return call.run(node.controller.request(request, ElectLeadersResponse, call.caller()))


def handle_alter_partition_reassignments(node: Node, call: Call, request: AlterPartitionReassignmentsRequest) -> Deferred:
    """Have the controller decide."""
    return call.run(node.controller.request(request, AlterPartitionReassignmentsResponse, call.caller()))


def handle_list_partition_reassignments(node: Node, call: Call, request: ListPartitionReassignmentsRequest) -> Deferred:
    """Have the controller tell what is under way."""
    return call.run(node.controller.request(request, ListPartitionReassignmentsResponse, call.caller()))
