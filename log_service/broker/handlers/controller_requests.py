"""Requests of brokers and controllers to the active controller.

BrokerRegistration (API key 62, versions 0-4), BrokerHeartbeat (63, 0-2), AlterPartition (56, 2-3),
AllocateProducerIds (67, 0), ControllerRegistration (70, 0) and AssignReplicasToDirs (73, 0).
Clients do not send them.

Behaviour: the controller of this node decides, by ``controller.rules``. A node whose controller is
not the active one responds with NOT_CONTROLLER at the top, never with another error, so the sender
looks for the active controller again.

Versions: 62: 1 migrating brokers (KIP-866); 2 log directories (KIP-858); 3 the epoch of the last
clean shutdown (KIP-966); 4 features whose lowest level is 0 (KIP-1022). 63: 1 offline log
directories (KIP-858); 2 cordoned ones (KIP-1066). 56: 3 in-sync replicas come with their broker
epochs (KIP-903). KIP-631, KIP-497, KIP-730, KIP-919.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.driver import ControllerDriver
from log_service.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from log_service.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from log_service.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from log_service.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from log_service.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from log_service.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

HEARTBEAT = "heartbeat"


def handle_broker_registration(
    node: Node, call: Call, request: BrokerRegistrationRequest
) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, BrokerRegistrationResponse))


def handle_broker_heartbeat(node: Node, call: Call, request: BrokerHeartbeatRequest) -> Deferred:
    """Let the controller decide on a heartbeat, and let an active controller watch this connection.

    The end of the connection is a sign that the broker's process may have ended (``death_watch``).
    """
    connection, controller = call.connection, node.controller
    if isinstance(controller, ControllerDriver):
        node_id, epoch = NodeId(request.broker_id), BrokerEpoch(request.broker_epoch)
        on_closed = controller.note_heartbeat(node_id, epoch, connection.connection_id)
        if on_closed is None:
            connection.on_closed.pop(HEARTBEAT, None)
        else:
            connection.on_closed[HEARTBEAT] = on_closed
    return call.run(node.controller.request(request, BrokerHeartbeatResponse))


def handle_alter_partition(node: Node, call: Call, request: AlterPartitionRequest) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, AlterPartitionResponse))


def handle_allocate_producer_ids(
    node: Node, call: Call, request: AllocateProducerIdsRequest
) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, AllocateProducerIdsResponse))


def handle_controller_registration(
    node: Node, call: Call, request: ControllerRegistrationRequest
) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, ControllerRegistrationResponse))


def handle_assign_replicas_to_dirs(
    node: Node, call: Call, request: AssignReplicasToDirsRequest
) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, AssignReplicasToDirsResponse))
