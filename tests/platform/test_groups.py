"""A sensor tells of groups of other programs in Dagster, against a broker of the test's own."""

from collections.abc import Iterator

import dagster as dg
import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingShareConsumer,
    ConfigResource,
    ErrorCode,
    KafkaError,
    NewTopic,
    TopicPartition,
)
from orchestration.resources.log_service import LogServiceResource
from orchestration.sensing.groups import MAX_GROUPS, group_sensor
from orchestration.sensing.progress import REPORT_INTERVAL_S
from tests.helpers.broker_process import BrokerProcess
from tests.integration.confluent import consumer, produce, take

READERS, PACKERS, OWN = "readers", "packers", "tidelog.clean_orders"
COUNT = 6
FROM_THE_START = {TopicPartition("orders", partition): 0 for partition in range(2)}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("groups")) as running:
        with BlockingAdmin(running.bootstrap) as admin:
            admin.create_topics(
                [
                    NewTopic(name="orders", partition_count=2),
                    NewTopic(name="parcels", partition_count=1),
                ]
            )
            admin.alter_configs(
                {ConfigResource.group(PACKERS): {"share.auto.offset.reset": "earliest"}}
            )
        for topic in ("orders", "parcels"):
            produce(running.bootstrap, topic, [b"%d" % number for number in range(COUNT)])
        yield running


class Ticks:
    """A sensor that remembers, and what it told with each tick."""

    def __init__(self, bootstrap: str, max_groups: int = MAX_GROUPS) -> None:
        self.bootstrap = bootstrap
        self.cursor: str | None = None
        self.now_s = 1_000.0
        self.reason = ""
        self._sensor = group_sensor(now_s=lambda: self.now_s, max_groups=max_groups)

    def tick(self) -> dict[str, dict[str, object]]:
        """Return what is told of each group, by its name."""
        resources = {"log_service": LogServiceResource(bootstrap_servers=self.bootstrap)}
        result = self._sensor(dg.build_sensor_context(cursor=self.cursor, resources=resources))
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        self.now_s += REPORT_INTERVAL_S
        self.reason = (
            result.skip_reason.skip_message or ""
            if isinstance(result.skip_reason, dg.SkipReason)
            else ""
        )
        with dg.DagsterInstance.ephemeral() as instance:
            for event in result.asset_events:
                instance.report_runless_asset_event(event)
            assert {*instance.all_asset_keys()} == {
                event.asset_key for event in result.asset_events
            }
        return {
            event.asset_key.path[-1]: {name: each.value for name, each in event.metadata.items()}
            for event in result.asset_events
        }


def test_the_sensor_tells_how_far_groups_of_other_programs_are_behind(
    broker: BrokerProcess,
) -> None:
    ticks = Ticks(broker.bootstrap)
    assert ticks.tick() == {}
    assert ticks.reason == "no group has changed"
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.alter_group_offsets(OWN, FROM_THE_START)
    source = consumer(broker.bootstrap, READERS)
    source.subscribe(["orders"])
    take(source, COUNT)
    source.commit(asynchronous=False)
    told = ticks.tick()
    assert told.keys() == {READERS}
    assert (told[READERS]["lag"], told[READERS]["members"], told[READERS]["state"]) == (
        0,
        1,
        "Stable",
    )
    assert ticks.tick() == {}, "nothing has changed"
    produce(broker.bootstrap, "orders", [b"more"] * 4)
    assert ticks.tick()[READERS]["lag"] == 4
    source.close()
    told = ticks.tick()
    assert (told[READERS]["lag"], told[READERS]["members"], told[READERS]["state"]) == (
        4,
        0,
        "Empty",
    )
    with BlockingShareConsumer(
        broker.bootstrap, group_id=PACKERS, share_acquire_mode="record_limit"
    ) as worker:
        worker.subscribe(["parcels"])
        count = 0
        while count < 2:
            count += len(worker.poll(max_records=2 - count, timeout_ms=10_000))
    told = ticks.tick()
    assert (told[PACKERS]["kind"], told[PACKERS]["lag"], told[PACKERS]["members"]) == (
        "share",
        COUNT - 2,
        0,
    )
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.delete_groups([READERS])
    assert ticks.tick()[READERS]["state"] == "gone"
    assert READERS not in (ticks.cursor or "")


def test_a_group_that_cannot_be_looked_at_keeps_no_other_from_its_turn(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BlockingAdmin(broker.bootstrap) as admin:
        for group in ("a-broken-one", "one-that-works"):
            admin.alter_group_offsets(group, FROM_THE_START)
    whole = BlockingAdmin.list_group_offsets

    def refusing(self: BlockingAdmin, group_id: str, *arguments: object, **named: object) -> object:
        if group_id == "a-broken-one":
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not you")
        return whole(self, group_id, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(BlockingAdmin, "list_group_offsets", refusing)
    ticks = Ticks(broker.bootstrap)
    told = ticks.tick()
    assert "one-that-works" in told
    assert "a-broken-one" not in told
    assert "a-broken-one cannot be looked at" in ticks.reason
    few = Ticks(broker.bootstrap, max_groups=1)
    few.tick()
    assert "only the first 1 by name" in few.reason


def test_a_cluster_that_is_away_makes_the_tick_say_so() -> None:
    sensor = group_sensor()
    context = dg.build_sensor_context(
        resources={"log_service": LogServiceResource(bootstrap_servers="127.0.0.1:1")}
    )
    result = sensor(context)
    assert isinstance(result, dg.SkipReason)
    assert "the groups cannot be listed" in (result.skip_message or "")
