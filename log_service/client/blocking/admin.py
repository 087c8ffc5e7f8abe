"""The admin for programs without an event loop.

It has the same methods without ``await``, and any thread may call them. Each method is one call
through a ``Portal`` into the thread that runs the admin.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from log_service.client.admin.admin import Admin
from log_service.client.blocking.calls import Blocking, blocking
from log_service.client.consumer.range_reader import DEFAULT_MAX_BYTES, RawBatches, read_range
from log_service.common.types import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")


class BlockingAdmin(Blocking[Admin]):
    """``Admin`` for threads."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(Admin(bootstrap_servers, **settings))

    create_topics = blocking(Admin.create_topics)
    describe_new_topic = blocking(Admin.describe_new_topic)
    delete_topics = blocking(Admin.delete_topics)
    create_partitions = blocking(Admin.create_partitions)
    list_topics = blocking(Admin.list_topics)
    describe_topics = blocking(Admin.describe_topics)
    describe_topic_operations = blocking(Admin.describe_topic_operations)
    describe_cluster = blocking(Admin.describe_cluster)
    describe_brokers = blocking(Admin.describe_brokers)
    describe_configs = blocking(Admin.describe_configs)
    alter_configs = blocking(Admin.alter_configs)
    apply_compaction = blocking(Admin.apply_compaction)
    apply_retention = blocking(Admin.apply_retention)
    list_config_resources = blocking(Admin.list_config_resources)
    describe_client_quotas = blocking(Admin.describe_client_quotas)
    alter_client_quotas = blocking(Admin.alter_client_quotas)
    describe_log_dirs = blocking(Admin.describe_log_dirs)
    alter_replica_log_dirs = blocking(Admin.alter_replica_log_dirs)
    elect_leaders = blocking(Admin.elect_leaders)
    alter_partition_reassignments = blocking(Admin.alter_partition_reassignments)
    list_partition_reassignments = blocking(Admin.list_partition_reassignments)
    describe_producers = blocking(Admin.describe_producers)
    describe_metadata_quorum = blocking(Admin.describe_metadata_quorum)
    describe_features = blocking(Admin.describe_features)
    describe_api_versions = blocking(Admin.describe_api_versions)
    update_features = blocking(Admin.update_features)
    unregister_broker = blocking(Admin.unregister_broker)
    add_raft_voter = blocking(Admin.add_raft_voter)
    remove_raft_voter = blocking(Admin.remove_raft_voter)
    list_offsets = blocking(Admin.list_offsets)
    describe_offsets = blocking(Admin.describe_offsets)
    wait_for_records = blocking(Admin.wait_for_records)
    offsets_for_leader_epoch = blocking(Admin.offsets_for_leader_epoch)
    delete_records = blocking(Admin.delete_records)
    list_groups = blocking(Admin.list_groups)
    describe_groups = blocking(Admin.describe_groups)
    delete_groups = blocking(Admin.delete_groups)
    list_group_offsets = blocking(Admin.list_group_offsets)
    alter_group_offsets = blocking(Admin.alter_group_offsets)
    delete_group_offsets = blocking(Admin.delete_group_offsets)
    describe_share_groups = blocking(Admin.describe_share_groups)
    list_share_group_offsets = blocking(Admin.list_share_group_offsets)
    describe_share_records = blocking(Admin.describe_share_records)
    release_share_records = blocking(Admin.release_share_records)
    alter_share_group_offsets = blocking(Admin.alter_share_group_offsets)
    delete_share_group_offsets = blocking(Admin.delete_share_group_offsets)
    list_transactions = blocking(Admin.list_transactions)
    describe_transactions = blocking(Admin.describe_transactions)
    find_hanging_transactions = blocking(Admin.find_hanging_transactions)
    abort_transaction = blocking(Admin.abort_transaction)
    set_scram_users = blocking(Admin.set_scram_users)
    remove_scram_users = blocking(Admin.remove_scram_users)
    describe_scram_users = blocking(Admin.describe_scram_users)
    create_acls = blocking(Admin.create_acls)
    describe_acls = blocking(Admin.describe_acls)
    delete_acls = blocking(Admin.delete_acls)
    create_delegation_token = blocking(Admin.create_delegation_token)
    renew_delegation_token = blocking(Admin.renew_delegation_token)
    expire_delegation_token = blocking(Admin.expire_delegation_token)
    describe_delegation_tokens = blocking(Admin.describe_delegation_tokens)

    def run(
        self,
        function: Callable[Concatenate[Admin, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an async function in the admin's thread, and return its result.

        The function gets the ``Admin`` itself, so that a program with threads can use code for
        trio. Ctrl-C cancels the function. Raises its exceptions, and as ``Portal.call``.
        """
        return self._portal.call(partial(function, self._client, *args, **kwargs))

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
    ) -> Iterator[RawBatches]:
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
        return self._portal.iterate(source)
