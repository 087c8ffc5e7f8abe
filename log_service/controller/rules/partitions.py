"""Partitions from the controller's side: making them, and giving them leaders as brokers come and go.

Decides leaders and in-sync replicas; knows no request. A fenced broker leads nothing and is in no in-sync set, but for the last replica
that is in sync: it stays, without a leader, because only it has all acknowledged records.

Invariants: a change names a leader only when the leader changes or must begin a new epoch; unclean election does not exist.
"""

from collections.abc import Iterator, Sequence
from uuid import UUID

from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch, TopicId
from log_service.config.definition import split_list
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.metadata.partition import NO_LEADER, NO_LEADER_CHANGE, PartitionRegistration
from log_service.protocol.stored.metadata_records import PartitionChangeRecord

UNASSIGNED_DIRECTORY = UUID(int=0)


def placeable_brokers(image: MetadataImage) -> tuple[list[NodeId], list[NodeId]]:
    """Return the brokers that new replicas may be placed on, active and fenced ones, each by node id."""
    node_ids = sorted(image.cluster.brokers)
    open_ids = [node_id for node_id in node_ids if not is_cordoned(image, node_id)]
    return [node_id for node_id in open_ids if is_active(image, node_id)], [
        node_id for node_id in open_ids if image.cluster.brokers[node_id].is_fenced
    ]


def is_cordoned(image: MetadataImage, node_id: NodeId) -> bool:
    """Whether ``cordoned.log.dirs`` of a broker, set dynamically, names all of its log directories (KIP-1066)."""
    directories = split_list(image.configs.of(ResourceType.BROKER, str(node_id)).get("cordoned.log.dirs", ""))
    log_dir_count = len(image.cluster.brokers[node_id].log_dirs)
    return "*" in directories or (bool(directories) and len(set(directories)) >= log_dir_count > 0)


def is_active(image: MetadataImage, node_id: NodeId) -> bool:
    """Whether a broker may lead and be in sync."""
    broker = image.cluster.brokers.get(node_id)
    return broker is not None and not broker.is_fenced and not broker.is_in_controlled_shutdown


def new_partition(image: MetadataImage, replicas: Sequence[NodeId]) -> PartitionRegistration | None:
    """Return a partition on those brokers, led by the first active one; None where none is active."""
    isr = tuple(node_id for node_id in replicas if is_active(image, node_id))
    if not isr:
        return None
    return PartitionRegistration(
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        directories=tuple(default_directory(image, node_id) for node_id in replicas),
    )


def default_directory(image: MetadataImage, node_id: NodeId) -> UUID:
    """Return the log directory that a new replica goes to: the broker's only one, else unassigned, for the broker to choose."""
    broker = image.cluster.brokers.get(node_id)
    if broker is None or len(broker.log_dirs) != 1:
        return UNASSIGNED_DIRECTORY
    return broker.log_dirs[0]


def changes_when_fenced(image: MetadataImage, fenced: NodeId) -> Iterator[PartitionChangeRecord]:
    """Yield what becomes of every partition that a broker leads or is in sync with, once it is gone."""
    for topic_id, index, partition in _partitions(image):
        if fenced not in partition.isr and partition.leader != fenced:
            continue
        isr = tuple(node_id for node_id in partition.isr if node_id != fenced)
        leader = NO_LEADER_CHANGE
        if partition.leader == fenced:
            leader = next((node_id for node_id in partition.replicas if node_id in isr and is_active(image, node_id)), NO_LEADER)
        if not isr and leader == NO_LEADER_CHANGE:
            continue
        yield PartitionChangeRecord(
            topic_id=topic_id,
            partition_id=index,
            leader=leader,
            isr=list(isr) if isr else None,
        )


def changes_when_unfenced(image: MetadataImage, unfenced: NodeId) -> Iterator[PartitionChangeRecord]:
    """Yield a new epoch for every partition that waits for that broker to lead it again."""
    for topic_id, index, partition in _partitions(image):
        if partition.leader == NO_LEADER and unfenced in partition.isr:
            yield PartitionChangeRecord(topic_id=topic_id, partition_id=index, leader=unfenced)


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicId, int, PartitionRegistration]]:
    for topic in image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            yield topic.topic_id, index, partition
