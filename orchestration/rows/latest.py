"""Decides the changes of a batch to a table that keeps the newest row of each key.

DuckDB decides over Arrow, from the keys of the batch, of the table, and of remembered deletions. A
later offset of a partition is newer. Between partitions the later timestamp is newer, then the
higher partition. A record counts as at least as late as the earlier records of its key and
partition, so the result does not depend on how the log was cut into batches. A record of a
recreated topic is newer than all records of the former topic. A deletion is remembered with its
place, so an older record that comes late or is replayed does not bring the row back. It is
forgotten below ``log_starts``, because then the deleting record is gone, and all older records were
read. Knows no Spark and commits nothing. Invariant: a key of the table has a row or a remembered
deletion, never both, and it is the newest.
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
        """Return the rows, with key columns and place. The rows of the batch's keys are enough."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The rows and the remembered deletions of a table.

    ``snapshot`` is None before the table exists. ``deletions`` have keys and place.
    """

    snapshot: HasRows | None
    deletions: pa.Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The ranges whose rows a replay replaces.

    ``is_whole``: they are all records that were committed and are still in the log.
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
        """How many rows go for good."""
        return int(self.replaced.num_rows) - self.updated


def newest(
    rows: pa.Table,
    deletions: pa.Table,
    keys: Sequence[str],
    held: Held,
    topic_id: str,
    *,
    log_starts: Mapping[int, int],
    replaced: Replaced | None = None,
) -> Changes:
    """Return the changes that ``rows`` and ``deletions`` (keys and place) make to the table.

    All of them come from records of ``topic_id``, one change per key and record.

    :raises ProgressError: a replay takes a row away, and the key's row before it is not known from
        the table and the range.
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
    held: Held,
    batch: pa.Table,
    replaced: Replaced | None,
) -> None:
    """Create the table ``held`` with the rows and deletions of the keys in the batch or the
    replay.
    """
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
    """Create the table ``best`` with the newest change of each key of the batch.

    It also tells whether the change is newer than the held one. Rows that a replay of everything
    replaces do not count.
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
    """Refuse a replay of a part that would remove a row whose predecessor is not known."""
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
    """Select the keys whose rows a replay removes without another change.

    ``_validate_known`` has allowed it.
    """
    return f"SELECT {_list(keys)} FROM held ANTI JOIN best ON {_same(keys, 'held', 'best')} WHERE is_row AND is_voided"  # noqa: S608


def _sql_kept(keys: Sequence[str]) -> str:
    """Numbers of the remembered deletions that stay."""
    ended = f"EXISTS (SELECT 1 FROM best WHERE is_newer AND {_same(keys, 'best', 'known')})"  # noqa: S608
    voided = f"EXISTS (SELECT 1 FROM held WHERE is_voided AND NOT is_row AND {_same(keys, 'held', 'known')})"  # noqa: S608
    return f"SELECT _row FROM deletions AS known WHERE NOT {ended} AND NOT {voided} ORDER BY _row"  # noqa: S608


def _voided(replaced: Replaced | None) -> str:
    return "FALSE" if replaced is None else f"({ranges_predicate(replaced.ranges)})"


def _is_needed(deletions: pa.Table, topic_id: str, log_starts: Mapping[int, int]) -> pa.Array:
    """Return whether records that a deletion outdates may still come.

    They may while the deletion's topic and the deleting record exist.
    """
    partitions, offsets = deletions["_partition"].to_numpy(), deletions["_offset"].to_numpy()
    is_gone = np.zeros(deletions.num_rows, np.bool_)
    for partition, start in log_starts.items():
        is_gone |= (partitions == partition) & (offsets < start)
    return pc.and_(pc.equal(deletions["_topic_id"], topic_id), pa.array(~is_gone))


def _timed(rows: pa.Table, times: pa.ChunkedArray) -> pa.Table:
    """Return ``rows`` with a later ``_timestamp`` if an earlier record of its key has one.

    Only records of the same partition count.
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
    """Return SQL for microseconds since 1970.

    A record without timestamp is older than all others.
    """
    return f"coalesce(epoch_us({column}), -1)"


def _list(keys: Sequence[str], relation: str | None = None) -> str:
    prefix = "" if relation is None else f"{relation}."
    return ", ".join(f"{prefix}{quoted_name(key)}" for key in keys)


def _same(keys: Sequence[str], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{quoted_name(key)} = {other}.{quoted_name(key)}" for key in keys)
