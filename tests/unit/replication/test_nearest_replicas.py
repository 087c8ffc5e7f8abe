"""Consumers that read from followers (KIP-392): who is sent where, and what a follower lets them
see.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import trio

from log_service.broker.handlers.nearest_replica import Nearest
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.fetch import FetchResponse, PartitionData
from log_service.protocol.stored.metadata_records import BrokerEndpoint, RegisterBrokerRecord
from tests.helpers.replica_cluster import LISTENER, PORT, ReplicaCluster, tell_cluster, until
from tests.unit.broker.context import batch, fetch_request, values_of

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RACKS = {1: "north", 2: "south", 3: "south"}


def stand_in_racks(cluster: ReplicaCluster) -> None:
    for number, rack in RACKS.items():
        cluster.publish(
            RegisterBrokerRecord(
                broker_id=number,
                broker_epoch=cluster.node(number).epoch,
                incarnation_id=UUID(int=cluster.node(number).epoch),
                end_points=[BrokerEndpoint(name=LISTENER, host=f"host{number}", port=PORT)],
                rack=rack,
                fenced=False,
                log_dirs=[UUID(int=500 + number)],
            )
        )


async def fetch(
    cluster: ReplicaCluster,
    number: int,
    offset: int,
    *,
    version: int = 12,
    rack: str = "",
    **wanted: Any,
) -> PartitionData:
    max_wait_ms = wanted.pop("max_wait_ms", 0)
    request = replace(fetch_request("a", offset, max_wait_ms=max_wait_ms, **wanted), rack_id=rack)
    response: FetchResponse = await cluster.node(number).ask(request, version)
    return response.responses[0].partitions[0]


@pytest.mark.parametrize(
    ("selector", "rack", "sent_to"),
    [(SELECTOR, "south", {2, 3}), (SELECTOR, "north", {-1}), (SELECTOR, "east", {-1})],
)
def test_a_consumer_is_sent_to_the_replica_in_its_rack(
    selector: str, rack: str, sent_to: set[int]
) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        stand_in_racks(cluster)
        cluster.create_topic(replicas=(1, 2, 3))
        await cluster.node(1).produce("a", batch(b"one"))
        found = await fetch(cluster, 1, 0, rack=rack, max_wait_ms=10_000)
        assert found.preferred_read_replica in sent_to
        assert values_of(found.records) == ([b"one"] if sent_to == {-1} else [])
        assert (await fetch(cluster, 1, 0)).preferred_read_replica == -1

    tell_cluster(story, replica_selector_class=selector)


def test_no_consumer_is_sent_away_where_no_selector_is_set() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        stand_in_racks(cluster)
        cluster.create_topic(replicas=(1, 2, 3))
        await cluster.node(1).produce("a", batch(b"one"))
        assert values_of((await fetch(cluster, 1, 0, rack="south")).records) == [b"one"]

    tell_cluster(story)


def test_a_replica_that_lacks_the_offset_or_is_out_of_sync_takes_no_consumer() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        stand_in_racks(cluster)
        cluster.create_topic(replicas=(1, 2, 3))
        await cluster.node(1).produce("a", batch(b"one"))
        cluster.world.network.isolate("host2", ["host1"])
        await cluster.node(1).produce("a", batch(b"two"), acks=1)
        await trio.sleep(1)
        assert (await fetch(cluster, 1, 2, rack="south")).preferred_read_replica == 3
        cluster.change(isr=[1, 2])
        assert (await fetch(cluster, 1, 2, rack="south")).preferred_read_replica == -1
        assert (await fetch(cluster, 1, 1, rack="south")).preferred_read_replica == 2

    tell_cluster(story, replica_selector_class=SELECTOR)


def test_a_follower_serves_up_to_its_own_high_watermark_and_no_further() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await cluster.node(1).produce("a", batch(b"one"))
        assert cluster.node(2).log().log_end_offset == 1
        assert cluster.node(2).partition().high_watermark == 0
        assert values_of((await fetch(cluster, 2, 0)).records) == []
        await until(lambda: cluster.node(2).partition().high_watermark == 1)
        assert values_of((await fetch(cluster, 2, 0)).records) == [b"one"]
        assert (await fetch(cluster, 2, 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    tell_cluster(story, count=2)


def test_a_follower_refuses_older_consumers_and_those_of_another_leader_epoch() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        cluster.change(leader=1)
        assert (
            await fetch(cluster, 2, 0, version=10)
        ).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (
            await fetch(cluster, 2, 0, current_leader_epoch=2)
        ).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (
            await fetch(cluster, 2, 0, current_leader_epoch=0)
        ).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (await fetch(cluster, 2, 0, current_leader_epoch=1)).error_code == 0

    tell_cluster(story, count=2)


def test_a_consumer_that_waits_at_a_follower_goes_when_records_become_safe_there() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await trio.sleep(1)
        came: list[float] = []

        async def wait() -> None:
            found = await fetch(cluster, 2, 0, max_wait_ms=30_000)
            assert values_of(found.records) == [b"one"]
            came.append(trio.current_time())

        cluster.nursery.start_soon(wait)
        await trio.sleep(5)
        assert came == []
        await cluster.node(1).produce("a", batch(b"one"))
        took = await until(lambda: bool(came))
        assert took < 0.6, "the leader's next response, and no more, tells the follower"
        assert cluster.node(2).partition().high_watermark == 1

    tell_cluster(story, count=2)


@pytest.mark.parametrize("lost_count", [6, 2], ids=["up to the leader's start", "short of it"])
def test_a_consumer_that_waits_at_a_follower_hears_at_once_that_the_log_begins_anew(
    lost_count: int,
) -> None:
    """An old leader whose records the new one never had, and which has deleted all that it has
    instead.
    """

    async def story(cluster: ReplicaCluster) -> None:
        old, new = cluster.node(1), cluster.node(2)
        cluster.create_topic(replicas=(1, 2))
        await old.produce("a", batch(b"both"))
        cluster.world.network.isolate("host1", ["host2"])
        await old.produce("a", batch(*[b"lost"] * lost_count), acks=1)
        cluster.change(leader=2, isr=[2])
        await new.produce("a", batch(*[b"kept"] * 6), acks=1)
        new.partition().delete_records(7)
        came: list[float] = []

        async def wait() -> None:
            assert (
                await fetch(cluster, 1, 1, max_wait_ms=30_000)
            ).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            came.append(trio.current_time())

        cluster.nursery.start_soon(wait)
        await trio.sleep(1)
        assert came == []
        cluster.world.network.heal()
        await until(lambda: old.log().log_start_offset == 7)
        assert await until(lambda: bool(came)) < 0.1

    tell_cluster(story, count=2)


@pytest.mark.parametrize(
    ("fields", "fetch_offset", "sent_to"),
    [
        ({}, 7, 2),
        ({"is_fenced": True}, 7, None),
        ({"endpoints": {"INTERNAL": None}}, 7, None),
        ({}, 11, None),
        ({}, 4, None),
    ],
    ids=["there", "fenced", "not on this listener", "beyond the log", "before the log"],
)
def test_a_replica_that_cannot_be_reached_or_read_takes_no_consumer(
    fields: dict[str, Any], fetch_offset: int, sent_to: int | None
) -> None:
    """Broker 2 is in the consumer's rack and in sync; the leader is elsewhere."""
    leader = SimpleNamespace(node_id=1, rack="a", is_fenced=False, endpoints={"EXTERNAL": None})
    follower = SimpleNamespace(
        **{"node_id": 2, "rack": "b", "is_fenced": False, "endpoints": {"EXTERNAL": None}, **fields}
    )
    image: Any = SimpleNamespace(cluster=SimpleNamespace(brokers={1: leader, 2: follower}))
    known = SimpleNamespace(log_start_offset=0, log_end_offset=20, last_caught_up_ms=0)
    state: Any = SimpleNamespace(node_id=1, isr=(1, 2), followers={2: known})
    log: Any = SimpleNamespace(log_start_offset=5, log_end_offset=10)
    assert Nearest(image, "EXTERNAL", "b").replica_for(log, state, fetch_offset) == sent_to
    follower.rack = "a"
    assert Nearest(image, "EXTERNAL", "a").replica_for(log, state, fetch_offset) is None, (
        "the leader is in that rack, too"
    )
