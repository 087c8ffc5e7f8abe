"""What is known at one offset of the metadata log, as immutable values.

Decides shapes and lookups; ``metadata.delta`` makes the next image. Whoever holds an image may keep it as long as it likes: nothing in it
ever changes. Mappings are plain dictionaries behind a read-only type, so that reading costs nothing.

Invariants: ``topics.by_name`` and ``topics.by_id`` hold the same topics; a topic's partitions are numbered from 0 without gaps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from log_service.common.types import NO_LEADER_EPOCH, BrokerEpoch, LeaderEpoch, NodeId, ProducerId, TopicId
from log_service.metadata.partition import PartitionRegistration

FIRST_PRODUCER_ID = ProducerId(0)
NO_CONFIGS: Mapping[str, str] = {}


class ResourceType(IntEnum):
    """What a configuration belongs to, by Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An advertised listener of a broker; ``security_protocol`` is Kafka's number, 0 is PLAINTEXT."""

    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One broker. Its epoch is the offset of its registration; a fenced one leads nothing and is not told to clients."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """One controller of the quorum and where it listens."""

    node_id: NodeId
    incarnation_id: UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """Who is there."""

    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)

    def unfenced(self) -> list[BrokerRegistration]:
        """Return the brokers that clients may be sent to, by node id."""
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.is_fenced]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic: its name, its id and its partitions by index."""

    name: str
    topic_id: TopicId
    partitions: Mapping[int, PartitionRegistration]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsImage:
    """All topics, by name and by id."""

    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    by_id: Mapping[TopicId, TopicImage] = field(default_factory=dict)

    def partition(self, name: str, index: int) -> PartitionRegistration | None:
        """Return a partition by its topic's name, or None."""
        topic = self.by_name.get(name)
        return topic.partitions.get(index) if topic else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsImage:
    """Dynamic configuration by resource. All brokers together are the BROKER resource with the empty name."""

    by_resource: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return a resource's own texts, by key; nothing where none were set."""
        return self.by_resource.get((resource_type, name), NO_CONFIGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """The metadata after the record at ``offset``, written in ``epoch``; -1 is before the first one."""

    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: ProducerId = FIRST_PRODUCER_ID
    offset: int = -1
    epoch: LeaderEpoch = NO_LEADER_EPOCH

    def __repr__(self) -> str:
        partition_count = sum(len(topic.partitions) for topic in self.topics.by_name.values())
        return (
            f"<MetadataImage offset={self.offset} epoch={self.epoch} brokers={len(self.cluster.brokers)} "
            f"topics={len(self.topics.by_name)} partitions={partition_count}>"
        )


EMPTY_IMAGE = MetadataImage()
