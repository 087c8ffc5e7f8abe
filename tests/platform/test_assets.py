"""The assets in Dagster: what a run materializes, what its checks say, and what a failure tells."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest

from orchestration.lake.range_commits import append_with_offsets
from orchestration.marts.mart import mart, mart_key
from orchestration.sensing import lag_objective
from orchestration.topics.spec import TopicSpec, topic_specs
from orchestration.transforms import is_announced, spark_table, table_key, topic_feeds
from orchestration.transforms.to_lake import run as lake_run
from tests.platform.assets_world import (
    ASSETS,
    KEY,
    World,
    by_kind,
    clean_orders,
    failure_of,
    orders_sql,
    orders_topic,
    totals,
)
from tests.platform.pipeline import ORDERS, RULES, order

pytestmark = pytest.mark.platform


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> Iterator[World]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        yield World(tmp_path, spark, instance)


def test_from_an_empty_log_to_an_answered_question(world: World) -> None:
    assert world.materialize(orders_topic).success
    partition = world.log.topics["orders"].partitions[1]
    for name, amount in [("a1", 5), ("a2", 70), ("b1", 500), ("b2", -3)]:
        partition.append(order(name, amount))

    result = world.materialize(clean_orders, totals, by_kind, orders_sql)

    assert result.success
    values = world.values()
    assert {
        name: values[name]
        for name in ("rows", "records", "dead_letters", "lag", "high_watermark", "seconds_behind")
    } == {
        "rows": 3,
        "records": 4,
        "dead_letters": 1,
        "lag": 0,
        "high_watermark": 4,
        "seconds_behind": 0.0,
    }
    assert [dict(row.data) for row in values["offsets"].records] == [
        {"partition": 1, "start": 0, "end": 4, "high_watermark": 4, "lag": 0}
    ]
    checks = {
        check.check_name: (check.passed, check.severity.value)
        for check in result.get_asset_check_evaluations()
    }
    assert checks == {
        "amount_is_positive": (False, "WARN"),
        "amount_is_small": (True, "WARN"),
        "id_is_short": (True, "ERROR"),
        "amount_up_to_100": (False, "WARN"),
        "has_amount": (True, "WARN"),
    }
    run = world.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags["tidelog/range"] == "1:[0,4)"
    assert world.log.mirrored == {"tidelog.clean_orders": {1: 4}}
    assert world.warehouse.query("SELECT * FROM by_kind").to_pylist() == [
        {"kind": "a", "total": 75},
        {"kind": "b", "total": 500},
    ]
    assert world.warehouse.query(
        "SELECT rule, count(*) AS n FROM dead_letters GROUP BY rule"
    ).to_pylist() == [{"rule": "amount_is_positive", "n": 1}]


def test_an_objective_is_judged_after_each_commit(world: World) -> None:
    """Else Dagster shows the check as not evaluated from each commit on."""
    lag_objective(clean_orders, within_s=60)
    check = dg.AssetCheckKey(KEY, "keeps_up")
    world.materialize(orders_topic)
    for name in ("a", "b"):
        world.log.topics["orders"].partitions[0].append(order(name))
        assert world.materialize(clean_orders).success
        (record,) = world.instance.event_log_storage.get_asset_check_execution_history(
            check, limit=1
        )
        assert record.evaluation is not None
        assert record.evaluation.passed
        assert asyncio.run(
            record.targets_latest_materialization(LoadingContextForTest(world.instance))
        )


def test_a_check_is_linked_to_the_materialization_of_its_own_rows(world: World) -> None:
    """Dagster linked it to the run before, because the check was told first."""
    world.materialize(orders_topic)
    for name in ("a", "b"):
        world.log.topics["orders"].partitions[0].append(order(name))
        result = world.materialize(clean_orders)
        newest = world.instance.fetch_materializations(KEY, limit=1).records[0].storage_id
        linked = [one.target_materialization_data for one in result.get_asset_check_evaluations()]
        assert linked
        assert {one and one.storage_id for one in linked} == {newest}


def test_nothing_new_materializes_nothing_but_tells_what_a_killed_run_could_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.materialize(orders_topic)
    world.log.topics["orders"].partitions[0].append(order("a"))

    def killed_after(*args: Any, **kwargs: Any) -> Any:
        append_with_offsets(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(lake_run, "append_with_offsets", killed_after)
        assert not world.materialize(clean_orders).success
    snapshot = world.lake.existing("clean_orders")
    checkpoints = snapshot.checkpoints("id-of-orders", [0, 1])
    assert not is_announced(world.instance, KEY, "id-of-orders", checkpoints)

    assert world.materialize(clean_orders).success
    assert world.values()["kind"] == "recovered"
    assert is_announced(world.instance, KEY, "id-of-orders", checkpoints)
    count = len(world.instance.fetch_materializations(KEY, limit=10).records)
    assert world.materialize(clean_orders).success
    assert len(world.instance.fetch_materializations(KEY, limit=10).records) == count


def test_a_broken_fail_rule_shows_its_check_and_materializes_nothing(world: World) -> None:
    world.materialize(orders_topic)
    world.log.topics["orders"].partitions[0].append(order("x" * 30))
    result = world.materialize(clean_orders)
    assert not result.success
    assert "rule id_is_short: 1 row violates length(id) < 20" in failure_of(result)
    assert {
        check.check_name for check in result.get_asset_check_evaluations() if not check.passed
    } == {"id_is_short"}
    assert world.values() == {}
    assert world.lake.snapshot("clean_orders") is None


def test_a_replay_is_asked_for_by_config(world: World) -> None:
    world.materialize(orders_topic)
    partition = world.log.topics["orders"].partitions[0]
    for number in range(4):
        partition.append(order(f"o{number}"))
    world.materialize(clean_orders)
    partition.records[2] = (0, 0, None, order("changed"))
    result = world.materialize(
        clean_orders, config={"replay": [{"partition": 0, "start": 2, "end": 3}]}
    )
    assert result.success
    assert world.values()["kind"] == "replay"
    assert world.values()["tidelog/checkpoint"] == "id-of-orders 0:4"
    assert sorted(world.lake.existing("clean_orders").dataset().to_table()["id"].to_pylist()) == [
        "changed",
        "o0",
        "o1",
        "o3",
    ]
    refused = world.materialize(clean_orders, config={"replay_from": "yesterday"})
    assert "'yesterday' is not a time" in failure_of(refused)


def test_missing_topic_and_missing_inputs_say_what_to_do(world: World) -> None:
    failed = world.materialize(clean_orders)
    assert "materialize topics/orders, which creates it" in failure_of(failed)
    waiting = world.materialize(totals, by_kind, orders_sql)
    assert waiting.success
    assert waiting.get_asset_materialization_events() == []


def test_declarations_can_be_found_again() -> None:
    assert topic_specs(ASSETS) == (ORDERS,)
    (feed,) = topic_feeds(ASSETS)
    assert (feed.asset_key, feed.topic, feed.minimum_interval_s) == (KEY, "orders", 7)
    assert clean_orders.automation_conditions_by_key == {}
    assert totals.automation_conditions_by_key.keys() == {table_key("totals")}
    assert clean_orders.op.pool == "table_clean_orders"


def test_columns_and_rows_are_told_under_the_names_that_dagster_knows(world: World) -> None:
    world.materialize(orders_topic)
    partition = world.log.topics["orders"].partitions[0]
    for number in range(2):
        partition.append(order(f"o{number}"))
        world.materialize(clean_orders)
    world.materialize(totals, by_kind)
    keys = (KEY, table_key("totals"), mart_key("by_kind"))
    told = [world.values(key) for key in keys]
    assert [values["dagster/row_count"] for values in told] == [2, 1, 1]
    columns = [
        [column.name for column in values["dagster/column_schema"].columns] for values in told
    ]
    assert columns == [
        ["_topic_id", "_partition", "_offset", "_timestamp", "id", "amount"],
        ["kind", "total"],
        ["kind", "total"],
    ]
    described = {
        column.name: column.description for column in told[0]["dagster/column_schema"].columns
    }
    assert (described["_offset"], described["amount"]) == (
        "The record's offset in its partition",
        "in cents",
    )
    declared = orders_topic.metadata_by_key[ORDERS.asset_key]["dagster/column_schema"]
    assert [(one.name, one.type, one.constraints.nullable) for one in declared.columns] == [
        ("id", "string", False),
        ("amount", "int", False),
        ("note", "string", True),
    ]


def test_a_mart_is_described_in_prose_and_by_its_sql() -> None:
    made = mart("by_day", sql="""
        SELECT 1
          FROM totals
        """, tables=["totals"])  # fmt: skip
    assert (
        made.descriptions_by_key[mart_key("by_day")]
        == "Built anew whenever totals changes.\n\n```sql\nSELECT 1\n  FROM totals\n```"
    )


def test_declarations_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="either from a topic or from tables"):
        spark_table()(lambda records: records)
    with pytest.raises(ValueError, match="takes 2 parameters and there are 1 sources"):
        spark_table(topic=ORDERS, name="x")(lambda one, two: one)
    with pytest.raises(ValueError, match="has no records to put aside: make amount_is_positive"):
        spark_table(tables=["a"], name="x", rules=RULES)(lambda one: one)
    with pytest.raises(ValueError, match="need a topic"):
        spark_table(tables=["a"], name="x", unique_by=["id"])(lambda one: one)
    with pytest.raises(ValueError, match="lake's own table"):
        spark_table(topic=ORDERS, name="dead_letters")(lambda one: one)
    with pytest.raises(ValueError, match="cannot be a topic's name"):
        TopicSpec(name="no spaces")
