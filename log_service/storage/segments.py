"""The segments of one log in order of offset.

This module decides which segment an offset belongs to. It also orders the changes of files when a
segment is begun, dropped, truncated or exchanged for a cleaned one, so that after a crash the next
start can open the log. Removed files are renamed at once. A method returns their paths, and the
caller removes them later, because readers may still hold them. This module does not know producers,
epochs and durability.

Invariants:

- An open log always has a segment.
- Base offsets increase strictly, and the last segment is the active one.
- The segments and their base offsets are replaced together and never changed, so that a reader in
  another thread sees either all old ones or all new ones.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from log_service.config.views import LogConfig
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
        """Replace all segments. They must be in order of offset."""
        held = tuple(segments)
        self._held = held, [segment.base_offset for segment in held]
        self.active = held[-1]

    def index_of(self, offset: int) -> int:
        """Return the index of the last segment that begins at or below ``offset``, or -1."""
        return bisect_right(self._held[1], offset) - 1

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that ``offset`` belongs to, and the segments after it."""
        segments, base_offsets = self._held
        return iter(segments[max(bisect_right(base_offsets, offset) - 1, 0) :])

    @property
    def size_bytes(self) -> int:
        """The size of all files of batches, in bytes."""
        return sum(segment.size_bytes for segment in self._held[0])

    # Changes; all raise OSError if the disk failed

    def begin(self, base_offset: int, config: LogConfig, *, created_ms: int) -> list[Path]:
        """Make a new segment the active one.

        If the active segment is still empty, it is dropped. Another one replaces it only because
        its base is too far from the next offset. Return the paths of its renamed files, which are
        still to be removed, or an empty list.
        """
        held, old = self._held[0], self.active
        if old.size_bytes == 0:
            kept, paths = held[:-1], old.set_aside()
        else:
            assert base_offset > old.base_offset, "segments begin in order"
            kept, paths = held, []
        self.replace(
            (*kept, Segment(old.files, old.directory, base_offset, config, created_ms=created_ms))
        )
        return paths

    def drop_oldest(self, count: int) -> list[Path]:
        """Drop the oldest segments and return their paths."""
        held = self._held[0]
        self.replace(held[count:])
        return [path for segment in held[:count] for path in segment.set_aside()]

    def cut(self, offset: int, config: LogConfig, *, created_ms: int) -> list[Path]:
        """Remove everything at or above ``offset``, later segments first and durably.

        Return the paths of dropped segments. A batch that holds the offset is removed whole. If all
        segments begin above the offset, an empty one begins at the offset.
        """
        keep = self.index_of(offset) + 1
        kept, doomed = list(self._held[0][:keep]), self._held[0][keep:]
        paths = [path for segment in reversed(doomed) for path in segment.set_aside()]
        if not kept:
            kept.append(
                Segment(
                    self.active.files, self.active.directory, offset, config, created_ms=created_ms
                )
            )
        self.active.files.sync_directory(self.active.directory)
        self.replace(kept)
        place = self.active.locate(offset)
        if place is not None:
            self.active.truncate_to_position(place.position)
        return paths

    def exchange(self, old: Sequence[Segment], new: Segment) -> tuple[list[Path], int]:
        """Replace ``old`` with ``new``. Return the old paths and the next segment's base offset.

        ``old`` holds adjacent segments without the active one. They stay open for their readers.
        """
        first = self.index_of(old[0].base_offset)
        segments = self._held[0]
        paths = [path for segment in old for path in segment.set_aside(is_kept_open=True)]
        new.rename("")
        following = segments[first + len(old) :]
        self.replace([*segments[:first], new, *following])
        return paths, following[0].base_offset
