"""``tidelog replay``: what it refuses."""

import dagster as dg
import pytest
from click.testing import CliRunner

from orchestration.cli import surroundings
from orchestration.cli.replay import replay
from orchestration.marts.database_copy import sql_table
from orchestration.marts.mart import mart
from orchestration.resources import default_resources
from orchestration.topics.spec import TopicSpec, topic_asset


@pytest.mark.parametrize(
    "more",
    [["--offsets", "0:0-1"], ["--dead-letters"], ["--from", "2026-01-01"], ["--to", "2026-01-01"]],
    ids=str,
)
def test_everything_takes_no_choice_beside_it(more: list[str]) -> None:
    outcome = CliRunner().invoke(replay, ["orders", "--everything", *more])
    assert outcome.exit_code == 2
    assert "--everything leaves nothing to choose" in outcome.output


def test_a_time_that_ends_before_it_begins_is_refused() -> None:
    outcome = CliRunner().invoke(replay, ["orders", "--from", "2026-02-01", "--to", "2026-01-01"])
    assert outcome.exit_code == 2
    assert "--from is not before --to" in outcome.output


TOPIC = TopicSpec(name="sales_of_the_replay_command", schema="id INT")
PROJECT = dg.Definitions(
    assets=[
        topic_asset(TOPIC),
        mart("revenue", sql="SELECT 1 AS n", tables=["clean_sales"]),
        mart("yearly", sql="SELECT 1 AS n", tables=[], marts=["revenue"], is_automated=False),
        sql_table("sales_copy", table="clean_sales"),
        dg.AssetSpec(["lake", "elsewhere"]),
    ],
    resources=default_resources(),
)
CHANGES = "when one of these changes, as by a replay into it, or when"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "revenue",
            f"revenue is a mart: nothing is replayed into it. It is built anew from lake/clean_sales {CHANGES} marts/revenue is",
        ),
        (
            "yearly",
            "yearly is a mart: nothing is replayed into it. It is built anew from marts/revenue when marts/yearly is materialized",
        ),
        (
            "sales_copy",
            f"sales_copy is a copy in the SQL database: nothing is replayed into it. It is built anew from lake/clean_sales {CHANGES}",
        ),
        (
            "marts/revenue",
            "revenue is a mart: nothing is replayed into it. It is built anew from lake/clean_sales",
        ),
        ("elsewhere", "the project has no table elsewhere that follows a topic"),
        ("lake/elsewhere", "the project has no table elsewhere that follows a topic"),
        (TOPIC.name, f"the project has no table {TOPIC.name} that follows a topic"),
    ],
)
def test_what_is_built_anew_says_from_what_and_when(
    monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setattr(surroundings, "loaded_project", lambda: PROJECT)
    monkeypatch.setattr(surroundings, "found_settings", lambda: None)
    outcome = CliRunner().invoke(replay, [name, "--everything"])
    assert outcome.exit_code == 1
    assert said in outcome.output
