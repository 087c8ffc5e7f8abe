"""Epochs of groups whose members send heartbeats (KIP-848, KIP-932, KIP-1071), and of these members.

A group has two: that of what it wants, and that of the targets it computed. The coordinator computes targets when the first is ahead of
the second, but not again and again: ``TargetEpoch.is_due`` decides when.
"""

from dataclasses import dataclass

FIRST_EPOCH = 1
"""Of a group without members: it is in epoch 2 when the first one has joined, as in Kafka 4.3."""
JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
"""What a heartbeat names as its member's epoch in order to join, to leave, and to leave for now as a static member that comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    """The epoch of a group's members, subscriptions and, in a share group, initialized states; the hash of the topics that it reads."""

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpoch:
    """The group's epoch for which targets were computed, and when: wall-clock milliseconds, 0 where that is not known."""

    epoch: int
    computed_ms: int = 0

    def is_due(self, wall_ms: int, interval_ms: int) -> bool:
        """Whether targets may be computed again. What a clock ahead of this one has dated is old: no member waits for it to catch up."""
        return self.computed_ms == 0 or not 0 <= wall_ms - self.computed_ms < interval_ms
