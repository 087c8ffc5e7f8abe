"""Which groups this node coordinates: those whose partition of ``__consumer_offsets`` it leads.

Decides when the group coordinator takes a partition over, and when it gives it up.
"""

from log_service.broker.offsets_log import OffsetsLog
from log_service.common.types import GROUP_METADATA_TOPIC
from log_service.coordinator.group_service import GroupService
from log_service.records.compression import Codec
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaListener, ReplicaManager


class OffsetsLeadership(ReplicaListener):
    """Hears from the replica manager which partitions this node leads."""

    def __init__(self, replicas: ReplicaManager, groups: GroupService, codec: Codec = Codec.NONE) -> None:
        self._codec = codec
        self._replicas = replicas
        self._groups = groups
        self._logs: dict[int, OffsetsLog] = {}
        replicas.add_listener(self)

    def resign_all(self) -> None:
        """Give every partition up: this node stops."""
        for index in list(self._logs):
            self._resign(index)

    def on_led(self, partition: Partition) -> None:
        """Coordinate the groups of a partition of the offsets topic, as its log tells; anew in each leader epoch."""
        if partition.topic_partition.topic == GROUP_METADATA_TOPIC:
            index = partition.topic_partition.partition
            self._close(index)
            log = self._logs[index] = OffsetsLog(self._replicas, partition, self._codec)
            self._groups.lead(log)

    def on_lost(self, partition: Partition) -> None:
        """Coordinate the groups of the partition no more."""
        if partition.topic_partition.topic == GROUP_METADATA_TOPIC:
            self._resign(partition.topic_partition.partition)

    def _resign(self, index: int) -> None:
        self._close(index)
        self._groups.resign(index)

    def _close(self, index: int) -> None:
        log = self._logs.pop(index, None)
        if log is not None:
            log.close()
