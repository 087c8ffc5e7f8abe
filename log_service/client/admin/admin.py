"""The admin: topics, configuration, offsets and groups of a cluster, one method per question.

Each method hands its question to the module of this package that knows how to ask it. Every method takes ``timeout_ms`` (default
``default_api_timeout_ms``), which bounds the call with all its retries.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import trio

from log_service.client import arguments
from log_service.client.admin import access, cluster, groups, maintenance, offsets, quotas, share_groups
from log_service.client.admin import topics as topics_and_configs
from log_service.client.admin import transactions as open_transactions
from log_service.client.admin.access import AclBinding, AclFilter, DelegationTokenDescription, ScramUser
from log_service.client.admin.share_groups import ShareGroupDescription, ShareGroupOffset
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
    GroupDescription,
    GroupListing,
    HangingTransaction,
    LogDirDescription,
    NewTopic,
    OffsetAndMetadata,
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
    TopicPartitionReplica,
    TransactionDescription,
    TransactionListing,
)
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.connections.env import real_env
from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.secrets import SecretBytes
from log_service.common.types import TopicId, TopicPartition
from log_service.config.client import AdminConfig
from log_service.security.outgoing import outgoing_security


class Admin:
    """Administers a cluster; ``async with`` opens and closes it. Settings are those of ``AdminConfig``, as keywords.

    Methods that take several items raise ``ItemsFailed`` (a ``KafkaError``) when some of them failed: it carries the errors by item, and
    what became of the others. A cluster that cannot be reached is a ``KafkaError`` NETWORK_EXCEPTION or REQUEST_TIMED_OUT.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], *, env: Env | None = None, **settings: Any) -> None:
        self.config = AdminConfig.of(bootstrap_servers, settings)
        self._env = env or real_env()
        self._security = outgoing_security(self.config.security(), self._env.rng)
        self._stack = AsyncExitStack()
        self._cluster: ClusterMetadata | None = None

    async def __aenter__(self) -> Self:
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._cluster = ClusterMetadata(self._env, self.config, self._nursery, security=self._security)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._cluster = None
        self._nursery.cancel_scope.cancel()
        await self._stack.aclose()  # without the exception, which the nursery would wrap

    @property
    def cluster(self) -> ClusterMetadata:
        """The client's view of its cluster.

        Raises:
            KafkaError: INVALID_REQUEST, the admin is closed.
        """
        if self._cluster is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the admin is closed: use it inside 'async with'")
        return self._cluster

    # Topics and cluster

    async def create_topics(
        self, topics: Sequence[NewTopic], *, is_validated_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicId]:
        """Create topics and return their ids once every partition has a leader. TOPIC_ALREADY_EXISTS where one is there."""
        wanted = arguments.all_of(NewTopic, topics, "topics to create")
        return await topics_and_configs.create_topics(self.cluster, wanted, self._limit(timeout_ms), is_validated_only=is_validated_only)

    async def delete_topics(self, names: Sequence[str], *, timeout_ms: int | None = None) -> None:
        """Delete topics with all their records. UNKNOWN_TOPIC_OR_PARTITION where there is none."""
        await topics_and_configs.delete_topics(self.cluster, arguments.names(names, "topics"), self._limit(timeout_ms))

    async def create_partitions(self, counts: Mapping[str, int], *, timeout_ms: int | None = None) -> None:
        """Give each topic that many partitions, and return once the new ones have leaders. INVALID_PARTITIONS where it has as many."""
        await topics_and_configs.create_partitions(self.cluster, counts, self._limit(timeout_ms))

    async def list_topics(self, *, is_internal_included: bool = False, timeout_ms: int | None = None) -> list[TopicListing]:
        """Return all topics, by name."""
        return await topics_and_configs.list_topics(self.cluster, self._limit(timeout_ms), is_internal_included=is_internal_included)

    async def describe_topics(self, names: Sequence[str], *, timeout_ms: int | None = None) -> dict[str, TopicDescription]:
        """Return topics with their partitions, leaders and replicas, as of now. UNKNOWN_TOPIC_OR_PARTITION where there is none."""
        return await topics_and_configs.describe_topics(self.cluster, arguments.names(names, "topics"), self._limit(timeout_ms))

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """Return the cluster's id, brokers and controller, and whether it is tidelog."""
        return await topics_and_configs.describe_cluster(self.cluster, self._limit(timeout_ms))

    async def describe_configs(
        self, resources: Sequence[ConfigResource], *, timeout_ms: int | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return every configuration key of topics and brokers, with where its value comes from."""
        wanted = arguments.all_of(ConfigResource, resources, "resources")
        return await topics_and_configs.describe_configs(self.cluster, wanted, self._limit(timeout_ms))

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | ConfigChange | None]],
        *,
        is_validated_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Set single keys, reset those whose value is None, append to lists or take from them.

        All others stay (KIP-339).
        """
        arguments.all_of(ConfigResource, changes, "resources")
        await topics_and_configs.alter_configs(self.cluster, changes, self._limit(timeout_ms), is_validated_only=is_validated_only)

    async def apply_retention(self, topics: Sequence[str] | None = None, *, timeout_ms: int | None = None) -> list[RetentionResult]:
        """Let the brokers apply retention now (None: to all topics) and return what each partition lost.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, the cluster is not tidelog: its brokers clean by themselves.
        """
        return await maintenance.apply_retention(
            self.cluster, None if topics is None else arguments.names(topics, "topics"), self._limit(timeout_ms)
        )

    async def apply_compaction(self, topics: Sequence[str] | None = None, *, timeout_ms: int | None = None) -> list[CompactionResult]:
        """Have the brokers compact now as each topic's configuration asks, and return the figures.
        None means all compacted topics.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, the cluster is not tidelog: its brokers clean by themselves; POLICY_VIOLATION, the cleaner is
                disabled. ItemsFailed: INVALID_CONFIG, a topic that was named is not compacted.
        """
        return await maintenance.apply_compaction(
            self.cluster, None if topics is None else arguments.names(topics, "topics"), self._limit(timeout_ms)
        )

    async def list_config_resources(self, types: Iterable[ResourceType] = (), *, timeout_ms: int | None = None) -> list[ConfigResource]:
        """Return the resources that have configuration, or may have it.

        ``types`` leaves the others out (KIP-1142).
        """
        return await cluster.list_config_resources(self.cluster, types, self._limit(timeout_ms))

    # Quotas

    async def describe_client_quotas(
        self, match: Mapping[str, str | None] | None = None, *, is_strict: bool = False, timeout_ms: int | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas that are set, by whom they are for and by their keys (KIP-546).

        ``match`` asks for entities with parts of these types (``user``, ``client-id``, ``ip``): of that name, the default where it is
        empty, any where it is None. ``is_strict`` leaves out those with parts of other types.
        """
        return await quotas.describe_client_quotas(self.cluster, match or {}, self._limit(timeout_ms), is_strict=is_strict)

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        is_validated_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Set quotas, and remove those whose value is None; all others stay (KIP-546). INVALID_REQUEST where one cannot be."""
        await quotas.alter_client_quotas(self.cluster, changes, self._limit(timeout_ms), is_validated_only=is_validated_only)

    # Log directories, leaders, replicas

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None, *, timeout_ms: int | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Return log directories by broker and path, with the sizes of their replicas (KIP-113).

        None means all brokers.
        """
        return await cluster.describe_log_dirs(self.cluster, node_ids, self._limit(timeout_ms))

    async def alter_replica_log_dirs(self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None) -> None:
        """Begin to move replicas to other log directories of their brokers. ``describe_log_dirs``
        shows the progress.

        LOG_DIR_NOT_FOUND where a broker has no such directory.
        """
        await cluster.alter_replica_log_dirs(self.cluster, targets, self._limit(timeout_ms))

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        election_type: ElectionType = ElectionType.PREFERRED,
        *,
        timeout_ms: int | None = None,
    ) -> set[TopicPartition]:
        """Elect leaders, and return the partitions that got one (KIP-460). None means all that need
        one.

        ELECTION_NOT_NEEDED where the leader is right; PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE where none can lead.
        """
        return await cluster.elect_leaders(self.cluster, partitions, election_type, self._limit(timeout_ms))

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, is_factor_kept: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Begin to move partitions to those brokers, the preferred leader first. None takes a move
        back (KIP-455).

        INVALID_REPLICA_ASSIGNMENT where a broker is not there; NO_REASSIGNMENT_IN_PROGRESS; with ``is_factor_kept``
        INVALID_REPLICATION_FACTOR where the number of replicas would change (KIP-860).
        """
        limit_ms = self._limit(timeout_ms)
        await cluster.alter_partition_reassignments(self.cluster, targets, limit_ms, is_factor_kept=is_factor_kept)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the moves that are under way, of all partitions or of some."""
        return await cluster.list_partition_reassignments(self.cluster, partitions, self._limit(timeout_ms))

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, tuple[ProducerDescription, ...]]:
        """Return the idempotent and transactional producers that each partition remembers (KIP-664)."""
        return await cluster.describe_producers(self.cluster, partitions, self._limit(timeout_ms))

    # Quorum, features, brokers

    async def describe_brokers(self, *, timeout_ms: int | None = None) -> tuple[BrokerDescription, ...]:
        """Return all registered brokers, fenced ones too, by their ids (KIP-1073)."""
        return await cluster.describe_brokers(self.cluster, self._limit(timeout_ms))

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        """Return the leader of the metadata quorum and how far its voters and observers are (KIP-595)."""
        return await cluster.describe_metadata_quorum(self.cluster, self._limit(timeout_ms))

    async def describe_features(self, node_id: int | None = None, *, timeout_ms: int | None = None) -> FeatureDescription:
        """Return the levels that a broker (None: any) keeps, and those of the cluster (KIP-584)."""
        return await cluster.describe_features(self.cluster, node_id, self._limit(timeout_ms))

    async def describe_api_versions(self, node_id: int | None = None, *, timeout_ms: int | None = None) -> dict[str, tuple[int, int]]:
        """Return the first and last version of each API that a broker (None: any) speaks, by the API's name."""
        return await cluster.describe_api_versions(self.cluster, node_id, self._limit(timeout_ms))

    async def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, is_validated_only: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Change the cluster's feature levels, all or none. INVALID_UPDATE_VERSION where one cannot be."""
        await cluster.update_features(self.cluster, updates, self._limit(timeout_ms), is_validated_only=is_validated_only)

    async def unregister_broker(self, node_id: int, *, timeout_ms: int | None = None) -> None:
        """Have the cluster forget a broker that is gone for good. BROKER_ID_NOT_REGISTERED where it does not know it."""
        await cluster.unregister_broker(self.cluster, node_id, self._limit(timeout_ms))

    async def add_raft_voter(self, voter: RaftVoter, *, timeout_ms: int | None = None) -> None:
        """Make a controller that follows the metadata log a voter (KIP-853).

        Errors are DUPLICATE_VOTER, and REQUEST_TIMED_OUT where it does not follow.
        """
        await cluster.add_raft_voter(self.cluster, voter, self._limit(timeout_ms))

    async def remove_raft_voter(self, node_id: int, directory_id: UUID) -> None:
        """Take a voter out of the metadata quorum (KIP-853). VOTER_NOT_FOUND where there is none, and for the last one."""
        await cluster.remove_raft_voter(self.cluster, node_id, directory_id)

    # Offsets

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], *, isolation_level: str = "read_uncommitted", timeout_ms: int | None = None
    ) -> dict[TopicPartition, FoundOffset]:
        """Return the offset that each spec asks for: earliest, latest, of a time, of the highest timestamp."""
        arguments.partitions(specs)
        return await offsets.list_offsets(self.cluster, specs, arguments.isolation_of(isolation_level), self._limit(timeout_ms))

    async def describe_offsets(self, topics: Iterable[str], *, timeout_ms: int | None = None) -> dict[TopicPartition, PartitionOffsets]:
        """Return topic id, log start, high watermark and last stable offset of every partition of the topics."""
        return await offsets.describe_offsets(self.cluster, arguments.names(topics, "topics"), self._limit(timeout_ms))

    async def wait_for_records(
        self, positions: Mapping[TopicPartition, int], timeout_ms: int, *, isolation_level: str = "read_committed"
    ) -> set[TopicPartition]:
        """Return the partitions that have something at or above their offset, as soon as one has.
        The set is empty after ``timeout_ms``.

        A partition whose offset is out of range (below the log start, above the end) counts too: the caller has to look at it.
        One that the cluster refuses for good, e.g. the right to read it, is left out for as long as there is another to wait for.

        Raises:
            ItemsFailed: TOPIC_AUTHORIZATION_FAILED and others, all partitions are refused.
        """
        return await offsets.wait_for_records(self.cluster, positions, timeout_ms, arguments.isolation_of(isolation_level))

    async def offsets_for_leader_epoch(
        self, epochs: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        """Return the end of each leader epoch.

        An end below what was read in it means that the log was truncated (KIP-320).
        """
        arguments.partitions(epochs)
        return await offsets.offsets_for_leader_epoch(self.cluster, epochs, self._limit(timeout_ms))

    async def delete_records(self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Delete the records below each offset, and return the new log start offsets.

        -1 means all that are replicated.
        """
        arguments.partitions(before)
        return await offsets.delete_records(self.cluster, before, self._limit(timeout_ms))

    # Groups

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = (), timeout_ms: int | None = None
    ) -> list[GroupListing]:
        """Return the groups of all brokers, by id. ``states`` and ``types`` leave the others out.

        Types are classic, consumer, share and streams (KIP-848, KIP-932); UNSUPPORTED_VERSION where the brokers are too old for a filter.
        """
        return await groups.list_groups(self.cluster, self._limit(timeout_ms), list(states), list(types))

    async def describe_groups(self, group_ids: Sequence[str], *, timeout_ms: int | None = None) -> dict[str, GroupDescription]:
        """Return classic groups with their members and assignments.

        One that does not exist has state ``Dead``.
        """
        return await groups.describe_groups(self.cluster, arguments.names(group_ids, "groups"), self._limit(timeout_ms))

    async def delete_groups(self, group_ids: Sequence[str], *, timeout_ms: int | None = None) -> None:
        """Delete groups with their offsets. NON_EMPTY_GROUP where one has members, GROUP_ID_NOT_FOUND where there is none."""
        await groups.delete_groups(self.cluster, arguments.names(group_ids, "groups"), self._limit(timeout_ms))

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        is_stable_required: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets (None: all of them); partitions without one are left out."""
        limit_ms = self._limit(timeout_ms)
        return await groups.list_group_offsets(self.cluster, group_id, partitions, limit_ms, is_stable_required=is_stable_required)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], *, timeout_ms: int | None = None
    ) -> None:
        """Set a group's committed offsets. UNKNOWN_MEMBER_ID while it has members."""
        await groups.alter_group_offsets(self.cluster, group_id, offsets, self._limit(timeout_ms))

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None) -> None:
        """Take a group's committed offsets back (KIP-496). GROUP_SUBSCRIBED_TO_TOPIC where its members read the topic."""
        await groups.delete_group_offsets(self.cluster, group_id, partitions, self._limit(timeout_ms))

    # Share groups

    async def describe_share_groups(self, group_ids: Sequence[str], *, timeout_ms: int | None = None) -> dict[str, ShareGroupDescription]:
        """Return share groups with their members and assignments (KIP-932).

        One that does not exist has state ``Dead``.
        """
        return await share_groups.describe_share_groups(self.cluster, arguments.names(group_ids, "groups"), self._limit(timeout_ms))

    async def list_share_group_offsets(
        self, group_id: str, topics: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Return the position and the lag of a queue by partition.

        None means all topics that it was ever subscribed to.
        """
        named = None if topics is None else arguments.names(topics, "topics")
        return await share_groups.list_share_group_offsets(self.cluster, group_id, named, self._limit(timeout_ms))

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> None:
        """Let a queue go on at these offsets; what it knew of records there is forgotten. NON_EMPTY_GROUP while it has members."""
        arguments.partitions(offsets)
        wanted = {where: arguments.offset(offset) for where, offset in offsets.items()}
        await share_groups.alter_share_group_offsets(self.cluster, group_id, wanted, self._limit(timeout_ms))

    async def delete_share_group_offsets(self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None) -> None:
        """Forget where a queue goes on in whole topics. NON_EMPTY_GROUP while it has members."""
        named = arguments.names(topics, "topics")
        await share_groups.delete_share_group_offsets(self.cluster, group_id, named, self._limit(timeout_ms))

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
        """Return the transactional ids of all coordinators, by id (KIP-664). Filters leave the
        others out.

        ``transactional_id_pattern`` is a regular expression as the brokers read it, for the whole id (KIP-1152). INVALID_REQUEST
        where there is no such state, INVALID_REGULAR_EXPRESSION, UNSUPPORTED_VERSION where the brokers are too old for a filter.
        """
        wanted = open_transactions.Filters(
            states=tuple(states),
            producer_ids=tuple(producer_ids),
            running_longer_than_ms=running_longer_than_ms,
            pattern=transactional_id_pattern,
        )
        return await open_transactions.list_transactions(self.cluster, wanted, self._limit(timeout_ms))

    async def describe_transactions(
        self, transactional_ids: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription]:
        """Return the state of transactional ids, with the partitions of open transactions
        (KIP-664).

        TRANSACTIONAL_ID_NOT_FOUND where there is none, or none any more (transactional.id.expiration.ms).
        """
        ids = arguments.names(transactional_ids, "transactional ids")
        return await open_transactions.describe_transactions(self.cluster, ids, self._limit(timeout_ms))

    async def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition] | None = None, *, open_longer_than_ms: int = 900_000, timeout_ms: int | None = None
    ) -> list[HangingTransaction]:
        """Return open transactions that no coordinator will end, by partition (KIP-664). By default
        all partitions of the cluster are searched.

        Younger ones than ``open_longer_than_ms`` are left out: take at least the brokers' ``transaction.max.timeout.ms``.
        ``abort_transaction`` ends one.
        """
        named = None if partitions is None else arguments.partitions(partitions)
        return await open_transactions.find_hanging(self.cluster, named, open_longer_than_ms, self._limit(timeout_ms))

    async def abort_transaction(self, transaction: HangingTransaction, *, timeout_ms: int | None = None) -> None:
        """Write the marker that aborts an open transaction of one partition, past its coordinator (KIP-664).

        Only for what ``find_hanging_transactions`` returns: the producer of a transaction that is alive would lose records without a word.
        TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH where its coordinator or its producer went on meanwhile.
        """
        await open_transactions.abort_transaction(self.cluster, transaction, self._limit(timeout_ms))

    # Who gets in, and who may do what

    async def set_scram_users(self, users: Sequence[ScramUser], *, timeout_ms: int | None = None) -> None:
        """Create users, or give them new passwords (KIP-554). The password itself is not sent. UNACCEPTABLE_CREDENTIAL and others."""
        wanted = arguments.all_of(ScramUser, users, "users")
        await access.set_scram_users(self.cluster, wanted, self._env.rng, self._limit(timeout_ms))

    async def remove_scram_users(self, users: Iterable[tuple[str, str]], *, timeout_ms: int | None = None) -> None:
        """Remove passwords by (user, mechanism), as in ``("alice", "SCRAM-SHA-512")``. RESOURCE_NOT_FOUND where there is none."""
        await access.remove_scram_users(self.cluster, users, self._limit(timeout_ms))

    async def describe_scram_users(self, names: Sequence[str] | None = None, *, timeout_ms: int | None = None) -> dict[str, dict[str, int]]:
        """Return the iterations of users (None: of all) by mechanism. RESOURCE_NOT_FOUND where one has no password."""
        named = None if names is None else arguments.names(names, "users")
        return await access.describe_scram_users(self.cluster, named, self._limit(timeout_ms))

    async def create_acls(self, bindings: Sequence[AclBinding], *, timeout_ms: int | None = None) -> None:
        """Create ACLs; those that are there already stay. SECURITY_DISABLED where the cluster has no authorizer."""
        await access.create_acls(self.cluster, arguments.all_of(AclBinding, bindings, "ACLs"), self._limit(timeout_ms))

    async def describe_acls(self, wanted: AclFilter | None = None, *, timeout_ms: int | None = None) -> list[AclBinding]:
        """Return the ACLs that a filter means, None: all. SECURITY_DISABLED where the cluster has no authorizer."""
        return await access.describe_acls(self.cluster, wanted or AclFilter(), self._limit(timeout_ms))

    async def delete_acls(self, filters: Sequence[AclFilter], *, timeout_ms: int | None = None) -> list[AclBinding]:
        """Delete the ACLs that any of the filters means, and return them. SECURITY_DISABLED where the cluster has no authorizer."""
        return await access.delete_acls(self.cluster, arguments.all_of(AclFilter, filters, "filters"), self._limit(timeout_ms))

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Sequence[str] = (), max_lifetime_ms: int = -1, timeout_ms: int | None = None
    ) -> DelegationTokenDescription:
        """Create a token that logs in as its owner (None: this client's user) until it expires (KIP-48).

        DELEGATION_TOKEN_AUTH_DISABLED where the cluster has no secret for them, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED over a
        connection that has no login of its own.
        """
        named = arguments.names(renewers, "renewers")
        return await access.create_delegation_token(self.cluster, owner, named, max_lifetime_ms, self._limit(timeout_ms))

    async def renew_delegation_token(self, hmac: SecretBytes, *, period_ms: int = -1, timeout_ms: int | None = None) -> int:
        """Let a token hold longer, and return when it expires then, in milliseconds since 1970. DELEGATION_TOKEN_EXPIRED and others."""
        return await access.renew_delegation_token(self.cluster, hmac, period_ms, self._limit(timeout_ms))

    async def expire_delegation_token(self, hmac: SecretBytes, *, period_ms: int = -1, timeout_ms: int | None = None) -> int:
        """Let a token expire ``period_ms`` from now, at once where that is negative, and return when that is."""
        return await access.expire_delegation_token(self.cluster, hmac, period_ms, self._limit(timeout_ms))

    async def describe_delegation_tokens(
        self, owners: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> list[DelegationTokenDescription]:
        """Return the tokens of owners (None: of all) that this client's user may see, with their secrets."""
        named = None if owners is None else arguments.names(owners, "owners")
        return await access.describe_delegation_tokens(self.cluster, named, self._limit(timeout_ms))

    def _limit(self, timeout_ms: int | None) -> int:
        return self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
