"""Decides the changes of a batch to a table that keeps the newest row of each key.

DuckDB decides over Arrow, from the keys of the batch, of the table, and of remembered deletions. A
later offset of a partition is newer. Between partitions the later timestamp is newer, then the
higher partition. A record's timestamp counts as at least that of the earlier records of its key and
partition, so the result does not depend on how the log was cut into batches. A record of a
recreated topic is newer than all records of the former topic. A deletion is remembered with topic
id, partition and offset, so that an older record that is read later or replayed does not bring the
row back. It is forgotten when the log start offset has passed it and all older records were read.
Does not use Spark and commits nothing. Invariant: a key of the table has either a row or a
remembered deletion, and it is the newest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from orchestration.lake.quoting import quoted_name
from orchestration.lake.tables import PROVENANCE, ranges_predicate
from orchestration.offsets.planning import ProgressError
from orchestration.offsets.ranges import OffsetRanges
from orchestration.rows.uniqueness import relevant_to

PLACE = (*PROVENANCE, "_timestamp")
"""The columns that order the records of a key."""
ROW = "_row"
MAX_NAMED = 3


class HasRows(Protocol):
    """A table with readable rows, in the lake or in a database."""

    def dataset(self) -> pads.Dataset:
        """Return the rows, with at least the key columns and the columns ``PLACE``.

        Rows of other keys than those of the batch may be missing.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTable:
    """The rows and the remembered deletions of a table.

    ``snapshot`` is None before the table exists. ``deletions`` have the key columns, and the
    columns ``PLACE`` of the deleting record.
    """

    snapshot: HasRows | None
    deletions: pa.Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The ranges whose rows a replay replaces.

    ``is_whole`` means that the ranges have, for each partition, all committed records that can be
    read without a gap up to the newest.
    """

    ranges: OffsetRanges
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of a table: rows to insert, keys of removed rows, and all deletions to remember.

    A row is removed because a new one replaces it, or because its key was deleted.
    """

    rows: pa.Table
    inserted: int
    updated: int
    replaced: pa.Table
    deletions: pa.Table
    is_deletion_new: bool

    @property
    def deleted(self) -> int:
        """Return the number of rows that are removed and not replaced."""
        return int(self.replaced.num_rows) - self.updated


def newest(
    rows: pa.Table,
    deletions: pa.Table,
    keys: Sequence[str],
    held: KeyedTable,
    topic_id: str,
    *,
    log_starts: Mapping[int, int],
    replaced: Replaced | None = None,
) -> Changes:
    """Return the changes that ``rows`` and ``deletions`` make to the table.

    ``deletions`` have the key columns, and the columns ``PLACE`` of the deleting record. All
    changes come from records of ``topic_id``, one change per key and record.

    :raises ProgressError: a replay removes a row, and the key's previous row is in neither the
        table nor the range.
    """
    places = [*keys, *PLACE]
    batch = pa.concat_tables([rows.select(places), _fitting(deletions, rows.select(places).schema)])
    batch = batch.append_column(ROW, pa.array(np.arange(batch.num_rows, dtype=np.int64)))
    remembered = _fitting(held.deletions, rows.select(places).schema)
    numbered = remembered.append_column(
        ROW, pa.array(np.arange(remembered.num_rows, dtype=np.int64))
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("batch", batch)
        connection.register("deletions", numbered)
        _collect_held(connection, keys, held, batch, replaced)
        _choose_newest(
            connection, keys, topic_id, is_whole=replaced is not None and replaced.is_whole
        )
        _validate_known(connection, keys, replaced)
        chosen = _fetched(
            connection, "SELECT _row, is_row, time FROM best WHERE is_newer ORDER BY _row"
        )
        gone = _fetched(connection, _sql_gone(keys))
        kept = _fetched(connection, _sql_kept(keys))
    is_deletion = pc.greater_equal(chosen[ROW], rows.num_rows)
    written, ended = chosen.filter(pc.invert(is_deletion)), chosen.filter(is_deletion)
    updated = pc.sum(pc.fill_null(written["is_row"], False)).as_py() or 0
    ending = _timed(batch.take(ended[ROW]), ended["time"]).select(places)
    replaced_rows = batch.take(chosen.filter(pc.fill_null(chosen["is_row"], False))[ROW]).select(
        [*keys]
    )
    old = remembered.take(kept[ROW])
    old = old.filter(_is_needed(old, topic_id, log_starts))
    return Changes(
        rows=_timed(rows.take(written[ROW]), written["time"]),
        inserted=written.num_rows - updated,
        updated=updated,
        replaced=pa.concat_tables([replaced_rows, gone.cast(replaced_rows.schema)]),
        deletions=pa.concat_tables([old, ending]),
        is_deletion_new=bool(ending.num_rows) or old.num_rows != remembered.num_rows,
    )


def _collect_held(
    connection: duckdb.DuckDBPyConnection,
    keys: Sequence[str],
    held: KeyedTable,
    batch: pa.Table,
    replaced: Replaced | None,
) -> None:
    """Create the SQL table ``held``: the table's rows and deletions of keys in batch or replay."""
    columns = f"{_list(keys)}, _topic_id, _partition, _offset, {_time('_timestamp')} AS time"
    voided = _voided(replaced)
    where = f"EXISTS (SELECT 1 FROM batch WHERE {_same(keys, 'batch', 'known')}) OR {voided}"  # noqa: S608 - names are quoted
    select = f"SELECT {columns}, TRUE AS is_row FROM existing AS known WHERE {where} UNION ALL "  # noqa: S608 - names are quoted
    if held.snapshot is None:
        select = ""
    else:
        dataset = held.snapshot.dataset()
        connection.register(
            "existing", dataset if replaced is not None else relevant_to(dataset, batch, keys)
        )
    connection.execute(
        f"CREATE TABLE held AS SELECT *, ({voided}) AS is_voided FROM ("  # noqa: S608 - names are quoted
        f"{select}SELECT {columns}, FALSE AS is_row FROM deletions AS known WHERE {where})"
    )


def _choose_newest(
    connection: duckdb.DuckDBPyConnection, keys: Sequence[str], topic_id: str, *, is_whole: bool
) -> None:
    """Create the SQL table ``best`` with the newest change of each key of the batch.

    It also tells whether the change is newer than the key's row or deletion in ``held``. Rows that
    a replay of the whole log replaces are ignored.
    """
    names = _list(keys, "batch")
    connection.execute(
        f"""
        CREATE TABLE best AS
        WITH timed AS (
            SELECT {names}, batch._partition, batch._offset, batch._row, held.is_row, held._topic_id AS held_topic, held.is_voided,
                held._partition AS held_partition, held._offset AS held_offset, held.time AS held_time,
                greatest(
                    max({_time("batch._timestamp")}) OVER (PARTITION BY {names}, batch._partition ORDER BY batch._offset),
                    CASE WHEN held._topic_id = $topic_id AND held._partition = batch._partition AND held._offset <= batch._offset
                        AND NOT (held.is_voided AND $is_whole) THEN held.time END
                ) AS time
            FROM batch LEFT JOIN held ON {_same(keys, "batch", "held")}
        ), compared AS (
            SELECT *, CASE
                WHEN held_topic IS NULL OR held_topic <> $topic_id OR (is_voided AND $is_whole) THEN TRUE
                WHEN held_partition = _partition THEN _offset >= held_offset
                ELSE (time, _partition) > (held_time, held_partition)
            END AS is_newer FROM timed
        )
        SELECT * FROM compared
        QUALIFY row_number() OVER (PARTITION BY {_list(keys)} ORDER BY is_newer DESC, time DESC, _partition DESC, _offset DESC) = 1
        """,  # noqa: S608 - names are quoted
        {"topic_id": topic_id, "is_whole": is_whole},
    )


def _validate_known(
    connection: duckdb.DuckDBPyConnection, keys: Sequence[str], replaced: Replaced | None
) -> None:
    """Refuse a replay of a part of the log that would remove a row without a known previous row."""
    if replaced is None or replaced.is_whole:
        return
    left = f"""
        SELECT {_list(keys, "held")}, held._partition, held._offset FROM held LEFT JOIN best ON {_same(keys, "held", "best")}
        WHERE held.is_voided AND coalesce(NOT best.is_newer, TRUE) ORDER BY held._partition, held._offset
        """  # noqa: S608 - names are quoted
    found = connection.execute(left).fetchall()
    if not found:
        return
    places = ", ".join(
        f"{row[-2]}:{row[-1]} ({', '.join(map(str, row[:-2]))})" for row in found[:MAX_NAMED]
    )
    raise ProgressError(
        f"{len(found)} keys of topic {replaced.ranges.topic} would lose what the range gave them,"
        " and the table does not know what they had before: partition:offset (key)"
        f" {places}{' ...' if len(found) > MAX_NAMED else ''}. Nothing was committed. Replay"
        " everything instead"
    )


def _sql_gone(keys: Sequence[str]) -> str:
    """Return the SQL query of the keys whose rows a replay removes without a replacement.

    ``_validate_known`` has checked that this is allowed.
    """
    return f"SELECT {_list(keys)} FROM held ANTI JOIN best ON {_same(keys, 'held', 'best')} WHERE is_row AND is_voided"  # noqa: S608


def _sql_kept(keys: Sequence[str]) -> str:
    """Return the SQL query of the row numbers of remembered deletions that are still valid."""
    ended = f"EXISTS (SELECT 1 FROM best WHERE is_newer AND {_same(keys, 'best', 'known')})"  # noqa: S608
    voided = f"EXISTS (SELECT 1 FROM held WHERE is_voided AND NOT is_row AND {_same(keys, 'held', 'known')})"  # noqa: S608
    return f"SELECT _row FROM deletions AS known WHERE NOT {ended} AND NOT {voided} ORDER BY _row"  # noqa: S608


def _voided(replaced: Replaced | None) -> str:
    return "FALSE" if replaced is None else f"({ranges_predicate(replaced.ranges)})"


def _is_needed(deletions: pa.Table, topic_id: str, log_starts: Mapping[int, int]) -> pa.Array:
    """Return for each deletion whether it must still be remembered.

    Records that are older than the deletion may be read while its topic and its record exist.
    """
    partitions, offsets = deletions["_partition"].to_numpy(), deletions["_offset"].to_numpy()
    is_gone = np.zeros(deletions.num_rows, np.bool_)
    for partition, start in log_starts.items():
        is_gone |= (partitions == partition) & (offsets < start)
    return pc.and_(pc.equal(deletions["_topic_id"], topic_id), pa.array(~is_gone))


def _timed(rows: pa.Table, times: pa.ChunkedArray) -> pa.Table:
    """Return ``rows`` with ``times``, in microseconds since 1970, in the column ``_timestamp``.

    A negative time becomes null. The caller has chosen as each time the greatest timestamp of the
    record and the earlier records of its key and partition.
    """
    field = rows.schema.field("_timestamp")
    known = times.cast(pa.timestamp("us", tz="UTC")).cast(field.type)
    later = pc.if_else(pc.less(times, 0), pa.scalar(None, field.type), known)
    return rows.set_column(rows.schema.get_field_index("_timestamp"), field, later)


def _fitting(deletions: pa.Table | None, schema: pa.Schema) -> pa.Table:
    return (
        schema.empty_table() if deletions is None else deletions.select(schema.names).cast(schema)
    )


def _fetched(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    return connection.sql(query).to_arrow_table()


def _time(column: str) -> str:
    """Return the SQL expression for a timestamp column as microseconds since 1970.

    A record without a timestamp is older than all others.
    """
    return f"coalesce(epoch_us({column}), -1)"


def _list(keys: Sequence[str], relation: str | None = None) -> str:
    prefix = "" if relation is None else f"{relation}."
    return ", ".join(f"{prefix}{quoted_name(key)}" for key in keys)


def _same(keys: Sequence[str], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{quoted_name(key)} = {other}.{quoted_name(key)}" for key in keys)
