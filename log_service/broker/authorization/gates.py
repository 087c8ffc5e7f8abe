"""The table of gates: for each API, the gate on a broker's and on a controller's listener.

A test fails if an API has no row. The permissions are those of Apache Kafka 4.3, which
``broker.registry`` names per API.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from log_service.broker.authorization import config_gates, group_gates, record_gates, token_gates, topic_gates, transaction_gates
from log_service.broker.authorization.gate_shapes import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_ACTION,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    Gate,
    Question,
    no_gate,
    on_cluster,
    on_group,
)
from log_service.metadata.features import has_consumer_groups, has_share_groups, has_streams_groups
from log_service.protocol.api_versions import ApiKey


class Gates(NamedTuple):
    """The gates of one API on the listeners of brokers and of controllers.

    The second also guards requests that a controller decides on for its own node.
    """

    broker: Gate = no_gate
    controller: Gate = no_gate


BETWEEN_NODES = on_cluster(CLUSTER_ACTION)
BY_ALTER = on_cluster(ALTER)
BY_DESCRIBE = on_cluster(DESCRIBE)
READS_GROUP = on_group(READ)


def decided_by_controller(gate: Gate) -> Gates:
    """Return the gates of an API that brokers forward, so only the active controller checks."""
    return Gates(controller=gate)


def _is_consumer_protocol_on(question: Question) -> bool:
    return question.config.groups.consumer.is_enabled and has_consumer_groups(question.image.features)


def _is_share_protocol_on(question: Question) -> bool:
    return has_share_groups(question.image.features)


def _is_streams_protocol_on(question: Question) -> bool:
    return question.config.groups.streams.is_enabled and has_streams_groups(question.image.features)


GATES: Mapping[ApiKey, Gates] = MappingProxyType(
    {
        # Records
        ApiKey.PRODUCE: Gates(record_gates.produce),
        # The handler checks the topics of a consumer's session.
        ApiKey.FETCH: Gates(broker=no_gate, controller=BETWEEN_NODES),
        ApiKey.LIST_OFFSETS: Gates(record_gates.list_offsets),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Gates(record_gates.offset_for_leader_epoch),
        ApiKey.DELETE_RECORDS: Gates(record_gates.delete_records),
        ApiKey.DESCRIBE_PRODUCERS: Gates(record_gates.describe_producers),
        ApiKey.WRITE_TXN_MARKERS: Gates(on_cluster(ALTER, CLUSTER_ACTION)),
        # Transactions
        ApiKey.INIT_PRODUCER_ID: Gates(transaction_gates.init_producer_id),
        ApiKey.ADD_PARTITIONS_TO_TXN: Gates(transaction_gates.add_partitions_to_txn),
        ApiKey.ADD_OFFSETS_TO_TXN: Gates(transaction_gates.add_offsets_to_txn),
        ApiKey.END_TXN: Gates(transaction_gates.end_txn),
        ApiKey.TXN_OFFSET_COMMIT: Gates(transaction_gates.txn_offset_commit),
        ApiKey.DESCRIBE_TRANSACTIONS: Gates(transaction_gates.describe_transactions),
        ApiKey.LIST_TRANSACTIONS: Gates(transaction_gates.list_transactions),
        # Discovery
        ApiKey.API_VERSIONS: Gates(),
        ApiKey.SASL_HANDSHAKE: Gates(),
        ApiKey.SASL_AUTHENTICATE: Gates(),
        ApiKey.METADATA: Gates(),  # its handler checks, because it creates topics
        ApiKey.DESCRIBE_CLUSTER: Gates(controller=BY_ALTER),
        # Its handler checks, because it counts the shown partitions.
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: Gates(),
        ApiKey.DESCRIBE_QUORUM: Gates(BY_DESCRIBE, BY_DESCRIBE),
        ApiKey.DESCRIBE_LOG_DIRS: Gates(BY_DESCRIBE),
        # Groups
        ApiKey.FIND_COORDINATOR: Gates(group_gates.find_coordinator),
        ApiKey.JOIN_GROUP: Gates(READS_GROUP),
        ApiKey.SYNC_GROUP: Gates(group_gates.sync_group),
        ApiKey.HEARTBEAT: Gates(READS_GROUP),
        ApiKey.LEAVE_GROUP: Gates(READS_GROUP),
        ApiKey.OFFSET_COMMIT: Gates(group_gates.offset_commit),
        ApiKey.OFFSET_FETCH: Gates(group_gates.offset_fetch),
        ApiKey.OFFSET_DELETE: Gates(group_gates.offset_delete),
        ApiKey.LIST_GROUPS: Gates(group_gates.list_groups),
        ApiKey.DESCRIBE_GROUPS: Gates(group_gates.describe_of("groups", group_gates.no_topics)),
        ApiKey.DELETE_GROUPS: Gates(group_gates.delete_groups),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: Gates(group_gates.heartbeat_of(_is_consumer_protocol_on)),
        ApiKey.CONSUMER_GROUP_DESCRIBE: Gates(group_gates.describe_of("group_ids", group_gates.assigned_topics)),
        # Share groups
        ApiKey.SHARE_GROUP_HEARTBEAT: Gates(group_gates.heartbeat_of(_is_share_protocol_on)),
        ApiKey.SHARE_GROUP_DESCRIBE: Gates(group_gates.describe_of("group_ids", group_gates.assigned_topics)),
        ApiKey.SHARE_FETCH: Gates(group_gates.share_session),
        ApiKey.SHARE_ACKNOWLEDGE: Gates(group_gates.share_session),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Gates(group_gates.describe_share_group_offsets),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: Gates(group_gates.alter_share_group_offsets),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: Gates(group_gates.delete_share_group_offsets),
        # Streams groups
        ApiKey.STREAMS_GROUP_HEARTBEAT: Gates(group_gates.streams_heartbeat_of(_is_streams_protocol_on)),
        ApiKey.STREAMS_GROUP_DESCRIBE: Gates(group_gates.describe_of("group_ids", group_gates.topics_of_topology)),
        # From brokers to share coordinators
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: Gates(BETWEEN_NODES),
        ApiKey.READ_SHARE_GROUP_STATE: Gates(BETWEEN_NODES),
        ApiKey.WRITE_SHARE_GROUP_STATE: Gates(BETWEEN_NODES),
        ApiKey.DELETE_SHARE_GROUP_STATE: Gates(BETWEEN_NODES),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Gates(BETWEEN_NODES),
        # Topics
        ApiKey.CREATE_TOPICS: decided_by_controller(topic_gates.create_topics),
        ApiKey.DELETE_TOPICS: decided_by_controller(topic_gates.delete_topics),
        ApiKey.CREATE_PARTITIONS: decided_by_controller(topic_gates.create_partitions),
        ApiKey.ELECT_LEADERS: decided_by_controller(BY_ALTER),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: decided_by_controller(BY_ALTER),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: decided_by_controller(BY_DESCRIBE),
        ApiKey.ALTER_REPLICA_LOG_DIRS: Gates(BY_ALTER),
        # Configuration and the cluster
        ApiKey.DESCRIBE_CONFIGS: Gates(config_gates.describe_configs, config_gates.describe_configs),
        ApiKey.ALTER_CONFIGS: decided_by_controller(config_gates.alter_configs),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: Gates(config_gates.alter_loggers, config_gates.alter_incrementally),
        ApiKey.LIST_CONFIG_RESOURCES: Gates(on_cluster(DESCRIBE_CONFIGS)),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: Gates(on_cluster(DESCRIBE_CONFIGS)),
        ApiKey.ALTER_CLIENT_QUOTAS: decided_by_controller(on_cluster(ALTER_CONFIGS)),
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Gates(),
        ApiKey.PUSH_TELEMETRY: Gates(),
        ApiKey.DESCRIBE_ACLS: Gates(BY_DESCRIBE, BY_DESCRIBE),
        ApiKey.CREATE_ACLS: decided_by_controller(BY_ALTER),
        ApiKey.DELETE_ACLS: decided_by_controller(BY_ALTER),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Gates(BY_DESCRIBE),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: decided_by_controller(BY_ALTER),
        ApiKey.CREATE_DELEGATION_TOKEN: Gates(token_gates.create_token, token_gates.create_token),
        ApiKey.RENEW_DELEGATION_TOKEN: Gates(),
        ApiKey.EXPIRE_DELEGATION_TOKEN: Gates(),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: Gates(),  # its handler checks each token
        ApiKey.UPDATE_FEATURES: decided_by_controller(BY_ALTER),
        ApiKey.UNREGISTER_BROKER: decided_by_controller(BY_ALTER),
        ApiKey.ADD_RAFT_VOTER: decided_by_controller(BY_ALTER),
        ApiKey.REMOVE_RAFT_VOTER: decided_by_controller(BY_ALTER),
        # Between nodes
        ApiKey.ALTER_PARTITION: Gates(controller=BETWEEN_NODES),
        ApiKey.BROKER_REGISTRATION: Gates(controller=BETWEEN_NODES),
        ApiKey.BROKER_HEARTBEAT: Gates(controller=BETWEEN_NODES),
        ApiKey.ALLOCATE_PRODUCER_IDS: Gates(controller=BETWEEN_NODES),
        ApiKey.CONTROLLER_REGISTRATION: Gates(controller=BETWEEN_NODES),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: Gates(controller=BETWEEN_NODES),
        ApiKey.ENVELOPE: Gates(controller=BETWEEN_NODES),
        ApiKey.VOTE: Gates(controller=BETWEEN_NODES),
        ApiKey.BEGIN_QUORUM_EPOCH: Gates(controller=BETWEEN_NODES),
        ApiKey.END_QUORUM_EPOCH: Gates(controller=BETWEEN_NODES),
        ApiKey.FETCH_SNAPSHOT: Gates(controller=BETWEEN_NODES),
        ApiKey.UPDATE_RAFT_VOTER: Gates(controller=BETWEEN_NODES),
        # Ours
        ApiKey.TIDELOG_MAINTENANCE: Gates(topic_gates.maintenance),
    }
)
