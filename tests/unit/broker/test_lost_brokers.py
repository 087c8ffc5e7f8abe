"""Living brokers tell clients of a leader whose process has just ended.

Whole nodes run in virtual time.
"""

from typing import Any

import pytest
import trio

from log_service.broker import lost_brokers
from log_service.broker.lost_brokers import LostBrokers
from log_service.common.types import GROUP_METADATA_TOPIC, NodeId
from log_service.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from log_service.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, node_properties, tell_cluster
from tests.unit.broker.context import RawClient
from tests.unit.broker.led_topic import known, lead, other_than

NAMED, ALL = MetadataRequest(topics=[MetadataRequestTopic(name="a")]), MetadataRequest(topics=None)
NEVER_MS = 3_600_000


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no response end its wait by time."""
    monkeypatch.setattr(lost_brokers, "ELECTION_MS", NEVER_MS)


class Survivor:
    """A living broker with a client's connection.

    ``victim`` leads the topic and is not the active controller.
    """

    def __init__(self, cluster: Cluster, victim: int, asked: int, client: RawClient) -> None:
        self.cluster = cluster
        self.victim = victim
        self.asked = asked
        self.client = client

    @property
    def lost(self) -> LostBrokers:
        return self.cluster.brokers[self.asked].rooms.lost_brokers

    def leader(self) -> int:
        return known(self.cluster, self.asked).leader

    async def ask_while_lost(self, request: Any, version: int) -> None:
        """Send a request that has to wait: its broker knows of the loss, and of no other leader."""
        await self.cluster.until_soon(lambda: "[" + str(self.victim) + "]" in repr(self.lost))
        assert self.leader() == self.victim
        await self.client.send(request, version)
        await self.cluster.until_soon(lambda: len(self.lost) == 1)


async def survivor_of(cluster: Cluster) -> Survivor:
    controller = await cluster.leader()
    victim = other_than(controller)
    await lead(cluster, victim)
    asked = other_than(controller, victim)
    return Survivor(
        cluster,
        victim,
        asked,
        RawClient(await cluster.world.client_env().network.connect(host_of(asked), BROKER_PORT)),
    )


def told_leader(response: MetadataResponse) -> int:
    return next(topic for topic in response.topics if topic.name == "a").partitions[0].leader_id


@pytest.mark.parametrize("request_of", [NAMED, ALL], ids=["named", "all"])
@pytest.mark.usefixtures("endless")
def test_a_response_that_would_name_a_dead_leader_waits_for_the_election(
    request_of: MetadataRequest,
) -> None:
    async def story(cluster: Cluster) -> None:
        asked = await survivor_of(cluster)
        cluster.kill(asked.victim)
        await asked.ask_while_lost(request_of, 12)
        assert asked.leader() == asked.victim, "nobody is elected while the response waits"
        response = await asked.client.receive()
        assert told_leader(response) == asked.leader() != asked.victim
        assert len(asked.lost) == 0

    tell_cluster(story)


@pytest.mark.usefixtures("endless")
def test_a_coordinator_is_looked_for_until_there_is_another() -> None:
    async def story(cluster: Cluster) -> None:
        asked = await survivor_of(cluster)
        request = FindCoordinatorRequest(
            key_type=0, coordinator_keys=[f"group {number}" for number in range(20)]
        )
        response: FindCoordinatorResponse = await asked.client.ask(request, 4)
        await cluster.until(
            lambda: GROUP_METADATA_TOPIC in cluster.brokers[asked.asked].image.topics.by_name
        )
        asked.victim = await coordinator_that_may_die(cluster, asked)
        cluster.kill(asked.victim)
        await cluster.until_soon(lambda: f"[{asked.victim}]" in repr(asked.lost))
        await asked.client.send(request, 4)
        await cluster.until_soon(lambda: len(asked.lost) == 1)
        response = await asked.client.receive()
        assert asked.victim not in {
            each.node_id for each in response.coordinators if not each.error_code
        }

    # each of the three nodes leads a partition
    several = {"offsets_topic_num_partitions": "3"}
    tell_cluster(story, {each: node_properties(each, (1, 2, 3), **several) for each in (1, 2, 3)})


async def coordinator_that_may_die(cluster: Cluster, asked: Survivor) -> int:
    """Return a broker that coordinates groups, and is neither asked nor the active controller."""
    partitions = (
        cluster.brokers[asked.asked].image.topics.by_name[GROUP_METADATA_TOPIC].partitions.values()
    )
    controller = await cluster.leader()
    leaders = {partition.leader for partition in partitions} - {asked.asked, controller}
    return leaders.pop() if leaders else pytest.fail(f"no coordinator of {partitions} may die")


@pytest.mark.usefixtures("endless")
def test_nothing_waits_for_a_leader_that_only_loses_its_connections() -> None:
    async def story(cluster: Cluster) -> None:
        asked = await survivor_of(cluster)
        for _ in range(5):
            cluster.world.network.reset_connections(host_of(asked.victim))
            client = RawClient(
                await cluster.world.client_env().network.connect(host_of(asked.asked), BROKER_PORT)
            )
            assert told_leader(await client.ask(NAMED, 12)) == asked.victim, (
                "as soon as a probe has found the leader there"
            )
            await cluster.until_soon(lambda: "[]" in repr(asked.lost))
            await client.send(NAMED, 12)
            assert told_leader(await client.receive()) == asked.victim
            assert len(asked.lost) == 0

    tell_cluster(story)


def test_nothing_waits_without_a_grace() -> None:
    async def story(cluster: Cluster) -> None:
        asked = await survivor_of(cluster)
        cluster.kill(asked.victim)
        await trio.sleep(0.1)
        assert told_leader(await asked.client.ask(NAMED, 12)) == asked.victim

    tell_cluster(
        story,
        {each: node_properties(each, (1, 2, 3), node_death_grace_ms="0") for each in (1, 2, 3)},
    )


def test_a_response_waits_no_longer_than_an_election_may_take() -> None:
    """Two of three voters are dead: nobody can be elected."""

    async def story(cluster: Cluster) -> None:
        asked = await survivor_of(cluster)
        controller = await cluster.leader()
        cluster.kill(asked.victim)
        cluster.kill(controller)
        await cluster.until_soon(lambda: str(asked.victim) in repr(asked.lost))
        await asked.client.send(NAMED, 12)
        response = await asked.client.receive()
        assert told_leader(response) == asked.victim == asked.leader()
        await asked.client.ask(NAMED, 12)
        assert repr(asked.lost) == "<LostBrokers [] waiting=0>", (
            "no second request waits for the same death"
        )

    tell_cluster(story)


@pytest.mark.usefixtures("endless")
def test_a_client_that_leaves_waits_no_more() -> None:
    async def story(cluster: Cluster) -> None:
        asked = await survivor_of(cluster)
        cluster.kill(asked.victim)
        await asked.ask_while_lost(NAMED, 12)
        asked.client.close()
        await cluster.until_soon(lambda: len(asked.lost) == 0)
        assert asked.leader() == asked.victim

    tell_cluster(story)


def test_clients_are_told_of_a_broker_for_a_while_after_its_death() -> None:
    """Responses name a dead broker for a while.

    A client loses partitions that its thread for a broker still holds if a response leaves the
    broker out.
    """

    async def story(cluster: Cluster) -> None:
        asked = await survivor_of(cluster)
        cluster.kill(asked.victim)
        await cluster.until(lambda: asked.leader() != asked.victim)
        assert asked.victim not in cluster.unfenced(asked.asked)
        assert await told_brokers(asked) == {1, 2, 3}
        await trio.sleep(lost_brokers.STAYS_LISTED_MS / 1_000)
        assert await told_brokers(asked) == {1, 2, 3} - {asked.victim}

    tell_cluster(story)


def test_a_broker_that_comes_back_after_its_death_is_told_of_once_it_serves() -> None:
    async def story(cluster: Cluster) -> None:
        asked = await survivor_of(cluster)
        cluster.kill(asked.victim)
        await cluster.until(lambda: asked.victim not in cluster.unfenced(asked.asked))
        before = cluster.brokers[asked.asked].image.cluster.brokers[NodeId(asked.victim)].epoch
        cluster.nursery.start_soon(cluster.start, asked.victim)
        await cluster.until_soon(
            lambda: (
                cluster.brokers[asked.asked].image.cluster.brokers[NodeId(asked.victim)].epoch
                != before
            )
        )
        assert asked.victim not in asked.lost.just_fenced(), "its next process serves nobody yet"

    tell_cluster(story)


async def told_brokers(asked: Survivor) -> set[int]:
    response: MetadataResponse = await asked.client.ask(NAMED, 12)
    return {broker.node_id for broker in response.brokers}
