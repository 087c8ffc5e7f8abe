"""THE registry: one row for each API that this node supports.

A row has the listeners of the API, the permissions that its requests may need, the gates that check
them, its quota, its error response and its handler. Its versions are in ``protocol.api_versions``,
a table of a lower layer, which clients read, too. ApiVersions, the pipeline, the authorizer, the
warm-up, the documentation and the tests read this table. An API without a row gets no response.

Permissions are Apache Kafka's (KIP-11 and the KIPs that added APIs). ``Maintenance`` and
``ShareRecords`` are ours. The first needs CLUSTER_ACTION or ALTER, because a broker does the
same work by itself, too. The second needs DESCRIBE, as DescribeShareGroupOffsets does.
"""

from collections.abc import Mapping
from types import MappingProxyType

from log_service.broker.api_rows import (
    ALTER,
    ALTER_CONFIGS,
    BOTH,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    IDEMPOTENT_WRITE,
    MAX_ELEMENTS,
    MAX_ELEMENTS_IN_PIECES,
    MAX_PLAIN_ELEMENTS,
    NEVER_PUT_OFF,
    NO_PERMISSION,
    PERMISSIONS,
    READ,
    WRITE,
    OnDemand,
    api_row,
    forwarded_row,
    gate_of,
    member_row,
    node_row,
    on_cluster,
    on_group,
    on_topic,
    on_transaction,
    on_user,
)
from log_service.broker.handlers.fetch.fetch import handle_fetch, is_of_follower
from log_service.broker.handlers.metadata import handle_metadata
from log_service.broker.handlers.produce.plain import handle_produce
from log_service.broker.handlers.produce.produce import refuse_produce
from log_service.broker.handlers.produce.repeated import RepeatedProduces
from log_service.broker.requests.call import Api, Echo, QuotaKind
from log_service.broker.requests.echo import echoing
from log_service.broker.requests.pieces import Items
from log_service.common.access import AclOperation, AclResource, Permission
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import MAX_REQUEST_ELEMENTS

_PER_TOPIC = Items(request_field="topics", response_field="topics", named_by=("name",))
_PER_TOPIC_OR_ID = Items(
    request_field="topics", response_field="topics", named_by=("name", "topic_id")
)
_PER_PARTITION = Items(
    request_field="partitions", response_field="partitions", named_by=("partition_index",)
)
_PER_INDEX = Items(
    request_field="partition_indexes", response_field="partitions", value="partition_index"
)
_PRODUCED = (
    Items(request_field="topic_data", response_field="responses", named_by=("name", "topic_id")),
    Items(
        request_field="partition_data", response_field="partition_responses", named_by=("index",)
    ),
)
_COMMITTED = (
    (
        Items(request_field="groups", response_field="groups", named_by=("group_id",)),
        Items(request_field="topics", response_field="topics", named_by=("name", "topic_id")),
        _PER_INDEX,
    ),
    (_PER_TOPIC, _PER_INDEX),
)
_DELETED = (
    (Items(request_field="topics", response_field="responses", named_by=("name", "topic_id")),),
    (Items(request_field="topic_names", response_field="responses", value="name"),),
)
_PER_SHARE_STATE = echoing(
    Items(request_field="topics", response_field="results", named_by=("topic_id",)),
    Items(request_field="partitions", response_field="partitions", named_by=("partition",)),
)
_MUTATION = QuotaKind.CONTROLLER_MUTATION


def _per_resource(response_field: str) -> Echo:
    return echoing(
        Items(
            request_field="resources",
            response_field=response_field,
            named_by=("resource_type", "resource_name"),
        )
    )


_ROWS = (
    # Records
    api_row(
        ApiKey.PRODUCE,
        handle_produce,
        (*on_transaction(WRITE), *on_topic(WRITE)),
        gate="record_gates",
        echo=refuse_produce,
        quota=QuotaKind.PRODUCE,
        pieces=(_PRODUCED,),
        recognizer=RepeatedProduces,
    ),
    api_row(
        ApiKey.FETCH,
        handle_fetch,
        (*on_topic(READ), *on_cluster(CLUSTER_ACTION)),
        gate=None,  # the handler checks the topics of a session
        controller_gate=PERMISSIONS,
        echo=echoing(
            Items(
                request_field="topics", response_field="responses", named_by=("topic", "topic_id")
            ),
            Items(
                request_field="partitions",
                response_field="partitions",
                named_by=(("partition", "partition_index"),),
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
    api_row(
        ApiKey.LIST_OFFSETS,
        "list_offsets",
        on_topic(DESCRIBE),
        gate="record_gates",
        echo=echoing(_PER_TOPIC, _PER_PARTITION),
    ),
    api_row(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        "offset_for_leader_epoch",
        (*on_cluster(CLUSTER_ACTION), *on_topic(DESCRIBE)),
        gate="record_gates",
        echo=echoing(
            Items(request_field="topics", response_field="topics", named_by=("topic",)),
            Items(request_field="partitions", response_field="partitions", named_by=("partition",)),
        ),
    ),
    api_row(
        ApiKey.DELETE_RECORDS,
        "delete_records",
        on_topic(DELETE),
        gate="record_gates",
        echo=echoing(_PER_TOPIC, _PER_PARTITION, low_watermark=-1),
    ),
    api_row(
        ApiKey.INIT_PRODUCER_ID,
        "producers",
        (*on_transaction(WRITE), *on_cluster(IDEMPOTENT_WRITE), *on_topic(WRITE)),
        gate="transaction_gates",
        echo=echoing(producer_epoch=-1),
    ),
    api_row(
        ApiKey.DESCRIBE_PRODUCERS,
        "producers",
        on_topic(READ),
        gate="record_gates",
        echo=echoing(_PER_TOPIC, _PER_INDEX),
    ),
    api_row(
        ApiKey.WRITE_TXN_MARKERS,
        "write_txn_markers",
        on_cluster(ALTER, CLUSTER_ACTION),
        echo=echoing(
            Items(request_field="markers", response_field="markers", named_by=("producer_id",)),
            Items(request_field="topics", response_field="topics", named_by=("name",)),
            _PER_INDEX,
        ),
        quota=QuotaKind.NONE,
        max_elements=MAX_REQUEST_ELEMENTS,
    ),
    # Transactions
    api_row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "transactions",
        (*on_transaction(WRITE), *on_topic(WRITE), *on_cluster(CLUSTER_ACTION)),
        gate="transaction_gates",
        has_own_echo=True,
        pieces=(
            (
                Items(
                    request_field="transactions",
                    response_field="results_by_transaction",
                    named_by=("transactional_id",),
                ),
            ),
        ),
        max_elements=MAX_ELEMENTS,
    ),
    api_row(
        ApiKey.ADD_OFFSETS_TO_TXN,
        "transactions",
        (*on_transaction(WRITE), *on_group(READ)),
        gate="transaction_gates",
    ),
    api_row(ApiKey.END_TXN, "transactions", on_transaction(WRITE), gate="transaction_gates"),
    api_row(
        ApiKey.DESCRIBE_TRANSACTIONS,
        "transactions",
        (*on_transaction(DESCRIBE), *on_topic(DESCRIBE)),
        gate="transaction_gates",
        echo=echoing(
            Items(
                request_field="transactional_ids",
                response_field="transaction_states",
                value="transactional_id",
            )
        ),
    ),
    api_row(
        ApiKey.LIST_TRANSACTIONS, "transactions", on_transaction(DESCRIBE), gate="transaction_gates"
    ),
    # Versions, logins and the cluster
    api_row(
        ApiKey.API_VERSIONS,
        "api_versions",
        NO_PERMISSION,
        sides=BOTH,
        max_elements=0,
        max_put_off_ms=NEVER_PUT_OFF,
    ),
    api_row(
        ApiKey.SASL_HANDSHAKE,
        "sasl",
        NO_PERMISSION,
        sides=BOTH,
        max_elements=0,
        max_put_off_ms=NEVER_PUT_OFF,
    ),
    api_row(
        ApiKey.SASL_AUTHENTICATE,
        "sasl",
        NO_PERMISSION,
        sides=BOTH,
        max_elements=0,
        max_put_off_ms=NEVER_PUT_OFF,
    ),
    api_row(
        ApiKey.METADATA,
        handle_metadata,
        (*on_topic(DESCRIBE, CREATE), *on_cluster(CREATE, DESCRIBE)),
        gate=None,
        echo=echoing(_PER_TOPIC_OR_ID),
    ),
    api_row(
        ApiKey.DESCRIBE_CLUSTER,
        "cluster",
        on_cluster(ALTER, DESCRIBE),
        gate=None,
        controller_gate="config_gates",
        sides=BOTH,
    ),
    api_row(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "describe_topic_partitions",
        on_topic(DESCRIBE),
        gate=None,
        echo=echoing(_PER_TOPIC),
        pieces=(),
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    api_row(
        ApiKey.DESCRIBE_QUORUM, "quorum", on_cluster(DESCRIBE), sides=BOTH, is_forwardable=True
    ),
    api_row(
        ApiKey.DESCRIBE_LOG_DIRS, "log_dirs", on_cluster(DESCRIBE), max_elements=MAX_PLAIN_ELEMENTS
    ),
    # Groups
    api_row(
        ApiKey.FIND_COORDINATOR,
        "find_coordinator",
        (*on_group(DESCRIBE), *on_transaction(DESCRIBE), *on_cluster(CLUSTER_ACTION)),
        gate="group_gates",
        has_own_echo=True,
        pieces=(
            (Items(request_field="coordinator_keys", response_field="coordinators", value="key"),),
        ),
    ),
    member_row(ApiKey.JOIN_GROUP, "groups.membership", on_group(READ)),
    member_row(ApiKey.SYNC_GROUP, "groups.membership", on_group(READ), gate="group_gates"),
    member_row(ApiKey.HEARTBEAT, "groups.membership", on_group(READ)),
    member_row(ApiKey.LEAVE_GROUP, "groups.membership", on_group(READ)),
    member_row(
        ApiKey.OFFSET_COMMIT,
        "groups.offset_commit",
        (*on_group(READ), *on_topic(READ)),
        gate="group_gates",
        echo=echoing(_PER_TOPIC_OR_ID, _PER_PARTITION),
    ),
    api_row(
        ApiKey.TXN_OFFSET_COMMIT,
        "groups.txn_offset_commit",
        (*on_transaction(WRITE), *on_group(READ), *on_topic(READ)),
        gate="transaction_gates",
        echo=echoing(_PER_TOPIC, _PER_PARTITION),
    ),
    member_row(
        ApiKey.OFFSET_FETCH,
        "groups.offset_fetch",
        (*on_group(DESCRIBE), *on_topic(DESCRIBE)),
        gate="group_gates",
        has_own_echo=True,
        pieces=_COMMITTED,
    ),
    api_row(
        ApiKey.OFFSET_DELETE,
        "groups.offset_delete",
        (*on_group(DELETE), *on_topic(READ)),
        gate="group_gates",
        pieces=((_PER_TOPIC, _PER_PARTITION),),
    ),
    api_row(
        ApiKey.LIST_GROUPS,
        "groups.admin",
        (*on_cluster(DESCRIBE), *on_group(DESCRIBE)),
        gate="group_gates",
    ),
    api_row(
        ApiKey.DESCRIBE_GROUPS,
        "groups.admin",
        on_group(DESCRIBE),
        gate="group_gates",
        echo=echoing(Items(request_field="groups", response_field="groups", value="group_id")),
    ),
    member_row(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "groups.consumer",
        (*on_group(READ), *on_topic(DESCRIBE)),
        gate="group_gates",
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    api_row(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        "groups.consumer",
        (*on_group(DESCRIBE), *on_topic(DESCRIBE)),
        gate="group_gates",
        echo=echoing(Items(request_field="group_ids", response_field="groups", value="group_id")),
    ),
    api_row(
        ApiKey.SHARE_FETCH,
        "share.fetch",
        (*on_group(READ), *on_topic(READ)),
        gate="group_gates",
        quota=QuotaKind.FETCH,
        max_elements=MAX_ELEMENTS_IN_PIECES,
        max_put_off_ms=NEVER_PUT_OFF,
    ),
    api_row(
        ApiKey.SHARE_ACKNOWLEDGE,
        "share.acknowledge",
        (*on_group(READ), *on_topic(READ)),
        gate="group_gates",
        max_elements=MAX_ELEMENTS_IN_PIECES,
    ),
    api_row(
        ApiKey.DELETE_GROUPS,
        "groups.admin",
        on_group(DELETE),
        gate="group_gates",
        echo=echoing(
            Items(request_field="groups_names", response_field="results", value="group_id")
        ),
    ),
    # Topics
    forwarded_row(
        ApiKey.CREATE_TOPICS,
        "topics",
        (*on_cluster(CREATE), *on_topic(CREATE, DESCRIBE_CONFIGS)),
        gate="topic_gates",
        echo=echoing(_PER_TOPIC),
        quota=_MUTATION,
        is_each_named_once=True,
    ),
    forwarded_row(
        ApiKey.DELETE_TOPICS,
        "topics",
        (*on_cluster(DELETE), *on_topic(DELETE, DESCRIBE)),
        gate="topic_gates",
        has_own_echo=True,
        quota=_MUTATION,
        pieces=_DELETED,
        is_each_named_once=True,
    ),
    forwarded_row(
        ApiKey.CREATE_PARTITIONS,
        "topics",
        on_topic(ALTER),
        gate="topic_gates",
        echo=echoing(Items(request_field="topics", response_field="results", named_by=("name",))),
        quota=_MUTATION,
        is_each_named_once=True,
    ),
    forwarded_row(
        ApiKey.ELECT_LEADERS,
        "placement",
        on_cluster(ALTER),
        echo=echoing(
            Items(
                request_field="topic_partitions",
                response_field="replica_election_results",
                named_by=("topic",),
            ),
            Items(
                request_field="partitions", response_field="partition_result", value="partition_id"
            ),
        ),
    ),
    forwarded_row(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "placement",
        on_cluster(ALTER),
        pieces=(
            (
                Items(request_field="topics", response_field="responses", named_by=("name",)),
                _PER_PARTITION,
            ),
        ),
    ),
    forwarded_row(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        "placement",
        on_cluster(DESCRIBE),
        pieces=((_PER_TOPIC, _PER_INDEX),),
    ),
    api_row(ApiKey.ALTER_REPLICA_LOG_DIRS, "log_dirs", on_cluster(ALTER), has_own_echo=True),
    # Share groups
    member_row(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        "share.groups",
        (*on_group(READ), *on_topic(DESCRIBE)),
        gate="group_gates",
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    api_row(
        ApiKey.SHARE_GROUP_DESCRIBE,
        "share.groups",
        (*on_group(DESCRIBE), *on_topic(DESCRIBE)),
        gate="group_gates",
        echo=echoing(Items(request_field="group_ids", response_field="groups", value="group_id")),
    ),
    api_row(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        "share.group_offsets",
        (*on_group(DESCRIBE), *on_topic(DESCRIBE)),
        gate="group_gates",
        echo=echoing(
            Items(request_field="groups", response_field="groups", named_by=("group_id",))
        ),
    ),
    api_row(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        "share.groups",
        (*on_group(READ), *on_topic(READ)),
        gate="group_gates",
    ),
    api_row(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        "share.groups",
        (*on_group(DELETE), *on_topic(READ)),
        gate="group_gates",
    ),
    # Streams groups
    member_row(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        "groups.streams",
        (*on_group(READ), *on_topic(DESCRIBE, CREATE), *on_cluster(CREATE)),
        gate="group_gates",
        max_elements=MAX_PLAIN_ELEMENTS,
    ),
    api_row(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        "groups.streams",
        (*on_group(DESCRIBE), *on_topic(DESCRIBE)),
        gate="group_gates",
        echo=echoing(Items(request_field="group_ids", response_field="groups", value="group_id")),
    ),
    # Requests of brokers to share coordinators
    api_row(
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        "share.states",
        on_cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    api_row(
        ApiKey.READ_SHARE_GROUP_STATE,
        "share.states",
        on_cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    api_row(
        ApiKey.WRITE_SHARE_GROUP_STATE,
        "share.states",
        on_cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    api_row(
        ApiKey.DELETE_SHARE_GROUP_STATE,
        "share.states",
        on_cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    api_row(
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        "share.states",
        on_cluster(CLUSTER_ACTION),
        echo=_PER_SHARE_STATE,
    ),
    # Configuration and the cluster
    api_row(
        ApiKey.DESCRIBE_CONFIGS,
        "configs",
        (*on_topic(DESCRIBE_CONFIGS), *on_group(DESCRIBE_CONFIGS), *on_cluster(DESCRIBE_CONFIGS)),
        gate="config_gates",
        echo=_per_resource("results"),
        sides=BOTH,
        item_weight=16,
    ),
    forwarded_row(
        ApiKey.ALTER_CONFIGS,
        "configs",
        (*on_topic(ALTER_CONFIGS), *on_group(ALTER_CONFIGS), *on_cluster(ALTER_CONFIGS, ALTER)),
        gate="config_gates",
        echo=_per_resource("responses"),
        is_each_named_once=True,
    ),
    api_row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "configs",
        (
            *on_topic(ALTER_CONFIGS),
            *on_group(ALTER_CONFIGS),
            *on_cluster(ALTER_CONFIGS, ALTER, CLUSTER_ACTION),
        ),
        gate=gate_of("config_gates", "alter_loggers"),
        controller_gate="config_gates",
        echo=_per_resource("responses"),
        sides=BOTH,
        is_forwardable=True,
        is_each_named_once=True,
    ),
    api_row(ApiKey.LIST_CONFIG_RESOURCES, "configs", on_cluster(DESCRIBE_CONFIGS)),
    api_row(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        "client_quotas",
        on_cluster(DESCRIBE_CONFIGS),
        has_own_echo=True,
    ),
    forwarded_row(
        ApiKey.ALTER_CLIENT_QUOTAS, "client_quotas", on_cluster(ALTER_CONFIGS), has_own_echo=True
    ),
    api_row(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry", NO_PERMISSION),
    api_row(ApiKey.PUSH_TELEMETRY, "telemetry", NO_PERMISSION),
    api_row(ApiKey.DESCRIBE_ACLS, "acls", on_cluster(DESCRIBE), sides=BOTH),
    forwarded_row(
        ApiKey.CREATE_ACLS,
        "acls",
        on_cluster(ALTER),
        echo=echoing(Items(request_field="creations", response_field="results")),
    ),
    forwarded_row(
        ApiKey.DELETE_ACLS,
        "acls",
        on_cluster(ALTER),
        echo=echoing(Items(request_field="filters", response_field="filter_results")),
    ),
    api_row(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        "scram_users",
        on_cluster(DESCRIBE),
        has_own_echo=True,
    ),
    forwarded_row(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "scram_users",
        on_cluster(ALTER),
        has_own_echo=True,
        max_elements=500,
    ),
    api_row(
        ApiKey.CREATE_DELEGATION_TOKEN,
        "delegation_tokens",
        on_user(AclOperation.CREATE_TOKENS),
        gate="token_gates",
        has_own_echo=True,
        sides=BOTH,
        is_forwardable=True,
    ),
    api_row(
        ApiKey.RENEW_DELEGATION_TOKEN,
        "delegation_tokens",
        NO_PERMISSION,
        has_own_echo=True,
        sides=BOTH,
        is_forwardable=True,
    ),
    api_row(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        "delegation_tokens",
        NO_PERMISSION,
        has_own_echo=True,
        sides=BOTH,
        is_forwardable=True,
    ),
    api_row(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        "delegation_tokens",
        (
            *on_user(AclOperation.DESCRIBE_TOKENS),
            Permission(DESCRIBE, AclResource.DELEGATION_TOKEN),
        ),
        gate=None,
    ),
    forwarded_row(ApiKey.UPDATE_FEATURES, "cluster", on_cluster(ALTER)),
    forwarded_row(ApiKey.UNREGISTER_BROKER, "cluster", on_cluster(ALTER)),
    forwarded_row(ApiKey.ADD_RAFT_VOTER, "quorum", on_cluster(ALTER)),
    forwarded_row(ApiKey.REMOVE_RAFT_VOTER, "quorum", on_cluster(ALTER)),
    # Requests of nodes to the controller
    node_row(ApiKey.ALTER_PARTITION, "controller_requests"),
    node_row(ApiKey.BROKER_REGISTRATION, "controller_requests"),
    node_row(ApiKey.BROKER_HEARTBEAT, "controller_requests"),
    node_row(ApiKey.ALLOCATE_PRODUCER_IDS, "controller_requests", is_forwardable=True),
    node_row(ApiKey.CONTROLLER_REGISTRATION, "controller_requests"),
    node_row(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "controller_requests"),
    node_row(ApiKey.ENVELOPE, "envelope"),
    # Requests between replicas of the metadata log
    node_row(ApiKey.VOTE, "raft"),
    node_row(ApiKey.BEGIN_QUORUM_EPOCH, "raft"),
    node_row(ApiKey.END_QUORUM_EPOCH, "raft"),
    node_row(ApiKey.FETCH_SNAPSHOT, "raft"),
    node_row(ApiKey.UPDATE_RAFT_VOTER, "raft"),
    # Ours
    api_row(
        ApiKey.TIDELOG_MAINTENANCE,
        "maintenance",
        on_cluster(ALTER, CLUSTER_ACTION) + on_topic(ALTER),
        gate="topic_gates",
        max_elements=2_000,
    ),
    api_row(
        ApiKey.TIDELOG_SHARE_RECORDS,
        "share.records",
        (*on_group(DESCRIBE), *on_topic(DESCRIBE)),
        gate="group_gates",
        max_elements=2_000,
    ),
)

REGISTRY: Mapping[ApiKey, Api] = MappingProxyType(
    {row.key: row for row in sorted(_ROWS, key=lambda row: row.key)}
)
"""The rows by key, in the order of keys."""
