"""The input of a join's function, and its result.

The input is a DataFrame with a row per pair. Each row of the result names the two records that it
comes from. Decides the columns of both, and makes Spark compute. Knows no commit.
Invariant: each row of the result belongs to a pair of the input.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from log_service.common.counts import counted
from orchestration.lake.tables import TableSnapshot
from orchestration.quality.rules import VIOLATIONS_COLUMN, count_violations
from orchestration.rows.joins import LEFT, PLACE, PLACES, SIDES, JoinStep, Side
from orchestration.transforms.batch.batch import (
    apply_rules,
    applying_rules,
    call_transform,
    collect,
)
from orchestration.transforms.batch.intake import HEADERS, INLINE_BYTES, META, new_scratch_file
from orchestration.transforms.batch.parsing import nullable_fields
from orchestration.transforms.errors import TransformError
from orchestration.transforms.joining.declarations import JoinedTable
from orchestration.transforms.run.context import RunContext

PLACE_STRUCT = types.StructType(
    [
        types.StructField("topic_id", types.StringType()),
        types.StructField("partition", types.IntegerType()),
        types.StructField("offset", types.LongType()),
    ]
)


def computed(
    table: JoinedTable, context: RunContext, step: JoinStep, snapshot: TableSnapshot | None
) -> tuple[pa.Table, Mapping[str, int]]:
    """Run the function over the joined rows.

    Return its rows, and the number of violations of each rule. Without joined rows Spark is not
    used.

    :raises TransformError: the function failed, or its result does not name the records of a row.
    """
    if snapshot is not None and not step.rows.num_rows:
        return snapshot.arrow_schema.empty_table(), {rule.name: 0 for rule in table.rules}
    with _given(table, context, step.rows) as frame:
        result = call_transform(table.name, table.function, frame)
        with applying_rules(table.name, result, table.rules):
            found = collect(table.name, apply_rules(result, table.rules))
    violations = count_violations(
        table.rules, np.asarray(found[VIOLATIONS_COLUMN].to_numpy(), np.int64)
    )
    rows = found.drop_columns([VIOLATIONS_COLUMN])
    rows = pa.table(rows.columns, names=rows.column_names)
    _validate_places(table.name, rows, step.rows)
    return rows, violations


@contextmanager
def _given(table: JoinedTable, context: RunContext, rows: pa.Table) -> Iterator[Any]:
    """Yield the function's input as a DataFrame.

    Small inputs are sent to Spark, and large ones are written to a file.
    """
    session, schema = context.session(), _spark_schema(table)
    if context.scratch is None or rows.nbytes <= INLINE_BYTES:
        yield session.createDataFrame(rows.combine_chunks(), schema=schema)
        return
    file = new_scratch_file(context.scratch)
    try:
        pq.write_table(rows, file)
        yield session.read.schema(schema).parquet(str(file))
    finally:
        file.unlink(missing_ok=True)


def _spark_schema(table: JoinedTable) -> types.StructType:
    left = table.fields(LEFT)
    keys = [types.StructField(name, left[name].dataType) for name in table.shape.keys(LEFT)]
    sides = [
        types.StructField(
            side, types.StructType([*_meta(table), *nullable_fields(table.fields(side))])
        )
        for side in SIDES
    ]
    return types.StructType(
        [*keys, *sides, *(types.StructField(PLACES[side], PLACE_STRUCT) for side in SIDES)]
    )


def _meta(table: JoinedTable) -> list[types.StructField]:
    return [
        *(META[name] for name in ("_partition", "_offset", "_timestamp")),
        *(HEADERS if table.has_headers else ()),
    ]


def arrow_schema(table: JoinedTable, side: Side) -> pa.Schema:
    """Return the columns of the rows of one side."""
    fields = [
        types.StructField(PLACE[0], types.StringType()),
        *_meta(table),
        *nullable_fields(table.fields(side)),
    ]
    return to_arrow_schema(types.StructType(fields), timezone="UTC")


def _validate_places(name: str, rows: pa.Table, given: pa.Table) -> None:
    """Refuse a result whose rows do not name the two records that they come from.

    :raises TransformError: says what is missing.
    """
    missing = [column for column in PLACES.values() if column not in rows.column_names]
    if missing:
        raise TransformError(
            f"the result of table {name} lacks {', '.join(missing)}: every row has to say which two"
            " records it came of. Keep these columns in every select of the transform"
        )
    same = " AND ".join(
        f"made.{column} IS NOT DISTINCT FROM given.{column}" for column in PLACES.values()
    )
    with duckdb.connect() as connection:
        connection.register("made", rows.select(list(PLACES.values())))
        connection.register("given", given.select(list(PLACES.values())))
        found = connection.sql(f"SELECT count(*) FROM made ANTI JOIN given ON {same}").fetchall()  # noqa: S608 - our own names
    if found[0][0]:
        raise TransformError(
            f"the result of table {name} has {counted(found[0][0], 'row')} whose _left and _right"
            " are not of the batch: pass these columns through unchanged"
        )
