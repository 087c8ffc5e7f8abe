"""Decides on AlterPartition: a leader reports the in-sync replicas of a partition (KIP-497).

The controller decides on each partition of a request separately. It ends a reassignment once every
added replica is in sync. The leader decides which replicas are caught up. The registrations of
their brokers decide whether they may be in sync (KIP-841, KIP-903).

Invariants: only the leader may change a partition, and only with the present leader epoch and
partition epoch. A broker that is fenced, in controlled shutdown, or of another broker epoch never
enters the in-sync set.
"""

from collections.abc import Sequence

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId, TopicId
from log_service.controller.rules.brokers import registered_broker
from log_service.controller.rules.partition_change import unchanged
from log_service.controller.rules.partitions import Partitions, is_active
from log_service.metadata.image import MetadataImage, TopicImage
from log_service.metadata.partition import (
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionRegistration,
)
from log_service.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from log_service.protocol.stored.metadata_records import MetadataRecord

ANY_EPOCH = -1
"""Sent for followers without a fetch since the leader's election, and always in version 2."""


def alter_partition(
    partitions: Partitions, request: AlterPartitionRequest
) -> tuple[list[MetadataRecord], AlterPartitionResponse]:
    """Return the records of the partitions that a request may change, and the response.

    Partitions are decided one after the other, and each gets its own error code.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    leader_id = registered_broker(partitions.image, request.broker_id, request.broker_epoch).node_id
    response = AlterPartitionResponse()
    for topic in request.topics:
        responded = ResponseTopicData(topic_id=topic.topic_id)
        for asked in topic.partitions:
            try:
                partition_response = _alter(partitions, leader_id, TopicId(topic.topic_id), asked)
            except KafkaError as error:
                partition_response = ResponsePartitionData(
                    partition_index=asked.partition_index, error_code=error.code
                )
            responded.partitions.append(partition_response)
        response.topics.append(responded)
    return [*partitions.records], response


def _alter(
    partitions: Partitions, leader_id: NodeId, topic_id: TopicId, asked: RequestPartitionData
) -> ResponsePartitionData:
    index = asked.partition_index
    topic, partition = partitions.get(topic_id, index)
    members = asked.new_isr_with_epochs or [
        BrokerState(broker_id=node_id) for node_id in asked.new_isr
    ]
    isr = tuple(NodeId(each.broker_id) for each in members)
    check_epochs(partition, leader_id, asked)
    _check_isr(partition, isr, asked.leader_recovery_state)
    check_eligible(partitions.image, members)
    _check_observers(partitions, topic, partition, isr)
    wanted = partition.isr if set(isr) == set(partition.isr) else isr
    record = partitions.change(
        topic, index, unchanged(partition, isr=wanted, recovery_state=asked.leader_recovery_state)
    )
    if record is not None and record.leader not in (NO_LEADER_CHANGE, leader_id):
        return ResponsePartitionData(partition_index=index, error_code=ErrorCode.NEW_LEADER_ELECTED)
    after = partitions.find(topic, index)
    assert after is not None
    return ResponsePartitionData(
        partition_index=index,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=list(after.isr),
        leader_recovery_state=after.leader_recovery_state,
        partition_epoch=after.partition_epoch,
    )


def check_epochs(
    partition: PartitionRegistration, leader_id: NodeId, asked: RequestPartitionData
) -> None:
    """Refuse a change by another broker than the leader, or with another epoch.

    Raises:
        KafkaError: NOT_CONTROLLER, an epoch is newer than this controller's metadata;
            FENCED_LEADER_EPOCH, INVALID_REQUEST or INVALID_UPDATE_VERSION.
    """
    if (
        asked.leader_epoch > partition.leader_epoch
        or asked.partition_epoch > partition.partition_epoch
    ):
        raise KafkaError(
            ErrorCode.NOT_CONTROLLER, "the leader has seen newer metadata than this controller"
        )
    if asked.leader_epoch < partition.leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"the leader epoch is {partition.leader_epoch}, not {asked.leader_epoch}",
        )
    if partition.leader != leader_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"broker {partition.leader} leads the partition, not broker {leader_id}",
        )
    if asked.partition_epoch < partition.partition_epoch:
        text = f"the partition epoch is {partition.partition_epoch}, not {asked.partition_epoch}"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _check_isr(
    partition: PartitionRegistration, isr: Sequence[NodeId], recovery_state: int
) -> None:
    """Refuse an in-sync set that the partition cannot have."""
    if len(set(isr)) != len(isr):
        fault = "names a broker twice"
    elif not set(isr) <= set(partition.replicas):
        fault = "names a broker that has no replica"
    elif partition.leader not in isr:
        fault = "leaves the leader out"
    elif recovery_state not in (RECOVERED, RECOVERING):
        fault = f"comes with recovery state {recovery_state}, which does not exist"
    elif recovery_state == RECOVERING and len(isr) > 1:
        fault = "has other brokers than the leader, which still recovers from an unclean election"
    elif recovery_state == RECOVERING and partition.leader_recovery_state == RECOVERED:
        fault = "comes with a recovery that is over"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"the in-sync set {list(isr)} {fault}")


def _check_observers(
    partitions: Partitions,
    topic: TopicImage,
    partition: PartitionRegistration,
    isr: Sequence[NodeId],
) -> None:
    """Refuse an observer that joins the in-sync set, unless the partition needs it."""
    observers = partitions.observers
    joining = [
        node_id for node_id in isr if node_id in observers.node_ids and node_id not in partition.isr
    ]
    if joining and not observers.are_needed(isr, partitions.policy_of(topic).min_isr):
        raise KafkaError(
            ErrorCode.INELIGIBLE_REPLICA,
            f"broker {joining[0]} is an observer, and enough others are in sync",
        )


def check_eligible(image: MetadataImage, isr: Sequence[BrokerState]) -> None:
    """Refuse replicas that may not be in sync.

    Raises:
        KafkaError: INELIGIBLE_REPLICA.
    """
    for each in isr:
        node_id = NodeId(each.broker_id)
        if not is_active(image, node_id):
            raise KafkaError(
                ErrorCode.INELIGIBLE_REPLICA,
                f"broker {node_id} is not registered, fenced or leaving",
            )
        epoch = image.cluster.brokers[node_id].epoch
        if each.broker_epoch not in (ANY_EPOCH, epoch):
            text = (
                f"broker {node_id} is registered with epoch {epoch}, the leader heard of epoch"
                f" {each.broker_epoch}"
            )
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, text)
