"""A question of another person reads its relations and nothing else, within bounds."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from orchestration.calls.ask import ask
from orchestration.lake.tables import Lake
from orchestration.settings import load_settings
from orchestration.warehouse.store import Confinement, Warehouse, WarehouseError


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    lake = Lake(tmp_path / "lake")
    for name in ("orders", "salaries"):
        lake.create(name, pa.schema([("id", pa.int64())]))
        rows = pa.table({"id": pa.array(range(5_000), pa.int64())})
        write_deltalake(str(lake.path(name)), rows, mode="append")
    made = Warehouse(tmp_path / "marts", lake)
    made.build("daily", "SELECT count(*) AS n FROM orders")
    return made


def confined(*relations: str, rows: int = 10_000, size_bytes: int = 1 << 20) -> Confinement:
    return Confinement(
        relations=relations,
        row_count=rows,
        answer_bytes=size_bytes,
        memory_bytes=64 << 20,
        spill_bytes=16 << 20,
    )


def test_named_tables_and_marts_are_read(warehouse: Warehouse) -> None:
    own = confined("orders", "daily")
    found = warehouse.query("SELECT count(*) AS n FROM orders", confinement=own)
    assert found.to_pylist() == [{"n": 5_000}]
    assert warehouse.query("FROM daily", confinement=own).to_pylist() == [{"n": 5_000}]
    assert warehouse.relations_of("SELECT * FROM orders JOIN daily ON true, x") == {
        "orders",
        "daily",
    }


def test_a_table_that_is_not_among_the_relations_is_not_there(warehouse: Warehouse) -> None:
    with pytest.raises(WarehouseError, match="salaries does not exist"):
        warehouse.query("FROM orders, salaries", confinement=confined("orders"))


@pytest.mark.parametrize(
    "question",
    [
        "FROM read_text('{secret}')",
        "FROM read_blob('{secret}')",
        "FROM read_csv('{secret}')",
        "FROM '{secret}'",
        "FROM glob('{folder}/*')",
        "FROM read_parquet('{folder}/lake/salaries/*.parquet')",
        "FROM delta_scan('{folder}/lake/salaries')",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/written.csv'",
        "PRAGMA enable_external_access = true",
        "SELECT * FROM confinement",
        "CALL duckdb_secrets()",
    ],
)
def test_files_and_settings_and_variables_are_out_of_reach(
    warehouse: Warehouse, tmp_path: Path, question: str
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    asked = question.format(secret=secret, folder=tmp_path)
    with pytest.raises(WarehouseError):
        warehouse.query(asked, confinement=confined("orders"))
    assert not (tmp_path / "written.csv").exists()


def test_an_error_names_no_relation_beside_those_of_the_question(warehouse: Warehouse) -> None:
    with pytest.raises(WarehouseError) as refused:
        warehouse.query("FROM orders JOIN salarie USING (id)", confinement=confined("orders"))
    assert "orders" in str(refused.value)
    assert "salaries" not in str(refused.value)
    assert "daily" not in str(refused.value)


QUESTIONS_OF_FILES = ("FROM read_csv('{file}')", "FROM read_text('{file}') -- salaries")


@pytest.mark.parametrize("question", QUESTIONS_OF_FILES)
def test_relations_are_told_without_a_look_at_files(
    warehouse: Warehouse, tmp_path: Path, question: str
) -> None:
    """A pipe that no process writes held the process, and a guess at a file could be checked."""
    there, other = tmp_path / "there.csv", tmp_path / "other.csv"
    there.write_text("a,b\n1,2\n")
    asked = [question.format(file=each) for each in (there, other)]
    found = [warehouse.relations_of(each) for each in asked]
    assert found[0] == found[1]


@pytest.mark.timeout(60)
def test_no_step_of_a_confined_question_opens_a_file_that_it_names(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for question in (each.format(file=pipe) for each in QUESTIONS_OF_FILES):
        warehouse.relations_of(question)
        with pytest.raises(WarehouseError):
            warehouse.query(question, confinement=confined("orders"))


def test_a_question_spills_within_a_bound(warehouse: Warehouse) -> None:
    """DuckDB's own bound is nearly all the room of the disk."""
    sort = "SELECT * FROM (SELECT hash(range) h, repeat('x', 100) || range FROM range(2000000))"
    with pytest.raises(WarehouseError, match="max_temp_directory_size"):
        warehouse.query(f"{sort} ORDER BY h OFFSET 1500000", confinement=confined())


def test_an_answer_ends_behind_its_bounds(warehouse: Warehouse) -> None:
    few = warehouse.query("FROM range(1000000000)", confinement=confined(rows=10))
    assert 10 < few.num_rows < 10_000
    long = "SELECT repeat('x', 1000) AS t FROM range(1000000000)"
    small = warehouse.query(long, confinement=confined(rows=10**9, size_bytes=100_000))
    assert 100_000 < small.nbytes < 10_000_000


def test_a_topic_that_is_not_among_the_relations_is_refused(
    tmp_path: Path, warehouse: Warehouse
) -> None:
    settings = load_settings({"TIDELOG_DATA": str(tmp_path)})
    with pytest.raises(WarehouseError, match="may not read the topics salaries"):
        ask("FROM topics.salaries", settings=settings, confinement=confined("topics.orders"))
    assert warehouse.names() == ("daily",)
