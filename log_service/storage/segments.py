"""The segments of one log in order of offset.

Decides which segment an offset belongs to. Invariants: never empty once a log is open; base offsets rise strictly; the last is the active
one. Both lists are replaced, never changed, so that a reader in another thread sees the old ones or the new ones.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from log_service.storage.segment import Segment


class Segments:
    """An ordered collection of segments."""

    __slots__ = ("_base_offsets", "_segments", "active")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments: tuple[Segment, ...] = ()
        self._base_offsets: list[int] = []
        self.active: Segment
        self.replace(segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    def replace(self, segments: Iterable[Segment]) -> None:
        """Hold exactly these, in order of offset."""
        self._segments = tuple(segments)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self.active = self._segments[-1]

    def add(self, segment: Segment) -> None:
        """Make ``segment`` the active one."""
        assert segment.base_offset > self.active.base_offset, "segments are added in order"
        self.replace((*self._segments, segment))

    def index_of(self, offset: int) -> int:
        """Return the index of the last segment that begins at or below ``offset``; -1 where all begin above."""
        return bisect_right(self._base_offsets, offset) - 1

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that ``offset`` belongs to and those after it."""
        segments = self._segments
        return iter(segments[max(self.index_of(offset), 0) :])

    @property
    def size_bytes(self) -> int:
        """Size of all files of batches."""
        return sum(segment.size_bytes for segment in self._segments)
