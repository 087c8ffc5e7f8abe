"""A served project reports its mistakes and its topics."""

import gc
import logging
import multiprocessing
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from log_service.broker.topic_creation.declared import parse_declared
from log_service.supervisor.components import DECLARED_TOPICS_FILE
from orchestration.installation import plain_log, project_server, served_project
from orchestration.installation.project_server import ForkedRuns, ProjectServer
from orchestration.installation.served_project import ServedProject
from orchestration.log_client.protocol import LogServiceError
from orchestration.project.importing import kept_imports
from orchestration.project.mistakes import Complaints, mistaken_asset
from orchestration.resources import default_resources
from orchestration.sensing.failing_assets import FailingAssets
from orchestration.topics.spec import TopicSpec, topic_asset
from tests.unit.orchestration.memory_log import MemoryLog, MemoryPartition

REFUSAL = "the topic orders could not be created: POLICY_VIOLATION: retention.ms is -1"


class Refusing(MemoryLog):
    """Refuses to keep records for ever, as a policy may; ``is_away``: it does not answer."""

    is_away = False

    def create_topic(
        self, topic: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        if configs.get("retention.ms") == "-1":
            raise LogServiceError("POLICY_VIOLATION: retention.ms is -1")
        super().create_topic(
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=dict(configs),
        )


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    made = Refusing()

    @contextmanager
    def connected(*_: object, **__: object) -> Iterator[Refusing]:
        if made.is_away:
            raise LogServiceError("no broker at 127.0.0.1:9092")
        yield made

    monkeypatch.setattr(served_project, "connect", connected)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "complaint.txt"


@pytest.fixture
def project(file: Path) -> ServedProject:
    return ServedProject(logging.getLogger("served"), Complaints(file), None)


def declared(retention: str) -> dg.AssetsDefinition:
    return topic_asset(TopicSpec(name="orders", configs={"retention.ms": retention}))


def test_a_topic_config_that_is_refused_is_told_once_and_until_it_is_mended(
    project: ServedProject, log: Refusing, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    project.take([declared("-1")])
    assert file.read_text() == f"{REFUSAL}\n"
    project.look(None, is_turn_of_topics=True)
    assert [
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    ].count(REFUSAL) == 1
    project.take([declared("1000")])
    assert file.read_text() == ""
    assert log.topics["orders"].configs == {"retention.ms": "1000"}


def test_a_topic_that_is_created_is_a_normal_event(
    project: ServedProject, log: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    """It was a warning in the log of the code server."""
    with caplog.at_level(logging.INFO):
        project.take([declared("1000")])
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "topic orders: created")
    ]
    assert "orders" in log.topics


def test_a_project_that_is_loaded_anew_is_a_normal_event(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was a warning in the log of the code server."""
    stamps = iter([[], [(Path("assets/orders.py"), 1)]])
    monkeypatch.setattr(project_server, "_stamps", lambda: next(stamps))
    waits = iter([False, True])
    ended, loaded = threading.Event(), threading.Event()
    monkeypatch.setattr(ended, "wait", lambda _: next(waits))
    server = object.__new__(ProjectServer)
    vars(server).update(_events=logging.getLogger("events"), reload_project=loaded.set)
    with caplog.at_level(logging.INFO):
        server.watch_project(ended)
        assert loaded.wait(10)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "the project changed: loading it anew")
    ]


def test_the_logger_of_a_project_writes_normal_events_as_such(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster's loggers of the code server write warnings only."""
    monkeypatch.setattr(plain_log, "PROJECT_LOGGER", "tidelog.test")
    plain_log.project_logger().info("topic %s: created", "orders")
    assert re.fullmatch(
        r"\S+ \S+ [+-]\d{4} INFO tidelog\.test: topic orders: created\n", capsys.readouterr().out
    )


def test_topics_are_looked_at_again_once_the_log_service_is_back(
    project: ServedProject, log: Refusing, file: Path
) -> None:
    log.is_away = True
    project.take([declared("1000")])
    assert (
        file.read_text() == "the declared topics were not looked at: no broker at 127.0.0.1:9092\n"
    )
    log.is_away = False
    project.look(None, is_turn_of_topics=False)
    assert "orders" not in log.topics
    project.look(None, is_turn_of_topics=True)
    assert (file.read_text(), "orders" in log.topics) == ("", True)


def test_what_becomes_other_than_it_is_declared_is_told_and_not_undone(
    project: ServedProject, log: Refusing, file: Path
) -> None:
    project.take([declared("1000"), topic_asset(TopicSpec(name="clicks", partitions=3))])
    del log.topics["orders"]
    log.topics["clicks"].partitions.pop()
    project.look(None, is_turn_of_topics=False)
    assert not file.exists()
    project.look(None, is_turn_of_topics=True)
    assert file.read_text().splitlines() == [
        "topic clicks has 2 partitions, 3 are declared: a run of topics/clicks brings it up to its declaration",
        "topic orders is declared and is not there: a run of topics/orders brings it up to its declaration",
    ]
    log.add_topic("orders").configs["retention.ms"] = "1"
    log.topics["clicks"].partitions += [MemoryPartition(), MemoryPartition()]
    project.look(None, is_turn_of_topics=True)
    assert file.read_text().splitlines() == [
        "topic clicks has 4 partitions, 3 are declared; partitions are never removed",
        "topic orders has retention.ms=1, 1000 is declared: a run of topics/orders brings it up to its declaration",
    ]
    project.take([declared("1000"), topic_asset(TopicSpec(name="clicks", partitions=4))])
    assert file.read_text() == ""
    log.is_away = True
    project.look(None, is_turn_of_topics=True)
    assert "no broker at" in file.read_text()


def test_the_brokers_of_an_installation_are_told_what_is_declared(
    tmp_path: Path, file: Path, log: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    served = ServedProject(logging.getLogger("served"), Complaints(file), tmp_path / "dagster")
    served.take(
        [topic_asset(TopicSpec(name="clicks", partitions=3, configs={"retention.ms": "5"}))]
    )
    (found,) = parse_declared((tmp_path / DECLARED_TOPICS_FILE).read_bytes()).values()
    assert (found.name, found.num_partitions, found.replication_factor) == ("clicks", 3, 1)
    assert [(one.name, one.value) for one in found.configs] == [("retention.ms", "5")]
    assert "clicks" in log.topics


def test_everything_that_is_wrong_has_a_line(
    project: ServedProject, log: Refusing, file: Path
) -> None:
    @dg.asset(key=["lake", "clean_orders"])
    def clean_orders() -> None:
        raise ValueError("no column amount")

    mirror = mistaken_asset(
        dg.AssetKey(["mirrors", "mirror_properties"]), "mirror.properties:\nno flow", "mirrors"
    )
    repository = dg.Definitions(
        assets=[declared("-1"), clean_orders, mirror], resources=default_resources()
    ).get_repository_def()
    project.take(repository.assets_defs_by_key.values())
    with dg.instance_for_test() as instance:
        job = repository.get_implicit_global_asset_job_def()
        job.execute_in_process(
            asset_selection=[clean_orders.key], instance=instance, raise_on_error=False
        )
        project.look(FailingAssets(instance), is_turn_of_topics=False)
    failed = "lake/clean_orders failed in its last run: ValueError: no column amount\ttried again when a person or a schedule starts it"
    assert file.read_text().splitlines() == ["mirror.properties: no flow", REFUSAL, failed]
    project.settle("assets/orders.py, line 3, cannot be loaded")
    assert file.read_text().splitlines()[0] == "assets/orders.py, line 3, cannot be loaded"


def test_the_file_of_complaints_is_for_the_owner_alone(tmp_path: Path) -> None:
    Complaints(tmp_path / "complaint.txt").replace(
        "assets", ["lake/orders failed: '4711' is no number"]
    )
    assert (tmp_path / "complaint.txt").stat().st_mode & 0o777 == 0o600


def test_a_reload_lets_go_of_what_was_loaded_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that were imported at the start are kept from Python's search for garbage.

    After a reload they are garbage.
    """
    told: list[str | None] = []
    monkeypatch.setattr(project_server, "forget_project", lambda _: None)
    monkeypatch.setattr(project_server, "LoadedRepositories", lambda *_, **__: "loaded anew")
    server = object.__new__(ProjectServer)
    vars(server).update(
        _reload_lock=threading.Lock(),
        _runs=ForkedRuns(multiprocessing.get_context("spawn")),
        _on_reloaded=told.append,
    )
    vars(server).update(
        dict.fromkeys(
            ("_loadable_target_origin", "_entry_point", "_container_image", "_container_context")
        )
    )
    vars(server).update(_location_name="tidelog")
    with kept_imports():
        pass
    assert gc.get_freeze_count() > 0
    server.reload_project()
    assert gc.get_freeze_count() == 0
    assert told == [None]
