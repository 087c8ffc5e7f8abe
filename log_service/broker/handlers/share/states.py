"""Requests of brokers to a share coordinator (KIP-932).

InitializeShareGroupState (83, version 0), ReadShareGroupState (84, 0), WriteShareGroupState (85,
0-1), DeleteShareGroupState (86, 0) and ReadShareGroupStateSummary (87, 0-1).

Behaviour: the shard of each share partition decides on it by itself. NOT_COORDINATOR if this broker
does not lead the shard. The responses wait until the replicas have the written records.

Versions: 1 of WriteShareGroupState and of the summary has the delivery complete count (KIP-1226).
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.protocol.messages import delete_share_group_state as deleting
from log_service.protocol.messages import initialize_share_group_state as initializing
from log_service.protocol.messages import read_share_group_state as reading
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import write_share_group_state as writing


def handle_initialize_share_group_state(
    node: Node, call: Call, request: initializing.InitializeShareGroupStateRequest
) -> Deferred:
    """Initialize states, for a group coordinator."""
    deferred = call.defer()
    node.share_states.initialize(request, deferred.complete)
    return deferred


def handle_read_share_group_state(
    node: Node, call: Call, request: reading.ReadShareGroupStateRequest
) -> Deferred:
    """Return states to the leaders of partitions."""
    deferred = call.defer()
    node.share_states.read(request, deferred.complete)
    return deferred


def handle_write_share_group_state(
    node: Node, call: Call, request: writing.WriteShareGroupStateRequest
) -> Deferred:
    """Store changed delivery states of records."""
    deferred = call.defer()
    node.share_states.write(request, deferred.complete)
    return deferred


def handle_delete_share_group_state(
    node: Node, call: Call, request: deleting.DeleteShareGroupStateRequest
) -> Deferred:
    """Delete states, for a group coordinator."""
    deferred = call.defer()
    node.share_states.delete(request, deferred.complete)
    return deferred


def handle_read_share_group_state_summary(
    node: Node, call: Call, request: summarizing.ReadShareGroupStateSummaryRequest
) -> Deferred:
    """Return start offsets and delivery complete counts of states."""
    deferred = call.defer()
    node.share_states.read_summary(request, deferred.complete)
    return deferred
