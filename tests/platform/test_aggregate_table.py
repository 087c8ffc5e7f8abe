"""A table of running aggregates counts each record once however runs are cut and killed.

All groups can be made anew.
"""

import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from orchestration.assembly import assemble
from orchestration.calls.replay import replay
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import Lake
from orchestration.offsets.planning import ProgressError
from orchestration.rows.aggregates import AggregateError, total
from orchestration.rows.upserts import replace_groups
from orchestration.topics.spec import topic_asset
from orchestration.transforms import spark_aggregate, table_key
from orchestration.transforms.kinds import kinds_of
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.to_lake import rebuilding
from orchestration.transforms.to_lake import run as lake_run
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.assets_world import World, failure_of
from tests.platform.dying import KILLED, exit_code
from tests.platform.grouped import (
    AGGREGATES,
    BY,
    REBUILD_STEPS,
    RULES,
    STEPS,
    append_orders,
    bonus,
    by_kind,
    grouped_table,
    groups_of,
    held_groups,
    run,
)
from tests.platform.pipeline import ORDERS, orders_table, run_context
from tests.unit.orchestration.archived import archive
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]
EVERYTHING = ReplayRequest(is_everything=True)


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
    assert [one["rule"] for one in DeadLetters(Lake(lake_root)).summary()].count(
        "aggregate_by"
    ) == 1
    assert sum(one.changes.inserted for one in results if one.changes is not None) == len(groups)


def test_what_cannot_be_computed_or_is_another_table_is_refused(
    log: MemoryLog, spark: Any, lake_root: Path
) -> None:
    context = run_context(log, lake_root, spark)
    with pytest.raises(AggregateError, match="the result lacks nothing"):
        run_topic_table(grouped_table(aggregates=(total("t", "nothing"),)), context)
    run_topic_table(grouped_table(), context)
    append_orders(log, 1)
    with pytest.raises(
        SchemaConflictError,
        match=r"by_kind keeps one row by kind, orders = count\(\*\), .*and its declaration keeps all rows",
    ):
        run_topic_table(orders_table(name="by_kind"), context)
    with pytest.raises(
        SchemaConflictError,
        match=r"its declaration keeps one row by kind, orders = total\(amount\)",
    ):
        run_topic_table(grouped_table(aggregates=(total("orders", "amount"),)), context)
    with pytest.raises(
        ProgressError, match="what a range gave to a group cannot be taken out of it"
    ):
        list(run_replay(grouped_table(), context, ReplayRequest(is_of_dead_letters=True)))
    assert held_groups(lake_root)
    with pytest.raises(ValueError, match="neither latest_by nor is_evolving"):
        grouped_table(is_evolving=True)


def doubling(records: Any) -> Any:
    """Today's function: amounts are worth twice as much, and what was rejected as too small may
    count.
    """
    return by_kind(records.selectExpr("* EXCEPT (amount)", "2 * amount + 2 AS amount"))


def doubled(log: MemoryLog) -> tuple[dict[str, tuple[int, int, int]], int]:
    return groups_of(log, lambda amount: 2 * amount + 2)


@pytest.mark.parametrize("is_archived", [False, True])
def test_all_groups_are_made_anew_of_what_they_count(
    log: MemoryLog, spark: Any, lake_root: Path, *, is_archived: bool
) -> None:
    append_orders(log, 1)
    context = run_context(log, lake_root, spark, records_per_run=7)
    while run_topic_table(grouped_table(), context).version is not None:
        pass
    whole = pickle.loads(pickle.dumps(log))
    append_orders(log, 2)
    if is_archived:
        archive(whole, Lake(lake_root))
        log.delete_records("orders", {0: 9, 1: 3})
    (result,) = run_replay(grouped_table(function=doubling), context, EVERYTHING)
    groups, rejected = doubled(whole)
    assert held_groups(lake_root) == groups
    assert groups != groups_of(whole)[0]
    assert DeadLetters(Lake(lake_root)).committed().count_rows() == rejected
    assert (result.kind, str(result.ranges), result.row_count) == (
        "replay",
        "0:[0,12) 1:[0,12)",
        len(groups),
    )
    assert result.next_offsets == {0: 12, 1: 12}
    while run_topic_table(grouped_table(function=doubling), context).version is not None:
        pass
    archived, rejected = doubled(whole_of(whole, log))
    assert held_groups(lake_root) == archived
    assert DeadLetters(Lake(lake_root)).committed().count_rows() == rejected


def whole_of(before: MemoryLog, now: MemoryLog) -> MemoryLog:
    """Return a log with all records that ever were."""
    for old, new in zip(
        before.topics["orders"].partitions, now.topics["orders"].partitions, strict=True
    ):
        old.records.update(new.records)
    return before


def test_groups_are_left_alone_where_what_they_count_is_gone(
    log: MemoryLog, spark: Any, lake_root: Path
) -> None:
    context = run_context(log, lake_root, spark)
    run_topic_table(grouped_table(), context)
    before = held_groups(lake_root)
    log.topics["orders"].configs["cleanup.policy"] = "compact,delete"
    with pytest.raises(ProgressError, match="the topic is compacted"):
        list(run_replay(grouped_table(), context, EVERYTHING))
    log.topics["orders"].configs["cleanup.policy"] = "delete"
    log.delete_records("orders", {1: 2})
    with pytest.raises(
        ProgressError,
        match=r"neither the log nor an archive of the topic holds orders-1 \[0, 2\), which the groups count",
    ):
        list(run_replay(grouped_table(), context, EVERYTHING))
    assert held_groups(lake_root) == before


def test_what_was_removed_before_it_was_counted_is_not_needed(
    log: MemoryLog, spark: Any, lake_root: Path
) -> None:
    log.delete_records("orders", {0: 2})
    run_topic_table(grouped_table(), run_context(log, lake_root, spark))
    append_orders(log, 1)
    whole = pickle.loads(pickle.dumps(log))
    log.delete_records("orders", {0: 9, 1: 8})
    context = run_context(log, lake_root, spark, is_loss_accepted=True)
    run_topic_table(grouped_table(), context)
    counted = held_groups(lake_root)
    archive(whole, Lake(lake_root))
    list(run_replay(grouped_table(), context, EVERYTHING))
    assert held_groups(lake_root) == counted


def test_groups_of_a_former_topic_are_not_forgotten(
    log: MemoryLog, spark: Any, lake_root: Path
) -> None:
    context = run_context(log, lake_root, spark)
    run_topic_table(grouped_table(), context)
    log.add_topic("orders", 2, topic_id="another")
    append_orders(log, 1)
    run_topic_table(grouped_table(), context)
    with pytest.raises(
        ProgressError, match="they also count records of a topic that is not there any more"
    ):
        list(run_replay(grouped_table(), context, EVERYTHING))


def test_groups_of_which_it_is_not_noted_what_they_count_are_left_alone(
    log: MemoryLog, spark: Any, lake_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = run_context(log, lake_root, spark)
    with monkeypatch.context() as patched:
        patched.setattr(lake_run, "commit_marks", lambda *_: {})
        run_topic_table(grouped_table(), context)
    with pytest.raises(
        ProgressError,
        match=r"an earlier release began the table, and did not note from where\. Nothing was changed",
    ):
        list(run_replay(grouped_table(), context, EVERYTHING))


def test_what_a_run_adds_meanwhile_is_counted_once(
    log: MemoryLog, spark: Any, lake_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = run_context(log, lake_root, spark, records_per_run=5)
    while run_topic_table(grouped_table(), context).version is not None:
        pass
    real, calls = replace_groups, []

    def late(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            append_orders(log, 1)
            run_topic_table(grouped_table(function=doubling), run_context(log, lake_root, spark))
        return real(*arguments, **more)

    monkeypatch.setattr(rebuilding, "replace_groups", late)
    log.reads.clear()
    list(run_replay(grouped_table(function=doubling), context, EVERYTHING))
    assert len(calls) == 2
    groups, rejected = doubled(log)
    assert held_groups(lake_root) == groups
    assert DeadLetters(Lake(lake_root)).committed().count_rows() == rejected


def test_dagster_shows_groups_and_makes_them_anew(tmp_path: Path, spark: Any) -> None:
    module = ModuleType("assets.orders")
    vars(module).update(orders_topic=topic_asset(ORDERS), by_kind=orders_by_kind)
    definitions = assemble([module])
    assert not definitions.resolve_asset_graph().has(dg.AssetKey(["history", "by_kind_by_day"]))
    assert definitions.resolve_job_def("replay_by_kind").description == (
        "Make all groups of the table by_kind anew (everything: true), of all records that they count"
    )
    with pytest.raises(
        ValueError,
        match=r"there is no replay of a part\. tidelog replay by_kind --everything --execute",
    ):
        replay("by_kind", dead_letters=True)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        world = World(tmp_path, spark, instance)
        world.log.add_topic("orders", 2)
        append_orders(world.log, 0)
        result = dg.materialize(
            [orders_by_kind], resources=world.resources, instance=instance, raise_on_error=False
        )
        assert result.success, failure_of(result)
        values = world.values(table_key("by_kind"))
        assert [
            values[name]
            for name in ("records", "rows_inserted", "rows_updated", "dagster/row_count")
        ] == [10, 4, 0, 4]
        assert [column.name for column in values["dagster/column_schema"].columns] == [
            "kind",
            "orders",
            "amount",
            "largest",
        ]
        before = held_groups(world.lake.root)
        jobs = kinds_of([orders_by_kind])[0].definitions().jobs
        job = dg.Definitions(
            jobs=jobs, resources=world.resources, executor=dg.in_process_executor
        ).resolve_job_def("replay_by_kind")
        ran = job.execute_in_process(
            {"ops": {"replay": {"config": {"everything": True}}}},
            instance=instance,
            raise_on_error=False,
        )
        assert ran.success, failure_of(ran)
        values = world.values(table_key("by_kind"))
        assert [values[name] for name in ("kind", "records", "rows", "dagster/row_count")] == [
            "replay",
            10,
            4,
            4,
        ]
        assert held_groups(world.lake.root) == before


def test_each_record_counts_once_however_runs_are_killed(
    spark_remote: str, log: MemoryLog, lake_root: Path
) -> None:
    assert exit_code(run, spark_remote, log, lake_root, "none", 1_000) == 0
    for number, step in enumerate(STEPS, start=1):
        append_orders(log, number)
        before = held_groups(lake_root)
        assert exit_code(run, spark_remote, log, lake_root, step, 1_000) == KILLED, step
        assert (held_groups(lake_root) != before) is (step == "after-the-commit"), step
        assert exit_code(run, spark_remote, log, lake_root, "none", 7) == 0, step
        groups, rejected = groups_of(log)
        assert held_groups(lake_root) == groups, f"recovered from {step}"
        assert DeadLetters(Lake(lake_root)).committed().count_rows() == rejected, (
            f"recovered from {step}"
        )


def test_groups_are_old_or_new_however_a_rebuild_is_killed(
    spark_remote: str, log: MemoryLog, lake_root: Path
) -> None:
    append_orders(log, 1)
    groups, rejected = groups_of(log)
    assert exit_code(run, spark_remote, log, lake_root, "none", 1_000) == 0
    whole = pickle.loads(pickle.dumps(log))
    archive(log, Lake(lake_root))
    log.delete_records("orders", {0: 7, 1: 12})
    for step in REBUILD_STEPS:
        assert exit_code(run, spark_remote, log, lake_root, step, 7) == KILLED, step
        is_done = step in {"rebuild-after-the-commit", "rebuild-before-tidying"}
        groups, rejected = groups_of(whole, bonus) if is_done else (groups, rejected)
        assert held_groups(lake_root) == groups, step
        assert DeadLetters(Lake(lake_root)).committed().count_rows() == rejected, step
    assert exit_code(run, spark_remote, log, lake_root, "rebuild", 7) == 0
    groups, rejected = groups_of(whole, bonus)
    assert held_groups(lake_root) == groups
    assert DeadLetters(Lake(lake_root)).committed().count_rows() == rejected
    assert DeadLetters(Lake(lake_root)).pending().count_rows() == 0
