"""Builds DuckDB marts from lake tables by SQL, and answers queries about lake and marts together.

A mart is one file with one table. It is built in a temporary file and renamed into its place, so a
reader that has the old file open keeps it. Lake tables are relations of one connection, at one
version each, and are never saved as views. DuckDB reads their Parquet files itself if the files
hold the table's columns and types, and else through Arrow, which takes longer. Relations in SQL are
lake tables, marts, and ``dead_letters`` (the committed ones). A query may also read ``topics.NAME``
(``topics_in_sql``). No extension is downloaded. A confined query, which another person wrote, reads
no file by its path. Knows no Dagster.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import duckdb
import pyarrow as pa

from orchestration.dead_letters.table import DEAD_LETTERS, DeadLetters
from orchestration.lake.abandoned_files import old_ones
from orchestration.lake.quoting import quoted_name, quoted_text
from orchestration.lake.tables import TABLE_NAME, Lake, TableSnapshot
from orchestration.warehouse.topics_in_sql import TopicRelations

SUFFIX = ".duckdb"
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PATTERN = re.compile(r"[*?\[]")
"""The characters that DuckDB takes for a pattern in the name of a file."""
UNKNOWN = re.compile(
    r'Table with name (?P<name>.+) does not exist!(?:\nDid you mean "(?P<guess>.+)"\?)?'
)
"""DuckDB's message for a relation that does not exist."""
READING = frozenset(
    {
        duckdb.StatementType.SELECT,
        duckdb.StatementType.MULTI,
        duckdb.StatementType.EXPLAIN,
        duckdb.StatementType.PRAGMA,
        duckdb.StatementType.CALL,
    }
)
"""The kinds of statements that may be a question. DuckDB takes a PIVOT for several statements."""
NEAR = 0.7
"""The similarity of two names (at most 1) above which one may be a misspelling of the other."""
LEFTOVER_AGE_S = 3_600
ACCOUNT_COLUMNS = {"records_sent", "start_offset", "end_offset", "target_id"}
"""The columns by which the ledger of a transform (``transforms.ledger``) is recognized."""
CONFINED_THREADS = 2
FETCHED_ROWS = 1_000
"""The rows of a confined answer that are fetched at once."""
CONNECTION_SETTINGS: Mapping[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class WarehouseError(RuntimeError):
    """DuckDB cannot answer the SQL. The text is DuckDB's, and lists the relations that exist."""


class UnknownRelationError(WarehouseError):
    """The SQL names a relation that is neither in the lake nor a mart.

    ``name`` is the name of that relation.
    """

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class MartBuild:
    """A mart as it was just built. ``inputs`` are the versions of the lake tables that it read."""

    name: str
    path: Path
    rows: int
    size_bytes: int
    columns: tuple[tuple[str, str], ...]
    inputs: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The bounds of a query that another person wrote.

    It may read only ``relations``, and neither files nor variables of this process. Its answer ends
    once it has more than ``row_count`` rows or ``answer_bytes``. DuckDB works within
    ``memory_bytes``, and spills what is more, up to ``spill_bytes``. Errors name no relations but
    these.
    """

    relations: Collection[str]
    row_count: int
    answer_bytes: int
    memory_bytes: int
    spill_bytes: int


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A directory of marts over a lake."""

    directory: Path
    lake: Lake

    def names(self) -> tuple[str, ...]:
        """Return the marts that exist."""
        if not self.directory.is_dir():
            return ()
        return tuple(
            sorted(
                file.name.removesuffix(SUFFIX)
                for file in self.directory.glob(f"*{SUFFIX}")
                if not file.name.startswith(".")
            )
        )

    def path(self, name: str) -> Path:
        """Return the path of a mart's file.

        :raises ValueError: the name cannot be a mart's.
        """
        if not TABLE_NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot be a mart's name: letters, digits and underscores, not starting"
                " with a digit"
            )
        return self.directory / f"{name}{SUFFIX}"

    def query(
        self,
        sql: str,
        topics: TopicRelations | None = None,
        *,
        confinement: Confinement | None = None,
    ) -> pa.Table:
        """Answer a query about lake tables, dead letters, marts and, if given, ``topics``.

        The database is in memory, so no change outlasts the query. Intermediate results that do not
        fit into memory spill into a temporary folder. The answer itself has to fit. ``confinement``
        bounds the query of another person.

        :raises WarehouseError: the SQL is not a single query, or DuckDB cannot answer it.
        :raises UnknownRelationError: a relation does not exist.
        :raises LogServiceError: the log service does not respond.
        """
        validate_question(sql)
        with (
            TemporaryDirectory(prefix="tidelog-sql-") as spills,
            self.connection(sql, ":memory:", confinement) as (connection, versions),
            self._explained(sql, topics, confinement),
        ):
            connection.execute(f"SET temp_directory = {quoted_text(spills)}")
            if confinement is not None:
                self._confine(connection, versions, confinement)
            if topics is not None:
                topics.prepare(connection, sql)
            found = connection.sql(sql)
            return _table_of(found) if confinement is None else _start_of(found, confinement)

    def relations_of(self, sql: str) -> frozenset[str]:
        """Return the lake tables, marts and ``dead_letters`` that a query may read.

        DuckDB would open the files that a query names to find its relations. It may not open files
        here, so every word of such a query counts as a possible relation.
        """
        settings = {**CONNECTION_SETTINGS, "enable_external_access": "false"}
        with duckdb.connect(":memory:", config=settings) as connection:
            known = {*self.lake.names(), *self.names(), DEAD_LETTERS}
            return frozenset(_named_relations(connection, sql) & known)

    def _confine(
        self,
        connection: duckdb.DuckDBPyConnection,
        versions: Mapping[str, int],
        confinement: Confinement,
    ) -> None:
        """Restrict the connection to the confinement's bounds, and forbid changes of settings.

        It may read only the files of the lake tables in ``versions``.
        """
        files = [str(file) for name in versions for file in self.lake.existing(name).files]
        connection.execute(f"SET allowed_paths = [{', '.join(map(quoted_text, files))}]")
        connection.execute(f"SET memory_limit = '{confinement.memory_bytes}B'")
        connection.execute(f"SET max_temp_directory_size = '{confinement.spill_bytes}B'")
        connection.execute(f"SET threads = {CONFINED_THREADS}")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")

    def build(self, name: str, sql: str) -> MartBuild:
        """Build the mart ``name`` from ``sql`` and put it into its place in one step.

        :raises WarehouseError: DuckDB cannot answer ``sql``, or a relation does not exist. The old
            mart stays.
        """
        place = self.path(name)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._remove_leftovers(name)
        draft = self.directory / f".{name}.{uuid4().hex}{SUFFIX}"
        try:
            with self.connection(sql, str(draft)) as (connection, inputs), self._explained(sql):
                connection.execute(f'CREATE TABLE "{name}" AS {sql}')
                counted = connection.sql(f'SELECT count(*) FROM "{name}"').fetchall()  # noqa: S608 - a validated name
                columns = connection.sql(f'DESCRIBE "{name}"').fetchall()
            size = draft.stat().st_size
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)
        return MartBuild(
            name=name,
            path=place,
            rows=int(counted[0][0]),
            size_bytes=size,
            columns=tuple((str(column[0]), str(column[1])) for column in columns),
            inputs=inputs,
        )

    @contextmanager
    def connection(
        self, sql: str, path: str, confinement: Confinement | None = None
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, dict[str, int]]]:
        """Yield a connection with the relations of ``sql``, and the versions of its lake tables.

        With a ``confinement`` the connection has the confinement's relations instead. ``path`` is
        the file of the database.
        """
        with duckdb.connect(path, config=dict(CONNECTION_SETTINGS)) as connection:
            connection.execute("SET TimeZone = 'UTC'")  # the host's zone would shift days
            versions: dict[str, int] = {}
            marts, tables = set(self.names()), set(self.lake.names())
            named = (
                _named_relations(connection, sql)
                if confinement is None
                else {*confinement.relations}  # to look for them would open files
            )
            for name in sorted(named):
                if name == DEAD_LETTERS:
                    connection.register(name, DeadLetters(self.lake).committed())
                elif name in tables and not self._is_account(name, marts):
                    snapshot = self.lake.existing(name)
                    versions[name] = snapshot.version
                    if not _read_files(connection, name, snapshot):
                        connection.register(name, snapshot.dataset())
                elif name in marts:
                    self._attach(connection, name)
            yield connection, versions

    def _is_account(self, name: str, marts: set[str]) -> bool:
        """Return whether the lake table ``name`` only keeps the progress of a DuckDB table.

        Such a table is the ledger of a transform (``transforms.ledger``). In SQL the name then
        means the DuckDB table.
        """
        return name in marts and set(self.lake.existing(name).arrow_schema.names) >= ACCOUNT_COLUMNS

    def _attach(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        location = str(self.path(name)).replace("'", "''")
        connection.execute(f"ATTACH '{location}' AS \"mart_{name}\" (READ_ONLY)")
        connection.execute(f'CREATE TEMP VIEW "{name}" AS SELECT * FROM "mart_{name}"."{name}"')  # noqa: S608 - a validated name

    def _remove_leftovers(self, name: str) -> None:
        """Remove old files of killed builds. Files of running builds are younger than these."""
        for file in old_ones(self.directory, f".{name}.*", LEFTOVER_AGE_S):
            file.unlink(missing_ok=True)

    @contextmanager
    def _explained(
        self,
        sql: str,
        topics: TopicRelations | None = None,
        confinement: Confinement | None = None,
    ) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            tables, marts = self.lake.names(), self.names()
            if confinement is not None:
                own = {*confinement.relations}
                tables, marts = (tuple(filter(own.__contains__, each)) for each in (tables, marts))
            missing = [] if topics is None else topics.missing(sql)
            kind = (
                "no topics"
                if topics is not None and topics.log is not None
                else "no archived topics"
            )
            note = f"; {kind}: {', '.join(missing)}" if missing else ""
            reason = _well_guessed(str(error), sql, {*tables, *marts, DEAD_LETTERS})
            text = (
                f"{reason}\n(tables of the lake: {', '.join(tables) or 'none'}; marts:"
                f" {', '.join(marts) or 'none'}{note})"
            )
            unknown = UNKNOWN.search(str(error))
            if unknown is not None and unknown["name"] not in missing:
                raise UnknownRelationError(text, unknown["name"]) from error
            raise WarehouseError(text) from error


def validate_question(sql: str) -> None:
    """Refuse SQL that is not one statement, or that is not a query.

    SQL that cannot be parsed passes here. DuckDB reports it later.

    :raises WarehouseError: names the number of statements, or the kind of the statement.
    """
    try:
        kinds = [one.type for one in duckdb.extract_statements(sql)]
    except duckdb.Error:
        return
    if len(kinds) != 1:
        note = f"these are {len(kinds)} statements" if kinds else "there is no statement in it"
        raise WarehouseError(f"a question is one SELECT, and {note}: ask one at a time")
    if kinds[0] not in READING:
        raise WarehouseError(
            f"a question is one SELECT, and this is {kinds[0].name}: questions only read, and runs"
            " of the project write"
        )


def _well_guessed(reason: str, sql: str, known: Collection[str]) -> str:
    """Return DuckDB's error text with a guess at the relation that was meant.

    DuckDB knows only its own catalog and the names in the query, and guesses only from these.
    """
    unknown = UNKNOWN.search(reason)
    if unknown is None or (unknown["guess"] or "").rpartition(".")[2] in WORD.findall(sql):
        return reason
    near = get_close_matches(unknown["name"], sorted(known), n=1, cutoff=NEAR)
    guess = f'\nDid you mean "{near[0]}"?' if near else ""
    return (
        f"{reason[: unknown.start()]}Table with name {unknown['name']} does not"
        f" exist!{guess}{reason[unknown.end() :]}"
    )


def _read_files(connection: duckdb.DuckDBPyConnection, name: str, snapshot: TableSnapshot) -> bool:
    """Make the table's files the relation ``name``, and return whether that was possible.

    It is impossible if the files alone do not hold the table's columns. Columns by which a table is
    partitioned are in no file. Columns that are younger than a file are null in its rows.
    """
    files = snapshot.files
    if (
        not files
        or snapshot.delta.metadata().partition_columns
        or PATTERN.search(str(snapshot.folder))
    ):
        return False
    schema = snapshot.arrow_schema
    columns = ", ".join(quoted_name(column) for column in schema.names)
    listed = ", ".join(quoted_text(str(file)) for file in files)
    source = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
    stand_in = f"{name}_as_declared"
    connection.register(stand_in, schema.empty_table())
    try:
        is_same = _described(connection, f"SELECT {columns} FROM {source}") == _described(  # noqa: S608
            connection, f"FROM {quoted_name(stand_in)}"
        )
    except duckdb.Error:
        return False
    finally:
        connection.unregister(stand_in)
    if not is_same:
        return False
    connection.execute(f"CREATE TEMP VIEW {quoted_name(name)} AS SELECT {columns} FROM {source}")  # noqa: S608
    return True


def _described(connection: duckdb.DuckDBPyConnection, question: str) -> list[tuple[str, str]]:
    """Return the names and types of the columns of a query's answer."""
    return [
        (str(row[0]), str(row[1])) for row in connection.execute(f"DESCRIBE {question}").fetchall()
    ]


def _table_of(answer: object) -> pa.Table:
    """Return the answer as a table. It is empty for statements that are not queries."""
    return pa.table({} if answer is None else answer)


def _start_of(answer: duckdb.DuckDBPyRelation | None, confinement: Confinement) -> pa.Table:
    """Return the rows of an answer, up to and including the batch that exceeds a bound."""
    if answer is None:
        return _table_of(answer)
    batches, row_count, size_bytes = [], 0, 0
    with answer.to_arrow_reader(FETCHED_ROWS) as reader:
        for batch in reader:
            batches.append(batch)
            row_count, size_bytes = row_count + batch.num_rows, size_bytes + batch.nbytes
            if row_count > confinement.row_count or size_bytes > confinement.answer_bytes:
                break
        schema = reader.schema
    return pa.Table.from_batches(batches, schema)


def _named_relations(connection: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """Return the relations that ``sql`` may read, as DuckDB finds them.

    If DuckDB needs the columns of relations to understand a USING, it cannot find the relations.
    Then every word counts as a possible relation.
    """
    try:
        return set(connection.get_table_names(sql))
    except duckdb.Error:
        return set(WORD.findall(sql))
