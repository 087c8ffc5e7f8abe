"""A topic has an archive, with its asset and its runs in Dagster.

Real records go from a broker through the lake into an answer.
"""

import json
import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import dagster as dg
import pytest
from click.testing import CliRunner

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from orchestration.assembly import assemble
from orchestration.calls.ask import ask
from orchestration.cli.sql import sql as sql_command
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.log_client.protocol import LogServiceError
from orchestration.maintenance.retention import run_retention
from orchestration.resources import LakeResource, LogServiceResource
from orchestration.sensing.topic_sensor import TABLE_TAG
from orchestration.settings import Settings, load_settings
from orchestration.topics.spec import TopicSpec, topic_asset
from orchestration.transforms import topic_feeds
from orchestration.transforms.archiving import Archive
from orchestration.transforms.archiving.assets import archive_asset
from tests.helpers.broker_process import BrokerThread
from tests.platform.assets_world import OpenedLog, failure_of
from tests.platform.installation import wait_until
from tests.platform.sensor_world import World, append

pytestmark = [pytest.mark.platform, pytest.mark.timeout(240)]
KEY = dg.AssetKey(["lake", "orders_archive"])
ORDERS = TopicSpec(
    name="orders", schema="id BIGINT, amount DOUBLE", archive=Archive(chunk_records=10, within_s=60)
)


@pytest.fixture
def world(lake_root: Path) -> Iterator[World]:
    with dg.DagsterInstance.ephemeral() as instance:
        made = World(instance, lake_root)
        made.assets, made.checks = [topic_asset(ORDERS), archive_asset(ORDERS)], []
        made.define()
        yield made


def resources_of(world: World) -> dict[str, Any]:
    return {
        "log_service": dg.ResourceDefinition.hardcoded_resource(OpenedLog(world.log)),
        "lake": LakeResource(root=str(world.lake_root)),
    }


def materialize(world: World, **config: Any) -> dg.ExecuteInProcessResult:
    asset = world.assets[1]
    ran = dg.materialize(
        world.assets,
        selection=[KEY],
        resources=resources_of(world),
        instance=world.instance,
        raise_on_error=False,
        run_config={"ops": {asset.op.name: {"config": config}}},
    )
    # Runs go by the real clock: however long they took, the sensor's is not behind.
    world.now_s = max(world.now_s, time.time())
    return ran


def told(world: World) -> dict[str, Any]:
    event = world.instance.get_latest_materialization_event(KEY)
    assert event is not None
    assert event.asset_materialization is not None
    return {label: one.value for label, one in event.asset_materialization.metadata.items()}


def starts(result: Any) -> list[tuple[str, Any]]:
    return [
        (request.tags[TABLE_TAG], list(request.run_config.get("ops", {}).values()))
        for request in result.run_requests or []
    ]


def test_a_run_tells_what_it_archived_and_the_next_one_has_nothing_to_do(world: World) -> None:
    append(world, 25)
    ran = materialize(world)
    assert ran.success
    run = world.instance.get_run_by_id(ran.run_id)
    assert run is not None
    assert (run.tags[TABLE_TAG], run.tags["tidelog/kind"], run.tags["tidelog/range"]) == (
        "orders_archive",
        "archive",
        "0:[0,25)",
    )
    shown = told(world)
    assert (shown["rows"], shown["files"], shown["lag"], shown["high_watermark"]) == (25, 3, 0, 25)
    assert shown["tidelog/checkpoint"] == "id-of-orders 0:25"
    assert world.log.mirrored == {"tidelog.orders_archive": {0: 25}}
    again = materialize(world)
    assert again.success
    assert again.asset_materializations_for_node(world.assets[1].op.name) == []


def test_the_sensor_starts_an_archive_for_a_full_chunk_and_when_its_time_has_passed(
    world: World,
) -> None:
    append(world, 3)
    assert starts(world.tick()) == [("orders_archive", [])]
    assert materialize(world).success
    append(world, 9)
    assert starts(world.tick()) == []
    append(world, 1)
    assert starts(world.tick()) == [("orders_archive", [{"config": {"only_full_chunks": True}}])]
    assert materialize(world, only_full_chunks=True).success
    assert (told(world)["rows"], told(world)["dagster/row_count"]) == (10, 13)
    append(world, 9)
    assert starts(world.tick()) == []
    world.sleep(60)
    assert starts(world.tick()) == [("orders_archive", [])]


def test_what_the_sensor_asks_for_is_a_run_of_its_job_and_lag_is_told(world: World) -> None:
    append(world, 3)
    assert materialize(world).success
    append(world, 13)
    result = world.tick()
    seen = [
        event
        for event in result.asset_events
        if isinstance(event, dg.AssetObservation) and event.asset_key == KEY
    ]
    assert [event.metadata["lag"].value for event in seen] == [13]
    (request,) = result.run_requests
    job = world.repository.get_implicit_job_def_for_assets(request.asset_selection)
    assert job is not None
    job = job.get_subset(asset_selection=set(request.asset_selection))
    ran = job.execute_in_process(
        run_config=request.run_config,
        instance=world.instance,
        resources=resources_of(world),
        tags=request.tags,
    )
    assert ran.success
    assert (told(world)["rows"], told(world)["lag"]) == (10, 3)


def test_records_that_make_no_chunk_keep_no_tick_busy(world: World) -> None:
    append(world, 3)
    assert materialize(world).success
    world.log.on_wait = lambda _: pytest.fail("an archive waits for no record")
    append(world, 1)
    with mock.patch.object(world.log, "describe_topic", wraps=world.log.describe_topic) as looks:
        assert starts(world.tick()) == []
    assert looks.call_count < 5


def test_an_archive_that_is_not_kept_for_ever_is_tidied_once_a_day(world: World) -> None:
    spec = TopicSpec(name="orders", archive=Archive(chunk_records=10, within_s=60, kept_days=1))
    world.assets = [topic_asset(spec), archive_asset(spec)]
    world.define()
    append(world, 3)
    assert materialize(world).success
    assert starts(world.tick()) == []
    world.sleep(86_400)
    assert starts(world.tick()) == [("orders_archive", [])]


def test_a_commit_that_no_run_told_is_told_by_the_next(world: World) -> None:
    append(world, 5)
    assert materialize(world).success
    world.instance.wipe_assets([KEY])
    assert starts(world.tick()) != []
    assert materialize(world).success
    assert (told(world)["kind"], told(world)["tidelog/checkpoint"]) == (
        "recovered",
        "id-of-orders 0:5",
    )


def test_lost_records_fail_the_run_with_a_sentence_until_they_are_accepted(world: World) -> None:
    append(world, 5)
    assert materialize(world).success
    append(world, 5)
    world.log.delete_records("orders", {0: 8})
    refused = materialize(world)
    assert not refused.success
    assert "orders_archive: orders-0: the offsets [5, 8) were removed from the log" in failure_of(
        refused
    )
    assert materialize(world, accept_lost_records=True).success
    assert told(world)["rows"] == 2


def test_records_may_go_from_the_log_once_they_are_archived(world: World) -> None:
    append(world, 25)
    assert materialize(world, only_full_chunks=True).success
    assert run_retention(world.log, Lake(world.lake_root), topic_feeds(world.assets)).deleted == {
        "orders": 20
    }


def test_a_project_gets_the_asset_of_each_archive_that_it_declares() -> None:
    module = ModuleType("assets.archived")
    module.topics = [topic_asset(ORDERS), topic_asset(TopicSpec(name="plain"))]  # type: ignore[attr-defined]
    keys = assemble([module]).get_repository_def().assets_defs_by_key
    assert [key for key in keys if key.path[0] == "lake"] == [KEY]
    assert keys[KEY].asset_deps[KEY] == {ORDERS.asset_key}
    module.own = archive_asset(ORDERS)  # type: ignore[attr-defined]
    assert KEY in assemble([module]).get_repository_def().assets_defs_by_key
    module.other = topic_asset(TopicSpec(name="or.ders", archive=True))  # type: ignore[attr-defined]
    module.same = topic_asset(TopicSpec(name="or_ders", archive=True))  # type: ignore[attr-defined]
    with pytest.raises(
        ValueError,
        match=r"the topics or\.ders and or_ders cannot both have a table or_ders_archive",
    ):
        assemble([module])


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    with BrokerThread(tmp_path / "broker") as broker:
        yield load_settings(
            {"TIDELOG_DATA": str(tmp_path), "TIDELOG_BOOTSTRAP_SERVERS": broker.bootstrap}
        )


def order(number: int) -> bytes:
    return json.dumps({"id": number, "amount": number / 4}).encode()


def is_settled(bootstrap: str) -> bool:
    with connect(bootstrap) as log:
        return all(
            one.last_stable_offset == one.high_watermark for one in log.partition_offsets("orders")
        )


def send(bootstrap: str) -> None:
    """Send 60 records that count, and ten that were aborted.

    The last ten and ten in the middle are of transactions.
    """
    with BlockingProducer(bootstrap, transactional_id="t", compression="zstd") as producer:
        producer.init_transactions()
        for first, is_kept in ((0, True), (100, False), (10, True)):
            producer.begin_transaction()
            for number in range(first, first + 10):
                producer.send(
                    "orders",
                    order(number),
                    key=b"k%d" % number,
                    headers=[("n", b"%d" % number)],
                    partition=0,
                )
            producer.flush()
            producer.commit_transaction() if is_kept else producer.abort_transaction()
    wait_until(
        lambda: is_settled(bootstrap), 60, lambda: "the markers of the transactions did not come"
    )
    with BlockingProducer(bootstrap) as producer:
        for number in range(20, 60):
            producer.send(
                "orders",
                order(number),
                timestamp_ms=1_700_000_000_000 + number,
                partition=number % 2,
            )
        producer.flush()


def test_records_of_a_broker_are_answered_from_archive_and_log_as_if_they_were_one(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT id, amount, _key, _headers, _partition FROM topics.orders ORDER BY id"
    with BlockingAdmin(settings.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name="orders", partition_count=2, replication_factor=1)])
    send(settings.bootstrap_servers)
    from_log = ask(sql, topics=[ORDERS], settings=settings).to_pylist()
    assert [row["id"] for row in from_log] == list(range(60))
    assert from_log[13]["_headers"] == [{"key": "n", "value": b"13"}]
    resources = {
        "log_service": LogServiceResource(bootstrap_servers=settings.bootstrap_servers),
        "lake": LakeResource(root=str(settings.lake_root)),
    }
    assets = [topic_asset(ORDERS), archive_asset(ORDERS)]
    config = {"ops": {assets[1].op.name: {"config": {"only_full_chunks": True}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize(
            assets, selection=[KEY], resources=resources, instance=instance, run_config=config
        ).success
    lake = Lake(settings.lake_root)
    with connect(settings.bootstrap_servers) as log:
        described = log.describe_topic("orders")
        assert described is not None
        ends = lake.existing("orders_archive").checkpoints(described.topic_id, [0, 1])
        assert {number: one.next_offset for number, one in ends.items()} == {0: 50, 1: 20}
        log.delete_records("orders", {0: 45, 1: 20})
    for number in range(60, 65):
        with BlockingProducer(settings.bootstrap_servers) as producer:
            producer.send("orders", order(number), key=b"late", partition=1).wait()
    from_both = ask(sql, topics=[ORDERS], settings=settings).to_pylist()
    assert from_both[:60] == from_log
    assert [row["id"] for row in from_both[60:]] == list(range(60, 65))
    narrow = ask(
        "SELECT id FROM topics.orders WHERE _partition = 1 AND _offset BETWEEN 19 AND 20 ORDER BY id",
        topics=[ORDERS],
        settings=settings,
    )
    assert narrow["id"].to_pylist() == [59, 60]
    early = "SELECT count(*) AS n FROM topics.orders WHERE _timestamp < TIMESTAMPTZ '2023-11-14 22:13:20.050Z'"
    assert ask(early, settings=settings).to_pylist() == [{"n": 30}]
    lake.compact("orders_archive")
    assert len(lake.existing("orders_archive").files) == 2
    assert ask(sql, topics=[ORDERS], settings=settings).to_pylist() == from_both
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", settings.bootstrap_servers)
    with connect(settings.bootstrap_servers) as log:
        log.delete_records("orders", {0: 51})
    typed = CliRunner().invoke(sql_command, ["--json", "SELECT count(*) AS n FROM topics.orders"])
    assert (typed.exit_code, json.loads(typed.stdout)) == (0, [{"n": 64}])
    lost = "Warning: records of the topic orders were removed from the log, or could not be read, before they were archived: offsets 0:[50,51)"
    assert lost in typed.stderr
    monkeypatch.setattr(
        import_module("orchestration.calls.ask"), "connect", partial(connect, timeout_ms=500)
    )
    monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    away = load_settings()
    hint = r"Is it running\?.* can be asked without it: --archived, or is_archive_only=True"
    with pytest.raises(LogServiceError, match=hint):
        ask(sql, settings=away)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = ask(sql, topics=[ORDERS], settings=away, is_archive_only=True).to_pylist()
    assert alone == [row for row in from_log if row["id"] not in {54, 56, 58}]
    typed = CliRunner().invoke(
        sql_command, ["--archived", "--json", "SELECT count(*) AS n FROM topics.orders"]
    )
    assert (typed.exit_code, json.loads(typed.stdout)) == (0, [{"n": len(alone)}])
