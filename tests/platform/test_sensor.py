"""The topic sensor starts runs, tells, or waits.

It has a log in memory and Dagster's real storage.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME

from orchestration.lake.tables import Lake, TableSnapshot
from orchestration.log_client.protocol import LogServiceAwayError, LogServiceError
from orchestration.project.location import DEFINITIONS
from orchestration.resources.lake import LakeResource
from orchestration.retained.archive import Archive
from orchestration.sensing.topic_sensor import (
    LOG_TIMEOUT_MS,
    LOOKS_WITHIN_S,
    TABLE_TAG,
    TELLS_WITHIN_S,
    WAIT_S,
)
from orchestration.topics.spec import TopicSpec, topic_asset
from orchestration.transforms import spark_table
from orchestration.transforms.archiving.assets import archive_asset
from tests.platform.sensor_world import KEY, World, append, told

pytestmark = pytest.mark.platform
TOPIC_KEY = dg.AssetKey(["topics", "orders"])


@pytest.fixture
def world(lake_root: Path) -> Iterator[World]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield World(instance, lake_root)


def started(result: Any) -> list[str]:
    return [request.tags[TABLE_TAG] for request in result.run_requests or []]


def test_records_start_one_run_of_their_table_and_are_told(world: World) -> None:
    append(world, 3)
    oldest_s = world.log.topics["orders"].partitions[0].records[0][0] / 1000
    result = world.tick()
    assert started(result) == ["clean_orders"]
    assert result.run_requests[0].asset_selection == [KEY]
    assert result.run_requests[0].run_key is None
    assert told(result) == {
        "AssetMaterialization": {"high_watermark": 3, "records_retained": 3, "partitions": 1},
        "AssetObservation": {
            "lag": 3,
            "seconds_behind": pytest.approx(world.now_s - oldest_s),
            "committed_offset": 0,
        },
    }
    assert {event.asset_key for event in result.asset_events} == {KEY, TOPIC_KEY}


def test_a_tick_waits_for_records_and_ends_when_one_comes(world: World) -> None:
    append(world, 0)
    began_s = world.now_s

    def one_comes(timeout_ms: int) -> None:
        assert timeout_ms == 15_000
        world.sleep(7)
        append(world, 1)

    world.log.on_wait = one_comes
    assert started(world.tick()) == ["clean_orders"]
    assert world.now_s - began_s == pytest.approx(7)


def test_a_quiet_tick_ends_after_its_time_with_a_reason(world: World) -> None:
    append(world, 0)
    began_s = world.now_s
    result = world.tick()
    assert started(result) == []
    assert result.skip_reason == dg.SkipReason("no new records")
    assert world.now_s - began_s == pytest.approx(15), "the lag was not told before"


def test_a_tick_waits_longer_where_all_was_read_and_told(world: World) -> None:
    append(world, 3)
    world.commit(3)
    world.tick()
    began_s = world.now_s
    assert started(world.tick()) == []
    assert world.now_s - began_s == pytest.approx(30)

    def one_comes(_timeout_ms: int) -> None:
        world.sleep(7 if world.now_s > began_s else 15)
        if world.now_s > began_s + 15:
            append(world, 1)

    began_s, world.log.on_wait = world.now_s, one_comes
    assert started(world.tick()) == ["clean_orders"]
    assert world.now_s - began_s == pytest.approx(22), "a record is seen at once"


def test_a_tick_that_waits_longer_ends_when_the_project_was_loaded_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(world, 3)
    world.commit(3)
    world.tick()
    began_s = world.now_s

    def load_anew(timeout_ms: int) -> None:
        world.sleep(timeout_ms / 1000)
        monkeypatch.setitem(sys.modules, DEFINITIONS, ModuleType(DEFINITIONS))

    world.log.on_wait = load_anew
    assert started(world.tick()) == []
    assert world.now_s - began_s == pytest.approx(15)


def test_what_was_read_starts_nothing_and_lag_is_told_to_be_zero(world: World) -> None:
    append(world, 3)
    world.tick()
    world.commit(3)
    result = world.tick()
    assert started(result) == []
    assert told(result) == {
        "AssetObservation": {"lag": 0, "seconds_behind": 0.0, "committed_offset": 3},
    }
    assert told(world.tick()) == {}


def test_a_lag_that_stood_still_is_told_before_it_grows(world: World) -> None:
    append(world, 3)
    world.commit(3)
    world.tick()
    world.sleep(600)
    append(world, 2)
    lags = [
        event.metadata["lag"].value for event in world.tick().asset_events if event.asset_key == KEY
    ]
    assert lags == [0, 2]


def test_a_commit_that_was_not_told_starts_a_run(world: World) -> None:
    append(world, 3)
    world.commit(3, is_told=False)
    assert started(world.tick()) == ["clean_orders"]


@pytest.mark.parametrize(
    "status",
    [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING],
)
def test_a_run_in_flight_keeps_others_from_starting(
    world: World, status: dg.DagsterRunStatus
) -> None:
    append(world, 3)
    world.run(status)
    result = world.tick()
    assert started(result) == []
    assert result.skip_reason == dg.SkipReason("a run is in flight of clean_orders")


def test_a_look_loads_each_table_of_the_lake_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule of an archive loaded its table three times, beside the lag."""
    clicks = TopicSpec(name="clicks", archive=Archive(kept_days=1))
    world.define(topic_asset(clicks), archive_asset(clicks))
    world.log.add_topic("clicks").partitions[0].append(b"{}")
    append(world, 3)
    loaded: list[str] = []
    load = Lake.snapshot

    def counted(lake: Lake, name: str) -> TableSnapshot | None:
        loaded.append(name)
        return load(lake, name)

    monkeypatch.setattr(Lake, "snapshot", counted)
    assert started(world.tick()) == ["clean_orders", "clicks_archive"]
    assert sorted(loaded) == ["clean_orders", "clicks_archive"]


def test_a_run_that_ended_makes_room_after_the_interval(world: World) -> None:
    append(world, 3)
    world.run(dg.DagsterRunStatus.SUCCESS)
    began_s = world.now_s
    assert started(world.tick()) == ["clean_orders"]
    assert world.now_s - began_s == pytest.approx(5, abs=1)


def test_a_table_that_fails_is_tried_ever_more_rarely(world: World) -> None:
    append(world, 3)
    for _ in range(3):
        world.run(dg.DagsterRunStatus.FAILURE, **{"dagster/failure_reason": "STEP_FAILURE"})
    result = world.tick()
    assert started(result) == []
    told_when = re.fullmatch(
        r"clean_orders failed 3 times in a row: tried again at \d\d:\d\d:\d\d UTC",
        result.skip_reason.skip_message,
    )
    assert told_when, result.skip_reason
    world.sleep(30)
    assert started(world.tick()) == ["clean_orders"]


def test_a_table_that_failed_is_tried_anew_once_the_project_was_loaded_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corrected table waited for up to five minutes."""
    append(world, 3)
    for _ in range(6):
        world.run(dg.DagsterRunStatus.FAILURE, **{"dagster/failure_reason": "STEP_FAILURE"})
    assert started(world.tick()) == []
    loaded = ModuleType(DEFINITIONS)
    vars(loaded)["LOADED_S"] = world.now_s
    monkeypatch.setitem(sys.modules, DEFINITIONS, loaded)
    assert started(world.tick()) == ["clean_orders"]


def test_a_log_that_was_truncated_below_the_checkpoint_starts_a_run_that_reports_it(
    world: World,
) -> None:
    append(world, 3)
    world.commit(3)
    world.log.topics["orders"].partitions[0].log_end_offset = 1
    assert started(world.tick()) == ["clean_orders"]


def test_a_log_service_that_is_away_is_a_reason_to_skip(world: World) -> None:
    world.unreachable = True
    result = world.tick()
    assert isinstance(result, dg.SkipReason)
    assert result.skip_message == "the log service does not answer within 5000 ms"


def test_the_first_tick_creates_what_is_declared_and_a_topic_that_is_deleted_later_is_named(
    world: World,
) -> None:
    created = world.tick()
    assert world.log.topics["orders"].partitions[0].log_end_offset == 0
    assert created.skip_reason == dg.SkipReason("no new records")
    assert "created" in [event.description for event in created.asset_events]
    del world.log.topics["orders"]
    assert world.tick().skip_reason == dg.SkipReason(
        "no new records; topics that do not exist: orders"
    )
    assert "orders" not in world.log.topics


def test_a_difference_that_cannot_be_reconciled_is_told_once(world: World) -> None:
    world.log.add_topic("orders", 5)
    told_of = [event for event in world.tick().asset_events if "declaration" in event.metadata]
    assert [event.asset_key for event in told_of] == [TOPIC_KEY]
    assert "has 5 partitions, 1 is declared; partitions are never removed" in told_of[0].description
    assert not [event for event in world.tick().asset_events if "declaration" in event.metadata]


def test_a_lost_cursor_costs_a_repeated_event_and_nothing_else(world: World) -> None:
    append(world, 3)
    world.commit(3)
    world.tick()
    world.cursor = None
    result = world.tick()
    assert started(result) == []
    assert set(told(result)) == {"AssetMaterialization", "AssetObservation"}


def test_a_table_that_the_project_has_no_more_leaves_the_cursor(world: World) -> None:
    other = TopicSpec(name="other")
    world.log.create_topic("other", partitions=1, replication_factor=1, configs={})

    @spark_table(topic=other)
    def gone(records: Any) -> Any:
        """A table of another topic."""
        return records

    world.define(topic_asset(other), gone)
    world.tick()
    assert {"gone", "other"} <= set(re.findall(r"\w+", world.cursor or ""))
    world.define()
    world.tick()
    assert not {"gone", "other"} & set(re.findall(r"\w+", world.cursor or ""))
    assert "clean_orders" in (world.cursor or "")


def test_a_run_is_started_with_its_own_checks_only(world: World) -> None:
    append(world, 3)
    assert world.tick().run_requests[0].asset_check_keys == []


def test_a_run_is_of_no_declared_job_so_that_the_list_of_runs_names_its_table(world: World) -> None:
    """Dagster's list of runs names the job of a run.

    It names its assets only where the job is the hidden one of all assets.
    """
    append(world, 3)
    context = dg.build_sensor_context(
        instance=world.instance,
        repository_def=world.repository,
        resources={
            "log_service": world.log_service,
            "lake": LakeResource(root=str(world.lake_root)),
        },
    )
    (request,) = world.sensor.evaluate_tick(context).run_requests or ()
    assert request.job_name == IMPLICIT_ASSET_JOB_NAME
    assert request.asset_selection == [KEY]


@pytest.mark.parametrize(
    ("interval_s", "run_config"),
    [(0, {"ops": {"lake__clean_orders": {"config": {"follow_s": 300}}}}), (5, {})],
)
def test_only_a_table_without_an_interval_is_followed(
    lake_root: Path, interval_s: int, run_config: dict[str, Any]
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        world = World(instance, lake_root, interval_s)
        append(world, 3)
        request = world.tick().run_requests[0]
        assert request.run_config == run_config
        job = world.repository.get_implicit_job_def_for_assets([KEY])
        assert job is not None
        job = job.get_subset(asset_selection={KEY})
        assert dg.validate_run_config(job, request.run_config)


def test_records_that_come_all_the_time_do_not_make_a_tick_spin(world: World) -> None:
    append(world, 3)
    world.run(dg.DagsterRunStatus.STARTED)
    world.log.on_wait = lambda _timeout_ms: append(world, 1)
    result = world.tick()
    assert started(result) == []
    assert len(world.log.waits) <= 16


def test_records_that_retention_took_unread_start_a_run_that_says_so_and_hold_up_no_tick(
    world: World,
) -> None:
    append(world, 3)
    world.commit(1)
    world.log.delete_records("orders", {0: 3})
    began_s = world.now_s
    result = world.tick()
    assert started(result) == ["clean_orders"]
    assert told(result)["AssetObservation"]["lag"] == 2
    assert world.now_s - began_s <= 15
    assert world.log.reads == []


@pytest.mark.parametrize("refused", ["partition_offsets", "describe_topic"])
def test_a_table_that_cannot_be_looked_at_leaves_the_others_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    append(world, 3)
    others = world.log.add_topic("others")
    others.partitions[0].append(b"{}")

    @spark_table(topic=TopicSpec(name="others", schema="id STRING"))
    def clean_others(records: Any) -> Any:
        """Others."""
        return records

    world.define(clean_others)
    asked = getattr(world.log, refused)

    def refuse(topic: str) -> Any:
        if topic == "orders":
            raise LogServiceError("the partition orders-0 has no leader")
        return asked(topic)

    monkeypatch.setattr(world.log, refused, refuse)
    assert started(world.tick()) == ["clean_others"]
    others.partitions[0].log_end_offset = others.partitions[0].log_start_offset
    skipped = world.tick()
    assert (
        "the table clean_orders cannot be looked at: the partition orders-0 has no leader"
        in skipped.skip_reason.skip_message
    )


def test_topics_that_may_be_described_and_not_read_cost_no_tick_its_lags(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(world, 3)
    world.commit(3)
    began_s = world.now_s

    def refuse(*_: object) -> Any:
        raise LogServiceError("TOPIC_AUTHORIZATION_FAILED")

    monkeypatch.setattr(world.log, "wait_for_records", refuse)
    result = world.tick()
    assert told(result)["AssetObservation"]["lag"] == 0
    assert result.skip_reason.skip_message == "no new records"
    assert world.now_s - began_s == pytest.approx(15, abs=0.1)


def test_a_log_service_that_goes_away_within_a_wait_is_a_reason_to_skip(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(world, 3)
    world.commit(3)

    def go_away(*_: object) -> Any:
        raise LogServiceAwayError("no broker responds")

    monkeypatch.setattr(world.log, "wait_for_records", go_away)
    assert world.tick().skip_message == "no broker responds"


def test_a_log_service_that_goes_away_within_a_tick_is_asked_once_and_not_for_each_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(world, 3)
    asked: list[str] = []

    def go_away(topic: str) -> Any:
        asked.append(topic)
        raise LogServiceAwayError("no broker responds")

    @spark_table(topic=TopicSpec(name="others", schema="id STRING"))
    def clean_others(records: Any) -> Any:
        """Others."""
        return records

    world.define(clean_others)
    monkeypatch.setattr(world.log, "describe_topic", go_away)
    skipped = world.tick()
    assert (skipped.skip_message, asked) == ("no broker responds", ["orders"])


def follower(topic: str) -> dg.AssetsDefinition:
    """Return a table that follows a topic of its own."""

    @spark_table(
        topic=TopicSpec(name=topic, schema="id STRING"), name=f"clean_{topic}", minimum_interval_s=0
    )
    def clean(records: Any) -> Any:
        """Records."""
        return records

    return clean


def test_leaders_that_are_away_end_no_tick_late_and_hold_up_no_other_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = [f"a{number:02}" for number in range(20)]
    for topic in (*silent, "orders", "zebras"):
        world.log.add_topic(topic)
    world.define(*map(follower, [*silent, "zebras"]))
    offsets_of, asked = world.log.partition_offsets, []

    def take_long(topic: str) -> Any:
        asked.append(topic)
        if topic in silent:
            world.sleep(LOG_TIMEOUT_MS / 1000)
            raise LogServiceAwayError("broker 2 does not respond")
        return offsets_of(topic)

    monkeypatch.setattr(world.log, "partition_offsets", take_long)
    looked_at: set[str] = set()
    known_after = len(silent) * LOG_TIMEOUT_MS / 1000 / WAIT_S
    for number in range(12):
        asked.clear()
        append(world, 1)
        world.log.topics["zebras"].partitions[0].append(b"{}")
        began_s = world.now_s
        result = world.tick()
        assert world.now_s - began_s <= WAIT_S + LOOKS_WITHIN_S + LOG_TIMEOUT_MS / 1000
        looked_at.update(asked)
        if number >= known_after:
            assert started(result) == ["clean_orders", "clean_zebras"]
            assert asked[:2] == ["orders", "zebras"]
    assert looked_at == {*silent, "orders", "zebras"}


def test_how_long_records_wait_is_not_asked_where_a_tick_took_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(world, 3)
    offsets_of = world.log.partition_offsets

    def take_long(topic: str) -> Any:
        world.sleep(TELLS_WITHIN_S)
        return offsets_of(topic)

    monkeypatch.setattr(world.log, "partition_offsets", take_long)
    sample = told(world.tick())["AssetObservation"]
    assert sample["lag"] == 3
    assert "seconds_behind" not in sample
    assert world.log.reads == []
