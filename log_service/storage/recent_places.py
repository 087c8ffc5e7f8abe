"""Where batches lie in a segment, and the memory of where the newest ones do, so that who reads at the end looks nothing up.

Knows nothing of files. Invariant: places are remembered without a gap from ``floor`` on.
"""

from typing import NamedTuple

RECENT_COUNT = 128


class BatchPlace(NamedTuple):
    """Where a batch lies in its segment."""

    position: int
    size_bytes: int


class RecentPlaces:
    """Where the newest batches lie, those from ``floor`` on. Grows at its end; whoever trims replaces it, since other threads read it."""

    __slots__ = ("floor", "last_offsets", "positions")

    def __init__(self, floor: int, last_offsets: list[int], positions: list[int]) -> None:
        self.floor = floor
        self.last_offsets = last_offsets
        self.positions = positions

    def without_oldest(self) -> "RecentPlaces":
        """Return the newer half."""
        floor = self.last_offsets[RECENT_COUNT - 1] + 1
        return RecentPlaces(floor, self.last_offsets[RECENT_COUNT:], self.positions[RECENT_COUNT:])
