"""Epochs of groups whose members send heartbeats (KIP-848, KIP-932, KIP-1071), and of members.

A group has two epochs: the group epoch, and the epoch of its last computed targets. The coordinator
computes targets if the group epoch is ahead of the targets' epoch. ``TargetEpoch.is_due`` limits
how often targets are computed.
"""

from dataclasses import dataclass

FIRST_EPOCH = 1
"""The epoch of a group without members. The first join makes it 2, as in Kafka 4.3."""
JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
"""Member epochs in a heartbeat: to join, to leave, and to leave temporarily as a static member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    """The group epoch and the hash of the topics that the group reads.

    The epoch increases when members, subscriptions or the subscribed topics change. In a share
    group, it also increases when partitions become assignable because their share states are
    initialized.
    """

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpoch:
    """The group epoch of the computed targets, and the wall-clock time of their computation.

    The time is in milliseconds. 0 means that it is unknown.
    """

    epoch: int
    computed_ms: int = 0

    def is_due(self, wall_ms: int, interval_ms: int) -> bool:
        """Return whether targets may be computed again.

        A time ahead of this node's clock counts as old. Otherwise members would wait until the
        clock has caught up.
        """
        return self.computed_ms == 0 or not 0 <= wall_ms - self.computed_ms < interval_ms
