"""Records and images for stories about metadata."""

from collections.abc import Sequence
from uuid import UUID

from log_service.common.types import NodeId, TopicId
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.protocol.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

DIRECTORY = UUID(int=500)


NODE_1 = NodeId(1)


def topic_id(number: int) -> TopicId:
    return TopicId(UUID(int=1000 + number))


def broker(node_id: int = 1, *, epoch: int = 10, fenced: bool = False) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        broker_epoch=epoch,
        incarnation_id=UUID(int=epoch),
        end_points=[BrokerEndpoint(name="PLAINTEXT", host=f"host{node_id}", port=9092)],
        features=[BrokerFeature(name="metadata.version", min_supported_version=30, max_supported_version=30)],
        rack=None,
        fenced=fenced,
        log_dirs=[DIRECTORY],
    )


def topic(name: str, number: int, partition_count: int = 1, replicas: Sequence[int] = (1,)) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id(number)),
        *(partition(number, index, replicas) for index in range(partition_count)),
    ]


def partition(number: int, index: int, replicas: Sequence[int] = (1,)) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id(number),
        partition_id=index,
        replicas=list(replicas),
        isr=list(replicas),
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY] * len(replicas),
    )


def delta_of(*records: MetadataRecord, base: MetadataImage = EMPTY_IMAGE) -> MetadataDelta:
    delta = MetadataDelta(base)
    for record in records:
        delta.replay(record)
    return delta


def image_of(*records: MetadataRecord, base: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    return delta_of(*records, base=base).build(offset=base.offset + len(records), epoch=1)
