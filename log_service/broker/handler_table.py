"""THE table of handlers: which function answers which API. An API that is not here is not served.

What every client asks first is imported with the node. The other handlers are imported, with their messages, when they are first asked for
or when ``warm_up`` comes to them: a node that starts has its first records acknowledged in the time that importing them all takes.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from log_service.broker.call import Call, Handler, Reply
from log_service.broker.handlers.api_versions import handle_api_versions
from log_service.broker.handlers.fetch import handle_fetch
from log_service.broker.handlers.metadata import handle_metadata
from log_service.broker.handlers.produce import handle_produce
from log_service.broker.node import Node
from log_service.protocol.api_versions import ApiKey


class OnDemand:
    """A handler that is imported when it is first called: function ``name`` of a module of ``broker.handlers``."""

    __slots__ = ("_handler", "module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self._handler: Handler | None = None

    def __repr__(self) -> str:
        return f"<OnDemand {self.module}.{self.name}{'' if self._handler is None else ' loaded'}>"

    def load(self) -> Handler:
        """Return the function, importing it the first time."""
        if self._handler is None:
            handler: Handler = getattr(import_module(f"log_service.broker.handlers.{self.module}"), self.name)
            self._handler = handler
        return self._handler

    def __call__(self, node: Node, call: Call, request: Any) -> Reply:
        """Answer, as the function does."""
        return (self._handler or self.load())(node, call, request)


HANDLERS: Mapping[ApiKey, Handler] = MappingProxyType(
    {
        ApiKey.PRODUCE: handle_produce,
        ApiKey.FETCH: handle_fetch,
        ApiKey.LIST_OFFSETS: OnDemand("list_offsets", "handle_list_offsets"),
        ApiKey.METADATA: handle_metadata,
        ApiKey.OFFSET_COMMIT: OnDemand("offset_commit", "handle_offset_commit"),
        ApiKey.OFFSET_FETCH: OnDemand("offset_fetch", "handle_offset_fetch"),
        ApiKey.FIND_COORDINATOR: OnDemand("find_coordinator", "handle_find_coordinator"),
        ApiKey.JOIN_GROUP: OnDemand("group_membership", "handle_join_group"),
        ApiKey.HEARTBEAT: OnDemand("group_membership", "handle_heartbeat"),
        ApiKey.LEAVE_GROUP: OnDemand("group_membership", "handle_leave_group"),
        ApiKey.SYNC_GROUP: OnDemand("group_membership", "handle_sync_group"),
        ApiKey.DESCRIBE_GROUPS: OnDemand("group_admin", "handle_describe_groups"),
        ApiKey.LIST_GROUPS: OnDemand("group_admin", "handle_list_groups"),
        ApiKey.API_VERSIONS: handle_api_versions,
        ApiKey.CREATE_TOPICS: OnDemand("create_topics", "handle_create_topics"),
        ApiKey.DELETE_TOPICS: OnDemand("delete_topics", "handle_delete_topics"),
        ApiKey.DELETE_RECORDS: OnDemand("delete_records", "handle_delete_records"),
        ApiKey.INIT_PRODUCER_ID: OnDemand("init_producer_id", "handle_init_producer_id"),
        ApiKey.OFFSET_DELETE: OnDemand("offset_delete", "handle_offset_delete"),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: OnDemand("offset_for_leader_epoch", "handle_offset_for_leader_epoch"),
        ApiKey.DESCRIBE_ACLS: OnDemand("acls", "handle_describe_acls"),
        ApiKey.CREATE_ACLS: OnDemand("acls", "handle_create_acls"),
        ApiKey.DELETE_ACLS: OnDemand("acls", "handle_delete_acls"),
        ApiKey.DESCRIBE_CONFIGS: OnDemand("describe_configs", "handle_describe_configs"),
        ApiKey.CREATE_PARTITIONS: OnDemand("create_partitions", "handle_create_partitions"),
        ApiKey.DELETE_GROUPS: OnDemand("group_admin", "handle_delete_groups"),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: OnDemand("incremental_alter_configs", "handle_incremental_alter_configs"),
        ApiKey.DESCRIBE_CLUSTER: OnDemand("describe_cluster", "handle_describe_cluster"),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: OnDemand("describe_topic_partitions", "handle_describe_topic_partitions"),
        ApiKey.ALTER_CONFIGS: OnDemand("alter_configs", "handle_alter_configs"),
        ApiKey.ALTER_REPLICA_LOG_DIRS: OnDemand("alter_replica_log_dirs", "handle_alter_replica_log_dirs"),
        ApiKey.DESCRIBE_LOG_DIRS: OnDemand("describe_log_dirs", "handle_describe_log_dirs"),
        ApiKey.ELECT_LEADERS: OnDemand("elect_leaders", "handle_elect_leaders"),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: OnDemand("partition_reassignments", "handle_alter_partition_reassignments"),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: OnDemand("partition_reassignments", "handle_list_partition_reassignments"),
        ApiKey.DESCRIBE_QUORUM: OnDemand("describe_quorum", "handle_describe_quorum"),
        ApiKey.UPDATE_FEATURES: OnDemand("update_features", "handle_update_features"),
        ApiKey.DESCRIBE_PRODUCERS: OnDemand("describe_producers", "handle_describe_producers"),
        ApiKey.UNREGISTER_BROKER: OnDemand("unregister_broker", "handle_unregister_broker"),
        ApiKey.LIST_CONFIG_RESOURCES: OnDemand("list_config_resources", "handle_list_config_resources"),
        ApiKey.ADD_RAFT_VOTER: OnDemand("raft_voters", "handle_add_raft_voter"),
        ApiKey.REMOVE_RAFT_VOTER: OnDemand("raft_voters", "handle_remove_raft_voter"),
        ApiKey.TIDELOG_MAINTENANCE: OnDemand("maintenance", "handle_maintenance"),
    }
)
