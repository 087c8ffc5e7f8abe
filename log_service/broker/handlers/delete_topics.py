"""DeleteTopics (API key 20), versions 1-6.

Behaviour: the controller decides on each topic by itself; the logs are renamed away at once and unlinked later. TOPIC_DELETION_DISABLED
where ``delete.topic.enable`` is false (INVALID_REQUEST in versions that do not know that code).

Versions: 1 throttle time; 3 TOPIC_DELETION_DISABLED; 4 flexible; 5 error text (KIP-599); 6 by topic id (KIP-516).
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID
from log_service.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

FIRST_VERSION_WITH_DISABLED = 3


def handle_delete_topics(node: Node, call: Call, request: DeleteTopicsRequest) -> Deferred:
    """Have the controller decide.

    Raises:
        KafkaError: nothing may be deleted here.
    """
    if not node.config.topics.is_deletion_enabled:
        is_known = call.version >= FIRST_VERSION_WITH_DISABLED
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "delete.topic.enable is false on this broker")
    return call.run(node.controller.request(request, DeleteTopicsResponse))


def refuse_delete_topics(call: Call, error: KafkaError) -> DeleteTopicsResponse:
    """Tell an error for each topic; up to version 5 topics are names, from version 6 on names or ids."""
    request: DeleteTopicsRequest = call.request
    named = [(name, NO_TOPIC_ID) for name in request.topic_names] + [(topic.name, topic.topic_id) for topic in request.topics]
    text = str(error)
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=text) for name, topic_id in named
        ]
    )
