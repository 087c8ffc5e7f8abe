"""Epochs of groups whose members send heartbeats (KIP-848, KIP-932, KIP-1071), and of members.

A group has two epochs: the group epoch, and that of its last computed targets. The coordinator
computes targets if the first is ahead of the second. ``TargetEpoch.is_due`` limits how often it
does so.
"""

from dataclasses import dataclass

FIRST_EPOCH = 1
"""The epoch of a group without members. The first join makes it 2, as in Kafka 4.3."""
JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
"""Member epochs in a heartbeat: to join, to leave, and to leave for a while as a static member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    """The group epoch and the hash of the topics that the group reads.

    The epoch grows with a change of members, subscriptions and, in a share group, initialized
    states.
    """

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpoch:
    """The group epoch of the computed targets, and their wall-clock time in milliseconds.

    The time is 0 if it is not known.
    """

    epoch: int
    computed_ms: int = 0

    def is_due(self, wall_ms: int, interval_ms: int) -> bool:
        """Whether targets may be computed again.

        A time ahead of this clock counts as old, so that no member waits for the clock to catch up.
        """
        return self.computed_ms == 0 or not 0 <= wall_ms - self.computed_ms < interval_ms
