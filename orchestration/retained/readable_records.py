"""Reads a topic's archive and log as one, for a replay.

Decides which ranges of each partition can be read, the source of each record, and the first offset
of a time. If both hold an offset, the archive is read. It holds records that compaction has removed
since, and its files stay while they are read, whatever retention does meanwhile. Knows no table.
Invariants: each record of a range comes once, with its key, value, headers, timestamp, leader epoch
and offset. Offsets that neither holds yield no record.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import HEADERS, RECORD_SCHEMA, LogClient, RangeReader
from orchestration.offsets.planning import PartitionOffsets
from orchestration.offsets.ranges import OffsetRange, merged, outside, within
from orchestration.retained.archive_reading import (
    RECORD_COLUMNS,
    ArchivedRecords,
    ArchivedTopic,
    archived_topic,
    find_archive,
)
from orchestration.retained.topic_reads import beside, kept_holes

READ_SCHEMA = RECORD_SCHEMA.append(pa.field("headers", HEADERS))
Ranges = Mapping[int, Sequence[OffsetRange]]
"""Ranges by partition, in order within each."""


@dataclass(frozen=True, slots=True)
class HeldReader:
    """A ``RangeReader`` over archive and log.

    It holds plain values only, so that it can be sent to Spark's workers.
    """

    log: RangeReader
    archive: ArchivedRecords
    archived: Ranges
    live: Ranges

    def __call__(
        self, topic: str, wanted: OffsetRange, *, topic_id: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of the range that archive and log hold, in the order of their offsets.

        :raises OtherTopicError, LogServiceError: the log cannot be read.
        """
        from_archive = within([wanted], self.archived.get(wanted.partition, ()))
        for one in sorted([*from_archive, *within([wanted], self.live.get(wanted.partition, ()))]):
            if one in from_archive:
                for _, batch in self.archive.batches([one], RECORD_COLUMNS):
                    yield batch.select(READ_SCHEMA.names).cast(READ_SCHEMA)
            else:
                yield from self.log(topic, one, topic_id=topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTopic:
    """The ranges of one topic id that archive and log hold.

    ``archive`` is None if the topic has none.
    """

    topic: str
    log: LogClient
    archive: ArchivedTopic | None
    archived: Ranges
    live: Ranges
    _asked: dict[int, dict[int, int | None]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def ranges(self) -> dict[int, list[OffsetRange]]:
        """The readable ranges of each partition. They are empty if no offset is readable."""
        return {
            number: merged([*self.archived.get(number, ()), *found])
            for number, found in self.live.items()
        }

    @property
    def tails(self) -> dict[int, list[OffsetRange]]:
        """The last readable range of each partition, which has no gap."""
        return {number: found[-1:] for number, found in self.ranges.items()}

    @property
    def reader(self) -> RangeReader:
        """The reader of these ranges. It continues after a batch that cannot be read."""
        reader = self.log.range_reader(is_tolerant=True)
        if self.archive is None:
            return reader
        return HeldReader(reader, self.archive.records, self.archived, self.live)

    def archived_count(self, ranges: Iterable[OffsetRange]) -> int:
        """Return how many offsets of ``ranges`` are read from the archive."""
        return sum(
            one.count
            for one in within(ranges, [part for found in self.archived.values() for part in found])
        )

    def offsets_at(self, timestamp_ms: int) -> dict[int, int | None]:
        """Return, by partition, the first offset at or after a time, or None if there is none.

        The result is cached by time.
        """
        if timestamp_ms not in self._asked:
            found = self.log.offsets_at(self.topic, timestamp_ms)
            self._asked[timestamp_ms] = {
                number: self._first_at(number, found.get(number), timestamp_ms)
                for number in self.live
            }
        return self._asked[timestamp_ms]

    def _first_at(self, partition: int, in_log: int | None, timestamp_ms: int) -> int | None:
        """Return the first offset of a partition at or after a time, in archive or log.

        ``in_log`` is the one that the log has found.
        """
        if self.archive is None:
            return in_log
        for one in self.archived.get(partition, ()):
            if in_log is not None and in_log < one.start:
                break
            first = self.archive.records.first_at(one, timestamp_ms)
            if first is not None:
                return first if in_log is None else min(first, in_log)
        return in_log


def held_topic(
    topic: str, topic_id: str, log: LogClient, offsets: Sequence[PartitionOffsets], lake: Lake
) -> HeldTopic:
    """Return the ranges that archive and log hold of the topic of that id.

    ``offsets`` are those of the log. They were read before the archive, so the archive holds all
    that retention had removed from the log by then.
    """
    whole = {
        one.partition: OffsetRange(partition=one.partition, start=0, end=one.last_stable_offset)
        for one in offsets
    }
    found = find_archive(lake, topic)
    archive = None if found is None else archived_topic(found, topic_id)
    covered = {} if archive is None else archive.ranges(whole)
    live, _ = beside(offsets, covered)
    holes = [] if archive is None else kept_holes(archive.holes(whole), covered)
    held = outside([one for one in covered.values() if not one.is_empty], holes)
    return HeldTopic(
        topic=topic,
        log=log,
        archive=archive,
        archived={number: within([one], held) for number, one in whole.items()},
        live={number: within([one], live) for number, one in whole.items()},
    )
