"""DescribeCluster (API key 60), versions 0-2.

Behaviour: tells the brokers of the listener that the request came through, the cluster's id and the controller. Only brokers can be asked
for on a broker's listener: controllers are MISMATCHED_ENDPOINT_TYPE, other types UNSUPPORTED_ENDPOINT_TYPE.

Versions: 1 endpoint type (KIP-919); 2 fenced brokers on request (KIP-1073). KIP-700.
"""

from log_service.broker.cluster_view import CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED_FOR, broker_addresses
from log_service.broker.node import Call, Node
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS, CONTROLLERS = 1, 2


def handle_describe_cluster(node: Node, call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Tell who is there."""
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(
            error_code=code,
            error_message="this listener tells brokers only",
            endpoint_type=request.endpoint_type,
            cluster_id=node.cluster_id,
        )
    brokers = broker_addresses(node.image(), call.connection.listener_name, with_fenced=request.include_fenced_brokers)
    return DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=node.config.node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack, is_fenced=broker.is_fenced
            )
            for broker in brokers
        ],
        cluster_authorized_operations=(CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED_FOR),
    )
