"""Arguments and results of ``Admin``, as plain values with Kafka's names.

The first part is about topics and groups, the second about the cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

from log_service.client.arguments import whole_number
from log_service.client.connections.cluster_view import Node, PartitionView
from log_service.common.access import AclOperation
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId, TopicPartition

BROKER_DEFAULT = -1

MAX_TIMESTAMP_MS = 2**63 - 1


class ItemsFailed(KafkaError):  # noqa: N818 - it says what happened to the others, too
    """Some items of a call failed.

    ``errors`` holds the error of each failed item, and ``results`` the results of the others.
    ``code`` is the code of the first error.
    """

    def __init__(self, errors: Mapping[Any, KafkaError], results: Mapping[Any, Any]) -> None:
        first = next(iter(errors.values()))
        others = (
            f" (and {len(errors) - 1} more of {len(errors) + len(results)})"
            if len(errors) > 1
            else ""
        )
        super().__init__(first.code, f"{first}{others}")
        self.errors = errors
        self.results = results

    @property
    def is_retriable(self) -> bool:
        """Always False, because the call has already repeated its attempts."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create.

    -1 as the number of partitions or replicas means the broker's default. ``assignments`` lists the
    replicas of each partition instead.
    """

    name: str
    partition_count: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """One row of ``list_topics``."""

    name: str
    topic_id: TopicId
    is_internal: bool
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with its partitions."""

    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[PartitionView, ...]

    @property
    def partition_count(self) -> int:
        """The number of the topic's partitions."""
        return len(self.partitions)

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """The topic's partitions, each with topic and number."""
        return [TopicPartition(self.name, partition.partition) for partition in self.partitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOperations:
    """The operations on a topic that the client itself may do."""

    topic_id: TopicId
    operations: frozenset[AclOperation]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster's id, its brokers, its controller and whether it is a tidelog cluster.

    ``controller_id`` is the node that the brokers report to clients as controller. With KRaft it is
    any broker, which forwards requests to the real controller.
    """

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]
    is_tidelog: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """A registered broker.

    A fenced broker is down or not ready. Clients do not see it in metadata, and its address may be
    empty.
    """

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpec:
    """A description of the offset that ``list_offsets`` finds, such as the earliest one."""

    timestamp: int

    @classmethod
    def latest(cls) -> "OffsetSpec":
        """The end of the log: the high watermark, or with read_committed the last stable offset."""
        return cls(timestamp=-1)

    @classmethod
    def earliest(cls) -> "OffsetSpec":
        """The log start offset."""
        return cls(timestamp=-2)

    @classmethod
    def max_timestamp(cls) -> "OffsetSpec":
        """The record with the highest timestamp (KIP-734)."""
        return cls(timestamp=-3)

    @classmethod
    def earliest_local(cls) -> "OffsetSpec":
        """The first offset on the broker's own disks (KIP-405)."""
        return cls(timestamp=-4)

    @classmethod
    def latest_tiered(cls) -> "OffsetSpec":
        """The last offset in remote storage; -1 if nothing is tiered (KIP-1005)."""
        return cls(timestamp=-5)

    @classmethod
    def earliest_pending_upload(cls) -> "OffsetSpec":
        """The first offset that is not in remote storage yet (KIP-1023).

        It is -1 if nothing is tiered.
        """
        return cls(timestamp=-6)

    @classmethod
    def at(cls, timestamp_ms: int) -> "OffsetSpec":
        """The first record whose timestamp is at least ``timestamp_ms``, or -1 if there is none.

        Raises:
            TypeError: the timestamp is not a whole number.
            ValueError: the timestamp is negative or too large.
        """
        number = whole_number(timestamp_ms, "a timestamp in ms")
        if not 0 <= number <= MAX_TIMESTAMP_MS:
            raise ValueError(
                f"a timestamp is not negative, nor above {MAX_TIMESTAMP_MS}: {timestamp_ms}"
            )
        return cls(timestamp=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """An offset that ``list_offsets`` found.

    A field is -1 if no record matches the spec, or if the broker does not report the field.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """The first and the last offsets of a partition.

    ``topic_id`` is zero if the broker is too old to report it.
    """

    topic_id: TopicId
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The end of a leader epoch (KIP-320).

    ``leader_epoch`` is the requested epoch, or else the largest epoch below it. Both fields are -1
    if the log has neither.
    """

    leader_epoch: int
    end_offset: int


class ResourceType(IntEnum):
    """The types of resources that have configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ConfigResource:
    """A resource that has configuration, by its type and name.

    The name of a broker is its node id as text. The empty name is the default of all brokers.
    """

    resource_type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        """Return the resource of a topic."""
        return cls(resource_type=ResourceType.TOPIC, name=name)

    @classmethod
    def broker(cls, node_id: int) -> "ConfigResource":
        """Return the resource of one broker."""
        return cls(resource_type=ResourceType.BROKER, name=str(node_id))

    @classmethod
    def all_brokers(cls) -> "ConfigResource":
        """Return the resource of the defaults for all brokers without a value of their own."""
        return cls(resource_type=ResourceType.BROKER, name="")

    @classmethod
    def group(cls, group_id: str) -> "ConfigResource":
        """Return the resource of a group."""
        return cls(resource_type=ResourceType.GROUP, name=group_id)

    @classmethod
    def client_metrics(cls, name: str) -> "ConfigResource":
        """Return the resource of a subscription to metrics that clients push (KIP-714).

        The name of the subscription is free to choose.
        """
        return cls(resource_type=ResourceType.CLIENT_METRICS, name=name)

    def __str__(self) -> str:
        if self == ConfigResource.all_brokers():
            return "the default of all brokers"
        return f"{self.resource_type.name.lower()} {self.name!r}"


class ConfigOperation(IntEnum):
    """The kind of a change of one key (KIP-339). ``APPEND`` and ``SUBTRACT`` are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """A change of one key with its operation."""

    operation: ConfigOperation
    value: str | None = field(default=None, repr=False)


CONFIG_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One configuration key with its value.

    ``source`` tells where the value is set, for example on the topic itself. A sensitive value is
    None. ``synonyms`` are the other places that set the key, as (name, value, source).
    """

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None
    synonyms: tuple[tuple[str, str | None, str], ...]

    @property
    def is_default(self) -> bool:
        """Whether the value is Kafka's default, because the key was not set."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """A committed offset, which is the next offset to read.

    ``leader_epoch`` is the epoch of the last record read, or -1 if unknown.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One row of ``list_groups``."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a group with its partitions.

    ``assignment`` is empty if the members read no topics, as in a group of Kafka Connect.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A classic group, or a group of the consumer (KIP-848) or streams protocol (KIP-1071).

    A group that does not exist has state ``Dead``. In a streams group the assignment of a member is
    the input partitions of its active tasks.
    """

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionResult:
    """The result of one pass of retention over one partition."""

    topic: str
    partition: int
    segments_deleted: int
    bytes_deleted: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The result of compaction of one partition.

    The counts of records, bytes and segments cover the segments that were rewritten. They are 0 if
    no pass was due. Ratios are the dirty share of the bytes that may be compacted, from 0.0 to 1.0.
    ``is_under_way`` means that the pass lasts longer than the call waited. The pass continues, and
    its figures are not known yet. ``reason`` says why a partition could not be compacted, and is
    None otherwise.
    """

    topic: str
    partition: int
    is_under_way: bool
    reason: str | None
    pass_count: int
    segments_before: int
    segments_after: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int
    tombstones_kept: int
    tombstones_removed: int
    dirty_ratio_before: float
    dirty_ratio_after: float
    duration_ms: int
    cleaned_offset: int


# The cluster: log directories, elections, reassignments, producers, quorum, features


class TopicPartitionReplica(NamedTuple):
    """A replica, identified by its partition and the node id of its broker."""

    topic: str
    partition: int
    broker_id: int


class ElectionType(IntEnum):
    """The replicas that may become leader in an election.

    PREFERRED elects the first replica if it is in sync. UNCLEAN elects any replica of a partition
    without a leader, and records may be lost.
    """

    PREFERRED = 0
    UNCLEAN = 1


class UpgradeType(IntEnum):
    """The direction in which a feature's level may change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDescription:
    """A replica in a log directory.

    ``is_future`` marks a copy that will replace the replica in another directory.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """A log directory of a broker.

    ``error`` is NONE while the directory is online. Sizes are -1 if the broker does not report
    them. While a replica moves, the partition is in two directories. Within one directory each
    partition appears once.
    """

    path: str
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    replicas: Mapping[TopicPartition, ReplicaDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer of the metadata quorum.

    Times are milliseconds since 1970, or -1 if unknown.
    """

    node_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The metadata quorum.

    ``endpoints`` are the voters' listeners as {node id: {listener: "host:port"}}, if the broker
    reports them.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDescription:
    """The feature levels of a broker and of the cluster.

    ``supported`` holds the broker's levels as (lowest, highest). ``finalized`` holds the cluster's
    levels. ``finalized_epoch`` is their version, which grows with each change.
    """

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    finalized_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """The new level of a feature, and whether the level may go down.

    Level 0 disables the feature.
    """

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that moves to other brokers.

    ``replicas`` are its current replicas, including those that are added and those that are
    removed.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadata:
    """The member of a group on whose behalf a transactional producer commits offsets.

    ``consumer.group_metadata()`` returns it. A consumer whose partitions were assigned by hand has
    no member id. The coordinator then accepts the offsets without checking the membership.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """One row of ``list_transactions``."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """The state of a transactional id, as its coordinator knows it.

    ``start_time_ms`` is -1 if no transaction is open.
    """

    transactional_id: str
    coordinator: Node
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction that is open in a partition, and that no coordinator will end.

    Readers of committed records stop at ``start_offset``. ``transactional_id`` is the producer's
    id, if a coordinator knows it.
    """

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerDescription:
    """A producer whose state the leader of a partition keeps.

    A field is -1 if it has no value, for example if no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class QuotaEntity:
    """The subject of a quota: a user, a client id, both together, or an IP address.

    An empty name is the default for all users, client ids or addresses without a quota by name.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        return ", ".join(
            f"{kind} {name}" if name else f"default {kind}" for kind, name in self.parts().items()
        )

    def parts(self) -> dict[str, str | None]:
        """Return the names by Kafka's entity types. None stands for the default."""
        named = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return {kind: name or None for kind, name in named if name is not None}

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> "QuotaEntity":
        """Return the entity with the given names by entity type."""
        names = {kind.replace("-", "_"): name or "" for kind, name in parts.items()}
        return cls(user=names.get("user"), client_id=names.get("client_id"), ip=names.get("ip"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftVoter:
    """A controller to add as a voter.

    It has a node id, the id of its metadata directory, and its listeners as {name: (host, port)}.
    """

    node_id: int
    directory_id: UUID
    endpoints: Mapping[str, tuple[str, int]] = field(default_factory=dict)
