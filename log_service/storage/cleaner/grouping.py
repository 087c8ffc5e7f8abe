"""Grouping of adjacent small segments that are combined into one valid segment.

As in Kafka, groups are formed by the sizes before cleaning. A group has at most ``segment.bytes``
of batches, at most ``segment.index.bytes`` of each index, and offsets within 32 bits of the first.
This module changes nothing.
"""

from collections.abc import Sequence

from log_service.config.views import LogConfig
from log_service.storage.segment import MAX_RELATIVE_OFFSET, Segment


def group_segments(
    segments: Sequence[Segment], first_uncleanable_offset: int, config: LogConfig
) -> list[list[Segment]]:
    """Return ``segments`` in order, in groups of adjacent segments.

    The last segment ends at ``first_uncleanable_offset``.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), first_uncleanable_offset]
    groups: list[list[Segment]] = []
    room = _Room(config)
    for segment, end in zip(segments, ends, strict=True):
        if groups and room.takes(segment, end, groups[-1][0].base_offset):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            room = _Room(config)
        room.take(segment)
    return groups


class _Room:
    """The bytes of batches and indexes that may still be added to one group."""

    def __init__(self, config: LogConfig) -> None:
        self._size_bytes = config.segment_bytes
        self._index_bytes = self._time_index_bytes = config.segment_index_bytes

    def takes(self, segment: Segment, end_offset: int, base_offset: int) -> bool:
        """Return whether ``segment`` still fits into a group that begins at ``base_offset``.

        The segment ends before ``end_offset``.
        """
        return (
            segment.size_bytes <= self._size_bytes
            and segment.offset_index.size_bytes <= self._index_bytes
            and segment.time_index.size_bytes <= self._time_index_bytes
            and (segment.size_bytes == 0 or end_offset - 1 - base_offset <= MAX_RELATIVE_OFFSET)
        )

    def take(self, segment: Segment) -> None:
        """Add ``segment`` to the group. It is the first one, or ``takes`` returned true for it."""
        self._size_bytes -= segment.size_bytes
        self._index_bytes -= segment.offset_index.size_bytes
        self._time_index_bytes -= segment.time_index.size_bytes
