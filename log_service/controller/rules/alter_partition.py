"""AlterPartition: the leader of a partition reports which replicas are in sync (KIP-497).

The controller decides on each partition of a request by itself, and ends a reassignment once every added replica is in sync. The leader
says that a replica is in sync; the registration of its broker says whether it may be (KIP-841, KIP-903).

Invariants: a change is made only against the present leader epoch and partition epoch, and only for the leader; a broker that is fenced,
leaving or of another start never enters the in-sync set.
"""

from collections.abc import Sequence

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId, TopicId
from log_service.controller.rules.brokers import registered_broker
from log_service.controller.rules.partitions import is_active
from log_service.controller.rules.reassignments import Placement, change_record, finished_if_done
from log_service.metadata.image import MetadataImage
from log_service.metadata.partition import PartitionRegistration, changed_partition
from log_service.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from log_service.protocol.stored.metadata_records import MetadataRecord, PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1
ANY_EPOCH = -1
"""What a leader says of a follower that it has not heard of since it leads, and of all in version 2."""


def alter_partition(image: MetadataImage, request: AlterPartitionRequest) -> tuple[list[MetadataRecord], AlterPartitionResponse]:
    """Decide on every partition of the request; errors are per partition.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    leader_id = registered_broker(image, request.broker_id, request.broker_epoch).node_id
    records: list[MetadataRecord] = []
    response = AlterPartitionResponse()
    for topic in request.topics:
        responded = ResponseTopicData(topic_id=topic.topic_id)
        for asked in topic.partitions:
            try:
                partition_response, changes = _alter(image, leader_id, TopicId(topic.topic_id), asked)
                records += changes
            except KafkaError as error:
                partition_response = ResponsePartitionData(partition_index=asked.partition_index, error_code=error.code)
            responded.partitions.append(partition_response)
        response.topics.append(responded)
    return records, response


def _alter(
    image: MetadataImage, leader_id: NodeId, topic_id: TopicId, asked: RequestPartitionData
) -> tuple[ResponsePartitionData, list[PartitionChangeRecord]]:
    partition = _existing(image, topic_id, asked.partition_index)
    isr = asked.new_isr_with_epochs or [BrokerState(broker_id=node_id) for node_id in asked.new_isr]
    _check_epochs(partition, leader_id, asked)
    _check_isr(partition, [NodeId(each.broker_id) for each in isr], asked.leader_recovery_state)
    _check_eligible(image, isr)
    record = _change(image, partition, tuple(NodeId(each.broker_id) for each in isr), asked.leader_recovery_state)
    if record is None:
        return _told(asked.partition_index, partition, ErrorCode.NONE), []
    record.topic_id, record.partition_id = topic_id, asked.partition_index
    after = changed_partition(partition, record)
    code = ErrorCode.NONE if after.leader == leader_id else ErrorCode.NEW_LEADER_ELECTED
    return _told(asked.partition_index, after, code), [record]


def _existing(image: MetadataImage, topic_id: TopicId, index: int) -> PartitionRegistration:
    topic = image.topics.by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {topic_id}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic.name}-{index}")
    return partition


def _check_epochs(partition: PartitionRegistration, leader_id: NodeId, asked: RequestPartitionData) -> None:
    """Refuse what is not said by the present leader about the partition as it is now."""
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the leader has seen newer metadata than this controller")
    if asked.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {partition.leader_epoch}, not {asked.leader_epoch}")
    if partition.leader != leader_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {partition.leader} leads the partition, not broker {leader_id}")
    if asked.partition_epoch < partition.partition_epoch:
        text = f"the partition epoch is {partition.partition_epoch}, not {asked.partition_epoch}"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _check_isr(partition: PartitionRegistration, isr: Sequence[NodeId], recovery_state: int) -> None:
    """Refuse a set that this partition cannot have."""
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


def _check_eligible(image: MetadataImage, isr: Sequence[BrokerState]) -> None:
    for each in isr:
        node_id = NodeId(each.broker_id)
        if not is_active(image, node_id):
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"broker {node_id} is not registered, fenced or leaving")
        epoch = image.cluster.brokers[node_id].epoch
        if each.broker_epoch not in (ANY_EPOCH, epoch):
            text = f"broker {node_id} is registered with epoch {epoch}, the leader heard of epoch {each.broker_epoch}"
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, text)


def _change(
    image: MetadataImage, partition: PartitionRegistration, isr: tuple[NodeId, ...], recovery_state: int
) -> PartitionChangeRecord | None:
    """Return the record from the partition as it is to the new in-sync set, None where nothing changes."""
    wanted = partition.isr if set(isr) == set(partition.isr) else isr
    placement = Placement(replicas=partition.replicas, isr=wanted, adding=partition.adding_replicas, removing=partition.removing_replicas)
    if partition.adding_replicas or partition.removing_replicas:
        placement = finished_if_done(placement)
    record = change_record(image, partition, placement)
    if recovery_state != partition.leader_recovery_state:
        record = record or PartitionChangeRecord()
        record.leader_recovery_state = recovery_state
    return record


def _told(index: int, partition: PartitionRegistration, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=index,
        error_code=code,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
