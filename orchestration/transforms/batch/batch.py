"""Computes one batch from records to rows: parse, transform, apply rules, find repeated keys.

In the end each record has rows or a rejection. Decides which records are rejected and why. Reads
the table only for its keys, writes nothing. The number of records of a run bounds the memory.
Invariants: a rejected record has no row, even if the transform made several rows of it. The result
names only records of the batch as the origin of its rows.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, types
from pyspark.sql import functions as sql
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from orchestration.dead_letters.table import DUPLICATE, SCHEMA_RULE, Rejection
from orchestration.formats.json_values import has_variant
from orchestration.lake.tables import PROVENANCE
from orchestration.log_client.protocol import UNREADABLE_BATCH
from orchestration.offsets.ranges import OffsetRange, OffsetRanges, Places
from orchestration.quality import Rule
from orchestration.quality.rules import (
    VIOLATIONS_COLUMN,
    Bits,
    count_violations,
    first_quarantine_rule,
    quarantined,
    violations_sql,
)
from orchestration.rows.aggregates import group_rejections, validate_columns
from orchestration.rows.uniqueness import TableKeys, find_originals, find_repetitions
from orchestration.spark.session import SparkGoneError, is_server_gone
from orchestration.spark.source import FAULT, RecordBatchFrame, chosen_records
from orchestration.transforms.batch import deletions as of_keys
from orchestration.transforms.batch.intake import Intake
from orchestration.transforms.batch.isolation import NOTHING, Isolation, allowed
from orchestration.transforms.batch.parsing import (
    MISFIT,
    NULLS,
    UNREADABLE,
    ParsedFrame,
    explain_unread,
    parse,
)
from orchestration.transforms.batch.projection import chosen_columns
from orchestration.transforms.batch.variants import holds_bytes, kept_as_bytes, without_variants
from orchestration.transforms.declarations import TopicTable, Transform
from orchestration.transforms.errors import ExecutionError, TransformError, described
from orchestration.values.strict_json import NULL_VALUE

UNIQUENESS_RULE = "unique_by"
UNREADABLE_RULE = "unreadable"
MAX_EXPLAINED = 10_000
QUERY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""PySpark's loggers of failed queries."""

Flags = npt.NDArray[np.bool_]
Batch = Intake | RecordBatchFrame
"""A batch as the run process read it, or as Spark's workers read it if one process is too small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedBatch:
    """The result of a batch: rows to commit, rejections, and the number of violations of each rule.

    ``deletions`` holds the deleted keys and the place of the record that deletes each. It is None
    if the table keeps all rows.
    """

    rows: pa.Table
    rejections: tuple[Rejection, ...]
    violations: Mapping[str, int]
    filtered: int
    deletions: pa.Table | None = None


def compute_batch(
    session: Any,
    table: TopicTable,
    batch: Batch,
    existing: TableKeys | None,
    *,
    forgiven: Places = NOTHING,
) -> ComputedBatch:
    """Return the rows and the rejections of ``batch``. Rows are ordered by partition and offset.

    ``existing`` are the keys that the table has, None before it exists.

    If the transform throws on some records, they become rejections, up to the table's
    ``max_failed``. Records at the places ``forgiven`` are dead letters already and do not count.

    :raises TransformError: the transform cannot be computed, the result lacks the columns of
        provenance, or it names records that are not in the batch.
    """
    kept = kept_as_bytes(None if existing is None else existing.snapshot.arrow_schema)
    result, misfits = _transformed(session, table, batch, forgiven, kept)
    _validate_provenance(table.name, result, batch.ranges)
    result = _in_order(result)
    bits = _violations(result)
    counts = count_violations(table.rules, bits)
    rows = (
        result.drop_columns([VIOLATIONS_COLUMN])
        if VIOLATIONS_COLUMN in result.column_names
        else result
    )
    made = _distinct_records(rows)
    broken = _quarantine_rejections(table.rules, rows, bits)
    rows = without_rejected(rows, broken)
    filtered = batch.statistics.records - len(misfits) - made
    if table.latest_by:
        rows, deletions, refused = _changes(table, batch, rows, misfits)
        return ComputedBatch(
            rows=rows,
            rejections=(*refused, *broken),
            violations=counts,
            filtered=filtered,
            deletions=deletions,
        )
    if table.aggregates:
        validate_columns(rows, table.aggregate_by, table.aggregates)
        groupless = group_rejections(rows, table.aggregate_by)
        rows, broken = without_rejected(rows, groupless), (*broken, *groupless)
    repeated = _repetition_rejections(rows, table.unique_by, existing)
    rows = without_rejected(rows, repeated)
    return ComputedBatch(
        rows=rows, rejections=(*misfits, *broken, *repeated), violations=counts, filtered=filtered
    )


def _changes(
    table: TopicTable, batch: Batch, rows: pa.Table, misfits: Sequence[Rejection]
) -> tuple[pa.Table, pa.Table, tuple[Rejection, ...]]:
    """Return rows, deletions and rejections for a table that keeps the newest row of each key."""
    unusable = of_keys.key_rejections(rows, table.latest_by)
    rows, flagged = of_keys.split_deleted(without_rejected(rows, unusable), table.latest_by)
    wanted: dict[int, list[int]] = {}
    for one in filter(of_keys.is_tombstone, misfits):
        wanted.setdefault(one.partition, []).append(one.offset)
    refused = [one for one in misfits if not of_keys.is_tombstone(one)]
    if not wanted:
        return rows, flagged, (*refused, *unusable)
    records, key_schema = batch.records_at(wanted), table.topic.key_format
    found, nameless = of_keys.tombstone_deletions(
        records, table.latest_by, flagged.schema, batch.ranges.topic_id, key_schema
    )
    return rows, pa.concat_tables([flagged, found]), (*refused, *unusable, *nameless)


def apply_rules(frame: Any, rules: Sequence[Rule]) -> Any:
    """Return ``frame`` with a column whose bits tell which rules each row violates."""
    return frame.withColumn(VIOLATIONS_COLUMN, sql.expr(violations_sql(rules)))


def call_transform(name: str, function: Transform, *frames: Any) -> Any:
    """Call a user's function and make sure that it returns a DataFrame.

    :raises TransformError: the function raised, or returned something else.
    """
    try:
        result = function(*frames)
    except TransformError:
        raise
    except Exception as error:  # the author's code may raise anything, and the text has to say what
        kind = ExecutionError if is_of_execution(error) else TransformError
        raise kind(
            f"the transform of table {name} raised {described(error)}. Nothing was committed"
        ) from error
    if not isinstance(result, DataFrame | ConnectDataFrame):
        raise TransformError(
            f"the transform of table {name} returned {type(result).__name__}: it has to return a"
            " Spark DataFrame"
        )
    return result


@contextmanager
def running(name: str) -> Iterator[None]:
    """Translate errors that Spark raises while it computes.

    :raises TransformError: Spark failed on the transform. It is an ``ExecutionError`` if Spark
        failed while computing.
    :raises SparkGoneError: the warm server died meanwhile.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if is_server_gone(error):
            raise SparkGoneError(
                f"the warm Spark server went away while table {name} was computed:"
                f" {described(error)}"
            ) from error
        kind = ExecutionError if is_of_execution(error) else TransformError
        raise kind(
            f"Spark failed on the transform of table {name}: {described(error)}. Nothing was"
            " committed"
        ) from error


def is_of_execution(error: BaseException) -> bool:
    """Return whether Spark failed while computing, and not while analysing the plan."""
    return isinstance(error, PySparkException) and not isinstance(error, AnalysisException)


@contextmanager
def applying_rules(name: str, frame: Any, rules: Sequence[Rule]) -> Iterator[None]:
    """Run the block, which applies all rules, and name the faulty rule if Spark fails.

    :raises TransformError: names the rule that Spark cannot evaluate. If each rule alone can be
        evaluated, the error of ``running`` is raised.
    """
    try:
        with running(name):
            yield
    except TransformError:
        _validate_rules(name, frame, rules)
        raise


def _validate_rules(name: str, frame: Any, rules: Sequence[Rule]) -> None:
    """Let Spark analyse each rule alone, as it was written.

    Errors of the transform itself are ignored here.

    :raises TransformError: names the rule.
    """
    with suppress(PySparkException, Py4JError):
        _ = frame.schema
        for rule in rules:
            subject = f"the rule {rule.name} of table {name}, {rule.condition},"
            try:
                kind = frame.select(sql.expr(rule.condition).alias(rule.name)).schema[0].dataType
            except PySparkException as error:
                if is_server_gone(error):
                    return
                raise TransformError(
                    f"{subject} cannot be evaluated: {described(error)}. Nothing was committed"
                ) from error
            if not isinstance(kind, types.BooleanType | types.NullType):
                raise TransformError(
                    f"{subject} is {kind.simpleString()}, and has to be true or false. Nothing was"
                    " committed"
                )


def collect(name: str, frame: Any) -> pa.Table:
    """Compute ``frame``, and return its rows in the run process.

    Raises as ``running`` does. Over Connect, ``toArrow`` would first request an analysis of the
    plan to get its schema. The execution returns the schema as well, and the extra request would
    take a third of a small batch's time.
    """
    with running(name):
        if not isinstance(frame, ConnectDataFrame):
            return frame.toArrow()
        rows, fields = frame._to_table()  # noqa: SLF001 - what toArrow itself calls
        return rows.cast(
            to_arrow_schema(
                fields or frame.schema,
                error_on_duplicated_field_names_in_struct=True,
                timezone="UTC",
            )
        )


def _transformed(
    session: Any, table: TopicTable, batch: Batch, forgiven: Places, kept: Collection[str]
) -> tuple[pa.Table, tuple[Rejection, ...]]:
    """Run the transform in one Spark job, or in Arrow, and return its rows and rejections.

    First, Spark parses the records that the intake left to it (``Intake``), if there are any. Arrow
    is enough for the transform if it only chooses columns, the table needs no Spark
    (``_is_sparks``), and no column is ``kept`` as VARIANT.
    """
    if isinstance(batch, Intake):
        decided, misfits = decide_doubtful(session, table.name, batch)
        given, nameless = _with_values(table, batch.frame(session, decided))
        misfits = (*misfits, *nameless)
        by_arrow = (
            None if _is_sparks(table) or kept else partial(_chosen_rows, batch, given, decided)
        )
        result, failed = _computed(
            table, batch, given, forgiven, partial(_of_frame, table, kept), by_arrow
        )
    else:
        parsed = parse(batch.frame, table.topic.fields, has_headers=table.has_headers)
        given, nameless = _with_values(table, parsed.fitting())
        misfits = (*_worker_misfits(table.name, parsed, batch), *nameless)
        result, failed = _computed(table, batch, given, forgiven, partial(_of_frame, table, kept))
    missing = [column for column in PROVENANCE if column not in result.column_names]
    if missing:
        raise TransformError(
            f"the result of table {table.name} lacks {', '.join(missing)}: every row has to say"
            " which record it came from. Keep these columns in every select of the transform"
        )
    if table.latest_by:
        of_keys.validate_result(table, result)
    return result, (*misfits, *failed)


def _collect_json(table: TopicTable, frame: Any, kept: Collection[str]) -> pa.Table:
    """Compute ``frame``, with each VARIANT as JSON except in the columns ``kept``.

    A transform may make a VARIANT even if the topic has none. That is found only in the result, so
    the frame is then computed once more.
    """
    if not kept and not (table.topic.fields is not None and has_variant(table.topic.fields)):
        with suppress(pa.ArrowInvalid):  # of a VARIANT that is null
            found = collect(table.name, frame)
            if not holds_bytes(found.schema):
                return found
    with running(table.name):
        plain = without_variants(frame, kept)
    return collect(table.name, plain)


def _is_sparks(table: TopicTable) -> bool:
    """Return whether Spark has to compute the result even if it is only a choice of columns."""
    return bool(
        table.rules or table.deleted_when or (table.latest_by and table.topic.fields is None)
    )


def _chosen_rows(
    batch: Intake, given: Any, decided: pa.Table | None, frame: Any
) -> pa.Table | None:
    """Return the rows of ``frame``, computed without Spark.

    It is None if the frame is more than a choice of columns of ``given``. ``decided`` holds the
    doubtful records that Spark has parsed.
    """
    chosen = chosen_columns(frame, given, batch.plain_names)
    return None if chosen is None else batch.rows(chosen, decided)


def _with_values(table: TopicTable, given: Any) -> tuple[Any, tuple[Rejection, ...]]:
    """Remove the tombstones of a topic without schema from the transform's input.

    Only a table of newest rows needs that. With a schema, tombstones were refused earlier. Return
    the input and the rejections of the tombstones.
    """
    if not table.latest_by or table.topic.fields is not None:
        return given, ()
    found = collect(table.name, of_keys.without_value(given)).to_pylist()
    return given.where("_value IS NOT NULL"), tuple(
        _misfit(row["_partition"], row["_offset"], NULL_VALUE) for row in found
    )


def _computed(  # noqa: PLR0917 - of one caller
    table: TopicTable,
    batch: Batch,
    given: Any,
    forgiven: Places,
    of_frame: Callable[[Any], pa.Table],
    by_arrow: Callable[[Any], pa.Table | None] | None = None,
) -> tuple[pa.Table, tuple[Rejection, ...]]:
    """Compute the transform's result, with the column of rule violations.

    Return it and the rejections of records on which the transform throws. ``of_frame`` lets Spark
    compute the frame that the transform returned. ``by_arrow`` does it without Spark, and returns
    None if it cannot.

    :raises TransformError: the transform throws on more records than the table allows, or for
        another reason.
    """

    def compute(ranges: Sequence[OffsetRange], without: Places) -> pa.Table:
        return of_frame(
            call_transform(table.name, table.function, given.where(chosen_places(ranges, without)))
        )

    try:
        frame = call_transform(table.name, table.function, given)
        result = None if by_arrow is None else by_arrow(frame)
        return of_frame(frame) if result is None else result, ()
    except ExecutionError as error:
        limit = allowed(table.max_failed, batch.statistics.records)
        is_declared = table.max_failed is not None
        found = Isolation(
            name=table.name,
            ranges=batch.ranges,
            compute=compute,
            limit=limit,
            is_declared=is_declared,
            forgiven=forgiven,
        )
        with unlogged_failures():
            return found.run(error)


@contextmanager
def unlogged_failures() -> Iterator[None]:
    """Keep PySpark from logging the failures that a search for records expects.

    Each would be a JSON line with all its tracebacks, which takes 0.1 s.
    """
    loggers = [PySparkLogger.getLogger(name) for name in QUERY_LOGGERS]
    before = [one.disabled for one in loggers]
    for one in loggers:
        one.disabled = True
    try:
        yield
    finally:
        for one, was_disabled in zip(loggers, before, strict=True):
            one.disabled = was_disabled


def chosen_places(ranges: Sequence[OffsetRange], without: Places) -> Any:
    """Return the Spark condition that selects ``ranges`` except the records in ``without``."""
    parts = [
        f"(_partition = {one.partition} AND _offset >= {one.start} AND _offset < {one.end})"
        for one in ranges
    ]
    left_out = [
        f"NOT (_partition = {number} AND _offset IN ({', '.join(map(str, offsets))}))"
        for number, offsets in without.items()
    ]
    none = "_offset < 0"  # a constant would let Spark leave the whole plan out
    return sql.expr(" AND ".join([f"({' OR '.join([none, *parts])})", *left_out]))


def _of_frame(table: TopicTable, kept: Collection[str], frame: Any) -> pa.Table:
    """Let Spark compute ``frame``, with the column of rule violations.

    All columns are nullable in the returned table. A VARIANT is JSON in it, except for the columns
    ``kept``.
    """
    with running(table.name):
        flagged = of_keys.flag_deleted(frame, table)
    with applying_rules(table.name, flagged, table.rules):
        found = _collect_json(table, apply_rules(flagged, table.rules), kept)
    return pa.table(found.columns, names=found.column_names)


def decide_doubtful(
    session: Any, name: str, batch: Intake
) -> tuple[pa.Table | None, tuple[Rejection, ...]]:
    """Make Spark parse the doubtful records (``Intake``).

    Return rows of those that fit, and the rejections of all records of the batch that do not.
    """
    faults = [_misfit(*one) for one in batch.faults]
    records = batch.doubtful
    if not records.num_rows:
        return None, tuple(faults)
    assert batch.fields is not None
    found = collect(
        name,
        parse(batch.doubtful_frame(session), batch.fields, has_headers=batch.has_headers).decided(),
    )
    rows = found.filter(pc.invert(found[MISFIT])).drop_columns([MISFIT])
    unread = found.filter(found[MISFIT]).to_pylist()
    nulls = {
        (row["_partition"], row["_offset"]): [
            name for name in batch.fields.names if row[name] is None
        ]
        for row in unread
    }
    return rows, (
        *faults,
        *_unread(nulls, batch.fields, lambda wanted: chosen_records(records.to_batches(), wanted)),
    )


def _worker_misfits(
    name: str, parsed: ParsedFrame, batch: RecordBatchFrame
) -> tuple[Rejection, ...]:
    misfits = collect(name, parsed.misfits()).to_pylist()
    faults = [
        _misfit(row["_partition"], row["_offset"], row[FAULT])
        for row in misfits
        if row[FAULT] is not None
    ]
    nulls = {
        (row["_partition"], row["_offset"]): row[NULLS] for row in misfits if row[FAULT] is None
    }
    return (
        tuple(faults)
        if parsed.fields is None
        else (*faults, *_unread(nulls, parsed.fields, batch.records_at))
    )


def _unread(
    nulls: Mapping[tuple[int, int], Sequence[str]],
    fields: types.StructType,
    records_at: Callable[[Mapping[int, Sequence[int]]], pa.Table],
) -> list[Rejection]:
    """Return the rejections of records that Spark could not read.

    ``nulls`` holds the fields that it read as null, by partition and offset.
    """
    wanted: dict[int, list[int]] = {}
    for partition, offset in islice(nulls, MAX_EXPLAINED):
        wanted.setdefault(partition, []).append(offset)
    records = (
        records_at(wanted).select(["_partition", "_offset", "value"]).to_pylist() if wanted else []
    )
    reasons = {
        place: explain_unread(row["value"], fields, nulls[place])
        for row in records
        if (place := (row["_partition"], row["_offset"])) in nulls
    }
    return [_misfit(*place, reasons.get(place, UNREADABLE)) for place in nulls]


def _misfit(partition: int, offset: int, reason: str) -> Rejection:
    rule = UNREADABLE_RULE if reason.startswith(UNREADABLE_BATCH) else SCHEMA_RULE
    return Rejection(partition=partition, offset=offset, reason=reason, rule=rule)


def _validate_provenance(name: str, result: pa.Table, ranges: OffsetRanges) -> None:
    inside: Flags = np.zeros(result.num_rows, np.bool_)
    partitions, offsets = _places(result)
    for one in ranges:
        inside |= (partitions == one.partition) & (offsets >= one.start) & (offsets < one.end)
    is_of_topic = (
        pc.all(pc.equal(result["_topic_id"], ranges.topic_id)).as_py() is not False
        and result["_topic_id"].null_count == 0
    )
    if not inside.all() or not is_of_topic:
        raise TransformError(
            f"the result of table {name} has rows whose _topic_id, _partition and _offset are not"
            f" of the batch ({ranges}): pass these columns through unchanged"
        )


def _quarantine_rejections(
    rules: Sequence[Rule], rows: pa.Table, bits: Bits
) -> tuple[Rejection, ...]:
    chosen = np.flatnonzero(quarantined(rules, bits))
    partitions, offsets = _places(rows)
    found: dict[tuple[int, int], Rejection] = {}
    for position in chosen.tolist():
        place = (int(partitions[position]), int(offsets[position]))
        if place not in found:
            rule = first_quarantine_rule(rules, int(bits[position]))
            reason = rule.description or f"{rule.condition} does not hold"
            found[place] = Rejection(
                partition=place[0], offset=place[1], reason=reason, rule=rule.name
            )
    return tuple(found.values())


def _repetition_rejections(
    rows: pa.Table, unique_by: Sequence[str], existing: TableKeys | None
) -> tuple[Rejection, ...]:
    missing = [column for column in unique_by if column not in rows.column_names]
    if missing:
        raise TransformError(
            f"unique_by names columns that the result does not have: {', '.join(missing)}"
        )
    partitions, offsets = _places(rows)
    repeated = find_repetitions(rows, unique_by, existing)
    topic_ids = rows["_topic_id"].take(pa.array(repeated)).to_pylist()
    places = zip(topic_ids, partitions[repeated].tolist(), offsets[repeated].tolist(), strict=True)
    originals = find_originals(rows, repeated, unique_by, existing)
    found = dict(zip(places, originals, strict=True))
    return tuple(
        Rejection(
            partition=partition,
            offset=offset,
            reason=DUPLICATE,
            rule=UNIQUENESS_RULE,
            duplicate_of=(
                f"{'' if original[0] == topic_id else original[0] + '/'}{original[1]}:{original[2]}"
            ),
        )
        for (topic_id, partition, offset), original in found.items()
    )


def without_rejected(rows: pa.Table, rejections: Sequence[Rejection]) -> pa.Table:
    """Return ``rows`` without any that came from a rejected record."""
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


def _in_order(rows: pa.Table) -> pa.Table:
    """Return ``rows`` in ascending order of partition and offset.

    Rows that are in order already are returned as they are.
    """
    partitions, offsets = (np.diff(column) for column in _places(rows))
    is_ascending = bool(((partitions > 0) | ((partitions == 0) & (offsets >= 0))).all())
    return (
        rows
        if is_ascending
        else rows.sort_by([("_partition", "ascending"), ("_offset", "ascending")])
    )


def _violations(rows: pa.Table) -> Bits:
    if VIOLATIONS_COLUMN not in rows.column_names:
        return np.zeros(rows.num_rows, np.int64)
    found: Bits = rows[VIOLATIONS_COLUMN].to_numpy().astype(np.int64)
    return found


def _distinct_records(rows: pa.Table) -> int:
    """Return how many records the ordered ``rows`` come from."""
    partitions, offsets = (np.diff(column) for column in _places(rows))
    is_another: Flags = (partitions != 0) | (offsets != 0)
    return int(is_another.sum()) + min(int(rows.num_rows), 1)


def _places(rows: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if rows["_partition"].null_count or rows["_offset"].null_count:
        raise TransformError(
            "the result has rows without _partition or _offset: pass these columns through"
            " unchanged"
        )
    return rows["_partition"].to_numpy().astype(np.int64), rows["_offset"].to_numpy().astype(
        np.int64
    )
