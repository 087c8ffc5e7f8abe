"""CreatePartitions (API key 37), versions 0-3.

Behaviour: the controller raises the partition count of each topic by itself; a count that is not above the present one is
INVALID_PARTITIONS. Records stay where they are. ``validate_only`` decides and writes nothing.

Versions: 2 flexible; 3 THROTTLING_QUOTA_EXCEEDED (KIP-599). KIP-195.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


def handle_create_partitions(node: Node, call: Call, request: CreatePartitionsRequest) -> Deferred:
    """Have the controller decide."""
    return call.run(node.controller.request(request, CreatePartitionsResponse))
