"""CreateTopics (API key 19, versions 2-7), DeleteTopics (20, 1-6), CreatePartitions (37, 0-3).

CreateTopics: the controller decides on each topic by itself, so some may be created while others
fail. Responds when the topics are in this broker's image, so a Metadata request right after it
sees them. ``validate_only`` decides and writes nothing.

Versions: 2 throttled by quota; 4 partition count and replication factor may be -1, the broker's
defaults (KIP-464); 5 flexible, returns the topic's configuration (KIP-525); 6
THROTTLING_QUOTA_EXCEEDED (KIP-599); 7 returns the topic id.

DeleteTopics: the controller decides on each topic by itself. The logs are renamed at once and
unlinked later. TOPIC_DELETION_DISABLED if ``delete.topic.enable`` is false (INVALID_REQUEST in
versions that do not know that code).

Versions: 1 throttle time; 3 TOPIC_DELETION_DISABLED; 4 flexible; 5 error text (KIP-599); 6 by topic
id (KIP-516).

CreatePartitions: the controller raises the partition count of each topic by itself. A count that is
not above the present one is INVALID_PARTITIONS. Records stay in their partitions. ``validate_only``
decides and writes nothing.

Versions: 2 flexible; 3 THROTTLING_QUOTA_EXCEEDED (KIP-599). KIP-195.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Refusable
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from log_service.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from log_service.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


def handle_create_topics(node: Node, call: Call, request: CreateTopicsRequest) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, CreateTopicsResponse, call.caller()))


FIRST_VERSION_WITH_DISABLED = 3


def handle_delete_topics(node: Node, call: Call, request: DeleteTopicsRequest) -> Deferred:
    """Respond with the controller's decision.

    Raises:
        KafkaError: topic deletion is disabled on this broker.
    """
    if not node.config.topics.is_deletion_enabled:
        is_known = call.version >= FIRST_VERSION_WITH_DISABLED
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "delete.topic.enable is false on this broker")
    return call.run(node.controller.request(request, DeleteTopicsResponse, call.caller()))


def refuse_delete_topics(call: Refusable, error: KafkaError) -> DeleteTopicsResponse:
    """Return an error for each topic. Topics are names, or from version 6 on names or ids."""
    request: DeleteTopicsRequest = call.request
    named = [(name, NO_TOPIC_ID) for name in request.topic_names] + [
        (topic.name, topic.topic_id) for topic in request.topics
    ]
    text = str(error)
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error.code, error_message=text
            )
            for name, topic_id in named
        ]
    )


def handle_create_partitions(node: Node, call: Call, request: CreatePartitionsRequest) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, CreatePartitionsResponse, call.caller()))
