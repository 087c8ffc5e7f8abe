"""The callbacks of components that track the partitions of a node.

``replica_manager`` decides when they are called, and in which order.
"""

from log_service.replication.partition import Partition


class ReplicaListener:
    """Callbacks for the partitions of this node.

    A callback does nothing unless it is overridden. No callback may wait.
    """

    def on_led(self, partition: Partition) -> None:
        """Handle that this node leads the partition, in ``partition.leader_epoch``.

        If only the epoch changes, this is called again without ``on_lost`` in between.
        """

    def on_lost(self, partition: Partition) -> None:
        """Handle that this node no longer leads the partition.

        Either another broker leads, or the log is offline, or the partition is gone.
        """

    def on_opened(self, partition: Partition) -> None:
        """Handle that this node now has a replica of the partition.

        Its log is None if no directory could open it.
        """

    def on_moved(self, partition: Partition) -> None:
        """Handle that the partition's log is now in another log directory of this node."""

    def on_deleted(self, partition: Partition) -> None:
        """Handle that the partition was deleted, or that this node is no longer a replica.

        If this node led the partition, ``on_lost`` was called before.
        """
