"""A table of a SQL database that follows a topic: rows and offsets in one transaction.

It works in any database that SQLAlchemy supports. Two tables beside the user's hold the progress.
``tidelog_followers`` has a row per follower with its version, and ``tidelog_offsets`` a row per
topic id and partition. A writer takes the next version when it opens, and commits only while that
is still the newest. So a slow run, or one that was thought dead, commits nothing after a newer one.
Decides the statements, which are SQLAlchemy's own and the same for every database. Knows no broker
and no Spark.
Invariants: the first statement of a commit compares the version, and thereby locks out other
writers until the transaction ends. The table has one owner (``orchestration.databases.owners``),
which the commit compares, too. Rows, remembered deletions, offsets and the attempt number
of the dead letters move together.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from orchestration.databases import owners
from orchestration.databases.owners import OWNERS, Owner
from orchestration.databases.refusals import refusals_translated
from orchestration.databases.types import KEY_LENGTH, chunks
from orchestration.databases.urls import shown_url
from orchestration.lake.tables import CommitConflictError
from orchestration.offsets.planning import Checkpoint
from orchestration.offsets.ranges import OffsetRanges
from orchestration.transforms.to_database import bulk
from orchestration.transforms.to_database.stores import (
    DELETED_KEYS,
    Batch,
    KnownRows,
    TableProgress,
    validate_columns,
    validate_presence,
)

FOLLOWERS = "tidelog_followers"
OFFSETS = "tidelog_offsets"
KEYS_AT_ONCE = 200
"""Most keys, or ranges, in one statement, because databases bound its length."""
NEW = 0
"""The version before the first writer."""
_METADATA = sa.MetaData()
_followers = sa.Table(
    FOLLOWERS,
    _METADATA,
    sa.Column("follower", sa.String(KEY_LENGTH), primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("table_name", sa.String(KEY_LENGTH), nullable=False),
    sa.Column("topic", sa.String(KEY_LENGTH)),
    sa.Column("topic_id", sa.String(64)),
    sa.Column("letters", sa.BigInteger),
    sa.Column("run_id", sa.String(KEY_LENGTH)),
    sa.Column("committed_at", sa.DateTime(timezone=True)),
)
_offsets = sa.Table(
    OFFSETS,
    _METADATA,
    sa.Column("follower", sa.String(KEY_LENGTH), primary_key=True),
    sa.Column("topic_id", sa.String(64), primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("next_offset", sa.BigInteger, nullable=False),
    sa.Column("leader_epoch", sa.Integer),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStore:
    """The table ``table`` of the database of ``engine``, written by the follower ``follower``.

    ``keys`` are its key columns, if any.
    """

    engine: sa.Engine
    table: str
    follower: str
    owner: Owner
    keys: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Return the place of the table for people: the URL without the password, and the name."""
        return f"{shown_url(self.engine.url)}#{self.table}"

    @property
    def dialect(self) -> str:
        """Return the kind of the database."""
        return self.engine.dialect.name

    @contextmanager
    def writer(self) -> Iterator["SqlWriter"]:
        """Take the next version, and yield the writer that holds it.

        From then on no older writer commits.

        :raises NotOwnerError: the table belongs to another owner.
        """
        with refusals_translated(self.place):
            self._create_books()
            with self.engine.begin() as connection:
                found = connection.execute(
                    sa.select(_followers.c.version).where(_followers.c.follower == self.follower)
                ).scalar()
                version = NEW if found is None else int(found)
                if found is None:
                    with _taken_by_others(self):
                        connection.execute(
                            _followers.insert().values(
                                follower=self.follower, version=version, table_name=self.table
                            )
                        )
                self.take(connection, version)
                with _taken_by_others(self):
                    self.hold(connection)
        yield SqlWriter(store=self, version=version + 1)

    def take(self, connection: sa.Connection, version: int, **values: Any) -> None:
        """Raise this follower's version from ``version`` by one, and store ``values`` in its row.

        :raises CommitConflictError: another run raised it first.
        """
        own = (_followers.c.follower == self.follower) & (_followers.c.version == version)
        if (
            connection.execute(
                _followers.update().where(own).values(version=version + 1, **values)
            ).rowcount
            != 1
        ):
            raise CommitConflictError(f"another run writes the table {self.table} of {self.place}")

    def hold(self, connection: sa.Connection) -> None:
        """Lock the table's owner until the transaction ends.

        A table without owner gets this follower's asset as its owner.

        :raises NotOwnerError: the table belongs to another owner.
        """
        owners.hold(
            connection, self.place, self.table, self.owner, lambda: self.another(connection)
        )

    def another(self, connection: sa.Connection) -> str | None:
        """Return a text on another follower that has written a table without owner, or None."""
        found = self._followers_of_the_table(connection)
        is_there = sa.inspect(connection).has_table(self.table)
        if not found or not is_there or self.follower in found:
            return None
        return f"the follower {found[0]}, by {FOLLOWERS}"

    def holder(self) -> str | None:
        """Return a text on the table's owner, None if this asset or nothing owns the table."""
        with refusals_translated(self.place):
            self._create_books()
            with self.engine.begin() as connection:
                found = owners.sql_owner(connection, self.table)
                if found is None:
                    return self.another(connection)
                return None if found[0].is_same(self.owner) else owners.owner_text(*found)

    def take_over(self, *, is_of_this_lake: bool) -> None:
        """Become the table's owner, with the former owner's progress.

        From then on the former owner commits nothing. Attempts of dead letters are numbered within
        one lake. So the number is kept only if the former owner is of the same lake. If the former
        owner is not known, ``is_of_this_lake`` decides.
        """
        with refusals_translated(self.place):
            self._create_books()
            with self.engine.begin() as connection:
                former = self._former(connection)
                found = owners.sql_owner(connection, self.table)
                is_kept = (
                    is_of_this_lake if found is None else found[0].lake_id == self.owner.lake_id
                )
                columns = {} if is_kept else {"letters": None}
                if former is not None and former != self.follower:
                    connection.execute(
                        _followers.delete().where(_followers.c.follower == self.follower)
                    )
                    connection.execute(
                        _offsets.delete().where(_offsets.c.follower == self.follower)
                    )
                if former is not None:
                    moved = {
                        "follower": self.follower,
                        "version": _followers.c.version + 1,
                        **columns,
                    }
                    connection.execute(
                        _followers.update().where(_followers.c.follower == former).values(**moved)
                    )
                    connection.execute(
                        _offsets.update()
                        .where(_offsets.c.follower == former)
                        .values(follower=self.follower)
                    )
                owners.give(connection, self.table, self.owner)

    def _former(self, connection: sa.Connection) -> str | None:
        """Return the follower whose progress belongs to the table.

        It is that of the owner, else the one that committed last.
        """
        found = self._followers_of_the_table(connection)
        held = owners.sql_owner(connection, self.table)
        named = (
            []
            if held is None
            else [one for one in found if one == follower_of(held[0].name, held[0].deployment)]
        )
        return next(iter([*named, *found]), None)

    def _followers_of_the_table(self, connection: sa.Connection) -> list[str]:
        """Return the followers that have committed to the table, the latest first."""
        chosen = (
            sa.func.lower(_followers.c.table_name) == self.table.lower()
        ) & _followers.c.committed_at.is_not(None)
        newest = _followers.c.committed_at.desc()
        return list(
            connection.execute(
                sa.select(_followers.c.follower).where(chosen).order_by(newest)
            ).scalars()
        )

    def _create_books(self) -> None:
        """Create the tables of progress and owners.

        If another process creates them at the same time, that is not an error.
        """
        try:
            _METADATA.create_all(self.engine)
            owners.create_owners(self.engine)
        except sa.exc.SQLAlchemyError:
            names = sa.inspect(self.engine)
            if not all(names.has_table(one) for one in (FOLLOWERS, OFFSETS, OWNERS)):
                raise


def follower_of(name: str, deployment: str | None) -> str:
    """Return the name under which the progress of the table ``name`` is stored."""
    return ".".join(filter(None, [deployment, name]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlWriter:
    """A ``Writer`` that holds a version of the follower."""

    store: SqlStore
    version: int

    def progress(self, topic_id: str) -> TableProgress:
        """Return the progress of the table.

        :raises ProgressError: the offsets exist, but the table does not.
        """
        store = self.store
        with refusals_translated(store.place), store.engine.begin() as connection:
            last = (
                connection.execute(
                    sa.select(_followers).where(_followers.c.follower == store.follower)
                )
                .mappings()
                .one()
            )
            rows = (
                connection.execute(sa.select(_offsets).where(_offsets.c.follower == store.follower))
                .mappings()
                .all()
            )
            is_there = sa.inspect(connection).has_table(store.table)
        found = TableProgress(
            is_there=is_there,
            checkpoints={
                row["partition"]: Checkpoint(
                    next_offset=row["next_offset"], leader_epoch=row["leader_epoch"]
                )
                for row in rows
                if row["topic_id"] == topic_id
            },
            topic_ids=tuple(sorted({row["topic_id"] for row in rows})),
            letters=last["letters"] if last["topic_id"] == topic_id else None,
            run_id=last["run_id"] or "",
        )
        undo = f"delete the rows of {OFFSETS} whose follower is {store.follower}"
        validate_presence(store.place, store.table, found, undo)
        return found

    def held(
        self, keys: pa.Table, places: pa.Schema, ranges: OffsetRanges | None = None
    ) -> tuple[KnownRows, pa.Table]:
        """Return rows and remembered deletions: those of ``keys``, and those from ``ranges``.

        :raises SchemaConflictError: the table lacks columns.
        """
        store = self.store
        with refusals_translated(store.place), store.engine.begin() as connection:
            names = sa.inspect(connection)
            if names.has_table(store.table):
                validate_columns(
                    store.place,
                    store.table,
                    {one["name"] for one in names.get_columns(store.table)},
                    places,
                )
            rows, deletions = (
                (
                    _fetched(connection, name, keys, places, ranges)
                    if names.has_table(name)
                    else places.empty_table()
                )
                for name in (store.table, store.table + DELETED_KEYS)
            )
        return KnownRows(rows), deletions

    def commit(self, batch: Batch) -> None:
        """Commit rows and offsets in one transaction."""
        store = self.store
        with refusals_translated(store.place), store.engine.begin() as connection:
            noted = {
                "topic": batch.ranges.topic,
                "topic_id": batch.ranges.topic_id,
                "letters": batch.letters,
            }
            store.take(
                connection,
                self.version,
                run_id=batch.run_id,
                committed_at=_moment(batch.at, store.dialect),
                **noted,
            )
            store.hold(connection)
            write_rows(connection, store, batch)
            write_offsets(connection, store, batch)


def write_rows(connection: sa.Connection, store: SqlStore, batch: Batch) -> None:
    """Append the rows of a batch, or make its changes.

    Rows of existing keys are updated, the others inserted.
    """
    table = _table_for(connection, store, batch.rows.schema)
    if batch.changes is None:
        for chosen in _from_ranges(table, batch.ranges) if batch.is_replay else ():
            connection.execute(table.delete().where(chosen))
        bulk.load(connection, table, batch.rows)
        return
    assert batch.keys is not None
    changes = batch.changes
    replaced = {tuple(row.values()) for row in changes.replaced.to_pylist()}
    is_update = pa.array(
        [tuple(row.values()) in replaced for row in changes.rows.select(store.keys).to_pylist()],
        pa.bool_(),
    )
    updated = changes.rows.filter(is_update)
    kept = {tuple(row.values()) for row in updated.select(store.keys).to_pylist()}
    is_gone = pa.array(
        [tuple(row.values()) not in kept for row in changes.replaced.to_pylist()], pa.bool_()
    )
    _delete(connection, table, changes.replaced.filter(is_gone))
    _update(connection, table, updated, store.keys)
    bulk.load(connection, table, changes.rows.filter(pc.invert(is_update)))
    remembered = bulk.table_of(store.table + DELETED_KEYS, changes.deletions.schema, store.keys)
    remembered.create(connection, checkfirst=True)
    _delete(connection, remembered, batch.keys)
    bulk.load(connection, remembered, changes.deletions)
    _forget(connection, remembered, batch)


def write_offsets(connection: sa.Connection, store: SqlStore, batch: Batch) -> None:
    """Move the offsets to the ends of the batch. A replay moves none."""
    if batch.is_replay:
        return
    own = (_offsets.c.follower == store.follower) & (_offsets.c.topic_id == batch.ranges.topic_id)
    for partition, end in batch.ranges.ends().items():
        place = {
            "follower": store.follower,
            "topic_id": batch.ranges.topic_id,
            "partition": partition,
        }
        connection.execute(_offsets.delete().where(own & (_offsets.c.partition == partition)))
        connection.execute(
            _offsets.insert().values(
                **place, next_offset=end, leader_epoch=batch.leader_epochs.get(partition)
            )
        )


def _forget(connection: sa.Connection, remembered: sa.Table, batch: Batch) -> None:
    """Delete remembered deletions that no late record can need any more.

    These are deletions of earlier topics of that name, and deletions whose records retention has
    removed.
    """
    columns = remembered.c
    connection.execute(remembered.delete().where(columns["_topic_id"] != batch.ranges.topic_id))
    for partition, start in (batch.log_starts or {}).items():
        connection.execute(
            remembered.delete().where(
                (columns["_partition"] == partition) & (columns["_offset"] < start)
            )
        )


def _table_for(connection: sa.Connection, store: SqlStore, schema: pa.Schema) -> sa.Table:
    """Return the table for rows of ``schema``. A missing table is created.

    :raises SchemaConflictError: the existing table lacks columns.
    """
    declared = bulk.table_of(store.table, schema, store.keys)
    names = sa.inspect(connection)
    if names.has_table(store.table):
        existing = {column["name"] for column in names.get_columns(store.table)}
        validate_columns(store.place, store.table, existing, schema)
    else:
        declared.create(connection)
    return declared


def _update(
    connection: sa.Connection, table: sa.Table, rows: pa.Table, keys: Sequence[str]
) -> None:
    if bulk.is_staged(connection, rows):
        bulk.update(connection, table, rows, keys)
        return
    statement = (
        table.update()
        .where(_same(table, keys))
        .values({name: sa.bindparam(name) for name in rows.column_names if name not in keys})
    )
    for chunk in chunks(rows, connection.dialect.name):
        connection.execute(statement, [_prefixed(row, keys) for row in chunk])


def _delete(connection: sa.Connection, table: sa.Table, keys: pa.Table) -> None:
    if bulk.is_staged(connection, keys):
        bulk.delete(connection, table, keys)
        return
    for chunk in chunks(keys, connection.dialect.name):
        connection.execute(
            table.delete().where(_same(table, keys.column_names)),
            [_prefixed(row, keys.column_names) for row in chunk],
        )


def _same(table: sa.Table, keys: Sequence[str]) -> "sa.ColumnElement[bool]":
    return sa.and_(*(table.c[key] == sa.bindparam(f"key_{key}") for key in keys))


def _prefixed(row: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {f"key_{name}" if name in keys else name: value for name, value in row.items()}


def _fetched(
    connection: sa.Connection,
    name: str,
    keys: pa.Table,
    places: pa.Schema,
    ranges: OffsetRanges | None = None,
) -> pa.Table:
    """Return the rows of ``keys`` and those that came from ``ranges``, each once.

    They have the columns of ``places``.
    """
    table = bulk.table_of(name, places, keys.column_names)
    ask = bulk.fetch if bulk.is_staged(connection, keys) else _asked_for
    found = list(ask(connection, table, keys, places.names))
    for chosen in () if ranges is None else _from_ranges(table, ranges):
        found += connection.execute(
            sa.select(*(table.c[one] for one in places.names)).where(chosen)
        ).all()
    found = list(dict.fromkeys(map(tuple, found)))
    columns = zip(*found, strict=True) if found else [[] for _ in places]
    return pa.table(
        [_column(column, field.type) for column, field in zip(columns, places, strict=True)],
        schema=places,
    )


def _from_ranges(table: sa.Table, ranges: OffsetRanges) -> "Iterator[sa.ColumnElement[bool]]":
    """Yield conditions, one of which is true for each row that came from ``ranges``."""
    columns = table.c
    for start in range(0, len(ranges.ranges), KEYS_AT_ONCE):
        parts = [
            (columns["_partition"] == one.partition)
            & (columns["_offset"] >= one.start)
            & (columns["_offset"] < one.end)
            for one in ranges.ranges[start : start + KEYS_AT_ONCE]
        ]
        yield (columns["_topic_id"] == ranges.topic_id) & sa.or_(*parts)


def _asked_for(
    connection: sa.Connection, table: sa.Table, keys: pa.Table, names: Sequence[str]
) -> list[Any]:
    """Return the columns ``names`` of the rows with one of ``keys``.

    The queries list the keys, some hundred at a time.
    """
    found: list[Any] = []
    for chunk in chunks(keys, connection.dialect.name):
        for start in range(0, len(chunk), KEYS_AT_ONCE):
            wanted = [
                sa.and_(*(table.c[key] == value for key, value in row.items()))
                for row in chunk[start : start + KEYS_AT_ONCE]
            ]
            found += connection.execute(
                sa.select(*(table.c[name] for name in names)).where(sa.or_(*wanted))
            ).all()
    return found


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return fetched values as Arrow. A time without zone is UTC, as it was written."""
    if pa.types.is_timestamp(kind) and kind.tz:
        values = [
            one.replace(tzinfo=UTC) if isinstance(one, datetime) and one.tzinfo is None else one
            for one in values
        ]
    return pa.array(values, kind)


def _moment(at: datetime, dialect: str) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None) if dialect == "sqlite" else at


@contextmanager
def _taken_by_others(store: SqlStore) -> Iterator[None]:
    try:
        yield
    except sa.exc.IntegrityError as error:
        raise CommitConflictError(
            f"another run begins to write the table {store.table} of {store.place}"
        ) from error
