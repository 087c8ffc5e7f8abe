"""FindCoordinator (API key 10), versions 0-6.

Behaviour: for each group the broker that leads its partition of ``__consumer_offsets``, for each transactional id that of its partition of
``__transaction_state``; both topics are created when a client first asks. COORDINATOR_NOT_AVAILABLE while that has no leader.

Versions: 1 key type (group 0, transaction 1) and an error text; 3 flexible; 4 many keys in one request (KIP-699); 5 a retriable error for
transactions (KIP-890); 6 share groups, key type 2 (KIP-932).

A broker that does not have transactions is no coordinator of a transactional id. Where this one has none and no other has them, the request
is refused with a text, never with a code that a client would retry for ever: librdkafka retries all but the codes of a missing permission,
which is why it gets CLUSTER_AUTHORIZATION_FAILED.

Not here yet: share groups are refused with a text. Other key types are INVALID_REQUEST.
"""

from types import MappingProxyType

from log_service.broker.call import Call, Deferred
from log_service.broker.cluster_view import NO_BROKER, BrokerAddress, leader_address
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, NodeId
from log_service.coordinator.java_hashing import java_abs, java_hash
from log_service.metadata.features import has_transactions, serves_transactions
from log_service.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
FIRST_VERSION_WITH_MANY_KEYS = 4
NO_ERROR_TEXT = "NONE"
"""What versions 1 to 3 say where nothing is wrong."""

_REFUSALS = MappingProxyType(
    {
        1: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "transactions are"),
        2: (ErrorCode.INVALID_REQUEST, "share groups are"),
    }
)


def handle_find_coordinator(node: Node, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse | Deferred:
    """Respond at once, or after the coordinators' topic was created."""
    topic = _created_topic(request.key_type)
    if topic is None or topic in node.image().topics.by_name:
        return _find_all(node, call, request)
    return call.run(_create_and_find(node, call, request, topic))


def _created_topic(key_type: int) -> str | None:
    """Return the topic that is created when a client first asks for a coordinator of that type."""
    if key_type == GROUP_KEY_TYPE:
        return GROUP_METADATA_TOPIC
    return TRANSACTION_STATE_TOPIC if key_type == TRANSACTION_KEY_TYPE and serves_transactions() else None


def refuse_find_coordinator(call: Call, error: KafkaError) -> FindCoordinatorResponse:
    """Tell an error for each key, or, up to version 3, for the only one."""
    text = str(error)
    if call.version < FIRST_VERSION_WITH_MANY_KEYS:
        return FindCoordinatorResponse(error_code=error.code, error_message=text, node_id=-1, port=-1)
    coordinators = [_response(key, NO_BROKER, error.code, text) for key in call.request.coordinator_keys]
    return FindCoordinatorResponse(error_message=None, coordinators=coordinators)


async def _create_and_find(node: Node, call: Call, request: FindCoordinatorRequest, topic: str) -> FindCoordinatorResponse:
    await node.topic_creation.create([topic])
    return _find_all(node, call, request)


def _find_all(node: Node, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if call.version >= FIRST_VERSION_WITH_MANY_KEYS:
        return FindCoordinatorResponse(
            error_message=None, coordinators=[_find(node, call, request.key_type, key) for key in request.coordinator_keys]
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
    if key_type == TRANSACTION_KEY_TYPE and (found := _transaction_coordinator(node, call, key)) is not None:
        return _response(key, found, ErrorCode.NONE, "")
    if key_type == TRANSACTION_KEY_TYPE and serves_transactions():
        partition = node.transactions.partition_for(key)
        return _response(key, NO_BROKER, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{TRANSACTION_STATE_TOPIC}-{partition} has no leader")
    if key_type != GROUP_KEY_TYPE:
        code, what = _REFUSALS.get(key_type, (ErrorCode.INVALID_REQUEST, f"coordinators of type {key_type} are"))
        return _response(key, NO_BROKER, code, f"{what} not supported by this broker")
    partition = node.groups.partition_for(key)
    broker = leader_address(node.image(), GROUP_METADATA_TOPIC, partition, call.connection.listener_name)
    if broker is NO_BROKER:
        return _response(key, broker, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_METADATA_TOPIC}-{partition} has no leader")
    return _response(key, broker, ErrorCode.NONE, "")


def _transaction_coordinator(node: Node, call: Call, transactional_id: str) -> BrokerAddress | None:
    """Return the broker that coordinates a transactional id, None where none with transactions does."""
    image = node.image()
    state = image.topics.by_name.get(TRANSACTION_STATE_TOPIC)
    if state is None:
        return None
    partition = java_abs(java_hash(transactional_id)) % len(state.partitions)
    broker = leader_address(image, TRANSACTION_STATE_TOPIC, partition, call.connection.listener_name)
    known = image.cluster.brokers.get(NodeId(broker.node_id))
    return broker if known is not None and has_transactions(known.features) else None


def _response(key: str, broker: BrokerAddress, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=code, error_message=text)
