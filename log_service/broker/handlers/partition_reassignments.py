"""AlterPartitionReassignments (API key 45), versions 0-1, and ListPartitionReassignments (46), version 0.

Behaviour: the controller moves each partition to other brokers by itself; null replicas take a move back (NO_REASSIGNMENT_IN_PROGRESS
where there is none). Brokers that are not registered, repeated or none at all are INVALID_REPLICA_ASSIGNMENT. A partition that is already
where it shall be is no error. The list tells moves that are under way, without what does not exist.

Versions: 45: 1 may forbid a new replication factor (INVALID_REPLICATION_FACTOR, KIP-860). KIP-455.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from log_service.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle_alter_partition_reassignments(node: Node, call: Call, request: AlterPartitionReassignmentsRequest) -> Deferred:
    """Have the controller decide."""
    return call.run(node.controller.request(request, AlterPartitionReassignmentsResponse))


def handle_list_partition_reassignments(node: Node, call: Call, request: ListPartitionReassignmentsRequest) -> Deferred:
    """Have the controller tell what is under way."""
    return call.run(node.controller.request(request, ListPartitionReassignmentsResponse))
