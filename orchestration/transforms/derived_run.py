"""One run of a table from tables: read the latest versions of the inputs, compute, check, and replace the table in one commit.

Decides whether anything changed: the commit records the version of each input and a fingerprint of the transform, and a run that would
record the same again is skipped. So the result depends on the versions of the inputs alone, not on which of them came first. Spark reads
the files of a version directly. Knows no Dagster and no topic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from orchestration.quality.rules import VIOLATIONS_COLUMN, broken_fail_rules, count_violations
from orchestration.quality.suites import Outcome
from orchestration.schemas import validate_types
from orchestration.tables import CommitConflictError, Lake, TableSnapshot, replace_all
from orchestration.transforms.batch import apply_rules, call_transform, collect
from orchestration.transforms.checking import blocking_failures, evaluate_suite
from orchestration.transforms.declarations import DerivedTable

CODE_TRANSACTION = "code"
INPUT_TRANSACTION = "input/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedRunResult:
    """What a run did. ``version`` is None where nothing was committed; ``missing`` names inputs that do not exist yet."""

    inputs: dict[str, int]
    version: int | None = None
    missing: tuple[str, ...] = ()
    is_unchanged: bool = False
    rows: int = 0
    size_bytes: int = 0
    violations: dict[str, int] | None = None
    outcomes: tuple[Outcome, ...] = ()
    failures: tuple[str, ...] = ()


def run_derived_table(
    table: DerivedTable, lake: Lake, session: Callable[[], Any], *, run_id: str, commit_attempts: int, is_forced: bool = False
) -> DerivedRunResult:
    """Compute ``table`` from the latest versions of its inputs, unless it holds just that already (``is_forced``: even then).

    :raises TransformError, SchemaConflictError: nothing was committed. :raises CommitConflictError: rivals were faster in every attempt.
    """
    for attempt in range(1, commit_attempts + 1):
        try:
            return _attempt(table, lake, session, run_id=run_id, is_forced=is_forced)
        except CommitConflictError:
            if attempt == commit_attempts:
                raise
    raise AssertionError("commit_attempts is at least one")


def _attempt(table: DerivedTable, lake: Lake, session: Callable[[], Any], *, run_id: str, is_forced: bool) -> DerivedRunResult:
    target = lake.snapshot(table.name)
    found = {name: lake.snapshot(name) for name in table.inputs}
    missing = tuple(name for name, snapshot in found.items() if snapshot is None)
    inputs = {name: snapshot for name, snapshot in found.items() if snapshot is not None}
    versions = {name: snapshot.version for name, snapshot in inputs.items()}
    if missing:
        return DerivedRunResult(inputs=versions, missing=missing)
    recorded = {CODE_TRANSACTION: table.code_fingerprint, **{INPUT_TRANSACTION + one.table_id: one.version for one in inputs.values()}}
    if target is not None and not is_forced and is_up_to_date(target, recorded):
        return DerivedRunResult(inputs=versions, version=target.version, is_unchanged=True)
    spark = session()
    frames = [read_table(spark, inputs[name]) for name in table.inputs]
    computed = collect(table.name, apply_rules(call_transform(table.name, table.function, *frames), table.rules))
    violations = count_violations(table.rules, computed[VIOLATIONS_COLUMN].to_numpy().astype(np.int64))
    rows = computed.drop_columns([VIOLATIONS_COLUMN])
    validate_types(rows.schema, table.name)
    outcomes = evaluate_suite(spark, table.suite, rows, table=table.name)
    broken = [
        f"rule {rule.name}: {violations[rule.name]} rows violate {rule.condition}" for rule in broken_fail_rules(table.rules, violations)
    ]
    failures = (*broken, *blocking_failures(outcomes))
    if failures:
        return DerivedRunResult(inputs=versions, violations=violations, outcomes=outcomes, failures=failures, rows=rows.num_rows)
    base = target or _created(table, lake, rows.schema)
    committed = replace_all(base, rows, recorded, {"inputs": _text(versions), "run_id": run_id})
    return DerivedRunResult(
        inputs=versions,
        version=committed.version,
        rows=rows.num_rows,
        size_bytes=committed.size_bytes,
        violations=violations,
        outcomes=outcomes,
    )


def is_up_to_date(target: TableSnapshot, recorded: dict[str, int]) -> bool:
    """Return whether the table was last computed from just these versions by just this code."""
    return all(target.transaction_version(application_id) == version for application_id, version in recorded.items())


def read_table(session: Any, snapshot: TableSnapshot) -> Any:
    """Return the rows of ``snapshot`` as a DataFrame: Spark reads the Parquet files of that version side by side, no connector needed."""
    schema = from_arrow_schema(snapshot.arrow_schema)
    if not snapshot.file_uris:
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(*snapshot.file_uris)


def _created(table: DerivedTable, lake: Lake, schema: pa.Schema) -> TableSnapshot:
    base = lake.create(table.name, schema, description=table.function.__doc__ or "")
    if base.version > 0:
        raise CommitConflictError(f"another run created the table {table.name}")
    return base


def _text(versions: dict[str, int]) -> str:
    return " ".join(f"{name}:{version}" for name, version in versions.items())
