"""Throttled replication: who is slowed down, to what, and who never is."""

from typing import Any, cast

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.stored.metadata_records import ConfigRecord
from log_service.replication.throttles import (
    ByteRate,
    Throttle,
    ThrottledSide,
    throttled_partitions,
)
from tests.helpers.replica_cluster import ReplicaCluster, tell_cluster, until
from tests.unit.broker.context import batch
from tests.unit.replication.context import NODE, ReplicaContext, config_record, run_story, running

RECORD = b"x" * 10_000


@pytest.mark.parametrize(
    ("text", "found"),
    [("", set()), ("*", None), ("0:1,2:1,3:2", {0, 2}), (" 4:1 , ,5:11", {4}), ("0:2", set())],
)
def test_what_a_topic_names(text: str, found: set[int] | None) -> None:
    assert throttled_partitions(text, 1) == found


def test_nothing_is_throttled_without_a_rate() -> None:
    throttle = Throttle(ThrottledSide.LEADER, 1, 0)
    throttle.set_topic("a", "*")
    where = TopicPartition("a", 0)
    throttle.note(10**9, 0)
    assert (throttle.covers(where), throttle.is_exceeded(0)) == (False, False)
    throttle.set_rate("1000")
    assert (throttle.covers(where), throttle.is_exceeded(0)) == (True, True)
    throttle.set_topic("a", None)
    assert not throttle.covers(where)


def test_a_rate_forgets() -> None:
    rate = ByteRate(0)
    rate.note(90_000, 0)
    assert rate.per_second(0) == 10_000
    rate.note(90_000, 9_500)
    assert rate.per_second(10_000) == 18_000
    assert rate.per_second(12_001) == 10_000
    assert rate.per_second(60_000) == 0


def test_a_throttle_holds_whatever_else_is_configured_with_it() -> None:
    """After a start all that was ever configured comes at once."""

    async def main() -> None:
        async with running() as context:
            rate = ConfigRecord(
                resource_type=4,
                resource_name=str(NODE),
                name="follower.replication.throttled.rate",
                value="1000",
            )
            other = ConfigRecord(
                resource_type=4, resource_name=str(NODE), name="log.cleaner.threads", value="1"
            )
            context.publish(other)
            assert not has_throttles(context), "most nodes never need any"
            named = config_record("a", "follower.replication.throttled.replicas", "*")
            context.publish(rate, other, config_record("a", "retention.ms", "1"), named)
            throttles = context.replicas.remote.throttles
            assert throttles is not None
            assert throttles.follower.covers(TopicPartition("a", 0))

    run_story(main)


def has_throttles(context: ReplicaContext) -> bool:
    return context.replicas.remote.throttles is not None


def configure(cluster: ReplicaCluster, side: str, rate: int) -> None:
    broker = {"leader": "1", "follower": "2"}[side]
    key = f"{side}.replication.throttled.rate"
    cluster.publish(ConfigRecord(resource_type=4, resource_name=broker, name=key, value=str(rate)))


async def seconds_to_catch_up(cluster: ReplicaCluster, side: str, named: str) -> float:
    """How long a replica takes that lacks 100 batches of 10 kB, where 50 kB a second are allowed."""
    key = f"{side}_replication_throttled_replicas"
    cluster.create_topic(replicas=(1, 2), isr=(1,), **cast("Any", {key: named}))
    configure(cluster, side, 50_000)
    await cluster.node(2).kill()
    for _ in range(100):
        await cluster.node(1).produce("a", batch(RECORD), acks=1)
    await cluster.start(2)
    return await until(lambda: cluster.node(2).log().log_end_offset == 100, 60)


@pytest.mark.parametrize(
    ("named", "least", "most"), [("0:1", 8, 25), ("*", 8, 25), ("0:2", 0, 1), ("1:1", 0, 1)]
)
def test_a_leader_gives_a_follower_out_of_sync_no_more_than_its_rate(
    named: str, least: float, most: float
) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        assert least <= await seconds_to_catch_up(cluster, "leader", named) <= most

    tell_cluster(story, count=2, replica_fetch_max_bytes="20200")


@pytest.mark.parametrize(("named", "least", "most"), [("0:2", 8, 25), ("*", 8, 25), ("0:1", 0, 1)])
def test_a_follower_that_lags_fetches_no_faster_than_its_rate(
    named: str, least: float, most: float
) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        assert least <= await seconds_to_catch_up(cluster, "follower", named) <= most

    tell_cluster(story, count=2, replica_fetch_max_bytes="20200")


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replicas_in_sync_are_never_slowed_down(side: str) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(
            replicas=(1, 2), **cast("Any", {f"{side}_replication_throttled_replicas": "*"})
        )
        configure(cluster, side, 1)
        began = trio.current_time()
        for _ in range(50):
            assert (await cluster.node(1).produce("a", batch(RECORD))).error_code == 0
        assert trio.current_time() - began < 1

    tell_cluster(story, count=2)


def test_a_rate_that_is_taken_away_lets_all_go_at_once() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2), isr=(1,), leader_replication_throttled_replicas="*")
        configure(cluster, "leader", 10)
        await cluster.node(2).kill()
        for _ in range(100):
            await cluster.node(1).produce("a", batch(RECORD), acks=1)
        await cluster.start(2)
        await trio.sleep(20)
        assert cluster.node(2).log().log_end_offset < 20
        assert 80 < cluster.node(2).replicas.remote.max_lag <= 100, (
            "the metrics page shows how far it is behind"
        )
        key = "leader.replication.throttled.rate"
        cluster.publish(ConfigRecord(resource_type=4, resource_name="1", name=key, value=None))
        assert await until(lambda: cluster.node(2).log().log_end_offset == 100) < 1
        assert (
            cluster.node(1).replicas.remote.max_lag,
            cluster.node(2).replicas.remote.max_lag,
        ) == (0, 0)

    tell_cluster(story, count=2, replica_fetch_max_bytes="20200")


def test_appends_do_not_wake_a_follower_that_is_held_back() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2), isr=(1,), leader_replication_throttled_replicas="*")
        configure(cluster, "leader", 1)
        cluster.refusal = lambda _request: ErrorCode.INELIGIBLE_REPLICA
        for _ in range(20):
            await cluster.node(1).produce("a", batch(RECORD), acks=1)
        await trio.sleep(1)
        meter = cluster.node(1).meters[ApiKey.FETCH].followers
        assert meter is not None
        before = sum(meter.versions)
        for _ in range(100):
            await cluster.node(1).produce("a", batch(RECORD), acks=1)
            await trio.sleep(0.05)
        assert sum(meter.versions) - before <= 12, "twice a second"

    tell_cluster(story, count=2)
