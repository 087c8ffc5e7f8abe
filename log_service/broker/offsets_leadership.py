"""Which groups this node coordinates: those whose partition of ``__consumer_offsets`` it leads.

Decides when the group coordinator takes a partition over, and when it gives it up.
"""

from log_service.broker.offsets_log import OffsetsLog
from log_service.common.types import GROUP_METADATA_TOPIC
from log_service.coordinator.group_service import GroupService
from log_service.records.compression import Codec
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaManager


class OffsetsLeadership:
    """What the replica manager calls when leadership moves."""

    def __init__(self, replicas: ReplicaManager, groups: GroupService, codec: Codec = Codec.NONE) -> None:
        self._codec = codec
        self._replicas = replicas
        self._groups = groups
        replicas.on_led = self._on_led
        replicas.on_lost = self._on_lost

    def resign_all(self) -> None:
        """Give every partition up: this node stops."""
        for partition in self._replicas.partitions.values():
            if partition.is_leader:
                self._on_lost(partition)

    def _on_led(self, partition: Partition) -> None:
        if partition.topic_partition.topic == GROUP_METADATA_TOPIC:
            partition.watchers.clear()
            self._groups.lead(OffsetsLog(self._replicas, partition, self._codec))

    def _on_lost(self, partition: Partition) -> None:
        if partition.topic_partition.topic == GROUP_METADATA_TOPIC:
            partition.watchers.clear()
            self._groups.resign(partition.topic_partition.partition)
