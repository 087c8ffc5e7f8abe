"""Offset ranges of a topic as columns, in Arrow or in Spark.

The columns are ``_topic_id, _partition, _offset, _timestamp, _leader_epoch, key, value``. Decides
how Spark's Python workers share ranges that are too large for one process. They read pieces of the
ranges themselves, and the result is persisted so that the log is read once. A function
(``ValueFaults``) may check the values as they are read. Arrow also has ``headers``, because they
cost no further copy. Spark gets them on request. Knows no table and no schema of values.
Invariants: each record of the ranges appears exactly once. The counts are those of the records
read, not of the offsets spanned.
"""

import base64
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sql
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from orchestration.formats.columns import ValueFormat, ddl_of, in_places
from orchestration.formats.registered import read_records
from orchestration.log_client.protocol import HEADERS, UNREADABLE, RangeReader
from orchestration.offsets.byte_limits import DEFAULT_RECORD_BYTES, bounded
from orchestration.offsets.ranges import OffsetRange, OffsetRanges, split_range
from orchestration.values.times import in_microseconds

SOURCE_SCHEMA = pa.schema(
    [
        pa.field("_topic_id", pa.string()),
        pa.field("_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
        pa.field("_timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("_leader_epoch", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
SOURCE_DDL = (
    "_topic_id STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _leader_epoch INT, key"
    " BINARY, value BINARY"
)
HEADERS_DDL = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
FAULT, PARSED = "_fault", "_parsed"
SOURCE_NAME = "tidelog_range"
DAY_US = 86_400_000_000
MINIMUM_PIECE_RECORDS = 25_000
PIECES_PER_PARTITION = 8

ValueFaults = Callable[[pa.Array], pa.Array]
"""Returns the reason of refusal for each value, null if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatistics:
    """Statistics of the records that were read.

    They are the number of records, the size of keys and values in bytes, the newest timestamp (ms),
    the days on which timestamps lie (counted from 1970), and the last leader epoch and last offset
    by partition.
    """

    records: int
    bytes: int
    newest_timestamp_ms: int | None
    leader_epochs: Mapping[int, int]
    last_offsets: Mapping[int, int]
    days: frozenset[int] = frozenset()

    def epochs_at(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Return the leader epochs of the offsets before ``ends``, if they are known.

        An epoch is known if its offset has a record. Offsets after the last record (markers,
        aborted and compacted records) may have a later epoch. If the record's epoch were used for
        them, the log would look truncated, because that epoch ends before them.
        """
        return {
            partition: epoch
            for partition, epoch in self.leader_epochs.items()
            if partition in ends and self.last_offsets[partition] + 1 == ends[partition]
        }


class StatisticsCount:
    """Collects the statistics of records, batch by batch."""

    def __init__(self) -> None:
        self.record_count = 0
        self.size_bytes = 0
        self._newest_us: int | None = None
        self._leader_epochs: dict[int, int] = {}
        self._last_offsets: dict[int, int] = {}
        self._days: set[int] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the records of a batch of ``SOURCE_SCHEMA``, all of one partition."""
        if not batch.num_rows:
            return
        self.record_count += batch.num_rows
        self.size_bytes += sum(
            pc.sum(pc.binary_length(batch[name])).as_py() or 0 for name in ("key", "value")
        )
        self._add_times(batch["_timestamp"].cast(pa.int64()))
        partition = batch["_partition"][0].as_py()
        self._leader_epochs[partition] = max(
            pc.max(batch["_leader_epoch"]).as_py(), self._leader_epochs.get(partition, -1)
        )
        self._last_offsets[partition] = max(
            pc.max(batch["_offset"]).as_py(), self._last_offsets.get(partition, -1)
        )

    def _add_times(self, times_us: pa.Array) -> None:
        bounds = pc.min_max(times_us).as_py()
        if bounds["max"] is None:
            return
        self._newest_us = (
            bounds["max"] if self._newest_us is None else max(bounds["max"], self._newest_us)
        )
        first, last = bounds["min"] // DAY_US, bounds["max"] // DAY_US
        self._days |= (
            {first}
            if first == last
            else set(pc.unique(pc.divide(times_us, DAY_US)).drop_null().to_pylist())
        )

    def statistics(self) -> BatchStatistics:
        """Return the statistics of the batches so far."""
        return BatchStatistics(
            records=self.record_count,
            bytes=self.size_bytes,
            newest_timestamp_ms=None if self._newest_us is None else self._newest_us // 1000,
            leader_epochs=dict(self._leader_epochs),
            last_offsets=dict(self._last_offsets),
            days=frozenset(self._days),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatchFrame:
    """The records of a run, read by Spark's workers.

    ``frame`` has the columns of ``SOURCE_SCHEMA`` (``headers`` only on request), ``_fault``, and
    ``_parsed`` if a format was given.
    """

    frame: Any
    statistics: BatchStatistics
    reader: RangeReader
    ranges: OffsetRanges
    record_bytes: int = DEFAULT_RECORD_BYTES

    def records_at(self, wanted: Mapping[int, Sequence[int]]) -> pa.Table:
        """Return the records at the given offsets by partition, read again, as ``SOURCE_SCHEMA``.

        Values that are too large are cut.
        """
        touched = [one for one in self.ranges if wanted.get(one.partition)]
        batches = chain.from_iterable(
            source_batches(self.reader, self.ranges, one) for one in touched
        )
        return chosen_records(
            (admitted(batch, self.ranges.topic, self.record_bytes)[0] for batch in batches), wanted
        )

    def release(self) -> None:
        """Release the records that Spark has persisted."""
        self.frame.unpersist()


def source_ddl(*, has_headers: bool) -> str:
    """Return the columns that Spark gets, with or without ``headers``."""
    return f"{SOURCE_DDL}, {HEADERS_DDL}" if has_headers else SOURCE_DDL


def read_by_workers(
    session: Any,
    reader: RangeReader,
    ranges: OffsetRanges,
    value_faults: ValueFaults | None,
    value_format: ValueFormat | None = None,
    *,
    has_headers: bool = False,
    record_bytes: int = DEFAULT_RECORD_BYTES,
) -> RecordBatchFrame:
    """Make Spark's workers read ``ranges`` and check the values.

    Spark persists the result, so that the log is read once. Values in a ``value_format`` are parsed
    by the workers, too. They are the column ``_parsed``, a struct, null if there is a fault.
    """
    session.dataSource.register(OffsetRangeSource)
    handed = RangeWork(
        reader=reader,
        ranges=ranges,
        value_faults=value_faults,
        value_format=value_format,
        has_headers=has_headers,
        record_bytes=record_bytes,
    )
    work = base64.b64encode(pickle.dumps(handed)).decode()
    frame = session.read.format(SOURCE_NAME).option("work", work).load().persist()
    return RecordBatchFrame(
        frame=frame,
        statistics=_frame_statistics(frame),
        reader=reader,
        ranges=ranges,
        record_bytes=record_bytes,
    )


def _frame_statistics(frame: Any) -> BatchStatistics:
    size = sql.coalesce(sql.length("key"), sql.lit(0)) + sql.coalesce(
        sql.length("value"), sql.lit(0)
    )
    found = frame.groupBy("_partition").agg(
        sql.count(sql.lit(1)).alias("records"),
        sql.max("_leader_epoch").alias("leader_epoch"),
        sql.max("_offset").alias("last_offset"),
        sql.max(sql.unix_millis("_timestamp")).alias("newest"),
        sql.collect_set(sql.unix_date(sql.to_date("_timestamp"))).alias("days"),
        sql.sum(size).alias("bytes"),
    )
    rows = found.toArrow().to_pylist()
    return BatchStatistics(
        records=sum(row["records"] for row in rows),
        bytes=sum(row["bytes"] for row in rows),
        newest_timestamp_ms=max(
            (row["newest"] for row in rows if row["newest"] is not None), default=None
        ),
        leader_epochs={row["_partition"]: row["leader_epoch"] for row in rows},
        last_offsets={row["_partition"]: row["last_offset"] for row in rows},
        days=frozenset(day for row in rows for day in row["days"]),
    )


def chosen_records(
    batches: Iterable[pa.RecordBatch], wanted: Mapping[int, Sequence[int]]
) -> pa.Table:
    """Return the records of ``batches`` at the given offsets by partition.

    The batches are of ``SOURCE_SCHEMA``.
    """
    sets = {
        partition: pa.array(sorted(offsets), pa.int64())
        for partition, offsets in wanted.items()
        if offsets
    }
    kept = (batch.filter(_is_wanted(batch, sets)) for batch in batches)
    return pa.Table.from_batches([batch for batch in kept if batch.num_rows], schema=SOURCE_SCHEMA)


def _is_wanted(batch: pa.RecordBatch, sets: Mapping[int, pa.Array]) -> pa.Array:
    chosen = pa.array([False] * batch.num_rows, pa.bool_())
    for partition, offsets in sets.items():
        of_partition = pc.and_(
            pc.equal(batch["_partition"], partition), pc.is_in(batch["_offset"], value_set=offsets)
        )
        chosen = pc.or_(chosen, of_partition)
    return chosen


def source_batches(
    reader: RangeReader, ranges: OffsetRanges, one: OffsetRange
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``one``, a range of ``ranges``, with the columns of ``SOURCE_SCHEMA``.

    A tolerant reader adds the column ``UNREADABLE`` at the end.

    :raises OtherTopicError: the topic was created anew since the ranges were decided.
    """
    for batch in reader(ranges.topic, one, topic_id=ranges.topic_id):
        made = pa.RecordBatch.from_arrays(
            [
                pa.repeat(pa.scalar(ranges.topic_id), batch.num_rows),
                pa.repeat(pa.scalar(one.partition, pa.int32()), batch.num_rows),
                batch["offset"],
                in_microseconds(batch["timestamp"]),
                batch["leader_epoch"],
                batch["key"].cast(pa.binary()),
                batch["value"].cast(pa.binary()),
                (
                    batch["headers"].cast(HEADERS)
                    if "headers" in batch.schema.names
                    else pa.nulls(batch.num_rows, HEADERS)
                ),
            ],
            schema=SOURCE_SCHEMA,
        )
        yield (
            made.append_column(UNREADABLE, batch[UNREADABLE])
            if UNREADABLE in batch.schema.names
            else made
        )


def admitted(
    batch: pa.RecordBatch, topic: str, record_bytes: int
) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Return ``batch`` as ``SOURCE_SCHEMA``, and the faults of records that are refused.

    A refused record cannot be read, or is too large and is cut. The faults are null for other
    records, and None if no record is refused.
    """
    if UNREADABLE not in batch.schema.names:
        return bounded(batch, topic, record_bytes)
    kept, large = bounded(batch.select(SOURCE_SCHEMA.names), topic, record_bytes)
    return kept, batch[UNREADABLE] if large is None else pc.coalesce(batch[UNREADABLE], large)


@dataclass(frozen=True, slots=True)
class RangePiece(InputPartition):
    """The work of one task: a piece of one partition's range."""

    value: OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeWork:
    """The input of Spark's workers.

    It has the reader and the ranges, the check or the format of the values, and whether headers are
    requested.
    """

    reader: RangeReader
    ranges: OffsetRanges
    value_faults: ValueFaults | None
    value_format: ValueFormat | None = None
    has_headers: bool = False
    record_bytes: int = DEFAULT_RECORD_BYTES


class OffsetRangeSource(DataSource):
    """Spark's Python data source over offset ranges.

    Its option ``work`` carries the pickled ``RangeWork`` of this run.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return SOURCE_NAME

    def schema(self) -> str:
        """Return the columns."""
        work = self._work
        parsed = (
            "" if work.value_format is None else f", {PARSED} {ddl_of(work.value_format.fields)}"
        )
        return f"{source_ddl(has_headers=work.has_headers)}, {FAULT} STRING{parsed}"

    def reader(self, schema: Any) -> "OffsetRangeReader":  # noqa: ARG002 - Spark's signature
        """Return the reader of this run's ranges."""
        return OffsetRangeReader(self._work)

    @property
    def _work(self) -> RangeWork:
        found: RangeWork = pickle.loads(base64.b64decode(self.options["work"]))  # noqa: S301 - written by this run, for its workers
        return found


class OffsetRangeReader(DataSourceReader):
    """Cuts ranges into pieces and reads one piece per task."""

    def __init__(self, work: RangeWork) -> None:
        self._work = work

    def partitions(self) -> Sequence[InputPartition]:
        """Return the pieces: at most eight per partition, each of a minimum size."""
        pieces = (
            split_range(one, max(MINIMUM_PIECE_RECORDS, -(-one.count // PIECES_PER_PARTITION)))
            for one in self._work.ranges
            if not one.is_empty
        )
        return [RangePiece(piece) for piece in chain.from_iterable(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of one piece."""
        assert isinstance(partition, RangePiece)
        value_faults, value_format = self._work.value_faults, self._work.value_format
        for whole in source_batches(self._work.reader, self._work.ranges, partition.value):
            batch, refused = admitted(whole, self._work.ranges.topic, self._work.record_bytes)
            given = batch if self._work.has_headers else batch.drop_columns(["headers"])
            values = (
                batch["value"]
                if refused is None
                else pc.if_else(refused.is_valid(), None, batch["value"])
            )
            if value_format is not None:
                table, faults = read_records(value_format, values, batch["headers"])
                parsed = in_places(table, faults)
                yield given.append_column(FAULT, _first_fault(refused, faults)).append_column(
                    PARSED, parsed
                )
            else:
                faults = (
                    pa.nulls(batch.num_rows, pa.string())
                    if value_faults is None
                    else value_faults(values)
                )
                yield given.append_column(FAULT, _first_fault(refused, faults))


def _first_fault(refused: pa.Array | None, faults: pa.Array) -> pa.Array:
    """Return the first fault of each record. Values of refused records have not been checked."""
    return faults if refused is None else pc.coalesce(refused, faults.cast(pa.string()))
