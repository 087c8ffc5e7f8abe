"""Starts and stops coordinators as this node leads or loses partitions of internal topics.

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
from log_service.replication.replica_listener import ReplicaListener
from log_service.replication.replica_manager import ReplicaManager


class Coordinator(Protocol):
    """A coordinator of groups or transactions by the partitions of one topic."""

    def lead(self, coordinator_log: CoordinatorLog, /) -> None:
        """Load a partition's state, then serve it."""

    def resign(self, partition: int, /) -> None:
        """Stop serving the state of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinated:
    """A coordinator of an internal topic, and the compression codec of its records."""

    coordinator: Coordinator
    codec: Codec = Codec.NONE


class CoordinatorLeadership(ReplicaListener):
    """Starts and stops coordinators when this node becomes leader of a partition or loses it.

    ``by_topic`` are the internal topics that have a coordinator.
    """

    def __init__(self, replicas: ReplicaManager, by_topic: Mapping[str, Coordinated]) -> None:
        self._replicas = replicas
        self._by_topic = by_topic
        self._logs: dict[TopicPartition, PartitionWriter] = {}
        replicas.add_listener(self)

    def __repr__(self) -> str:
        return f"<CoordinatorLeadership {[str(where) for where in self._logs]}>"

    def resign_all(self) -> None:
        """Give up every partition, because this node stops."""
        for where in list(self._logs):
            self._resign(where)

    def on_led(self, partition: Partition) -> None:
        """Start the coordinator on a partition of an internal topic.

        Each leader epoch loads the state from the log again.
        """
        where = partition.topic_partition
        coordinated = self._by_topic.get(where.topic)
        if coordinated is not None:
            self._close(where)
            log = self._logs[where] = PartitionWriter(self._replicas, partition, coordinated.codec)
            coordinated.coordinator.lead(log)

    def on_lost(self, partition: Partition) -> None:
        """Stop coordinating the partition."""
        if partition.topic_partition.topic in self._by_topic:
            self._resign(partition.topic_partition)

    def _resign(self, where: TopicPartition) -> None:
        self._close(where)
        self._by_topic[where.topic].coordinator.resign(where.partition)

    def _close(self, where: TopicPartition) -> None:
        log = self._logs.pop(where, None)
        if log is not None:
            log.close()
