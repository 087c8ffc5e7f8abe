"""Holds the result of a table from tables until its commit: as files of Spark, or as rows.

Decides which of the two. Files are used if Spark shares the lake's file system, so that the size of
a result does not matter. Rows in the run process are used otherwise. Knows how violations of rules
are counted and how a commit is made in both cases. Knows no inputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as sql

from orchestration.lake.schemas import validate_types
from orchestration.lake.staging import StagedFiles, stage
from orchestration.lake.tables import Lake, TableSnapshot, replace_all, replace_all_by_files
from orchestration.quality import Rule
from orchestration.transforms.batch.batch import applying_rules, running

SAMPLE_SEED = 20_210


class Result(Protocol):
    """A computed table that is not committed yet. Its owner has to ``release`` it."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        ...

    @property
    def row_count(self) -> int:
        """Return the number of its rows."""
        ...

    def violations(self, rules: Sequence[Rule]) -> dict[str, int]:
        """Return how many rows violate each rule."""
        ...

    def sample(self, size: int) -> pa.Table:
        """Return at most ``size`` rows, drawn at random with a fixed seed."""
        ...

    def frame(self) -> Any:
        """Return the rows as a Spark DataFrame."""
        ...

    def whole(self) -> Any:
        """Return all rows for checks: in pandas if they are in memory, else in Spark."""
        ...

    def replace(
        self, snapshot: TableSnapshot, transactions: Mapping[str, int], notes: Mapping[str, str]
    ) -> TableSnapshot:
        """Replace the whole table by the result, and return its new snapshot.

        The commit also has the application ``transactions``, and ``notes`` as its metadata.
        """
        ...

    def release(self) -> None:
        """Remove files of the result that no commit has used."""
        ...


def compute_result(
    session: Any, name: str, frame: Any, lake: Lake, *, is_lake_shared: bool
) -> Result:
    """Compute ``frame``, the result of the table ``name``.

    ``is_lake_shared`` says that Spark itself can write below the lake's root.

    :raises TransformError: Spark failed on it.
    :raises SchemaConflictError: no table can hold its columns.
    """
    with running(name):
        if not is_lake_shared:
            rows = frame.toArrow()
            validate_types(rows.schema, name)
            return RowsResult(session=session, name=name, rows=rows)
        columns = {column.name: column.dataType.typeName() for column in frame.schema}
        validate_types(
            pa.schema(
                [
                    (column, pa.null() if kind == "void" else pa.int8())
                    for column, kind in columns.items()
                ]
            ),
            name,
        )
        return FilesResult(
            session=session, name=name, files=stage(frame, lake.path(name)), lake=lake
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsResult:
    """Rows in the run process."""

    session: Any
    name: str
    rows: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        return self.rows.schema

    @property
    def row_count(self) -> int:
        """Return the number of its rows."""
        return int(self.rows.num_rows)

    def violations(self, rules: Sequence[Rule]) -> dict[str, int]:
        """Return how many rows violate each rule."""
        return _counted(self.name, self.frame(), rules)

    def sample(self, size: int) -> pa.Table:
        """Return at most ``size`` rows."""
        return self.rows.take(pa.array(chosen_rows(self.row_count, size)))

    def frame(self) -> Any:
        """Return the rows as a Spark DataFrame."""
        return self.session.createDataFrame(self.rows)

    def whole(self) -> Any:
        """Return every row, in pandas."""
        return self.rows.to_pandas()

    def replace(
        self, snapshot: TableSnapshot, transactions: Mapping[str, int], notes: Mapping[str, str]
    ) -> TableSnapshot:
        """Replace the whole table."""
        return replace_all(snapshot, self.rows, transactions, notes)

    def release(self) -> None:
        """Do nothing, because rows in memory leave no files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesResult:
    """Files that Spark wrote into a staging folder of the table."""

    session: Any
    name: str
    files: StagedFiles
    lake: Lake

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        return self.files.schema

    @property
    def row_count(self) -> int:
        """Return the number of its rows."""
        return int(self.files.dataset().count_rows())

    def violations(self, rules: Sequence[Rule]) -> dict[str, int]:
        """Return how many rows violate each rule."""
        return _counted(self.name, self.frame(), rules)

    def sample(self, size: int) -> pa.Table:
        """Return at most ``size`` rows."""
        return self.files.dataset().take(pa.array(chosen_rows(self.row_count, size)))

    def frame(self) -> Any:
        """Return the rows as a Spark DataFrame."""
        return self.session.read.parquet(*(str(file) for file in self.files.files))

    def whole(self) -> Any:
        """Return every row, as a Spark DataFrame."""
        return self.frame()

    def replace(
        self, snapshot: TableSnapshot, transactions: Mapping[str, int], notes: Mapping[str, str]
    ) -> TableSnapshot:
        """Replace the whole table."""
        replace_all_by_files(snapshot, self.files.add_actions(), self.schema, transactions, notes)
        return self.lake.existing(self.name)

    def release(self) -> None:
        """Remove the staging folder."""
        self.files.release()


def _counted(name: str, frame: Any, rules: Sequence[Rule]) -> dict[str, int]:
    if not rules:
        return {}
    with applying_rules(name, frame, rules):
        counts = [
            sql.count_if(sql.expr(f"NOT ({rule.condition})")).alias(rule.name) for rule in rules
        ]
        return {
            label: int(count)
            for label, count in frame.agg(*counts).toArrow().to_pylist()[0].items()
        }


def chosen_rows(row_count: int, size: int) -> npt.NDArray[np.int64]:
    """Return at most ``size`` row numbers in ascending order, drawn at random with a fixed seed."""
    if row_count <= size:
        return np.arange(row_count)
    return np.sort(
        np.random.default_rng(SAMPLE_SEED).choice(row_count, size, replace=False, shuffle=False)
    )
