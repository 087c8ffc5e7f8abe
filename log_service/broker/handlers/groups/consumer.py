"""ConsumerGroupHeartbeat (68, versions 0-1) and ConsumerGroupDescribe (69, 0-1) of KIP-848.

Behaviour: the coordinator of the group decides. The handler only passes the request on, with its
sender. A request is UNSUPPORTED_VERSION if the cluster has not finalized ``group.version`` at 1, or
the broker's ``group.coordinator.rebalance.protocols`` leave the protocol out. A client then falls
back to the classic protocol or reports it.

Versions of ConsumerGroupHeartbeat: 1 regular expressions, and member ids that the client makes
(KIP-1082). ConsumerGroupDescribe: 1 the protocol that each member speaks (KIP-1099).
"""

from functools import partial

from log_service.broker.handlers.groups.described import describe_groups
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode
from log_service.metadata.features import has_consumer_groups
from log_service.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from log_service.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle_consumer_group_heartbeat(
    node: Node, call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Deferred:
    """Respond at once, or once the coordinator's records about the request are replicated."""
    if not _is_enabled(node):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    deferred = call.defer()
    node.groups.consumer_group_heartbeat(request, call.client(), deferred.complete)
    return deferred


def handle_consumer_group_describe(
    node: Node, call: Call, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Deferred:
    """Respond with state, epochs and members of each group, once per named group."""
    ask = partial(node.groups.describe_consumer_groups, request, call.client())
    is_enabled = _is_enabled(node)
    return describe_groups(call, request, DescribedGroup, ask, is_enabled=is_enabled)


def _is_enabled(node: Node) -> bool:
    return node.config.groups.consumer.is_enabled and has_consumer_groups(node.image().features)
