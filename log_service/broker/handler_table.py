"""THE table of handlers: which function answers which API. An API that is not here is not served."""

from collections.abc import Mapping
from types import MappingProxyType

from log_service.broker.handlers.alter_configs import handle_alter_configs
from log_service.broker.handlers.alter_replica_log_dirs import handle_alter_replica_log_dirs
from log_service.broker.handlers.api_versions import handle_api_versions
from log_service.broker.handlers.create_partitions import handle_create_partitions
from log_service.broker.handlers.create_topics import handle_create_topics
from log_service.broker.handlers.delete_records import handle_delete_records
from log_service.broker.handlers.delete_topics import handle_delete_topics
from log_service.broker.handlers.describe_cluster import handle_describe_cluster
from log_service.broker.handlers.describe_configs import handle_describe_configs
from log_service.broker.handlers.describe_log_dirs import handle_describe_log_dirs
from log_service.broker.handlers.describe_producers import handle_describe_producers
from log_service.broker.handlers.describe_quorum import handle_describe_quorum
from log_service.broker.handlers.describe_topic_partitions import handle_describe_topic_partitions
from log_service.broker.handlers.elect_leaders import handle_elect_leaders
from log_service.broker.handlers.fetch import handle_fetch
from log_service.broker.handlers.find_coordinator import handle_find_coordinator
from log_service.broker.handlers.group_admin import handle_delete_groups, handle_describe_groups, handle_list_groups
from log_service.broker.handlers.group_membership import handle_heartbeat, handle_join_group, handle_leave_group, handle_sync_group
from log_service.broker.handlers.incremental_alter_configs import handle_incremental_alter_configs
from log_service.broker.handlers.init_producer_id import handle_init_producer_id
from log_service.broker.handlers.list_config_resources import handle_list_config_resources
from log_service.broker.handlers.list_offsets import handle_list_offsets
from log_service.broker.handlers.maintenance import handle_maintenance
from log_service.broker.handlers.metadata import handle_metadata
from log_service.broker.handlers.offset_commit import handle_offset_commit
from log_service.broker.handlers.offset_delete import handle_offset_delete
from log_service.broker.handlers.offset_fetch import handle_offset_fetch
from log_service.broker.handlers.offset_for_leader_epoch import handle_offset_for_leader_epoch
from log_service.broker.handlers.partition_reassignments import handle_alter_partition_reassignments, handle_list_partition_reassignments
from log_service.broker.handlers.produce import handle_produce
from log_service.broker.handlers.raft_voters import handle_add_raft_voter, handle_remove_raft_voter
from log_service.broker.handlers.unregister_broker import handle_unregister_broker
from log_service.broker.handlers.update_features import handle_update_features
from log_service.broker.node import Handler
from log_service.protocol.api_versions import ApiKey

HANDLERS: Mapping[ApiKey, Handler] = MappingProxyType(
    {
        ApiKey.PRODUCE: handle_produce,
        ApiKey.FETCH: handle_fetch,
        ApiKey.LIST_OFFSETS: handle_list_offsets,
        ApiKey.METADATA: handle_metadata,
        ApiKey.OFFSET_COMMIT: handle_offset_commit,
        ApiKey.OFFSET_FETCH: handle_offset_fetch,
        ApiKey.FIND_COORDINATOR: handle_find_coordinator,
        ApiKey.JOIN_GROUP: handle_join_group,
        ApiKey.HEARTBEAT: handle_heartbeat,
        ApiKey.LEAVE_GROUP: handle_leave_group,
        ApiKey.SYNC_GROUP: handle_sync_group,
        ApiKey.DESCRIBE_GROUPS: handle_describe_groups,
        ApiKey.LIST_GROUPS: handle_list_groups,
        ApiKey.API_VERSIONS: handle_api_versions,
        ApiKey.CREATE_TOPICS: handle_create_topics,
        ApiKey.DELETE_TOPICS: handle_delete_topics,
        ApiKey.DELETE_RECORDS: handle_delete_records,
        ApiKey.INIT_PRODUCER_ID: handle_init_producer_id,
        ApiKey.OFFSET_DELETE: handle_offset_delete,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: handle_offset_for_leader_epoch,
        ApiKey.DESCRIBE_CONFIGS: handle_describe_configs,
        ApiKey.CREATE_PARTITIONS: handle_create_partitions,
        ApiKey.DELETE_GROUPS: handle_delete_groups,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: handle_incremental_alter_configs,
        ApiKey.DESCRIBE_CLUSTER: handle_describe_cluster,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: handle_describe_topic_partitions,
        ApiKey.ALTER_CONFIGS: handle_alter_configs,
        ApiKey.ALTER_REPLICA_LOG_DIRS: handle_alter_replica_log_dirs,
        ApiKey.DESCRIBE_LOG_DIRS: handle_describe_log_dirs,
        ApiKey.ELECT_LEADERS: handle_elect_leaders,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: handle_alter_partition_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: handle_list_partition_reassignments,
        ApiKey.DESCRIBE_QUORUM: handle_describe_quorum,
        ApiKey.UPDATE_FEATURES: handle_update_features,
        ApiKey.DESCRIBE_PRODUCERS: handle_describe_producers,
        ApiKey.UNREGISTER_BROKER: handle_unregister_broker,
        ApiKey.LIST_CONFIG_RESOURCES: handle_list_config_resources,
        ApiKey.ADD_RAFT_VOTER: handle_add_raft_voter,
        ApiKey.REMOVE_RAFT_VOTER: handle_remove_raft_voter,
        ApiKey.TIDELOG_MAINTENANCE: handle_maintenance,
    }
)
