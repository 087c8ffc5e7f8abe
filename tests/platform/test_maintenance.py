"""Upkeep removes what may go, keeps what is needed, and says in numbers what it did."""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import RetentionPass
from orchestration.maintenance.history import (
    Limits,
    delete_runless_events,
    history_asset,
    prune,
    purge_ticks,
)
from orchestration.maintenance.lake import keep_table
from orchestration.maintenance.retention import BY_ITSELF, decide_deletions, run_retention
from orchestration.offsets.planning import Checkpoint, PartitionOffsets
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.retained.lag import lag_of
from orchestration.transforms import TopicFeed, table_key
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform


EVERYTHING = Limits(days=0, event_days=0)


def feed(table: str) -> TopicFeed:
    return TopicFeed(
        asset_key=table_key(table), table=table, topic="orders", minimum_interval_s=None
    )


def orders(count: int, partitions: int = 1) -> MemoryLog:
    log = MemoryLog()
    for partition in log.add_topic("orders", partitions).partitions:
        for _ in range(count):
            partition.append(b"x")
    return log


def committed(lake: Lake, table: str, end: int) -> None:
    rows = pa.table({"id": ["x"] * end})
    ranges = OffsetRanges(
        topic="orders",
        topic_id="id-of-orders",
        ranges=(OffsetRange(partition=0, start=0, end=end),),
    )
    append_with_offsets(lake.create(table, rows.schema), rows, ranges, {}, expected={})


def offsets(log_start_offset: int = 0) -> PartitionOffsets:
    return PartitionOffsets(
        partition=0, log_start_offset=log_start_offset, last_stable_offset=10, high_watermark=10
    )


def test_records_go_up_to_the_slowest_table() -> None:
    fast = lag_of("orders", "id", [offsets()], {0: Checkpoint(next_offset=9)})
    slow = lag_of("orders", "id", [offsets()], {0: Checkpoint(next_offset=4)})
    assert decide_deletions([fast, slow]) == {0: 4}


def test_a_table_that_has_read_nothing_keeps_every_record() -> None:
    fast = lag_of("orders", "id", [offsets()], {0: Checkpoint(next_offset=9)})
    assert decide_deletions([fast, lag_of("orders", "id", [offsets()], {})]) == {}


def test_what_is_gone_already_is_not_deleted_again() -> None:
    assert (
        decide_deletions([lag_of("orders", "id", [offsets(6)], {0: Checkpoint(next_offset=6)})])
        == {}
    )
    assert decide_deletions([]) == {}


def test_a_pass_deletes_what_was_read_and_reports_segments_and_bytes(lake_root: Path) -> None:
    log, lake = orders(10), Lake(lake_root)
    committed(lake, "clean", 7)
    log.retention = (
        RetentionPass(topic="orders", partition=0, segments=2, bytes=300, log_start_offset=7),
        RetentionPass(topic="other", partition=0, segments=1, bytes=50, log_start_offset=1),
        RetentionPass(topic="other", partition=1, segments=0, bytes=0, log_start_offset=0),
    )
    report = run_retention(log, lake, [feed("clean")])
    assert log.calls == ["delete_records", "apply_retention"]
    assert log.topics["orders"].partitions[0].log_start_offset == 7
    numbers = {
        name: value.value
        for name, value in report.metadata().items()
        if name not in {"removed", "pass"}
    }
    assert numbers == {
        "segments_removed": 3,
        "bytes_removed": 350,
        "partitions_looked_at": 3,
        "records_deleted": 7,
    }


def test_brokers_that_clean_by_themselves_are_left_to_it_and_records_are_deleted_all_the_same(
    lake_root: Path,
) -> None:
    log, lake = orders(10), Lake(lake_root)
    committed(lake, "clean", 10)
    log.retention = None
    report = run_retention(log, lake, [feed("clean")])
    assert report.deleted == {"orders": 10}
    assert report.metadata()["pass"].value == BY_ITSELF


def test_without_a_declaration_no_record_is_deleted(lake_root: Path) -> None:
    log, lake = orders(10), Lake(lake_root)
    committed(lake, "clean", 10)
    run_retention(log, lake, [])
    assert log.calls == ["apply_retention"]


def test_many_small_files_become_few_and_rows_and_checkpoint_stay(lake_root: Path) -> None:
    lake = Lake(lake_root)
    committed(lake, "clean", 5)
    for _ in range(5):
        write_deltalake(lake.existing("clean").delta, pa.table({"id": ["y"]}), mode="append")
    done = keep_table(lake, "clean", retention_hours=0, many_files=4)
    assert (done.files_merged, done.files_deleted) == (6, 6)
    after = lake.existing("clean")
    assert len(after.files) == 1
    assert after.row_count == 10
    assert after.checkpoints("id-of-orders", [0])[0].next_offset == 5


def append_files(lake: Lake, count: int, rows: int) -> None:
    for number in range(count):
        ids = [hashlib.sha256(f"{number} {row}".encode()).hexdigest() for row in range(rows)]
        write_deltalake(lake.existing("clean").delta, pa.table({"id": ids}), mode="append")


def test_a_second_pass_with_nothing_new_writes_nothing(lake_root: Path) -> None:
    lake = Lake(lake_root)
    committed(lake, "clean", 5)
    append_files(lake, 20, 2_000)
    assert keep_table(lake, "clean", retention_hours=168, many_files=16).files_merged > 0
    before, on_disk = lake.existing("clean"), set(lake.path("clean").iterdir())
    done = keep_table(lake, "clean", retention_hours=168, many_files=16)
    assert (done.files_merged, lake.existing("clean").version) == (0, before.version)
    assert set(lake.path("clean").iterdir()) == on_disk


def test_files_that_can_be_merged_no_further_get_no_new_version(lake_root: Path) -> None:
    lake = Lake(lake_root)
    committed(lake, "clean", 5)
    append_files(lake, 4, 6_000)
    size = max(lake.existing("clean").file_sizes) + 1_000
    lake.compact("clean", target_bytes=size)
    version = lake.existing("clean").version
    assert len(lake.existing("clean").files) > 1
    assert lake.compact("clean", target_bytes=size).get("numFilesRemoved", 0) == 0
    assert lake.existing("clean").version == version


def test_steady_appends_do_not_have_the_large_file_written_again_each_time(lake_root: Path) -> None:
    """Four passes over twenty new files each once wrote the whole table four times."""
    lake = Lake(lake_root)
    committed(lake, "clean", 5)
    written = 0
    for _ in range(4):
        append_files(lake, 20, 500)
        before = set(lake.existing("clean").files)
        keep_table(lake, "clean", retention_hours=168, many_files=16)
        after = lake.existing("clean")
        written += sum(file.stat().st_size for file in set(after.files) - before)
        assert len(after.files) < 16
    assert after.row_count == 5 + 4 * 20 * 500
    assert written < 2 * after.size_bytes


def test_a_table_of_few_files_gets_no_new_version(lake_root: Path) -> None:
    lake = Lake(lake_root)
    committed(lake, "clean", 5)
    before = lake.existing("clean").version
    keep_table(lake, "clean", retention_hours=1, many_files=4)
    assert lake.existing("clean").version == before


@dg.asset(output_required=False)
def sometimes(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
    if "quiet" not in context.run.tags:
        yield dg.MaterializeResult()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as opened:
        yield opened


def materialize(instance: dg.DagsterInstance, **tags: str) -> str:
    return dg.materialize([sometimes], instance=instance, tags=tags).run_id


def test_old_runs_are_forgotten_with_their_files(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    old = [materialize(instance), materialize(instance, quiet="yes")]
    newest = materialize(instance)
    done = prune(instance, EVERYTHING, time.time() + 60)
    assert done.runs == 2
    assert done.bytes_freed > 50_000
    assert [run.run_id for run in instance.get_runs()] == [newest]
    assert not [path for path in tmp_path.rglob("*") if path.name.removesuffix(".db") in old]


@pytest.mark.parametrize(("home", "deleted"), [("data/dagster", 1), ("company", 0)])
def test_the_standard_upkeep_forgets_nothing_of_an_instance_that_others_use(
    instance: dg.DagsterInstance,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: str,
    deleted: int,
) -> None:
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / home))
    materialize(instance, quiet="yes")
    upkeep = history_asset(limits=Limits(days=-1, event_days=-1), is_own_instance_only=True)
    ran = dg.materialize([upkeep], instance=instance)
    (told,) = ran.asset_materializations_for_node(upkeep.op.name)
    assert told.metadata["runs_deleted"].value == deleted


def test_the_run_of_an_assets_newest_materialization_stays(instance: dg.DagsterInstance) -> None:
    told = materialize(instance)
    materialize(instance, quiet="yes")
    assert prune(instance, EVERYTHING, time.time() + 60).runs == 1
    event = instance.get_latest_materialization_event(sometimes.key)
    assert event is not None
    assert event.run_id == told


def test_young_runs_and_runs_that_have_not_ended_stay(instance: dg.DagsterInstance) -> None:
    materialize(instance, quiet="yes")
    assert prune(instance, EVERYTHING, time.time() - 60).runs == 0
    instance.add_run(dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED))
    assert prune(instance, EVERYTHING, time.time() + 60).runs == 1
    assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.STARTED]


def test_runs_that_succeeded_are_counted_and_those_that_failed_are_not(
    instance: dg.DagsterInstance,
) -> None:
    materialize(instance)
    instance.add_run(dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.FAILURE))
    surplus, young, newest = (materialize(instance, quiet="yes") for _ in range(3))
    done = prune(instance, Limits(succeeded_runs=2), time.time())
    assert done.runs == 1, "the oldest holds a materialization and stays"
    left = {run.run_id for run in instance.get_runs()}
    assert surplus not in left
    assert {young, newest} <= left
    assert len(left) == 4


def test_of_events_without_a_run_the_newest_of_each_asset_stays(
    instance: dg.DagsterInstance,
) -> None:
    for value in range(4):
        for name in ("a", "b"):
            instance.report_runless_asset_event(dg.AssetObservation(name, metadata={"lag": value}))
    instance.report_runless_asset_event(
        dg.AssetMaterialization("a", metadata={"high_watermark": 9})
    )
    assert delete_runless_events(instance, time.time() - 60) == 0
    assert delete_runless_events(instance, time.time() + 60) == 6
    kept = {
        name: instance.fetch_observations(dg.AssetKey(name), limit=10).records
        for name in ("a", "b")
    }
    assert [
        [record.asset_observation.metadata["lag"].value for record in records]  # type: ignore[union-attr]
        for records in kept.values()
    ] == [[3], [3]]
    assert instance.get_latest_materialization_event(dg.AssetKey("a")) is not None


def test_of_events_without_a_run_the_newest_of_each_partition_stays(
    instance: dg.DagsterInstance,
) -> None:
    """Days of a table's history are told once, and are there for good."""
    key = dg.AssetKey(["history", "orders_by_day"])
    for day in ("2026-01-01", "2026-01-01", "2026-01-02"):
        instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=day))
    assert delete_runless_events(instance, time.time() + 60) == 1
    assert instance.get_materialized_partitions(key) == {"2026-01-01", "2026-01-02"}


def test_ticks_are_purged_for_every_sensor_that_has_a_state(instance: dg.DagsterInstance) -> None:
    purge_ticks(instance, time.time())
    assert list(instance.all_instigator_state()) == []
