"""AssignReplicasToDirs: a broker says in which of its log directories its replicas live (KIP-858).

Decides for each replica by itself whether that is news. Knows no directory but its id.

Invariant: each replica of a partition has one directory id; a broker's request never touches that of another broker's replica.
"""

from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId, TopicId
from log_service.controller.rules.brokers import registered_broker
from log_service.controller.rules.partitions import UNASSIGNED_DIRECTORY
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from log_service.protocol.stored.metadata_records import MetadataRecord, PartitionChangeRecord


def assign_replicas(
    image: MetadataImage, request: AssignReplicasToDirsRequest
) -> tuple[list[MetadataRecord], AssignReplicasToDirsResponse]:
    """Return the records of the replicas that the metadata has elsewhere; errors are per partition.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    node_id = registered_broker(image, request.broker_id, request.broker_epoch).node_id
    records: list[MetadataRecord] = []
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        response.directories.append(_assign_directory(image, node_id, directory, records))
    return records, response


def _assign_directory(
    image: MetadataImage, node_id: NodeId, directory: RequestDirectoryData, records: list[MetadataRecord]
) -> ResponseDirectoryData:
    topics = []
    for topic in directory.topics:
        partitions = []
        for partition in topic.partitions:
            index, code = partition.partition_index, ErrorCode.NONE
            try:
                records += _assign(image, node_id, TopicId(topic.topic_id), index, directory.id)
            except KafkaError as error:
                code = error.code
            partitions.append(ResponsePartitionData(partition_index=index, error_code=code))
        topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
    return ResponseDirectoryData(id=directory.id, topics=topics)


def _assign(image: MetadataImage, node_id: NodeId, topic_id: TopicId, index: int, directory_id: UUID) -> list[PartitionChangeRecord]:
    topic = image.topics.by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {topic_id}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic.name}-{index}")
    if node_id not in partition.replicas:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {node_id} has no replica of {topic.name}-{index}")
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    if known.get(node_id) == directory_id:
        return []
    known[node_id] = directory_id
    directories = [known.get(replica, UNASSIGNED_DIRECTORY) for replica in partition.replicas]
    return [PartitionChangeRecord(topic_id=topic_id, partition_id=index, directories=directories)]
