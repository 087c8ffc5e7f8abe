"""FindCoordinator (API key 10), versions 0-6.

Behaviour: responds with the leader of the key's partition. Groups are in ``__consumer_offsets``,
transactional ids in ``__transaction_state``, share partitions (``group:topic id:partition``) in
``__share_group_state``. Each topic is created when it is first needed. COORDINATOR_NOT_AVAILABLE
while the partition has no leader.

Versions: 1 key type (group 0, transaction 1) and an error text; 3 flexible; 4 many keys in one
request (KIP-699); 5 a retriable error for transactions (KIP-890); 6 share groups, key type 2
(KIP-932).

Other key types are INVALID_REQUEST, and share partitions before version 6.
"""

from functools import partial

from log_service.broker.cluster_view import NO_BROKER, BrokerAddress, leader_address
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Refusable
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    NodeId,
)
from log_service.coordinator.share_state_service import parse_coordinator_key
from log_service.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
SHARE_KEY_TYPE = 2
FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6
NO_ERROR_TEXT = "NONE"
"""The error text of versions 1 to 3 without an error."""


def handle_find_coordinator(
    node: Node, call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Deferred:
    """Respond at once, or after creating the coordinators' topic, or after an election.

    The election is of a new coordinator, if the process of the old one has just ended.
    """
    topic = _created_topic(request.key_type, call.version)
    if topic is None or topic in node.image().topics.by_name:
        find = partial(_find_all, node, call, request)
        waiting = node.lost_brokers.wait(
            call, lambda: _named(find()), lambda deferred: deferred.complete_with(find)
        )
        return find() if waiting is None else waiting
    return call.run(_create_and_find(node, call, request, topic))


def _named(response: FindCoordinatorResponse) -> list[NodeId]:
    """Return the brokers that a response names."""
    return [NodeId(each.node_id) for each in response.coordinators] or [NodeId(response.node_id)]


def _created_topic(key_type: int, version: int) -> str | None:
    """Return the topic that is created when a client first needs a coordinator of that type."""
    if key_type == SHARE_KEY_TYPE and version >= FIRST_VERSION_WITH_SHARE_GROUPS:
        return SHARE_GROUP_STATE_TOPIC
    return {
        GROUP_KEY_TYPE: GROUP_METADATA_TOPIC,
        TRANSACTION_KEY_TYPE: TRANSACTION_STATE_TOPIC,
    }.get(key_type)


def refuse_find_coordinator(call: Refusable, error: KafkaError) -> FindCoordinatorResponse:
    """Return an error for each key, or for the only one up to version 3."""
    text = str(error)
    if call.version < FIRST_VERSION_WITH_MANY_KEYS:
        return FindCoordinatorResponse(
            error_code=error.code, error_message=text, node_id=-1, port=-1
        )
    coordinators = [
        _response(key, NO_BROKER, error.code, text) for key in call.request.coordinator_keys
    ]
    return FindCoordinatorResponse(error_message=None, coordinators=coordinators)


async def _create_and_find(
    node: Node, call: Call, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    await node.topic_creation.create([topic])
    return _find_all(node, call, request)


def _find_all(node: Node, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if call.version >= FIRST_VERSION_WITH_MANY_KEYS:
        return FindCoordinatorResponse(
            error_message=None,
            coordinators=[
                _find(node, call, request.key_type, key) for key in request.coordinator_keys
            ],
        )
    found = _find(node, call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or NO_ERROR_TEXT,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(node: Node, call: Call, key_type: int, key: str) -> Coordinator:
    if key_type == GROUP_KEY_TYPE:
        topic, partition = GROUP_METADATA_TOPIC, node.groups.partition_for(key)
    elif key_type == TRANSACTION_KEY_TYPE:
        topic, partition = TRANSACTION_STATE_TOPIC, node.transactions.partition_for(key)
    elif key_type == SHARE_KEY_TYPE and call.version >= FIRST_VERSION_WITH_SHARE_GROUPS:
        try:
            topic, partition = (
                SHARE_GROUP_STATE_TOPIC,
                node.share_states.partition_for(parse_coordinator_key(key)),
            )
        except KafkaError as error:
            return _response(key, NO_BROKER, error.code, str(error))
    else:
        text = (
            f"coordinators of type {key_type} are not supported by this broker in version"
            f" {call.version}"
        )
        return _response(key, NO_BROKER, ErrorCode.INVALID_REQUEST, text)
    broker = leader_address(node.image(), topic, partition, call.connection.listener_name)
    if broker is NO_BROKER:
        return _response(
            key, broker, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic}-{partition} has no leader"
        )
    return _response(key, broker, ErrorCode.NONE, "")


def _response(key: str, broker: BrokerAddress, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=broker.node_id,
        host=broker.host,
        port=broker.port,
        error_code=code,
        error_message=text,
    )
