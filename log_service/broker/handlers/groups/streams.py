"""StreamsGroupHeartbeat (88, version 0) and StreamsGroupDescribe (89, 0) of KIP-1071.

Behaviour: the coordinator of the group of Kafka Streams instances decides. Before that the handler
checks the topic names of a topology. Afterwards it lets missing internal topics be created, if the
client may create them. A status in the response names the topics that the client may not create. A
request is UNSUPPORTED_VERSION if the cluster has not finalized ``streams.version`` at 1. It is also
refused if the broker's ``group.coordinator.rebalance.protocols`` leave the protocol out.
"""

from collections.abc import Iterable
from functools import partial

from log_service.broker.handlers.groups.described import describe_groups
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode
from log_service.common.topic_names import INTERNAL_TOPICS, topic_name_fault
from log_service.coordinator.group.streams.configuration import StreamsStatus
from log_service.coordinator.group.streams.heartbeats import StreamsHeartbeatReply
from log_service.metadata.features import has_streams_groups
from log_service.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from log_service.protocol.messages.streams_group_describe import Topology as DescribedTopology
from log_service.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

MAX_NAMED_REFUSALS = 3
"""A status gives the reasons for at most this many uncreated topics, and counts the others."""


def handle_streams_group_heartbeat(
    node: Node, call: Call, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Deferred:
    """Respond at once, or once the coordinator's records about the request are replicated."""
    if not _is_enabled(node):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    fault = (
        None
        if request.topology is None
        else fault_of_names(list(dict.fromkeys(named_topics(request.topology))))
    )
    if fault is not None:
        return StreamsGroupHeartbeatResponse(
            error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=fault
        )
    deferred = call.defer()

    def created(reply: StreamsHeartbeatReply) -> StreamsGroupHeartbeatResponse:
        if reply.missing_topics:
            _create(node, call, reply)
        return reply.response

    node.groups.streams_group_heartbeat(request, call.client(), deferred.completing(created))
    return deferred


def named_topics(topology: Topology | DescribedTopology) -> Iterable[str]:
    """Yield the topics that a topology or its description names."""
    for each in topology.subtopologies or ():
        yield from (*each.source_topics, *each.repartition_sink_topics)
        yield from (
            topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
        )


def fault_of_names(names: list[str]) -> str | None:
    """Return the reason why an application may not use these topic names, or None if it may."""
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        return (
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is"
            " prohibited."
        )
    wrong = [name for name in names if topic_name_fault(name) is not None]
    return f"Topic names {','.join(wrong)} are not valid topic names." if wrong else None


def _create(node: Node, call: Call, reply: StreamsHeartbeatReply) -> None:
    """Request missing topics for the client from the controller, or add a refusal to the status.

    Nothing is requested unless the client may create all of them.
    """
    names = [topic.name for topic in reply.missing_topics]
    denied = _not_to_be_created(call, names)
    if denied:
        _add_detail(reply.response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
        return
    node.streams_topics.create(reply.missing_topics, call.caller(), reply.retry_ms)
    refusals = node.streams_topics.refusals(names)
    if refusals:
        _add_detail(reply.response, _creation_failed(refusals))


def _not_to_be_created(call: Call, names: list[str]) -> list[str]:
    """Return the topics that the client may not create.

    The controller checks again, by its own ACLs.
    """
    access = call.access
    if access is None or access.could_cluster(AclOperation.CREATE):
        return []
    allowed = access.allowed(AclOperation.CREATE, AclResource.TOPIC, names)
    return [name for name in names if name not in allowed]


def _creation_failed(refusals: dict[str, str]) -> str:
    listed = ", ".join(
        f"{name} ({reason})" for name, reason in list(refusals.items())[:MAX_NAMED_REFUSALS]
    )
    rest = len(refusals) - MAX_NAMED_REFUSALS
    return f"Creation failed: {listed}{f' and {rest} more' if rest > 0 else ''}."


def _add_detail(response: StreamsGroupHeartbeatResponse, text: str) -> None:
    """Add a text to the status of missing topics."""
    for status in response.status or ():
        if status.status_code == StreamsStatus.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {text}"


def handle_streams_group_describe(
    node: Node, call: Call, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse | Deferred:
    """Respond with state, epochs, topology and members of each group, once per named group."""
    ask = partial(node.groups.describe_streams_groups, request, call.client())
    is_enabled = _is_enabled(node)
    return describe_groups(call, request, DescribedGroup, ask, is_enabled=is_enabled)


def _is_enabled(node: Node) -> bool:
    return node.config.groups.streams.is_enabled and has_streams_groups(node.image().features)
