"""Tables of running aggregates: each record counts once however runs are cut and killed, and nothing can be replayed into them."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from orchestration.aggregates import AggregateError, total
from orchestration.assembly import assemble
from orchestration.checkpoints import ProgressError
from orchestration.dead_letters import DeadLetters
from orchestration.replay import replay
from orchestration.schemas import SchemaConflictError
from orchestration.tables import Lake
from orchestration.topics import topic_asset
from orchestration.transforms import spark_aggregate, table_key
from orchestration.transforms.replay_plan import ReplayRequest
from orchestration.transforms.replay_run import run_replay
from orchestration.transforms.topic_run import run_topic_table
from tests.platform.assets_world import World, failure_of
from tests.platform.forking import forking
from tests.platform.grouped import (
    AGGREGATES,
    BY,
    KILLED,
    RULES,
    STEPS,
    append_orders,
    by_kind,
    exit_code,
    grouped_table,
    groups_of,
    held_groups,
)
from tests.platform.pipeline import ORDERS, orders_table, run_context
from tests.platform.spark_server import warm_server
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    made.add_topic("orders", 2)
    append_orders(made, 0)
    return made


@spark_aggregate(topic=ORDERS, by=BY, aggregates=AGGREGATES, rules=RULES, name="by_kind")
def orders_by_kind(records: Any) -> Any:
    """Orders by kind."""
    return by_kind(records)


def test_runs_of_any_size_make_the_same_groups(log: MemoryLog, spark: Any, lake_root: Path) -> None:
    append_orders(log, 1)
    context = run_context(log, lake_root, spark, records_per_run=6)
    results = []
    while (result := run_topic_table(grouped_table(), context)).version is not None:
        results.append(result)
    groups, rejected = groups_of(log)
    assert held_groups(lake_root) == groups
    assert DeadLetters(Lake(lake_root)).committed().count_rows() == rejected
    assert [one["rule"] for one in DeadLetters(Lake(lake_root)).summary()].count("aggregate_by") == 1
    assert sum(one.changes.inserted for one in results if one.changes is not None) == len(groups)


def test_what_cannot_be_computed_or_is_another_table_is_refused(log: MemoryLog, spark: Any, lake_root: Path) -> None:
    context = run_context(log, lake_root, spark)
    with pytest.raises(AggregateError, match="the result lacks nothing"):
        run_topic_table(grouped_table(aggregates=(total("t", "nothing"),)), context)
    run_topic_table(grouped_table(), context)
    append_orders(log, 1)
    with pytest.raises(
        SchemaConflictError, match=r"by_kind keeps one row by kind, orders = count\(\*\), .*and its declaration keeps all rows"
    ):
        run_topic_table(orders_table(name="by_kind"), context)
    with pytest.raises(SchemaConflictError, match=r"its declaration keeps one row by kind, orders = total\(amount\)"):
        run_topic_table(grouped_table(aggregates=(total("orders", "amount"),)), context)
    with pytest.raises(ProgressError, match="what a range gave to a group cannot be taken out of it"):
        list(run_replay(grouped_table(), context, ReplayRequest(is_everything=True)))
    assert held_groups(lake_root)
    with pytest.raises(ValueError, match="neither latest_by nor is_evolving"):
        grouped_table(is_evolving=True)


def test_dagster_shows_groups_and_offers_no_replay(tmp_path: Path, spark: Any) -> None:
    module = ModuleType("assets.orders")
    vars(module).update(orders_topic=topic_asset(ORDERS), by_kind=orders_by_kind)
    graph = assemble([module]).resolve_asset_graph()
    assert not graph.has(dg.AssetKey(["history", "by_kind_by_day"]))
    with pytest.raises(ValueError, match="there is no replay"):
        replay("by_kind", everything=True)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        world = World(tmp_path, spark, instance)
        world.log.add_topic("orders", 2)
        append_orders(world.log, 0)
        result = dg.materialize([orders_by_kind], resources=world.resources, instance=instance, raise_on_error=False)
        assert result.success, failure_of(result)
        values = world.values(table_key("by_kind"))
        assert [values[name] for name in ("records", "rows_inserted", "rows_updated", "dagster/row_count")] == [10, 4, 0, 4]
        assert [column.name for column in values["dagster/column_schema"].columns] == ["kind", "orders", "amount", "largest"]


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with warm_server(tmp_path_factory.mktemp("server")) as (url, _):
        yield url


@pytest.mark.slow
def test_each_record_counts_once_however_runs_are_killed(remote: str, log: MemoryLog, lake_root: Path) -> None:
    forked = forking()
    assert exit_code(forked, remote, log, lake_root, "none", 1_000) == 0
    for number, step in enumerate(STEPS, start=1):
        append_orders(log, number)
        before = held_groups(lake_root)
        assert exit_code(forked, remote, log, lake_root, step, 1_000) == KILLED, step
        assert (held_groups(lake_root) != before) is (step == "after-the-commit"), step
        assert exit_code(forked, remote, log, lake_root, "none", 7) == 0, step
        groups, rejected = groups_of(log)
        assert held_groups(lake_root) == groups, f"recovered from {step}"
        assert DeadLetters(Lake(lake_root)).committed().count_rows() == rejected, f"recovered from {step}"
