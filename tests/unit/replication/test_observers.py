"""Observers copy everything, and acknowledge nothing unless a partition is in need."""

import trio

from log_service.common.errors import ErrorCode
from log_service.config.runtime_keys import OBSERVER, OBSERVER_PROMOTION
from log_service.protocol.stored.metadata_records import ConfigRecord, FeatureLevelRecord
from tests.helpers.replica_cluster import ReplicaCluster, tell_cluster, until
from tests.unit.broker.context import batch

BROKERS = 4


def configure(cluster: ReplicaCluster, name: str, value: str, broker: str = "3") -> None:
    cluster.publish(
        ConfigRecord(resource_type=BROKERS, resource_name=broker, name=name, value=value)
    )


def with_observer(
    cluster: ReplicaCluster,
    *,
    promotes: bool = False,
    min_isr: str = "1",
    isr: tuple[int, ...] = (1, 2),
) -> None:
    """Let broker 3 be an observer, and create the topic."""
    cluster.publish(FeatureLevelRecord(name="tidelog.observers", feature_level=1))
    configure(cluster, OBSERVER, "true")
    if promotes:
        configure(cluster, OBSERVER_PROMOTION, "under-min-isr", "")
    cluster.create_topic(replicas=(1, 2, 3), isr=isr, min_insync_replicas=min_isr)


def test_an_observer_copies_everything_and_stays_out_of_sync() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        with_observer(cluster)
        for number in range(5):
            assert (await cluster.node(1).produce("a", batch(b"%d" % number))).error_code == 0
        await until(lambda: cluster.node(3).bytes_of() == cluster.node(1).bytes_of())
        await trio.sleep(60)
        assert sorted(cluster.isr()) == [1, 2]
        assert cluster.alterations == []

    tell_cluster(story)


def test_nobody_waits_for_an_observer() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        with_observer(cluster)
        assert (await cluster.node(1).produce("a", batch(b"one"))).error_code == 0
        await until(lambda: cluster.node(3).log().log_end_offset == 1)
        await cluster.node(3).kill()
        began = trio.current_time()
        assert (await cluster.node(1).produce("a", batch(b"two"))).error_code == 0
        assert trio.current_time() - began < 0.5

    tell_cluster(story)


def test_an_observer_does_not_count_for_min_insync_replicas() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        with_observer(cluster, min_isr="2", isr=(1,))
        await cluster.node(2).kill()
        cluster.fence(2)
        await trio.sleep(5)
        assert (
            await cluster.node(1).produce("a", batch(b"one"))
        ).error_code == ErrorCode.NOT_ENOUGH_REPLICAS

    tell_cluster(story)


def test_a_broker_that_becomes_an_observer_leaves_the_in_sync_sets_and_returns() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.publish(FeatureLevelRecord(name="tidelog.observers", feature_level=1))
        cluster.create_topic(replicas=(1, 2, 3))
        configure(cluster, OBSERVER, "true")
        await until(lambda: sorted(cluster.isr()) == [1, 2], 1)
        configure(cluster, OBSERVER, "false")
        await until(lambda: sorted(cluster.isr()) == [1, 2, 3], 1)

    tell_cluster(story)


def test_the_policy_promotes_an_observer_under_min_isr_and_lets_it_go_when_others_are_back() -> (
    None
):
    async def story(cluster: ReplicaCluster) -> None:
        with_observer(cluster, promotes=True, min_isr="2")
        assert (await cluster.node(1).produce("a", batch(b"one"))).error_code == 0
        await cluster.node(2).kill()
        cluster.fence(2)
        cluster.change(isr=[1])
        await until(lambda: sorted(cluster.isr()) == [1, 3], 2)
        assert (await cluster.node(1).produce("a", batch(b"two"))).error_code == 0
        assert cluster.node(3).values() == [b"one", b"two"]
        await cluster.start(2)
        await until(lambda: sorted(cluster.isr()) == [1, 2], 40)
        assert cluster.node(2).bytes_of() == cluster.node(1).bytes_of()

    tell_cluster(story)


def test_without_the_feature_the_keys_mean_nothing() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        configure(cluster, OBSERVER, "true")
        cluster.create_topic(replicas=(1, 2, 3), isr=(1, 2))
        await until(lambda: sorted(cluster.isr()) == [1, 2, 3])

    tell_cluster(story)
