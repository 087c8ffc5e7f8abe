"""Producers: InitProducerId (API key 22, versions 0-5) and DescribeProducers (61, 0).

InitProducerId: gives an idempotent producer a unique id with epoch 0. Ids come in blocks from the
controller. A producer that names its current id and epoch (version 3 on, KIP-360) gets a new id as
well. Only a transactional id keeps the old one, with an epoch that fences earlier producers. An id
without an epoch, or the reverse, is INVALID_REQUEST. With a transactional id, the transaction of an
earlier producer is aborted first, and the response is CONCURRENT_TRANSACTIONS, so clients ask
again.

Versions: 2 flexible; 3 the producer's current id and epoch (KIP-360); 4 PRODUCER_FENCED; 5
transactions v2 (KIP-890).

DescribeProducers: responds with the producers that each partition remembers: id, epoch, last
sequence and time, and the start offset of an open transaction (-1: none is open).
UNKNOWN_TOPIC_OR_PARTITION for unknown partitions, NOT_LEADER_OR_FOLLOWER and KAFKA_STORAGE_ERROR if
the partition is not served here, INVALID_TOPIC_EXCEPTION for names that no topic can have.

KIP-664.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from log_service.controller.rules.topic_names import validate_topic_name
from log_service.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from log_service.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from log_service.storage.log import Log


def handle_init_producer_id(
    node: Node, call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse | Deferred:
    """Respond at once, or once the controller has allocated the next block."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    if request.transactional_id is not None:
        return _init_transactional(node, call, request)
    producer_id = node.producer_ids.next_nowait()
    return (
        call.run(_wait_for_block(node))
        if producer_id is None
        else InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    )


def _init_transactional(node: Node, call: Call, request: InitProducerIdRequest) -> Deferred:
    deferred = call.defer()
    if node.producer_ids.is_empty:
        call.route.start_task(_init_after_block, node, call, request, deferred)
    else:
        node.transactions.init_producer_id(request, call.client(), deferred.complete)
    return deferred


async def _init_after_block(
    node: Node, call: Call, request: InitProducerIdRequest, deferred: Deferred
) -> None:
    """Wait until there are producer ids, then have the coordinator respond.

    The coordinator may need an id, and cannot wait for one.
    """
    await node.producer_ids.wait_for_block()
    node.transactions.init_producer_id(request, call.client(), deferred.complete)


async def _wait_for_block(node: Node) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await node.producer_ids.next(), producer_epoch=0)


def handle_describe_producers(
    node: Node,
    call: Call,  # noqa: ARG001 - one shape for all
    request: DescribeProducersRequest,
) -> DescribeProducersResponse:
    """Describe each partition by itself, once even if it is repeated."""
    indexes: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        indexes.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=name, partitions=[_described(node, name, index) for index in each])
            for name, each in indexes.items()
        ]
    )


def _described(node: Node, topic: str, index: int) -> PartitionResponse:
    try:
        validate_topic_name(topic)
        log = node.replicas.get_partition(topic, index).served_log()
    except KafkaError as error:
        text = None if topic in node.image().topics.by_name else str(error)
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=text)
    return PartitionResponse(partition_index=index, active_producers=_producers(log))


def _producers(log: Log) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_txn_first_offset,
        )
        for entry in log.producer_state
    ]
