"""The response to a fetch.

Decides which partitions a response names, which leaders it gives the endpoints of, and whether a
consumer over its quota gets a response without records.
"""

from collections.abc import Iterable
from uuid import UUID

from log_service.broker.cluster_view import hinted_brokers
from log_service.broker.fetch_session import FetchContext
from log_service.broker.handlers.fetch.reading import Reading, Result
from log_service.broker.node import Node
from log_service.broker.requests.call import Call
from log_service.common.types import NO_NODE
from log_service.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

FIRST_VERSION_WITH_LEADER = 16
HEAD_BYTES, TOPIC_BYTES, PARTITION_BYTES = 16, 18, 44
"""Bytes of a response, of each topic in it and of each partition, without the records."""


def build_response(
    node: Node, call: Call, context: FetchContext, reading: Reading
) -> FetchResponse:
    """Return all partitions, or those that changed since the session's last response.

    Consecutive partitions of one topic share one topic entry.
    """
    paused = paused_response(node, call, context, reading)
    if paused is not None:
        return paused
    response = FetchResponse(session_id=context.session_id)
    reading.count_sent()
    add_results(node, call, context, reading, response, results=reading.results)
    return response


def add_results(
    node: Node,
    call: Call,
    context: FetchContext,
    reading: Reading,
    response: FetchResponse,
    *,
    results: Iterable[Result],
) -> None:
    """Add results to a response, and remember them as sent in the session."""
    session, last = context.session, response.responses[-1] if response.responses else None
    key: str | UUID | None = (
        None if last is None else last.topic_id if context.is_by_id else last.topic
    )
    for target, found, size_bytes in results:
        if session is not None:
            is_sent = target.is_changed(
                found.error_code, size_bytes, found.high_watermark, found.log_start_offset
            )
            is_sent = (
                is_sent
                or found.diverging_epoch is not None
                or found.preferred_read_replica != NO_NODE
            )
            if context.is_incremental and not is_sent:
                continue
            if size_bytes and context.is_incremental:
                session.move_to_end(target)
        if found.current_leader is not None:
            _add_endpoint(node, call, response, found, is_client=reading.replica is None)
        last_key, key = key, target.topic_id if context.is_by_id else target.topic
        if key != last_key:
            response.responses.append(
                FetchableTopicResponse(topic=target.topic, topic_id=target.topic_id)
            )
        response.responses[-1].partitions.append(found)


def _add_endpoint(
    node: Node, call: Call, response: FetchResponse, found: PartitionData, *, is_client: bool
) -> None:
    """Add the endpoint of the leader that a partition names, for clients (KIP-951).

    Older versions have no field for the leader. Brokers know the endpoints of other brokers.
    """
    if call.version < FIRST_VERSION_WITH_LEADER or found.current_leader is None:
        found.current_leader = None
        return
    if is_client and all(
        known.node_id != found.current_leader.leader_id for known in response.node_endpoints
    ):
        response.node_endpoints += [
            NodeEndpoint(
                node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in hinted_brokers(
                node.image(), call.connection.listener_name, (found.current_leader.leader_id,)
            )
        ]


def paused_response(
    node: Node, call: Call, context: FetchContext, reading: Reading
) -> FetchResponse | None:
    """Return a response without records if the consumer has to pause, else None."""
    if call.account is None or not call.account.must_pause(_response_bytes(context, reading)):
        return None
    return _without_records(node, context, reading)


def _response_bytes(context: FetchContext, reading: Reading) -> int:
    """Estimate the size of a response, for the client's quota.

    The response does not exist yet, because building it advances the session.
    """
    sent = [
        target
        for target, found, size_bytes in reading.results
        if not context.is_incremental
        or target.differs(
            found.error_code, size_bytes, found.high_watermark, found.log_start_offset
        )
    ]
    topic_count = len({(target.topic, target.topic_id) for target in sent})
    return (
        HEAD_BYTES + TOPIC_BYTES * topic_count + PARTITION_BYTES * len(sent) + reading.record_bytes
    )


def _without_records(node: Node, context: FetchContext, reading: Reading) -> FetchResponse:
    """Return the response to a consumer that has to pause, without partitions.

    A session that the consumer does not know yet is withdrawn.
    """
    reading.release()
    if context.session is None or context.is_incremental:
        return FetchResponse(session_id=context.session_id)
    node.fetch_sessions.withdraw(context.session)
    return FetchResponse()
