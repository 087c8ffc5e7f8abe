"""An image holds everything that is known at one offset of the metadata log, as immutable values.

This module defines the types and their lookups. ``metadata.delta`` makes the next image. A reader
may keep an image as long as it likes, because nothing in it ever changes. An image has a field for
every record that Kafka 4.3 writes to the metadata log, even if this node does not use it.
Otherwise, the next snapshot would lose it.

Invariants:

- ``topics.by_name`` and ``topics.by_id`` hold the same topics.
- A topic's partitions are numbered from 0 without gaps.
- The maps of topics, partitions, configurations and access iterate in the order of their keys
  (``common.sorted_map``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING
from uuid import UUID

from log_service.common.types import (
    NO_LEADER_EPOCH,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    ProducerId,
    TopicId,
)
from log_service.metadata.access import AclEntry, DelegationToken, QuotaEntity, ScramUser
from log_service.metadata.partition import (
    LOST_DIRECTORY,
    UNPLACED_DIRECTORIES,
    PartitionRegistration,
)
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.security.sasl.credentials import ScramCredential

if TYPE_CHECKING:
    from log_service.security.acls.index import AclIndex

FIRST_PRODUCER_ID = ProducerId(0)
NO_CONFIGS: Mapping[str, str] = {}


class ResourceType(IntEnum):
    """Types of resources that have a configuration, by Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An advertised listener. ``security_protocol`` is Kafka's number, 0 is PLAINTEXT."""

    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One broker.

    Its epoch is the offset of its registration. A fenced broker leads nothing, and clients do not
    see it in metadata responses.
    """

    node_id: NodeId
    epoch: BrokerEpoch
    incarnation_id: UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rack: str | None = None
    is_fenced: bool = True
    is_in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None
    is_migrating_zk_broker: bool = False

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead partitions and be in the ISR."""
        return not self.is_fenced and not self.is_in_controlled_shutdown

    def has_online(self, directory_id: UUID) -> bool:
        """Whether the broker can serve a replica in the log directory ``directory_id``.

        The result is true for a replica that is not assigned to a directory yet. A broker that has
        named no directories counts as having all, except for the reserved id of a lost one.
        """
        if directory_id in self.log_dirs or directory_id in UNPLACED_DIRECTORIES:
            return True
        return directory_id != LOST_DIRECTORY and not self.log_dirs


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """One controller of the quorum and where it listens."""

    node_id: NodeId
    incarnation_id: UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    is_zk_migration_ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """The registered brokers and controllers."""

    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)

    def unfenced(self) -> list[BrokerRegistration]:
        """Return the brokers to which clients may be directed, by node id."""
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.is_fenced]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic: its name, its id and its partitions by index."""

    name: str
    topic_id: TopicId
    partitions: Mapping[int, PartitionRegistration]


class TopicsById(Mapping[TopicId, TopicImage]):
    """The topics of ``by_name`` by their ids, in the order of the ids.

    ``names`` has the name of each topic by the integer value of its id. A change of a partition
    changes only ``by_name``, because a topic never changes its name or its id.
    """

    __slots__ = ("_by_name", "names")

    def __init__(self, names: Mapping[int, str], by_name: Mapping[str, TopicImage]) -> None:
        self.names = names
        self._by_name = by_name

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[TopicId]:
        return (self._by_name[name].topic_id for name in self.names.values())

    def __contains__(self, topic_id: object) -> bool:
        return isinstance(topic_id, UUID) and topic_id.int in self.names

    def __getitem__(self, topic_id: TopicId) -> TopicImage:
        return self._by_name[self.names[topic_id.int]]

    def get(self, topic_id: TopicId, default: TopicImage | None = None) -> TopicImage | None:  # type: ignore[override]
        """Return the topic of an id, or ``default`` if there is none."""
        name = self.names.get(topic_id.int)
        return default if name is None else self._by_name[name]


def colliding_key(name: str) -> str | None:
    """Return the key that a topic's name shares with all names that collide with it.

    Return None for a name that cannot collide. Metrics write a dot as an underscore, so that names
    collide if they differ only in these.
    """
    return name.replace(".", "_") if "." in name or "_" in name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsImage:
    """All topics, by name and by id.

    ``by_colliding_key`` holds topic names by ``colliding_key``, to refuse a new name that collides.
    """

    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    by_id: TopicsById = field(default_factory=lambda: TopicsById({}, {}))
    by_colliding_key: Mapping[str, str] = field(default_factory=dict)

    def partition(self, name: str, index: int) -> PartitionRegistration | None:
        """Return a partition by its topic's name, or None."""
        topic = self.by_name.get(name)
        return topic.partitions.get(index) if topic else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsImage:
    """Dynamic configuration by resource.

    The default of all brokers belongs to the BROKER resource with the empty name.
    """

    by_resource: Mapping[tuple[int, str], Mapping[str, str]] = field(
        default_factory=dict, repr=False
    )
    """Not shown: there are passwords among the values."""

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return a resource's own values as texts by key. The result is empty if none were set."""
        return self.by_resource.get((resource_type, name), NO_CONFIGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessImage:
    """ACLs, credentials, tokens and quotas.

    ``client_quotas`` has the quotas of each entity as numbers by key, such as
    ``producer_byte_rate``.
    """

    acls: Mapping[int, AclEntry] = field(default_factory=dict)
    """ACLs by the number of their id (``UUID.int``), because comparing and hashing a UUID runs in
    Python and would slow a map of 100,000.
    """
    acl_index: "AclIndex | None" = field(default=None, compare=False, repr=False)
    """The ACLs by resource. None if there never was an ACL."""
    scram_credentials: Mapping[ScramUser, ScramCredential] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A metadata transaction (KIP-868) that has begun and not ended.

    Its records change nothing until it ends.
    """

    name: str | None
    records: tuple[MetadataRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """The metadata after the record at ``offset``, which a controller wrote in ``epoch``.

    Both are -1 before the first record.
    """

    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    features: Mapping[str, int] = field(default_factory=dict)
    access: AccessImage = field(default_factory=AccessImage)
    next_producer_id: ProducerId = FIRST_PRODUCER_ID
    open_transaction: OpenTransaction | None = None
    offset: int = -1
    epoch: LeaderEpoch = NO_LEADER_EPOCH

    def __repr__(self) -> str:
        partition_count = sum(len(topic.partitions) for topic in self.topics.by_name.values())
        return (
            f"<MetadataImage offset={self.offset} epoch={self.epoch}"
            f" brokers={len(self.cluster.brokers)} topics={len(self.topics.by_name)}"
            f" partitions={partition_count}>"
        )


EMPTY_IMAGE = MetadataImage()
