"""Dagster's SQLite storage with connections that stay open: a commit of an event then waits for no disk.

Dagster opens and closes a connection for every event. SQLite writes its log back and waits for the disk when the last connection is closed:
five times for an event, ninety times for a run's new file. Here each process keeps its connections, and the databases, in WAL mode
already, are synchronous NORMAL: a loss of power may take the last events along, never a database. What was committed to a table is in the
table; the next run tells a materialization that was lost so.

An installation's ``dagster.yaml`` names ``KeptStorage`` as its storage (``installation.instance`` writes that file), with the folder that
the variable DAGSTER_HOME names, so that a data directory may be moved.

A process that opens the instance again and again, as the code server does for each tick of a sensor, has all its storages share one set of
connections (``shared_connections``): most of what a tick of nothing cost was to open files, and to compile each statement anew.

This module decides how long a connection lives. Tables, queries and files are Dagster's own, so that its other commands read them as ever.
Invariants: at most ``MAX_KEPT`` files are kept open by each set; importing this module opens nothing, so that forked processes share
nothing.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import OperationalError

MAX_KEPT = 8
TABLES, INSTIGATORS = "tables", "instigators"
PRAGMAS = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL")


class KeptEngines:
    """Engines by address, for all threads; the one that was not used for the longest time is closed when there are too many.

    Remembers what was seen to be in a database, too: Dagster looks for its tables and indexes before most of its questions.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._seen: set[tuple[str, str]] = set()

    def of(self, address: str) -> Engine:
        """Return the engine of an address."""
        with self._lock:
            found = self._engines.pop(address, None) or open_engine(address)
            self._engines[address] = found
            while len(self._engines) > MAX_KEPT:
                self._engines.popitem(last=False)[1].dispose()
            return found

    def has(self, address: str, what: str, look: Callable[[], bool]) -> bool:
        """Return whether ``what`` is in the database of an address. ``look`` is called until it has seen it: what is there stays."""
        if (address, what) not in self._seen and look():
            self._seen.add((address, what))
        return (address, what) in self._seen

    def close(self) -> None:
        """Close all; the next call of ``of`` opens a new one."""
        with self._lock:
            self._seen.clear()
            while self._engines:
                self._engines.popitem()[1].dispose()

    def release(self) -> None:
        """A storage that used them has ended: close all."""
        self.close()


class SharedEngines(KeptEngines):
    """Engines of all storages of a process; the end of one of them closes nothing."""

    def release(self) -> None:
        """A storage has ended; others use the same engines."""


_shared: list[SharedEngines] = []
"""The engines of this process, where its storages share them."""


@contextmanager
def shared_connections() -> Iterator[None]:
    """Have all storages that are opened meanwhile use the same connections, which are closed at the end."""
    engines = SharedEngines()
    _shared.append(engines)
    try:
        yield
    finally:
        _shared.remove(engines)
        engines.close()


def engines_to_use() -> KeptEngines:
    """Return the engines for a storage that is opened now."""
    return _shared[-1] if _shared else KeptEngines()


def open_engine(address: str) -> Engine:
    """Return an engine that keeps its connections."""
    engine = create_engine(address, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})

    @event.listens_for(engine, "connect")
    def settle(connection: Any, _record: object) -> None:
        for pragma in PRAGMAS:
            connection.execute(pragma)

    return engine


def is_stamped(engine: Engine) -> bool:
    """Return whether a database has its tables: the last step of creating them writes their version."""
    with engine.connect() as connection:
        try:
            return connection.execute(text("SELECT version_num FROM alembic_version")).first() is not None
        except OperationalError:
            return False


def is_file_stamped(folder: str, file: str) -> bool:
    """Return whether the database ``file`` is in a folder and has its tables."""
    if not Path(folder, f"{file}.db").exists():
        return False
    engines, address = engines_to_use(), create_db_conn_string(folder, file)
    try:
        return engines.has(address, TABLES, lambda: is_stamped(engines.of(address)))
    finally:
        engines.release()


class KeptEventLogStorage(SqliteEventLogStorage):
    """Dagster's event log in SQLite: a file for the assets, and one for each run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._kept = engines_to_use()
        super().__init__(*args, **kwargs)

    def _initdb(self, engine: Engine, for_index_shard: bool = False) -> None:  # noqa: FBT001 - Dagster's signature
        """Create the tables where there are none; by Dagster's own way to see that they are there a process needs 30 ms for each file."""
        if not is_stamped(engine):
            super()._initdb(engine, for_index_shard)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            engine = self._kept.of(self.conn_string_for_shard(shard))
            if shard not in self._initialized_dbs:
                self._have_tables(shard, engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection
            if shard != INDEX_SHARD_NAME:
                os.utime(self.path_for_shard(shard))  # the UI watches a run's file, and a commit changes only the log beside it

    def _have_tables(self, shard: str, engine: Engine) -> None:
        """Create the tables where there are none. That a run's file has them is not remembered: maintenance removes such files."""
        if shard != INDEX_SHARD_NAME:
            self._initdb(engine)
        elif not self._kept.has(self.conn_string_for_shard(shard), TABLES, lambda: is_stamped(engine)):
            super()._initdb(engine)

    def has_secondary_index(self, name: str) -> bool:
        """Return whether a migration of the data is done."""
        return self._kept.has(
            self.conn_string_for_shard(INDEX_SHARD_NAME),
            f"index {name}",
            lambda: bool(super(KeptEventLogStorage, self).has_secondary_index(name)),
        )

    def dispose(self) -> None:
        """Close everything that is this storage's own."""
        super().dispose()
        self._kept.release()


def kept(storage: Any, file: str) -> Any:
    """Return ``storage``, one of Dagster's over a single file, with connections that stay open."""

    class Kept(storage):  # type: ignore[misc]  # a class that is handed in
        """Creates tables where there are none, by Dagster's own way, and keeps what it opens."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._kept = engines_to_use()
            super().__init__(*args, **kwargs)

        @classmethod
        def from_local(cls, base_dir: str, inst_data: Any = None) -> Any:
            if is_file_stamped(base_dir, file):
                return cls(create_db_conn_string(base_dir, file), inst_data)
            return super().from_local(base_dir, inst_data)

        @contextmanager
        def connect(self) -> Iterator[Connection]:
            with self._kept.of(self._conn_string).begin() as connection:
                yield connection

        def has_built_index(self, migration_name: str) -> bool:
            return self._is_there(f"index {migration_name}", lambda: super(Kept, self).has_built_index(migration_name))

        def _is_there(self, what: str, look: Callable[[], bool]) -> bool:
            return self._kept.has(self._conn_string, what, look)

        def dispose(self) -> None:
            super().dispose()
            self._kept.release()

    return Kept


KeptRunStorage = kept(SqliteRunStorage, "runs")


class KeptScheduleStorage(kept(SqliteScheduleStorage, "schedules")):  # type: ignore[misc]  # a class that is made above
    """Dagster's ticks and states of sensors in SQLite; what a database has been seen to have is not looked for again.

    Dagster lists the tables before most of its questions, several times for a tick: that is a sixth of what an idle daemon costs. A table
    or an index that is there stays.
    """

    def _has_instigators_table(self, conn: Connection) -> bool:
        return bool(self._is_there(INSTIGATORS, lambda: super(KeptScheduleStorage, self)._has_instigators_table(conn)))

    def has_instigators_table(self) -> bool:
        """Return whether states are kept by selector."""
        return bool(self._is_there(INSTIGATORS, super().has_instigators_table))


class KeptStorage(DagsterSqliteStorage):
    """Dagster's default storage, file by file, with connections that stay open. ``base_dir`` is the instance's folder."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self.base_dir = base_dir
        home = Path(base_dir)
        self._run_storage = KeptRunStorage.from_local(str(home / "history"))
        self._event_log_storage = KeptEventLogStorage(str(home / "history" / "runs"))
        self._schedule_storage = KeptScheduleStorage.from_local(str(home / "schedules"))
        self._inst_data = inst_data
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]  # the next class's would open the three files again

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Any) -> "KeptStorage":
        """Return the storage that a ``dagster.yaml`` asks for."""
        return cls.from_local(inst_data=inst_data, **config_value)
