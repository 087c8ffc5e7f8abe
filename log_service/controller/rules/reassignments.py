"""AlterPartitionReassignments: a partition moves to other brokers, or goes back.

The controller decides for each partition by itself. While a partition moves, its replicas are those that it keeps and gets, then those that
it loses. The move ends once every added replica is in sync. The controller copies no bytes: the brokers fetch. KIP-455, KIP-860.

Invariants: replicas leave only when all that were added are in sync; a leader is never one that leaves while another in-sync one stays;
a move that is taken back leaves the replicas that were there before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.controller.rules.partitions import default_directory, is_active
from log_service.controller.rules.topics import validated_replicas
from log_service.metadata.image import MetadataImage, TopicImage
from log_service.metadata.partition import NO_LEADER, NO_LEADER_CHANGE, PartitionRegistration
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from log_service.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from log_service.protocol.stored.metadata_records import MetadataRecord, PartitionChangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a partition's replicas are, and which of them come and go."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()


# Changing


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest
) -> tuple[list[MetadataRecord], AlterPartitionReassignmentsResponse]:
    """Decide on every partition of the request."""
    records: list[MetadataRecord] = []
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        responded: list[ReassignablePartitionResponse] = []
        for asked in topic.partitions:
            response = ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
            try:
                records += _alter(image, topic, asked, allows_new_factor=request.allow_replication_factor_change)
            except KafkaError as error:
                response.error_code, response.error_message = error.code, str(error)
            responded.append(response)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=responded))
    if not responses:
        return [], AlterPartitionReassignmentsResponse()
    allowed = request.allow_replication_factor_change
    return records, AlterPartitionReassignmentsResponse(allow_replication_factor_change=allowed, error_message=None, responses=responses)


def _alter(
    image: MetadataImage, asked_topic: ReassignableTopic, asked: ReassignablePartition, *, allows_new_factor: bool
) -> Iterator[PartitionChangeRecord]:
    topic, partition = _existing(image, asked_topic.name, asked.partition_index)
    if asked.replicas is None:
        placement = _reverted(partition, f"{topic.name}-{asked.partition_index}")
    else:
        target = validated_replicas(image, asked.replicas, asked.partition_index, len(asked.replicas))
        _check_factor(partition, target, allows_new_factor=allows_new_factor)
        placement = finished_if_done(_moved(partition, target))
    record = change_record(image, partition, placement)
    if record is not None:
        record.topic_id, record.partition_id = topic.topic_id, asked.partition_index
        yield record


def _existing(image: MetadataImage, name: str, index: int) -> tuple[TopicImage, PartitionRegistration]:
    topic = image.topics.by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    if index not in topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}")
    return topic, topic.partitions[index]


def _check_factor(partition: PartitionRegistration, target: Sequence[NodeId], *, allows_new_factor: bool) -> None:
    present_count = len(partition.replicas) - len(partition.adding_replicas)
    if not allows_new_factor and len(target) != present_count:
        text = f"the partition has {present_count} replica(s), {len(target)} would be another replication factor, which the request forbids"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)


def _moved(partition: PartitionRegistration, target: tuple[NodeId, ...]) -> Placement:
    removing = tuple(sorted(node_id for node_id in partition.replicas if node_id not in target))
    adding = tuple(sorted(node_id for node_id in target if node_id not in partition.replicas or node_id in partition.adding_replicas))
    return Placement(replicas=(*target, *removing), isr=partition.isr, adding=adding, removing=removing)


def finished_if_done(placement: Placement) -> Placement:
    """Return where the move ends if all replicas that were added are in sync, and one that stays is; else the placement as it is."""
    staying = tuple(node_id for node_id in placement.replicas if node_id not in placement.removing)
    isr = tuple(node_id for node_id in placement.isr if node_id in staying)
    if not isr or any(node_id not in isr for node_id in placement.adding):
        return placement
    return Placement(replicas=staying, isr=isr)


def _reverted(partition: PartitionRegistration, named: str) -> Placement:
    if not (partition.adding_replicas or partition.removing_replicas):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{named} is not being reassigned")
    replicas = tuple(node_id for node_id in partition.replicas if node_id not in partition.adding_replicas)
    isr = tuple(node_id for node_id in partition.isr if node_id not in partition.adding_replicas)
    if not isr:
        text = f"{named} cannot go back: none of the brokers that it was on is in sync any more"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return Placement(replicas=replicas, isr=isr)


def change_record(image: MetadataImage, partition: PartitionRegistration, placement: Placement) -> PartitionChangeRecord | None:
    """Return the record from the partition as it is to the placement, None where nothing changes."""
    record = PartitionChangeRecord(leader=_leader_change(image, partition, placement))
    is_changed = record.leader != NO_LEADER_CHANGE
    if placement.replicas != partition.replicas:
        record.replicas = list(placement.replicas)
        record.directories = _directories(image, partition, placement)
        is_changed = True
    if placement.isr != partition.isr:
        record.isr, is_changed = list(placement.isr), True
    if placement.adding != partition.adding_replicas:
        record.adding_replicas, is_changed = list(placement.adding), True
    if placement.removing != partition.removing_replicas:
        record.removing_replicas, is_changed = list(placement.removing), True
    return record if is_changed else None


def _leader_change(image: MetadataImage, partition: PartitionRegistration, placement: Placement) -> int:
    """Return the next leader. Where a replica leaves, the same leader begins a new epoch, which ends what it sends to that replica."""
    if partition.leader in placement.isr:
        return NO_LEADER_CHANGE if set(partition.replicas) <= set(placement.replicas) else partition.leader
    found = (node_id for node_id in placement.replicas if node_id in placement.isr and is_active(image, node_id))
    leader = next(found, NO_LEADER)
    return NO_LEADER_CHANGE if leader == partition.leader else leader


def _directories(image: MetadataImage, partition: PartitionRegistration, placement: Placement) -> list[UUID]:
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    return [known.get(node_id) or default_directory(image, node_id) for node_id in placement.replicas]


# Listing


def list_partition_reassignments(image: MetadataImage, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Return the moves that are under way, of the partitions that are asked for; what does not exist is left out."""
    if request.topics is None:
        asked = [(name, sorted(topic.partitions)) for name, topic in sorted(image.topics.by_name.items())]
    else:
        asked = [(topic.name, list(topic.partition_indexes)) for topic in request.topics]
    topics = (OngoingTopicReassignment(name=name, partitions=list(_ongoing(image, name, indexes))) for name, indexes in asked)
    return ListPartitionReassignmentsResponse(error_message=None, topics=[topic for topic in topics if topic.partitions])


def _ongoing(image: MetadataImage, name: str, indexes: Sequence[int]) -> Iterator[OngoingPartitionReassignment]:
    for index in indexes:
        partition = image.topics.partition(name, index)
        if partition is not None and (partition.adding_replicas or partition.removing_replicas):
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
