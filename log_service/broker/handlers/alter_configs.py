"""AlterConfigs (API key 33), versions 0-2.

Behaviour: replaces the whole dynamic configuration of each resource by itself: what the request does not name goes back to its default.
Kept for old clients; IncrementalAlterConfigs (KIP-339) changes key by key. ``validate_only`` decides and writes nothing.

Versions: 2 flexible. KIP-133.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


def handle_alter_configs(node: Node, call: Call, request: AlterConfigsRequest) -> Deferred:
    """Have the controller decide."""
    return call.run(node.controller.request(request, AlterConfigsResponse))
