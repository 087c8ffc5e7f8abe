"""OffsetFetch (API key 9), versions 1-10.

Behaviour: the coordinator responds with the committed offsets, -1 if there is none. Null topics ask
for all offsets of the group. Topics named by id are answered by id, UNKNOWN_TOPIC_ID if there is no
such topic. With ``require_stable`` an offset that an open transaction may still change is
UNSTABLE_OFFSET_COMMIT. A repeated request for all offsets of a group is answered once.

Versions: 2 null asks for all, an error at the top; 3 throttle time; 5 leader epoch; 6 flexible; 7
require stable (KIP-447); 8 many groups in one request (KIP-709); 9 member epochs (KIP-848); 10
topic ids (KIP-848). Up to version 7 there is one group. In version 1 each of its partitions has the
group's error.
"""

from collections.abc import Callable

import trio

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Refusable
from log_service.broker.requests.step_scheduler import ITEMS_PER_STEP
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import Steps, finish
from log_service.common.types import TopicId
from log_service.coordinator.group.offsets.fetching import AllOffsets
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
    """Ask the coordinators, and convert their responses to the version of the request.

    A request for all offsets of a group takes several turns of the event loop, because there may
    be very many.
    """
    is_one = call.version < FIRST_VERSION_WITH_GROUPS
    request.groups = [_only_group(request)] if is_one else _each_whole_once(request.groups)
    image = node.image()
    is_by_id = call.version >= FIRST_VERSION_BY_ID
    groups = [_named(image, group) for group in request.groups] if is_by_id else request.groups

    def respond(group_responses: list[OffsetFetchResponseGroup]) -> Steps[OffsetFetchResponse]:
        if is_one:
            return _one_group_response(call, request.groups[0], group_responses[0])
        return _many_groups_response(image if is_by_id else None, request.groups, group_responses)

    if any(group.topics is None for group in groups):
        return node.step_scheduler.run(call, _fetch_in_turns(node, call, request, groups, respond))
    deferred = call.defer()
    node.groups.offset_fetch(
        groups,
        call.client(),
        deferred.completing(lambda group_responses: finish(respond(group_responses))),
        is_stable_required=request.require_stable,
    )
    return deferred


async def _fetch_in_turns(
    node: Node,
    call: Call,
    request: OffsetFetchRequest,
    groups: list[OffsetFetchRequestGroup],
    respond: Callable[[list[OffsetFetchResponseGroup]], Steps[OffsetFetchResponse]],
) -> OffsetFetchResponse:
    """Ask for one group after the other."""
    group_responses = []
    for group in groups:
        answer = await _fetched_of(node, call, group, is_stable_required=request.require_stable)
        if isinstance(answer, AllOffsets):
            answer = await node.step_scheduler.take(answer.response())
        group_responses.append(answer)
    return await node.step_scheduler.take(respond(group_responses))


async def _fetched_of(
    node: Node, call: Call, group: OffsetFetchRequestGroup, *, is_stable_required: bool
) -> OffsetFetchResponseGroup | AllOffsets:
    """Return the coordinator's response for one group."""
    answers: list[OffsetFetchResponseGroup | AllOffsets] = []
    done = trio.Event()

    def on_reply(replies: list[OffsetFetchResponseGroup | AllOffsets]) -> None:
        answers.extend(replies)
        done.set()

    node.groups.offset_fetch(
        [group], call.client(), on_reply, is_stable_required=is_stable_required
    )
    await done.wait()
    return answers[0]


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
        group_responses = OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
        return finish(_one_group_response(call, group, group_responses))
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
) -> Steps[OffsetFetchResponse]:
    if response.error_code and call.version < FIRST_VERSION_WITH_ERROR:
        return OffsetFetchResponse(
            topics=[_failed_topic(topic, response.error_code) for topic in group.topics or ()]
        )
    topics = []
    left = ITEMS_PER_STEP
    for topic in response.topics:
        topics.append(OffsetFetchResponseTopic(name=topic.name))
        for partition in topic.partitions:
            if left <= 0:
                yield
                left = ITEMS_PER_STEP
            left -= 1
            topics[-1].partitions.append(_old_shape(partition))
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


def _many_groups_response(
    image: MetadataImage | None,
    groups: list[OffsetFetchRequestGroup],
    group_responses: list[OffsetFetchResponseGroup],
) -> Steps[OffsetFetchResponse]:
    """Return the response in the form of version 8 and later.

    With an image, topics get their ids, because the request named them by id.
    """
    if image is not None:
        for group, response in zip(groups, group_responses, strict=True):
            yield from _add_ids(image, group, response)
    return OffsetFetchResponse(groups=group_responses)


def _add_ids(
    image: MetadataImage, group: OffsetFetchRequestGroup, response: OffsetFetchResponseGroup
) -> Steps[None]:
    """Set the topic ids of a response, and add topics that do not exist."""
    known = []
    for number, topic in enumerate(response.topics, 1):
        found = image.topics.by_name.get(topic.name)
        if found is not None:
            topic.topic_id = found.topic_id
            known.append(topic)
        if number % ITEMS_PER_STEP == 0:
            yield
    response.topics = known
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
