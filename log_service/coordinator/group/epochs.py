"""The two epochs of a group whose members send heartbeats (KIP-848, KIP-932): that of what it wants, and that of the targets it computed.

The coordinator computes targets when the first is ahead of the second, but not again and again: ``TargetEpoch.is_due`` decides when.
"""

from dataclasses import dataclass


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
