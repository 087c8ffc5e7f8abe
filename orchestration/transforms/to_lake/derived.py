"""One run of a table from tables: read the inputs' latest versions, compute, check, and commit.

The commit replaces the whole table. It records the version of each input and a fingerprint of the
transform. A run that would record the same again is skipped. So the result depends only on the
versions of the inputs, not on the order of their changes. Spark reads the files of a version
directly. Knows no Dagster and no topic.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from orchestration.lake.tables import CommitConflictError, Lake, TableSnapshot
from orchestration.quality.rules import broken_rules
from orchestration.quality.suites import Outcome
from orchestration.transforms.batch.batch import call_transform
from orchestration.transforms.batch.checking import blocking_failures, evaluate_result
from orchestration.transforms.batch.results import Result, compute_result
from orchestration.transforms.declarations import DerivedTable

CODE_TRANSACTION = "code"
INPUT_TRANSACTION = "input/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedRunResult:
    """The result of a run.

    ``version`` is None if nothing was committed. ``missing`` names inputs that do not exist yet.
    """

    inputs: dict[str, int]
    version: int | None = None
    missing: tuple[str, ...] = ()
    is_unchanged: bool = False
    rows: int = 0
    size_bytes: int = 0
    violations: dict[str, int] | None = None
    outcomes: tuple[Outcome, ...] = ()
    failures: tuple[str, ...] = ()
    schema: pa.Schema | None = None


def run_derived_table(
    table: DerivedTable,
    lake: Lake,
    session: Callable[[], Any],
    *,
    run_id: str,
    commit_attempts: int,
    is_forced: bool = False,
    is_lake_shared: bool = True,
) -> DerivedRunResult:
    """Compute ``table`` from the latest versions of its inputs, unless it is up to date.

    ``is_forced`` computes it even then. ``is_lake_shared`` says that Spark sees the lake's files
    under the same names and writes there, too.

    :raises TransformError, SchemaConflictError: nothing was committed.
    :raises CommitConflictError: in every attempt another writer was faster.
    """
    for attempt in range(1, commit_attempts + 1):
        try:
            return _attempt(
                table,
                lake,
                session,
                run_id=run_id,
                is_forced=is_forced,
                is_lake_shared=is_lake_shared,
            )
        except CommitConflictError:
            if attempt == commit_attempts:
                raise
    raise AssertionError("commit_attempts is at least one")


def _attempt(
    table: DerivedTable,
    lake: Lake,
    session: Callable[[], Any],
    *,
    run_id: str,
    is_forced: bool,
    is_lake_shared: bool,
) -> DerivedRunResult:
    target = lake.snapshot(table.name)
    found = {name: lake.snapshot(name) for name in table.inputs}
    missing = tuple(name for name, snapshot in found.items() if snapshot is None)
    inputs = {name: snapshot for name, snapshot in found.items() if snapshot is not None}
    versions = {name: snapshot.version for name, snapshot in inputs.items()}
    if missing:
        return DerivedRunResult(inputs=versions, missing=missing)
    recorded = {
        CODE_TRANSACTION: table.code_fingerprint,
        **{INPUT_TRANSACTION + one.table_id: one.version for one in inputs.values()},
    }
    if target is not None and not is_forced and is_up_to_date(target, recorded):
        return DerivedRunResult(inputs=versions, version=target.version, is_unchanged=True)
    spark = session()
    frame = call_transform(
        table.name, table.function, *(read_table(spark, inputs[name]) for name in table.inputs)
    )
    result = compute_result(spark, table.name, frame, lake, is_lake_shared=is_lake_shared)
    try:
        checked = _checked(table, result, versions)
        if checked.failures:
            return checked
        base = target or _created(table, lake, result.schema)
        committed = result.replace(base, recorded, {"inputs": _text(versions), "run_id": run_id})
    finally:
        result.release()
    return replace(checked, version=committed.version, size_bytes=committed.size_bytes)


def _checked(table: DerivedTable, result: Result, versions: dict[str, int]) -> DerivedRunResult:
    violations = result.violations(table.rules)
    outcomes = evaluate_result(table.suite, result, table=table.name)
    broken = broken_rules(table.rules, violations)
    return DerivedRunResult(
        inputs=versions,
        rows=result.row_count,
        violations=violations,
        outcomes=outcomes,
        failures=(*broken, *blocking_failures(outcomes)),
        schema=result.schema,
    )


def is_up_to_date(target: TableSnapshot, recorded: dict[str, int]) -> bool:
    """Return whether the table was last computed from these versions by this code."""
    return all(
        target.transaction_version(application_id) == version
        for application_id, version in recorded.items()
    )


def read_table(session: Any, snapshot: TableSnapshot) -> Any:
    """Return the rows of ``snapshot`` as a DataFrame.

    Spark reads the Parquet files of that version in parallel and needs no connector.
    """
    schema = from_arrow_schema(snapshot.arrow_schema)
    files = snapshot.files
    return (
        session.read.schema(schema).parquet(*map(str, files))
        if files
        else session.createDataFrame([], schema)
    )


def _created(table: DerivedTable, lake: Lake, schema: pa.Schema) -> TableSnapshot:
    base = lake.create(table.name, schema, description=table.function.__doc__ or "")
    if base.version > 0:
        raise CommitConflictError(f"another run created the table {table.name}")
    return base


def _text(versions: dict[str, int]) -> str:
    return " ".join(f"{name}:{version}" for name, version in versions.items())
