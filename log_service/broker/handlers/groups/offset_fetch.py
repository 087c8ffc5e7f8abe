"""OffsetFetch (API key 9), versions 1-10.

Behaviour: the coordinator responds with the committed offsets, -1 if there is none. Null topics ask
for all of the group. Topics named by id are answered by id, UNKNOWN_TOPIC_ID if there is no such
topic. With ``require_stable`` an offset that an open transaction may still change is
UNSTABLE_OFFSET_COMMIT. A repeated request for all of a group is answered once.

Versions: 2 null asks for all, an error at the top; 3 throttle time; 5 leader epoch; 6 flexible; 7
require stable (KIP-447); 8 many groups in one request (KIP-709); 9 member epochs (KIP-848); 10
topic ids (KIP-848). Up to version 7 there is one group. In version 1 each of its partitions has the
group's error.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Refusable
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_VERSION_WITH_ERROR = 2
FIRST_VERSION_WITH_GROUPS = 8
FIRST_VERSION_BY_ID = 10
NO_OFFSET = -1


def handle_offset_fetch(node: Node, call: Call, request: OffsetFetchRequest) -> Deferred:
    """Ask the coordinators, and convert their responses to the version of the request."""
    deferred = call.defer()
    if call.version < FIRST_VERSION_WITH_GROUPS:
        group = _only_group(request)

        def of_one(responses: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
            return _one_group_response(call, group, responses[0])

        node.groups.offset_fetch(
            [group],
            call.client(),
            deferred.completing(of_one),
            is_stable_required=request.require_stable,
        )
        return deferred
    request.groups = _each_whole_once(request.groups)
    image = node.image()
    is_by_id = call.version >= FIRST_VERSION_BY_ID
    groups = [_named(image, group) for group in request.groups] if is_by_id else request.groups

    def of_all(responses: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
        if is_by_id:
            for group, response in zip(request.groups, responses, strict=True):
                _add_ids(image, group, response)
        return OffsetFetchResponse(groups=responses)

    node.groups.offset_fetch(
        groups,
        call.client(),
        deferred.completing(of_all),
        is_stable_required=request.require_stable,
    )
    return deferred


def _each_whole_once(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Return the groups without repeated requests for all of a group's offsets.

    Otherwise a small request could have a response of any size.
    """
    whole = {group.group_id: group for group in groups if group.topics is None}
    return [group for group in groups if group.topics is not None or whole[group.group_id] is group]


def refuse_offset_fetch(call: Refusable, error: KafkaError) -> OffsetFetchResponse:
    """Return the error for each group. Up to version 7 a request has one group."""
    request: OffsetFetchRequest = call.request
    if call.version < FIRST_VERSION_WITH_GROUPS:
        group = _only_group(request)
        return _one_group_response(
            call, group, OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
        )
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
            for group in request.groups
        ]
    )


# One group, up to version 7


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _one_group_response(
    call: Refusable, group: OffsetFetchRequestGroup, response: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    if response.error_code and call.version < FIRST_VERSION_WITH_ERROR:
        return OffsetFetchResponse(
            topics=[_failed_topic(topic, response.error_code) for topic in group.topics or ()]
        )
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name, partitions=[_old_shape(partition) for partition in topic.partitions]
        )
        for topic in response.topics
    ]
    return OffsetFetchResponse(error_code=response.error_code, topics=topics)


def _failed_topic(topic: OffsetFetchRequestTopics, error_code: int) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=NO_OFFSET, error_code=error_code
            )
            for index in topic.partition_indexes
        ],
    )


def _old_shape(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


# Topics by id, from version 10


def _named(image: MetadataImage, group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
    """Return the group of the request with topic names, without topics that do not exist."""
    topics = None
    if group.topics is not None:
        topics = [
            OffsetFetchRequestTopics(
                name=found.name, topic_id=found.topic_id, partition_indexes=topic.partition_indexes
            )
            for topic in group.topics
            if (found := image.topics.by_id.get(TopicId(topic.topic_id))) is not None
        ]
    return OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=topics,
    )


def _add_ids(
    image: MetadataImage, group: OffsetFetchRequestGroup, response: OffsetFetchResponseGroup
) -> None:
    """Set the topic ids of a response, and add topics that do not exist."""
    by_name = image.topics.by_name
    response.topics = [topic for topic in response.topics if topic.name in by_name]
    for topic in response.topics:
        topic.topic_id = by_name[topic.name].topic_id
    if response.error_code:
        return
    for wanted in group.topics or ():
        if TopicId(wanted.topic_id) not in image.topics.by_id:
            response.topics.append(_unknown_topic(wanted))


def _unknown_topic(wanted: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=ErrorCode.UNKNOWN_TOPIC_ID
        )
        for index in wanted.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=wanted.topic_id, partitions=partitions)
