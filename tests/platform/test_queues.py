"""A queue in Dagster has an asset, and a sensor that tells its depth.

The broker is the test's own.
"""

from collections.abc import Iterator

import dagster as dg
import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingProducer,
    BlockingShareConsumer,
    ConfigResource,
    NewTopic,
)
from orchestration.infrastructure.queues import QueueSpec, decide_depths, queue_asset, queue_sensor
from orchestration.resources.log_service import LogServiceResource
from orchestration.sensing.progress import REPORT_INTERVAL_S, Reported, read_cursor
from orchestration.topics.spec import TopicSpec
from tests.helpers.broker_process import BrokerProcess

PARCELS = TopicSpec(name="parcels", partitions=1)
PACKERS = QueueSpec(group_id="packers", topic=PARCELS)
NO_QUEUE = QueueSpec(group_id="readers", topic=PARCELS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("queue")) as running:
        with BlockingAdmin(running.bootstrap) as admin:
            admin.create_topics([NewTopic(name="parcels", partition_count=1)])
            admin.alter_configs(
                {ConfigResource.group("packers"): {"share.auto.offset.reset": "earliest"}}
            )
        yield running


def take(broker: BrokerProcess, count: int) -> None:
    with BlockingShareConsumer(
        broker.bootstrap, group_id="packers", share_acquire_mode="record_limit"
    ) as consumer:
        consumer.subscribe(["parcels"])
        left = count
        while left:
            left -= len(consumer.poll(max_records=left, timeout_ms=10_000))


def test_the_sensor_tells_how_deep_a_queue_is(broker: BrokerProcess) -> None:
    now = [1_000.0]
    sensor = queue_sensor([PACKERS, NO_QUEUE], now_s=lambda: now[0])

    def tick(cursor: str | None) -> dg.SensorResult:
        resources = {"log_service": LogServiceResource(bootstrap_servers=broker.bootstrap)}
        result = sensor(dg.build_sensor_context(cursor=cursor, resources=resources))
        assert isinstance(result, dg.SensorResult)
        now[0] += REPORT_INTERVAL_S
        return result

    before = tick(None)
    assert not before.asset_events, "no worker has begun"
    with BlockingProducer(broker.bootstrap) as producer:
        producer.send_many("parcels", [b"book", b"vase", b"lamp"])
    take(broker, 1)
    told = tick(before.cursor)
    (event,) = told.asset_events
    assert event.asset_key == PACKERS.asset_key
    assert event.metadata["depth"].value == 2
    assert not tick(told.cursor).asset_events, "nothing has changed"
    take(broker, 2)
    (event,) = tick(told.cursor).asset_events
    assert event.metadata["depth"].value == 0


def test_a_depth_is_told_when_it_changes_and_an_empty_queue_at_once() -> None:
    told = {
        "a": Reported(value="3", at_s=100.0),
        "b": Reported(value="1", at_s=100.0),
        "c": Reported(value="7", at_s=100.0),
    }
    due, known = decide_depths({"a": 5, "b": 0, "c": 7, "d": None}, told, 101.0)
    assert due == {"b"}
    assert known["b"] == Reported(value="0", at_s=101.0)
    assert decide_depths({"a": 5}, known, 100.0 + REPORT_INTERVAL_S)[0] == {"a"}


@pytest.mark.parametrize("cursor", [None, "", "no json", "[]", '{"a": 5}'])
def test_a_cursor_that_makes_no_sense_is_one_that_was_lost(cursor: str | None) -> None:
    assert read_cursor(cursor) == {}


def test_a_queue_is_downstream_of_its_topic() -> None:
    asset = queue_asset(PACKERS)
    assert [dependency.asset_key for dependency in asset.deps] == [PARCELS.asset_key]
    dg.Definitions.validate_loadable(
        dg.Definitions(
            assets=[asset],
            sensors=[queue_sensor([PACKERS])],
            resources={"log_service": LogServiceResource()},
        )
    )
