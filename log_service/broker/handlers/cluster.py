"""DescribeCluster (API key 60, versions 0-2), UpdateFeatures (57, 0-2), UnregisterBroker (64, 0).

DescribeCluster: on a broker's listener, the response has the brokers as clients of that listener
reach them, and the cluster's id. It names any broker that is not fenced as the controller. On the
controller's listener it has the controllers and the active one. Asking either for the other's
endpoints is MISMATCHED_ENDPOINT_TYPE, any other type is UNSUPPORTED_ENDPOINT_TYPE.

Versions: 1 endpoint type (KIP-919); 2 fenced brokers on request (KIP-1073). KIP-700.

UpdateFeatures: the controller changes all levels of a request or none. If one of them is
impossible, the request gets INVALID_UPDATE_VERSION at the top, with a text that names the feature.
Requesting the present level is not an error. ``validate_only`` decides and writes nothing.

Versions: 0 a flag for downgrades; 1 upgrade types, ``validate_only`` (KIP-778); 2 results at the
top only (KIP-1022).

UnregisterBroker: the controller removes a broker that is gone for good. BROKER_ID_NOT_REGISTERED if
it is unknown. The partitions that it leads lose their leader. A broker that is still running is not
notified. It serves no partition until its next start registers it again.

KIP-631.
"""

from log_service.broker.cluster_view import (
    OPERATIONS_NOT_ASKED_FOR,
    advertised_controller,
    broker_addresses,
    cluster_operations,
)
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Side
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from log_service.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from log_service.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

BROKERS, CONTROLLERS = 1, 2
NAMES = {BROKERS: "brokers", CONTROLLERS: "controllers"}


def handle_describe_cluster(
    node: Node, call: Call, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Respond with the brokers or the controllers, depending on the listener."""
    present = CONTROLLERS if call.route.side is Side.CONTROLLER else BROKERS
    if request.endpoint_type != present:
        is_known = request.endpoint_type in NAMES
        code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        return DescribeClusterResponse(
            error_code=code, error_message=f"this listener tells {NAMES[present]} only"
        )
    operations = (
        cluster_operations(call.access)
        if request.include_cluster_authorized_operations
        else OPERATIONS_NOT_ASKED_FOR
    )
    return DescribeClusterResponse(
        endpoint_type=present,
        cluster_id=node.cluster_id,
        controller_id=(
            node.raft.leader_id
            if present == CONTROLLERS
            else advertised_controller(node.image(), node.rng)
        ),
        brokers=(
            _controllers(node, call.connection.listener_name)
            if present == CONTROLLERS
            else _brokers(node, call, request)
        ),
        cluster_authorized_operations=operations,
    )


def _controllers(node: Node, listener_name: str) -> list[DescribeClusterBroker]:
    """Return the registered controllers that have the listener, and this node in any case.

    A node that started as a single one does not register as a controller (KIP-919).
    """
    found = {
        int(node_id): (endpoint.host, endpoint.port)
        for node_id, controller in node.image().cluster.controllers.items()
        if (endpoint := controller.endpoints.get(listener_name)) is not None
    }
    if node.controller_address is not None:
        found.setdefault(node.config.node_id, node.controller_address)
    return [
        DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=None)
        for node_id, (host, port) in sorted(found.items())
    ]


def _brokers(
    node: Node, call: Call, request: DescribeClusterRequest
) -> list[DescribeClusterBroker]:
    brokers = broker_addresses(
        node.image(), call.connection.listener_name, with_fenced=request.include_fenced_brokers
    )
    return [
        DescribeClusterBroker(
            broker_id=broker.node_id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack,
            is_fenced=broker.is_fenced,
        )
        for broker in brokers
    ]


def handle_update_features(node: Node, call: Call, request: UpdateFeaturesRequest) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, UpdateFeaturesResponse, call.caller()))


def handle_unregister_broker(node: Node, call: Call, request: UnregisterBrokerRequest) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, UnregisterBrokerResponse, call.caller()))
