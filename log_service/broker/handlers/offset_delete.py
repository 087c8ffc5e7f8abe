"""OffsetDelete (API key 47), version 0 (KIP-496).

Behaviour: partitions that do not exist are answered here with UNKNOWN_TOPIC_OR_PARTITION; the rest goes to the group's coordinator, which
takes the positions back, or says GROUP_SUBSCRIBED_TO_TOPIC where members read the topic. A group that is not there is GROUP_ID_NOT_FOUND,
one with members that are no consumers NON_EMPTY_GROUP, both for the request as a whole.
"""

from log_service.broker.node import Call, Later, Node
from log_service.common.errors import ErrorCode
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle_offset_delete(node: Node, call: Call, request: OffsetDeleteRequest) -> Later:
    """Answer what cannot be, and have the coordinator answer the rest."""
    later = call.later()
    image = node.image()
    known: list[OffsetDeleteRequestTopic] = []
    missing: dict[str, list[int]] = {}
    for topic in request.topics:
        there = [partition for partition in topic.partitions if _exists(image, topic.name, partition.partition_index)]
        gone = [partition.partition_index for partition in topic.partitions if partition not in there]
        if there:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        if gone:
            missing[topic.name] = gone

    def complete(response: OffsetDeleteResponse) -> None:
        if not response.error_code:
            _add_missing(response, missing)
        later.complete(response)

    node.groups.offset_delete(OffsetDeleteRequest(group_id=request.group_id, topics=known), call.client(), complete)
    return later


def _exists(image: MetadataImage, topic: str, partition: int) -> bool:
    return image.topics.partition(topic, partition) is not None


def _add_missing(response: OffsetDeleteResponse, missing: dict[str, list[int]]) -> None:
    """Answer partitions that do not exist, each topic once."""
    answered = {topic.name: topic for topic in response.topics}
    for name, indexes in missing.items():
        topic = answered.get(name)
        if topic is None:
            topic = OffsetDeleteResponseTopic(name=name)
            response.topics.append(topic)
        topic.partitions += [
            OffsetDeleteResponsePartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for index in indexes
        ]
