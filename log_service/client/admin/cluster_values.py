"""What an Admin answers about log directories, the quorum, features, reassignments and producers: plain values. Decides nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition


class TopicPartitionReplica(NamedTuple):
    """One replica: a partition on a broker."""

    topic: str
    partition: int
    broker_id: int


class ElectionType(IntEnum):
    """Who may be elected: the first replica where it is in sync, or, where nobody leads, any replica (records may be lost)."""

    PREFERRED = 0
    UNCLEAN = 1


class UpgradeType(IntEnum):
    """Which way a feature's level may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDescription:
    """A replica in a log directory; ``is_future`` is a copy that will replace the one in another directory."""

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
    """The metadata quorum; ``endpoints`` are the voters' listeners as {node id: {listener: "host:port"}}, where the broker tells them."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDescription:
    """Features: the levels that the broker keeps as (lowest, highest), those of the cluster, and the epoch in which those were read."""

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
class ProducerDescription:
    """A producer that a partition remembers; -1 where there is nothing, such as an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftVoter:
    """A voter to add: its id, the id of its metadata directory, and where its controller listeners are as {name: (host, port)}."""

    node_id: int
    directory_id: UUID
    endpoints: Mapping[str, tuple[str, int]] = field(default_factory=dict)
