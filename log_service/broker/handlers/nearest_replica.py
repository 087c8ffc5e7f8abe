"""Selects the replica that a consumer should read from, in its own rack if possible (KIP-392).

Decides as Apache Kafka's ``RackAwareReplicaSelector`` does. It selects the leader if the leader is
in the consumer's rack, or if no replica is. Otherwise it selects the in-sync replica of that rack
with the largest log end offset. Among equal replicas it selects the one that was caught up last. A
replica counts only if it holds the consumer's offset, and if the consumer can reach it on the same
listener.
"""

from log_service.metadata.image import MetadataImage
from log_service.replication.partition_state import PartitionState
from log_service.storage.log import Log


class Nearest:
    """The brokers in the rack of a consumer, from which the replica for a request is selected."""

    __slots__ = ("_rack", "_racks")

    def __init__(self, image: MetadataImage, listener_name: str, rack: str) -> None:
        self._rack = rack
        self._racks = {
            int(broker.node_id): broker.rack
            for broker in image.cluster.brokers.values()
            if not broker.is_fenced and listener_name in broker.endpoints
        }

    def replica_for(self, log: Log, state: PartitionState, fetch_offset: int) -> int | None:
        """Return the broker that a consumer should fetch from, or None if it is this one."""
        if (
            self._racks.get(state.node_id) == self._rack
            or not log.log_start_offset <= fetch_offset <= log.log_end_offset
        ):
            return None
        candidates = [
            (follower.log_end_offset, follower.last_caught_up_ms, -broker_id)
            for broker_id, follower in state.followers.items()
            if broker_id in state.isr
            and self._racks.get(broker_id) == self._rack
            and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        ]
        return -max(candidates)[2] if candidates else None
