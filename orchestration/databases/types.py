"""Converts Arrow rows for a SQL database: the type of each column, and the values in portions.

Uses SQLAlchemy's types. Of the differences between databases it knows only that SQLite stores no
time zones. Times in SQLite are UTC.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

ROWS_AT_ONCE = 5_000
KEY_LENGTH = 255
"""Most characters of a text in a key, because indexes of some databases refuse longer texts."""


def chunks(rows: pa.Table, dialect: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows as dictionaries by column, in lists of at most ``ROWS_AT_ONCE``."""
    moments = (
        [field.name for field in rows.schema if pa.types.is_timestamp(field.type) and field.type.tz]
        if dialect == "sqlite"
        else []
    )
    nested = [field.name for field in rows.schema if pa.types.is_nested(field.type)]
    for batch in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
        chunk = batch.to_pylist()
        for row in chunk:
            for name in moments:
                row[name] = _without_zone(row[name])
            for name in nested:
                row[name] = json.loads(json_text(row[name]))
        if chunk:
            yield chunk


def json_text(value: object) -> str:
    """Return a list or struct as JSON.

    Values inside it that JSON cannot express become texts. Bytes become base64, as Spark writes
    them to JSON and as a topic's schema reads them.
    """
    return json.dumps(value, default=_as_text)


def _as_text(value: object) -> str:
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _without_zone(moment: datetime | None) -> datetime | None:
    """Return a time in UTC without zone, because SQLite keeps no zones."""
    return moment.astimezone(UTC).replace(tzinfo=None) if moment else None


def sql_column(field: pa.Field, *, is_key: bool) -> "sa.Column[Any]":
    """Return the SQL column for an Arrow field. A key column is part of the primary key."""
    kind = (
        sa.String(KEY_LENGTH)
        if is_key and pa.types.is_string(field.type)
        else _sql_type(field.type)
    )
    return sa.Column(field.name, kind, primary_key=is_key, autoincrement=False)


def _sql_type(kind: pa.DataType) -> "sa.types.TypeEngine[Any]":
    if pa.types.is_decimal(kind):
        return sa.Numeric(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return sa.DateTime(timezone=kind.tz is not None)
    return next((make() for is_kind, make in _SQL_TYPES if is_kind(kind)), sa.JSON())


_SQL_TYPES: Sequence[
    tuple[Callable[[pa.DataType], bool], Callable[[], "sa.types.TypeEngine[Any]"]]
] = (
    (pa.types.is_boolean, sa.Boolean),
    (pa.types.is_int64, sa.BigInteger),
    (pa.types.is_integer, sa.Integer),
    (pa.types.is_floating, sa.Double),
    (pa.types.is_date, sa.Date),
    (pa.types.is_string, sa.Text),
    (pa.types.is_binary, sa.LargeBinary),
)
