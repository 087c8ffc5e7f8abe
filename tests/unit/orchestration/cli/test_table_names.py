"""Names of tables are taken bare or as the Dagster UI shows them, and unknown ones are refused."""

import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner

from orchestration.cli import surroundings
from orchestration.cli.dead_letters import dead_letters
from orchestration.cli.table_names import table_named
from orchestration.lake.tables import Lake
from orchestration.project.new import write_project
from orchestration.resources import default_resources
from orchestration.topics.spec import TopicSpec, topic_asset
from orchestration.transforms import spark_table
from tests.unit.orchestration.dead_letter_parts import TARGET_SCHEMA


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("clean_orders", "clean_orders"),
        ("lake/clean_orders", "clean_orders"),
        ("lake / clean_orders", "clean_orders"),
        ("marts/revenue", "revenue"),
        ("history/clean_orders_by_day", "clean_orders"),
        ("topics/orders", "topics/orders"),
    ],
)
def test_an_asset_key_names_its_table(given: str, name: str) -> None:
    """The key that the Dagster UI shows was not understood."""
    assert table_named(given) == name


ORDERS = TopicSpec(name="orders", schema="id BIGINT")


@spark_table(topic=ORDERS)
def clean_orders(records: Any) -> Any:
    """Orders."""
    return records.select("id", "_topic_id", "_partition", "_offset")


PROJECT = dg.Definitions(assets=[topic_asset(ORDERS), clean_orders], resources=default_resources())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_project(tmp_path / "shop")
    Lake(tmp_path / "lake").create("of_the_lake", TARGET_SCHEMA)
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr(surroundings, "loaded_project", lambda: PROJECT)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["list", "nosuch"], 1, "there is no table or topic nosuch; there are clean_orders"),
        (["show", "nosuch", "0:1"], 1, "there is no table or topic nosuch; there are clean_orders"),
        (["replay", "nosuch"], 1, "there is no table or topic nosuch; there are clean_orders"),
        (
            ["fix", "nosuch", "0:1", "--value", "{}"],
            1,
            "there is no table or topic nosuch; there are clean_orders",
        ),
        (
            ["list", "orders"],
            1,
            "orders is a topic, and dead letters belong to tables: name clean_orders",
        ),
        (["list", "lake/clean_orders"], 0, "clean_orders has no dead letters"),
        (["list", "of_the_lake"], 0, "of_the_lake has no dead letters"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_table_that_is_not_there_is_refused(
    project: Path, arguments: list[str], exit_code: int, said: str
) -> None:
    """The exit code was 0, as if the table had no dead letters."""
    outcome = CliRunner().invoke(dead_letters, arguments, env={"TIDELOG_DATA": str(project)})
    assert (outcome.exit_code, said in outcome.output) == (exit_code, True), outcome.output
