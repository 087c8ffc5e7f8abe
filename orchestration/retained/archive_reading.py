"""Reading an archive: the files that a query needs, and their records by partition and offset.

Decides from the bounds of each file in the table's log. A file without known bounds is read. Knows
no broker and no SQL.
Invariant: records come as they were archived, of one topic id and one version of the table. All of
them are below ``ends``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from orchestration.lake.tables import Lake, TableSnapshot
from orchestration.offsets.known_gaps import beginning, holes_in
from orchestration.offsets.ranges import OffsetRange
from orchestration.retained.archive import archive_table
from orchestration.retained.archive_files import FILE_SCHEMA
from orchestration.values.times import milliseconds_of

ARCHIVE_OF = "tidelog.archiveOf"
"""A table's property: the name of the topic that it archives."""
RECORD_COLUMNS = ("offset", "timestamp", "leader_epoch", "key", "value", "headers")
BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """One file of an archive, with facts from the table's log. Unknown facts are None.

    Times are in milliseconds.
    """

    path: str
    partition: int
    size_bytes: int
    changed_ms: int
    topic_ids: tuple[str, str] | None = None
    offsets: tuple[int, int] | None = None
    times_ms: tuple[int, int] | None = None

    def may_hold(
        self, topic_id: str, wanted: OffsetRange, from_ms: int | None, to_ms: int | None
    ) -> bool:
        """Return whether the file may hold a record of ``topic_id`` in ``wanted``.

        Only records with a timestamp of at least ``from_ms`` and below ``to_ms`` count. None means
        no bound.
        """
        return (
            self.partition == wanted.partition
            and (self.topic_ids is None or self.topic_ids[0] <= topic_id <= self.topic_ids[1])
            and (
                self.offsets is None
                or (self.offsets[0] < wanted.end and self.offsets[1] >= wanted.start)
            )
            and (self.times_ms is None or from_ms is None or self.times_ms[1] >= from_ms)
            and (self.times_ms is None or to_ms is None or self.times_ms[0] < to_ms)
        )

    @property
    def newest_ms(self) -> int:
        """The newest timestamp, or the time at which the file was written if it has none."""
        return self.changed_ms if self.times_ms is None else self.times_ms[1]


def chosen_files(
    files: Iterable[ArchivedFile],
    topic_id: str,
    wanted: OffsetRange,
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> list[ArchivedFile]:
    """Return those of ``files`` that may hold the wanted records, in the order of their offsets."""
    found = [one for one in files if one.may_hold(topic_id, wanted, from_ms, to_ms)]
    return sorted(found, key=lambda one: one.offsets or (0, 0))


def expired_files(files: Iterable[ArchivedFile], kept_since_ms: int) -> list[ArchivedFile]:
    """Return the files that are no longer kept.

    In each partition, these are the files with the lowest offsets, up to the first one that is
    young enough. So the remaining files have no gap between them. If a topic was recreated, the
    files of each topic id are considered separately.
    """
    lines: dict[tuple[int, object], list[ArchivedFile]] = {}
    for one in files:
        lines.setdefault((one.partition, one.topic_ids), []).append(one)
    expired = []
    for line in lines.values():
        for one in sorted(line, key=lambda file: file.offsets or (0, 0)):
            if one.newest_ms >= kept_since_ms:
                break
            expired.append(one)
    return expired


def files_of(snapshot: TableSnapshot) -> list[ArchivedFile]:
    """Return the files of an archive."""
    rows = pa.table(snapshot.delta.get_add_actions(flatten=True)).to_pylist()
    return [
        ArchivedFile(
            path=row["path"],
            partition=int(row["partition._partition"]),
            size_bytes=int(row["size_bytes"]),
            changed_ms=_milliseconds(row["modification_time"]),
            topic_ids=_bounds(row, "_topic_id"),
            offsets=_bounds(row, "_offset"),
            times_ms=(
                None
                if (times := _bounds(row, "_timestamp")) is None
                else (_milliseconds(times[0]), _milliseconds(times[1]))
            ),
        )
        for row in rows
    ]


def _bounds(row: Mapping[str, Any], name: str) -> tuple[Any, Any] | None:
    low, high = row.get(f"min.{name}"), row.get(f"max.{name}")
    return None if low is None or high is None else (low, high)


def _milliseconds(moment: Any) -> int:
    """Return a time from delta-rs in milliseconds.

    It is a datetime (in UTC if it has no zone), or milliseconds already.
    """
    if isinstance(moment, datetime):
        return milliseconds_of(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return int(moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRecords:
    """The files that hold records of one topic id.

    All values are plain, so that Spark's workers can receive them.
    """

    folder: Path
    topic_id: str
    files: tuple[ArchivedFile, ...]

    def batches(
        self,
        ranges: Sequence[OffsetRange],
        columns: Collection[str],
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the records of ``ranges``, each batch with its partition.

        ``columns`` is a subset of ``RECORD_COLUMNS``. The files belong to one version of the table,
        and stay for a week even if later versions replace them.
        """
        wanted = [f"_{name}" for name in RECORD_COLUMNS if name in columns] or ["_offset"]
        for one in ranges:
            chosen = chosen_files(self.files, self.topic_id, one, from_ms, to_ms)
            for file in chosen:
                source = pads.dataset(
                    self.folder / Path(file.path),
                    schema=FILE_SCHEMA,
                    format="parquet",
                    partitioning=None,
                )
                scanner = source.scanner(
                    columns=wanted,
                    filter=_row_filter(self.topic_id, one, from_ms, to_ms),
                    batch_size=BATCH_ROWS,
                    batch_readahead=2,
                    fragment_readahead=1,
                )
                for batch in scanner.to_batches():
                    if batch.num_rows:
                        yield (
                            one.partition,
                            batch.rename_columns([name.removeprefix("_") for name in wanted]),
                        )

    def first_at(self, wanted: OffsetRange, timestamp_ms: int) -> int | None:
        """Return the first offset in ``wanted`` at or after ``timestamp_ms``, or None."""
        first: int | None = None
        for file in chosen_files(self.files, self.topic_id, wanted, timestamp_ms):
            if first is not None and file.offsets is not None and file.offsets[0] > first:
                break
            for _, batch in replace(self, files=(file,)).batches(
                [wanted], ["offset"], from_ms=timestamp_ms
            ):
                found = int(pc.min(batch["offset"]).as_py())
                first = found if first is None else min(first, found)
        return first


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTopic:
    """The archived records of one topic id, at one version of the archive's table."""

    snapshot: TableSnapshot
    topic_id: str
    files: tuple[ArchivedFile, ...]

    @property
    def records(self) -> ArchivedRecords:
        """Return the same records as plain values, without the snapshot of the table."""
        return ArchivedRecords(
            folder=self.snapshot.folder, topic_id=self.topic_id, files=self.files
        )

    @property
    def partitions(self) -> tuple[int, ...]:
        """Return the partitions that have files."""
        return tuple(sorted({one.partition for one in self.files}))

    def ranges(self, partitions: Iterable[int]) -> dict[int, OffsetRange]:
        """Return, by partition, the range of offsets that the archive covers.

        Partitions that were never archived are left out. A range begins at the first kept offset. A
        table of an earlier release does not note this offset. Its range begins at the first kept
        record, or at 0 if the table's log does not have it, and is empty if nothing is kept.
        Offsets that were lost before they were archived lie within the range (``holes``).
        """
        known: dict[int, int] = {}
        for one in self.files:
            if one.may_hold(self.topic_id, _whole(one.partition), None, None):
                is_told = one.offsets is not None and one.topic_ids == (
                    self.topic_id,
                    self.topic_id,
                )
                start = one.offsets[0] if is_told and one.offsets is not None else 0
                known[one.partition] = min(start, known.get(one.partition, start))
        ends = self.snapshot.checkpoints(self.topic_id, partitions)
        found = {}
        for number, end in (
            (number, checkpoint.next_offset) for number, checkpoint in ends.items()
        ):
            noted = self.snapshot.transaction_version(beginning(self.topic_id, number))
            first = known.get(number, end) if noted is None else noted
            found[number] = OffsetRange(partition=number, start=min(first, end), end=end)
        return found

    def holes(self, partitions: Iterable[int]) -> list[OffsetRange]:
        """Return the offsets within the archive that were never archived.

        They were removed from the log, or could not be read.
        """
        return [
            hole
            for number in partitions
            for hole in holes_in(self.topic_id, number, self.snapshot.transaction_version)
        ]


def _whole(partition: int) -> OffsetRange:
    return OffsetRange(partition=partition, start=0, end=2**63 - 1)


def _row_filter(topic_id: str, wanted: OffsetRange, from_ms: int | None, to_ms: int | None) -> Any:
    chosen = (
        (pc.field("_topic_id") == topic_id)
        & (pc.field("_offset") >= wanted.start)
        & (pc.field("_offset") < wanted.end)
    )
    stamp = FILE_SCHEMA.field("_timestamp").type
    if from_ms is not None:
        chosen &= pc.field("_timestamp") >= pa.scalar(from_ms * 1000, stamp)
    if to_ms is not None:
        chosen &= pc.field("_timestamp") < pa.scalar(to_ms * 1000, stamp)
    return chosen


def find_archive(lake: Lake, topic: str) -> TableSnapshot | None:
    """Return the newest version of a topic's archive, None if there is none."""
    try:
        snapshot = lake.snapshot(archive_table(topic))
    except ValueError:
        return None
    return snapshot if snapshot is not None and archived_by(snapshot) == topic else None


def archived_by(snapshot: TableSnapshot) -> str | None:
    """Return the topic that a table archives, None if it is not an archive."""
    found = snapshot.delta.metadata().configuration.get(ARCHIVE_OF)
    return None if found is None else str(found)


def archived_topic(snapshot: TableSnapshot, topic_id: str) -> ArchivedTopic:
    """Return the archived records of one topic id."""
    return ArchivedTopic(snapshot=snapshot, topic_id=topic_id, files=tuple(files_of(snapshot)))


def newest_topic_id(files: Iterable[ArchivedFile]) -> str | None:
    """Return the topic id of the newest records, None if nothing is archived.

    This is for callers that do not ask the log service for the id.
    """
    known = [(one.newest_ms, one.topic_ids[1]) for one in files if one.topic_ids is not None]
    return max(known)[1] if known else None
