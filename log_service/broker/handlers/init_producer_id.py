"""InitProducerId (API key 22), versions 0-5.

Behaviour: gives an idempotent producer an id that no other producer has, with epoch 0; ids come in blocks from the controller. A producer
that names its current id and epoch (version 3 on, KIP-360) gets a new id as well: only a transactional id could keep the old one. One
without the other is INVALID_REQUEST.

Versions: 2 flexible; 3 the producer's current id and epoch (KIP-360); 4 PRODUCER_FENCED; 5 transactions v2 (KIP-890).

Not here yet: a transactional id gets INVALID_REQUEST, never a code that a client would retry for ever.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode
from log_service.common.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle_init_producer_id(node: Node, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | Deferred:
    """Answer at once, or when the controller has given the next block."""
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    producer_id = node.producer_ids.next_nowait()
    return call.run(_wait_for_block(node)) if producer_id is None else InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _wait_for_block(node: Node) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await node.producer_ids.next(), producer_epoch=0)
