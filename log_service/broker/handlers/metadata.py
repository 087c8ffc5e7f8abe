"""Metadata (API key 3), versions 0-13.

Behaviour: responds with the brokers of the request's listener, the cluster's id, and the requested
topics. Null asks for all topics (version 0: an empty list), an empty list for none. A topic that
does not exist is created if both the request and ``auto.create.topics.enable`` allow it, and the
response waits for it. Every broker forwards requests for the controller, so the response names any
broker as the controller.

A response that would name a leader whose process has just ended waits for the election of another
(``lost_brokers``).

Fenced brokers are left out, unless all are fenced, or they were fenced a moment ago. librdkafka
2.10 to 2.16 drops every broker that a response leaves out, and a response with topics and without
brokers may cut it off for good (librdkafka#5301).

A topic that the client may not describe is left out if all are asked for. If named, it is
TOPIC_AUTHORIZATION_FAILED whether it exists or not. The response names it only as the request did,
by id or by name. A missing topic that the client may describe and not create is
TOPIC_AUTHORIZATION_FAILED, too. A client that asks for authorized operations gets its own, or all
without an authorizer.

A partition whose leader clients of the listener cannot reach has leader -1 and an error. It is
LEADER_NOT_AVAILABLE if no broker leads, and LISTENER_NOT_FOUND if the leader has no such listener.
Replicas whose broker is fenced, has no such listener or has lost the log directory are offline.

Versions: 0 empty means all, no controller, and REPLICA_NOT_AVAILABLE instead of replicas that
cannot be reached; 1 null means all, controller, rack, internal topics; 2 cluster id; 4
auto-creation may be refused; 5 offline replicas; 6 LISTENER_NOT_FOUND; 7 leader epochs; 8
authorized operations (KIP-430; of the cluster only in 8-10); 9 flexible; 10 topic ids (KIP-516); 12
asking by topic id; 13 an error at the top (KIP-1102). Version 0 must stay, because released clients
begin with it.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from log_service.broker.cluster_view import (
    OPERATIONS_NOT_ASKED_FOR,
    advertised_controller,
    alive_replicas,
    cluster_operations,
    is_internal,
    offline_replicas,
    partition_error,
    reachable_brokers,
    topic_operations,
)
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.broker.requests.step_scheduler import ITEMS_PER_STEP
from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode
from log_service.common.steps import Steps
from log_service.common.topic_names import topic_name_fault
from log_service.common.types import NO_NODE, NO_TOPIC_ID, NodeId, TopicId
from log_service.metadata.image import MetadataImage, TopicImage
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST_VERSION_WITH_NULL = 1
FIRST_VERSION_WITH_ALL_REPLICAS = 1
FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
FIRST_VERSION_BY_ID = 12
ANY_TOPIC: Final = MetadataRequestTopic()
"""A placeholder for the item of each topic if the request is for all topics."""
TOPIC_ITEMS: Final = 5
"""The work for a topic besides its partitions. Most of it is for the client's permissions."""


def handle_metadata(
    node: Node, call: Call, request: MetadataRequest
) -> MetadataResponse | Deferred:
    """Respond at once, or after creating missing topics, or after elections.

    The elections are of new leaders, if the processes of the old ones have just ended.
    """
    if call.version < FIRST_VERSION_BY_ID and any(
        _is_by_id(topic) for topic in request.topics or ()
    ):
        return _refuse_ids(request)
    hidden = _hidden(node.image(), call, request)
    missing = [name for name in _missing_topics(node, request) if name not in hidden]
    denied = _not_to_be_created(call, missing)
    missing = [name for name in missing if name not in denied]
    errors = dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if missing:
        creating = _create_and_describe(node, call, request, missing, errors, hidden)
        return node.step_scheduler.run(call, creating)
    describe = partial(_describe, node, call, request, errors, hidden)
    waiting = node.lost_brokers.wait(
        call,
        partial(_leaders, node, call, request),
        lambda deferred: node.step_scheduler.complete(
            call, deferred, node.step_scheduler.take(describe())
        ),
    )
    return node.step_scheduler.respond(call, describe()) if waiting is None else waiting


def _leaders(node: Node, call: Call, request: MetadataRequest) -> set[NodeId]:
    """Return the leaders of the partitions of the requested topics.

    If all topics are asked for, return all brokers, because any of them may lead a partition.
    """
    image = node.image()
    if _asks_for_all(call, request):
        return set(image.cluster.brokers)
    found = (_find(image, each) for each in request.topics or ())
    return {
        partition.leader
        for topic in found
        if topic is not None
        for partition in topic.partitions.values()
    }


def _is_by_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != NO_TOPIC_ID


def _refuse_ids(request: MetadataRequest) -> MetadataResponse:
    """Refuse topic ids in versions 10 and 11, which have the field but do not support it.

    The response has only INVALID_REQUEST for each topic.
    """
    topics = [
        MetadataResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
        )
        for topic in request.topics or ()
    ]
    return MetadataResponse(cluster_id=None, controller_id=NO_NODE, topics=topics)


async def _create_and_describe(  # noqa: PLR0917 - the parts of the response so far
    node: Node,
    call: Call,
    request: MetadataRequest,
    missing: list[str],
    errors: dict[str, ErrorCode],
    hidden: frozenset[str],
) -> MetadataResponse:
    errors = errors | await node.topic_creation.create(missing, call.caller())
    return await node.step_scheduler.take(_describe(node, call, request, errors, hidden))


def _hidden(image: MetadataImage, call: Call, request: MetadataRequest) -> frozenset[str]:
    """Return the named topics that the client may not describe, existing or not."""
    if call.access is None or _asks_for_all(call, request):
        return frozenset()
    found = (_find(image, wanted) or wanted for wanted in _asked_for(request.topics or []))
    names = {each.name for each in found if each.name is not None}
    return frozenset(names - call.access.allowed(AclOperation.DESCRIBE, AclResource.TOPIC, names))


def _asks_for_all(call: Call, request: MetadataRequest) -> bool:
    return request.topics is None or (not request.topics and call.version < FIRST_VERSION_WITH_NULL)


def _not_to_be_created(call: Call, missing: list[str]) -> set[str]:
    """Return the missing topics that the client may not create.

    The controller checks again, by its own ACLs.
    """
    access = call.access
    if access is None or not missing or access.could_cluster(AclOperation.CREATE):
        return set()
    return set(missing) - access.allowed(AclOperation.CREATE, AclResource.TOPIC, missing)


def _missing_topics(node: Node, request: MetadataRequest) -> list[str]:
    """Return the names of requested topics that do not exist, if they may be created."""
    if (
        not request.topics
        or not request.allow_auto_topic_creation
        or not node.config.topics.is_auto_created
    ):
        return []
    by_name = node.image().topics.by_name
    names = {topic.name for topic in _asked_for(request.topics) if topic.name}
    return sorted(name for name in names if name not in by_name and topic_name_fault(name) is None)


def _describe(
    node: Node,
    call: Call,
    request: MetadataRequest,
    errors: dict[str, ErrorCode],
    hidden: frozenset[str],
) -> Steps[MetadataResponse]:
    """Return the response. Each step describes ``ITEMS_PER_STEP`` partitions."""
    image = node.image()
    listener_name = call.connection.listener_name
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in reachable_brokers(image, listener_name, node.lost_brokers.just_fenced())
        ],
        cluster_id=node.cluster_id,
        controller_id=advertised_controller(image, node.rng),
        cluster_authorized_operations=(
            cluster_operations(call.access)
            if request.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED_FOR
        ),
    )
    refused, left = [], ITEMS_PER_STEP
    for wanted, topic in _asked_topics(image, call, request):
        if left <= 0:
            yield
            left = ITEMS_PER_STEP
        left -= TOPIC_ITEMS
        name = wanted.name if topic is None else topic.name
        if wanted is ANY_TOPIC:
            if not _is_visible(call, name):
                continue
        elif name in hidden:
            refused.append(_refused(wanted))
            continue
        operations = OPERATIONS_NOT_ASKED_FOR
        if name is not None and request.include_topic_authorized_operations:
            operations = topic_operations(call.access, name)
        if topic is None:
            response.topics.append(_unknown(wanted, errors, operations))
            continue
        described = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=is_internal(topic.name),
            topic_authorized_operations=operations,
        )
        response.topics.append(described)
        for index, partition in topic.partitions.items():
            if left <= 0:
                yield
                left = ITEMS_PER_STEP
            left -= 1
            described.partitions.append(_describe_partition(image, index, partition, call))
    response.topics += refused
    return response


def _asked_topics(
    image: MetadataImage, call: Call, request: MetadataRequest
) -> Iterable[tuple[MetadataRequestTopic, TopicImage | None]]:
    """Return each requested topic as its entry in the request and its image.

    The image is None if the topic does not exist. If all topics are asked for, the entry is
    ``ANY_TOPIC``.
    """
    if _asks_for_all(call, request):
        return ((ANY_TOPIC, topic) for topic in image.topics.by_name.values())
    return ((wanted, _find(image, wanted)) for wanted in _asked_for(request.topics or []))


def _is_visible(call: Call, name: str | None) -> bool:
    """Return whether a topic is shown to a client that asks for all of them."""
    access = call.access
    return (
        access is None
        or name is None
        or access.could(AclOperation.DESCRIBE, AclResource.TOPIC, name)
    )


def _refused(wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    """Return the response for a topic that the client may not describe, existing or not."""
    name = wanted.name
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_id=wanted.topic_id if name is None else NO_TOPIC_ID,
        is_internal=name is not None and is_internal(name),
    )


def _asked_for(topics: list[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    """Return each topic of the request once. If there are ids, topics without one are ignored."""
    ids = dict.fromkeys(topic.topic_id for topic in topics if topic.topic_id != NO_TOPIC_ID)
    if ids:
        return [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
    return {topic.name: topic for topic in topics}.values()


def _find(image: MetadataImage, wanted: MetadataRequestTopic) -> TopicImage | None:
    if wanted.name is None:
        return image.topics.by_id.get(TopicId(wanted.topic_id))
    return image.topics.by_name.get(wanted.name)


def _unknown(
    wanted: MetadataRequestTopic, errors: dict[str, ErrorCode], operations: int
) -> MetadataResponseTopic:
    if wanted.name is None:
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id
        )
    is_valid = topic_name_fault(wanted.name) is None
    return MetadataResponseTopic(
        error_code=(
            errors.get(wanted.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if is_valid
            else ErrorCode.INVALID_TOPIC_EXCEPTION
        ),
        name=wanted.name,
        is_internal=is_internal(wanted.name),
        topic_authorized_operations=operations,
    )


def _describe_partition(
    image: MetadataImage, index: int, partition: PartitionRegistration, call: Call
) -> MetadataResponsePartition:
    listener_name, version = call.connection.listener_name, call.version
    code = partition_error(image, partition, listener_name)
    leader_id = NO_NODE if code else partition.leader
    if code is ErrorCode.LISTENER_NOT_FOUND and version < FIRST_VERSION_WITH_LISTENER_NOT_FOUND:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    replicas: list[int] = [*partition.replicas]
    isr: list[int] = [*partition.isr]
    if version < FIRST_VERSION_WITH_ALL_REPLICAS:
        replicas, isr = (
            alive_replicas(image, replicas, listener_name),
            alive_replicas(image, isr, listener_name),
        )
        is_short = len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr)
        code = ErrorCode.REPLICA_NOT_AVAILABLE if is_short and code is ErrorCode.NONE else code
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition, listener_name),
    )
