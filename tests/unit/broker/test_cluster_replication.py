"""Acknowledged records survive the death of their leader.

Every replica of the cluster's nodes holds the same bytes.
"""

from collections.abc import Sequence

import pytest
import trio

from log_service.broker.broker import Broker
from log_service.common.env import FileSlice
from log_service.common.errors import ErrorCode
from log_service.common.types import Buffer
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.produce import ProduceResponse
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, node_properties, tell_cluster
from tests.helpers.metrics_page import fetch
from tests.sim import network
from tests.sim.network import MemoryConnection
from tests.unit.broker.context import RawClient, batch, produce_request


async def client_of(cluster: Cluster, node_id: int) -> RawClient:
    return RawClient(
        await cluster.world.client_env().network.connect(host_of(node_id), BROKER_PORT)
    )


async def create_topic(
    cluster: Cluster, name: str = "a", partitions: int = 1, replicas: int = 3, **configs: str
) -> None:
    """Create a topic, once all brokers are there."""
    leader = await cluster.leader()
    await cluster.until(lambda: len(cluster.unfenced(leader)) == 3)
    named = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, configs=named
    )
    client = await client_of(cluster, leader)
    response: CreateTopicsResponse = await client.ask(
        CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7
    )
    assert response.topics[0].error_code == 0, response
    client.close()
    await cluster.until(
        lambda: all(name in broker.image.topics.by_name for broker in cluster.brokers.values())
    )


def registration(cluster: Cluster, name: str = "a", index: int = 0) -> PartitionRegistration:
    """Return a partition's registration from the node with the newest metadata."""
    newest = max(cluster.brokers.values(), key=lambda broker: broker.image.offset)
    return newest.image.topics.by_name[name].partitions[index]


async def produce(cluster: Cluster, value: bytes, index: int = 0) -> int:
    """Produce with acks=all until a leader takes it; return its offset."""
    with trio.fail_after(60):
        while True:
            leader = registration(cluster, "a", index).leader
            if leader in cluster.brokers:
                client = await client_of(cluster, leader)
                try:
                    response: ProduceResponse = await client.ask(
                        produce_request("a", batch(value), partition=index), 9
                    )
                except (OSError, EOFError):
                    continue
                finally:
                    client.close()
                result = response.responses[0].partition_responses[0]
                if result.error_code == 0:
                    return result.base_offset
                assert ErrorCode.of(result.error_code).is_retriable, result
            await trio.sleep(0.1)


def bytes_of(broker: Broker, name: str = "a", index: int = 0) -> bytes:
    log = broker.replicas.get_partition(name, index).log
    assert log is not None
    return b"".join(log.read_batches(log.log_start_offset))


async def all_in_sync_and_equal(cluster: Cluster, index: int = 0) -> bytes:
    await cluster.until(lambda: len(registration(cluster, "a", index).isr) == 3)
    contents = {
        node_id: bytes_of(broker, "a", index) for node_id, broker in cluster.brokers.items()
    }
    assert len(set(contents.values())) == 1, {
        node_id: len(content) for node_id, content in contents.items()
    }
    return contents[1]


def test_a_record_that_is_acknowledged_is_on_three_nodes() -> None:
    async def story(cluster: Cluster) -> None:
        await create_topic(cluster, partitions=3, min_insync_replicas="2")
        for number in range(12):
            assert await produce(cluster, b"%d" % number, number % 3) == number // 3
        for index in range(3):
            assert len(await all_in_sync_and_equal(cluster, index)) > 4 * 61

    tell_cluster(story)


def test_a_large_batch_goes_to_followers_as_a_slice_of_the_leaders_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system sends it from the page cache, as it lies there: the leader neither reads nor
    changes it.
    """
    sent: list[int] = []

    class Noting(MemoryConnection):
        async def send_file(self, header: Sequence[Buffer], file_slice: FileSlice) -> None:
            sent.append(len(file_slice))
            await super().send_file(header, file_slice)

    async def story(cluster: Cluster) -> None:
        await create_topic(cluster, min_insync_replicas="2")
        await produce(cluster, b"x" * 300_000)
        size_bytes = len(await all_in_sync_and_equal(cluster))
        assert sent == [size_bytes, size_bytes], "one for each follower"

    monkeypatch.setattr(network, "MemoryConnection", Noting)
    tell_cluster(story)


@pytest.mark.parametrize("seed", range(3))
def test_no_acknowledged_record_is_lost_when_leaders_die_in_turn(seed: int) -> None:
    async def story(cluster: Cluster) -> None:
        await create_topic(cluster, min_insync_replicas="2", flush_messages="1")
        sent = 0
        for _ in range(3):
            for _ in range(5):
                assert await produce(cluster, b"value-%03d" % sent) == sent
                sent += 1
            victim = registration(cluster).leader
            cluster.kill(victim)
            for _ in range(5):
                assert await produce(cluster, b"value-%03d" % sent) == sent
                sent += 1
            await cluster.start(victim)
            content = await all_in_sync_and_equal(cluster)
            assert all(b"value-%03d" % number in content for number in range(sent))

    tell_cluster(story, seed=seed)


def test_a_clean_stop_hands_leadership_over_and_the_node_comes_back_in_sync() -> None:
    async def story(cluster: Cluster) -> None:
        await create_topic(cluster, min_insync_replicas="2")
        sent = 0
        for node_id in (1, 2, 3):
            assert await produce(cluster, b"%d" % sent) == sent
            await cluster.stop(node_id)
            assert await produce(cluster, b"%d" % (sent + 1)) == sent + 1
            sent += 2
            await cluster.start(node_id)
            await all_in_sync_and_equal(cluster)

    tell_cluster(story)


def test_a_clean_stop_fails_no_request_that_follows_the_leader() -> None:
    """A clean stop fails no request of a client that follows the leader.

    The client learns of another leader while the node that it asked is still there. No
    connection is lost or refused before.
    """

    async def story(cluster: Cluster) -> None:
        await create_topic(cluster, min_insync_replicas="2")
        assert await produce(cluster, b"first") == 0
        old = registration(cluster).leader
        client = await client_of(cluster, old)
        codes: list[ErrorCode] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.stop, old)
            while not codes or codes[-1] == ErrorCode.NONE:
                response: ProduceResponse = await client.ask(
                    produce_request("a", batch(b"next")), 9
                )
                codes.append(ErrorCode.of(response.responses[0].partition_responses[0].error_code))
                await trio.sleep(0.001)
        assert codes[-1] is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await produce(cluster, b"last") == len(codes)

    tell_cluster(story)


@pytest.mark.parametrize("of_topic", [False, True], ids=["of the file", "of the topic"])
def test_unclean_leader_election_enable(of_topic: bool) -> None:
    """A replica that lacks the last record leads if that is allowed.

    The only replica that holds the record is dead.
    """
    configs = {"unclean_leader_election_enable": "true"}

    async def story(cluster: Cluster) -> None:
        await create_topic(cluster, replicas=2, **(configs if of_topic else {}))  # type: ignore[arg-type]
        first, second = registration(cluster).replicas
        cluster.kill(second)
        await cluster.until(lambda: registration(cluster).isr == (first,))
        await produce(cluster, b"lost")
        cluster.kill(first)
        await cluster.start(second)
        await cluster.until(lambda: registration(cluster).leader == second)
        assert bytes_of(cluster.brokers[second]) == b""
        (other,) = {1, 2, 3} - {first, second}
        page = await fetch(cluster.world.client_env().network, host_of(other), 9404)
        assert "\nkafka_controller_controllerstats_uncleanleaderelections_total 1\n" in page

    pages = {each: {"metrics_listener": f"{host_of(each)}:9404"} for each in (1, 2, 3)}
    files = {
        each: node_properties(each, (1, 2, 3), **pages[each], **({} if of_topic else configs))
        for each in (1, 2, 3)
    }
    tell_cluster(story, files)
