"""Dagster's SQLite storage with connections that stay open, so that commits need no sync.

Dagster opens and closes a connection for every event. When the last connection is closed, SQLite
copies its WAL file into the database and waits for the disk. That happens five times for an event,
and ninety times for a run's new file. Here each process keeps its connections. The databases, in
WAL mode already, are synchronous NORMAL. A loss of power may lose the last events, but never
damages a database. Rows that were committed to a table stay there, and the next run reports a
materialization that was lost in this way.

Decides how long a connection is kept. Tables, queries and files are Dagster's own, so its other
commands can read them.
Invariants: each set of engines keeps at most ``MAX_KEPT`` files open. Importing this module opens
nothing, so forked processes share nothing.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
)
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
    """Keeps SQLAlchemy engines by address, for all threads.

    The least recently used one is closed when there are too many. It also remembers the tables and
    indexes of a database, because Dagster looks for them before most of its queries.
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
        """Return whether the table or index ``what`` is in the database of an address.

        ``look`` queries the database. It is not called again once it has found the table or index,
        because existing ones stay.
        """
        if (address, what) not in self._seen and look():
            self._seen.add((address, what))
        return (address, what) in self._seen

    def close(self) -> None:
        """Close all engines. The next call of ``of`` opens a new one."""
        with self._lock:
            self._seen.clear()
            while self._engines:
                self._engines.popitem()[1].dispose()

    def release(self) -> None:
        """Close all engines, because the only storage that uses them was disposed of."""
        self.close()


class SharedEngines(KeptEngines):
    """Engines that all storages of a process share. The end of one storage does not close them."""

    def release(self) -> None:
        """Keep all engines, because other storages still use them."""


_shared: list[SharedEngines] = []
"""The engines of this process, if its storages share them."""


@contextmanager
def shared_connections() -> Iterator[None]:
    """Make all storages that are opened in the block share connections, and close these at its end.

    The code server opens the instance for each tick of a sensor. Without this, opening files and
    compiling each statement anew would be most of the work of an idle tick.
    """
    engines = SharedEngines()
    _shared.append(engines)
    try:
        yield
    finally:
        _shared.remove(engines)
        engines.close()


def engines_to_use() -> KeptEngines:
    """Return the engines for a storage that is opened now.

    They are the shared ones inside ``shared_connections``, else new ones.
    """
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
    """Return whether a database has all its tables.

    Creating them ends with writing their version. So it is enough to look for the version.
    """
    with engine.connect() as connection:
        try:
            return (
                connection.execute(text("SELECT version_num FROM alembic_version")).first()
                is not None
            )
        except OperationalError:
            return False


def is_file_stamped(folder: str, file: str) -> bool:
    """Return whether ``folder`` has the database ``file``, with all its tables."""
    if not Path(folder, f"{file}.db").exists():
        return False
    engines, address = engines_to_use(), create_db_conn_string(folder, file)
    try:
        return engines.has(address, TABLES, lambda: is_stamped(engines.of(address)))
    finally:
        engines.release()


class KeptEventLogStorage(SqliteEventLogStorage):
    """Dagster's event log in SQLite, with a file for the assets and one for each run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._kept = engines_to_use()
        super().__init__(*args, **kwargs)

    def _initdb(self, engine: Engine, for_index_shard: bool = False) -> None:  # noqa: FBT001 - Dagster's signature
        """Create the tables if there are none.

        Dagster's own check for them takes 30 ms for each file.
        """
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
                # The UI watches the time of a run's file, but a commit changes only the WAL file.
                os.utime(self.path_for_shard(shard))

    def _have_tables(self, shard: str, engine: Engine) -> None:
        """Create the tables if there are none.

        The tables of a run's file are not remembered, because maintenance removes such files.
        """
        if shard != INDEX_SHARD_NAME:
            self._initdb(engine)
        elif not self._kept.has(
            self.conn_string_for_shard(shard), TABLES, lambda: is_stamped(engine)
        ):
            super()._initdb(engine)

    def has_secondary_index(self, name: str) -> bool:
        """Return whether a data migration of Dagster, which it stores as an index, is done."""
        return self._kept.has(
            self.conn_string_for_shard(INDEX_SHARD_NAME),
            f"index {name}",
            lambda: bool(super(KeptEventLogStorage, self).has_secondary_index(name)),
        )

    def dispose(self) -> None:
        """Close the connections that no other storage uses."""
        super().dispose()
        self._kept.release()


def kept(storage: Any, file: str) -> Any:
    """Return a subclass of Dagster's class ``storage`` with connections that stay open.

    The storage has a single database, named ``file``.
    """

    class Kept(storage):  # type: ignore[misc]  # a class that is handed in
        """Dagster's ``storage``, but it keeps its connections, and creates tables if need be."""

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
            return self._is_there(
                f"index {migration_name}", lambda: super(Kept, self).has_built_index(migration_name)
            )

        def _is_there(self, what: str, look: Callable[[], bool]) -> bool:
            return self._kept.has(self._conn_string, what, look)

        def dispose(self) -> None:
            super().dispose()
            self._kept.release()

    return Kept


KeptRunStorage = kept(SqliteRunStorage, "runs")


class KeptScheduleStorage(kept(SqliteScheduleStorage, "schedules")):  # type: ignore[misc]  # a class that is made above
    """Dagster's ticks and states of sensors in SQLite.

    Tables and indexes that were found once are not looked for again, because they stay. Dagster
    lists the tables before most of its queries, several times for a tick. That is a sixth of an
    idle daemon's work.
    """

    def _has_instigators_table(self, conn: Connection) -> bool:
        return bool(
            self._is_there(
                INSTIGATORS, lambda: super(KeptScheduleStorage, self)._has_instigators_table(conn)
            )
        )

    def has_instigators_table(self) -> bool:
        """Return whether the database has the table that stores sensor states by selector."""
        return bool(self._is_there(INSTIGATORS, super().has_instigators_table))


class KeptStorage(DagsterSqliteStorage):
    """Dagster's default storage, one SQLite file per part, with connections that stay open.

    ``base_dir`` is the instance's folder. An installation's ``dagster.yaml`` names this class as
    its storage (``installation.instance`` writes that file). The file names the folder by the
    variable DAGSTER_HOME, so that a data directory may be moved.
    """

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self.base_dir = base_dir
        home = Path(base_dir)
        self._run_storage = KeptRunStorage.from_local(str(home / "history"))
        self._event_log_storage = KeptEventLogStorage(str(home / "history" / "runs"))
        self._schedule_storage = KeptScheduleStorage.from_local(str(home / "schedules"))
        self._inst_data = inst_data
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]  # the next class's would open the three files again

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData, config_value: Any
    ) -> "KeptStorage":
        """Return the storage that a ``dagster.yaml`` configures."""
        return cls.from_local(inst_data=inst_data, **config_value)
