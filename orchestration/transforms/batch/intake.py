"""The records of a run before the transform: read once, checked, and parsed.

Records with a VARIANT are parsed by Spark. Decides where records wait for Spark, and ends the
ranges where the run has read enough bytes (``orchestration.offsets.byte_limits``). A small batch
stays in the run process and is sent to Spark. A larger one is written, chunk by chunk, into a
Parquet file, so that the run process never holds it. Spark reads the file in parallel, while a
single task reads sent rows, and each job unpacks them anew. Reading needs no Spark, so the next
range can be read while Spark works on this one. Knows no table.
Invariants: each record of ``ranges``, as shortened by the limits, is exactly once among the rows,
the doubtful records or the faults. Files of killed runs are removed after some hours.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from orchestration.formats import ValueFormat
from orchestration.formats.json_values import json_format
from orchestration.formats.registered import read_records
from orchestration.lake.abandoned_files import old_ones
from orchestration.log_client.protocol import RangeReader
from orchestration.offsets.byte_limits import BudgetedRead, ByteLimits
from orchestration.offsets.ranges import OffsetRanges, ranges_of_offsets
from orchestration.spark.source import (
    FAULT,
    SOURCE_SCHEMA,
    BatchStatistics,
    StatisticsCount,
    admitted,
    chosen_records,
    source_batches,
    source_ddl,
)
from orchestration.transforms.batch.parsing import nullable_fields, text_key
from orchestration.transforms.batch.variants import as_variant, text_kind
from orchestration.values.strict_json import StrictSchema

INLINE_BYTES = 512 * 1024
WRITTEN_BYTES = 8 << 20
"""Bytes of rows that are written at once."""
KEPT_BYTES = 32 << 20
"""Batches up to this size keep their records as they came.

Of larger batches the few dead letters are read again.
"""
READ_AGAIN_RANGES = 50
"""Most ranges per partition that are read again. If more are needed, gaps are read, too."""
ROW_GROUP_RECORDS = 100_000
LEFTOVER_AGE_S = 6 * 3_600
FASTEST: Mapping[str, Any] = {
    "compression": "NONE",
    "use_dictionary": False,
    "write_statistics": False,
}
PARSERS = 2
"""Number of chunks that are parsed at once while the next one is read.

Arrow uses all cores for each.
"""
Parsed = tuple[pa.Table, pa.Array]
"""Columns of the values that fit, and the faults of the others."""
META_COLUMNS = ("_partition", "_offset", "_timestamp", "_key")
META_TYPES = (types.IntegerType(), types.LongType(), types.TimestampType(), types.BinaryType())
META = types.StructType(
    [types.StructField(name, kind) for name, kind in zip(META_COLUMNS, META_TYPES, strict=True)]
)
VALUE = types.StructType([types.StructField("_value", types.BinaryType())])
HEADER = types.StructType(
    [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
)
HEADERS = types.StructType([types.StructField("_headers", types.ArrayType(HEADER))])
ARROW_HEADERS = to_arrow_schema(HEADERS, timezone="UTC").field("_headers").type


class Intake:
    """The records of a batch.

    The ``doubtful`` records (``SOURCE_SCHEMA``), whose JSON has a VARIANT, are left to Spark to
    parse. The rows of the others are in memory or in a file. ``faults`` holds partition, offset and
    reason of the records that do not fit. With ``has_headers`` the rows have the column
    ``_headers``. The caller has to ``release`` the batch.
    """

    def __init__(
        self,
        reader: RangeReader,
        ranges: OffsetRanges,
        fields: types.StructType | None,
        scratch: Path | None,
        *,
        value_format: ValueFormat | None = None,
        has_headers: bool = False,
        limits: ByteLimits | None = None,
    ) -> None:
        self.ranges = ranges
        self._limits = limits or ByteLimits(run_bytes=None)
        self.fields = fields
        self.has_headers = has_headers
        self._reader = reader
        self._scratch = scratch
        self.faults: list[tuple[int, int, str]] = []
        self._format = value_format or json_format(fields)
        self._strict = StrictSchema(fields) if fields is not None else None
        self._count = StatisticsCount()
        self._rows: list[pa.Table] = []
        self._rows_bytes = 0
        self._doubtful: list[pa.RecordBatch] = []
        self._records: list[pa.RecordBatch] | None = []
        self._headers_bytes = 0
        self._files: list[Path] = []
        self._doubtful_file: Path | None = None

    def __repr__(self) -> str:
        return (
            f"<Intake {self.ranges} records={self.statistics.records}"
            f" doubtful={self.doubtful.num_rows} files={len(self._files)}>"
        )

    @property
    def statistics(self) -> BatchStatistics:
        """Return counts of the records read so far."""
        return self._count.statistics()

    @property
    def doubtful(self) -> pa.Table:
        """Return the records that Spark has to parse."""
        return pa.Table.from_batches(self._doubtful, schema=SOURCE_SCHEMA)

    def take_in(self) -> None:
        """Read the ranges, as far as the limits allow."""
        writer: pq.ParquetWriter | None = None
        try:
            with ThreadPoolExecutor(PARSERS, thread_name_prefix="parse") as parsers:
                for batch, fitting, parsed in self._parsed_batches(parsers):
                    self._count_in(batch)
                    self._add(fitting, parsed)
                    if self._scratch is not None and self._rows_bytes > (
                        INLINE_BYTES if writer is None else WRITTEN_BYTES
                    ):
                        writer = writer or _writer(self._new_file(), self._rows[0].schema)
                        self._write_rows(writer)
            if writer is not None and self._rows:
                self._write_rows(writer)
        finally:
            if writer is not None:
                writer.close()

    def frame(self, session: Any, decided: pa.Table | None) -> Any:
        """Return the transform's input as a Spark DataFrame.

        ``decided`` holds the rows of records that were doubtful.
        """
        own = VALUE if self.fields is None else self.fields
        schema = self._schema
        rows = [*self._rows, *([decided] if decided is not None and decided.num_rows else [])]
        if self._files:
            for table in rows:
                self._store(table)
            stored = session.read.schema(schema).parquet(*(str(file) for file in self._files))
        elif rows:
            stored = session.createDataFrame(
                pa.concat_tables([table.cast(rows[0].schema) for table in rows]).combine_chunks(),
                schema=schema,
            )
        else:
            stored = session.createDataFrame([], schema)
        key = sql.col("_key") if self.fields is None else text_key("_key")
        columns = [
            as_variant(sql.col(f"`{one.name}`"), one.dataType).alias(one.name) for one in own
        ]
        headers = HEADERS.names if self.has_headers else ()
        return stored.select(
            sql.lit(self.ranges.topic_id).alias("_topic_id"),
            "_partition",
            "_offset",
            "_timestamp",
            key.alias("_key"),
            *headers,
            *columns,
        )

    @property
    def _schema(self) -> types.StructType:
        """Return the columns of the rows, with each VARIANT as JSON."""
        own = VALUE if self.fields is None else self.fields
        fields = [
            types.StructField(one.name, text_kind(one.dataType)) for one in nullable_fields(own)
        ]
        return types.StructType([*META, *(HEADERS if self.has_headers else ()), *fields])

    @property
    def plain_names(self) -> tuple[str, ...]:
        """Return the columns of ``frame`` that can be read without Spark.

        ``_key`` as text is not among them.
        """
        own = VALUE if self.fields is None else self.fields
        key = ("_key",) if self.fields is None else ()
        headers = HEADERS.names if self.has_headers else ()
        return ("_topic_id", "_partition", "_offset", "_timestamp", *key, *headers, *own.names)

    def rows(self, chosen: Mapping[str, str], decided: pa.Table | None) -> pa.Table:
        """Return columns of ``frame`` without Spark.

        ``chosen`` maps the name of each wanted column to one of ``plain_names``.
        """
        wanted = [name for name in dict.fromkeys(chosen.values()) if name != "_topic_id"]
        parts = [pq.read_table(file, columns=wanted) for file in self._files]
        if not self._files:
            parts = [
                table.select(wanted)
                for table in (*self._rows, *([decided] if decided is not None else []))
            ]
        found = (
            pa.concat_tables([table.cast(parts[0].schema) for table in parts])
            if parts
            else self._no_rows().select(wanted)
        )
        topic_id = pa.repeat(pa.scalar(self.ranges.topic_id), found.num_rows)
        columns = [
            topic_id if source == "_topic_id" else found[source] for source in chosen.values()
        ]
        return pa.table(columns, names=list(chosen))

    def _no_rows(self) -> pa.Table:
        return pa.schema(to_arrow_schema(self._schema, timezone="UTC")).empty_table()

    def doubtful_frame(self, session: Any) -> Any:
        """Return the doubtful records with the columns of Spark's source. Their faults are null."""
        table, ddl = self.doubtful, source_ddl(has_headers=self.has_headers)
        if not self.has_headers:
            table = table.drop_columns(["headers"])
        if self._scratch is None or table.nbytes <= INLINE_BYTES:
            frame = session.createDataFrame(table.combine_chunks(), schema=ddl)
        else:
            self._doubtful_file = new_scratch_file(self._scratch)
            pq.write_table(table, self._doubtful_file, row_group_size=ROW_GROUP_RECORDS, **FASTEST)
            frame = session.read.schema(ddl).parquet(str(self._doubtful_file))
        return frame.withColumn(FAULT, sql.lit(None).cast("string"))

    def records_at(self, wanted: Mapping[int, Sequence[int]]) -> pa.Table:
        """Return the records at the given offsets by partition, as ``SOURCE_SCHEMA``.

        They are read again if the batch was too large to keep in memory.
        """
        batches: Iterator[pa.RecordBatch] = (
            self._read_again(wanted) if self._records is None else iter(self._records)
        )
        return chosen_records(batches, wanted)

    def release(self) -> None:
        """Delete the files of the batch."""
        for file in (
            *self._files,
            *([self._doubtful_file] if self._doubtful_file is not None else []),
        ):
            file.unlink(missing_ok=True)

    def _parsed_batches(
        self, parsers: ThreadPoolExecutor
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch, Parsed | None]]:
        """Yield for each batch in order its records, those without fault, and these parsed.

        Parsing continues while the next batch is read. The third part is None if values are not
        parsed here.
        """
        waiting: deque[tuple[pa.RecordBatch, pa.RecordBatch, Future[Parsed] | None]] = deque()
        planned = self.ranges
        reading = BudgetedRead(
            planned, lambda one: source_batches(self._reader, planned, one), self._limits.run_bytes
        )
        for whole in reading.batches():
            batch, refused = admitted(whole, planned.topic, self._limits.record_bytes)
            fitting = batch if refused is None else self._without_faults(batch, refused)
            waiting.append((batch, fitting, self._begun(parsers, fitting)))
            if len(waiting) > PARSERS:
                yield _settled(*waiting.popleft())
        while waiting:
            yield _settled(*waiting.popleft())
        self.ranges = reading.taken

    def _begun(self, parsers: ThreadPoolExecutor, fitting: pa.RecordBatch) -> Future[Parsed] | None:
        if self._format is None:
            return None
        return parsers.submit(read_records, self._format, fitting["value"], fitting["headers"])

    def _count_in(self, batch: pa.RecordBatch) -> None:
        self._count.add(batch)
        if self._records is not None:
            self._records.append(batch)
            self._headers_bytes += batch["headers"].nbytes
            if self._count.size_bytes + self._headers_bytes > KEPT_BYTES:
                self._records = None

    def _add(self, batch: pa.RecordBatch, parsed: Parsed | None) -> None:
        if self.fields is None:
            self._add_rows(self._rows_of(batch, [batch["value"]], VALUE.names))
        elif parsed is None:
            self._add_doubtful(batch)
        else:
            self._add_parsed(batch, *parsed)

    def _add_parsed(self, batch: pa.RecordBatch, table: pa.Table, faults: pa.Array) -> None:
        batch = self._without_faults(batch, faults)
        if batch.num_rows:
            self._add_rows(self._rows_of(batch, table.columns, table.column_names))

    def _add_doubtful(self, batch: pa.RecordBatch) -> None:
        """Collect the records whose values Spark can parse, and note the faults of the others."""
        assert self._strict is not None
        faults = pa.array(self._strict.faults_of(batch["value"]), pa.string())
        batch = self._without_faults(batch, faults)
        if batch.num_rows:
            self._doubtful.append(batch)

    def _without_faults(self, batch: pa.RecordBatch, faults: pa.Array) -> pa.RecordBatch:
        """Add ``faults`` to those of the batch, and return the records without a fault."""
        if faults.null_count == len(faults):
            return batch
        places = (
            batch[name].filter(faults.is_valid()).to_pylist() for name in ("_partition", "_offset")
        )
        self.faults += zip(*places, faults.drop_null().to_pylist(), strict=True)
        return batch.filter(faults.is_null())

    def _rows_of(
        self, batch: pa.RecordBatch, columns: Sequence[Any], names: Sequence[str]
    ) -> pa.Table:
        meta = dict(
            zip(
                META_COLUMNS,
                (batch[name] for name in ("_partition", "_offset", "_timestamp", "key")),
                strict=True,
            )
        )
        if self.has_headers:
            meta["_headers"] = batch["headers"].cast(ARROW_HEADERS)
        return pa.table([*meta.values(), *columns], names=[*meta, *names])

    def _add_rows(self, rows: pa.Table) -> None:
        self._rows.append(rows)
        self._rows_bytes += rows.nbytes

    def _write_rows(self, writer: pq.ParquetWriter) -> None:
        """Write the collected rows and drop them from memory."""
        writer.write_table(pa.concat_tables(self._rows), row_group_size=ROW_GROUP_RECORDS)
        self._rows, self._rows_bytes = [], 0

    def _new_file(self) -> Path:
        assert self._scratch is not None
        self._files.append(new_scratch_file(self._scratch))
        return self._files[-1]

    def _store(self, rows: pa.Table) -> None:
        pq.write_table(rows, self._new_file(), row_group_size=ROW_GROUP_RECORDS, **FASTEST)

    def _read_again(self, wanted: Mapping[int, Sequence[int]]) -> Iterator[pa.RecordBatch]:
        for partition, offsets in wanted.items():
            for one in ranges_of_offsets(partition, offsets, READ_AGAIN_RANGES):
                for batch in source_batches(self._reader, self.ranges, one):
                    yield admitted(batch, self.ranges.topic, self._limits.record_bytes)[0]


def take_in(
    reader: RangeReader,
    ranges: OffsetRanges,
    fields: types.StructType | None,
    scratch: Path | None,
    *,
    value_format: ValueFormat | None = None,
    has_headers: bool = False,
    limits: ByteLimits | None = None,
) -> Intake:
    """Read ``ranges``, as far as ``limits`` allow.

    Without limits, all ranges are read, and a record above the default maximum size is rejected.
    ``scratch`` is a directory that Spark can read, too. It is None if Spark runs on another
    machine.
    """
    intake = Intake(
        reader,
        ranges,
        fields,
        scratch,
        value_format=value_format,
        has_headers=has_headers,
        limits=limits,
    )
    try:
        intake.take_in()
    except BaseException:
        intake.release()
        raise
    return intake


def _settled(
    batch: pa.RecordBatch, fitting: pa.RecordBatch, parsed: Future[Parsed] | None
) -> tuple[pa.RecordBatch, pa.RecordBatch, Parsed | None]:
    return batch, fitting, None if parsed is None else parsed.result()


def _writer(file: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(file, schema, **FASTEST)


def new_scratch_file(scratch: Path) -> Path:
    """Return the path of a new file, and remove files that killed runs left."""
    scratch.mkdir(parents=True, exist_ok=True)
    for leftover in old_ones(scratch, "batch-*.parquet", LEFTOVER_AGE_S):
        leftover.unlink(missing_ok=True)
    return scratch / f"batch-{uuid4().hex}.parquet"
