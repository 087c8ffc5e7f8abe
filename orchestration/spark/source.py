"""Offset ranges of a topic as a Spark DataFrame with the columns ``_topic_id, _partition, _offset, _timestamp, key, value``.

Decides between three ways by size. Small: the run process reads Arrow and hands it to Spark as it is. Larger: it writes the Arrow into a
Parquet file that Spark reads side by side (a relation sent over Connect is read by one task and unpacked anew by each job: ten times
slower). Beyond what one process should hold: Spark's Python workers read pieces of the ranges themselves, and the result is persisted so
that the log is read once. Knows no table and no schema of values.
Invariants: each record of the ranges appears exactly once; the counts are those of the records read, not of the offsets spanned.
"""

import base64
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sql
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from orchestration.log_client import RangeReader
from orchestration.offsets import OffsetRange, OffsetRanges, split_range

SOURCE_SCHEMA = pa.schema(
    [
        pa.field("_topic_id", pa.string()),
        pa.field("_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
        pa.field("_timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("_leader_epoch", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
SOURCE_DDL = "_topic_id STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _leader_epoch INT, key BINARY, value BINARY"
SOURCE_NAME = "tidelog_range"
INLINE_BYTES = 512 * 1024
ROW_GROUP_RECORDS = 25_000
LEFTOVER_AGE_S = 6 * 3_600
MINIMUM_PIECE_RECORDS = 25_000
PIECES_PER_PARTITION = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatistics:
    """What was read: records, bytes of keys and values, newest timestamp (ms), last leader epoch by partition."""

    records: int
    bytes: int
    newest_timestamp_ms: int | None
    leader_epochs: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatchFrame:
    """The records of a run as a DataFrame, and what the run process knows of them without Spark.

    ``file`` is where Spark reads them from, if it is a file.
    """

    frame: Any
    statistics: BatchStatistics
    reader: RangeReader
    ranges: OffsetRanges
    arrow: pa.Table | None
    file: Path | None = None

    def records_at(self, wanted: Mapping[int, Sequence[int]]) -> pa.Table:
        """Return the records at the given offsets by partition, as ``SOURCE_SCHEMA``; reads again what is not at hand."""
        if self.arrow is not None:
            batches: Iterator[pa.RecordBatch] = iter(self.arrow.to_batches())
        else:
            touched = [one for one in self.ranges if wanted.get(one.partition)]
            batches = chain.from_iterable(_source_batches(self.reader, self.ranges, one) for one in touched)
        sets = {partition: pa.array(sorted(offsets), pa.int64()) for partition, offsets in wanted.items() if offsets}
        kept = [batch.filter(_is_wanted(batch, sets)) for batch in batches]
        return pa.Table.from_batches([batch for batch in kept if batch.num_rows], schema=SOURCE_SCHEMA)

    def release(self) -> None:
        """Give back what Spark or the disk keeps of the batch."""
        if self.arrow is None:
            self.frame.unpersist()
        if self.file is not None:
            self.file.unlink(missing_ok=True)


def read_ranges(
    session: Any, reader: RangeReader, ranges: OffsetRanges, *, arrow_records: int, scratch: Path | None = None
) -> RecordBatchFrame:
    """Return the records of ``ranges``; up to ``arrow_records`` offsets go through the run process, more through Spark's workers.

    ``scratch`` is a directory that Spark can read, too; None where Spark runs on another machine.
    """
    if ranges.count <= arrow_records:
        return _through_arrow(session, reader, ranges, scratch)
    return _through_workers(session, reader, ranges)


def _through_arrow(session: Any, reader: RangeReader, ranges: OffsetRanges, scratch: Path | None) -> RecordBatchFrame:
    batches = chain.from_iterable(_source_batches(reader, ranges, one) for one in ranges)
    table = pa.Table.from_batches(batches, schema=SOURCE_SCHEMA)
    file = None if scratch is None or table.nbytes <= INLINE_BYTES else _written(table, scratch)
    if file is None:
        frame = session.createDataFrame(table.combine_chunks(), schema=SOURCE_DDL)
    else:
        frame = session.read.schema(SOURCE_DDL).parquet(str(file))
    return RecordBatchFrame(frame=frame, statistics=arrow_statistics(table), reader=reader, ranges=ranges, arrow=table, file=file)


def _written(table: pa.Table, scratch: Path) -> Path:
    """Write a file as quickly as it goes, and remove those that killed runs left."""
    scratch.mkdir(parents=True, exist_ok=True)
    for leftover in scratch.glob("batch-*.parquet"):
        if leftover.stat().st_mtime < time() - LEFTOVER_AGE_S:
            leftover.unlink(missing_ok=True)
    file = scratch / f"batch-{uuid4().hex}.parquet"
    pq.write_table(table, file, row_group_size=ROW_GROUP_RECORDS, compression="NONE", use_dictionary=False, write_statistics=False)
    return file


def arrow_statistics(table: pa.Table) -> BatchStatistics:
    """Return the statistics of records at hand."""
    size = sum(pc.sum(pc.binary_length(table[name])).as_py() or 0 for name in ("key", "value"))
    newest = pc.max(table["_timestamp"].cast(pa.int64())).as_py()
    epochs = table.group_by("_partition").aggregate([("_leader_epoch", "max")])
    return BatchStatistics(
        records=table.num_rows,
        bytes=size,
        newest_timestamp_ms=None if newest is None else newest // 1000,
        leader_epochs=dict(zip(epochs["_partition"].to_pylist(), epochs["_leader_epoch_max"].to_pylist(), strict=True)),
    )


def _through_workers(session: Any, reader: RangeReader, ranges: OffsetRanges) -> RecordBatchFrame:
    session.dataSource.register(OffsetRangeSource)
    work = base64.b64encode(pickle.dumps((reader, ranges))).decode()
    frame = session.read.format(SOURCE_NAME).option("work", work).load().persist()
    return RecordBatchFrame(frame=frame, statistics=_frame_statistics(frame), reader=reader, ranges=ranges, arrow=None)


def _frame_statistics(frame: Any) -> BatchStatistics:
    size = sql.coalesce(sql.length("key"), sql.lit(0)) + sql.coalesce(sql.length("value"), sql.lit(0))
    found = frame.groupBy("_partition").agg(
        sql.count(sql.lit(1)).alias("records"),
        sql.max("_leader_epoch").alias("leader_epoch"),
        sql.max(sql.unix_millis("_timestamp")).alias("newest"),
        sql.sum(size).alias("bytes"),
    )
    rows = found.toArrow().to_pylist()
    return BatchStatistics(
        records=sum(row["records"] for row in rows),
        bytes=sum(row["bytes"] for row in rows),
        newest_timestamp_ms=max((row["newest"] for row in rows if row["newest"] is not None), default=None),
        leader_epochs={row["_partition"]: row["leader_epoch"] for row in rows},
    )


def _is_wanted(batch: pa.RecordBatch, sets: Mapping[int, pa.Array]) -> pa.Array:
    chosen = pa.array([False] * batch.num_rows, pa.bool_())
    for partition, offsets in sets.items():
        of_partition = pc.and_(pc.equal(batch["_partition"], partition), pc.is_in(batch["_offset"], value_set=offsets))
        chosen = pc.or_(chosen, of_partition)
    return chosen


def _source_batches(reader: RangeReader, ranges: OffsetRanges, one: OffsetRange) -> Iterator[pa.RecordBatch]:
    for batch in reader(ranges.topic, one):
        yield pa.RecordBatch.from_arrays(
            [
                pa.repeat(pa.scalar(ranges.topic_id), batch.num_rows),
                pa.repeat(pa.scalar(one.partition, pa.int32()), batch.num_rows),
                batch["offset"],
                batch["timestamp"].cast(pa.timestamp("us", tz="UTC")),
                batch["leader_epoch"],
                batch["key"].cast(pa.binary()),
                batch["value"].cast(pa.binary()),
            ],
            schema=SOURCE_SCHEMA,
        )


@dataclass(frozen=True, slots=True)
class RangePiece(InputPartition):
    """What one task reads: a piece of one partition's range."""

    value: OffsetRange


class OffsetRangeSource(DataSource):
    """Spark's Python data source over offset ranges. Its option ``work`` carries the pickled reader and ranges of this run."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return SOURCE_NAME

    def schema(self) -> str:
        """Return the columns."""
        return SOURCE_DDL

    def reader(self, schema: Any) -> "OffsetRangeReader":  # noqa: ARG002 - Spark's signature
        """Return the reader of this run's ranges."""
        reader, ranges = pickle.loads(base64.b64decode(self.options["work"]))  # noqa: S301 - written by this run, for its own workers
        return OffsetRangeReader(reader, ranges)


class OffsetRangeReader(DataSourceReader):
    """Cuts ranges into pieces and reads one piece per task."""

    def __init__(self, reader: RangeReader, ranges: OffsetRanges) -> None:
        self._reader = reader
        self._ranges = ranges

    def partitions(self) -> Sequence[InputPartition]:
        """Return the pieces: at most eight per partition, none tiny."""
        pieces = (
            split_range(one, max(MINIMUM_PIECE_RECORDS, -(-one.count // PIECES_PER_PARTITION))) for one in self._ranges if not one.is_empty
        )
        return [RangePiece(piece) for piece in chain.from_iterable(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of one piece."""
        assert isinstance(partition, RangePiece)
        yield from _source_batches(self._reader, self._ranges, partition.value)
