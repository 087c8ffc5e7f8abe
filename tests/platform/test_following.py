"""A run that follows its topic tells each commit at once and by itself.

It ends in every case, and loses nothing when it is killed.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration.transforms import is_announced
from orchestration.transforms.run.following import IDLE_S, PACE_S, follow
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.assets_world import KEY, World, clean_orders, failure_of, orders_topic
from tests.platform.killed_follow import KILLED, LOG
from tests.platform.pipeline import append_order, orders_table, rows_of, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> Iterator[World]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        found = World(tmp_path, spark, instance)
        found.materialize(orders_topic)
        yield found


def arriving(log: MemoryLog, *names: str) -> Callable[[int], None]:
    """Let one record arrive in each wait, and then none."""
    coming = list(names)

    def on_wait(_timeout_ms: int) -> None:
        if coming:
            append_order(log, coming.pop(0))

    return on_wait


def test_each_commit_of_a_run_is_materialized_with_its_own_offsets_and_checks(world: World) -> None:
    append_order(world.log, "a")
    world.log.on_wait = arriving(world.log, "b", "c")

    result = world.materialize(clean_orders, config={"follow_s": 600})

    assert result.success
    told: list[dict[str, Any]] = [
        {
            label: one.value
            for label, one in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
    ]
    offsets = [
        [(row.data["start"], row.data["end"]) for row in values["offsets"].records]
        for values in told
    ]
    assert offsets == [[(0, 1)], [(1, 2)], [(2, 3)]]
    versions = [values["table_version"] for values in told]
    assert versions == sorted(set(versions))
    assert len(result.get_asset_check_evaluations()) == 3 * len(list(clean_orders.check_specs))
    run = world.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags["tidelog/range"] == "0:[0,3)"
    assert world.log.mirrored["tidelog.clean_orders"] == {0: 3}
    checkpoints = world.lake.existing("clean_orders").checkpoints("id-of-orders", [0, 1])
    assert is_announced(world.instance, KEY, "id-of-orders", checkpoints)
    checks = world.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [spec.key for spec in clean_orders.check_specs]
    )
    assert {one.run_id for one in checks.values()} == {result.run_id}
    assert all(one.evaluation is not None and one.evaluation.passed for one in checks.values())
    newest = world.instance.fetch_materializations(KEY, limit=1).records[0].storage_id
    targets = [
        one.evaluation.target_materialization_data
        for one in checks.values()
        if one.evaluation is not None
    ]
    assert {one and one.storage_id for one in targets} == {newest}


def test_without_being_asked_a_run_is_one_range(world: World) -> None:
    append_order(world.log, "a")
    world.log.on_wait = arriving(world.log, "b")
    assert world.materialize(clean_orders).success
    assert world.log.waits == []
    assert rows_of(world.lake.root) == [(0, 0, "a")]


def test_a_forbidden_commit_ends_the_run_and_what_was_committed_stays(world: World) -> None:
    append_order(world.log, "a")
    world.log.on_wait = arriving(world.log, "x" * 30, "never read")

    result = world.materialize(clean_orders, config={"follow_s": 600})

    assert not result.success
    assert "rule id_is_short: 1 row violates length(id) < 20" in failure_of(result)
    assert rows_of(world.lake.root) == [(0, 0, "a")]
    assert [
        check.passed
        for check in result.get_asset_check_evaluations()
        if check.check_name == "id_is_short"
    ] == [True, False]
    assert len(result.get_asset_materialization_events()) == 1


@pytest.mark.parametrize(("follow_s", "ranges"), [(0, 1), (5, 2), (600, 3)])
def test_no_range_begins_after_the_time_is_over(
    spark: Any, lake_root: Path, follow_s: float, ranges: int
) -> None:
    log, now_s = MemoryLog(), 0.0
    log.add_topic("orders", 2)
    append_order(log, "a")
    arrive = arriving(log, "b", "c")

    def pass_time(timeout_ms: int) -> None:
        nonlocal now_s
        now_s += 5
        arrive(timeout_ms)

    log.on_wait = pass_time
    slept: list[float] = []
    results = list(
        follow(
            orders_table(),
            run_context(log, lake_root, spark),
            run=run_topic_table,
            follow_s=follow_s,
            now_s=lambda: now_s,
            sleep=slept.append,
        )
    )
    assert [one.version is not None for one in results] == [True] * ranges
    assert all(timeout_ms <= IDLE_S * 1000 for timeout_ms in log.waits)
    assert slept == [0.0] * (ranges - 1)  # the wait for a record took longer than the pace


def test_a_limit_of_records_cuts_a_backlog_into_commits_of_one_run(
    spark: Any, lake_root: Path
) -> None:
    log = MemoryLog()
    log.add_topic("orders", 2)
    for number in range(10):
        append_order(log, f"o{number}")
    slept: list[float] = []
    context = run_context(log, lake_root, spark, records_per_run=4)
    results = list(
        follow(
            orders_table(),
            context,
            run=run_topic_table,
            follow_s=600,
            now_s=lambda: 0.0,
            sleep=slept.append,
        )
    )
    assert [(one.ranges.count, one.backlog) for one in results] == [(4, 6), (4, 2), (2, 0)]
    assert slept == []
    assert [row[1] for row in rows_of(lake_root)] == list(range(10))


def test_ranges_of_a_steady_stream_begin_at_a_pace(spark: Any, lake_root: Path) -> None:
    log = MemoryLog()
    log.add_topic("orders", 2)
    append_order(log, "a")
    log.on_wait = arriving(log, "b", "c")
    slept: list[float] = []
    results = list(
        follow(
            orders_table(),
            run_context(log, lake_root, spark),
            run=run_topic_table,
            follow_s=600,
            now_s=lambda: 0.0,
            sleep=slept.append,
        )
    )
    assert len(results) == 3
    assert slept == [PACE_S, PACE_S]


def test_a_run_killed_between_commit_and_event_is_told_of_by_the_next(
    tmp_path: Path, spark: Any
) -> None:
    log = MemoryLog()
    log.add_topic("orders", 2)
    append_order(log, "a")
    (tmp_path / LOG).write_bytes(pickle.dumps(log))
    command = [sys.executable, "-m", "tests.platform.killed_follow", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert child.returncode == KILLED, child.stdout + child.stderr

    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        world = World(tmp_path, spark, instance)
        world.log.topics.update(log.topics)
        append_order(world.log, "b")  # what the run appended and committed before it died
        checkpoints = world.lake.existing("clean_orders").checkpoints("id-of-orders", [0, 1])
        assert checkpoints[0].next_offset == 2
        assert [one.status for one in instance.get_runs()] == [dg.DagsterRunStatus.STARTED]
        assert len(instance.fetch_materializations(KEY, limit=10).records) == 1
        assert not is_announced(instance, KEY, "id-of-orders", checkpoints)

        assert world.materialize(clean_orders, config={"follow_s": 600}).success
        assert world.values()["kind"] == "recovered"
        append_order(world.log, "c")
        assert world.materialize(clean_orders, config={"follow_s": 600}).success
        assert rows_of(world.lake.root) == [(0, 0, "a"), (0, 1, "b"), (0, 2, "c")]
