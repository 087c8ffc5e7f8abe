"""DescribeTopicPartitions (API key 75), version 0.

Behaviour: describes topics in the order of their names, or all topics if none is named. Stops after
``response_partition_limit`` partitions (at most ``max.request.partition.size.limit``) with a cursor
to the next one, and the next request continues from there. A partition whose leader clients of the
listener cannot reach has leader -1, and no error. A named topic that does not exist gets
UNKNOWN_TOPIC_OR_PARTITION. A cursor at a topic that is not among the named ones gets
INVALID_REQUEST. No topic is ever created. Topics that the client may not describe are left out if
all are asked for. If named, they are TOPIC_AUTHORIZATION_FAILED, whether they exist or not.
KIP-966.
"""

from collections.abc import Iterator

import trio

from log_service.broker.cluster_view import (
    is_internal,
    offline_replicas,
    reached_leader,
    topic_operations,
)
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode
from log_service.common.topic_names import topic_name_fault
from log_service.metadata.image import MetadataImage, TopicImage
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)

TOPICS_AT_ONCE = 250
"""Topics to process in one turn of the event loop."""


def handle_describe_topic_partitions(
    node: Node, call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Deferred:
    """Describe as many partitions as fit."""
    response = DescribeTopicPartitionsResponse()
    if _is_cursor_astray(request):
        response.topics = [
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name
            )
            for topic in request.topics
        ]
        return response
    steps = _steps(node, call, request, response)
    if len(request.topics or node.image().topics.by_name) > TOPICS_AT_ONCE:
        return call.run(_take_turns(steps, response))
    for _ in steps:
        pass
    return response


async def _take_turns(
    steps: Iterator[None], response: DescribeTopicPartitionsResponse
) -> DescribeTopicPartitionsResponse:
    """Describe topics a few at a time, so that other requests run in between."""
    for _ in steps:
        await trio.lowlevel.checkpoint()
    return response


def _steps(
    node: Node,
    call: Call,
    request: DescribeTopicPartitionsRequest,
    response: DescribeTopicPartitionsResponse,
) -> Iterator[None]:
    """Fill a response. Yield after every ``TOPICS_AT_ONCE`` topics."""
    image = node.image()
    left_count = max(1, min(request.response_partition_limit, node.config.max_partitions_described))
    wanted = list(_wanted(image, request))
    hidden: set[str] = set()
    for start in range(0, len(wanted), TOPICS_AT_ONCE):
        names = [name for name, _ in wanted[start : start + TOPICS_AT_ONCE]]
        found = _hidden(call, names)
        hidden |= found
        if request.topics:
            response.topics += [_refused(name) for name in names if name in found]
        yield
    for place, (name, first_index) in enumerate(wanted):
        if place % TOPICS_AT_ONCE == TOPICS_AT_ONCE - 1:
            yield
        if name in hidden:
            continue
        topic = image.topics.by_name.get(name)
        if topic is None:
            response.topics.append(_unknown(name, call))
            continue
        indexes = [index for index in sorted(topic.partitions) if index >= first_index]
        if left_count == 0 and indexes:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=indexes[0])
            return
        response.topics.append(_describe(image, topic, indexes[:left_count], call))
        if len(indexes) > left_count:
            response.next_cursor = ResponseCursor(
                topic_name=name, partition_index=indexes[left_count]
            )
            return
        left_count -= len(indexes)


def _is_cursor_astray(request: DescribeTopicPartitionsRequest) -> bool:
    """Return whether the cursor names a topic that is not asked for, or a negative partition."""
    cursor = request.cursor
    if cursor is None:
        return False
    return cursor.partition_index < 0 or (
        bool(request.topics) and all(topic.name != cursor.topic_name for topic in request.topics)
    )


def _wanted(
    image: MetadataImage, request: DescribeTopicPartitionsRequest
) -> Iterator[tuple[str, int]]:
    """Yield the topics to describe from the cursor on, each with its first partition."""
    cursor = request.cursor
    names = {topic.name for topic in request.topics} or set(image.topics.by_name)
    for name in sorted(names):
        if cursor is None or name > cursor.topic_name:
            yield name, 0
        elif name == cursor.topic_name:
            yield name, max(cursor.partition_index, 0)


def _hidden(call: Call, names: list[str]) -> set[str]:
    """Return the names that the client may not describe, whether they exist or not."""
    access = call.access
    return (
        set()
        if access is None
        else set(names) - access.allowed(AclOperation.DESCRIBE, AclResource.TOPIC, names)
    )


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Return the response for a topic that the client may not describe, existing or not."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, is_internal=is_internal(name)
    )


def _unknown(name: str, call: Call) -> DescribeTopicPartitionsResponseTopic:
    code = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic_name_fault(name) is None
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=topic_operations(call.access, name),
    )


def _describe(
    image: MetadataImage, topic: TopicImage, indexes: list[int], call: Call
) -> DescribeTopicPartitionsResponseTopic:
    listener_name = call.connection.listener_name
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[
            _describe_partition(image, index, topic.partitions[index], listener_name)
            for index in indexes
        ],
        topic_authorized_operations=topic_operations(call.access, topic.name),
    )


def _describe_partition(
    image: MetadataImage, index: int, partition: PartitionRegistration, listener_name: str
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=reached_leader(image, partition, listener_name),
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(image, partition, listener_name),
    )
