"""A table of a DuckDB file that follows a topic: rows and offsets in one file.

A DuckDB file that is open for writing locks out every reader, and an open reader locks out every
writer. So a commit writes a copy and renames it into place, as marts are built. Readers never block
it, and never see half of a commit. The writer holds a lock beside the file for the whole attempt,
so that there is one writer at a time. The lock ends with its process. Decides the statements. Knows
no broker and no Spark.
Invariants: the file holds table, owner, remembered deletions, offsets and the attempt number of the
dead letters, all of one commit. A killed commit leaves a copy that nothing names, and the next
writer removes it. A commit copies the file, so it suits tables of up to some gigabytes.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from log_service.common.private_files import open_private
from orchestration.databases.owners import Owner, owner_text, refusal
from orchestration.databases.refusals import StoreError
from orchestration.lake.durable import sync
from orchestration.lake.quoting import quoted_name
from orchestration.lake.tables import CommitConflictError, ranges_predicate
from orchestration.offsets.planning import Checkpoint, ProgressError
from orchestration.offsets.ranges import OffsetRanges
from orchestration.transforms.to_database.stores import (
    DELETED_KEYS,
    Batch,
    KnownRows,
    TableProgress,
    validate_columns,
    validate_presence,
)
from orchestration.warehouse.store import CONNECTION_SETTINGS, SUFFIX

FOLLOWER = "_tidelog_follower"
OFFSETS = "_tidelog_offsets"
OWNER = "_tidelog_owner"
BOOKS = f"""
CREATE TABLE IF NOT EXISTS {FOLLOWER} (topic VARCHAR, topic_id VARCHAR, letters BIGINT, run_id VARCHAR, committed_at TIMESTAMPTZ);
CREATE TABLE IF NOT EXISTS {OFFSETS} (topic_id VARCHAR, partition INTEGER, next_offset BIGINT, leader_epoch INTEGER,
    PRIMARY KEY (topic_id, partition));
CREATE TABLE IF NOT EXISTS {OWNER} (lake_id VARCHAR, asset VARCHAR, place VARCHAR, written_at TIMESTAMP);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckdbStore:
    """The table ``table`` in its own file in the warehouse's ``directory``.

    ``keys`` are its key columns, if any.
    """

    directory: Path
    table: str
    owner: Owner
    keys: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return self.directory / f"{self.table}{SUFFIX}"

    @property
    def place(self) -> str:
        """Return the place of the table for people: the path of the file."""
        return str(self.path)

    @property
    def dialect(self) -> str:
        """Return the kind of the database."""
        return "duckdb"

    @contextmanager
    def writer(self) -> Iterator["DuckdbWriter"]:
        """Lock the file, and yield its writer.

        While the lock is held no other writer is active, and a killed one cannot come back. Only
        the owner can read the lock file, because an account that can read it could lock it.

        :raises NotOwnerError: the table belongs to another owner.
        """
        with self._locked():
            held = self.holder()
            if held is not None:
                raise refusal(self.place, self.table, held, self.owner)
            yield DuckdbWriter(store=self)

    def holder(self) -> str | None:
        """Return a text on another owner of the table, None if no other asset owns it.

        A file of an earlier release belongs to the first owner that writes it.
        """
        found = self._owner()
        return None if found is None or found[0].is_same(self.owner) else owner_text(*found)

    def take_over(self, *, is_of_this_lake: bool) -> None:  # noqa: ARG002 - a file without owner is claimed, not taken over
        """Become the file's owner, with rows and progress.

        Attempts of dead letters are numbered within one lake. So a number from another lake is
        dropped.
        """
        with self._locked():
            found = self._owner()
            if found is None:
                return
            with _replaced(self) as connection:
                if found[0].lake_id != self.owner.lake_id:
                    connection.execute(f"UPDATE {FOLLOWER} SET letters = NULL")  # noqa: S608 - a name of ours
                write_owner(connection, self.owner)

    def _owner(self) -> tuple[Owner, datetime] | None:
        if not self.path.exists():
            return None
        with _opened(self.path, self.place, is_read_only=True) as connection:
            if OWNER not in _tables(connection):
                return None
            row = connection.execute(
                f"SELECT lake_id, asset, place, written_at FROM {OWNER}"  # noqa: S608 - a name of ours
            ).fetchone()
        return None if row is None else (Owner(lake_id=row[0], asset=row[1], place=row[2]), row[3])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with os.fdopen(
            open_private(self.directory / f".{self.table}.lock", os.O_WRONLY), "wb"
        ) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CommitConflictError(
                    f"another run writes the table {self.table} of {self.place}"
                ) from error
            for leftover in self.directory.glob(f".{self.table}.commit-*"):
                leftover.unlink(missing_ok=True)
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckdbWriter:
    """A ``Writer`` that holds the lock of the file."""

    store: DuckdbStore

    def progress(self, topic_id: str) -> TableProgress:
        """Return the progress of the table.

        :raises ProgressError: the file is not that of a follower, or its table is missing.
        """
        store = self.store
        if not store.path.exists():
            return TableProgress(is_there=False, checkpoints={}, topic_ids=())
        with _opened(store.path, store.place, is_read_only=True) as connection:
            tables = _tables(connection)
            if OFFSETS not in tables:
                raise ProgressError(
                    f"{store.place} is not a table that follows a topic, but a mart or a file of"
                    " somebody else's. Nothing was committed. Give the table another name, or move"
                    " the file away"
                )
            last = connection.execute(
                f"SELECT topic_id, letters, run_id FROM {FOLLOWER}"  # noqa: S608
            ).fetchone() or (
                None,
                None,
                None,
            )
            rows = connection.execute(
                f"SELECT topic_id, partition, next_offset, leader_epoch FROM {OFFSETS}"  # noqa: S608
            ).fetchall()
        found = TableProgress(
            is_there=store.table in tables,
            checkpoints={
                row[1]: Checkpoint(next_offset=row[2], leader_epoch=row[3])
                for row in rows
                if row[0] == topic_id
            },
            topic_ids=tuple(sorted({row[0] for row in rows})),
            letters=last[1] if last[0] == topic_id else None,
            run_id=last[2] or "",
        )
        validate_presence(store.place, store.table, found, f"delete the file {store.place}")
        return found

    def held(
        self, keys: pa.Table, places: pa.Schema, ranges: OffsetRanges | None = None
    ) -> tuple[KnownRows, pa.Table]:
        """Return rows and remembered deletions: those of ``keys``, and those from ``ranges``."""
        store = self.store
        if not store.path.exists():
            return KnownRows(places.empty_table()), places.empty_table()
        with _opened(store.path, store.place, is_read_only=True) as connection:
            connection.register("wanted", keys)
            tables = _tables(connection)
            if store.table in tables:
                validate_columns(
                    store.place, store.table, _columns(connection, store.table), places
                )
            voided = "FALSE" if ranges is None else ranges_predicate(ranges)
            chosen = f"AS held WHERE EXISTS (SELECT 1 FROM wanted WHERE {_same(keys.column_names, 'wanted')}) OR {voided}"  # noqa: S608
            rows, deletions = (
                (
                    connection.sql(
                        f"SELECT {_list(places.names)} FROM {quoted_name(name)} {chosen}"  # noqa: S608
                    )
                    .to_arrow_table()
                    .cast(places)
                    if name in tables
                    else places.empty_table()
                )
                for name in (store.table, store.table + DELETED_KEYS)
            )
        return KnownRows(rows), deletions

    def commit(self, batch: Batch) -> None:
        """Write a copy with rows and offsets, and replace the file by it in one step."""
        with _replaced(self.store) as connection:
            connection.execute("BEGIN")
            connection.execute(BOOKS)
            write_owner(connection, self.store.owner)
            write_rows(connection, self.store, batch)
            write_offsets(connection, batch)
            connection.execute("COMMIT")


@contextmanager
def _replaced(store: DuckdbStore) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to a copy of the file, which replaces the file when the block ends.

    :raises StoreError: the copy cannot be written.
    """
    draft = store.directory / f".{store.table}.commit-{os.getpid()}"
    try:
        if store.path.exists():
            shutil.copyfile(store.path, draft)
        with _opened(draft, store.place) as connection:
            yield connection
            connection.execute("CHECKPOINT")
        sync(draft)
        put_in_place(draft, store.path)
    except OSError as error:
        raise StoreError(
            f"{store.place} cannot be written: {error}. Nothing was committed", is_passing=True
        ) from error
    finally:
        draft.unlink(missing_ok=True)
        draft.with_name(f"{draft.name}.wal").unlink(missing_ok=True)


def put_in_place(draft: Path, place: Path) -> None:
    """Rename the copy ``draft`` to ``place``, and sync the folder. The rename is the commit."""
    draft.replace(place)
    sync(place.parent)


def write_owner(connection: duckdb.DuckDBPyConnection, owner: Owner) -> None:
    """Store the owner of the file."""
    connection.execute(f"DELETE FROM {OWNER}")  # noqa: S608 - a name of ours
    named = [owner.lake_id, owner.asset, owner.place, datetime.now(UTC).replace(tzinfo=None)]
    connection.execute(f"INSERT INTO {OWNER} VALUES ($1, $2, $3, $4)", named)  # noqa: S608 - a name of ours


def write_rows(connection: duckdb.DuckDBPyConnection, store: DuckdbStore, batch: Batch) -> None:
    """Append the rows of a batch, or make its changes."""
    table = quoted_name(store.table)
    connection.register("new_rows", batch.rows if batch.changes is None else batch.changes.rows)
    tables = _tables(connection)
    if store.table in tables:
        validate_columns(
            store.place, store.table, _columns(connection, store.table), batch.rows.schema
        )
    else:
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM new_rows LIMIT 0")  # noqa: S608 - names are quoted
    if batch.changes is not None:
        assert batch.keys is not None
        connection.register("gone", batch.changes.replaced)
        connection.register("touched", batch.keys)
        connection.register("deleted", batch.changes.deletions)
        remembered = quoted_name(store.table + DELETED_KEYS)
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {remembered} AS SELECT * FROM deleted LIMIT 0"  # noqa: S608
        )
        connection.execute(
            f"DELETE FROM {table} AS held USING gone WHERE {_same(store.keys, 'gone')}"  # noqa: S608
        )
        connection.execute(
            f"DELETE FROM {remembered} AS held USING touched WHERE {_same(store.keys, 'touched')}"  # noqa: S608
        )
        connection.execute(f"INSERT INTO {remembered} BY NAME SELECT * FROM deleted")  # noqa: S608
        connection.execute(
            f"DELETE FROM {remembered} WHERE _topic_id <> $1",  # noqa: S608 - quoted
            [batch.ranges.topic_id],
        )
        for partition, start in (batch.log_starts or {}).items():
            connection.execute(
                f"DELETE FROM {remembered} WHERE _partition = $1 AND _offset < $2",  # noqa: S608
                [partition, start],
            )
    elif batch.is_replay:
        connection.execute(f"DELETE FROM {table} WHERE {ranges_predicate(batch.ranges)}")  # noqa: S608 - names are quoted
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new_rows")  # noqa: S608


def write_offsets(connection: duckdb.DuckDBPyConnection, batch: Batch) -> None:
    """Move the offsets to the ends of the batch. A replay moves none."""
    topic_id = batch.ranges.topic_id
    for partition, end in () if batch.is_replay else batch.ranges.ends().items():
        place = [topic_id, partition, end, batch.leader_epochs.get(partition)]
        connection.execute(f"INSERT OR REPLACE INTO {OFFSETS} VALUES ($1, $2, $3, $4)", place)  # noqa: S608 - a name of ours
    connection.execute(f"DELETE FROM {FOLLOWER}")  # noqa: S608 - a name of ours
    noted = [batch.ranges.topic, topic_id, batch.letters, batch.run_id, batch.at]
    connection.execute(f"INSERT INTO {FOLLOWER} VALUES ($1, $2, $3, $4, $5)", noted)  # noqa: S608 - a name of ours


@contextmanager
def _opened(
    path: Path, place: str, *, is_read_only: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to the file.

    :raises StoreError: DuckDB refuses.
    """
    try:
        with duckdb.connect(
            str(path), read_only=is_read_only, config=dict(CONNECTION_SETTINGS)
        ) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
    except duckdb.Error as error:
        is_passing = isinstance(error, duckdb.IOException)
        raise StoreError(
            f"{place} refuses: {str(error).partition(chr(10))[0]}. Nothing was committed",
            is_passing=is_passing,
        ) from error


def _tables(connection: duckdb.DuckDBPyConnection) -> set[str]:
    return {
        str(row[0])
        for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    }


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> set[str]:
    return {str(row[0]) for row in connection.execute(f"DESCRIBE {quoted_name(table)}").fetchall()}


def _list(columns: Sequence[str]) -> str:
    return ", ".join(f"held.{quoted_name(name)}" for name in columns)


def _same(keys: Sequence[str], other: str) -> str:
    return " AND ".join(f"held.{quoted_name(key)} = {other}.{quoted_name(key)}" for key in keys)
