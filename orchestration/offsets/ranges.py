"""Offset ranges as values, for the reads of a run and the commits of a table.

A range is [start, end) of one partition. ``OffsetRanges`` are the ranges of one topic, by its id.
Decides nothing about progress and knows no table and no broker.
Invariants: 0 <= start <= end. Ranges ascend by partition and start and do not overlap.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Places = Mapping[int, Sequence[int]]
"""Offsets by partition."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetRange:
    """The offsets [start, end) of one partition.

    Offsets in it may be missing, because markers, aborted and compacted records leave gaps.
    """

    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.partition < 0 or not 0 <= self.start <= self.end:
            raise ValueError(
                f"partition {self.partition} [{self.start}, {self.end}) is not a range: 0 <= start"
                " <= end is needed"
            )

    @property
    def count(self) -> int:
        """The number of offsets in the range, an upper bound for its records."""
        return self.end - self.start

    @property
    def is_empty(self) -> bool:
        """Whether the range spans no offset."""
        return self.start == self.end

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.start <= offset < self.end

    def __str__(self) -> str:
        return f"{self.partition}:[{self.start},{self.end})"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRanges:
    """The ranges of one topic id. ``topic`` is only for people, because the id identifies it."""

    topic: str
    topic_id: str
    ranges: tuple[OffsetRange, ...]

    def __post_init__(self) -> None:
        for before, after in pairwise(self.ranges):
            if (before.partition, before.end) > (after.partition, after.start):
                raise ValueError(
                    f"the ranges of topic {self.topic} have to ascend and not to overlap: {self}"
                )

    @property
    def count(self) -> int:
        """The number of offsets in all ranges."""
        return sum(one.count for one in self.ranges)

    @property
    def is_empty(self) -> bool:
        """Whether no range spans an offset."""
        return self.count == 0

    def without_empty(self) -> "OffsetRanges":
        """Return the ranges that span at least one offset."""
        return OffsetRanges(
            topic=self.topic,
            topic_id=self.topic_id,
            ranges=tuple(one for one in self.ranges if not one.is_empty),
        )

    def ends(self) -> dict[int, int]:
        """Return the end (the next offset) of the last range of each partition."""
        return {one.partition: one.end for one in self.ranges}

    def spanning(self, other: "OffsetRanges") -> "OffsetRanges":
        """Return one range per partition that covers this and ``other``.

        If the topic ids differ, return ``other``.
        """
        if other.topic_id != self.topic_id:
            return other
        bounds: dict[int, tuple[int, int]] = {}
        for one in (*self, *other):
            start, end = bounds.get(one.partition, (one.start, one.end))
            bounds[one.partition] = (min(start, one.start), max(end, one.end))
        ranges = tuple(
            OffsetRange(partition=partition, start=start, end=end)
            for partition, (start, end) in sorted(bounds.items())
        )
        return OffsetRanges(topic=self.topic, topic_id=self.topic_id, ranges=ranges)

    def __iter__(self) -> Iterator[OffsetRange]:
        return iter(self.ranges)

    def __str__(self) -> str:
        return " ".join(str(one) for one in self.ranges)


def places_within(places: Places, ranges: Iterable[OffsetRange]) -> dict[int, list[int]]:
    """Return those of ``places`` that lie in ``ranges``. Partitions without any are left out."""
    held = list(ranges)
    found = {
        partition: [
            one
            for one in offsets
            if any(span.partition == partition and one in span for span in held)
        ]
        for partition, offsets in places.items()
    }
    return {partition: offsets for partition, offsets in found.items() if offsets}


def merged(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return ``ranges`` in order. Ranges that touch or overlap are merged into one."""
    whole: list[OffsetRange] = []
    for one in sorted(ranges):
        if whole and whole[-1].partition == one.partition and one.start <= whole[-1].end:
            whole[-1] = OffsetRange(
                partition=one.partition, start=whole[-1].start, end=max(whole[-1].end, one.end)
            )
        else:
            whole.append(one)
    return whole


def within(ranges: Iterable[OffsetRange], others: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return the parts of ``ranges`` that are in ``others``, in order.

    The ranges of each argument do not overlap each other.
    """
    held = list(others)
    bounds = [
        (one.partition, max(one.start, other.start), min(one.end, other.end))
        for one in ranges
        for other in held
        if one.partition == other.partition
    ]
    return [
        OffsetRange(partition=partition, start=start, end=end)
        for partition, start, end in sorted(bounds)
        if start < end
    ]


def outside(ranges: Iterable[OffsetRange], others: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return the parts of ``ranges`` that are in none of ``others``, in order.

    The ranges of each argument do not overlap each other.

    >>> held = OffsetRange(partition=0, start=2, end=5)
    >>> outside([OffsetRange(partition=0, start=0, end=9)], [held])
    [OffsetRange(partition=0, start=0, end=2), OffsetRange(partition=0, start=5, end=9)]
    """
    held = sorted(others)
    found = []
    for one in sorted(ranges):
        start = one.start
        for other in within([one], held):
            if start < other.start:
                found.append(OffsetRange(partition=one.partition, start=start, end=other.start))
            start = other.end
        if start < one.end:
            found.append(OffsetRange(partition=one.partition, start=start, end=one.end))
    return found


def split_range(whole: OffsetRange, size: int) -> Sequence[OffsetRange]:
    """Cut ``whole`` into ranges of at most ``size`` offsets, in order."""
    starts = range(whole.start, whole.end, size)
    return [
        OffsetRange(partition=whole.partition, start=start, end=min(start + size, whole.end))
        for start in starts
    ]


def ranges_of_offsets(partition: int, offsets: Sequence[int], max_ranges: int) -> list[OffsetRange]:
    """Return at most ``max_ranges`` ranges that cover ``offsets``.

    If there would be more, the smallest gaps between ranges are included in them.
    """
    ordered = sorted(set(offsets))
    if not ordered:
        return []
    gaps = sorted(
        range(1, len(ordered)), key=lambda index: ordered[index] - ordered[index - 1], reverse=True
    )
    cuts = sorted(
        index for index in gaps[: max_ranges - 1] if ordered[index] - ordered[index - 1] > 1
    )
    bounds = [0, *cuts, len(ordered)]
    return [
        OffsetRange(partition=partition, start=ordered[first], end=ordered[after - 1] + 1)
        for first, after in pairwise(bounds)
    ]


def table_of_offsets(
    ranges: OffsetRanges, high_watermarks: Mapping[int, int]
) -> list[dict[str, int]]:
    """Return one row per partition, for the table in a materialization.

    Its columns are partition, start, end, high_watermark and lag.
    """
    return [
        {
            "partition": one.partition,
            "start": one.start,
            "end": one.end,
            "high_watermark": high_watermarks.get(one.partition, one.end),
            "lag": max(high_watermarks.get(one.partition, one.end) - one.end, 0),
        }
        for one in ranges
    ]
