"""Topics and tables whose schemas are in a registry: their check, their metadata, and the sensor."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from log_service.client import BlockingSchemaRegistryClient, Schema
from orchestration import Alert, TopicSpec, assemble, from_registry, spark_table, topic_asset
from orchestration.formats.registered import readers_of
from orchestration.formats.registry import unknown_schemas, written_schema
from orchestration.resources import LakeResource
from orchestration.sensing.schema_drift import schema_drift_sensor
from orchestration.topics.registry_check import CHECK_NAME, recent_evaluation
from tests.helpers.ports import free_port
from tests.unit.client.schemas.registry_double import RegistryDouble, served

SUBJECT = "orders-value"
TABLE, TOPIC = dg.AssetKey(["lake", "clean_orders"]), dg.AssetKey(["topics", "orders"])


def order(kind: str, *more: str) -> str:
    fields = [{"name": "id", "type": kind}]
    fields += [{"name": name, "type": "string", "default": ""} for name in more]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def register(url: str, text: str, kind: str = "AVRO") -> None:
    with BlockingSchemaRegistryClient(url) as client:
        client.register_schema(SUBJECT, Schema(text=text, schema_type=kind))


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry that the settings name, with an empty data directory."""
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_MAX_RETRIES", "0")
    for kept in (written_schema, unknown_schemas, readers_of):
        kept.cache_clear()  # another registry may have had the same port
    with served(RegistryDouble()) as address:
        monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", address)
        yield address


def project(spec: TopicSpec) -> Any:
    """Return the repository of a project with a topic and a table on it."""

    @spark_table(topic=spec)
    def clean_orders(records: Any) -> Any:
        """Orders."""
        return records

    module = ModuleType("orders")
    vars(module).update(topic=topic_asset(spec), table=clean_orders)
    return assemble([module]).get_repository_def()


def evaluated(repository: Any, key: dg.AssetKey) -> dg.AssetCheckEvaluation:
    """Run the check on an asset."""
    check = repository.asset_checks_defs_by_key[dg.AssetCheckKey(key, CHECK_NAME)]
    result = dg.Definitions(asset_checks=[check]).resolve_implicit_global_asset_job_def()
    (found,) = result.execute_in_process().get_asset_check_evaluations()
    return found


@pytest.mark.parametrize("key", [TOPIC, TABLE])
def test_topics_and_their_tables_have_the_check(url: str, key: dg.AssetKey) -> None:
    """It asks the registry when it runs."""
    register(url, order("long"))
    repository = project(TopicSpec(name="orders", schema=from_registry(SUBJECT)))
    assert evaluated(repository, key).passed
    register(url, order("long", "note"))
    told = evaluated(repository, key)
    assert told.passed
    assert told.metadata["new_fields"].value == "note"
    register(url, order("string"))
    told = evaluated(repository, key)
    assert not told.passed
    assert told.description == (
        "version 3 of orders-value (schema id 3) cannot be read as version 1 of orders-value (schema"
        " id 1): field id is string, and not long as declared"
    )


def test_own_columns_with_a_subject_have_it_too(url: str) -> None:
    """Without a version the check is not passed, and only a warning."""
    spec = TopicSpec(name="orders", schema="id BIGINT", registered=SUBJECT)
    repository = project(spec)
    told = evaluated(repository, TABLE)
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.WARN)
    register(url, '{"type": "object", "properties": {"id": {"type": "integer"}}}', "JSON")
    assert evaluated(repository, TOPIC).passed


def test_other_topics_have_no_check(url: str) -> None:
    assert url
    assert not project(TopicSpec(name="orders", schema="id BIGINT")).asset_checks_defs_by_key


def test_a_commit_is_followed_by_a_recent_verdict(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that is away holds no commit up, and gives none."""
    register(url, order("long"))
    spec = TopicSpec(name="orders", schema=from_registry(SUBJECT))
    told = recent_evaluation(TABLE, [spec])
    assert told is not None
    assert (told.passed, told.check_name, told.asset_key) == (True, CHECK_NAME, TABLE)
    away = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", away)
    other = TopicSpec(name="orders", schema="id BIGINT", registered="away-value")
    assert recent_evaluation(TABLE, [other]) is None
    assert recent_evaluation(TABLE, [TopicSpec(name="orders", schema="id BIGINT")]) is None


class Drift:
    """The sensor of schema drift over a project, tick by tick."""

    def __init__(self, directory: Path, repository: Any) -> None:
        self.alerts: list[Alert] = []
        self.cursor: str | None = None
        self._directory = directory
        self._lake, self._repository = LakeResource(root=str(directory / "lake")), repository
        self._sensor = schema_drift_sensor(notify=self.alerts.append)

    def tick(self) -> list[Any]:
        """Return the events of the next tick."""
        with dg.DagsterInstance.local_temp(str(self._directory)) as instance:
            context = dg.build_sensor_context(
                instance=instance,
                cursor=self.cursor,
                repository_def=self._repository,
                resources={"lake": self._lake},
            )
            result = self._sensor(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        return list(result.asset_events)


def test_the_sensor_of_schema_drift_tells_new_versions(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that can be read is told once. One that cannot is an alert. An away registry is one, too."""
    register(url, order("long"))
    repository = project(TopicSpec(name="orders", schema=from_registry(SUBJECT)))
    drift = Drift(tmp_path, repository)
    assert drift.tick() == []
    register(url, order("long", "note"))
    observed, *checks = drift.tick()
    assert observed.asset_key == TOPIC
    assert "version 2 of orders-value (schema id 2) can be read" in observed.description
    assert [(one.asset_key, one.passed) for one in checks] == [(TOPIC, True), (TABLE, True)]
    assert (drift.tick(), drift.alerts) == ([], [])
    register(url, order("string"))
    _, *checks = drift.tick()
    assert [(one.asset_key, one.passed) for one in checks] == [(TOPIC, False), (TABLE, False)]
    (alert,) = drift.alerts
    assert "version 3 of orders-value (schema id 3) cannot be read as version 1" in alert.text
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_TIMEOUT", "no number")
    assert drift.tick() == []
    assert drift.tick() == []
    assert [one.subject for one in drift.alerts[1:]] == ["topic orders"]
    monkeypatch.delenv("TIDELOG_SCHEMA_REGISTRY_TIMEOUT")
    assert drift.tick() == []
