"""Produce requests that name no transactional id: each partition's batch is appended at once (see ``produce``).

A batch in a transaction is TRANSACTIONAL_ID_AUTHORIZATION_FAILED here, and so is all of its request.
"""

from log_service.broker.call import Call, Deferred, Nothing
from log_service.broker.handlers.produce import append_batch, each_once, refuse_produce, respond, terms_of
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.messages.produce import ProduceRequest, ProduceResponse
from log_service.records.batch import looks_transactional


def handle_produce(node: Node, call: Call, request: ProduceRequest) -> ProduceResponse | Deferred | Nothing:
    """Append what the request carries, and respond now, later or never."""
    if request.transactional_id is not None:
        from log_service.broker.handlers.transactional_produce import handle_transactional_produce  # noqa: PLC0415 - few nodes need it

        return handle_transactional_produce(node, call, request)
    replicas, terms, now_ms = node.replicas, terms_of(request, call.version), node.clock.wall_ms()
    topics = request.topic_data
    if len(topics) > 1 or (topics and len(topics[0].partition_data) > 1):
        topics = each_once(topics)
        if any(looks_transactional(wanted.records) for topic in topics for wanted in topic.partition_data):
            text = "a batch is part of a transaction, and the request names no transactional id"
            return refuse_produce(call, KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text))
    outcomes = [
        (topic, [append_batch(replicas, terms, topic, wanted.index, wanted.records, now_ms=now_ms) for wanted in topic.partition_data])
        for topic in topics
    ]
    return respond(node, call, request, outcomes)
