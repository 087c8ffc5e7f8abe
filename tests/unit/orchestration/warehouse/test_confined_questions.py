"""A question of another person reads its relations and nothing else, within bounds."""

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
        relations=relations, row_count=rows, answer_bytes=size_bytes, memory_bytes=64 << 20
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
