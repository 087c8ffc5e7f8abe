"""Dagster shows dead letters.

A run tells of its rejections, the asset sums them up, and a job fixes them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from orchestration.dead_letters.table import DeadLetters
from orchestration.transforms.dagster_views.dead_letters import DEAD_LETTERS_KEY, dead_letters_asset
from tests.platform.assets_world import World, clean_orders, failure_of, orders_topic
from tests.platform.history_jobs import output_of, run_job
from tests.platform.pipeline import order

pytestmark = pytest.mark.platform
LETTERS = dead_letters_asset(["clean_orders"])


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> Iterator[World]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        made = World(tmp_path, spark, instance)
        made.materialize(orders_topic)
        partition = made.log.topics["orders"].partitions[0]
        for value in (order("a", 5), order("b", -5), order("a", 7), b"nonsense", order("c", 1)):
            partition.append(value)
        made_rows = made.materialize(clean_orders)
        assert made_rows.success, failure_of(made_rows)
        yield made


def letters(world: World) -> list[tuple[Any, ...]]:
    return [
        (row["_offset"], row["rule"], row["duplicate_of"])
        for row in DeadLetters(world.lake).of_target("clean_orders")
    ]


def rows(world: World) -> list[tuple[int, str]]:
    found = (
        world.lake.existing("clean_orders")
        .dataset()
        .to_table(columns=["_offset", "id"])
        .to_pylist()
    )
    return sorted((row["_offset"], row["id"]) for row in found)


def test_a_run_tells_what_it_rejected_and_whose_repetition_that_is(world: World) -> None:
    told = world.values(DEAD_LETTERS_KEY)
    assert {name: told[name] for name in told if name != "sample"} == {
        "table": "clean_orders",
        "rejected": 3,
        "rejected: amount_is_positive": 1,
        "rejected: schema": 1,
        "rejected: unique_by": 1,
    }
    sample = [
        (row.data["place"], row.data["rule"], row.data["duplicate of"], row.data["value"])
        for row in told["sample"].records
    ]
    assert ("0:2", "unique_by", "0:0", order("a", 7).decode()) in sample
    assert len(sample) == 3


def test_the_asset_is_not_stale_after_a_commit_that_rejected_nothing(world: World) -> None:
    world.log.topics["orders"].partitions[0].append(order("e", 1))
    assert world.materialize(clean_orders).success
    graph = dg.Definitions(
        assets=[orders_topic, clean_orders, LETTERS], resources=world.resources
    ).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(
        world.instance, graph, LoadingContextForTest(world.instance)
    )
    assert resolver.get_status(DEAD_LETTERS_KEY) is StaleStatus.FRESH


def test_the_asset_sums_up_the_table_by_reason_and_by_day(world: World) -> None:
    result = dg.materialize(
        [LETTERS], resources={"lake": world.resources["lake"]}, instance=world.instance
    )
    assert result.success
    told = world.values(DEAD_LETTERS_KEY)
    assert (told["dead_letters"], told["dagster/row_count"]) == (3, 3)
    assert {row.data["rule"]: row.data["count"] for row in told["reasons"].records} == {
        "amount_is_positive": 1, "schema": 1, "unique_by": 1,
    }  # fmt: skip
    assert sum(row.data["count"] for row in told["by_day"].records) == 3
    assert len(told["newest"].records) == 3


def test_a_fixed_record_is_put_into_the_table_once_and_stays_fixed_in_later_replays(
    world: World,
) -> None:
    assert letters(world) == [
        (1, "amount_is_positive", None),
        (2, "unique_by", "0:0"),
        (3, "schema", None),
    ]
    fixes = [
        {"partition": 0, "offset": 3, "value": order("d", 4).decode()},
        {"partition": 0, "offset": 1, "value": order("a", 9).decode()},
    ]

    assert output_of(run_job(world, {"fixes": fixes}))["rows"] == 1
    assert rows(world) == [(0, "a"), (3, "d"), (4, "c")]
    assert letters(world) == [(1, "unique_by", "0:0"), (2, "unique_by", "0:0")]

    assert output_of(run_job(world, {"everything": True}))["records"] == 5
    assert rows(world) == [(0, "a"), (3, "d"), (4, "c")]
    assert letters(world) == [(1, "unique_by", "0:0"), (2, "unique_by", "0:0")]


def test_what_was_not_rejected_cannot_be_fixed(world: World) -> None:
    refused = run_job(world, {"fixes": [{"partition": 0, "offset": 4, "value": "{}"}]})
    assert "clean_orders has no dead letter at 0:4" in failure_of(refused)
    assert rows(world) == [(0, "a"), (4, "c")]
