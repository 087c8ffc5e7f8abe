"""``tidelog lag`` shows the rows and the lag of each table, and whether its last run failed."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from orchestration.cli import surroundings
from orchestration.cli.lag import lag
from orchestration.installation.instance import open_instance, write_configuration
from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import Lake
from orchestration.log_client import connection
from orchestration.log_client.protocol import LogServiceError
from orchestration.marts.mart import mart
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.project.home import dagster_home
from orchestration.resources import default_resources
from orchestration.topics.spec import TopicSpec, topic_asset
from orchestration.transforms import spark_duckdb_table, spark_table, spark_topic
from orchestration.warehouse.store import Warehouse
from tests.unit.orchestration.memory_log import MemoryLog

ORDERS = TopicSpec(name="orders", schema="id BIGINT")
COPIES = TopicSpec(name="copies")
EARLY_MS = 1_767_225_600_000


@spark_table(topic=ORDERS)
def clean_orders(records: Any) -> Any:
    """Orders."""
    return records.select("id", "_topic_id", "_partition", "_offset")


@spark_duckdb_table(topic=ORDERS, key="id", table="fresh")
def stored_orders(records: Any) -> Any:
    """Orders in a file."""
    return records.select("id", "_topic_id", "_partition", "_offset")


@spark_topic(source=ORDERS, target=COPIES)
def copied_orders(records: Any) -> Any:
    """Orders in another topic."""
    return records


revenue = mart("revenue", sql="SELECT id FROM clean_orders", tables=[clean_orders])
PROJECT = dg.Definitions(
    assets=[
        topic_asset(ORDERS),
        topic_asset(COPIES),
        clean_orders,
        stored_orders,
        copied_orders,
        revenue,
    ],
    resources=default_resources(),
)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """Five orders, of which the table has three, and a mart of these."""
    made, lake = MemoryLog(), Lake(tmp_path / "lake")
    partition = made.add_topic("orders").partitions[0]
    made.add_topic("copies")
    for _ in range(5):
        partition.append(b"{}", timestamp_ms=EARLY_MS)
    ranges = OffsetRanges(
        topic="orders", topic_id="id-of-orders", ranges=(OffsetRange(partition=0, start=0, end=3),)
    )
    snapshot = lake.create("clean_orders", pa.schema([pa.field("id", pa.int64())]))
    append_with_offsets(
        snapshot, pa.table({"id": pa.array([1, 2, 3], pa.int64())}), ranges, {}, expected={}
    )
    Warehouse(tmp_path / "warehouse", lake).build("revenue", "SELECT id FROM clean_orders LIMIT 2")

    @contextmanager
    def connect(_servers: str, **_: object) -> Iterator[MemoryLog]:
        yield made

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr(surroundings, "loaded_project", lambda: PROJECT)
    monkeypatch.setattr(connection, "connect", connect)
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    return made


def told(*arguments: str) -> Result:
    return CliRunner().invoke(lag, arguments)


@pytest.mark.usefixtures("log")
def test_rows_and_lag_of_each_table_are_told() -> None:
    """They were hard to find in the terminal."""
    outcome = told("--json")
    assert outcome.exit_code == 0, outcome.output
    rows = {row["table"]: row for row in json.loads(outcome.output)}
    assert {name: (row["topics"], row["rows"], row["lag"]) for name, row in rows.items()} == {
        "clean_orders": (["orders"], 3, 2),
        "copied_orders": (["orders"], None, 5),
        "revenue": (None, 2, None),
        "stored_orders": (["orders"], None, 5),
    }
    assert rows["clean_orders"]["seconds_behind"] > 0
    assert told("lake/clean_orders").output.splitlines()[0].split() == [
        "TABLE",
        "TOPICS",
        "ROWS",
        "LAG",
        "SECONDS_BEHIND",
        "FAILURE",
    ]


@pytest.mark.usefixtures("log")
def test_a_table_that_is_not_there_is_refused() -> None:
    """The names that there are help on."""
    outcome = told("nosuch")
    assert outcome.exit_code == 1
    assert (
        "the project has no table nosuch; it has clean_orders, copied_orders, revenue, stored_orders"
        in outcome.output
    )


@pytest.mark.usefixtures("log")
def test_a_failed_last_run_is_told(tmp_path: Path) -> None:
    """Rows and lag stand still then."""
    home = dagster_home(tmp_path)
    write_configuration(home)
    with open_instance(home) as instance:
        instance.add_run(
            dg.DagsterRun(
                job_name="job",
                status=dg.DagsterRunStatus.FAILURE,
                asset_selection=frozenset({clean_orders.key}),
            )
        )
    (row,) = json.loads(told("clean_orders", "--json").output)
    assert row["failure"] == "no reason was given"


@pytest.mark.usefixtures("log")
def test_without_a_log_service_rows_are_told_and_the_exit_code_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lake answers all the same."""

    def connect(*_: object, **__: object) -> None:
        raise LogServiceError("no broker at 127.0.0.1:9092")

    monkeypatch.setattr(connection, "connect", connect)
    outcome = told("clean_orders")
    assert outcome.exit_code == 1
    assert "lag is not known: no broker at 127.0.0.1:9092" in outcome.output
    assert ["clean_orders", "orders", "3", "-", "-", "-"] in [
        line.split() for line in outcome.output.splitlines()
    ]
