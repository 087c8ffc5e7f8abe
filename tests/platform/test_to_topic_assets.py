"""A transform to a topic in Dagster materializes, tells, and has upstream assets.

The sensor starts its runs.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import dagster as dg
import pytest

from orchestration.assembly import assemble
from orchestration.calls.replay import replay
from orchestration.cli.replay import refuse_transforms
from orchestration.sensing.new_records import decide_runs
from orchestration.sensing.topic_sensor import Clock, Watch
from orchestration.topics.spec import topic_asset
from orchestration.transforms import spark_topic, table_key, topic_feeds
from orchestration.transforms.ledger import ledger
from orchestration.transforms.to_topic.history import letters_replay_job
from orchestration.transforms.to_topic.kind import SendingKind
from tests.helpers.declared_kinds import declared_as
from tests.platform.assets_world import World, failure_of
from tests.platform.good_orders import GOOD_ORDERS, GROUP, RULES
from tests.platform.good_orders import good_orders as function
from tests.platform.pipeline import ORDERS, append_order, order

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
KEY = table_key("good_orders")
TARGET_KEY = GOOD_ORDERS.asset_key


@spark_topic(source=ORDERS, target=GOOD_ORDERS, key="id", rules=RULES)
def good_orders(records: Any) -> Any:
    """Orders with an amount."""
    return function(records)


orders_topic, good_orders_topic = topic_asset(ORDERS), topic_asset(GOOD_ORDERS)


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> Iterator[World]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        yield World(tmp_path, spark, instance)


def materialize(
    world: World, asset: dg.AssetsDefinition, **config: Any
) -> dg.ExecuteInProcessResult:
    run_config = {"ops": {asset.op.name: {"config": config}}} if config else None
    return dg.materialize(
        [asset],
        resources=world.resources,
        instance=world.instance,
        raise_on_error=False,
        run_config=run_config,
    )


def test_a_run_tells_what_it_sent_and_that_the_target_grew(world: World) -> None:
    assert materialize(world, orders_topic).success
    partition = world.log.topics["orders"].partitions[1]
    for value in (order("a", 2), order("b", 1), order("c", -1), b"nonsense"):
        partition.append(value)
    result = materialize(world, good_orders)
    assert result.success, failure_of(result)
    values = world.values(KEY)
    assert {
        name: values[name]
        for name in (
            "rows",
            "records",
            "records_sent",
            "transactions",
            "target",
            "dead_letters",
            "lag",
        )
    } == {
        "rows": 3,
        "records": 4,
        "records_sent": 3,
        "transactions": 1,
        "target": "good_orders",
        "dead_letters": 2,
        "lag": 0,
    }
    assert [column.name for column in values["dagster/column_schema"].columns][-1] == "copy"
    assert world.values(TARGET_KEY)["records_retained"] == 3
    checks = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert checks == {"amount_is_positive": False, "id_is_short": True, "has_id": True}
    run = world.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags["tidelog/range"] == "1:[0,4)"
    assert world.log.mirrored == {}
    assert {
        partition: one.next_offset for partition, one in world.log.groups[GROUP, "orders"].items()
    } == {1: 4}
    assert world.warehouse.query(
        "SELECT target, rule FROM dead_letters ORDER BY rule"
    ).to_pylist() == [
        {"target": "good_orders", "rule": "amount_is_positive"},
        {"target": "good_orders", "rule": "schema"},
    ]
    count = len(world.instance.fetch_materializations(KEY, limit=10).records)
    assert materialize(world, good_orders).success
    assert len(world.instance.fetch_materializations(KEY, limit=10).records) == count


def test_what_a_killed_run_could_not_tell_the_next_one_tells(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    materialize(world, orders_topic)
    append_order(world.log, "a")
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert not materialize(world, good_orders).success
    assert world.values(KEY) == {}
    assert materialize(world, good_orders).success
    assert world.values(KEY)["kind"] == "recovered"
    assert len(world.log.sent) == 1


def test_a_run_follows_its_topic_with_a_materialization_for_each_range(world: World) -> None:
    materialize(world, orders_topic)
    append_order(world.log, "a")
    names = iter("bc")

    def append_another(_timeout_ms: int) -> None:
        name = next(names, None)
        if name is not None:
            append_order(world.log, name)

    world.log.on_wait = append_another
    assert materialize(world, good_orders, follow_s=600).success
    assert [len(records) for _, records in world.log.sent] == [1, 1, 1]
    assert len(world.instance.fetch_materializations(KEY, limit=10).records) == 3


def test_a_missing_source_says_what_to_do(world: World) -> None:
    assert "materialize topics/orders, which creates it" in failure_of(
        materialize(world, good_orders)
    )


def run_replay_job(world: World, **config: Any) -> dg.ExecuteInProcessResult:
    job = letters_replay_job(declared_as(SendingKind, "good_orders").transform)
    run_config = {"ops": {"replay": {"config": config}}}
    return job.execute_in_process(
        run_config, instance=world.instance, resources=world.resources, raise_on_error=False
    )


def output_of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    assert result.success, failure_of(result)
    (output,) = (
        event.step_output_data.metadata
        for event in result.all_events
        if event.event_type_value == "STEP_OUTPUT"
    )
    return {label: one.value for label, one in output.items()}


def test_the_job_sends_what_was_fixed_once_and_tells_it_on_the_transform_and_the_target(
    world: World,
) -> None:
    materialize(world, orders_topic)
    partition = world.log.topics["orders"].partitions[0]
    for value in (order("a", 1), b"nonsense", order("c", -1)):
        partition.append(value)
    assert materialize(world, good_orders).success
    shown = output_of(run_replay_job(world, dead_letters=True, dry_run=True))
    assert (shown["offset_count"], shown["offsets"]) == (2, "0:[1,3)")
    fixes = [{"partition": 0, "offset": 1, "value": order("b", 3).decode()}]
    told = output_of(run_replay_job(world, fixes=fixes))
    assert {name: told[name] for name in ("records", "rows", "dead_letters", "commits")} == {
        "records": 1,
        "rows": 1,
        "dead_letters": 0,
        "commits": 1,
    }
    assert [[one.key for one in records] for _, records in world.log.sent] == [[b"a"], [b"b"]]
    values = world.values(KEY)
    assert (values["kind"], values["records_sent"], values["lag"]) == ("replay", 1, 0)
    assert world.values(TARGET_KEY)["records_retained"] == 2
    assert output_of(run_replay_job(world, dead_letters=True))["dead_letters"] == 1
    assert [len(records) for _, records in world.log.sent] == [1, 1, 0]
    assert "only what was rejected can be replayed" in failure_of(
        run_replay_job(world, everything=True)
    )


def test_the_target_is_downstream_and_only_dead_letters_are_replayed() -> None:
    module = ModuleType("assets.orders")
    vars(module).update(
        orders_topic=orders_topic, good_orders_topic=good_orders_topic, good_orders=good_orders
    )
    definitions = assemble([module])
    graph = definitions.resolve_asset_graph()
    assert graph.get(TARGET_KEY).parent_keys == {KEY}
    assert graph.get(KEY).parent_keys == {ORDERS.asset_key}
    assert graph.get(dg.AssetKey(["lake", "dead_letters"])).parent_keys == {KEY}
    assert not graph.has(dg.AssetKey(["history", "good_orders_by_day"]))
    assert "replay_good_orders" in {job.name for job in definitions.resolve_all_job_defs()}
    with pytest.raises(
        ValueError,
        match="good_orders sends to the topic good_orders, and a topic takes nothing back",
    ):
        replay("good_orders", everything=True)
    with pytest.raises(
        click.ClickException,
        match=r"tidelog groups reset tidelog-topic\.good_orders --topic orders",
    ):
        refuse_transforms("good_orders")
    with pytest.raises(ValueError, match="only what was rejected can be replayed"):
        replay("good_orders", dead_letters=True, offsets=[(0, 0, 1)])
    refuse_transforms("good_orders", is_of_dead_letters=True)


def test_the_sensor_starts_a_run_for_new_records_and_to_remind_the_cluster(world: World) -> None:
    materialize(world, orders_topic)
    append_order(world.log, "a")

    def started(now_s: float) -> tuple[str, ...]:
        feeds = topic_feeds([good_orders])
        clock = Clock(now_s=lambda: now_s)
        watch = Watch(
            log=world.log,
            lake=world.lake,
            instance=world.instance,
            feeds=feeds,
            minimum_interval_s=5,
            clock=clock,
        )
        return decide_runs(watch.states(watch.lags()), now_s).start

    assert started(time.time()) == ("good_orders",)
    assert materialize(world, good_orders).success
    assert started(time.time() + 60) == ()
    assert started(time.time() + 86_500) == ("good_orders",)
