"""ElectLeaders: an admin asks for the preferred leader, or for any leader at all.

The controller decides for each partition by itself. It reads no log: an in-sync replica has all acknowledged records. KIP-460.

Invariants: a preferred election never takes a replica that is not in sync; an unclean one happens only where no in-sync replica is there,
leaves the new leader alone in the in-sync set, and marks the partition as recovering, because records may be gone.
"""

from collections.abc import Iterator
from enum import IntEnum

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId, TopicId
from log_service.controller.rules.partitions import is_active
from log_service.metadata.image import MetadataImage, TopicImage
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from log_service.protocol.stored.metadata_records import MetadataRecord, PartitionChangeRecord

RECOVERING = 1


class ElectionType(IntEnum):
    """Who may lead, by Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(image: MetadataImage, request: ElectLeadersRequest) -> tuple[list[MetadataRecord], ElectLeadersResponse]:
    """Decide on every partition of the request; on all where it names none, leaving out those that need no election."""
    if request.topic_partitions == []:
        return [], ElectLeadersResponse()
    if request.election_type not in tuple(ElectionType):
        return [], _all_refused(request)
    election = ElectionType(request.election_type)
    records: list[MetadataRecord] = []
    results: list[ReplicaElectionResult] = []
    for topic in _asked(image, request):
        told: list[PartitionResult] = []
        for index in topic.partitions:
            result, record = _elect(image, topic.topic, index, election)
            if record is not None:
                records.append(record)
            if request.topic_partitions is not None or result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                told.append(result)
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=told))
    return records, ElectLeadersResponse(replica_election_results=results)


def _all_refused(request: ElectLeadersRequest) -> ElectLeadersResponse:
    text = f"there is no election type {request.election_type}; 0 elects the preferred leader, 1 any replica"
    code = ErrorCode.INVALID_REQUEST
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[PartitionResult(partition_id=index, error_code=code, error_message=text) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _asked(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[TopicPartitions]:
    if request.topic_partitions is not None:
        yield from request.topic_partitions
        return
    for name, topic in sorted(image.topics.by_name.items()):
        yield TopicPartitions(topic=name, partitions=sorted(topic.partitions))


def _elect(image: MetadataImage, name: str, index: int, election: ElectionType) -> tuple[PartitionResult, PartitionChangeRecord | None]:
    topic = image.topics.by_name.get(name)
    try:
        record = _election(image, _existing(topic, name, index), election)
    except KafkaError as error:
        return PartitionResult(partition_id=index, error_code=error.code, error_message=str(error)), None
    assert topic is not None
    record.topic_id, record.partition_id = TopicId(topic.topic_id), index
    return PartitionResult(partition_id=index, error_message=None), record


def _existing(topic: TopicImage | None, name: str, index: int) -> PartitionRegistration:
    partition = topic.partitions.get(index) if topic is not None else None
    if partition is None:
        text = f"there is no topic {name}" if topic is None else f"there is no partition {name}-{index}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return partition


def _election(image: MetadataImage, partition: PartitionRegistration, election: ElectionType) -> PartitionChangeRecord:
    """Return the change that gives the partition its leader, without its name."""
    is_led_well = partition.has_leader and (election is ElectionType.UNCLEAN or partition.leader == partition.replicas[0])
    if is_led_well:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "the partition has the leader that it should have")
    in_sync = [node_id for node_id in partition.replicas if node_id in partition.isr and is_active(image, node_id)]
    if election is ElectionType.PREFERRED:
        return _preferred(partition, in_sync)
    if in_sync:
        return PartitionChangeRecord(leader=in_sync[0])
    active = [node_id for node_id in partition.replicas if is_active(image, node_id)]
    if not active:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no broker that has a replica is active")
    return PartitionChangeRecord(leader=active[0], isr=[active[0]], leader_recovery_state=RECOVERING)


def _preferred(partition: PartitionRegistration, in_sync: list[NodeId]) -> PartitionChangeRecord:
    """Elect the first replica if it is in sync; a partition without a leader takes any that is."""
    if in_sync and (in_sync[0] == partition.replicas[0] or not partition.has_leader):
        return PartitionChangeRecord(leader=in_sync[0])
    text = f"broker {partition.replicas[0]}, the preferred leader, is not active and in sync"
    raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
