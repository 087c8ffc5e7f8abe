"""AlterConfigs (API key 33), versions 0-2.

Behaviour: replaces the whole dynamic configuration of each resource by itself: what the request does not name goes back to its default.
Kept for old clients; IncrementalAlterConfigs (KIP-339) changes key by key. ``validate_only`` decides and writes nothing.

Versions: 2 flexible. KIP-133.
"""

from log_service.broker.node import Call, Node
from log_service.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


async def handle_alter_configs(node: Node, call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:  # noqa: ARG001 - one shape for all
    """Have the controller decide."""
    return await node.controller.alter_configs(request)
