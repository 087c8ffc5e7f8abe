"""AssignReplicasToDirs: a broker says in which of its log directories a replica lives.

Decides whether that is news. Knows no directory but its id. KIP-858.

Invariant: each replica of a partition has one directory id; that of others is never touched.
"""

from dataclasses import dataclass
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import BrokerEpoch, NodeId, TopicId
from log_service.controller.rules.brokers import registered_broker
from log_service.controller.rules.partitions import UNASSIGNED_DIRECTORY
from log_service.metadata.image import MetadataImage
from log_service.protocol.stored.metadata_records import MetadataRecord, PartitionChangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplica:
    """A replica and the directory that it is in now (AssignReplicasToDirs, API key 73)."""

    node_id: NodeId
    broker_epoch: BrokerEpoch
    topic_id: TopicId
    partition: int
    directory_id: UUID


def assign_replica(image: MetadataImage, request: AssignReplica) -> list[MetadataRecord]:
    """Return the record that notes it, if the metadata says otherwise.

    Raises:
        KafkaError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH; UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, the
            broker has no such replica.
    """
    registered_broker(image, request.node_id, request.broker_epoch)
    topic = image.topics.by_id.get(request.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {request.topic_id}")
    partition = topic.partitions.get(request.partition)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic.name}-{request.partition}")
    if request.node_id not in partition.replicas:
        text = f"broker {request.node_id} has no replica of {topic.name}-{request.partition}"
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    if known.get(request.node_id) == request.directory_id:
        return []
    known[request.node_id] = request.directory_id
    directories = [known.get(node_id, UNASSIGNED_DIRECTORY) for node_id in partition.replicas]
    return [PartitionChangeRecord(topic_id=request.topic_id, partition_id=request.partition, directories=directories)]
