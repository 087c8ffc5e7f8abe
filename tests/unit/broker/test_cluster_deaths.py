"""A death is seen at once: whole nodes whose processes end, hang, or only lose a connection."""

import pytest
import trio

from log_service.client import Admin, NewTopic
from log_service.common.errors import ErrorCode
from log_service.common.types import NodeId
from log_service.protocol.messages.produce import ProduceResponse
from tests.helpers.cluster import (
    BROKER_PORT,
    CONTROLLER_PORT,
    Cluster,
    host_of,
    node_properties,
    tell_cluster,
)
from tests.unit.broker.context import RawClient, batch, produce_request
from tests.unit.broker.led_topic import known, lead, other_than

SOON_S = 1.0
"""Grace, elections and look-ups, in virtual time; a session is 9 s, a fetch timer of the quorum 2
s.
"""


async def until_all_know_another_leader(cluster: Cluster, dead: int) -> float:
    """Wait until each node that lives knows a leader that lives; return the seconds that it took."""
    began = trio.current_time()
    await cluster.until(
        lambda: all(known(cluster, each).leader not in {dead, -1} for each in cluster.brokers)
    )
    return trio.current_time() - began


def test_partitions_of_a_dead_broker_have_another_leader_at_once() -> None:
    async def story(cluster: Cluster) -> None:
        victim = other_than(await cluster.leader())
        await lead(cluster, victim)
        cluster.kill(victim)
        assert 0.2 <= await until_all_know_another_leader(cluster, victim) < SOON_S
        assert all(victim not in known(cluster, each).isr for each in cluster.brokers)

    tell_cluster(story)


def test_a_dead_controller_has_a_successor_at_once_that_sees_its_broker_dead() -> None:
    async def story(cluster: Cluster) -> None:
        victim = await cluster.leader()
        await lead(cluster, victim)
        cluster.kill(victim)
        assert await until_all_know_another_leader(cluster, victim) < SOON_S

    tell_cluster(story)


async def elect_again(cluster: Cluster) -> int:
    """Have the active controller give up, and return the next one."""
    before = await cluster.leader()
    cluster.brokers[before].raft.resign()
    await cluster.until(lambda: not cluster.brokers[before].rooms.controller.is_active)
    return await cluster.leader()


@pytest.mark.parametrize("roles", ["broker,controller", "broker"])
def test_a_new_controller_hears_of_every_broker_before_it_can_see_one_dead(roles: str) -> None:
    """A broker without a controller is no voter, and learns of the election by itself."""
    voter_ids = (1, 2, 3) if roles == "broker,controller" else (4, 5, 6)
    files = {each: node_properties(each, voter_ids, roles) for each in (1, 2, 3)}
    files |= {
        each: node_properties(each, voter_ids, "controller")
        for each in voter_ids
        if each not in files
    }

    async def story(cluster: Cluster) -> None:
        first = await cluster.leader()
        await cluster.until(lambda: len(cluster.unfenced(first)) == 3)
        for _ in range(4):
            await trio.sleep(0.55)  # another part of the time between two heartbeats, which is 2 s
            core = cluster.brokers[await elect_again(cluster)].rooms.controller.core
            assert core is not None
            await trio.sleep(0.15)
            assert not core.presumed_brokers

    tell_cluster(story, files)


def test_brokers_that_die_one_soon_after_the_other_stay_eligible_together() -> None:
    """Brokers that die one soon after the other stay eligible together.

    The first death is found when the second broker is dead already. If it were elected, it
    would be the only one that may lead later.
    """
    files = {each: node_properties(each, (4, 5, 6), "broker") for each in (1, 2, 3)}
    files |= {each: node_properties(each, (4, 5, 6), "controller") for each in (4, 5, 6)}

    async def story(cluster: Cluster) -> None:
        controller = await cluster.leader()
        await cluster.until(lambda: len(cluster.unfenced(controller)) == 3)
        async with Admin(f"{host_of(3)}:{BROKER_PORT}", env=cluster.world.client_env()) as admin:
            await admin.create_topics([NewTopic(name="a", assignments={0: [1, 2]})])
        await cluster.until(lambda: "a" in cluster.brokers[3].image.topics.by_name)
        await trio.sleep(3)  # each broker's heartbeats have their connection by now
        cluster.kill(1)
        await trio.sleep(0.1)
        cluster.kill(2)
        await cluster.until(lambda: cluster.unfenced(3) == [3])
        partition = known(cluster, 3)
        assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (
            -1,
            (),
            (1, 2),
        )

    tell_cluster(story, files)


def test_a_broker_that_restarts_after_its_death_is_no_duplicate() -> None:
    async def story(cluster: Cluster) -> None:
        victim = other_than(await cluster.leader())
        controller = await lead(cluster, victim)
        cluster.kill(victim)
        await until_all_know_another_leader(cluster, victim)
        began = trio.current_time()
        await cluster.start(victim)
        assert victim in cluster.unfenced(controller)
        assert trio.current_time() - began < 3

    tell_cluster(story)


def test_a_network_that_breaks_every_connection_fences_no_broker() -> None:
    async def story(cluster: Cluster) -> None:
        leader = other_than(await cluster.leader())
        controller = await lead(cluster, leader)
        epoch = known(cluster, controller).leader_epoch
        for _ in range(3):
            cluster.world.network.reset_connections(host_of(leader))
            await trio.sleep(2.5)
        assert (known(cluster, controller).leader, known(cluster, controller).leader_epoch) == (
            leader,
            epoch,
        )

    tell_cluster(story)


def test_a_broker_out_of_reach_is_left_to_its_session() -> None:
    async def story(cluster: Cluster) -> None:
        victim = other_than(await cluster.leader())
        await lead(cluster, victim)
        others = [host_of(each) for each in (1, 2, 3) if each != victim]
        cluster.world.network.isolate(host_of(victim), others)
        cluster.world.network.reset_connections(host_of(victim))
        began = trio.current_time()
        await cluster.until(
            lambda: all(
                known(cluster, each).leader != victim for each in cluster.brokers if each != victim
            )
        )
        assert trio.current_time() - began > 5

    tell_cluster(story)


def test_a_live_broker_whose_address_refuses_is_fenced_once_and_comes_back() -> None:
    async def story(cluster: Cluster) -> None:
        victim = other_than(await cluster.leader())
        controller = await lead(cluster, victim)
        network, broker = cluster.world.network, cluster.brokers[victim]
        fenced = []
        with network.hidden(host_of(victim), BROKER_PORT):
            for _ in range(3):
                network.reset_connections(host_of(victim))
                await trio.sleep(0.3)
                fenced.append(victim not in cluster.unfenced(controller))
                await trio.sleep(3)
                assert victim in cluster.unfenced(controller)
        assert fenced == [True, False, False], "one election, however often its connections end"
        assert known(cluster, controller).leader_epoch == 1
        assert (
            broker.rooms.lifecycle.broker_epoch
            == cluster.brokers[controller].image.cluster.brokers[NodeId(victim)].epoch
        )

    tell_cluster(story)


def test_a_leader_of_the_quorum_that_one_voter_cannot_reach_stays_in_office() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await lead(cluster, leader)
        network, epoch = cluster.world.network, cluster.brokers[leader].raft.epoch
        network.cut(host_of(other_than(leader)), host_of(leader))
        network.reset_connections(host_of(leader))
        await trio.sleep(1)
        network.heal()
        await trio.sleep(1)
        assert (cluster.brokers[leader].raft.epoch, cluster.brokers[leader].raft.leader_id) == (
            epoch,
            leader,
        )

    tell_cluster(story)


def test_without_a_grace_the_session_alone_tells() -> None:
    async def story(cluster: Cluster) -> None:
        victim = other_than(await cluster.leader())
        await lead(cluster, victim)
        cluster.kill(victim)
        assert await until_all_know_another_leader(cluster, victim) > 5

    tell_cluster(
        story,
        {each: node_properties(each, (1, 2, 3), node_death_grace_ms="0") for each in (1, 2, 3)},
    )


def test_without_a_grace_voters_wait_out_their_leaders_silence() -> None:
    async def story(cluster: Cluster) -> None:
        victim = await cluster.leader()
        began = trio.current_time()
        cluster.world.network.unbind(host_of(victim), CONTROLLER_PORT)
        cluster.kill(victim)
        await cluster.leader()
        assert trio.current_time() - began > 1

    tell_cluster(
        story,
        {each: node_properties(each, (1, 2, 3), node_death_grace_ms="-1") for each in (1, 2, 3)},
    )


def test_a_clean_stop_waits_for_no_write_that_followers_could_not_fetch() -> None:
    async def story(cluster: Cluster) -> None:
        victim = other_than(await cluster.leader())
        await lead(cluster, victim)
        client = RawClient(
            await cluster.world.client_env().network.connect(host_of(victim), BROKER_PORT)
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce_until_it_leads_no_more, client)
            await trio.sleep(0.5)
            began = trio.current_time()
            nursery.start_soon(cluster.stop, victim)
            others = [broker for node_id, broker in cluster.brokers.items() if node_id != victim]
            await cluster.until(
                lambda: all(
                    each.image.topics.by_name["a"].partitions[0].leader != victim for each in others
                )
            )
            assert trio.current_time() - began < SOON_S

    tell_cluster(story)


async def produce_until_it_leads_no_more(client: RawClient) -> None:
    """Keep writes with acks=all under way.

    Each one succeeds, or gets an error that says to ask another broker.
    """
    while True:
        response: ProduceResponse = await client.ask(produce_request("a", batch(b"x")), 9)
        code = response.responses[0].partition_responses[0].error_code
        if code:
            assert ErrorCode.of(code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            return
        await trio.sleep(0.001)
