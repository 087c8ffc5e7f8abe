"""Decides on AlterPartitionReassignments, which begins and cancels moves of partitions.

The controller decides on each partition separately (KIP-455, KIP-860). During a move the replicas
are the staying and added ones, followed by the removed ones. The move ends once every added replica
is in sync. The controller copies no records, because the added replicas fetch them.

Invariants: replicas are removed only once all added ones are in sync (``partition_change`` ends a
move inside any later change). A cancelled move restores the previous replicas. The cancellation is
refused if none of them is in sync, unless the topic allows unclean elections.
"""

from collections.abc import Iterator, Sequence

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.controller.rules.partition_change import Election, Target, unchanged
from log_service.controller.rules.partitions import Partitions
from log_service.controller.rules.topics import validated_replicas
from log_service.metadata.image import MetadataImage
from log_service.metadata.partition import PartitionRegistration
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
from log_service.protocol.stored.metadata_records import MetadataRecord

# Changing


def alter_partition_reassignments(
    partitions: Partitions, request: AlterPartitionReassignmentsRequest
) -> tuple[list[MetadataRecord], AlterPartitionReassignmentsResponse]:
    """Return the records that begin or cancel moves as a request wants, and the response.

    Partitions are decided one after the other, and each gets its own error code.
    """
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        responded: list[ReassignablePartitionResponse] = []
        for asked in topic.partitions:
            response = ReassignablePartitionResponse(
                partition_index=asked.partition_index, error_message=None
            )
            try:
                _alter(
                    partitions,
                    topic,
                    asked,
                    allows_new_factor=request.allow_replication_factor_change,
                )
            except KafkaError as error:
                response.error_code, response.error_message = error.code, str(error)
            responded.append(response)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=responded))
    if not responses:
        return [], AlterPartitionReassignmentsResponse()
    allowed = request.allow_replication_factor_change
    response_of_all = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allowed, error_message=None, responses=responses
    )
    return [*partitions.records], response_of_all


def _alter(
    partitions: Partitions,
    asked_topic: ReassignableTopic,
    asked: ReassignablePartition,
    *,
    allows_new_factor: bool,
) -> None:
    index = asked.partition_index
    topic, partition = partitions.get(asked_topic.name, index)
    if asked.replicas is None:
        is_unclean_allowed = partitions.policy_of(topic).election is Election.UNCLEAN
        partitions.change(
            topic,
            index,
            _reverted(partition, f"{topic.name}-{index}", is_unclean_allowed=is_unclean_allowed),
        )
        return
    target = validated_replicas(partitions.image, asked.replicas, index, len(asked.replicas))
    _check_factor(partition, target, allows_new_factor=allows_new_factor)
    partitions.change(topic, index, _moved(partition, target), election=Election.CLEAN)


def _check_factor(
    partition: PartitionRegistration, target: Sequence[NodeId], *, allows_new_factor: bool
) -> None:
    present_count = len(set(partition.replicas) - set(partition.removing_replicas))
    if not allows_new_factor and len(target) != present_count:
        text = (
            f"the partition has {present_count} replica(s), {len(target)} would be another"
            " replication factor, which the request forbids"
        )
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)


def _moved(partition: PartitionRegistration, wanted: tuple[NodeId, ...]) -> Target:
    """Return the target that begins a move.

    A move in progress keeps those of its added replicas that the new move also wants.
    """
    removing = tuple(sorted(set(partition.replicas) - set(wanted)))
    adding = tuple(
        sorted(
            node_id
            for node_id in wanted
            if node_id not in partition.replicas or node_id in partition.adding_replicas
        )
    )
    return unchanged(partition, replicas=(*wanted, *removing), adding=adding, removing=removing)


def _reverted(partition: PartitionRegistration, named: str, *, is_unclean_allowed: bool) -> Target:
    if not (partition.adding_replicas or partition.removing_replicas):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{named} is not being reassigned")
    replicas = tuple(
        node_id for node_id in partition.replicas if node_id not in partition.adding_replicas
    )
    isr = tuple(node_id for node_id in partition.isr if node_id not in partition.adding_replicas)
    if not isr and not is_unclean_allowed:
        text = f"{named} cannot go back: none of the brokers that it was on is in sync any more"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return unchanged(partition, replicas=replicas, isr=isr or replicas[:1], adding=(), removing=())


# Listing


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments in progress of the requested partitions.

    Partitions that do not exist are left out.
    """
    if request.topics is None:
        asked = [
            (name, sorted(topic.partitions)) for name, topic in sorted(image.topics.by_name.items())
        ]
    else:
        asked = [(topic.name, list(topic.partition_indexes)) for topic in request.topics]
    topics = (
        OngoingTopicReassignment(name=name, partitions=list(_ongoing(image, name, indexes)))
        for name, indexes in asked
    )
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=[topic for topic in topics if topic.partitions]
    )


def _ongoing(
    image: MetadataImage, name: str, indexes: Sequence[int]
) -> Iterator[OngoingPartitionReassignment]:
    for index in indexes:
        partition = image.topics.partition(name, index)
        if partition is not None and (partition.adding_replicas or partition.removing_replicas):
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
