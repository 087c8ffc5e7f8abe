"""Decides on AllocateProducerIds, which gives brokers blocks of producer ids (KIP-730).

A block has a thousand ids, and no other broker ever gets them. Ids that a broker loses in a restart
are not used again.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.controller.rules.brokers import registered_broker
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from log_service.protocol.stored.metadata_records import MetadataRecord, ProducerIdsRecord

BLOCK_SIZE = 1_000
LAST_PRODUCER_ID = 2**63 - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> tuple[list[MetadataRecord], AllocateProducerIdsResponse]:
    """Return the record that allocates the next block, and the block.

    Raises:
        KafkaError: STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR, no ids are left.
    """
    broker = registered_broker(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    if first > LAST_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "every producer id there is was handed out"
        )
    record = ProducerIdsRecord(
        broker_id=broker.node_id, broker_epoch=broker.epoch, next_producer_id=first + BLOCK_SIZE
    )
    return [record], AllocateProducerIdsResponse(
        producer_id_start=first, producer_id_len=BLOCK_SIZE
    )
