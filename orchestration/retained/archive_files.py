"""The files of an archive: one Parquet file per partition and chunk.

A file is written into a staging folder and moved into the table for the commit. Decides the
columns, when a file is full, and its entry in the table's log, by which readers skip files by
partition, offset and time. A file is written as records come, a row group at a time. So memory
holds two row groups, however large a chunk is. Knows no broker, and does not know which ranges are
due.
Invariants: the rows of a file ascend by offset. A killed run leaves files in a folder that is no
part of the table, and a later run removes it.
"""

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from orchestration.lake.abandoned_files import new_staging_folder
from orchestration.lake.durable import sync
from orchestration.log_client.protocol import HEADERS
from orchestration.offsets.ranges import OffsetRange
from orchestration.values.times import FIRST_US, LAST_US, in_microseconds, moment

ARCHIVE_SCHEMA = pa.schema(
    [
        pa.field("_topic_id", pa.string()),
        pa.field("_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
        pa.field("_timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("_leader_epoch", pa.int32()),
        pa.field("_key", pa.binary()),
        pa.field("_value", pa.binary()),
        pa.field("_headers", HEADERS),
    ]
)
"""Columns of an archive's table: a record with its original bytes.

It is partitioned by ``_partition``.
"""
PARTITION_BY = ["_partition"]
FILE_SCHEMA = pa.schema([field for field in ARCHIVE_SCHEMA if field.name not in PARTITION_BY])
BOUNDED = ("_topic_id", "_offset", "_timestamp", "_leader_epoch")
"""Columns whose smallest and largest values are in the table's log.

These are all columns except bytes and lists. If the bounds of such a column are missing, a reader
assumes that no row of the file matches.
"""
ROW_GROUP_BYTES = 16 << 20
UNCUT = 1 << 30
"""A number of rows above that of any row group, so that each write is one row group."""
FILE_BYTES = 512 << 20
"""A chunk ends at this size of its records, uncompressed.

A killed run loses no more work than that.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The archived part of one partition.

    ``taken`` is the range that the file covers. ``leader_epoch`` is that of the last offset in it,
    None if that offset has no record. ``file`` is None if the range holds no record.
    """

    taken: OffsetRange
    file: Path | None
    records: int = 0
    size_bytes: int = 0
    newest: datetime | None = None
    leader_epoch: int | None = None
    statistics: str = ""


class _Tally:
    """Collects the statistics of a file for the table's log: counts, bounds and nulls."""

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0
        self.bounds: dict[str, tuple[Any, Any]] = {}
        self.nulls = dict.fromkeys(FILE_SCHEMA.names, 0)
        self.last_offset = -1
        self.leader_epoch = -1

    def add(self, rows: pa.RecordBatch) -> None:
        self.records += rows.num_rows
        self.size_bytes += rows.nbytes
        for name in FILE_SCHEMA.names:
            self.nulls[name] += rows[name].null_count
        for name in BOUNDED:
            low, high = _least_and_greatest(rows[name])
            if low is not None:
                known = self.bounds.get(name, (low, high))
                self.bounds[name] = (min(low, known[0]), max(high, known[1]))
        self.last_offset = rows["_offset"][-1].as_py()
        self.leader_epoch = rows["_leader_epoch"][-1].as_py()

    @property
    def newest(self) -> datetime | None:
        found = self.bounds.get("_timestamp", (None, None))[1]
        return found if isinstance(found, datetime) else None

    def text(self) -> str:
        """Return the statistics as JSON of Delta's protocol.

        They have null counts of all columns, because readers take a missing count to mean that all
        values are null.
        """
        plain = {name: (_plain(low), _plain(high)) for name, (low, high) in self.bounds.items()}
        return json.dumps(
            {
                "numRecords": self.records,
                "minValues": {name: low for name, (low, _) in plain.items()},
                "maxValues": {name: high for name, (_, high) in plain.items()},
                "nullCount": self.nulls,
            }
        )


def _least_and_greatest(column: pa.Array) -> tuple[Any, Any]:
    """Return the bounds of a column.

    A time that ISO 8601 text cannot express becomes the first or the last time that it can.
    """
    if not pa.types.is_timestamp(column.type):
        found = pc.min_max(column).as_py()
        return found["min"], found["max"]
    found = pc.min_max(column.cast(pa.int64())).as_py()
    return _moment(found["min"]), _moment(found["max"])


def _moment(time_us: int | None) -> datetime | None:
    return None if time_us is None else moment(min(max(time_us, FIRST_US), LAST_US))


def _plain(value: object) -> object:
    return (
        value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        if isinstance(value, datetime)
        else value
    )


def archive_rows(topic_id: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return records as the columns of a file.

    ``batch`` has ``log_client.RECORD_SCHEMA``, and headers if the reader yields them.
    """
    size = batch.num_rows
    columns = [
        pa.repeat(pa.scalar(topic_id), size),
        batch["offset"],
        in_microseconds(batch["timestamp"]),
        batch["leader_epoch"],
        batch["key"],
        batch["value"],
        batch["headers"] if "headers" in batch.schema.names else pa.nulls(size, HEADERS),
    ]
    return pa.record_batch(
        [column.cast(field.type) for column, field in zip(columns, FILE_SCHEMA, strict=True)],
        schema=FILE_SCHEMA,
    )


def write_chunk(
    folder: Path,
    topic_id: str,
    wanted: OffsetRange,
    batches: Iterable[pa.RecordBatch],
    *,
    limit_bytes: int,
) -> Chunk:
    """Write the records of ``wanted`` into a file in ``folder``.

    The file ends early after the batch that reaches ``limit_bytes``, and so does the chunk. There
    is no file if ``batches`` yield no record.
    """
    tally, file, end = _Tally(), folder / f"{uuid4().hex}.parquet", wanted.end
    waiting: list[pa.RecordBatch] = []
    writer: pq.ParquetWriter | None = None
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            rows = archive_rows(topic_id, batch)
            tally.add(rows)
            waiting.append(rows)
            writer = writer or _writer(file)
            if sum(one.nbytes for one in waiting) >= ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting), row_group_size=UNCUT)
                waiting = []
            if tally.size_bytes >= limit_bytes:
                end = min(tally.last_offset + 1, wanted.end)
                break
        if writer is not None and waiting:
            writer.write_table(pa.Table.from_batches(waiting), row_group_size=UNCUT)
    finally:
        if writer is not None:
            writer.close()
    taken = OffsetRange(partition=wanted.partition, start=wanted.start, end=end)
    if not tally.records:
        return Chunk(taken=taken, file=None)
    sync(file)  # the broker may remove the records once the file is committed
    return Chunk(
        taken=taken,
        file=file,
        records=tally.records,
        size_bytes=tally.size_bytes,
        newest=tally.newest,
        leader_epoch=tally.leader_epoch if tally.last_offset + 1 == end else None,
        statistics=tally.text(),
    )


def _writer(file: Path) -> pq.ParquetWriter:
    repeated = ["_topic_id", "_leader_epoch", "_key"]
    return pq.ParquetWriter(
        file,
        FILE_SCHEMA,
        compression="zstd",
        use_dictionary=repeated,
        write_statistics=list(BOUNDED),
    )


@contextmanager
def staging(table_folder: Path) -> Iterator[Path]:
    """Yield a folder for files that are not yet part of the table, and remove it at the end.

    Folders that killed runs left are removed, too.
    """
    folder = new_staging_folder(table_folder)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def move_in(table_folder: Path, chunks: Sequence[Chunk]) -> list[AddAction]:
    """Move the files of ``chunks`` into the table's folder and return their entries for its log."""
    actions = []
    for chunk in chunks:
        if chunk.file is None:
            continue
        values: Mapping[str, str | None] = {"_partition": str(chunk.taken.partition)}
        place = table_folder / f"_partition={chunk.taken.partition}" / chunk.file.name
        place.parent.mkdir(exist_ok=True)
        chunk.file.replace(place)
        sync(place.parent)
        described = place.stat()
        name = place.relative_to(table_folder).as_posix()
        actions.append(
            AddAction(
                name,
                described.st_size,
                values,
                int(described.st_mtime * 1000),
                True,
                chunk.statistics,
            )
        )
    return actions


def discard(table_folder: Path, actions: Iterable[AddAction], held: Collection[Path]) -> None:
    """Remove the files of ``actions`` from the table's folder, except those in ``held``.

    Call it after a failed commit, which leaves files that no version uses. ``held`` are the files
    of the newest version.
    """
    for action in actions:
        file = table_folder / action.path
        if file not in held:
            file.unlink(missing_ok=True)
