"""Blocks of producer ids (KIP-730).

Decides which ids a broker may hand out: a block of a thousand, none of which anybody else ever gets. Blocks that a broker lost are lost.
"""

from dataclasses import dataclass

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import BrokerEpoch, NodeId, ProducerId
from log_service.controller.rules.brokers import registered_broker
from log_service.metadata.image import MetadataImage
from log_service.protocol.stored.metadata_records import MetadataRecord, ProducerIdsRecord

BLOCK_SIZE = 1_000
LAST_PRODUCER_ID = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """The ids [first, first + count)."""

    first: ProducerId
    count: int


def allocate_producer_ids(image: MetadataImage, node_id: NodeId, broker_epoch: BrokerEpoch) -> tuple[list[MetadataRecord], ProducerIdBlock]:
    """Return the record that takes the next block, and the block.

    Raises:
        KafkaError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR, all ids there are were handed out.
    """
    registered_broker(image, node_id, broker_epoch)
    first = image.next_producer_id
    if first > LAST_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "every producer id there is was handed out")
    record = ProducerIdsRecord(broker_id=node_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE)
    return [record], ProducerIdBlock(first=first, count=BLOCK_SIZE)
