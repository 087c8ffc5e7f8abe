"""Decides which offsets of a topic a query reads from the archive, and which from the log.

Each record comes once. The archive covers a range of each partition, and the log gives the offsets
above it. The log also gives those below it, if the archive no longer keeps them. The ends are
fixed at the time of the decision. Knows no SQL.
Invariants: no offset is read from both. An offset that neither of them holds is a gap.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import LogClient
from orchestration.offsets.planning import PartitionOffsets
from orchestration.offsets.ranges import OffsetRange
from orchestration.retained.archive_reading import (
    ArchivedTopic,
    archived_topic,
    find_archive,
    newest_topic_id,
)

NO_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The partitions, offsets and timestamps that a scan is limited to.

    ``partitions`` None means all. Offsets are [start, end), and timestamps are at least ``from_ms``
    and below ``to_ms``.
    """

    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = NO_OFFSET
    from_ms: int | None = None
    to_ms: int | None = None

    def both(self, other: "Bounds") -> "Bounds":
        """Return the intersection of both bounds."""
        sets = [one for one in (self.partitions, other.partitions) if one is not None]
        from_times = [one for one in (self.from_ms, other.from_ms) if one is not None]
        to_times = [one for one in (self.to_ms, other.to_ms) if one is not None]
        return Bounds(
            partitions=frozenset.intersection(*sets) if sets else None,
            start=max(self.start, other.start),
            end=min(self.end, other.end),
            from_ms=max(from_times, default=None),
            to_ms=min(to_times, default=None),
        )

    def either(self, other: "Bounds") -> "Bounds":
        """Return the smallest bounds that contain both."""
        has_sets = self.partitions is not None and other.partitions is not None
        return Bounds(
            partitions=(
                (self.partitions or frozenset()) | (other.partitions or frozenset())
                if has_sets
                else None
            ),
            start=min(self.start, other.start),
            end=max(self.end, other.end),
            from_ms=(
                None
                if self.from_ms is None or other.from_ms is None
                else min(self.from_ms, other.from_ms)
            ),
            to_ms=(
                None if self.to_ms is None or other.to_ms is None else max(self.to_ms, other.to_ms)
            ),
        )

    def cut(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Return the parts of ``ranges`` that lie within the partitions and offsets."""
        found = []
        for one in ranges:
            start, end = max(one.start, self.start), min(one.end, self.end)
            if start < end and (self.partitions is None or one.partition in self.partitions):
                found.append(OffsetRange(partition=one.partition, start=start, end=end))
        return found


EVERYTHING = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRead:
    """The ranges of archive and log that a query reads, and the offsets that neither holds."""

    archived: tuple[OffsetRange, ...] = ()
    live: tuple[OffsetRange, ...] = ()
    gaps: tuple[OffsetRange, ...] = ()
    bounds: Bounds = field(default=EVERYTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """The sources of a topic's records.

    ``log`` is None if only the archive is read, and ``archive`` is None if there is none.
    """

    topic: str
    topic_id: str | None
    log: LogClient | None
    archive: ArchivedTopic | None
    offsets: tuple[PartitionOffsets, ...] = ()

    def read(self, bounds: Bounds) -> TopicRead:
        """Return the ranges within ``bounds``."""
        partitions = (
            [one.partition for one in self.offsets]
            if self.log is not None
            else self.archive.partitions
            if self.archive
            else ()
        )
        archived = {} if self.archive is None else self.archive.ranges(partitions)
        live, gaps = beside(self.offsets, archived)
        gaps += [] if self.archive is None else kept_holes(self.archive.holes(partitions), archived)
        return TopicRead(
            archived=tuple(bounds.cut(archived.values())),
            live=tuple(self._within_times(bounds.cut(live), bounds)),
            gaps=tuple(bounds.cut(sorted(gaps))),
            bounds=bounds,
        )

    def _within_times(self, ranges: Sequence[OffsetRange], bounds: Bounds) -> list[OffsetRange]:
        """Start each range at the first record that is young enough, which the log finds by time.

        The log cannot find the end, because an older record may come after a younger one. This also
        happens if brokers set the timestamps: the clocks of leaders differ, and a topic may have
        had producers' timestamps before.
        """
        if self.log is None or not ranges or bounds.from_ms is None:
            return list(ranges)
        starts = self.log.offsets_at(self.topic, bounds.from_ms)
        found = []
        for one in ranges:
            first = starts.get(one.partition)
            start = one.end if first is None else max(one.start, first)
            if start < one.end:
                found.append(OffsetRange(partition=one.partition, start=start, end=one.end))
        return found

    def batches(
        self, read: TopicRead, columns: Collection[str]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the records of ``read`` with the given ``columns``, each batch with its partition.

        The archive's records come first. A batch of the log that cannot be read comes as from a
        tolerant ``RangeReader``, with the column ``UNREADABLE``.
        """
        if self.archive is not None and read.archived:
            yield from self.archive.records.batches(
                read.archived, columns, from_ms=read.bounds.from_ms, to_ms=read.bounds.to_ms
            )
        if self.log is not None and read.live:
            reader = self.log.range_reader(is_tolerant=True)
            for one in read.live:
                for batch in reader(self.topic, one, topic_id=self.topic_id):
                    yield one.partition, batch


def beside(
    offsets: Iterable[PartitionOffsets], archived: Mapping[int, OffsetRange]
) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Return the ranges that are only in the log and not in the archive, and the gaps.

    Gaps are offsets after the archive's end that the log no longer holds.
    """
    live, gaps = [], []
    for one in offsets:
        covered = archived.get(one.partition)
        first, after = (
            (one.log_start_offset, one.log_start_offset)
            if covered is None
            else (covered.start, covered.end)
        )
        pieces = [
            (one.log_start_offset, min(first, one.last_stable_offset)),
            (max(after, one.log_start_offset), one.last_stable_offset),
        ]
        live += [
            OffsetRange(partition=one.partition, start=start, end=end)
            for start, end in pieces
            if start < end
        ]
        if after < one.log_start_offset:
            gaps.append(OffsetRange(partition=one.partition, start=after, end=one.log_start_offset))
    return live, gaps


def kept_holes(
    holes: Iterable[OffsetRange], archived: Mapping[int, OffsetRange]
) -> list[OffsetRange]:
    """Return those of ``holes`` that lie after the start of the archived offsets.

    Older holes do not matter, because the records before them are no longer kept.
    """
    return [
        one
        for one in holes
        if one.partition in archived and one.start > archived[one.partition].start
    ]


def find_source(topic: str, log: LogClient | None, lake: Lake | None) -> TopicSource | None:
    """Return the sources of the records of ``topic``, or None if neither topic nor archive exists.

    The archive is read after the log, so it holds all that retention had removed from the log by
    then.

    :raises LogServiceError: the log service does not respond.
    """
    description = None if log is None else log.describe_topic(topic)
    offsets = log.partition_offsets(topic) if log is not None and description is not None else ()
    snapshot = None if lake is None else find_archive(lake, topic)
    archive = None
    topic_id = None if description is None else description.topic_id
    if snapshot is not None:
        topic_id = topic_id or newest_topic_id(archived_topic(snapshot, "").files)
        archive = archived_topic(snapshot, topic_id or "")
    if description is None:
        return (
            None
            if archive is None
            else TopicSource(topic=topic, topic_id=topic_id, log=None, archive=archive)
        )
    return TopicSource(topic=topic, topic_id=topic_id, log=log, archive=archive, offsets=offsets)
