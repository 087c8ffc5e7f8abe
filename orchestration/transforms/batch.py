"""One batch from records to rows: parse, transform, rules, repetitions; in the end each record has rows or a rejection.

Decides which records are rejected and why. Reads the table only for its keys, writes nothing. Memory is bounded by the records of a run.
Invariants: a rejected record has no row, however many rows the transform made of it; the result's provenance lies within the batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sql
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

from orchestration.dead_letters import DUPLICATE, Rejection
from orchestration.offsets import OffsetRanges
from orchestration.quality import Rule
from orchestration.quality.rules import VIOLATIONS_COLUMN, Bits, count_violations, first_quarantine_rule, quarantined, violations_sql
from orchestration.spark.session import SparkGoneError, is_server_gone
from orchestration.spark.source import RecordBatchFrame
from orchestration.tables import PROVENANCE
from orchestration.transforms.declarations import TopicTable, Transform
from orchestration.transforms.errors import TransformError, described
from orchestration.transforms.parsing import SCHEMA_RULE, ParsedFrame, explain_misfit, parse
from orchestration.uniqueness import TableKeys, find_repetitions

UNIQUENESS_RULE = "unique_by"
MAX_EXPLAINED = 10_000
CHECKSUM_PRIME = 1_000_003

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedBatch:
    """What became of a batch: the rows to commit, the rejections, and how many rows violate each rule."""

    rows: pa.Table
    rejections: tuple[Rejection, ...]
    violations: Mapping[str, int]
    filtered: int


def compute_batch(session: Any, table: TopicTable, batch: RecordBatchFrame, existing: TableKeys | None) -> ComputedBatch:
    """Return the rows and rejections of ``batch``.

    :raises TransformError: the result lacks the columns of provenance, or names records that are not in the batch.
    """
    result, misfits = _transformed(session, table, batch)
    _validate_provenance(table.name, result, batch.ranges)
    bits = result[VIOLATIONS_COLUMN].to_numpy().astype(np.int64)
    counts = count_violations(table.rules, bits)
    rows = result.drop_columns([VIOLATIONS_COLUMN])
    made = _distinct_records(rows)
    broken = _quarantine_rejections(table.rules, rows, bits)
    rows = _without(rows, broken)
    repeated = _repetition_rejections(rows, table.unique_by, existing)
    rows = _without(rows, repeated)
    filtered = batch.statistics.records - len(misfits) - made
    return ComputedBatch(rows=rows, rejections=(*misfits, *broken, *repeated), violations=counts, filtered=filtered)


def apply_rules(frame: Any, rules: Sequence[Rule]) -> Any:
    """Return ``frame`` with the column of violations."""
    return frame.withColumn(VIOLATIONS_COLUMN, sql.expr(violations_sql(rules)))


def call_transform(name: str, function: Transform, *frames: Any) -> Any:
    """Call a user's function and make sure that it returns a DataFrame.

    :raises TransformError: it threw, or returned something else.
    """
    try:
        result = function(*frames)
    except Exception as error:  # the author's code may raise anything, and the run has to say what
        raise TransformError(f"the transform of table {name} raised {described(error)}. Nothing was committed") from error
    if not isinstance(result, DataFrame | ConnectDataFrame):
        raise TransformError(f"the transform of table {name} returned {type(result).__name__}: it has to return a Spark DataFrame")
    return result


@contextmanager
def running(name: str) -> Iterator[None]:
    """Translate what Spark raises while it computes.

    :raises TransformError: Spark failed on it. :raises SparkGoneError: the warm server died meanwhile.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if is_server_gone(error):
            raise SparkGoneError(f"the warm Spark server went away while table {name} was computed: {described(error)}") from error
        raise TransformError(f"Spark failed on the transform of table {name}: {described(error)}. Nothing was committed") from error


def collect(name: str, frame: Any) -> pa.Table:
    """Compute ``frame`` into the run process; raises as ``running``."""
    with running(name):
        return frame.toArrow()


def _transformed(session: Any, table: TopicTable, batch: RecordBatchFrame) -> tuple[pa.Table, tuple[Rejection, ...]]:
    """Run the transform in one Spark job that counts misfits on the way; only if there are any a second job fetches them.

    The count is trusted only if it saw every record once: a transform may be planned so that Spark skips or repeats a part of its input.
    """
    parsed = parse(session, batch.frame, table.topic.schema)
    seen = Observation()
    fitting = ParsedFrame(frame=parsed.frame.observe(seen, *_counters()), fields=parsed.fields).fitting()
    frame = call_transform(table.name, table.function, fitting)
    missing = [column for column in PROVENANCE if column not in frame.columns]
    if missing:
        raise TransformError(
            f"the result of table {table.name} lacks {', '.join(missing)}: every row has to say which record it came from. "
            "Keep these columns in every select of the transform"
        )
    result = collect(table.name, apply_rules(frame, table.rules))
    if parsed.fields is None or _is_all_fitting(seen, batch):
        return result, ()
    return result, _misfit_rejections(parsed, batch)


def _counters() -> list[Any]:
    return [
        sql.count(sql.lit(1)).alias("records"),
        sql.count_if("_misfit").alias("misfits"),
        sql.sum(sql.col("_offset") % CHECKSUM_PRIME).alias("checksum"),
    ]


def _is_all_fitting(seen: Observation, batch: RecordBatchFrame) -> bool:
    """Whether the count is complete and saw no misfit. False is safe: then a second job looks at every record."""
    if batch.arrow is None:
        return False
    try:
        observed = seen.get
    except Py4JError:  # Spark left the counted part out of its plan
        return False
    offsets = batch.arrow["_offset"].to_numpy()
    expected = {"records": batch.statistics.records, "misfits": 0, "checksum": int((offsets % CHECKSUM_PRIME).sum())}
    return {name: observed.get(name) for name in expected} == expected


def _misfit_rejections(parsed: ParsedFrame, batch: RecordBatchFrame) -> tuple[Rejection, ...]:
    places = collect(batch.ranges.topic, parsed.misfits())
    wanted: dict[int, list[int]] = {}
    for partition, offset in zip(places["_partition"].to_pylist(), places["_offset"].to_pylist(), strict=True):
        wanted.setdefault(partition, []).append(offset)
    if not wanted:
        return ()
    assert parsed.fields is not None
    records = batch.records_at(wanted)
    explained = []
    for position, row in enumerate(records.select(["_partition", "_offset", "value"]).to_pylist()):
        reason = explain_misfit(row["value"], parsed.fields) if position < MAX_EXPLAINED else "the value does not fit the schema"
        explained.append(Rejection(partition=row["_partition"], offset=row["_offset"], reason=reason, rule=SCHEMA_RULE))
    return tuple(explained)


def _validate_provenance(name: str, result: pa.Table, ranges: OffsetRanges) -> None:
    inside: Flags = np.zeros(result.num_rows, np.bool_)
    partitions, offsets = _places(result)
    for one in ranges:
        inside |= (partitions == one.partition) & (offsets >= one.start) & (offsets < one.end)
    is_of_topic = pc.all(pc.equal(result["_topic_id"], ranges.topic_id)).as_py() is not False and result["_topic_id"].null_count == 0
    if not inside.all() or not is_of_topic:
        raise TransformError(
            f"the result of table {name} has rows whose _topic_id, _partition and _offset are not of the batch ({ranges}): "
            "pass these columns through unchanged"
        )


def _quarantine_rejections(rules: Sequence[Rule], rows: pa.Table, bits: Bits) -> tuple[Rejection, ...]:
    chosen = np.flatnonzero(quarantined(rules, bits))
    partitions, offsets = _places(rows)
    found: dict[tuple[int, int], Rejection] = {}
    for position in chosen.tolist():
        place = (int(partitions[position]), int(offsets[position]))
        if place not in found:
            rule = first_quarantine_rule(rules, int(bits[position]))
            reason = rule.description or f"{rule.condition} does not hold"
            found[place] = Rejection(partition=place[0], offset=place[1], reason=reason, rule=rule.name)
    return tuple(found.values())


def _repetition_rejections(rows: pa.Table, unique_by: Sequence[str], existing: TableKeys | None) -> tuple[Rejection, ...]:
    missing = [column for column in unique_by if column not in rows.column_names]
    if missing:
        raise TransformError(f"unique_by names columns that the result does not have: {', '.join(missing)}")
    partitions, offsets = _places(rows)
    repeated = find_repetitions(rows, unique_by, existing)
    places = dict.fromkeys(zip(partitions[repeated].tolist(), offsets[repeated].tolist(), strict=True))
    return tuple(Rejection(partition=one[0], offset=one[1], reason=DUPLICATE, rule=UNIQUENESS_RULE) for one in places)


def _without(rows: pa.Table, rejections: Sequence[Rejection]) -> pa.Table:
    if not rejections:
        return rows
    partitions, offsets = _places(rows)
    gone: Flags = np.zeros(rows.num_rows, np.bool_)
    rejected: dict[int, list[int]] = {}
    for one in rejections:
        rejected.setdefault(one.partition, []).append(one.offset)
    for partition, places in rejected.items():
        gone |= (partitions == partition) & np.isin(offsets, np.array(places, np.int64))
    return rows.filter(pa.array(~gone))


def _distinct_records(rows: pa.Table) -> int:
    return int(rows.select(["_partition", "_offset"]).group_by(["_partition", "_offset"]).aggregate([]).num_rows)


def _places(rows: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if rows["_partition"].null_count or rows["_offset"].null_count:
        raise TransformError("the result has rows without _partition or _offset: pass these columns through unchanged")
    return rows["_partition"].to_numpy().astype(np.int64), rows["_offset"].to_numpy().astype(np.int64)
