"""Decides on AssignReplicasToDirs: a broker reports its replicas' log directories (KIP-858).

The controller decides on each replica separately. It knows a log directory only by its id.

If the last known leader of a partition now has its replica in a new directory, this replica is
empty. It becomes leader only if no other replica can lead.

Invariants: each replica of a partition has one directory id. A broker's request never changes the
replica of another broker. A replica in an offline directory leaves the in-sync set and does not
lead.
"""

from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId
from log_service.controller.rules.brokers import registered_broker
from log_service.controller.rules.partition_change import Election, unchanged
from log_service.controller.rules.partitions import Partitions
from log_service.metadata.image import BrokerRegistration
from log_service.metadata.partition import FIRST_FREE_DIRECTORY_ID, PartitionRegistration
from log_service.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from log_service.protocol.stored.metadata_records import MetadataRecord


def assign_replicas(
    partitions: Partitions, request: AssignReplicasToDirsRequest
) -> tuple[list[MetadataRecord], AssignReplicasToDirsResponse]:
    """Return the records of replicas whose directory differs from the metadata, and the response.

    Each replica gets its own error code.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    broker = registered_broker(partitions.image, request.broker_id, request.broker_epoch)
    directories = [
        _assign_directory(partitions, broker, directory) for directory in request.directories
    ]
    return [*partitions.records], AssignReplicasToDirsResponse(directories=directories)


def _assign_directory(
    partitions: Partitions, broker: BrokerRegistration, directory: RequestDirectoryData
) -> ResponseDirectoryData:
    topics = []
    for topic in directory.topics:
        responded = []
        for partition in topic.partitions:
            index, code = partition.partition_index, ErrorCode.NONE
            try:
                _assign(partitions, broker, TopicId(topic.topic_id), index, directory.id)
            except KafkaError as error:
                code = error.code
            responded.append(ResponsePartitionData(partition_index=index, error_code=code))
        topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=responded))
    return ResponseDirectoryData(id=directory.id, topics=topics)


def _assign(
    partitions: Partitions,
    broker: BrokerRegistration,
    topic_id: TopicId,
    index: int,
    directory_id: UUID,
) -> None:
    topic, partition = partitions.get(topic_id, index)
    if broker.node_id not in partition.replicas:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {broker.node_id} has no replica of {topic.name}-{index}",
        )
    moved = unchanged(partition, directories={broker.node_id: directory_id})
    is_led = False
    if _has_lost_last_log(partition, broker):
        record = partitions.change(
            topic, index, moved, election=Election.UNCLEAN, gone=[broker.node_id]
        )
        is_led = record is not None and record.leader >= 0
    if not is_led:
        partitions.change(topic, index, moved, election=Election.CLEAN)
    if not broker.has_online(directory_id):
        partitions.take_replica(topic, index, broker.node_id)


def _has_lost_last_log(partition: PartitionRegistration, broker: BrokerRegistration) -> bool:
    """Whether only the last known leader could be elected, and its log directory is gone.

    Any other replica is then a better leader, because that of the last known leader is empty.
    """
    known = partition.directory_of(broker.node_id)
    has_log = known is None or known.int < FIRST_FREE_DIRECTORY_ID or known in broker.log_dirs
    has_eligible = partition.has_leader or partition.isr or partition.eligible_leader_replicas
    return partition.last_known_elr == (broker.node_id,) and not has_eligible and not has_log
