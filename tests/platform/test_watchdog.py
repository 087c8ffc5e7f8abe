"""The watchdog has verdicts apart from the topic sensor, and alerts of sensors that fail.

It runs against Dagster's real storage.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster_shared.error import SerializableErrorInfo

from orchestration.installation.instance import open_instance, write_configuration
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import LogServiceAwayError, LogServiceError
from orchestration.resources import LakeResource
from orchestration.sensing import lag_objective
from orchestration.sensing.run_failures import Alert
from orchestration.sensing.schema_drift import read_shapes, schema_drift_sensor
from orchestration.sensing.watchdog import LOOKS_WITHIN_S, UNEVALUATED_TICKS, watchdog_sensor
from orchestration.topics.spec import TopicSpec
from orchestration.transforms import spark_table
from tests.platform.sensor_world import World, append, told

pytestmark = pytest.mark.platform


@pytest.fixture
def world(lake_root: Path, tmp_path: Path) -> Iterator[World]:
    write_configuration(tmp_path / "dagster")
    with open_instance(tmp_path / "dagster") as instance:
        yield World(instance, lake_root)


class Watchdog:
    """The sensor, with the memory that Dagster keeps for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.alerts: list[Alert] = []
        self.drifts: list[Alert] = []
        """Of topics that are not as they are declared: most worlds have none."""
        self.sensor = watchdog_sensor(notify=self.take, now_s=lambda: world.now_s)
        self.cursor: str | None = None

    def take(self, alert: Alert) -> None:
        (self.drifts if alert.subject.startswith("topic ") else self.alerts).append(alert)

    def tick(self) -> Any:
        context = dg.build_sensor_context(
            instance=self.world.instance,
            cursor=self.cursor,
            repository_def=self.world.repository,
            resources={
                "log_service": self.world.log_service,
                "lake": LakeResource(root=str(self.world.lake_root)),
            },
        )
        result = self.sensor(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        return result


def test_a_verdict_is_told_when_it_changes_though_the_topic_sensor_does_nothing(
    world: World,
) -> None:
    watchdog = Watchdog(world)
    append(world, 3)
    assert told(watchdog.tick()) == {
        "AssetCheckEvaluation": {"late_records": 3, "lag": 3, "within_seconds": 60}
    }
    assert told(watchdog.tick()) == {}
    world.commit(3)
    assert told(watchdog.tick()) == {
        "AssetCheckEvaluation": {"late_records": 0, "lag": 0, "within_seconds": 60}
    }


def test_a_missed_objective_is_sent_once(world: World) -> None:
    watchdog = Watchdog(world)
    append(world, 3)
    for _ in range(2):
        watchdog.tick()
    world.commit(3)
    watchdog.tick()
    assert [alert.text for alert in watchdog.alerts] == [
        "clean_orders does not keep up: 3 records are older than 60 s and not in the table"
    ]


def test_a_table_that_cannot_be_judged_and_a_log_service_that_is_away_fail_no_tick(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(world, 3)

    def refuse(*_: object) -> Any:
        raise LogServiceError("the partition orders-0 has no leader")

    with monkeypatch.context() as patched:
        patched.setattr(world.log, "offsets_at", refuse)
        assert told(Watchdog(world).tick()) == {}
    world.unreachable = True
    assert told(Watchdog(world).tick()) == {}


def test_a_table_that_cannot_be_judged_is_told_once_until_that_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    watchdog = Watchdog(world)
    append(world, 3)

    def refuse(*_: object) -> Any:
        raise LogServiceError("TOPIC_AUTHORIZATION_FAILED")

    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(world.log, "describe_topic", refuse)
            for _ in range(UNEVALUATED_TICKS - 1):
                watchdog.tick()
            told_before = len(watchdog.alerts)
            for _ in range(3):
                watchdog.tick()
        assert len(watchdog.alerts) == told_before + 1
        assert (
            watchdog.alerts[-1].text
            == "clean_orders could not be judged 4 times in a row: TOPIC_AUTHORIZATION_FAILED"
        )
        watchdog.tick()


def test_a_table_without_an_objective_that_cannot_be_looked_at_is_told_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.checks = []
    world.define()
    append(world, 3)
    watchdog = Watchdog(world)

    def refuse(*_: object) -> Any:
        raise LogServiceError("the partition orders-0 has no leader")

    monkeypatch.setattr(world.log, "partition_offsets", refuse)
    for _ in range(UNEVALUATED_TICKS):
        watchdog.tick()
    assert [alert.subject for alert in watchdog.alerts] == ["clean_orders"]


def table_of(topic: str, world: World) -> dg.AssetsDefinition:
    """Return a table with an objective that follows a topic of its own, which has records."""
    for _ in range(3):
        (world.log.topics.get(topic) or world.log.add_topic(topic)).partitions[0].append(b"{}")

    @spark_table(topic=TopicSpec(name=topic, schema="id STRING"), name=f"clean_{topic}")
    def clean(records: Any) -> Any:
        """Records."""
        return records

    world.checks.append(lag_objective(clean, within_s=60))
    return clean


def judged_tables(result: Any) -> list[str]:
    return sorted(event.asset_key.path[-1] for event in result.asset_events)


@pytest.mark.parametrize("asked", ["partition_offsets", "offsets_at"])
def test_a_leader_that_is_away_costs_the_tables_their_verdict_whose_topics_it_leads(
    world: World, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    append(world, 3)
    world.define(table_of("others", world))
    watchdog = Watchdog(world)
    answer = getattr(world.log, asked)

    def be_silent(topic: str, *more: Any) -> Any:
        if topic == "orders":
            raise LogServiceAwayError("broker 2 does not respond")
        return answer(topic, *more)

    monkeypatch.setattr(world.log, asked, be_silent)
    assert judged_tables(watchdog.tick()) == ["clean_others"]
    for _ in range(UNEVALUATED_TICKS):
        watchdog.tick()
    assert [alert.text for alert in watchdog.alerts if alert.subject != "clean_others"] == [
        "clean_orders could not be judged 4 times in a row: broker 2 does not respond"
    ]


def test_a_tick_ends_in_time_though_leaders_are_away_and_the_next_one_begins_where_it_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(world, 3)
    names = [f"silent{number}" for number in range(7)]
    world.define(*[table_of(name, world) for name in names], table_of("talking", world))
    watchdog = Watchdog(world)
    answer = world.log.partition_offsets

    def take_long(topic: str) -> Any:
        if topic in names:
            world.now_s += 5
            raise LogServiceAwayError("broker 2 does not respond")
        return answer(topic)

    monkeypatch.setattr(world.log, "partition_offsets", take_long)
    verdicts: list[str] = []
    for _ in range(UNEVALUATED_TICKS):
        began_s = world.now_s
        verdicts += judged_tables(watchdog.tick())
        assert world.now_s - began_s == LOOKS_WITHIN_S
    assert sorted(verdicts) == ["clean_orders", "clean_talking"]
    whys = {alert.why for alert in watchdog.alerts if alert.subject.startswith("clean_silent")}
    assert whys == {
        "broker 2 does not respond",
        "it was not looked at, because looking at others took 25 s",
    }


def test_a_log_service_that_stays_away_is_told_once_until_it_is_back(world: World) -> None:
    watchdog = Watchdog(world)
    world.unreachable = True
    for _ in range(UNEVALUATED_TICKS + 2):
        watchdog.tick()
    text = "the log service did not respond 4 times in a row: the log service does not answer within 5000 ms"
    assert [alert.text for alert in watchdog.alerts] == [text]
    world.unreachable = False
    watchdog.tick()
    world.unreachable = True
    for _ in range(UNEVALUATED_TICKS):
        watchdog.tick()
    assert [alert.text for alert in watchdog.alerts] == [text, text]


def test_the_sensor_of_schema_drift_tells_of_a_watchdog_that_fails(world: World) -> None:
    alerts: list[Alert] = []
    sensor = schema_drift_sensor(notify=alerts.append, now_s=lambda: world.now_s)
    now_s, cursor = time.time(), None
    for count in (1, 2, 3, 4):
        add_tick(world, TickStatus.FAILURE, now_s + count, "watchdog")
        for _ in range(2):
            resources = {"lake": LakeResource(root=str(world.lake_root))}
            result: Any = sensor(
                dg.build_sensor_context(instance=world.instance, cursor=cursor, resources=resources)
            )
            cursor = result.cursor
    add_tick(world, TickStatus.FAILURE, now_s, "sources")
    assert [(alert.subject, alert.failures) for alert in alerts] == [
        ("sensor watchdog", count) for count in (1, 2, 4)
    ]


def test_a_table_that_cannot_be_read_does_not_make_the_sensor_of_schema_drift_forget_what_it_told(
    world: World,
) -> None:
    alerts: list[Alert] = []
    sensor = schema_drift_sensor(notify=alerts.append, now_s=lambda: world.now_s)
    append(world, 3)
    world.commit(3)
    (entry,) = (world.lake_root / "clean_orders/_delta_log").glob("*0.json")
    whole, cursor = entry.read_bytes(), None

    def tick() -> Any:
        resources = {"lake": LakeResource(root=str(world.lake_root))}
        result = sensor(
            dg.build_sensor_context(instance=world.instance, cursor=cursor, resources=resources)
        )
        assert isinstance(result, dg.SensorResult)
        return result

    cursor = tick().cursor
    shapes = read_shapes(cursor)
    assert shapes.keys() == {"clean_orders"}
    add_tick(world, TickStatus.FAILURE, time.time(), "watchdog")
    for _ in range(2):
        alerts.clear()
        entry.write_bytes(b"{damaged")
        for _ in range(3):
            result = tick()
            cursor = result.cursor
            assert "clean_orders could not be read" in result.skip_reason.skip_message
        assert [alert.subject for alert in alerts if alert.subject != "sensor watchdog"] == [
            "clean_orders"
        ]
        assert read_shapes(cursor) == shapes
        entry.write_bytes(whole)
        result = tick()
        cursor = result.cursor
        assert not result.asset_events
    assert [alert.subject for alert in alerts] == ["clean_orders"], (
        "the watchdog was told in the first round"
    )


def test_a_lake_that_cannot_be_listed_is_told_once_and_forgets_no_shape(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts: list[Alert] = []
    sensor = schema_drift_sensor(notify=alerts.append, now_s=lambda: world.now_s)
    append(world, 3)
    world.commit(3)
    cursor: str | None = None

    def tick() -> Any:
        resources = {"lake": LakeResource(root=str(world.lake_root))}
        return sensor(
            dg.build_sensor_context(instance=world.instance, cursor=cursor, resources=resources)
        )

    cursor = tick().cursor
    shapes = read_shapes(cursor)

    def refuse(_lake: Lake) -> Any:
        raise PermissionError("the folder may not be read")

    monkeypatch.setattr(Lake, "names", refuse)
    for _ in range(2):
        cursor = tick().cursor
        assert read_shapes(cursor) == shapes
    assert [alert.text for alert in alerts] == [
        "the lake could not be read: the folder may not be read"
    ]


def add_tick(
    world: World,
    status: TickStatus,
    started_s: float,
    sensor: str = "new_records",
    location: str = "tidelog",
    *,
    message: str = "no such table\nand more",
) -> None:
    origin = RemoteInstigatorOrigin(
        RemoteRepositoryOrigin(
            code_location_origin=RegisteredCodeLocationOrigin(location),
            repository_name="__repository__",
        ),
        sensor,
    )
    selector = origin.get_selector().get_id()
    state = InstigatorState(
        origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, SensorInstigatorData()
    )
    if world.instance.get_instigator_state(state.instigator_origin_id, selector) is None:
        world.instance.add_instigator_state(state)
    error = (
        SerializableErrorInfo(message, [], "ValueError") if status is TickStatus.FAILURE else None
    )
    world.instance.create_tick(
        TickData(
            instigator_origin_id=state.instigator_origin_id,
            instigator_name=sensor,
            instigator_type=InstigatorType.SENSOR,
            status=status,
            timestamp=started_s,
            error=error,
            selector_id=selector,
        )
    )


def test_a_tick_that_was_interrupted_by_the_end_of_its_process_is_no_failure(world: World) -> None:
    """Ctrl-C of an installation was told as a failing sensor at its next start."""
    watchdog = Watchdog(world)
    add_tick(
        world,
        TickStatus.FAILURE,
        time.time(),
        message="RuntimeError: cannot schedule new futures after shutdown\n",
    )
    watchdog.tick()
    assert watchdog.alerts == []


def test_a_sensor_that_fails_is_told_once_for_each_failure_that_counts(world: World) -> None:
    watchdog = Watchdog(world)
    watchdog.tick()
    assert watchdog.alerts == []
    now_s = time.time()
    add_tick(world, TickStatus.FAILURE, now_s)
    for _ in range(2):
        watchdog.tick()
    assert [alert.text for alert in watchdog.alerts] == [
        "sensor new_records failed: no such table (run tick 1)"
    ]
    for number in range(1, 4):
        add_tick(world, TickStatus.FAILURE, now_s + number)
        watchdog.tick()
    assert [alert.failures for alert in watchdog.alerts] == [1, 2, 4]


def test_a_tick_that_hangs_is_told_once(world: World) -> None:
    watchdog = Watchdog(world)
    add_tick(world, TickStatus.STARTED, world.now_s - 400)
    for _ in range(3):
        watchdog.tick()
    assert [alert.why.partition(";")[0] for alert in watchdog.alerts] == [
        "its tick has not ended after 400 s"
    ]


def test_a_sensor_that_the_project_has_no_more_is_not_told_and_those_of_other_locations_are(
    world: World,
) -> None:
    """Its last tick may have been under way when the project was loaded without it, and never ends."""
    watchdog = Watchdog(world)
    add_tick(world, TickStatus.SKIPPED, world.now_s, "watchdog")
    for sensor, location in (
        ("sources", "tidelog"),
        ("new_records", "tidelog"),
        ("sources", "reports"),
    ):
        add_tick(world, TickStatus.STARTED, world.now_s - 400, sensor, location)
    watchdog.tick()
    assert [alert.subject for alert in watchdog.alerts] == ["sensor new_records", "sensor sources"]


def test_a_tick_that_goes_on_hides_no_failure_before_it(world: World) -> None:
    """A sensor whose ticks wait for records is nearly always seen while one of them goes on."""
    watchdog = Watchdog(world)
    add_tick(world, TickStatus.SKIPPED, world.now_s - 30)
    add_tick(world, TickStatus.FAILURE, world.now_s - 20)
    add_tick(world, TickStatus.FAILURE, world.now_s - 10)
    add_tick(world, TickStatus.STARTED, world.now_s - 5)
    for _ in range(2):
        watchdog.tick()
    assert [alert.text for alert in watchdog.alerts] == [
        "sensor new_records failed 2 times in a row: no such table (run tick 3)"
    ]


def test_a_topic_that_is_not_as_it_is_declared_is_told_once_and_when_that_is_over(
    world: World,
) -> None:
    watchdog = Watchdog(world)
    world.log.add_topic("orders")
    watchdog.tick()
    watchdog.tick()
    topic = world.log.topics.pop("orders")
    assert told(watchdog.tick()) == {}
    assert told(watchdog.tick())["AssetObservation"]["declaration"].startswith(
        "topic orders is declared and is not there: "
    )
    assert told(watchdog.tick()) == {}
    assert [alert.subject for alert in watchdog.drifts] == ["topic orders"]
    world.log.topics["orders"] = topic
    assert told(watchdog.tick()) == {"AssetObservation": {"declaration": "as declared"}}
