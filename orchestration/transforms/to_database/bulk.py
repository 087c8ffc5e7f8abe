"""Writes and reads many rows at once in a SQL database, by COPY and temporary tables.

A statement for each row, or one that names some hundred keys, makes the database parse and plan
again and again. From ``STAGED_FROM`` rows on, they first go into a temporary table of the
transaction. Its columns have the types of the target table. Then one statement applies them.
PostgreSQL's COPY loads rows if the driver supports it. Decides whether a temporary table is used.
Without one the caller's own statements have the same effect, in every database that SQLAlchemy
supports.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from orchestration.databases.types import chunks, json_text, sql_column

STAGED_FROM = 1_000
"""Fewer rows are faster without a temporary table."""
STAGING_DIALECTS = frozenset({"postgresql", "sqlite"})
"""Databases whose temporary tables and UPDATE ... FROM are tested."""
MAY_STAGE = "SELECT has_database_privilege(current_database(), 'TEMPORARY')"
STAGED_NAME = "tidelog_staged_"
Columns = Sequence[str]
_numbers = count()


def is_staged(connection: sa.Connection, rows: pa.Table) -> bool:
    """Return whether to put ``rows`` into a temporary table.

    There have to be at least ``STAGED_FROM`` rows. The database has to be one of
    ``STAGING_DIALECTS``, and its user must be allowed to create such a table.
    """
    if connection.dialect.name not in STAGING_DIALECTS or rows.num_rows < STAGED_FROM:
        return False
    return connection.dialect.name == "sqlite" or bool(
        connection.execute(sa.text(MAY_STAGE)).scalar()
    )


def table_of(name: str, schema: pa.Schema, keys: Columns) -> sa.Table:
    """Return a SQLAlchemy table with the columns of ``schema``. Key columns are its primary key."""
    return sa.Table(
        name, sa.MetaData(), *(sql_column(field, is_key=field.name in keys) for field in schema)
    )


@contextmanager
def staged(connection: sa.Connection, rows: pa.Table, like: sa.Table) -> Iterator[sa.Table]:
    """Yield a temporary table that holds ``rows``, with the column types of the table ``like``."""
    name = f"{STAGED_NAME}{next(_numbers)}"
    table = table_of(name, rows.schema, ())
    quote = connection.dialect.identifier_preparer.quote
    columns = ", ".join(quote(column) for column in rows.column_names)
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE {quote(name)} AS SELECT {columns} FROM {quote(like.name)} WHERE"  # noqa: S608 - quoted
        " 1 = 0"
    )
    load(connection, table, rows)
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"ANALYZE {quote(name)}")
    yield table
    connection.exec_driver_sql(f"DROP TABLE {quote(name)}")


def load(connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
    """Insert ``rows`` into the table."""
    if connection.dialect.driver == "psycopg" and rows.num_rows >= STAGED_FROM:
        _copy(connection, table, rows)
        return
    for chunk in chunks(rows, connection.dialect.name):
        connection.execute(table.insert(), chunk)


def fetch(connection: sa.Connection, table: sa.Table, keys: pa.Table, names: Columns) -> list[Any]:
    """Return the columns ``names`` of the rows with one of ``keys``."""
    with staged(connection, keys, table) as wanted:
        question = sa.select(*(table.c[name] for name in names)).join(
            wanted, _same(table, wanted, keys.column_names)
        )
        return list(connection.execute(question).all())


def update(connection: sa.Connection, table: sa.Table, rows: pa.Table, keys: Columns) -> None:
    """Update rows of the table to the values of ``rows`` with the same ``keys``."""
    with staged(connection, rows, table) as new:
        values = {name: new.c[name] for name in rows.column_names if name not in keys}
        connection.execute(table.update().where(_same(table, new, keys)).values(values))


def delete(connection: sa.Connection, table: sa.Table, keys: pa.Table) -> None:
    """Delete the rows with one of ``keys``."""
    with staged(connection, keys, table) as gone:
        connection.execute(
            table.delete().where(sa.exists().where(_same(table, gone, keys.column_names)))
        )


def _same(table: sa.Table, other: sa.Table, keys: Columns) -> "sa.ColumnElement[bool]":
    return sa.and_(*(table.c[key] == other.c[key] for key in keys))


def _copy(connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
    """Load rows by COPY, through the driver's own connection, which is in the same transaction."""
    quote = connection.dialect.identifier_preparer.quote
    columns = ", ".join(quote(name) for name in rows.column_names)
    statement = f"COPY {quote(table.name)} ({columns}) FROM STDIN"
    driver = connection.dialect.loaded_dbapi
    own: Any = connection.connection.driver_connection
    try:
        with own.cursor() as cursor, cursor.copy(statement) as copy:
            for row in _values(table, rows):
                copy.write_row(row)
    except driver.Error as error:
        raise sa.exc.DBAPIError.instance(
            statement, None, error, driver.Error, dialect=connection.dialect
        ) from error


def _values(table: sa.Table, rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows for COPY. JSON is text, other values stay as they are."""
    for batch in rows.to_batches(max_chunksize=10_000):
        columns = [
            (
                [json_text(value) for value in column.to_pylist()]
                if isinstance(table.c[name].type, sa.JSON)
                else column.to_pylist()
            )
            for name, column in zip(rows.column_names, batch.columns, strict=True)
        ]
        yield from zip(*columns, strict=True)
