"""The admin for programs on asyncio.

Each method is one call through a ``Bridge`` into the thread that runs the admin.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any
from uuid import UUID

from log_service.client.admin.admin import Admin
from log_service.client.asyncio.calls import OnAsyncio, awaited
from log_service.client.consumer.range_reader import DEFAULT_MAX_BYTES, RawBatches, read_range
from log_service.common.types import TopicPartition


class AsyncioAdmin(OnAsyncio[Admin]):
    """``Admin`` for tasks on asyncio."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(Admin(bootstrap_servers, **settings))

    create_topics = awaited(Admin.create_topics)
    describe_new_topic = awaited(Admin.describe_new_topic)
    delete_topics = awaited(Admin.delete_topics)
    create_partitions = awaited(Admin.create_partitions)
    list_topics = awaited(Admin.list_topics)
    describe_topics = awaited(Admin.describe_topics)
    describe_topic_operations = awaited(Admin.describe_topic_operations)
    describe_cluster = awaited(Admin.describe_cluster)
    describe_brokers = awaited(Admin.describe_brokers)
    describe_configs = awaited(Admin.describe_configs)
    alter_configs = awaited(Admin.alter_configs)
    apply_compaction = awaited(Admin.apply_compaction)
    apply_retention = awaited(Admin.apply_retention)
    list_config_resources = awaited(Admin.list_config_resources)
    describe_client_quotas = awaited(Admin.describe_client_quotas)
    alter_client_quotas = awaited(Admin.alter_client_quotas)
    describe_log_dirs = awaited(Admin.describe_log_dirs)
    alter_replica_log_dirs = awaited(Admin.alter_replica_log_dirs)
    elect_leaders = awaited(Admin.elect_leaders)
    alter_partition_reassignments = awaited(Admin.alter_partition_reassignments)
    list_partition_reassignments = awaited(Admin.list_partition_reassignments)
    describe_producers = awaited(Admin.describe_producers)
    describe_metadata_quorum = awaited(Admin.describe_metadata_quorum)
    describe_features = awaited(Admin.describe_features)
    describe_api_versions = awaited(Admin.describe_api_versions)
    update_features = awaited(Admin.update_features)
    unregister_broker = awaited(Admin.unregister_broker)
    add_raft_voter = awaited(Admin.add_raft_voter)
    remove_raft_voter = awaited(Admin.remove_raft_voter)
    list_offsets = awaited(Admin.list_offsets)
    describe_offsets = awaited(Admin.describe_offsets)
    wait_for_records = awaited(Admin.wait_for_records)
    offsets_for_leader_epoch = awaited(Admin.offsets_for_leader_epoch)
    delete_records = awaited(Admin.delete_records)
    list_groups = awaited(Admin.list_groups)
    describe_groups = awaited(Admin.describe_groups)
    delete_groups = awaited(Admin.delete_groups)
    list_group_offsets = awaited(Admin.list_group_offsets)
    alter_group_offsets = awaited(Admin.alter_group_offsets)
    delete_group_offsets = awaited(Admin.delete_group_offsets)
    describe_share_groups = awaited(Admin.describe_share_groups)
    list_share_group_offsets = awaited(Admin.list_share_group_offsets)
    describe_share_records = awaited(Admin.describe_share_records)
    release_share_records = awaited(Admin.release_share_records)
    alter_share_group_offsets = awaited(Admin.alter_share_group_offsets)
    delete_share_group_offsets = awaited(Admin.delete_share_group_offsets)
    list_transactions = awaited(Admin.list_transactions)
    describe_transactions = awaited(Admin.describe_transactions)
    find_hanging_transactions = awaited(Admin.find_hanging_transactions)
    abort_transaction = awaited(Admin.abort_transaction)
    set_scram_users = awaited(Admin.set_scram_users)
    remove_scram_users = awaited(Admin.remove_scram_users)
    describe_scram_users = awaited(Admin.describe_scram_users)
    create_acls = awaited(Admin.create_acls)
    describe_acls = awaited(Admin.describe_acls)
    delete_acls = awaited(Admin.delete_acls)
    create_delegation_token = awaited(Admin.create_delegation_token)
    renew_delegation_token = awaited(Admin.renew_delegation_token)
    expire_delegation_token = awaited(Admin.expire_delegation_token)
    describe_delegation_tokens = awaited(Admin.describe_delegation_tokens)

    def read_range(
        self,
        topic_partition: TopicPartition,
        start: int,
        end: int,
        *,
        isolation_level: str = "read_committed",
        max_bytes: int = DEFAULT_MAX_BYTES,
        check_crcs: bool = True,
        timeout_ms: int | None = None,
        topic_id: UUID | None = None,
    ) -> AsyncIterator[RawBatches]:
        """Yield the batches of the offsets [start, end); see ``range_reader.read_range``."""
        source = read_range(
            self._client,
            topic_partition,
            start,
            end,
            isolation_level=isolation_level,
            max_bytes=max_bytes,
            check_crcs=check_crcs,
            timeout_ms=timeout_ms,
            topic_id=topic_id,
        )
        return self._bridge.iterate(source)
