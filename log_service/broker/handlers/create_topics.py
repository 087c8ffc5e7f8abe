"""CreateTopics (API key 19), versions 2-7.

Behaviour: the controller decides on each topic by itself: some may be created while others fail. Answers when the topics are in this
broker's image, so that a Metadata request right behind it sees them. ``validate_only`` decides and writes nothing.

Versions: 2 throttled by quota; 4 partition count and replication factor may be -1, the broker's defaults (KIP-464); 5 flexible, answers
with the topic's configuration (KIP-525); 6 THROTTLING_QUOTA_EXCEEDED (KIP-599); 7 answers with the topic id.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


def handle_create_topics(node: Node, call: Call, request: CreateTopicsRequest) -> Deferred:
    """Have the controller decide."""
    return call.run(node.controller.request(request, CreateTopicsResponse))
