"""Arguments and results of Admin, as plain values in Kafka's words.

First come topics and groups, then the cluster itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

from log_service.client.arguments import whole_number
from log_service.client.connections.cluster_view import Node, PartitionView
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId, TopicPartition

BROKER_DEFAULT = -1

MAX_TIMESTAMP_MS = 2**63 - 1


class ItemsFailed(KafkaError):  # noqa: N818 - it says what happened to the others, too
    """Some items of a call failed. ``errors`` tells which and why, ``results`` what became of the others; ``code`` is the first error's."""

    def __init__(self, errors: Mapping[Any, KafkaError], results: Mapping[Any, Any]) -> None:
        first = next(iter(errors.values()))
        others = f" (and {len(errors) - 1} more of {len(errors) + len(results)})" if len(errors) > 1 else ""
        super().__init__(first.code, f"{first}{others}")
        self.errors = errors
        self.results = results

    @property
    def is_retriable(self) -> bool:
        """Never: what could be tried again was."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 partitions or replication takes the broker's default. ``assignments`` lists replicas by partition instead."""

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
        """How many partitions the topic has."""
        return len(self.partitions)

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """Every partition by its name."""
        return [TopicPartition(self.name, partition.partition) for partition in self.partitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster: its id, its brokers, the controller that clients are told, and whether it is tidelog."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]
    is_tidelog: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """A registered broker. A fenced one is down or not ready: clients are not told of it, and its address may be empty."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpec:
    """The offset that ``list_offsets`` is to find."""

    timestamp: int

    @classmethod
    def latest(cls) -> "OffsetSpec":
        """The end: high watermark, or last stable offset with read_committed."""
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
        """The last offset in remote storage; -1 where nothing is tiered (KIP-1005)."""
        return cls(timestamp=-5)

    @classmethod
    def earliest_pending_upload(cls) -> "OffsetSpec":
        """The first offset that is not in remote storage yet; -1 where nothing is tiered (KIP-1023)."""
        return cls(timestamp=-6)

    @classmethod
    def at(cls, timestamp_ms: int) -> "OffsetSpec":
        """The first record whose timestamp is at least ``timestamp_ms``; offset -1 if there is none.

        Raises:
            TypeError: the timestamp is no whole number.
            ValueError: it is negative, or larger than any.
        """
        number = whole_number(timestamp_ms, "a timestamp in ms")
        if not 0 <= number <= MAX_TIMESTAMP_MS:
            raise ValueError(f"a timestamp is not negative, nor above {MAX_TIMESTAMP_MS}: {timestamp_ms}")
        return cls(timestamp=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """The result of ``list_offsets``.

    It is -1 where there is nothing, or the broker does not tell.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """The first and the last offset of a partition.

    ``topic_id`` is zero where the broker is too old to tell.
    """

    topic_id: TopicId
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The end of a leader epoch.

    ``leader_epoch`` is the largest not above the one asked for. -1 where there is none (KIP-320).
    """

    leader_epoch: int
    end_offset: int


class ResourceType(IntEnum):
    """Kinds of things that have configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ConfigResource:
    """A topic, a group or a subscription to clients' metrics by its name.

    A broker has its node id as text, and "" is the cluster's default.
    """

    resource_type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        """Return a topic."""
        return cls(resource_type=ResourceType.TOPIC, name=name)

    @classmethod
    def broker(cls, node_id: int) -> "ConfigResource":
        """Return a broker."""
        return cls(resource_type=ResourceType.BROKER, name=str(node_id))

    @classmethod
    def all_brokers(cls) -> "ConfigResource":
        """Return the default of all brokers, which holds for a broker without a value of its own."""
        return cls(resource_type=ResourceType.BROKER, name="")

    @classmethod
    def group(cls, group_id: str) -> "ConfigResource":
        """Return a group."""
        return cls(resource_type=ResourceType.GROUP, name=group_id)

    @classmethod
    def client_metrics(cls, name: str) -> "ConfigResource":
        """Return which metrics clients push (KIP-714), under a name that people choose."""
        return cls(resource_type=ResourceType.CLIENT_METRICS, name=name)

    def __str__(self) -> str:
        if self == ConfigResource.all_brokers():
            return "the default of all brokers"
        return f"{self.resource_type.name.lower()} {self.name!r}"


class ConfigOperation(IntEnum):
    """A change of one key (KIP-339). The last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """A change of one key that is more than a new value."""

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
    """One key. ``source`` says where the value comes from; a sensitive value is None. ``synonyms`` are (name, value, source)."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None
    synonyms: tuple[tuple[str, str | None, str], ...]

    @property
    def is_default(self) -> bool:
        """Whether it was not set."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """A committed offset: the next one to read. ``leader_epoch`` is of the last record read, -1 where unknown."""

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
    """A member of a group and the partitions it was given; empty for groups that are not of consumers."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A classic group, or one of the consumer (KIP-848) or streams protocol (KIP-1071). One that does not exist has state ``Dead``.

    In a streams group a member's assignment are the input partitions of its active tasks.
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

    Records, bytes and segments are those that were written anew: none where no pass was due. Ratios are the dirty share of the bytes that
    may be compacted, 0.0 to 1.0. ``is_under_way``: it takes longer than was waited for, and goes on; the figures are not there yet.
    ``reason`` says why a partition could not be compacted, None where it could.
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
    """One replica: a partition on a broker."""

    topic: str
    partition: int
    broker_id: int


class ElectionType(IntEnum):
    """The replica that may be elected.

    It is the first one where it is in sync, or, where none leads, any (records may be lost).
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

    ``is_future`` is a copy that will replace the one in another directory.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """A log directory of a broker. ``error`` is NONE while it is online; sizes are -1 where the broker does not tell them.

    A replica on its way out and its copy are in two directories; in one of them each partition is there once.
    """

    path: str
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    replicas: Mapping[TopicPartition, ReplicaDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer of the metadata quorum; times are ms since the epoch, -1 where unknown."""

    node_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The metadata quorum.

    ``endpoints`` are the voters' listeners as {node id: {listener: "host:port"}}, where the broker
    tells them.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDescription:
    """Levels of features.

    The broker's are (lowest, highest), and the cluster's come with the epoch in which they were
    read.
    """

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    finalized_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """The level that a feature shall have, and whether it may go down for that; 0 takes the feature away."""

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on its way to other brokers: where it is now, and which of that comes and goes."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadata:
    """The member that commits for a group. ``consumer.group_metadata()`` returns it for a
    transactional producer.

    Without a member the group's coordinator fences no member: for consumers whose partitions were assigned by hand.
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
    """A coordinator's view of a transactional id.

    ``start_time_ms`` is -1 where no transaction is open.
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
    """An open transaction of a partition that no coordinator will end. Readers of committed records
    stop at ``start_offset``.

    ``transactional_id`` is the one that the producer has, where a coordinator knows it.
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
    """A producer that a partition remembers; -1 where there is nothing, such as an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class QuotaEntity:
    """The subject of a quota: a user, a client id, both together, or an address.

    An empty name is the default of all that have none by name.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name}" if name else f"default {kind}" for kind, name in self.parts().items())

    def parts(self) -> dict[str, str | None]:
        """Return the names by Kafka's types; None is the default."""
        named = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return {kind: name or None for kind, name in named if name is not None}

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> "QuotaEntity":
        """Return the entity of such parts."""
        names = {kind.replace("-", "_"): name or "" for kind, name in parts.items()}
        return cls(user=names.get("user"), client_id=names.get("client_id"), ip=names.get("ip"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftVoter:
    """A voter to add.

    It has an id, the id of its metadata directory, and its controller listeners as {name: (host,
    port)}.
    """

    node_id: int
    directory_id: UUID
    endpoints: Mapping[str, tuple[str, int]] = field(default_factory=dict)
