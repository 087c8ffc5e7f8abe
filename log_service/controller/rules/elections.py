"""Decides on ElectLeaders: an operator requests the preferred leader, or any leader (KIP-460).

The controller decides on each partition separately. It needs no log, because every in-sync replica
has all acknowledged records. The controller also holds elections by itself. At intervals it returns
partitions to their preferred leaders, and elects unclean leaders for partitions without a leader if
the topic's configuration allows that. Each such run has a bounded number of elections.

Invariants: a preferred election never elects a replica that lacks committed records, as long as
another replica has them all. An unclean election happens only if no replica has them all. It leaves
the new leader alone in the in-sync set and marks the partition as recovering, because records may
be lost.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.controller.rules.partition_change import Election, unchanged
from log_service.controller.rules.partitions import Partitions, is_active
from log_service.metadata.image import MetadataImage
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from log_service.protocol.stored.metadata_records import MetadataRecord

MAX_ELECTIONS_PER_RUN = 1_000


class ElectionType(IntEnum):
    """The kinds of election that an operator can request. The values are Kafka's."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    partitions: Partitions, request: ElectLeadersRequest
) -> tuple[list[MetadataRecord], ElectLeadersResponse]:
    """Return the records of a request's elections, and the response.

    A request without a list of topics means all partitions. Its response leaves out partitions that
    need no election.
    """
    if request.topic_partitions == []:
        return [], ElectLeadersResponse()
    if request.election_type not in tuple(ElectionType):
        return [], _all_refused(request)
    election = ElectionType(request.election_type)
    results: list[ReplicaElectionResult] = []
    for topic in _asked(partitions.image, request):
        partition_results = [
            _elect(partitions, topic.topic, index, election) for index in topic.partitions
        ]
        if request.topic_partitions is None:
            partition_results = [
                result
                for result in partition_results
                if result.error_code != ErrorCode.ELECTION_NOT_NEEDED
            ]
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=partition_results))
    return [*partitions.records], ElectLeadersResponse(replica_election_results=results)


def _all_refused(request: ElectLeadersRequest) -> ElectLeadersResponse:
    text = (
        f"there is no election type {request.election_type}; 0 elects the preferred leader, 1 any"
        " replica"
    )
    code = ErrorCode.INVALID_REQUEST
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=text)
                    for index in topic.partitions
                ],
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


def _elect(
    partitions: Partitions, name: str, index: int, election: ElectionType
) -> PartitionResult:
    try:
        _elect_or_refuse(partitions, name, index, election)
    except KafkaError as error:
        return PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
    return PartitionResult(partition_id=index, error_message=None)


def _elect_or_refuse(partitions: Partitions, name: str, index: int, election: ElectionType) -> None:
    topic, partition = partitions.get(name, index)
    is_preferred = election is ElectionType.PREFERRED
    if has_preferred_leader(partition) if is_preferred else partition.has_leader:
        raise KafkaError(
            ErrorCode.ELECTION_NOT_NEEDED, "the partition has the leader that it should have"
        )
    if (
        partitions.change(
            topic,
            index,
            unchanged(partition),
            election=Election.PREFERRED if is_preferred else Election.UNCLEAN,
        )
        is not None
    ):
        return
    if is_preferred:
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, _why_not_preferred(partitions, partition)
        )
    raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, _why_none(partitions, partition))


def _why_not_preferred(partitions: Partitions, partition: PartitionRegistration) -> str:
    preferred = partition.replicas[0]
    if preferred in partition.isr and preferred in partitions.awaited:
        return _waits_for([preferred])
    return f"broker {preferred}, the preferred leader, is not active and in sync"


def _why_none(partitions: Partitions, partition: PartitionRegistration) -> str:
    """Return a text that tells why no replica can lead, even after an unclean election."""
    active = [node_id for node_id in partition.replicas if is_active(partitions.image, node_id)]
    awaited = [node_id for node_id in active if node_id in partitions.awaited]
    if awaited:
        return _waits_for(awaited)
    if not active:
        return "no broker that has a replica is active"
    if len(active) == 1:
        return (
            f"no replica can lead: that of broker {active[0]} is on a log directory that has"
            " failed, or the broker observes"
        )
    named = ", ".join(map(str, active))
    return (
        f"no replica can lead: those of brokers {named} are on log directories that have failed, or"
        " the brokers observe"
    )


def _waits_for(awaited: Sequence[NodeId]) -> str:
    if len(awaited) == 1:
        who, they, leads = f"broker {awaited[0]}", "it is", "it either leads or is fenced"
    else:
        who, they, leads = (
            f"brokers {', '.join(map(str, awaited))}",
            "they are",
            "one of them leads or they are fenced",
        )
    return (
        f"the controller has not heard of {who} yet, or has reason to doubt that {they} there: ask"
        f" again in some seconds, when {leads}"
    )


def has_preferred_leader(partition: PartitionRegistration) -> bool:
    """Whether the first replica of a partition leads."""
    return partition.leader == partition.replicas[0]


# Elections of the controller's own


def balance_leaders(partitions: Partitions, limit: int = MAX_ELECTIONS_PER_RUN) -> bool:
    """Let preferred leaders lead again, with at most ``limit`` elections.

    Return whether other partitions may still need an election.
    """
    for topic, index, partition in partitions.iterate():
        if len(partitions.records) >= limit:
            return True
        if not has_preferred_leader(partition):
            partitions.change(topic, index, unchanged(partition), election=Election.PREFERRED)
    return False


def elect_uncleanly(partitions: Partitions, limit: int = MAX_ELECTIONS_PER_RUN) -> bool:
    """Elect unclean leaders for partitions without a leader, if their topics allow it.

    At most ``limit`` elections are held. Return whether other partitions may still need one.
    """
    for topic, index, partition in partitions.iterate():
        if len(partitions.records) >= limit:
            return True
        if not partition.has_leader and partitions.policy_of(topic).election is Election.UNCLEAN:
            partitions.change(topic, index, unchanged(partition))
    return False
