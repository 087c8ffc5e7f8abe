"""IncrementalAlterConfigs (API key 44), versions 0-1.

Behaviour: sets, deletes, appends to and subtracts from the configuration of each resource by itself, all of a resource or nothing of it.
Topic configuration takes effect at once, on open logs too. ``validate_only`` decides and writes nothing.

Versions: 1 flexible. KIP-339.
"""

from log_service.broker.node import Call, Node
from log_service.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse


async def handle_incremental_alter_configs(
    node: Node,
    call: Call,  # noqa: ARG001 - one shape for all
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse:
    """Have the controller decide."""
    return await node.controller.incremental_alter_configs(request)
