"""Sources in Dagster tell of their runs, have downstream assets, and are started by a sensor.

Some declarations are refused.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from orchestration.assembly import assemble
from orchestration.databases.deadlines import connect_arguments
from orchestration.log_client.protocol import LogServiceAwayError, LogServiceError
from orchestration.sensing.run_failures import Alert
from orchestration.sensing.sources import (
    UNLOOKED_TICKS,
    SourceState,
    decide_looks,
    decide_unlooked,
    source_sensor,
)
from orchestration.sensing.topic_sensor import Clock
from orchestration.sources import folder_source, source_feeds, sql_rows, sql_source
from orchestration.sources.dropped_files import DroppedFiles
from orchestration.sources.positions import POSITIONS
from orchestration.sources.reading import LookTooLongError, SourceError
from orchestration.topics.spec import TopicSpec, topic_asset
from tests.helpers.postgres import postgres
from tests.platform.assets_world import World, failure_of

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
PEOPLE = TopicSpec(name="people", configs={"cleanup.policy": "compact"})
PAYMENTS = TopicSpec(name="payments")
KEY = dg.AssetKey(["sources", "people"])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("PEOPLE_URL", f"sqlite:///{tmp_path / 'people.db'}")
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        yield World(tmp_path, None, instance)


@pytest.fixture
def table(tmp_path: Path, world: World) -> Iterator[sa.Engine]:
    del world
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'people.db'}")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)"))
        connection.execute(sa.text("INSERT INTO people VALUES (1, 'Ada'), (2, 'Bob')"))
    yield engine
    engine.dispose()


def people_source() -> dg.AssetsDefinition:
    return sql_source(
        "people",
        topic=PEOPLE,
        table="people",
        key="id",
        compare_every_s=0,
        url=dg.EnvVar("PEOPLE_URL"),
    )


def materialize(world: World, asset: dg.AssetsDefinition) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [asset], resources=world.resources, instance=world.instance, raise_on_error=False
    )


def test_a_run_tells_what_it_sent_and_that_the_topic_grew(world: World, table: sa.Engine) -> None:
    source = people_source()
    result = materialize(world, source)
    assert result.success, failure_of(result)
    values = world.values(KEY)
    assert [values[name] for name in ("records", "transactions", "deleted", "comparisons")] == [
        2,
        2,
        0,
        1,
    ]
    assert world.values(PEOPLE.asset_key)["records_retained"] == 2
    with table.begin() as connection:
        connection.execute(sa.text("DELETE FROM people WHERE id = 1"))
    assert materialize(world, source).success
    assert world.values(KEY)["deleted"] == 1


def test_a_run_that_finds_nothing_tells_nothing(world: World, tmp_path: Path) -> None:
    source = folder_source("payments", topic=PAYMENTS, folder=tmp_path / "inbox")
    assert materialize(world, source).success
    assert world.values(dg.AssetKey(["sources", "payments"])) == {}


def test_a_failed_run_says_what_to_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "people: the database at sqlite" in failure_of(materialize(world, people_source()))
    monkeypatch.delenv("PEOPLE_URL")
    assert "the variable PEOPLE_URL is not set" in failure_of(materialize(world, people_source()))


def test_the_topic_is_downstream_and_loading_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEOPLE_URL", raising=False)
    module = ModuleType("assets.people")
    vars(module).update(people=people_source(), people_topic=topic_asset(PEOPLE))
    definitions = assemble([module])
    assert definitions.resolve_asset_graph().get(PEOPLE.asset_key).parent_keys == {KEY}
    assert definitions.resolve_sensor_def("sources").name == "sources"


def test_the_sensor_starts_a_run_when_something_is_new(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    source = folder_source("payments", topic=PAYMENTS, folder=folder, settle_s=1)
    sensor = source_sensor(clock=Clock(now_s=lambda: time.time() + 60))
    repository = dg.Definitions(
        assets=[source], sensors=[sensor], resources=world.resources
    ).get_repository_def()

    def tick() -> Any:
        resources = {"log_service": Opened(world)}
        with dg.build_sensor_context(
            instance=world.instance, repository_def=repository, resources=resources
        ) as context:
            return sensor.evaluate_tick(context)

    assert tick().skip_message == "nothing new in any source"
    (folder / "a.csv").write_text("id\n1\n")
    requests = tick().run_requests
    assert [request.asset_selection for request in requests] == [
        [dg.AssetKey(["sources", "payments"])]
    ]
    assert source_feeds([source])[0].every_s == 5.0


def test_a_source_that_hangs_stops_no_other_and_is_looked_at_by_one_thread(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = folder_source(
        "letters", topic=TopicSpec(name="letters"), folder=tmp_path / "letters", settle_s=1
    )
    folder = tmp_path / "inbox"
    folder.mkdir()
    (folder / "a.csv").write_text("id\n1\n")
    wanting = folder_source("payments", topic=PAYMENTS, folder=folder, settle_s=1)
    sensor = source_sensor(clock=Clock(now_s=lambda: time.time() + 60), looks_within_s=0.5)
    repository = dg.Definitions(
        assets=[hanging, wanting], sensors=[sensor], resources=world.resources
    ).get_repository_def()
    is_over, looks = Event(), []
    looked = DroppedFiles.is_wanting

    def hang(self: DroppedFiles, position: Any, now: datetime) -> bool:
        if self.folder.name == "letters":
            looks.append("letters")
            is_over.wait()
        return looked(self, position, now)

    monkeypatch.setattr(DroppedFiles, "is_wanting", hang)
    resources = {"log_service": Opened(world)}
    try:
        for _ in range(2):
            with dg.build_sensor_context(
                instance=world.instance, repository_def=repository, resources=resources
            ) as context:
                requests = sensor.evaluate_tick(context).run_requests
            assert sorted(request.tags["tidelog/source"] for request in requests or []) == [
                "letters",
                "payments",
            ]
        assert looks == ["letters"]
    finally:
        is_over.set()


def test_a_database_that_accepts_and_says_nothing_is_an_error_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setattr(sql_rows, "LOOK_WITHIN_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql+psycopg://someone@127.0.0.1:{mute.getsockname()[1]}/shop"
        with pytest.raises(SourceError, match="timeout"):
            sql_rows.SqlRows(url=url, table="orders", key=("id",), cursor="changed").is_wanting(
                None, datetime.now(UTC)
            )


@pytest.fixture
def shop() -> Iterator[str]:
    """A database of PostgreSQL with a view that is slow to look at."""
    pytest.importorskip("psycopg")
    with postgres() as url:
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.execute(
                sa.text("CREATE VIEW slow AS SELECT 1 AS id, now() AS changed FROM pg_sleep(60)")
            )
            limit = "current_setting('statement_timeout')"
            path = "current_setting('search_path')"
            connection.execute(
                sa.text(
                    f"CREATE VIEW limits AS SELECT 1 AS id, 1 AS changed WHERE {limit} = '5s' AND {path} = 'public'"
                )
            )
        engine.dispose()
        yield url


def test_a_look_at_postgresql_is_limited_without_startup_options(
    shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c search_path=public")
    rows = sql_rows.SqlRows(url=shop, table="limits", key=("id",), cursor="changed")
    assert rows.is_wanting({"compared_at": time.time()}, datetime.now(UTC))
    given = sql_rows.SqlRows(
        url=f"{shop}&options=-csearch_path%3Dpublic%20-cstatement_timeout%3D9s",
        table="limits",
        key=("id",),
        cursor="changed",
    )
    assert not given.is_wanting({"compared_at": time.time()}, datetime.now(UTC)), (
        "what the URL says holds"
    )


def test_a_look_that_takes_too_long_is_told_and_starts_no_run(
    shop: str, world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sql_rows, "LOOK_WITHIN_S", 1)
    monkeypatch.setenv("SHOP_URL", shop)
    source = sql_source(
        "slow",
        topic=PAYMENTS,
        table="slow",
        key="id",
        cursor="changed",
        compare_every_s=None,
        url=dg.EnvVar("SHOP_URL"),
    )
    sensor = source_sensor()
    repository = dg.Definitions(
        assets=[source], sensors=[sensor], resources=world.resources
    ).get_repository_def()
    with dg.build_sensor_context(
        instance=world.instance, repository_def=repository, resources={"log_service": Opened(world)}
    ) as context:
        assert not sensor.evaluate_tick(context).run_requests
    told = capfd.readouterr().err
    assert "whether the source slow has something new is not known" in told
    assert "an index on changed, id of the table slow makes it short" in told


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("postgresql+psycopg://a@b/c?options=-c%20a%3Db", {"connect_timeout": 5}),
        ("postgresql+psycopg2://a@b/c?connect_timeout=9", {}),
        ("sqlite:///a.db", {"timeout": 5}),
        ("sqlite:///a.db?timeout=60", {}),
        ("mysql+pymysql://a@b/c", {}),
    ],
)
def test_each_driver_is_given_its_own_limits(url: str, arguments: dict[str, Any]) -> None:
    assert connect_arguments(sa.make_url(url), connect_s=5, lock_s=5) == arguments


class Opened:
    """Stands in for ``LogServiceResource``, whose calls have a limit in a sensor."""

    def __init__(self, world: World) -> None:
        self.world = world

    def open(self, *, timeout_ms: int) -> Any:
        del timeout_ms
        return nullcontext(self.world.log)


def test_a_topic_that_is_refused_stops_no_other_source_and_a_run_says_why(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    refused = folder_source(
        "letters", topic=TopicSpec(name="letters"), folder=folder / "letters", settle_s=1
    )
    wanting = folder_source("payments", topic=PAYMENTS, folder=folder, settle_s=1)
    (folder / "a.csv").write_text("id\n1\n")
    sensor = source_sensor(clock=Clock(now_s=lambda: time.time() + 60))
    repository = dg.Definitions(
        assets=[refused, wanting], sensors=[sensor], resources=world.resources
    ).get_repository_def()
    asked = world.log.describe_topic

    def refuse(topic: str) -> Any:
        if topic == "letters":
            raise LogServiceError("TOPIC_AUTHORIZATION_FAILED")
        return asked(topic)

    monkeypatch.setattr(world.log, "describe_topic", refuse)
    with dg.build_sensor_context(
        instance=world.instance, repository_def=repository, resources={"log_service": Opened(world)}
    ) as context:
        requests = sensor.evaluate_tick(context).run_requests
    assert sorted(request.tags["tidelog/source"] for request in requests or []) == [
        "letters",
        "payments",
    ]


class Watched:
    """The sensor of sources, with the memory that Dagster keeps for it."""

    def __init__(self, world: World, *sources: dg.AssetsDefinition) -> None:
        self.world = world
        self.alerts: list[Alert] = []
        self.sensor = source_sensor(
            clock=Clock(now_s=lambda: time.time() + 60), notify=self.alerts.append
        )
        self.repository = dg.Definitions(
            assets=sources, sensors=[self.sensor], resources=world.resources
        ).get_repository_def()
        self.cursor: str | None = None

    def tick(self) -> Any:
        resources = {"log_service": Opened(self.world)}
        with dg.build_sensor_context(
            instance=self.world.instance,
            cursor=self.cursor,
            repository_def=self.repository,
            resources=resources,
        ) as context:
            result = self.sensor.evaluate_tick(context)
        self.cursor = result.cursor
        return result

    def started(self, result: Any) -> list[str]:
        return sorted(request.tags["tidelog/source"] for request in result.run_requests or [])


def dropped(name: str, tmp_path: Path) -> dg.AssetsDefinition:
    """Return a source with a file in its folder."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "a.csv").write_text("id\n1\n")
    return folder_source(name, topic=TopicSpec(name=name), folder=folder, settle_s=1)


def test_a_leader_that_is_away_is_asked_once_and_costs_only_the_sources_that_have_begun(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(
        world,
        dropped("first", tmp_path),
        dropped("letters", tmp_path),
        dropped("payments", tmp_path),
    )
    for topic in ("first", "letters", POSITIONS.name):
        world.log.add_topic(topic)
    asked, answer = [], world.log.partition_offsets

    def be_silent(topic: str) -> Any:
        if topic == POSITIONS.name:
            asked.append(topic)
            raise LogServiceAwayError("broker 2 does not respond")
        return answer(topic)

    monkeypatch.setattr(world.log, "partition_offsets", be_silent)
    for count in range(1, UNLOOKED_TICKS + 3):
        assert watched.started(watched.tick()) == ["payments"]
        assert len(asked) == count
    whole = f"could not be looked at {UNLOOKED_TICKS} times in a row: broker 2 does not respond"
    assert [alert.text for alert in watched.alerts] == [
        f"sources/first {whole}",
        f"sources/letters {whole}",
    ]
    monkeypatch.undo()
    assert watched.started(watched.tick()) == ["first", "letters", "payments"]


def test_a_log_service_that_is_away_is_a_reason_to_skip_all_sources(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(world, dropped("letters", tmp_path), dropped("payments", tmp_path))
    asked: list[str] = []

    def go_away(topic: str) -> Any:
        asked.append(topic)
        raise LogServiceAwayError("no broker responds")

    monkeypatch.setattr(world.log, "describe_topic", go_away)
    assert watched.tick().skip_message == "no broker responds"
    assert asked == ["letters"]


def test_a_source_whose_look_always_takes_too_long_is_told_once_until_that_is_over(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(world, dropped("letters", tmp_path), dropped("payments", tmp_path))
    looked = DroppedFiles.is_wanting

    def take_long(self: DroppedFiles, position: Any, now: datetime) -> bool:
        if self.folder.name == "letters":
            raise LookTooLongError("the database took more than 5 s")
        return looked(self, position, now)

    text = f"sources/letters could not be looked at {UNLOOKED_TICKS} times in a row: the database took more than 5 s"
    for _ in range(2):
        watched.alerts.clear()
        with monkeypatch.context() as patched:
            patched.setattr(DroppedFiles, "is_wanting", take_long)
            results = [watched.tick() for _ in range(UNLOOKED_TICKS + 2)]
        assert {tuple(watched.started(result)) for result in results} == {("payments",)}
        assert [alert.text for alert in watched.alerts] == [text]
        events = [event for result in results for event in result.asset_events]
        assert [(event.asset_key.to_user_string(), event.description) for event in events] == [
            ("sources/letters", text)
        ]
        assert watched.started(watched.tick()) == ["letters", "payments"]


def test_ticks_without_a_look_are_counted_over_those_in_which_it_was_another_source_s_turn() -> (
    None
):
    counts, told = decide_unlooked(
        {"slow": UNLOOKED_TICKS - 1, "gone": 3, "well": 2}, {"well": ""}, ["slow", "well"]
    )
    assert (counts, told) == ({"slow": UNLOOKED_TICKS - 1}, ())
    counts, told = decide_unlooked(counts, {"slow": "it is slow", "well": ""}, ["slow", "well"])
    assert told == ("slow",)
    assert decide_unlooked(counts, {"slow": "it is slow"}, ["slow", "well"])[1] == ()


def test_a_source_is_looked_at_when_it_is_due_and_later_after_failures() -> None:
    idle = SourceState(source="a", every_s=5, last_start_s=100)
    assert decide_looks([SourceState(source="new", every_s=5), idle], 104.9) == ("new",)
    assert decide_looks(
        [idle, SourceState(source="b", every_s=5, last_start_s=1, is_running=True)], 105
    ) == ("a",)
    assert (
        decide_looks([SourceState(source="c", every_s=5, last_start_s=100, failures=2)], 119.9)
        == ()
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key": ()}, "needs a key"),
        ({"compare_every_s": None}, "sees nothing"),
        ({"name": "a-b"}, "cannot be a source's name"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_declared(
    changes: dict[str, Any], told: str
) -> None:
    declared = {"name": "people", "topic": PEOPLE, "table": "people", "key": "id", **changes}
    with pytest.raises(ValueError, match=told):
        sql_source(declared.pop("name"), **declared)
