"""Finds the rows of a batch that repeat a key of the batch or of the table.

DuckDB decides over Arrow, by a hash join with only the key columns of the table. Files and row
groups whose statistics exclude the batch's keys are not read. Nulls are equal here, so two rows
without a key repeat each other. Does not know dead letters. Invariant: of the rows with the same
key, the row with the lowest (offset, partition) is kept, unless the table already has the key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from orchestration.lake.quoting import quoted_name
from orchestration.lake.tables import PROVENANCE, TableSnapshot

ROW = "_row"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKeys:
    """The keys in a table.

    ``without`` is an SQL predicate for rows to ignore, because a replay replaces them.
    """

    snapshot: TableSnapshot
    without: str | None = None


def find_repetitions(
    batch: pa.Table, unique_by: Sequence[str], existing: TableKeys | None
) -> npt.NDArray[np.int64]:
    """Return the row numbers of ``batch`` that repeat a key, ascending.

    ``batch`` has the columns ``_topic_id``, ``_partition`` and ``_offset``.
    """
    if batch.num_rows == 0 or not unique_by:
        return np.empty(0, np.int64)
    rows = batch.select([*unique_by, "_partition", "_offset"]).append_column(
        ROW, pa.array(np.arange(batch.num_rows))
    )
    keys = ", ".join(quoted_name(column) for column in unique_by)
    repeated = f"""
        SELECT {ROW} FROM (
            SELECT {ROW}, row_number() OVER (PARTITION BY {keys} ORDER BY _offset, _partition, {ROW}) AS place FROM batch
        ) WHERE place > 1"""  # noqa: S608 - names are quoted
    with duckdb.connect() as connection:
        connection.register("batch", rows)
        if existing is not None:
            connection.register(
                "existing", relevant_to(existing.snapshot.dataset(), batch, unique_by)
            )
            matching = " AND ".join(
                f"batch.{quoted_name(column)} IS NOT DISTINCT FROM held.{quoted_name(column)}"
                for column in unique_by
            )
            held = f"SELECT {keys} FROM existing WHERE NOT ({existing.without or 'FALSE'})"  # noqa: S608 - written by us
            repeated += f" UNION SELECT {ROW} FROM batch SEMI JOIN ({held}) AS held ON {matching}"  # noqa: S608 - names are quoted
        found = connection.sql(f"SELECT {ROW} FROM ({repeated}) ORDER BY {ROW}").fetchnumpy()  # noqa: S608 - names are quoted
    return np.asarray(found[ROW], np.int64)


def find_originals(
    batch: pa.Table,
    repeated: npt.NDArray[np.int64],
    unique_by: Sequence[str],
    existing: TableKeys | None,
) -> list[tuple[str, int, int]]:
    """Return for each ``repeated`` row the topic id, partition and offset of the kept row.

    The kept row has the same key. It is in the table, or in ``batch`` if the table does not have
    the key.
    """
    if not len(repeated):
        return []
    keys = ", ".join(quoted_name(column) for column in unique_by)
    rows = batch.select([*unique_by, *PROVENANCE]).append_column(
        ROW, pa.array(np.arange(batch.num_rows))
    )
    asked = rows.take(pa.array(repeated))
    place = "min((_offset, _partition, _topic_id)) AS place"
    first = f"SELECT {keys}, {place}, 1 AS rank FROM batch GROUP BY {keys}"  # noqa: S608 - names are quoted
    with duckdb.connect() as connection:
        connection.register("batch", rows)
        connection.register("asked", asked)
        if existing is not None:
            connection.register(
                "existing", relevant_to(existing.snapshot.dataset(), asked, unique_by)
            )
            held = f"SELECT {keys}, {place}, 0 AS rank FROM existing WHERE NOT ({existing.without or 'FALSE'})"  # noqa: S608
            first += f" UNION ALL {held} GROUP BY {keys}"
        matching = " AND ".join(
            f"asked.{quoted_name(column)} IS NOT DISTINCT FROM known.{quoted_name(column)}"
            for column in unique_by
        )
        best = "arg_min(known.place, known.rank)"
        columns = f"{best}[3], {best}[2], {best}[1]"
        found = connection.sql(
            f"SELECT {columns} FROM asked JOIN ({first}) AS known ON {matching} GROUP BY asked.{ROW} ORDER BY asked.{ROW}"  # noqa: S608
        ).fetchall()
    return [(topic_id, int(partition), int(offset)) for topic_id, partition, offset in found]


def relevant_to(dataset: pads.Dataset, batch: pa.Table, unique_by: Sequence[str]) -> pads.Dataset:
    """Filter a dataset to the rows between the batch's smallest and largest keys.

    A key column with nulls, or of a type without an order, filters nothing.
    """
    chosen: Any = None
    for column in unique_by:
        if batch[column].null_count or not _is_ordered(batch[column].type):
            continue
        bounds = pc.min_max(batch[column])
        inside = (pads.field(column) >= bounds["min"]) & (pads.field(column) <= bounds["max"])
        chosen = inside if chosen is None else chosen & inside
    return dataset if chosen is None else dataset.filter(chosen)


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_date(kind)
    )
