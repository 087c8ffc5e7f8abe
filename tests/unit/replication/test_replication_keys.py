"""Each key of replication has an effect that is seen from outside, in requests, connections or
times.

Each test fails where its key is ignored.
"""

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey
from tests.helpers.replica_cluster import ReplicaCluster, tell_cluster, until
from tests.unit.broker.context import batch

RECORD = b"x" * 1_000


def fetch_count(cluster: ReplicaCluster, number: int = 1) -> int:
    meter = cluster.node(number).meters[ApiKey.FETCH].followers
    assert meter is not None
    return sum(meter.versions)


@pytest.mark.parametrize("count", [1, 3])
def test_num_replica_fetchers(count: int) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2), partitions=12)
        await trio.sleep(1)
        assert cluster.node(2).pool.open_count == count

    tell_cluster(story, count=2, num_replica_fetchers=str(count))


@pytest.mark.parametrize("of_topic", [False, True], ids=["of the file", "of the topic"])
@pytest.mark.parametrize(
    ("wanted", "code"), [(1, ErrorCode.NONE), (2, ErrorCode.NOT_ENOUGH_REPLICAS)]
)
def test_min_insync_replicas(wanted: int, code: ErrorCode, of_topic: bool) -> None:
    configs = {"min_insync_replicas": str(wanted)}

    async def story(cluster: ReplicaCluster) -> None:
        await cluster.node(2).kill()
        cluster.create_topic(replicas=(1, 2), isr=(1,), **(configs if of_topic else {}))  # type: ignore[arg-type]
        response = await cluster.node(1).produce("a", batch(RECORD), acks=-1)
        assert response.error_code == code

    tell_cluster(story, count=2, **({} if of_topic else configs))  # type: ignore[arg-type]


@pytest.mark.parametrize(("backoff_ms", "least", "most"), [(1_000, 8, 20), (5_000, 2, 4)])
def test_replica_fetch_backoff_ms(backoff_ms: int, least: int, most: int) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await trio.sleep(1)
        await cluster.node(1).kill()
        await trio.sleep(15)
        assert least <= cluster.node(2).pool.failed_total <= most

    tell_cluster(story, count=2, replica_fetch_backoff_ms=str(backoff_ms))


async def fetches_of_ten_batches(cluster: ReplicaCluster, partitions: int = 1) -> int:
    """How many fetches it takes to bring ten batches to a replica that was away."""
    cluster.create_topic(replicas=(1, 2), isr=(1,), partitions=partitions)
    await cluster.node(2).kill()
    for number in range(10):
        await cluster.node(1).produce("a", batch(RECORD), acks=1, partition=number % partitions)
    before = fetch_count(cluster)
    await cluster.start(2)
    await until(
        lambda: all(
            cluster.node(2).log(index=index).log_end_offset == 10 // partitions
            for index in range(partitions)
        )
    )
    return fetch_count(cluster) - before


@pytest.mark.parametrize(
    ("max_bytes", "least", "most"), [(1 << 20, 1, 3), (2_500, 5, 7), (0, 10, 12)]
)
def test_replica_fetch_max_bytes(max_bytes: int, least: int, most: int) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        assert least <= await fetches_of_ten_batches(cluster) <= most

    tell_cluster(story, count=2, replica_fetch_max_bytes=str(max_bytes))


@pytest.mark.parametrize(("max_bytes", "least", "most"), [(10 << 20, 1, 3), (2_500, 5, 10)])
def test_replica_fetch_response_max_bytes(max_bytes: int, least: int, most: int) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        assert least <= await fetches_of_ten_batches(cluster, partitions=5) <= most

    tell_cluster(story, count=2, replica_fetch_response_max_bytes=str(max_bytes))


@pytest.mark.parametrize(("min_bytes", "least", "most"), [(1, 0.0, 0.1), (100_000, 0.3, 0.6)])
def test_replica_fetch_min_bytes(min_bytes: int, least: float, most: float) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await trio.sleep(2.0)
        began = trio.current_time()
        await cluster.node(1).produce("a", batch(RECORD))
        assert least <= trio.current_time() - began < most

    tell_cluster(story, count=2, replica_fetch_min_bytes=str(min_bytes))


@pytest.mark.parametrize(("wait_ms", "least", "most"), [(500, 18, 22), (2_000, 4, 6)])
def test_replica_fetch_wait_max_ms(wait_ms: int, least: int, most: int) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await trio.sleep(1)
        before = fetch_count(cluster)
        await trio.sleep(10)
        assert least <= fetch_count(cluster) - before <= most

    tell_cluster(story, count=2, replica_fetch_wait_max_ms=str(wait_ms))


@pytest.mark.parametrize(("lag_ms", "least", "most"), [(30_000, 25, 46), (2_000, 1, 3.2)])
def test_replica_lag_time_max_ms(lag_ms: int, least: float, most: float) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await trio.sleep(1)
        await cluster.node(2).kill()
        await cluster.node(1).produce("a", batch(RECORD), acks=1)
        assert least < await until(lambda: cluster.isr() == (1,), 60) < most

    tell_cluster(story, count=2, replica_lag_time_max_ms=str(lag_ms))
