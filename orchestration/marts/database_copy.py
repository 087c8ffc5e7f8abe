"""Keeps reference tables in a SQL database equal to lake tables, for services that need them there.

One transaction replaces all rows, so readers see the old rows or the new ones. Decides when a
replacement is needed, and when the SQL table has to be made anew for it. For this the database
notes the version of the lake table, and the types and the key of the columns. The SQL table has one
owner, and rows of another owner are never replaced. Meant for tables that fit into memory. Uses
only SQLAlchemy, so that every database that it supports will do.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pyarrow as pa
import sqlalchemy as sa

from log_service.common.counts import counted
from orchestration.databases import owners
from orchestration.databases.owners import OWNERS, NotOwnerError, Owner, owner_of
from orchestration.databases.types import KEY_LENGTH, chunks, sql_column
from orchestration.databases.urls import shown_url
from orchestration.lake.tables import TABLE_NAME, TableSnapshot
from orchestration.project.names import names_of
from orchestration.resources.database import DatabaseResource
from orchestration.resources.lake import LakeResource
from orchestration.topics.inputs import input_name
from orchestration.transforms import on_fresh_inputs, table_key
from orchestration.transforms.dagster_views.address import table_address
from orchestration.values.times import rows_beyond_years

SQL_PREFIX = "sql"
VERSIONS_TABLE, SHAPES_TABLE = "tidelog_versions", "tidelog_shapes"
MAX_ROWS = 5_000_000
MAX_LEFT_OUT = 1_000
"""Most rows that are left out because of values that a database refuses.

If there are more, the cause is not single bad rows, and the table stays unchanged.
"""
MAX_REASONS = 5


class SqlError(RuntimeError):
    """A table cannot be put into the database. The text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlCopy:
    """The result of a replacement.

    With ``is_unchanged`` the database held that version already. ``left_out`` counts rows that the
    database refused, and ``reasons`` are texts on them.
    """

    rows: int
    version: int
    is_unchanged: bool
    left_out: int = 0
    reasons: tuple[str, ...] = ()


def sql_table(
    name: str,
    *,
    table: str | dg.AssetsDefinition,
    columns: str | Sequence[str] | None = None,
    primary_key: str | Sequence[str] = (),
    description: str = "",
    is_automated: bool = True,
    group_name: str = "sql",
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> dg.AssetsDefinition:
    """Return the asset that keeps the SQL table ``name`` equal to a lake table.

    ``columns`` are the copied columns of the lake table, all by default. ``primary_key`` are the
    columns among them that become the SQL table's primary key, none by default.

    :raises ValueError: the name cannot be a table's, ``table`` is not a table of the lake, or the
        key is not among the columns.
    """
    key = names_of(primary_key)
    copied = None if columns is None else names_of(columns)
    _validate_names(name, copied, key)
    source = input_name(f"the SQL table {name}", table)

    @dg.asset(
        key=dg.AssetKey([SQL_PREFIX, name]),
        deps=[table_key(source)],
        description=description or f"The lake table {source} in the SQL database",
        kinds={"sql"},
        metadata=table_address(name),
        pool=f"sql_{name}",
        output_required=False,
        automation_condition=on_fresh_inputs() if is_automated else None,
        retry_policy=dg.RetryPolicy(max_retries=2, delay=3),
        group_name=group_name,
        tags=tags,
        owners=owners,
        freshness_policy=freshness_policy,
    )
    def copy_to_database(
        context: dg.AssetExecutionContext, lake: LakeResource, database: DatabaseResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        opened = lake.open()
        owner = owner_of(opened.root, f"{SQL_PREFIX}/{name}")
        snapshot = opened.snapshot(source)
        if snapshot is None:
            text = "%s: waiting for the lake table %s, which does not exist yet"
            context.log.info(text, name, source)
            return
        try:
            with database.open() as engine:
                copy = replace_table(engine, name, snapshot, copied, key, owner=owner)
        except (SqlError, NotOwnerError, sa.exc.SQLAlchemyError) as error:
            is_passing = isinstance(error, sa.exc.OperationalError)
            raise dg.Failure(
                description=f"the SQL table {name} stays as it was: {error}",
                allow_retries=is_passing,
            ) from error
        if copy.left_out:
            context.log.warning(
                "%s: the database refuses values of %s, left out: %s",
                name,
                counted(copy.left_out, "row"),
                "; ".join(copy.reasons),
            )
        yield dg.MaterializeResult(metadata=_metadata_of(copy))

    return copy_to_database


def _validate_names(name: str, columns: Sequence[str] | None, key: Sequence[str]) -> None:
    """Validate the name of an SQL table, and that its key is among its columns."""
    astray = [] if columns is None else sorted(set(key) - set(columns))
    if astray:
        raise ValueError(
            f"the primary key of the SQL table {name} has {', '.join(astray)}, which is not among"
            " its columns"
        )
    if not TABLE_NAME.fullmatch(name) or name in {VERSIONS_TABLE, SHAPES_TABLE, OWNERS}:
        raise ValueError(
            f"{name!r} cannot be a table's name: letters, digits and underscores, not starting with"
            f" a digit, and none of {VERSIONS_TABLE}, {SHAPES_TABLE} and {OWNERS}, which hold notes"
        )


def _metadata_of(copy: SqlCopy) -> dict[str, int | bool | str]:
    """Return the metadata of a materialization."""
    metadata: dict[str, int | bool | str] = {
        "rows": copy.rows,
        "table_version": copy.version,
        "unchanged": copy.is_unchanged,
    }
    if copy.left_out:
        reasons = "; ".join(copy.reasons)
        metadata |= {"rows_left_out": copy.left_out, "why_left_out": reasons}
    return metadata


def replace_table(
    engine: sa.Engine,
    name: str,
    snapshot: TableSnapshot,
    columns: Sequence[str] | None,
    primary_key: Sequence[str],
    *,
    owner: Owner,
) -> SqlCopy:
    """Make the SQL table ``name`` hold the rows of ``snapshot``, in one transaction.

    If the table holds them already, no row is written. A table without owner belongs to ``owner``
    from then on, if it was made of the same lake table or does not exist yet. A table whose
    columns, types or primary key differ from before is dropped and created again. A row with a
    value that the database cannot hold is left out and reported, because otherwise one text would
    stop the table for good.

    :raises SqlError: a column, also of the key, does not exist, the table is too large for a
        reference table, or too many rows cannot be held.
    :raises NotOwnerError: the table belongs to another owner.
    """
    rows = _rows(snapshot, columns)
    _validate_key(primary_key, rows)
    metadata = sa.MetaData()
    declared = sa.Table(
        name,
        metadata,
        *(sql_column(field, is_key=field.name in primary_key) for field in rows.schema),
    )
    versions, shapes = _versions(metadata), _shapes(metadata)
    with engine.begin() as connection:
        for notes in (versions, shapes):
            notes.create(connection, checkfirst=True)
        owners.create_owners(connection)
        is_present = sa.inspect(connection).has_table(name)
        owners.hold(
            connection,
            shown_url(engine.url),
            name,
            owner,
            lambda: _another(connection, versions, name, snapshot.table_id),
        )
        is_same_shape = is_present and _is_shaped(connection, declared, shapes)
        held = connection.execute(
            sa.select(versions.c.lake_table_id, versions.c.version).where(versions.c.name == name)
        ).first()
        if (
            is_same_shape
            and held is not None
            and tuple(held) == (snapshot.table_id, snapshot.version)
        ):
            return SqlCopy(rows=rows.num_rows, version=snapshot.version, is_unchanged=True)
        if is_present and not is_same_shape:
            connection.execute(sa.schema.DropTable(declared))
        declared.create(connection, checkfirst=True)
        connection.execute(declared.delete())
        refused = _insert_all(connection, declared, rows)
        _note(
            connection,
            versions,
            {"name": name, "lake_table_id": snapshot.table_id, "version": snapshot.version},
        )
        _note(connection, shapes, {"name": name, "shape": _shape(declared)})
    return SqlCopy(
        rows=rows.num_rows - len(refused),
        version=snapshot.version,
        is_unchanged=False,
        left_out=len(refused),
        reasons=_distinct(refused),
    )


def _validate_key(primary_key: Sequence[str], rows: pa.Table) -> None:
    """Raise SqlError if the primary key has columns that are not copied."""
    astray = [column for column in primary_key if column not in rows.column_names]
    if astray:
        raise SqlError(
            f"the primary key has no columns {', '.join(astray)} among those that are copied:"
            f" {', '.join(rows.column_names)}"
        )


def _insert_all(connection: sa.Connection, declared: sa.Table, rows: pa.Table) -> list[str]:
    """Insert rows, and return the reason for each row that the database cannot hold.

    :raises SqlError: too many rows cannot be held.
    """
    unheld = rows_beyond_years(rows)
    refused = [
        f"the column {column} has a time beyond the years 1 to 9999" for column in unheld.values()
    ]
    if unheld:
        is_held = [number not in unheld for number in range(rows.num_rows)]
        rows = rows.filter(pa.array(is_held, pa.bool_()))
    for chunk in chunks(rows, connection.dialect.name):
        refused += _insert(connection, declared, chunk)
        if len(refused) > MAX_LEFT_OUT:
            raise SqlError(
                f"the database refuses values of {len(refused)} rows, more than {MAX_LEFT_OUT}:"
                f" {_distinct(refused)[0]}"
            )
    return refused


def holder(engine: sa.Engine, name: str, table_id: str | None, owner: Owner) -> str | None:
    """Return the other owner of the SQL table ``name``, or None if it is free or ``owner`` has it.

    ``table_id`` is the id of the lake table, None if that table does not exist. Creates the tables
    of versions and owners if need be.
    """
    metadata = sa.MetaData()
    versions = _versions(metadata)
    with engine.begin() as connection:
        versions.create(connection, checkfirst=True)
        owners.create_owners(connection)
        found = owners.sql_owner(connection, name)
        if found is None:
            return _another(connection, versions, name, table_id)
        return None if found[0].is_same(owner) else owners.owner_text(*found)


def take_over(engine: sa.Engine, name: str, owner: Owner) -> None:
    """Make ``owner`` the owner of the SQL table ``name``.

    The next run of ``owner`` replaces all rows. Runs of the former owner are refused.
    """
    with engine.begin() as connection:
        owners.create_owners(connection)
        owners.give(connection, name, owner)


def _another(
    connection: sa.Connection, versions: sa.Table, name: str, table_id: str | None
) -> str | None:
    """Return a text on the probable owner of a table for which no owner is stored.

    It is None if the table does not exist, or if its rows were made of the lake table ``table_id``.
    """
    if not sa.inspect(connection).has_table(name):
        return None
    noted = connection.execute(
        sa.select(versions.c.lake_table_id).where(versions.c.name == name)
    ).scalar()
    if noted is None:
        return "somebody else: no sql_table made it"
    return (
        None
        if noted == table_id
        else f"another sql_table: its rows are those of the lake table with the id {noted}"
    )


def _insert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> list[str]:
    """Insert ``rows`` and return the reasons why some were refused.

    Rows that fail together are tried in halves, down to single rows.
    """
    try:
        with connection.begin_nested():
            connection.execute(table.insert(), rows)
    except sa.exc.DataError as error:
        if len(rows) == 1:
            return [str(error.orig).partition("\n")[0]]
        half = len(rows) // 2
        return [*_insert(connection, table, rows[:half]), *_insert(connection, table, rows[half:])]
    return []


def _distinct(reasons: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reasons))[:MAX_REASONS]


def _rows(snapshot: TableSnapshot, columns: Sequence[str] | None) -> pa.Table:
    names = list(columns or snapshot.arrow_schema.names)
    unknown = [column for column in names if column not in snapshot.arrow_schema.names]
    if unknown:
        raise SqlError(
            f"the lake table {snapshot.name} has no columns {', '.join(unknown)}; it has"
            f" {', '.join(snapshot.arrow_schema.names)}"
        )
    if snapshot.row_count > MAX_ROWS:
        raise SqlError(
            f"the lake table {snapshot.name} has {counted(snapshot.row_count, 'row')}; a reference"
            f" table has at most {MAX_ROWS}"
        )
    return snapshot.dataset().to_table(columns=names)


def _versions(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        VERSIONS_TABLE,
        metadata,
        sa.Column("name", sa.String(KEY_LENGTH), primary_key=True),
        sa.Column("lake_table_id", sa.String(64), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )


def _shapes(metadata: sa.MetaData) -> sa.Table:
    """Return the SQL table that stores the columns, types and keys of the copied tables.

    It is separate, because ``tidelog_versions`` of an earlier release has no column for them.
    """
    return sa.Table(
        SHAPES_TABLE,
        metadata,
        sa.Column("name", sa.String(KEY_LENGTH), primary_key=True),
        sa.Column("shape", sa.Text, nullable=False),
    )


def _note(connection: sa.Connection, notes: sa.Table, row: Mapping[str, Any]) -> None:
    connection.execute(notes.delete().where(notes.c.name == row["name"]))
    connection.execute(notes.insert(), [row])


def _is_shaped(connection: sa.Connection, declared: sa.Table, shapes: sa.Table) -> bool:
    """Return whether the existing table has the declared columns, types and key.

    The stored note about the table decides, because databases report types under other names than
    they were given. A table without note was made by an earlier release, and then the database's
    own description is compared. A type that the database reports under another name costs one
    replacement, after which a note exists.
    """
    found = {
        column["name"]: column["type"]
        for column in sa.inspect(connection).get_columns(declared.name)
    }
    if found.keys() != {column.name for column in declared.columns}:
        return False
    noted = connection.execute(
        sa.select(shapes.c.shape).where(shapes.c.name == declared.name)
    ).scalar()
    if noted is not None:
        return bool(noted == _shape(declared))
    key = sa.inspect(connection).get_pk_constraint(declared.name)["constrained_columns"]
    is_same_key = set(key) == {column.name for column in declared.primary_key}
    return is_same_key and all(
        _type_name(found[column.name], connection) == _type_name(column.type, connection)
        for column in declared.columns
    )


def _shape(declared: sa.Table) -> str:
    """Return the types of columns, and which of them are the key, as JSON for the stored note."""
    return json.dumps(
        {column.name: [repr(column.type), column.primary_key] for column in declared.columns},
        sort_keys=True,
    )


def _type_name(kind: "sa.types.TypeEngine[Any]", connection: sa.Connection) -> str:
    """Return the database's name for a type, or its ``repr`` if SQLAlchemy has no name for it."""
    try:
        return kind.compile(connection.dialect)
    except sa.exc.CompileError:
        return repr(kind)
