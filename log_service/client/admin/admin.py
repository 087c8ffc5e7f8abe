"""The admin describes and changes a cluster: topics, configuration, offsets, groups and more.

Each method calls a function of another module of this package, which sends the requests. Every
method takes ``timeout_ms`` (default ``default_api_timeout_ms``). It limits the whole call, with all
its retries.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from log_service.client import arguments
from log_service.client.admin import cluster, maintenance, offsets, quotas
from log_service.client.admin import topics as topics_and_configs
from log_service.client.admin import transactions as open_transactions
from log_service.client.admin.access_admin import AccessAdmin
from log_service.client.admin.group_admin import GroupAdmin
from log_service.client.admin.values import (
    BrokerDescription,
    ClusterDescription,
    CompactionResult,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ElectionType,
    EpochEnd,
    FeatureDescription,
    FeatureUpdate,
    FoundOffset,
    HangingTransaction,
    LogDirDescription,
    NewTopic,
    OffsetSpec,
    PartitionOffsets,
    ProducerDescription,
    QuorumDescription,
    QuotaEntity,
    RaftVoter,
    Reassignment,
    ResourceType,
    RetentionResult,
    TopicDescription,
    TopicListing,
    TopicOperations,
    TopicPartitionReplica,
    TransactionDescription,
    TransactionListing,
)
from log_service.common.types import TopicId, TopicPartition


class Admin(GroupAdmin, AccessAdmin):
    """Administers a cluster. ``async with`` opens and closes it.

    The keywords are the settings of ``AdminConfig``. A method that takes several items raises
    ``ItemsFailed`` (a ``KafkaError``) if some of them failed. The error carries the errors by item,
    and the results of the other items. If the cluster cannot be reached, a method raises
    ``KafkaError`` NETWORK_EXCEPTION or REQUEST_TIMED_OUT. With ``is_validated_only`` the cluster
    checks the request and changes nothing.
    """

    # Topics and cluster

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        is_validated_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, TopicId]:
        """Create topics, and return their ids once every partition has a leader.

        The error is TOPIC_ALREADY_EXISTS if a topic exists.
        """
        wanted = arguments.all_of(NewTopic, topics, "topics to create")
        return await topics_and_configs.create_topics(
            self.cluster, wanted, self._limit(timeout_ms), is_validated_only=is_validated_only
        )

    async def describe_new_topic(
        self, topic: NewTopic, *, timeout_ms: int | None = None
    ) -> dict[str, ConfigEntry]:
        """Return the configuration that a topic would have, and create nothing.

        The error is TOPIC_ALREADY_EXISTS if the topic exists. Synonyms are not returned.
        """
        return await topics_and_configs.describe_new_topic(
            self.cluster, topic, self._limit(timeout_ms)
        )

    async def delete_topics(self, names: Sequence[str], *, timeout_ms: int | None = None) -> None:
        """Delete topics with all their records.

        The error is UNKNOWN_TOPIC_OR_PARTITION if a topic does not exist.
        """
        await topics_and_configs.delete_topics(
            self.cluster, arguments.names(names, "topics"), self._limit(timeout_ms)
        )

    async def create_partitions(
        self, counts: Mapping[str, int], *, timeout_ms: int | None = None
    ) -> None:
        """Raise each topic's number of partitions to the given count.

        Returns once the new partitions have leaders. The error is INVALID_PARTITIONS if a topic has
        as many partitions already, or more.
        """
        await topics_and_configs.create_partitions(self.cluster, counts, self._limit(timeout_ms))

    async def list_topics(
        self, *, is_internal_included: bool = False, timeout_ms: int | None = None
    ) -> list[TopicListing]:
        """Return all topics, sorted by name. Internal ones need ``is_internal_included``."""
        return await topics_and_configs.list_topics(
            self.cluster, self._limit(timeout_ms), is_internal_included=is_internal_included
        )

    async def describe_topics(
        self, names: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, TopicDescription]:
        """Return the current partitions, leaders and replicas of topics.

        The error is UNKNOWN_TOPIC_OR_PARTITION if a topic does not exist.
        """
        return await topics_and_configs.describe_topics(
            self.cluster, arguments.names(names, "topics"), self._limit(timeout_ms)
        )

    async def describe_topic_operations(
        self, names: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, TopicOperations]:
        """Return the operations that this client itself may do on topics (KIP-430).

        Topics that do not exist, or that it may not describe, are left out.
        """
        return await topics_and_configs.describe_topic_operations(
            self.cluster, arguments.names(names, "topics"), self._limit(timeout_ms)
        )

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """Return the cluster's id, brokers and controller, and whether it is a tidelog cluster."""
        return await topics_and_configs.describe_cluster(self.cluster, self._limit(timeout_ms))

    async def describe_configs(
        self, resources: Sequence[ConfigResource], *, timeout_ms: int | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return every configuration key of each resource, with the source of its value."""
        wanted = arguments.all_of(ConfigResource, resources, "resources")
        return await topics_and_configs.describe_configs(
            self.cluster, wanted, self._limit(timeout_ms)
        )

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | ConfigChange | None]],
        *,
        is_validated_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Change single configuration keys; all other keys keep their values (KIP-339).

        A string sets a key, and None resets it. A ``ConfigChange`` adds to a list or removes from
        it.
        """
        arguments.all_of(ConfigResource, changes, "resources")
        await topics_and_configs.alter_configs(
            self.cluster, changes, self._limit(timeout_ms), is_validated_only=is_validated_only
        )

    async def apply_retention(
        self, topics: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> list[RetentionResult]:
        """Make the brokers apply retention now, and return what was deleted in each partition.

        ``topics`` None means all topics.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, the brokers are not tidelog's, or are too old. They
                apply retention only in their own time.
        """
        return await maintenance.apply_retention(
            self.cluster,
            None if topics is None else arguments.names(topics, "topics"),
            self._limit(timeout_ms),
        )

    async def apply_compaction(
        self, topics: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> list[CompactionResult]:
        """Make the brokers compact topics now by their configuration, and return the results.

        ``topics`` None means all compacted topics.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, the brokers are not tidelog's, or are too old. They
                compact only in their own time. POLICY_VIOLATION, the cleaner is disabled.
            ItemsFailed: INVALID_CONFIG, a topic that was named is not compacted.
        """
        return await maintenance.apply_compaction(
            self.cluster,
            None if topics is None else arguments.names(topics, "topics"),
            self._limit(timeout_ms),
        )

    async def list_config_resources(
        self, types: Iterable[ResourceType] = (), *, timeout_ms: int | None = None
    ) -> list[ConfigResource]:
        """Return the resources that have configuration, or may have it (KIP-1142).

        If ``types`` are given, only resources of these types are returned.
        """
        return await cluster.list_config_resources(self.cluster, types, self._limit(timeout_ms))

    # Quotas

    async def describe_client_quotas(
        self,
        match: Mapping[str, str | None] | None = None,
        *,
        is_strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas that are set, by entity and key (KIP-546).

        ``match`` maps entity types (``user``, ``client-id``, ``ip``) to names, and selects entities
        that have all these types. An empty name matches the default, and None matches any name.
        ``is_strict`` leaves out entities that have other types as well.
        """
        return await quotas.describe_client_quotas(
            self.cluster, match or {}, self._limit(timeout_ms), is_strict=is_strict
        )

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        is_validated_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Set quotas, and remove those whose value is None (KIP-546). All other quotas stay.

        The error is INVALID_REQUEST if a quota is not valid.
        """
        await quotas.alter_client_quotas(
            self.cluster, changes, self._limit(timeout_ms), is_validated_only=is_validated_only
        )

    # Log directories, leaders, replicas

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None, *, timeout_ms: int | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Return log directories by broker and path, with the sizes of their replicas (KIP-113).

        ``node_ids`` None means all brokers.
        """
        return await cluster.describe_log_dirs(self.cluster, node_ids, self._limit(timeout_ms))

    async def alter_replica_log_dirs(
        self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
    ) -> None:
        """Begin to move replicas to other log directories of their brokers.

        ``describe_log_dirs`` shows the progress. The error is LOG_DIR_NOT_FOUND if a broker has no
        such directory.
        """
        await cluster.alter_replica_log_dirs(self.cluster, targets, self._limit(timeout_ms))

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        election_type: ElectionType = ElectionType.PREFERRED,
        *,
        timeout_ms: int | None = None,
    ) -> set[TopicPartition]:
        """Elect leaders, and return the partitions that got a new leader (KIP-460).

        ``partitions`` None means all partitions that need an election. The error is
        ELECTION_NOT_NEEDED if a named partition needs no election of this type. It is
        PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE if no replica can lead.
        """
        return await cluster.elect_leaders(
            self.cluster, partitions, election_type, self._limit(timeout_ms)
        )

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        is_factor_kept: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Begin to move partitions to the given brokers, the preferred leader first (KIP-455).

        None cancels the move of a partition. The error is INVALID_REPLICA_ASSIGNMENT if a broker is
        unknown, and NO_REASSIGNMENT_IN_PROGRESS if there is no move to cancel. With
        ``is_factor_kept`` it is INVALID_REPLICATION_FACTOR if the number of replicas would change
        (KIP-860).
        """
        limit_ms = self._limit(timeout_ms)
        await cluster.alter_partition_reassignments(
            self.cluster, targets, limit_ms, is_factor_kept=is_factor_kept
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the moves that are in progress, of the given partitions or of all."""
        return await cluster.list_partition_reassignments(
            self.cluster, partitions, self._limit(timeout_ms)
        )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, tuple[ProducerDescription, ...]]:
        """Return the producers whose state the leader of each partition keeps (KIP-664).

        These producers are idempotent or transactional.
        """
        return await cluster.describe_producers(self.cluster, partitions, self._limit(timeout_ms))

    # Quorum, features, brokers

    async def describe_brokers(
        self, *, timeout_ms: int | None = None
    ) -> tuple[BrokerDescription, ...]:
        """Return all registered brokers, sorted by id, fenced brokers too (KIP-1073)."""
        return await cluster.describe_brokers(self.cluster, self._limit(timeout_ms))

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        """Return the leader of the metadata quorum, and the progress of all its members (KIP-595).

        Members are voters and observers.
        """
        return await cluster.describe_metadata_quorum(self.cluster, self._limit(timeout_ms))

    async def describe_features(
        self, node_id: int | None = None, *, timeout_ms: int | None = None
    ) -> FeatureDescription:
        """Return the feature levels that a broker supports, and those of the cluster (KIP-584).

        ``node_id`` None means any broker.
        """
        return await cluster.describe_features(self.cluster, node_id, self._limit(timeout_ms))

    async def describe_api_versions(
        self, node_id: int | None = None, *, timeout_ms: int | None = None
    ) -> dict[str, tuple[int, int]]:
        """Return the first and last version of each API that a broker supports, by the API's name.

        ``node_id`` None means any broker.
        """
        return await cluster.describe_api_versions(self.cluster, node_id, self._limit(timeout_ms))

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        is_validated_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Change the cluster's feature levels, all or none.

        The error is INVALID_UPDATE_VERSION if a level cannot be set.
        """
        await cluster.update_features(
            self.cluster, updates, self._limit(timeout_ms), is_validated_only=is_validated_only
        )

    async def unregister_broker(self, node_id: int, *, timeout_ms: int | None = None) -> None:
        """Remove the registration of a broker that is gone for good.

        The error is BROKER_ID_NOT_REGISTERED if no broker has this id.
        """
        await cluster.unregister_broker(self.cluster, node_id, self._limit(timeout_ms))

    async def add_raft_voter(self, voter: RaftVoter, *, timeout_ms: int | None = None) -> None:
        """Turn a controller that so far only follows the metadata log into a voter (KIP-853).

        The error is DUPLICATE_VOTER if it is a voter already, and REQUEST_TIMED_OUT if it does not
        follow the log.
        """
        await cluster.add_raft_voter(self.cluster, voter, self._limit(timeout_ms))

    async def remove_raft_voter(self, node_id: int, directory_id: UUID) -> None:
        """Remove a voter from the metadata quorum (KIP-853).

        The error is VOTER_NOT_FOUND if there is no such voter, or if it is the last one.
        """
        await cluster.remove_raft_voter(self.cluster, node_id, directory_id)

    # Offsets

    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: str = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, FoundOffset]:
        """Return the offset that each spec describes, for example the latest offset.

        With ``isolation_level`` read_committed, the latest one is the last stable offset.
        """
        arguments.partitions(specs)
        return await offsets.list_offsets(
            self.cluster, specs, arguments.isolation_of(isolation_level), self._limit(timeout_ms)
        )

    async def describe_offsets(
        self,
        topics: Iterable[str],
        *,
        is_leader_awaited: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, PartitionOffsets]:
        """Return the first and last offsets of all partitions of the topics.

        They are log start, high watermark and last stable offset, together with the topic's id.
        The call waits for a leader of each partition. Without ``is_leader_awaited``, partitions
        that have no leader are left out.
        """
        return await offsets.describe_offsets(
            self.cluster,
            arguments.names(topics, "topics"),
            self._limit(timeout_ms),
            is_leader_awaited=is_leader_awaited,
        )

    async def wait_for_records(
        self,
        positions: Mapping[TopicPartition, int],
        timeout_ms: int,
        *,
        isolation_level: str = "read_committed",
    ) -> set[TopicPartition]:
        """Return the partitions that have records at or above their offset, as soon as one has.

        The set is empty after ``timeout_ms``. A partition whose offset is out of range counts as
        ready, since the caller has to act on it. A partition that the cluster refuses for good, for
        example because the client may not read it, is left out while there are other partitions to
        wait for. With read_committed only records below the last stable offset count.

        Raises:
            ItemsFailed: TOPIC_AUTHORIZATION_FAILED and others, all partitions are refused.
        """
        return await offsets.wait_for_records(
            self.cluster, positions, timeout_ms, arguments.isolation_of(isolation_level)
        )

    async def offsets_for_leader_epoch(
        self, epochs: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        """Return the end offset of each leader epoch.

        If the end is below an offset that was read in the epoch, the log was truncated (KIP-320).
        """
        arguments.partitions(epochs)
        return await offsets.offsets_for_leader_epoch(self.cluster, epochs, self._limit(timeout_ms))

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records below each offset, and return the new log start offsets.

        Offset -1 stands for the high watermark, and so deletes all records that are replicated.
        """
        arguments.partitions(before)
        return await offsets.delete_records(self.cluster, before, self._limit(timeout_ms))

    # Transactions

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        running_longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout_ms: int | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all coordinators, sorted by id (KIP-664).

        The arguments are filters. ``transactional_id_pattern`` is a regular expression in the
        brokers' syntax that must match the whole id (KIP-1152). The error is INVALID_REQUEST if a
        state is unknown, INVALID_REGULAR_EXPRESSION if the pattern is not valid, and
        UNSUPPORTED_VERSION if the brokers are too old for a filter.
        """
        wanted = open_transactions.Filters(
            states=tuple(states),
            producer_ids=tuple(producer_ids),
            running_longer_than_ms=running_longer_than_ms,
            pattern=transactional_id_pattern,
        )
        return await open_transactions.list_transactions(
            self.cluster, wanted, self._limit(timeout_ms)
        )

    async def describe_transactions(
        self, transactional_ids: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription]:
        """Return the state of transactional ids, with the partitions of open ones (KIP-664).

        The error is TRANSACTIONAL_ID_NOT_FOUND if an id never existed or has expired
        (``transactional.id.expiration.ms``).
        """
        ids = arguments.names(transactional_ids, "transactional ids")
        return await open_transactions.describe_transactions(
            self.cluster, ids, self._limit(timeout_ms)
        )

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        open_longer_than_ms: int = 900_000,
        timeout_ms: int | None = None,
    ) -> list[HangingTransaction]:
        """Return the open transactions that no coordinator will end, by partition (KIP-664).

        ``partitions`` None searches all partitions of the cluster. Transactions younger than
        ``open_longer_than_ms`` are left out. Choose at least the brokers'
        ``transaction.max.timeout.ms``. ``abort_transaction`` ends a transaction.
        """
        named = None if partitions is None else arguments.partitions(partitions)
        return await open_transactions.find_hanging(
            self.cluster, named, open_longer_than_ms, self._limit(timeout_ms)
        )

    async def abort_transaction(
        self, transaction: HangingTransaction, *, timeout_ms: int | None = None
    ) -> None:
        """Write an abort marker into one partition, without the coordinator (KIP-664).

        Use it only for transactions that ``find_hanging_transactions`` returned. The producer of a
        live transaction would lose records without an error. The error is
        TRANSACTION_COORDINATOR_FENCED or INVALID_PRODUCER_EPOCH if the coordinator or the producer
        has a newer epoch now.
        """
        await open_transactions.abort_transaction(
            self.cluster, transaction, self._limit(timeout_ms)
        )
