"""Changes of a table that keeps the newest row of each key: deletions, and rejections.

A record without value (a tombstone) deletes the key of the record, as ``formats.keys`` reads it. A
row that meets the table's ``deleted_when`` deletes its key. Three things are rejected: rows without
a key, several rows of one record with the same key, and tombstones that name no key. Knows no table
and writes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sql

from orchestration.dead_letters.table import Rejection
from orchestration.formats.columns import ROW_DELETED
from orchestration.formats.keys import KeySchema, read_keys
from orchestration.rows.latest import PLACE
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import TransformError
from orchestration.values.strict_json import NULL_VALUE

DELETED_COLUMN = "_is_deletion"
LATEST_RULE = "latest_by"
A_DELETE = "the change is a DELETE"


def flag_deleted(frame: Any, table: TopicTable) -> Any:
    """Return ``frame`` with a column that tells which rows delete their key.

    Without ``deleted_when`` the frame is returned unchanged.
    """
    return (
        frame.withColumn(DELETED_COLUMN, sql.expr(f"coalesce({table.deleted_when}, FALSE)"))
        if table.deleted_when
        else frame
    )


def is_tombstone(one: Rejection) -> bool:
    """Return whether a record was refused only because its value is null or a delete event."""
    return one.reason in {NULL_VALUE, ROW_DELETED}


def split_deleted(rows: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """Return the rows that stay, and the keys and places of those that delete their key."""
    places = [*keys, *PLACE]
    if DELETED_COLUMN not in rows.column_names:
        return rows, rows.select(places).slice(0, 0)
    flags = rows[DELETED_COLUMN]
    rows = rows.drop_columns([DELETED_COLUMN])
    return rows.filter(pc.invert(flags)), rows.filter(flags).select(places)


def validate_result(table: TopicTable, result: pa.Table) -> None:
    """Refuse a result whose rows have no key columns or no time.

    :raises TransformError: names the missing columns.
    """
    missing = [
        column
        for column in dict.fromkeys((*table.latest_by, "_timestamp"))
        if column not in result.column_names
    ]
    if missing:
        raise TransformError(
            f"the result of table {table.name} lacks {', '.join(missing)}: a table with latest_by"
            " needs its key columns, and _timestamp, which says what is newer where records of a"
            " key lie in several partitions. Keep these columns in every select"
        )
    if not pa.types.is_timestamp(result.schema.field("_timestamp").type):
        raise TransformError(
            f"_timestamp of the result of table {table.name} is not a timestamp: pass the column"
            " through unchanged"
        )


def key_rejections(rows: pa.Table, keys: Sequence[str]) -> tuple[Rejection, ...]:
    """Return the rejections of records whose rows have no key, or the same key twice.

    ``rows`` are ordered by partition and offset.
    """
    found: dict[tuple[int, int], Rejection] = {}
    for key in keys:
        if rows[key].null_count:
            for place in _places(rows.filter(rows[key].is_null())):
                found.setdefault(place, _rejection(place, f"the key column {key} is null"))
    counted = (
        rows.select([*keys, "_partition", "_offset"])
        .group_by([*keys, "_partition", "_offset"])
        .aggregate([([], "count_all")])
    )
    for place in _places(counted.filter(pc.greater(counted["count_all"], 1))):
        found.setdefault(
            place,
            _rejection(place, f"the record makes several rows with the same {', '.join(keys)}"),
        )
    return tuple(found.values())


def tombstone_deletions(
    records: pa.Table,
    keys: Sequence[str],
    schema: pa.Schema,
    topic_id: str,
    key_schema: KeySchema | None,
) -> tuple[pa.Table, tuple[Rejection, ...]]:
    """Return the keys that tombstones delete, and the rejections of those that name no key.

    ``records`` (of ``SOURCE_SCHEMA``) have no value, or a value that means a deletion. ``schema``
    holds the result's types of ``keys`` and place.
    """
    columns = pa.schema([schema.field(key) for key in keys])
    keyless = records.filter(records["key"].is_null())
    rejections = [
        _rejection(place, f"{what}, and the key is null: nothing says what to delete")
        for place, what in zip(_places(keyless), _kinds(keyless), strict=True)
    ]
    keyed = records.filter(records["key"].is_valid())
    headers = keyed["headers"].combine_chunks()
    named = read_keys(keyed["key"].combine_chunks(), columns, key_schema, headers)
    rejections += [
        _rejection(place, f"{what}, and {reason}: nothing says what to delete")
        for place, what, (_, reason) in zip(_places(keyed), _kinds(keyed), named, strict=True)
        if reason is not None
    ]
    values = [found for found, _ in named if found is not None]
    kept = keyed.filter(pa.array([found is not None for found, _ in named], pa.bool_()))
    made: Mapping[str, Any] = {
        **{
            column.name: pa.array([one[at] for one in values], column.type)
            for at, column in enumerate(columns)
        },
        "_topic_id": pa.repeat(pa.scalar(topic_id), kept.num_rows),
        "_partition": kept["_partition"],
        "_offset": kept["_offset"],
        "_timestamp": kept["_timestamp"],
    }
    return pa.table(made).select(schema.names).cast(schema), tuple(rejections)


def without_value(given: Any) -> Any:
    """Return partition and offset of the records without value, for a topic without schema."""
    return given.where("_value IS NULL").select("_partition", "_offset")


def _kinds(records: pa.Table) -> list[str]:
    """Return, for each record, a text on the way in which it deletes: null or a delete event."""
    return [A_DELETE if one else NULL_VALUE for one in records["value"].is_valid().to_pylist()]


def _places(rows: pa.Table) -> Iterator[tuple[int, int]]:
    return zip(rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True)


def _rejection(place: tuple[int, int], reason: str) -> Rejection:
    return Rejection(partition=place[0], offset=place[1], reason=reason, rule=LATEST_RULE)
