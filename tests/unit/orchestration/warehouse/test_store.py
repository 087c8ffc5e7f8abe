"""Marts: built beside their place, renamed into it; questions about lake and marts."""

import os
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from orchestration.calls.ask import ask
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake, replace_all
from orchestration.warehouse.store import (
    CONNECTION_SETTINGS,
    UnknownRelationError,
    Warehouse,
    WarehouseError,
)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    lake = Lake(tmp_path / "lake")
    store(lake, [1, 2, 3])
    return Warehouse(tmp_path / "warehouse", lake)


def store(lake: Lake, values: list[int]) -> None:
    rows = pa.table({"n": pa.array(values, pa.int64())})
    replace_all(lake.snapshot("numbers") or lake.create("numbers", rows.schema), rows, {}, {})


def test_a_mart_is_built_from_the_lake_and_can_be_asked(warehouse: Warehouse) -> None:
    build = warehouse.build("total", "SELECT sum(n)::BIGINT AS total FROM numbers")
    assert (build.rows, build.columns, build.inputs) == (1, (("total", "BIGINT"),), {"numbers": 1})
    assert warehouse.names() == ("total",)
    assert warehouse.query("SELECT total, n FROM total, numbers WHERE n > 2").to_pylist() == [
        {"total": 6, "n": 3}
    ]


def test_a_reader_keeps_the_mart_that_it_opened(warehouse: Warehouse) -> None:
    path = warehouse.build("total", "SELECT sum(n)::BIGINT AS total FROM numbers").path
    with duckdb.connect(str(path), read_only=True) as reader:
        store(warehouse.lake, [10])
        warehouse.build("total", "SELECT sum(n)::BIGINT AS total FROM numbers")
        assert reader.sql("SELECT total FROM total").fetchall() == [(6,)]
    assert warehouse.query("SELECT total FROM total").to_pylist() == [{"total": 10}]


def test_a_question_that_is_too_large_for_memory_spills_into_a_folder_that_goes(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "current").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setattr(
        "orchestration.warehouse.store.CONNECTION_SETTINGS",
        {**CONNECTION_SETTINGS, "memory_limit": "60MB", "threads": 1},
    )
    ordered = "SELECT row_number() OVER (ORDER BY repeat(md5(i::VARCHAR), 4)) AS n FROM range(600000) AS t(i)"
    assert warehouse.query(f"SELECT sum(n)::BIGINT AS total FROM ({ordered})").to_pylist() == [
        {"total": 180_000_300_000}
    ]
    assert list((tmp_path / "temporary").iterdir()) == list((tmp_path / "current").iterdir()) == []


def test_a_mart_may_be_made_of_marts(warehouse: Warehouse) -> None:
    warehouse.build("total", "SELECT sum(n)::BIGINT AS total FROM numbers")
    warehouse.build("doubled", "WITH t AS (SELECT * FROM total) SELECT total * 2 AS doubled FROM t")
    assert warehouse.query("SELECT doubled FROM doubled").to_pylist() == [{"doubled": 12}]


def test_a_build_that_fails_leaves_the_old_mart_and_no_draft(warehouse: Warehouse) -> None:
    warehouse.build("total", "SELECT 1 AS total")
    with pytest.raises(
        WarehouseError, match=r"nowhere(.|\n)*tables of the lake: numbers; marts: total"
    ):
        warehouse.build("total", "SELECT * FROM nowhere")
    with pytest.raises(WarehouseError, match="syntax error"):
        warehouse.build("total", "SELECT FROM WHERE")
    assert [file.name for file in warehouse.directory.iterdir()] == ["total.duckdb"]
    assert warehouse.query("SELECT total FROM total").to_pylist() == [{"total": 1}]


def test_what_killed_builds_left_is_removed_once_it_is_old(warehouse: Warehouse) -> None:
    warehouse.build("total", "SELECT 1 AS total")
    old, young = (
        warehouse.directory / ".total.old.duckdb",
        warehouse.directory / ".total.young.duckdb",
    )
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    warehouse.build("total", "SELECT 2 AS total")
    assert sorted(file.name for file in warehouse.directory.iterdir()) == [
        ".total.young.duckdb",
        "total.duckdb",
    ]
    assert warehouse.names() == ("total",)


def test_dead_letters_are_a_relation(warehouse: Warehouse) -> None:
    DeadLetters(warehouse.lake).snapshot()
    assert warehouse.query("SELECT count(*) AS n FROM dead_letters").to_pylist() == [{"n": 0}]


@pytest.mark.parametrize(
    ("question", "said"),
    [("SELECT 1; SELECT 3", "2 statements"), (";", "no statement"), ("-- none", "no statement")],
)
def test_a_question_is_one_statement(warehouse: Warehouse, question: str, said: str) -> None:
    with pytest.raises(WarehouseError, match=f"a question is one SELECT, and .*{said}"):
        warehouse.query(question)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("INSERT INTO numbers VALUES (1)", "INSERT"),
        ("WITH one AS (SELECT 1) INSERT INTO numbers FROM one", "INSERT"),
        ("DELETE FROM topics.orders", "DELETE"),
        ("UPDATE numbers SET n = 1", "UPDATE"),
        ("CREATE TABLE more AS FROM numbers", "CREATE"),
        ("COPY numbers TO 'numbers.csv'", "COPY"),
    ],
)
def test_a_statement_that_writes_is_refused_before_it_runs(
    warehouse: Warehouse, statement: str, kind: str
) -> None:
    """DuckDB said that a view is not an table."""
    said = f"a question is one SELECT, and this is {kind}: questions only read, and runs of the project write"
    for ask_for in (warehouse.query, ask):
        with pytest.raises(WarehouseError) as refused:
            ask_for(statement)
        assert str(refused.value) == said


def test_explanations_and_descriptions_are_questions(warehouse: Warehouse) -> None:
    """They read, too."""
    for question in (
        "EXPLAIN SELECT n FROM numbers",
        "DESCRIBE numbers",
        "SUMMARIZE numbers",
        "VALUES (1)",
        "PRAGMA version",
    ):
        assert warehouse.query(question).num_rows


def test_one_statement_may_end_with_a_semicolon_and_a_remark(warehouse: Warehouse) -> None:
    assert warehouse.query("SELECT n FROM numbers WHERE n > 2; -- the last").to_pylist() == [
        {"n": 3}
    ]
    assert warehouse.query("PIVOT numbers ON n USING count(*)").num_rows == 1


@pytest.mark.parametrize(
    ("question", "name", "guess"),
    [
        ("SELECT * FROM numbres", "numbres", "numbers"),
        ("SELECT * FROM totals", "totals", "total"),
        ("SELECT * FROM dead_leters", "dead_leters", "dead_letters"),
        ("WITH per_day AS (SELECT 1) SELECT * FROM per_dya", "per_dya", ""),
        ("SELECT * FROM orders_per_country", "orders_per_country", ""),
    ],
)
def test_what_is_guessed_to_be_meant_is_a_relation_here(
    warehouse: Warehouse, question: str, name: str, guess: str
) -> None:
    warehouse.build("total", "SELECT 1 AS total")
    with pytest.raises(
        UnknownRelationError, match=f"Table with name {name} does not exist!"
    ) as refused:
        warehouse.query(question)
    assert refused.value.name == name
    guesses = [line for line in str(refused.value).splitlines() if line.startswith("Did you mean")]
    assert guesses == ([f'Did you mean "{guess}"?'] if guess else [])


def test_names_that_are_paths_are_refused(warehouse: Warehouse) -> None:
    with pytest.raises(ValueError, match="cannot be a mart's name"):
        warehouse.build("../total", "SELECT 1")


def numbers(
    warehouse: Warehouse, table: pa.Table, name: str = "wide", **settings: list[str]
) -> Lake:
    """Create a table and commit rows."""
    warehouse.lake.create(name, table.schema, partition_by=settings.get("partition_by"))
    write_deltalake(str(warehouse.lake.path(name)), table, mode="append")
    return warehouse.lake


def read_by_duckdb(warehouse: Warehouse, name: str) -> bool:
    """Whether DuckDB reads the table's files by itself."""
    with warehouse.connection(f"SELECT * FROM {name}", ":memory:") as (connection, _):
        return (
            "parquet" in str(connection.execute(f"EXPLAIN SELECT * FROM {name}").fetchall()).lower()
        )


WIDE = pa.table(
    {
        "n": pa.array([1, 2], pa.int64()),
        "text": ["a", None],
        "at": pa.array([0, 1_700_000_000_000_000], pa.timestamp("us", tz="UTC")),
        "local": pa.array([0, None], pa.timestamp("us")),
        "price": pa.array(["1.25", None]).cast(pa.decimal128(10, 2)),
        "raw": pa.array([b"\x00", None], pa.binary()),
        "day": pa.array([0, 1], pa.date32()),
        "names": pa.array([["x"], None], pa.list_(pa.string())),
        "place": pa.array([{"x": 1.5}, None], pa.struct([("x", pa.float64())])),
    }
)


def test_duckdb_reads_the_files_by_itself_and_finds_what_arrow_finds(warehouse: Warehouse) -> None:
    lake = numbers(warehouse, WIDE)
    assert read_by_duckdb(warehouse, "wide")
    found = warehouse.query("SELECT * FROM wide ORDER BY n")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("wide", lake.existing("wide").dataset())
        assert found.equals(pa.table(connection.sql("SELECT * FROM wide ORDER BY n")))


def test_rows_of_files_that_are_older_than_a_column_have_null_in_it(warehouse: Warehouse) -> None:
    numbers(warehouse, WIDE.select(["n"]))
    write_deltalake(
        str(warehouse.lake.path("wide")),
        WIDE.select(["text", "n"]),
        mode="append",
        schema_mode="merge",
    )
    assert read_by_duckdb(warehouse, "wide")
    assert warehouse.query(
        "SELECT n, text FROM wide WHERE text IS NULL ORDER BY n"
    ).to_pylist() == [
        {"n": 1, "text": None},
        {"n": 2, "text": None},
        {"n": 2, "text": None},
    ]


def test_tables_that_are_empty_or_partitioned_or_lie_in_odd_folders_are_read_through_arrow(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.lake.create("empty", WIDE.schema)
    assert not read_by_duckdb(warehouse, "empty")
    assert warehouse.query("SELECT count(*) AS n FROM empty").to_pylist() == [{"n": 0}]
    numbers(warehouse, WIDE.select(["n", "text"]), "parts", partition_by=["text"])
    assert not read_by_duckdb(warehouse, "parts")
    assert warehouse.query("SELECT n, text FROM parts ORDER BY n").to_pylist() == [
        {"n": 1, "text": "a"},
        {"n": 2, "text": None},
    ]
    odd = Warehouse(tmp_path / "warehouse", Lake(tmp_path / "la*ke"))
    numbers(odd, WIDE)
    assert not read_by_duckdb(odd, "wide")
    assert odd.query("SELECT count(*) AS n FROM wide").to_pylist() == [{"n": 2}]


def test_a_mart_reads_one_version_though_files_come_meanwhile(warehouse: Warehouse) -> None:
    numbers(warehouse, WIDE)
    with warehouse.connection("SELECT * FROM wide", ":memory:") as (connection, versions):
        write_deltalake(str(warehouse.lake.path("wide")), WIDE, mode="append")
        assert connection.sql("SELECT count(*) FROM wide").fetchall() == [(2,)]
    assert versions == {"wide": 1}
