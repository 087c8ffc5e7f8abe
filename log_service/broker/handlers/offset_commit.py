"""OffsetCommit (API key 8), versions 2-10.

Behaviour: partitions that do not exist are answered here with UNKNOWN_TOPIC_OR_PARTITION (UNKNOWN_TOPIC_ID where topics are named by id);
the rest goes to the group's coordinator, which answers when the positions are safe in ``__consumer_offsets``. Positions of a request
without a group membership (generation -1, no member) are accepted while the group has no members.

Versions: 2-4 retention time of the client; 6 leader epoch; 7 static members (KIP-345); 8 flexible; 9 member epochs (KIP-848); 10 topic
ids (KIP-848).
"""

from dataclasses import replace
from functools import partial

from log_service.broker.node import Call, Later, Node
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicId
from log_service.metadata.image import MetadataImage, TopicImage
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_VERSION_BY_ID = 10


def handle_offset_commit(node: Node, call: Call, request: OffsetCommitRequest) -> Later:
    """Answer what cannot be, and have the coordinator answer the rest."""
    later = call.later()
    image = node.image()
    is_by_id = call.version >= FIRST_VERSION_BY_ID
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for wanted in request.topics:
        _sort_out(image, wanted, known, refused, is_by_id=is_by_id)

    if known or not refused:
        request.topics = known
        node.groups.offset_commit(request, call.client(), partial(_complete, later, refused) if refused else later.complete)
    else:
        later.complete(OffsetCommitResponse(topics=refused))
    return later


def _complete(later: Later, refused: list[OffsetCommitResponseTopic], response: OffsetCommitResponse) -> None:
    later.complete(replace(response, topics=merge(response.topics, refused)))


def _sort_out(
    image: MetadataImage,
    wanted: OffsetCommitRequestTopic,
    known: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
    *,
    is_by_id: bool,
) -> None:
    topic = _find(image, wanted, is_by_id=is_by_id)
    name, topic_id = (wanted.name, wanted.topic_id) if topic is None else (topic.name, topic.topic_id)
    code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None and is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    indexes = {} if topic is None else topic.partitions
    there = [partition for partition in wanted.partitions if partition.partition_index in indexes]
    missing = [partition.partition_index for partition in wanted.partitions if partition.partition_index not in indexes]
    if there:
        known.append(OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=there))
    if missing:
        answers = [OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in missing]
        refused.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=answers))


def _find(image: MetadataImage, wanted: OffsetCommitRequestTopic, *, is_by_id: bool) -> TopicImage | None:
    return image.topics.by_id.get(TopicId(wanted.topic_id)) if is_by_id else image.topics.by_name.get(wanted.name)


def merge(answered: list[OffsetCommitResponseTopic], refused: list[OffsetCommitResponseTopic]) -> list[OffsetCommitResponseTopic]:
    """Join both answers so that each topic is named once."""
    topics = {(topic.name, topic.topic_id): topic for topic in answered}
    merged = list(answered)
    for topic in refused:
        there = topics.get((topic.name, topic.topic_id))
        if there is None:
            merged.append(topic)
        else:
            there.partitions.extend(topic.partitions)
    return merged
