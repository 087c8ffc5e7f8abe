"""The changes of a metadata image that concern the partitions of one node.

This file decides in which order a node visits changed partitions, and which replicas are new.
"""

from log_service.common.types import NodeId
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from log_service.metadata.partition import PartitionRegistration


def leaders_first(
    delta: MetadataDelta, node_id: NodeId
) -> list[tuple[TopicImage, int, PartitionRegistration]]:
    """Return the changed partitions. Those that the node follows come last."""
    changed = [
        (topic.topic, index, registration)
        for topic in delta.changed_topics.values()
        for index, registration in sorted(topic.changed_partitions.items())
    ]
    changed.sort(key=lambda one: one[2].leader != node_id and node_id in one[2].replicas)
    return changed


def is_new_replica(before: MetadataImage, topic: TopicImage, index: int, node_id: NodeId) -> bool:
    """Return whether a partition, or the node's replica of it, is new since the last image.

    Nothing is new in the first image, because there is no earlier image to compare it with.
    """
    if before is EMPTY_IMAGE:
        return False
    known = before.topics.by_id.get(topic.topic_id)
    replica = None if known is None else known.partitions.get(index)
    return replica is None or node_id not in replica.replicas
