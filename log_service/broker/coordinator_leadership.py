"""Which groups and transactions this node coordinates: those whose partition of an internal topic it leads.

Decides when a coordinator takes a partition over, and when it gives it up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from log_service.broker.partition_writer import PartitionWriter
from log_service.common.types import TopicPartition
from log_service.coordinator.shards import CoordinatorLog
from log_service.records.compression import Codec
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaListener, ReplicaManager


class Coordinator(Protocol):
    """What coordinates by the partitions of one topic."""

    def lead(self, coordinator_log: CoordinatorLog, /) -> None:
        """Serve what belongs to a partition, once it is loaded."""

    def resign(self, partition: int, /) -> None:
        """Stop serving what belongs to a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinated:
    """The coordinator of an internal topic, and the codec of what it writes."""

    coordinator: Coordinator
    codec: Codec = Codec.NONE


class CoordinatorLeadership(ReplicaListener):
    """Hears from the replica manager which partitions this node leads. ``by_topic`` are the internal topics that have a coordinator."""

    def __init__(self, replicas: ReplicaManager, by_topic: Mapping[str, Coordinated]) -> None:
        self._replicas = replicas
        self._by_topic = by_topic
        self._logs: dict[TopicPartition, PartitionWriter] = {}
        replicas.add_listener(self)

    def __repr__(self) -> str:
        return f"<CoordinatorLeadership {[str(where) for where in self._logs]}>"

    def resign_all(self) -> None:
        """Give every partition up: this node stops."""
        for where in list(self._logs):
            self._resign(where)

    def on_led(self, partition: Partition) -> None:
        """Coordinate by a partition of an internal topic, as its log tells; anew in each leader epoch."""
        where = partition.topic_partition
        coordinated = self._by_topic.get(where.topic)
        if coordinated is not None:
            self._close(where)
            log = self._logs[where] = PartitionWriter(self._replicas, partition, coordinated.codec)
            coordinated.coordinator.lead(log)

    def on_lost(self, partition: Partition) -> None:
        """Coordinate by the partition no more."""
        if partition.topic_partition.topic in self._by_topic:
            self._resign(partition.topic_partition)

    def _resign(self, where: TopicPartition) -> None:
        self._close(where)
        self._by_topic[where.topic].coordinator.resign(where.partition)

    def _close(self, where: TopicPartition) -> None:
        log = self._logs.pop(where, None)
        if log is not None:
            log.close()
