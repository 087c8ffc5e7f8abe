"""Dagster shows replays as days of partitions and as a job with a form.

Events of the table's asset tell of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest
from dagster._core.snap import build_config_schema_snapshot
from dagster._core.snap.snap_to_yaml import default_values_from_type_snap

from orchestration.resources import default_resources
from orchestration.transforms import table_key
from orchestration.transforms.dagster_views.replays import (
    DRY_RUN_TAG,
    NODE,
    REFUSED_TAG,
    REPLAYED_TABLE_TAG,
    ReplayConfig,
)
from orchestration.transforms.to_lake.history import replay_job
from tests.platform.assets_world import ASSETS, World, clean_orders, failure_of, orders_topic
from tests.platform.history_jobs import HISTORY, JOB, output_of, run_job
from tests.platform.pipeline import order, orders_table
from tests.unit.orchestration.archived import archive

pytestmark = pytest.mark.platform
DAY_MS = 86_400_000
NEW_YEAR_MS = 1_767_225_600_000
DAYS = {f"2026-01-0{number}" for number in range(1, 6)}


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> Iterator[World]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        made = World(tmp_path, spark, instance)
        made.materialize(orders_topic)
        partition = made.log.topics["orders"].partitions[0]
        for number in range(5):
            partition.append(order(f"o{number}"), timestamp_ms=NEW_YEAR_MS + number * DAY_MS)
        made_rows = made.materialize(clean_orders)
        assert made_rows.success, failure_of(made_rows)
        for offset, (stamp, epoch, key, _) in list(partition.records.items()):
            partition.records[offset] = (stamp, epoch, key, order(f"changed{offset}"))
        yield made


def ids(world: World) -> list[str]:
    return sorted(world.lake.existing("clean_orders").dataset().to_table()["id"].to_pylist())


def backfill(world: World, first: str, last: str) -> dg.ExecuteInProcessResult:
    """Run what the backfill page starts for days that follow one another."""
    return dg.materialize(
        [*ASSETS, HISTORY],
        selection=[HISTORY.key],
        resources=world.resources,
        instance=world.instance,
        tags={
            "dagster/asset_partition_range_start": first,
            "dagster/asset_partition_range_end": last,
        },
        raise_on_error=False,
    )


def test_days_are_partitions_and_a_backfill_of_some_replays_just_their_records(
    world: World,
) -> None:
    assert backfill(world, "2026-01-02", "2026-01-03").success
    assert ids(world) == ["changed1", "changed2", "o0", "o3", "o4"]
    told = world.values(HISTORY.key)
    assert {name: told[name] for name in ("rows", "records", "commits", "offsets")} == {
        "rows": 2, "records": 2, "commits": 1, "offsets": "0:[1,3)",
    }  # fmt: skip


def test_days_of_committed_records_are_there_without_a_backfill(world: World) -> None:
    """The page of the asset showed them as missing."""
    assert world.instance.get_materialized_partitions(HISTORY.key) == DAYS
    partition = world.log.topics["orders"].partitions[0]
    partition.append(order("again"), timestamp_ms=NEW_YEAR_MS + DAY_MS)
    partition.append(order("later"), timestamp_ms=NEW_YEAR_MS + 8 * DAY_MS)
    partition.append(order("ahead"), timestamp_ms=NEW_YEAR_MS + 80_000 * DAY_MS)
    partition.append(order("early"), timestamp_ms=0)
    assert world.materialize(clean_orders).success
    assert world.instance.get_materialized_partitions(HISTORY.key) == {*DAYS, "2026-01-09"}
    assert len(world.instance.fetch_materializations(HISTORY.key, limit=100).records) == 6, (
        "each day is told once"
    )


def test_the_table_tells_what_was_replaced_and_keeps_its_checkpoint(world: World) -> None:
    result = backfill(world, "2026-01-05", "2026-01-05")
    assert result.success
    told = world.values(table_key("clean_orders"))
    assert (told["kind"], told["tidelog/checkpoint"]) == ("replay", "id-of-orders 0:5")
    assert {check.check_name for check in result.get_asset_check_evaluations()} >= {
        "amount_is_positive",
        "id_is_short",
    }
    run = world.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert (run.tags["tidelog/table"], run.tags["tidelog/range"]) == ("clean_orders", "0:[4,5)")


def test_a_day_without_records_replays_nothing(world: World) -> None:
    assert backfill(world, "2025-06-01", "2025-06-30").success
    assert world.values(HISTORY.key)["offsets"] == "none"
    assert "changed0" not in ids(world)


def test_days_that_retention_removed_are_refused(world: World) -> None:
    world.log.delete_records("orders", {0: 2})
    before = ids(world)
    for first, last in (("2026-01-01", "2026-01-01"), ("2026-01-02", "2026-01-03")):
        result = backfill(world, first, last)
        assert not result.success
        assert f"the day {first} cannot be replayed" in failure_of(result)
        assert "retention has removed orders-0 [0, 2)" in failure_of(result)
        assert len(world.instance.fetch_materializations(HISTORY.key, limit=100).records) == len(
            DAYS
        ), "nothing was replayed"
    assert ids(world) == before
    assert backfill(world, "2026-01-04", "2026-01-04").success
    assert "no_longer_in_the_log" not in world.values(HISTORY.key)


def test_days_that_retention_removed_are_replayed_from_the_archive(world: World) -> None:
    archive(world.log, world.lake)
    world.log.delete_records("orders", {0: 4})
    with mock.patch.object(world.log, "offsets_at", wraps=world.log.offsets_at) as asked:
        assert backfill(world, "2026-01-02", "2026-01-03").success
    assert asked.call_count == 3
    assert ids(world) == ["changed1", "changed2", "o0", "o3", "o4"]
    told = world.values(HISTORY.key)
    assert {name: told.get(name) for name in ("rows", "offsets", "offsets_from_the_archive", "no_longer_in_the_log")} == {
        "rows": 2, "offsets": "0:[1,3)", "offsets_from_the_archive": 2, "no_longer_in_the_log": None,
    }  # fmt: skip


def test_a_span_of_time_of_which_a_part_is_left_says_what_is_missing(world: World) -> None:
    world.log.delete_records("orders", {0: 2})
    config = {"from_time": "2026-01-02T00:00:00Z", "to_time": "2026-01-04T00:00:00Z"}
    for is_dry in (True, False):
        told = output_of(run_job(world, {**config, "dry_run": is_dry}))
        assert told["offsets"] == "0:[2,3)"
        assert "retention has removed orders-0 [0, 2)" in told["no_longer_in_the_log"]
        assert "the topic has no archive" in told["no_longer_in_the_log"]
    assert ids(world) == ["changed2", "o0", "o1", "o3", "o4"]


def test_the_job_shows_what_it_would_do_and_does_it(world: World) -> None:
    config = {"from_time": "2026-01-02T00:00:00Z", "to_time": "2026-01-04T00:00:00Z"}
    planned = run_job(world, {**config, "dry_run": True})
    assert output_of(planned) == {"offsets": "0:[1,3)", "offset_count": 2, "dry_run": True}
    assert "changed1" not in ids(world)
    assert output_of(run_job(world, config))["rows"] == 2
    assert ids(world) == ["changed1", "changed2", "o0", "o3", "o4"]
    assert output_of(run_job(world, {"everything": True}))["records"] == 5
    assert ids(world) == [f"changed{number}" for number in range(5)]


def test_a_job_that_is_told_nothing_or_nonsense_says_what_to_give(world: World) -> None:
    assert "say what to replay" in failure_of(run_job(world, {}))
    assert "'soon' is not a time" in failure_of(run_job(world, {"from_time": "soon"}))
    assert "reaches above the checkpoint 5" in failure_of(
        run_job(world, {"offsets": [{"partition": 0, "start": 3, "end": 9}]})
    )


def test_tags_of_its_run_name_the_table_and_tell_a_dry_run_and_a_refusal(world: World) -> None:
    """In the list of runs a dry run looked like a replay, and a refusal had neither table nor
    reason.
    """
    refused = {"offsets": [{"partition": 0, "start": 3, "end": 9}]}
    runs = [
        world.instance.get_run_by_id(run_job(world, config).run_id)
        for config in ({"everything": True, "dry_run": True}, refused)
    ]
    dry, failed = (
        {tag: value for tag, value in run.tags.items() if tag.startswith("tidelog/")}
        for run in runs
        if run is not None
    )
    assert dry == {REPLAYED_TABLE_TAG: "clean_orders", DRY_RUN_TAG: "true"}
    assert failed.pop(REFUSED_TAG).startswith(
        "clean_orders: orders-0: the replay [3, 9) reaches above the checkpoint 5"
    )
    assert failed == {REPLAYED_TABLE_TAG: "clean_orders"}


def test_a_piece_that_breaks_a_rule_ends_the_replay_and_changes_nothing(world: World) -> None:
    stamp, epoch, key, _ = world.log.topics["orders"].partitions[0].records[3]
    world.log.topics["orders"].partitions[0].records[3] = (stamp, epoch, key, order("x" * 30))
    assert "rule id_is_short: 1 row violates" in failure_of(run_job(world, {"everything": True}))
    assert ids(world) == ["o0", "o1", "o2", "o3", "o4"]


def test_both_wait_for_the_pool_of_the_table() -> None:
    assert HISTORY.op.pool == "table_clean_orders"
    assert JOB.get_node_named(NODE).definition.pool == "table_clean_orders"  # type: ignore[attr-defined]


def test_the_launchpad_begins_with_every_field_of_the_form() -> None:
    snapshot = build_config_schema_snapshot(JOB)
    root = snapshot.get_config_snap(JOB.run_config_schema.run_config_schema_type.key)
    (form,) = default_values_from_type_snap(root, snapshot)["ops"].values()
    assert form["config"].keys() == ReplayConfig.model_fields.keys()
    assert (form["config"]["from_time"], form["config"]["to_time"]) == ("", "")


def test_a_repository_takes_the_jobs_of_several_tables_beside_their_assets() -> None:
    jobs = [JOB, replay_job(orders_table(name="others"))]
    repository = dg.Definitions(
        assets=[*ASSETS, HISTORY], jobs=jobs, resources=default_resources()
    ).get_repository_def()
    assert {"replay_clean_orders", "replay_others"} <= {
        job.name for job in repository.get_all_jobs()
    }
