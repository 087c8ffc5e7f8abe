"""THE registry: one row for each API that this node answers.

A row has the listeners of the API, the permissions that its requests may need, the gates that check
them, its quota, its error response and its handler. Its versions are in ``protocol.api_versions``,
the lower table, which clients read, too. ApiVersions, the pipeline, the authorizer, the warm-up,
the documentation and the tests read this table. An API that is not here is not answered.

Handlers that every client needs first are imported with the node. The others are imported, with
their messages, on their first request or by ``warm_up``. Importing them all would take as long as
the rest of a start. Gates are imported on their first request too, because many nodes have none.

Permissions are Apache Kafka's (KIP-11 and the KIPs that added APIs). ``Maintenance`` is ours. It
asks for CLUSTER_ACTION or ALTER, because a broker does the same work by itself, too.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from log_service.broker.handlers.fetch.fetch import handle_fetch, is_of_follower
from log_service.broker.handlers.metadata import handle_metadata
from log_service.broker.handlers.produce.plain import handle_produce
from log_service.broker.handlers.produce.produce import refuse_produce
from log_service.broker.handlers.produce.repeated import RepeatedProduces
from log_service.broker.quotas import MAX_MEMBER_PUT_OFF_MS, MAX_PUT_OFF_MS
from log_service.broker.requests.call import Api, Echo, Gate, Handler, QuotaKind, Recognizer, Side
from log_service.broker.requests.echo import AT_TOP, ItemEcho, echoing
from log_service.broker.requests.pieces import Items, Levels
from log_service.common.access import AclOperation, AclResource, Permission
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import MAX_REQUEST_ELEMENTS


class OnDemand:
    """A function that is imported on its first call.

    It is function ``name`` of a module of a room of the broker.
    """

    __slots__ = ("function", "module", "name", "room")

    def __init__(self, module: str, name: str, room: str = "handlers") -> None:
        self.room = room
        self.module = module
        self.name = name
        self.function: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<OnDemand {self.module}.{self.name}{'' if self.function is None else ' loaded'}>"

    def load(self) -> Callable[..., Any]:
        """Return the function. Import it the first time."""
        if self.function is None:
            self.function = getattr(
                import_module(f"log_service.broker.{self.room}.{self.module}"), self.name
            )
        return self.function

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return (self.function or self.load())(*arguments)


def _gate(module: str, name: str) -> OnDemand:
    """Return the gate that is a function of a module of ``broker.authorization``."""
    return OnDemand(module, name, "authorization")


PERMISSIONS = _gate("gate_shapes", "by_permissions")
"""The gate that asks for the row's permissions as they stand.

One of those on the cluster is needed, or else the one on the request's group.
"""


(
    READ,
    WRITE,
    CREATE,
    DELETE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
    *_,
) = AclOperation

NO_PERMISSION: tuple[Permission, ...] = ()


def _topic(*operations: AclOperation) -> tuple[Permission, ...]:
    return tuple(Permission(operation, AclResource.TOPIC) for operation in operations)


def _group(*operations: AclOperation) -> tuple[Permission, ...]:
    return tuple(Permission(operation, AclResource.GROUP) for operation in operations)


def _cluster(*operations: AclOperation) -> tuple[Permission, ...]:
    return tuple(Permission(operation, AclResource.CLUSTER) for operation in operations)


def _transaction(*operations: AclOperation) -> tuple[Permission, ...]:
    return tuple(Permission(operation, AclResource.TRANSACTIONAL_ID) for operation in operations)


def _user(*operations: AclOperation) -> tuple[Permission, ...]:
    return tuple(Permission(operation, AclResource.USER) for operation in operations)


BROKER = frozenset({Side.BROKER})
CONTROLLER = frozenset({Side.CONTROLLER})
"""Requests of nodes to the controller.

No client sends them, and a broker's listener does not take them.
"""
BOTH = frozenset(Side)
"""Requests that both sides take.

Admin clients may send them directly to a controller (``bootstrap.controllers``, KIP-919).
"""


MAX_ELEMENTS_IN_PIECES = 50_000
"""For a request that is handled in pieces.

Tools that name all partitions of a large cluster send some ten thousand.
"""
MAX_ELEMENTS = 5_000
"""For a request, or an item, that is handled in one turn of the loop."""
MAX_PLAIN_ELEMENTS = 20_000
"""The same for elements that are numbers and only looked up.

An example are the partitions that a group member owns.
"""

NEVER_PUT_OFF = 0
"""For requests that are never delayed.

Fetches get no records instead, and may be followers'. The others come before authentication.
"""


def _api(
    key: ApiKey,
    handler: Handler | str,
    permissions: tuple[Permission, ...],
    *,
    gate: Gate | str | None = PERMISSIONS,
    controller_gate: Gate | str | None = None,
    echo: Echo = AT_TOP,
    has_own_echo: bool = False,
    sides: frozenset[Side] = BROKER,
    quota: QuotaKind = QuotaKind.REQUEST,
    controller_handler: Handler | None = None,
    pieces: tuple[Levels, ...] | None = None,
    max_elements: int | None = None,
    is_each_named_once: bool = False,
    item_weight: int = 0,
    is_forwardable: bool = False,
    max_put_off_ms: int = MAX_PUT_OFF_MS,
    recognizer: Callable[[], Recognizer] | None = None,
    is_of_follower: Callable[[Any], bool] | None = None,
) -> Api:
    """Return a row.

    ``handler`` and the gates are functions, or names of modules to import on demand. A function of
    such a module is named after the API. The echo of an API that ``has_own_echo`` is named after it
    too, and stands beside the handler. Without a ``gate`` the handler authorizes the request, or
    every client may send it. ``controller_gate`` is used on the controller's side, if it differs.

    If the echo of an API has an error for each item, large requests are handled in pieces. They are
    cut between these items, unless the row of the API says otherwise.
    """
    name = key.name.lower().removeprefix("tidelog_")
    if has_own_echo:
        assert isinstance(handler, str), "an echo stands beside its handler"
        echo = OnDemand(handler, f"refuse_{name}")
    if isinstance(handler, str):
        handler = OnDemand(handler, f"handle_{name}")
    gates = {Side.BROKER: gate, Side.CONTROLLER: controller_gate or gate} if permissions else {}
    if pieces is None:
        pieces = (echo.levels,) if isinstance(echo, ItemEcho) and echo.levels else ()
    if max_elements is None:
        max_elements = (
            MAX_REQUEST_ELEMENTS
            if sides == CONTROLLER
            else MAX_ELEMENTS_IN_PIECES
            if pieces
            else MAX_ELEMENTS
        )
    return Api(
        key=key,
        handler=handler,
        sides=sides,
        permissions=permissions,
        gates={
            side: _gate(each, name) if isinstance(each, str) else each
            for side, each in gates.items()
            if each and side in sides
        },
        quota=quota,
        echo=echo,
        max_elements=max_elements,
        pieces=pieces,
        is_each_named_once=is_each_named_once,
        item_weight=item_weight,
        controller_handler=controller_handler,
        is_forwardable=is_forwardable,
        max_put_off_ms=0 if quota is QuotaKind.NONE else max_put_off_ms,
        recognizer=recognizer,
        is_of_follower=is_of_follower,
    )


def _forwarded(
    key: ApiKey,
    handler: str,
    permissions: tuple[Permission, ...],
    *,
    gate: str | OnDemand = PERMISSIONS,
    **others: Any,
) -> Api:
    """Return the row of an API that brokers only forward, so only the active controller checks."""
    return _api(
        key,
        handler,
        permissions,
        gate=None,
        controller_gate=gate,
        sides=BOTH,
        is_forwardable=True,
        **others,
    )


def _from_member(
    key: ApiKey, handler: str, permissions: tuple[Permission, ...], **others: Any
) -> Api:
    """Return the row of an API that members send to their coordinator.

    They send it on one connection, where heartbeats wait for the others.
    """
    return _api(key, handler, permissions, max_put_off_ms=MAX_MEMBER_PUT_OFF_MS, **others)


def _between_nodes(key: ApiKey, handler: str, *, is_forwardable: bool = False) -> Api:
    """Return the row of an API of nodes to the controller."""
    return _api(
        key,
        handler,
        _cluster(CLUSTER_ACTION),
        sides=CONTROLLER,
        quota=QuotaKind.NONE,
        is_forwardable=is_forwardable,
    )


_PER_TOPIC = Items(asked="topics", told="topics", named_by=("name",))
_PER_TOPIC_OR_ID = Items(asked="topics", told="topics", named_by=("name", "topic_id"))
_PER_PARTITION = Items(asked="partitions", told="partitions", named_by=("partition_index",))
_PER_INDEX = Items(asked="partition_indexes", told="partitions", value="partition_index")
_PRODUCED = (
    Items(asked="topic_data", told="responses", named_by=("name", "topic_id")),
    Items(asked="partition_data", told="partition_responses", named_by=("index",)),
)
_COMMITTED = (
    (
        Items(asked="groups", told="groups", named_by=("group_id",)),
        Items(asked="topics", told="topics", named_by=("name", "topic_id")),
        _PER_INDEX,
    ),
    (_PER_TOPIC, _PER_INDEX),
)
_DELETED = (
    (Items(asked="topics", told="responses", named_by=("name", "topic_id")),),
    (Items(asked="topic_names", told="responses", value="name"),),
)
_PER_SHARE_STATE = echoing(
    Items(asked="topics", told="results", named_by=("topic_id",)),
    Items(asked="partitions", told="partitions", named_by=("partition",)),
)
_MUTATION = QuotaKind.CONTROLLER_MUTATION


def _per_resource(told: str) -> Echo:
    return echoing(Items(asked="resources", told=told, named_by=("resource_type", "resource_name")))


_ROWS = (
    # Records
    _api(
        ApiKey.PRODUCE,
        handle_produce,
        (*_transaction(WRITE), *_topic(WRITE)),
        gate="record_gates",
        echo=refuse_produce,
        quota=QuotaKind.PRODUCE,
        pieces=(_PRODUCED,),
        recognizer=RepeatedProduces,
    ),
    _api(
        ApiKey.FETCH,
        handle_fetch,
        (*_topic(READ), *_cluster(CLUSTER_ACTION)),
        gate=None,  # the handler checks the topics of a session
        controller_gate=PERMISSIONS,
        echo=echoing(
            Items(asked="topics", told="responses", named_by=("topic", "topic_id")),
            Items(
                asked="partitions", told="partitions", named_by=(("partition", "partition_index"),)
            ),
            high_watermark=-1,
        ),
        sides=BOTH,
        quota=QuotaKind.FETCH,
        controller_handler=OnDemand("raft", "handle_fetch"),
        pieces=(),
        max_elements=MAX_ELEMENTS_IN_PIECES,
        max_put_off_ms=NEVER_PUT_OFF,
        is_of_follower=is_of_follower,
    ),
    _api(
        ApiKey.LIST_OFFSETS,
        "list_offsets",
        _topic(DESCRIBE),
        gate="record_gates",
        echo=echoing(_PER_TOPIC, _PER_PARTITION),
    ),
    _api(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        "offset_for_leader_epoch",
        (*_cluster(CLUSTER_ACTION), *_topic(DESCRIBE)),
        gate="record_gates",
        echo=echoing(
            Items(asked="topics", told="topics", named_by=("topic",)),
            Items(asked="partitions", told="partitions", named_by=("partition",)),
        ),
    ),
    _api(
        ApiKey.DELETE_RECORDS,
        "delete_records",
        _topic(DELETE),
        gate="record_gates",
        echo=echoing(_PER_TOPIC, _PER_PARTITION, low_watermark=-1),
    ),
    _api(
        ApiKey.INIT_PRODUCER_ID,
        "producers",
        (*_transaction(WRITE), *_cluster(IDEMPOTENT_WRITE), *_topic(WRITE)),
        gate="transaction_gates",
        echo=echoing(producer_epoch=-1),
    ),
    _api(
        ApiKey.DESCRIBE_PRODUCERS,
        "producers",
        _topic(READ),
        gate="record_gates",
        echo=echoing(_PER_TOPIC, _PER_INDEX),
    ),
    _api(
        ApiKey.WRITE_TXN_MARKERS,
        "write_txn_markers",
        _cluster(ALTER, CLUSTER_ACTION),
        echo=echoing(
            Items(asked="markers", told="markers", named_by=("producer_id",)),
            Items(asked="topics", told="topics", named_by=("name",)),
            _PER_INDEX,
        ),
        quota=QuotaKind.NONE,
        max_elements=MAX_REQUEST_ELEMENTS,
    ),
    # Transactions
    _api(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "transactions",
        (*_transaction(WRITE), *_topic(WRITE), *_cluster(CLUSTER_ACTION)),
        gate="transaction_gates",
        has_own_echo=True,
        pieces=(
            (
                Items(
                    asked="transactions",
                    told="results_by_transaction",
                    named_by=("transactional_id",),
                ),
            ),
        ),
        max_elements=MAX_ELEMENTS,
    ),
    _api(
        ApiKey.ADD_OFFSETS_TO_TXN,
        "transactions",
        (*_transaction(WRITE), *_group(READ)),
        gate="transaction_gates",
    ),
    _api(ApiKey.END_TXN, "transactions", _transaction(WRITE), gate="transaction_gates"),
    _api(
        ApiKey.DESCRIBE_TRANSACTIONS,
        "transactions",
        (*_transaction(DESCRIBE), *_topic(DESCRIBE)),
        gate="transaction_gates",
        echo=echoing(
            Items(asked="transactional_ids", told="transaction_states", value="transactional_id")
        ),
    ),
    _api(
        ApiKey.LIST_TRANSACTIONS, "transactions", _transaction(DESCRIBE), gate="transaction_gates"
    ),
    # Versions, logins and the cluster
    _api(
        ApiKey.API_VERSIONS,
        "api_versions",
        NO_PERMISSION,
        sides=BOTH,
        max_elements=0,
        max_put_off_ms=NEVER_PUT_OFF,
    ),
    _api(
        ApiKey.SASL_HANDSHAKE,
        "sasl",
        NO_PERMISSION,
        sides=BOTH,
        max_elements=0,
        max_put_off_ms=NEVER_PUT_OFF,
    ),
    _api(
        ApiKey.SASL_AUTHENTICATE,
        "sasl",
        NO_PERMISSION,
        sides=BOTH,
        max_elements=0,
        max_put_off_ms=NEVER_PUT_OFF,
    ),
    _api(
        ApiKey.METADATA,
        handle_metadata,
        (*_topic(DESCRIBE, CREATE), *_cluster(CREATE, DESCRIBE)),
        gate=None,
        echo=echoing(_PER_TOPIC_OR_ID),
    ),
    _api(
        ApiKey.DESCRIBE_CLUSTER,
        "cluster",
        _cluster(ALTER, DESCRIBE),
        gate=None,
        controller_gate="config_gates",
        sides=BOTH,
    ),
    _api(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "describe_topic_partitions",
        _topic(DESCRIBE),
        gate=None,
        echo=echoing(_PER_TOPIC),
        pieces=(),
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    _api(ApiKey.DESCRIBE_QUORUM, "quorum", _cluster(DESCRIBE), sides=BOTH, is_forwardable=True),
    _api(ApiKey.DESCRIBE_LOG_DIRS, "log_dirs", _cluster(DESCRIBE), max_elements=MAX_PLAIN_ELEMENTS),
    # Groups
    _api(
        ApiKey.FIND_COORDINATOR,
        "find_coordinator",
        (*_group(DESCRIBE), *_transaction(DESCRIBE), *_cluster(CLUSTER_ACTION)),
        gate="group_gates",
        has_own_echo=True,
        pieces=((Items(asked="coordinator_keys", told="coordinators", value="key"),),),
    ),
    _from_member(ApiKey.JOIN_GROUP, "groups.membership", _group(READ)),
    _from_member(ApiKey.SYNC_GROUP, "groups.membership", _group(READ), gate="group_gates"),
    _from_member(ApiKey.HEARTBEAT, "groups.membership", _group(READ)),
    _from_member(ApiKey.LEAVE_GROUP, "groups.membership", _group(READ)),
    _from_member(
        ApiKey.OFFSET_COMMIT,
        "groups.offset_commit",
        (*_group(READ), *_topic(READ)),
        gate="group_gates",
        echo=echoing(_PER_TOPIC_OR_ID, _PER_PARTITION),
    ),
    _api(
        ApiKey.TXN_OFFSET_COMMIT,
        "groups.txn_offset_commit",
        (*_transaction(WRITE), *_group(READ), *_topic(READ)),
        gate="transaction_gates",
        echo=echoing(_PER_TOPIC, _PER_PARTITION),
    ),
    _from_member(
        ApiKey.OFFSET_FETCH,
        "groups.offset_fetch",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        gate="group_gates",
        has_own_echo=True,
        pieces=_COMMITTED,
    ),
    _api(
        ApiKey.OFFSET_DELETE,
        "groups.offset_delete",
        (*_group(DELETE), *_topic(READ)),
        gate="group_gates",
        pieces=((_PER_TOPIC, _PER_PARTITION),),
    ),
    _api(
        ApiKey.LIST_GROUPS,
        "groups.admin",
        (*_cluster(DESCRIBE), *_group(DESCRIBE)),
        gate="group_gates",
    ),
    _api(
        ApiKey.DESCRIBE_GROUPS,
        "groups.admin",
        _group(DESCRIBE),
        gate="group_gates",
        echo=echoing(Items(asked="groups", told="groups", value="group_id")),
    ),
    _from_member(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "groups.consumer",
        (*_group(READ), *_topic(DESCRIBE)),
        gate="group_gates",
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    _api(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        "groups.consumer",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        gate="group_gates",
        echo=echoing(Items(asked="group_ids", told="groups", value="group_id")),
    ),
    _api(
        ApiKey.SHARE_FETCH,
        "share.fetch",
        (*_group(READ), *_topic(READ)),
        gate="group_gates",
        quota=QuotaKind.FETCH,
        max_elements=MAX_ELEMENTS_IN_PIECES,
        max_put_off_ms=NEVER_PUT_OFF,
    ),
    _api(
        ApiKey.SHARE_ACKNOWLEDGE,
        "share.acknowledge",
        (*_group(READ), *_topic(READ)),
        gate="group_gates",
        max_elements=MAX_ELEMENTS_IN_PIECES,
    ),
    _api(
        ApiKey.DELETE_GROUPS,
        "groups.admin",
        _group(DELETE),
        gate="group_gates",
        echo=echoing(Items(asked="groups_names", told="results", value="group_id")),
    ),
    # Topics
    _forwarded(
        ApiKey.CREATE_TOPICS,
        "topics",
        (*_cluster(CREATE), *_topic(CREATE, DESCRIBE_CONFIGS)),
        gate="topic_gates",
        echo=echoing(_PER_TOPIC),
        quota=_MUTATION,
        is_each_named_once=True,
    ),
    _forwarded(
        ApiKey.DELETE_TOPICS,
        "topics",
        (*_cluster(DELETE), *_topic(DELETE, DESCRIBE)),
        gate="topic_gates",
        has_own_echo=True,
        quota=_MUTATION,
        pieces=_DELETED,
        is_each_named_once=True,
    ),
    _forwarded(
        ApiKey.CREATE_PARTITIONS,
        "topics",
        _topic(ALTER),
        gate="topic_gates",
        echo=echoing(Items(asked="topics", told="results", named_by=("name",))),
        quota=_MUTATION,
        is_each_named_once=True,
    ),
    _forwarded(
        ApiKey.ELECT_LEADERS,
        "placement",
        _cluster(ALTER),
        echo=echoing(
            Items(asked="topic_partitions", told="replica_election_results", named_by=("topic",)),
            Items(asked="partitions", told="partition_result", value="partition_id"),
        ),
    ),
    _forwarded(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "placement",
        _cluster(ALTER),
        pieces=((Items(asked="topics", told="responses", named_by=("name",)), _PER_PARTITION),),
    ),
    _forwarded(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        "placement",
        _cluster(DESCRIBE),
        pieces=((_PER_TOPIC, _PER_INDEX),),
    ),
    _api(ApiKey.ALTER_REPLICA_LOG_DIRS, "log_dirs", _cluster(ALTER), has_own_echo=True),
    # Share groups
    _from_member(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        "share.groups",
        (*_group(READ), *_topic(DESCRIBE)),
        gate="group_gates",
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    _api(
        ApiKey.SHARE_GROUP_DESCRIBE,
        "share.groups",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        gate="group_gates",
        echo=echoing(Items(asked="group_ids", told="groups", value="group_id")),
    ),
    _api(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        "share.group_offsets",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        gate="group_gates",
        echo=echoing(Items(asked="groups", told="groups", named_by=("group_id",))),
    ),
    _api(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        "share.groups",
        (*_group(READ), *_topic(READ)),
        gate="group_gates",
    ),
    _api(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        "share.groups",
        (*_group(DELETE), *_topic(READ)),
        gate="group_gates",
    ),
    # Streams groups
    _from_member(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        "groups.streams",
        (*_group(READ), *_topic(DESCRIBE, CREATE), *_cluster(CREATE)),
        gate="group_gates",
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    _api(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        "groups.streams",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        gate="group_gates",
        echo=echoing(Items(asked="group_ids", told="groups", value="group_id")),
    ),
    # Requests of brokers to share coordinators
    _api(
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        "share.states",
        _cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    _api(
        ApiKey.READ_SHARE_GROUP_STATE,
        "share.states",
        _cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    _api(
        ApiKey.WRITE_SHARE_GROUP_STATE,
        "share.states",
        _cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    _api(
        ApiKey.DELETE_SHARE_GROUP_STATE,
        "share.states",
        _cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    _api(
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        "share.states",
        _cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    # Configuration and the cluster
    _api(
        ApiKey.DESCRIBE_CONFIGS,
        "configs",
        (*_topic(DESCRIBE_CONFIGS), *_group(DESCRIBE_CONFIGS), *_cluster(DESCRIBE_CONFIGS)),
        gate="config_gates",
        echo=_per_resource("results"),
        sides=BOTH,
        item_weight=16,
    ),
    _forwarded(
        ApiKey.ALTER_CONFIGS,
        "configs",
        (*_topic(ALTER_CONFIGS), *_group(ALTER_CONFIGS), *_cluster(ALTER_CONFIGS, ALTER)),
        gate="config_gates",
        echo=_per_resource("responses"),
        is_each_named_once=True,
    ),
    _api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "configs",
        (
            *_topic(ALTER_CONFIGS),
            *_group(ALTER_CONFIGS),
            *_cluster(ALTER_CONFIGS, ALTER, CLUSTER_ACTION),
        ),
        gate=_gate("config_gates", "alter_loggers"),
        controller_gate="config_gates",
        echo=_per_resource("responses"),
        sides=BOTH,
        is_forwardable=True,
        is_each_named_once=True,
    ),
    _api(ApiKey.LIST_CONFIG_RESOURCES, "configs", _cluster(DESCRIBE_CONFIGS)),
    _api(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        "client_quotas",
        _cluster(DESCRIBE_CONFIGS),
        has_own_echo=True,
    ),
    _forwarded(
        ApiKey.ALTER_CLIENT_QUOTAS, "client_quotas", _cluster(ALTER_CONFIGS), has_own_echo=True
    ),
    _api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry", NO_PERMISSION),
    _api(ApiKey.PUSH_TELEMETRY, "telemetry", NO_PERMISSION),
    _api(ApiKey.DESCRIBE_ACLS, "acls", _cluster(DESCRIBE), sides=BOTH),
    _forwarded(
        ApiKey.CREATE_ACLS,
        "acls",
        _cluster(ALTER),
        echo=echoing(Items(asked="creations", told="results")),
    ),
    _forwarded(
        ApiKey.DELETE_ACLS,
        "acls",
        _cluster(ALTER),
        echo=echoing(Items(asked="filters", told="filter_results")),
    ),
    _api(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "scram_users", _cluster(DESCRIBE), has_own_echo=True
    ),
    _forwarded(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "scram_users",
        _cluster(ALTER),
        has_own_echo=True,
        max_elements=500,
    ),
    _api(
        ApiKey.CREATE_DELEGATION_TOKEN,
        "delegation_tokens",
        _user(AclOperation.CREATE_TOKENS),
        gate="token_gates",
        has_own_echo=True,
        sides=BOTH,
        is_forwardable=True,
    ),
    _api(
        ApiKey.RENEW_DELEGATION_TOKEN,
        "delegation_tokens",
        NO_PERMISSION,
        has_own_echo=True,
        sides=BOTH,
        is_forwardable=True,
    ),
    _api(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        "delegation_tokens",
        NO_PERMISSION,
        has_own_echo=True,
        sides=BOTH,
        is_forwardable=True,
    ),
    _api(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        "delegation_tokens",
        (*_user(AclOperation.DESCRIBE_TOKENS), Permission(DESCRIBE, AclResource.DELEGATION_TOKEN)),
        gate=None,
    ),
    _forwarded(ApiKey.UPDATE_FEATURES, "cluster", _cluster(ALTER)),
    _forwarded(ApiKey.UNREGISTER_BROKER, "cluster", _cluster(ALTER)),
    _forwarded(ApiKey.ADD_RAFT_VOTER, "quorum", _cluster(ALTER)),
    _forwarded(ApiKey.REMOVE_RAFT_VOTER, "quorum", _cluster(ALTER)),
    # Requests of nodes to the controller
    _between_nodes(ApiKey.ALTER_PARTITION, "controller_requests"),
    _between_nodes(ApiKey.BROKER_REGISTRATION, "controller_requests"),
    _between_nodes(ApiKey.BROKER_HEARTBEAT, "controller_requests"),
    _between_nodes(ApiKey.ALLOCATE_PRODUCER_IDS, "controller_requests", is_forwardable=True),
    _between_nodes(ApiKey.CONTROLLER_REGISTRATION, "controller_requests"),
    _between_nodes(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "controller_requests"),
    _between_nodes(ApiKey.ENVELOPE, "envelope"),
    # Requests between replicas of the metadata log
    _between_nodes(ApiKey.VOTE, "raft"),
    _between_nodes(ApiKey.BEGIN_QUORUM_EPOCH, "raft"),
    _between_nodes(ApiKey.END_QUORUM_EPOCH, "raft"),
    _between_nodes(ApiKey.FETCH_SNAPSHOT, "raft"),
    _between_nodes(ApiKey.UPDATE_RAFT_VOTER, "raft"),
    # Ours
    _api(
        ApiKey.TIDELOG_MAINTENANCE,
        "maintenance",
        _cluster(ALTER, CLUSTER_ACTION) + _topic(ALTER),
        gate="topic_gates",
        max_elements=2_000,
    ),
)

REGISTRY: Mapping[ApiKey, Api] = MappingProxyType(
    {row.key: row for row in sorted(_ROWS, key=lambda row: row.key)}
)
"""The rows by key, in the order of keys."""
