"""The databases whose tables follow topics are real: SQLite, PostgreSQL and DuckDB.

Readers see their rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import sqlalchemy as sa

from orchestration.databases.owners import Owner
from orchestration.resources.database import open_engine
from orchestration.transforms.to_database.duckdb_store import DuckdbStore
from orchestration.transforms.to_database.sql_store import SqlStore
from orchestration.transforms.to_database.stores import Store
from tests.helpers.postgres import postgres

OWNER = Owner(lake_id="a-lake", asset="lake/follower", place="here:/lake")
KINDS = ["sqlite", "postgresql", "duckdb"]


@dataclass(frozen=True)
class Database:
    """A database by plain values can be handed to another process.

    ``address`` is a URL, or DuckDB's directory.
    """

    kind: str
    address: str

    @contextmanager
    def store(
        self,
        table: str,
        keys: tuple[str, ...] = (),
        follower: str = "follower",
        owner: Owner = OWNER,
    ) -> Iterator[Store]:
        if self.kind == "duckdb":
            yield DuckdbStore(directory=Path(self.address), table=table, owner=owner, keys=keys)
            return
        engine = open_engine(self.address)
        try:
            yield SqlStore(engine=engine, table=table, follower=follower, owner=owner, keys=keys)
        finally:
            engine.dispose()

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows as any reader finds them, in order; none where there is no table."""
        question = f'SELECT {", ".join(columns)} FROM "{table}"'
        if self.kind == "duckdb":
            path = Path(self.address) / f"{table}.duckdb"
            if not path.exists():
                return []
            with duckdb.connect(str(path), read_only=True) as file:
                return sorted(file.execute(question).fetchall())
        engine = open_engine(self.address)
        try:
            with engine.begin() as connection:
                found = sa.inspect(connection).has_table(table)
                return (
                    sorted(tuple(row) for row in connection.execute(sa.text(question)))
                    if found
                    else []
                )
        finally:
            engine.dispose()

    def execute(self, statement: str) -> None:
        engine = open_engine(self.address)
        with engine.begin() as connection:
            connection.execute(sa.text(statement))
        engine.dispose()


@contextmanager
def database(kind: str, directory: Path) -> Iterator[Database]:
    if kind == "postgresql":
        with postgres() as url:
            yield Database(kind, url)
    else:
        yield Database(
            kind,
            f"sqlite:///{directory / 'tables.db'}"
            if kind == "sqlite"
            else str(directory / "warehouse"),
        )
