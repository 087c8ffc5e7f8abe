"""THE registry: one row for each API that this node answers.

A row has the listeners of the API, the permissions that its requests may need, its quota, its error
response and its handler. Its versions are in ``protocol.api_versions``, the lower table, which
clients read, too. ApiVersions, the pipeline, the warm-up, the documentation and the tests read this
table. An API that is not here is not answered.

Handlers that every client needs first are imported with the node. The others are imported, with
their messages, on their first request or by ``warm_up``. Importing them all would take as long as
the rest of a start.

Permissions are Apache Kafka's (KIP-11 and the KIPs that added APIs). ``Maintenance`` is ours. It
asks for CLUSTER_ACTION or ALTER, because a broker does the same work by itself, too.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from log_service.broker.handlers.fetch.fetch import handle_fetch
from log_service.broker.handlers.metadata import handle_metadata
from log_service.broker.handlers.produce.plain import handle_produce
from log_service.broker.handlers.produce.produce import refuse_produce
from log_service.broker.node import QuorumNode
from log_service.broker.requests.call import Api, Call, Echo, Handler, QuotaKind, Refusable, Reply, Side
from log_service.broker.requests.echo import AT_TOP, ItemEcho, echoing
from log_service.broker.requests.pieces import Items, Levels
from log_service.common.access import AclOperation, AclResource, Permission
from log_service.common.errors import KafkaError
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import MAX_REQUEST_ELEMENTS
from log_service.protocol.schema import Message


class OnDemand:
    """A handler that is imported on its first call.

    It is function ``name`` of a module of ``broker.handlers``.
    """

    __slots__ = ("_handler", "module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self._handler: Handler | None = None

    def __repr__(self) -> str:
        return f"<OnDemand {self.module}.{self.name}{'' if self._handler is None else ' loaded'}>"

    def load(self) -> Handler:
        """Return the function. Import it the first time."""
        if self._handler is None:
            self._handler = _imported(self.module, self.name)
        return self._handler

    def __call__(self, node: QuorumNode, call: Call, request: Any) -> Reply:
        """Call the function."""
        return (self._handler or self.load())(node, call, request)


def _own_echo(module: str, name: str) -> Echo:
    """Return the echo that is a function of a handlers' module.

    The module is imported when a request is first refused.
    """

    def echo(asked: Refusable, error: KafkaError) -> Message:
        refused: Message = _imported(module, name)(asked, error)
        return refused

    return echo


def _imported(module: str, name: str) -> Any:
    return getattr(import_module(f"log_service.broker.handlers.{module}"), name)


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


def _api(
    key: ApiKey,
    handler: Handler | str,
    permissions: tuple[Permission, ...],
    *,
    echo: Echo = AT_TOP,
    sides: frozenset[Side] = BROKER,
    quota: QuotaKind = QuotaKind.REQUEST,
    controller_handler: Handler | None = None,
    pieces: tuple[Levels, ...] | None = None,
    max_elements: int | None = None,
    is_each_named_once: bool = False,
    item_weight: int = 0,
) -> Api:
    """Return a row. ``handler`` is a function, or the name of a module to import on demand.

    An API whose echo has an error for each item is handled in pieces, between these items, unless
    its row says otherwise.
    """
    if isinstance(handler, str):
        handler = OnDemand(handler, f"handle_{key.name.lower().removeprefix('tidelog_')}")
    if pieces is None:
        pieces = (echo.levels,) if isinstance(echo, ItemEcho) and echo.levels else ()
    if max_elements is None:
        max_elements = MAX_REQUEST_ELEMENTS if sides == CONTROLLER else MAX_ELEMENTS_IN_PIECES if pieces else MAX_ELEMENTS
    return Api(
        key=key,
        handler=handler,
        sides=sides,
        permissions=permissions,
        quota=quota,
        echo=echo,
        max_elements=max_elements,
        pieces=pieces,
        is_each_named_once=is_each_named_once,
        item_weight=item_weight,
        controller_handler=controller_handler,
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
    Items(asked="topics", told="results", named_by=("topic_id",)), Items(asked="partitions", told="partitions", named_by=("partition",))
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
        echo=refuse_produce,
        quota=QuotaKind.PRODUCE,
        pieces=(_PRODUCED,),
    ),
    _api(
        ApiKey.FETCH,
        handle_fetch,
        (*_topic(READ), *_cluster(CLUSTER_ACTION)),
        echo=echoing(
            Items(asked="topics", told="responses", named_by=("topic", "topic_id")),
            Items(asked="partitions", told="partitions", named_by=(("partition", "partition_index"),)),
            high_watermark=-1,
        ),
        sides=BOTH,
        quota=QuotaKind.FETCH,
        controller_handler=OnDemand("raft", "handle_fetch"),
        pieces=(),
        max_elements=MAX_ELEMENTS_IN_PIECES,
    ),
    _api(ApiKey.LIST_OFFSETS, "list_offsets", _topic(DESCRIBE), echo=echoing(_PER_TOPIC, _PER_PARTITION)),
    _api(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        "offset_for_leader_epoch",
        (*_cluster(CLUSTER_ACTION), *_topic(DESCRIBE)),
        echo=echoing(
            Items(asked="topics", told="topics", named_by=("topic",)),
            Items(asked="partitions", told="partitions", named_by=("partition",)),
        ),
    ),
    _api(ApiKey.DELETE_RECORDS, "delete_records", _topic(DELETE), echo=echoing(_PER_TOPIC, _PER_PARTITION, low_watermark=-1)),
    _api(
        ApiKey.INIT_PRODUCER_ID,
        "producers",
        (*_transaction(WRITE), *_cluster(IDEMPOTENT_WRITE), *_topic(WRITE)),
        echo=echoing(producer_epoch=-1),
    ),
    _api(
        ApiKey.DESCRIBE_PRODUCERS,
        "producers",
        _topic(READ),
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
        echo=_own_echo("transactions", "refuse_add_partitions_to_txn"),
        pieces=((Items(asked="transactions", told="results_by_transaction", named_by=("transactional_id",)),),),
        max_elements=MAX_ELEMENTS,
    ),
    _api(ApiKey.ADD_OFFSETS_TO_TXN, "transactions", (*_transaction(WRITE), *_group(READ))),
    _api(ApiKey.END_TXN, "transactions", _transaction(WRITE)),
    _api(
        ApiKey.DESCRIBE_TRANSACTIONS,
        "transactions",
        (*_transaction(DESCRIBE), *_topic(DESCRIBE)),
        echo=echoing(Items(asked="transactional_ids", told="transaction_states", value="transactional_id")),
    ),
    _api(ApiKey.LIST_TRANSACTIONS, "transactions", _transaction(DESCRIBE)),
    # Versions, logins and the cluster
    _api(ApiKey.API_VERSIONS, "api_versions", NO_PERMISSION, sides=BOTH, max_elements=0),
    _api(ApiKey.SASL_HANDSHAKE, "sasl", NO_PERMISSION, sides=BOTH, max_elements=0),
    _api(ApiKey.SASL_AUTHENTICATE, "sasl", NO_PERMISSION, sides=BOTH, max_elements=0),
    _api(ApiKey.METADATA, handle_metadata, (*_topic(DESCRIBE, CREATE), *_cluster(CREATE, DESCRIBE)), echo=echoing(_PER_TOPIC_OR_ID)),
    _api(ApiKey.DESCRIBE_CLUSTER, "cluster", _cluster(ALTER, DESCRIBE), sides=BOTH),
    _api(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "describe_topic_partitions",
        _topic(DESCRIBE),
        echo=echoing(_PER_TOPIC),
        pieces=(),
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    _api(ApiKey.DESCRIBE_QUORUM, "quorum", _cluster(DESCRIBE), sides=BOTH),
    _api(ApiKey.DESCRIBE_LOG_DIRS, "log_dirs", _cluster(DESCRIBE), max_elements=MAX_PLAIN_ELEMENTS),
    # Groups
    _api(
        ApiKey.FIND_COORDINATOR,
        "find_coordinator",
        (*_group(DESCRIBE), *_transaction(DESCRIBE), *_cluster(CLUSTER_ACTION)),
        echo=_own_echo("find_coordinator", "refuse_find_coordinator"),
        pieces=((Items(asked="coordinator_keys", told="coordinators", value="key"),),),
    ),
    _api(ApiKey.JOIN_GROUP, "groups.membership", _group(READ)),
    _api(ApiKey.SYNC_GROUP, "groups.membership", _group(READ)),
    _api(ApiKey.HEARTBEAT, "groups.membership", _group(READ)),
    _api(ApiKey.LEAVE_GROUP, "groups.membership", _group(READ)),
    _api(ApiKey.OFFSET_COMMIT, "groups.offset_commit", (*_group(READ), *_topic(READ)), echo=echoing(_PER_TOPIC_OR_ID, _PER_PARTITION)),
    _api(
        ApiKey.TXN_OFFSET_COMMIT,
        "groups.txn_offset_commit",
        (*_transaction(WRITE), *_group(READ), *_topic(READ)),
        echo=echoing(_PER_TOPIC, _PER_PARTITION),
    ),
    _api(
        ApiKey.OFFSET_FETCH,
        "groups.offset_fetch",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        echo=_own_echo("groups.offset_fetch", "refuse_offset_fetch"),
        pieces=_COMMITTED,
    ),
    _api(ApiKey.OFFSET_DELETE, "groups.offset_delete", (*_group(DELETE), *_topic(READ)), pieces=((_PER_TOPIC, _PER_PARTITION),)),
    _api(ApiKey.LIST_GROUPS, "groups.admin", (*_cluster(DESCRIBE), *_group(DESCRIBE))),
    _api(
        ApiKey.DESCRIBE_GROUPS,
        "groups.admin",
        _group(DESCRIBE),
        echo=echoing(Items(asked="groups", told="groups", value="group_id")),
    ),
    _api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "groups.consumer", (*_group(READ), *_topic(DESCRIBE)), max_elements=MAX_PLAIN_ELEMENTS),
    _api(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        "groups.consumer",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        echo=echoing(Items(asked="group_ids", told="groups", value="group_id")),
    ),
    _api(ApiKey.SHARE_FETCH, "share.fetch", (*_group(READ), *_topic(READ)), quota=QuotaKind.FETCH, max_elements=MAX_ELEMENTS_IN_PIECES),
    _api(ApiKey.SHARE_ACKNOWLEDGE, "share.acknowledge", (*_group(READ), *_topic(READ)), max_elements=MAX_ELEMENTS_IN_PIECES),
    _api(
        ApiKey.DELETE_GROUPS,
        "groups.admin",
        _group(DELETE),
        echo=echoing(Items(asked="groups_names", told="results", value="group_id")),
    ),
    # Topics
    _api(
        ApiKey.CREATE_TOPICS,
        "topics",
        (*_cluster(CREATE), *_topic(CREATE, DESCRIBE_CONFIGS)),
        echo=echoing(_PER_TOPIC),
        sides=BOTH,
        quota=_MUTATION,
        is_each_named_once=True,
    ),
    _api(
        ApiKey.DELETE_TOPICS,
        "topics",
        (*_cluster(DELETE), *_topic(DELETE, DESCRIBE)),
        echo=_own_echo("topics", "refuse_delete_topics"),
        sides=BOTH,
        quota=_MUTATION,
        pieces=_DELETED,
        is_each_named_once=True,
    ),
    _api(
        ApiKey.CREATE_PARTITIONS,
        "topics",
        _topic(ALTER),
        echo=echoing(Items(asked="topics", told="results", named_by=("name",))),
        sides=BOTH,
        quota=_MUTATION,
        is_each_named_once=True,
    ),
    _api(
        ApiKey.ELECT_LEADERS,
        "placement",
        _cluster(ALTER),
        echo=echoing(
            Items(asked="topic_partitions", told="replica_election_results", named_by=("topic",)),
            Items(asked="partitions", told="partition_result", value="partition_id"),
        ),
        sides=BOTH,
    ),
    _api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "placement",
        _cluster(ALTER),
        sides=BOTH,
        pieces=((Items(asked="topics", told="responses", named_by=("name",)), _PER_PARTITION),),
    ),
    _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "placement", _cluster(DESCRIBE), sides=BOTH, pieces=((_PER_TOPIC, _PER_INDEX),)),
    _api(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        "log_dirs",
        _cluster(ALTER),
        echo=_own_echo("log_dirs", "refuse_alter_replica_log_dirs"),
    ),
    # Share groups
    _api(ApiKey.SHARE_GROUP_HEARTBEAT, "share.groups", (*_group(READ), *_topic(DESCRIBE)), max_elements=MAX_PLAIN_ELEMENTS),
    _api(
        ApiKey.SHARE_GROUP_DESCRIBE,
        "share.groups",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        echo=echoing(Items(asked="group_ids", told="groups", value="group_id")),
    ),
    _api(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        "share.group_offsets",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        echo=echoing(Items(asked="groups", told="groups", named_by=("group_id",))),
    ),
    _api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "share.groups", (*_group(READ), *_topic(READ))),
    _api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "share.groups", (*_group(DELETE), *_topic(READ))),
    # Streams groups
    _api(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        "groups.streams",
        (*_group(READ), *_topic(DESCRIBE, CREATE), *_cluster(CREATE)),
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    _api(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        "groups.streams",
        (*_group(DESCRIBE), *_topic(DESCRIBE)),
        echo=echoing(Items(asked="group_ids", told="groups", value="group_id")),
    ),
    # Requests of brokers to share coordinators
    _api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "share.states", _cluster(CLUSTER_ACTION), echo=_PER_SHARE_STATE),
    _api(ApiKey.READ_SHARE_GROUP_STATE, "share.states", _cluster(CLUSTER_ACTION), echo=_PER_SHARE_STATE),
    _api(ApiKey.WRITE_SHARE_GROUP_STATE, "share.states", _cluster(CLUSTER_ACTION), echo=_PER_SHARE_STATE),
    _api(ApiKey.DELETE_SHARE_GROUP_STATE, "share.states", _cluster(CLUSTER_ACTION), echo=_PER_SHARE_STATE),
    _api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "share.states", _cluster(CLUSTER_ACTION), echo=_PER_SHARE_STATE),
    # Configuration and the cluster
    _api(
        ApiKey.DESCRIBE_CONFIGS,
        "configs",
        (*_topic(DESCRIBE_CONFIGS), *_group(DESCRIBE_CONFIGS), *_cluster(DESCRIBE_CONFIGS)),
        echo=_per_resource("results"),
        sides=BOTH,
        item_weight=16,
    ),
    _api(
        ApiKey.ALTER_CONFIGS,
        "configs",
        (*_topic(ALTER_CONFIGS), *_group(ALTER_CONFIGS), *_cluster(ALTER_CONFIGS, ALTER)),
        echo=_per_resource("responses"),
        sides=BOTH,
        is_each_named_once=True,
    ),
    _api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "configs",
        (*_topic(ALTER_CONFIGS), *_group(ALTER_CONFIGS), *_cluster(ALTER_CONFIGS, ALTER, CLUSTER_ACTION)),
        echo=_per_resource("responses"),
        sides=BOTH,
        is_each_named_once=True,
    ),
    _api(ApiKey.LIST_CONFIG_RESOURCES, "configs", _cluster(DESCRIBE_CONFIGS)),
    _api(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        "client_quotas",
        _cluster(DESCRIBE_CONFIGS),
        echo=_own_echo("client_quotas", "refuse_describe_client_quotas"),
    ),
    _api(
        ApiKey.ALTER_CLIENT_QUOTAS,
        "client_quotas",
        _cluster(ALTER_CONFIGS),
        echo=_own_echo("client_quotas", "refuse_alter_client_quotas"),
        sides=BOTH,
    ),
    _api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry", NO_PERMISSION),
    _api(ApiKey.PUSH_TELEMETRY, "telemetry", NO_PERMISSION),
    _api(ApiKey.DESCRIBE_ACLS, "acls", _cluster(DESCRIBE), sides=BOTH),
    _api(ApiKey.CREATE_ACLS, "acls", _cluster(ALTER), echo=echoing(Items(asked="creations", told="results")), sides=BOTH),
    _api(ApiKey.DELETE_ACLS, "acls", _cluster(ALTER), echo=echoing(Items(asked="filters", told="filter_results")), sides=BOTH),
    _api(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        "scram_users",
        _cluster(DESCRIBE),
        echo=_own_echo("scram_users", "refuse_describe_user_scram_credentials"),
    ),
    _api(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "scram_users",
        _cluster(ALTER),
        echo=_own_echo("scram_users", "refuse_alter_user_scram_credentials"),
        sides=BOTH,
        max_elements=500,
    ),
    _api(
        ApiKey.CREATE_DELEGATION_TOKEN,
        "delegation_tokens",
        _user(AclOperation.CREATE_TOKENS),
        echo=_own_echo("delegation_tokens", "refuse_create_delegation_token"),
        sides=BOTH,
    ),
    _api(
        ApiKey.RENEW_DELEGATION_TOKEN,
        "delegation_tokens",
        NO_PERMISSION,
        echo=_own_echo("delegation_tokens", "refuse_renew_delegation_token"),
        sides=BOTH,
    ),
    _api(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        "delegation_tokens",
        NO_PERMISSION,
        echo=_own_echo("delegation_tokens", "refuse_expire_delegation_token"),
        sides=BOTH,
    ),
    _api(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        "delegation_tokens",
        (*_user(AclOperation.DESCRIBE_TOKENS), Permission(DESCRIBE, AclResource.DELEGATION_TOKEN)),
    ),
    _api(ApiKey.UPDATE_FEATURES, "cluster", _cluster(ALTER), sides=BOTH),
    _api(ApiKey.UNREGISTER_BROKER, "cluster", _cluster(ALTER), sides=BOTH),
    _api(ApiKey.ADD_RAFT_VOTER, "quorum", _cluster(ALTER), sides=BOTH),
    _api(ApiKey.REMOVE_RAFT_VOTER, "quorum", _cluster(ALTER), sides=BOTH),
    # Requests of nodes to the controller
    _api(ApiKey.ALTER_PARTITION, "members", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.BROKER_REGISTRATION, "members", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.BROKER_HEARTBEAT, "members", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.ALLOCATE_PRODUCER_IDS, "members", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.CONTROLLER_REGISTRATION, "members", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "members", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.ENVELOPE, "envelope", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    # Requests between replicas of the metadata log
    _api(ApiKey.VOTE, "raft", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.BEGIN_QUORUM_EPOCH, "raft", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.END_QUORUM_EPOCH, "raft", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.FETCH_SNAPSHOT, "raft", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    _api(ApiKey.UPDATE_RAFT_VOTER, "raft", _cluster(CLUSTER_ACTION), sides=CONTROLLER, quota=QuotaKind.NONE),
    # Ours
    _api(ApiKey.TIDELOG_MAINTENANCE, "maintenance", _cluster(ALTER, CLUSTER_ACTION) + _topic(ALTER), max_elements=2_000),
)

REGISTRY: Mapping[ApiKey, Api] = MappingProxyType({row.key: row for row in sorted(_ROWS, key=lambda row: row.key)})
"""The rows by key, in the order of keys."""
