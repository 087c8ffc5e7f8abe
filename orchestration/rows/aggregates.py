"""Keeps counts, totals, smallest and largest values per group up to date with each batch.

DuckDB aggregates the Arrow rows of the batch, and merges each group with the table's group of the
same key. A group is never read again from the topic, because these values can be merged. Does not
use Spark and commits nothing. Invariant: the merged groups equal the groups of all rows so far,
however the rows were cut into batches, except for the rounding of DOUBLE totals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from orchestration.dead_letters.table import Rejection
from orchestration.lake.quoting import quoted_name
from orchestration.lake.schemas import nullable
from orchestration.lake.tables import TABLE_NAME
from orchestration.rows.latest import Changes, HasRows
from orchestration.rows.uniqueness import relevant_to

Kind = Literal["count", "total", "smallest", "largest"]
GROUP_RULE = "aggregate_by"
FUNCTIONS: dict[Kind, str] = {"count": "count", "total": "sum", "smallest": "min", "largest": "max"}
MAX_DIGITS = 38


class AggregateError(ValueError):
    """A group cannot be computed. The text names the aggregate and gives the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A column ``name`` of an aggregated table, computed from ``column``.

    Without ``column`` it is a count of rows.
    """

    name: str
    kind: Kind
    column: str | None = None

    def __str__(self) -> str:
        return f"{self.name} = {self.kind}({self.column or '*'})"


def count(name: str, column: str | None = None) -> Aggregate:
    """Count the rows of a group, or only the rows in which ``column`` is not null."""
    return Aggregate(name=name, kind="count", column=column)


def total(name: str, column: str) -> Aggregate:
    """Add up ``column``. A sum that exceeds the type is an error.

    Whole numbers are added as BIGINT, decimals exactly, and DOUBLE with rounding.
    """
    return Aggregate(name=name, kind="total", column=column)


def smallest(name: str, column: str) -> Aggregate:
    """Keep the least value of ``column``."""
    return Aggregate(name=name, kind="smallest", column=column)


def largest(name: str, column: str) -> Aggregate:
    """Keep the greatest value of ``column``."""
    return Aggregate(name=name, kind="largest", column=column)


def validate_aggregates(table: str, by: Sequence[str], aggregates: Sequence[Aggregate]) -> None:
    """Refuse a declaration without groups or aggregates, or with invalid or repeated names.

    :raises ValueError: the declaration is not valid. The text says why.
    """
    names = [*by, *(one.name for one in aggregates)]
    if not by or not aggregates:
        raise ValueError(f"the table {table} needs columns to group by, and at least one aggregate")
    if len(set(names)) != len(names):
        raise ValueError(f"the columns of table {table} are not different: {', '.join(names)}")
    unfit = [one.name for one in aggregates if not TABLE_NAME.fullmatch(one.name)]
    if unfit or set(names) & {"_topic_id", "_partition", "_offset"}:
        raise ValueError(
            f"columns of table {table} cannot be called"
            f" {', '.join(unfit) or 'as the place of a record is'}"
        )


def validate_columns(rows: pa.Table, by: Sequence[str], aggregates: Sequence[Aggregate]) -> None:
    """Refuse rows that lack a column for the groups or the aggregates.

    :raises AggregateError: columns are missing. The text names them.
    """
    missing = sorted(
        {*by, *(one.column for one in aggregates if one.column is not None)}
        - set(rows.column_names)
    )
    if missing:
        raise AggregateError(
            f"the result lacks {', '.join(missing)}, by which it is grouped or of which an"
            " aggregate is made"
        )


def group_rejections(rows: pa.Table, by: Sequence[str]) -> tuple[Rejection, ...]:
    """Return the rejections of records whose rows belong to no group, because a column is null."""
    found: dict[tuple[int, int], Rejection] = {}
    for column in by:
        nameless = rows.filter(rows[column].is_null())
        for partition, offset in zip(
            nameless["_partition"].to_pylist(), nameless["_offset"].to_pylist(), strict=True
        ):
            reason = f"the column {column}, by which rows are grouped, is null"
            found.setdefault(
                (partition, offset),
                Rejection(partition=partition, offset=offset, reason=reason, rule=GROUP_RULE),
            )
    return tuple(found.values())


def merged(
    rows: pa.Table, held: HasRows | None, by: Sequence[str], aggregates: Sequence[Aggregate]
) -> Changes:
    """Return the changes that ``rows`` make to the groups of the table ``held``.

    :raises AggregateError: a total exceeds its type, or the type of a column does not allow the
        aggregate.
    """
    keys = ", ".join(map(quoted_name, by))
    same = " AND ".join(f"batch.{quoted_name(key)} = held.{quoted_name(key)}" for key in by)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("new_rows", rows)
        try:
            connection.execute(
                f"CREATE TABLE batch AS SELECT {keys}, {_of_batch(rows.schema, aggregates)} FROM"  # noqa: S608
                " new_rows GROUP BY ALL"
            )
            batch = connection.sql("SELECT * FROM batch").to_arrow_table()
            if held is None:
                found = batch
                is_held = np.zeros(found.num_rows, np.bool_)
            else:
                connection.register("existing", relevant_to(held.dataset(), batch, by))
                both = ", ".join(
                    f"{_merging(one, batch.schema)} AS {quoted_name(one.name)}"
                    for one in aggregates
                )
                own = ", ".join(f"batch.{quoted_name(key)}" for key in by)
                connection.execute(
                    f"CREATE TABLE held AS SELECT * FROM existing AS held SEMI JOIN batch ON {same}"  # noqa: S608
                )
                is_there = f"held.{quoted_name(by[0])} IS NOT NULL AS _is_held"
                joined = connection.sql(
                    f"SELECT {own}, {both}, {is_there} FROM batch LEFT JOIN held ON {same}"  # noqa: S608
                ).to_arrow_table()
                is_held = np.asarray(joined["_is_held"].to_numpy(zero_copy_only=False), np.bool_)
                found = joined.drop_columns(["_is_held"])
        except duckdb.Error as error:
            raise AggregateError(
                f"the aggregates {', '.join(one.name for one in aggregates)} cannot be computed:"
                f" {str(error).splitlines()[0]}. Nothing was committed. Cast the column, e.g. to"
                " DECIMAL(38, 2) or DOUBLE, or refuse larger values by a rule"
            ) from error
    found = found.cast(nullable(found.schema))
    updated = int(is_held.sum())
    nothing = found.schema.empty_table()
    return Changes(
        rows=found,
        inserted=found.num_rows - updated,
        updated=updated,
        replaced=found.select(list(by)).filter(pa.array(is_held)),
        deletions=nothing,
        is_deletion_new=False,
    )


def accumulated(
    rows: pa.Table, groups: pa.Table | None, by: Sequence[str], aggregates: Sequence[Aggregate]
) -> pa.Table:
    """Return all ``groups`` with ``rows`` merged into them.

    ``groups`` is None if there are no groups yet.

    :raises AggregateError: as ``merged``.
    """
    changes = merged(rows, None if groups is None else _Groups(groups), by, aggregates)
    if groups is None:
        return changes.rows
    same = " AND ".join(f"held.{quoted_name(key)} = replaced.{quoted_name(key)}" for key in by)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("groups", groups)
        connection.register("replaced", changes.replaced)
        others = connection.sql(
            f"SELECT * FROM groups AS held ANTI JOIN replaced ON {same}"  # noqa: S608 - names are quoted
        ).to_arrow_table()
    return pa.concat_tables([others.cast(changes.rows.schema), changes.rows])


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups in memory, with the interface of a table for ``merged``."""

    rows: pa.Table

    def dataset(self) -> pads.Dataset:
        return pads.dataset(self.rows)


def _of_batch(schema: pa.Schema, aggregates: Sequence[Aggregate]) -> str:
    return ", ".join(f"{_computing(schema, one)} AS {quoted_name(one.name)}" for one in aggregates)


def _computing(schema: pa.Schema, one: Aggregate) -> str:
    column = "*" if one.column is None else quoted_name(one.column)
    computed = f"{FUNCTIONS[one.kind]}({column})"
    if one.kind != "total" or one.column is None:
        return computed
    kind = schema.field(one.column).type
    if pa.types.is_decimal(kind):
        return f"CAST({computed} AS DECIMAL({MAX_DIGITS}, {kind.scale}))"
    if pa.types.is_integer(kind):
        return f"CAST({computed} AS BIGINT)"
    added, own = f"CAST({computed} AS DOUBLE)", f"CAST({column} AS DOUBLE)"
    return (
        f"CASE WHEN NOT isfinite({added}) AND bool_and(isfinite({own})) THEN {_beyond(one)} ELSE"
        f" {added} END"
    )


def _beyond(one: Aggregate) -> str:
    """Return the SQL expression that fails with an error about a total beyond DOUBLE.

    It is needed because DuckDB itself returns infinity for such a total.
    """
    message = f"the total {one.name} is beyond the range of DOUBLE"
    return f"error('{message}')"


def _merging(one: Aggregate, schema: pa.Schema) -> str:
    """Return the SQL expression that merges the batch's value with the table's value.

    If one of both is null, the result is the other one.
    """
    new, old = (f"{side}.{quoted_name(one.name)}" for side in ("batch", "held"))
    if one.kind in {"smallest", "largest"}:
        return f"{'least' if one.kind == 'smallest' else 'greatest'}({new}, {old})"
    both = f"{new} + {old}"
    if pa.types.is_floating(schema.field(one.name).type):
        both = (
            f"CASE WHEN NOT isfinite({both}) AND isfinite({new}) AND isfinite({old}) THEN"
            f" {_beyond(one)} ELSE {both} END"
        )
    return f"CASE WHEN {old} IS NULL THEN {new} WHEN {new} IS NULL THEN {old} ELSE {both} END"
