"""OffsetDelete (API key 47), version 0 (KIP-496).

Behaviour: partitions that do not exist are refused here with UNKNOWN_TOPIC_OR_PARTITION. The rest
goes to the group's coordinator. It deletes the offsets, or responds with GROUP_SUBSCRIBED_TO_TOPIC
if members read the topic. An unknown group is GROUP_ID_NOT_FOUND, one with members that are not
consumers NON_EMPTY_GROUP, both for the request as a whole.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle_offset_delete(node: Node, call: Call, request: OffsetDeleteRequest) -> Deferred:
    """Refuse unknown partitions, and have the coordinator respond for the rest."""
    deferred = call.defer()
    image = node.image()
    known: list[OffsetDeleteRequestTopic] = []
    missing: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in request.topics:
        there: list[OffsetDeleteRequestPartition] = []
        gone: list[int] = []
        for partition in topic.partitions:
            if _exists(image, topic.name, partition.partition_index):
                there.append(partition)
            else:
                gone.append(partition.partition_index)
        if there:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        if gone or topic.name not in image.topics.by_name:
            missing.setdefault(
                topic.name, OffsetDeleteResponseTopic(name=topic.name)
            ).partitions += [
                OffsetDeleteResponsePartition(
                    partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                for index in gone
            ]

    def with_missing(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if missing and not response.error_code:
            response.topics = _merged(missing, response.topics)
        return response

    node.groups.offset_delete(
        OffsetDeleteRequest(group_id=request.group_id, topics=known),
        call.client(),
        deferred.completing(with_missing),
    )
    return deferred


def _exists(image: MetadataImage, topic: str, partition: int) -> bool:
    return image.topics.partition(topic, partition) is not None


def _merged(
    missing: dict[str, OffsetDeleteResponseTopic], deleted: list[OffsetDeleteResponseTopic]
) -> list[OffsetDeleteResponseTopic]:
    """Merge the responses so that each topic appears once, with missing partitions first."""
    for topic in deleted:
        there = missing.setdefault(topic.name, topic)
        if there is not topic:
            there.partitions += topic.partitions
    return list(missing.values())
