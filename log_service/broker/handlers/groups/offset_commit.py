"""OffsetCommit (API key 8), versions 2-10.

Behaviour: partitions that do not exist are refused here with UNKNOWN_TOPIC_OR_PARTITION
(UNKNOWN_TOPIC_ID if topics are named by id). The rest goes to the group's coordinator, which
responds when the offsets are replicated in ``__consumer_offsets``. Offsets of a request without a
group membership (generation -1, no member) are accepted while the group has no members.

Versions: 2-4 retention time of the client; 6 leader epoch; 7 static members (KIP-345); 8 flexible;
9 member epochs (KIP-848); 10 topic ids (KIP-848).
"""

from dataclasses import replace
from functools import partial
from uuid import UUID

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
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

Refused = dict[tuple[str, UUID], OffsetCommitResponseTopic]


def handle_offset_commit(node: Node, call: Call, request: OffsetCommitRequest) -> Deferred:
    """Refuse unknown partitions, and have the coordinator respond for the rest."""
    deferred = call.defer()
    image = node.image()
    is_by_id = call.version >= FIRST_VERSION_BY_ID
    known: list[OffsetCommitRequestTopic] = []
    refused: Refused = {}
    for wanted in request.topics:
        _sort_out(image, wanted, known, refused, is_by_id=is_by_id)

    if known:
        request.topics = known
        on_reply = (
            deferred.completing(partial(_with_refused, refused)) if refused else deferred.complete
        )
        node.groups.offset_commit(request, call.client(), on_reply)
    else:
        deferred.complete(OffsetCommitResponse(topics=list(refused.values())))
    return deferred


def _with_refused(refused: Refused, response: OffsetCommitResponse) -> OffsetCommitResponse:
    """Merge the responses so that each topic appears once, with refused partitions first."""
    for topic in response.topics:
        there = refused.setdefault((topic.name, topic.topic_id), topic)
        if there is not topic:
            there.partitions.extend(topic.partitions)
    return replace(response, topics=list(refused.values()))


def _sort_out(
    image: MetadataImage,
    wanted: OffsetCommitRequestTopic,
    known: list[OffsetCommitRequestTopic],
    refused: Refused,
    *,
    is_by_id: bool,
) -> None:
    topic = _find(image, wanted, is_by_id=is_by_id)
    name, topic_id = (
        (wanted.name, wanted.topic_id) if topic is None else (topic.name, topic.topic_id)
    )
    code = (
        ErrorCode.UNKNOWN_TOPIC_ID
        if topic is None and is_by_id
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    indexes = {} if topic is None else topic.partitions
    there = [partition for partition in wanted.partitions if partition.partition_index in indexes]
    missing = [
        partition.partition_index
        for partition in wanted.partitions
        if partition.partition_index not in indexes
    ]
    if there:
        known.append(OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=there))
    if missing or topic is None:
        responses = refused.setdefault(
            (name, topic_id), OffsetCommitResponseTopic(name=name, topic_id=topic_id)
        ).partitions
        responses += [
            OffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index in missing
        ]


def _find(
    image: MetadataImage, wanted: OffsetCommitRequestTopic, *, is_by_id: bool
) -> TopicImage | None:
    return (
        image.topics.by_id.get(TopicId(wanted.topic_id))
        if is_by_id
        else image.topics.by_name.get(wanted.name)
    )
