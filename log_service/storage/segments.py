"""The segments of one log in order of offset.

Decides which segment an offset belongs to. Invariants: never empty once a log is open; base offsets rise strictly; the last is the active
one. Both lists are replaced at once, never changed, so that a reader in another thread sees the old ones or the new ones.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from log_service.storage.segment import Segment


class Segments:
    """An ordered collection of segments."""

    __slots__ = ("_held", "active")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._held: tuple[tuple[Segment, ...], list[int]]
        self.active: Segment
        self.replace(segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._held[0])

    def __len__(self) -> int:
        return len(self._held[0])

    def __getitem__(self, index: int) -> Segment:
        return self._held[0][index]

    def replace(self, segments: Iterable[Segment]) -> None:
        """Hold exactly these, in order of offset."""
        held = tuple(segments)
        self._held = held, [segment.base_offset for segment in held]
        self.active = held[-1]

    def add(self, segment: Segment) -> None:
        """Make ``segment`` the active one."""
        assert segment.base_offset > self.active.base_offset, "segments are added in order"
        self.replace((*self._held[0], segment))

    def index_of(self, offset: int) -> int:
        """Return the index of the last segment that begins at or below ``offset``; -1 where all begin above."""
        return bisect_right(self._held[1], offset) - 1

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that ``offset`` belongs to and those after it."""
        segments, base_offsets = self._held
        return iter(segments[max(bisect_right(base_offsets, offset) - 1, 0) :])

    @property
    def size_bytes(self) -> int:
        """Size of all files of batches."""
        return sum(segment.size_bytes for segment in self._held[0])
