"""Several clusters share one world, each with its own adversaries, clients, history and judgement.

Nothing of one is seen in another.

Three clusters of one node each are played here. What plays them takes any number of nodes in each
cluster.
"""

from dataclasses import replace
from functools import cache

import pytest
import trio

from tests.sim import World
from tests.sim.node_audit import Auditor
from tests.sim.node_clients import Clients
from tests.sim.node_faults import Adversary, Victims
from tests.sim.node_history import Died, History
from tests.sim.node_host import ClusterHost, Death, NodeHost, node_config
from tests.sim.node_plan import Fault, Plan, draw_plan
from tests.sim.node_runs import Outcome, play_plans
from tests.sim.world import sim_run

NAMES = ("first", "second", "third")
OF_LINKS = (Fault.CUT, Fault.ONE_WAY_CUT, Fault.SLOW_LINK, Fault.RESET)


def plans_of(seed: int) -> list[Plan]:
    """A plan for each cluster; the last has trouble with its network alone."""
    plans = [draw_plan(100 * seed + number, name) for number, name in enumerate(NAMES)]
    return [*plans[:-1], replace(plans[-1], faults=OF_LINKS)]


def play(seed: int) -> tuple[list[Outcome], World, list[History]]:
    """Play all of them in one world."""
    return play_plans(seed, plans_of(seed))


play_once = cache(play)


def test_all_lives_of_a_client_are_on_one_machine() -> None:
    clients = Clients(World(0), draw_plan(0), History(lambda: 0.0), "broker:9092", place="@first")
    for life in ("worker-0", "worker-0.1", "worker-0/2", "worker-0.1/2", "worker-0.again"):
        assert clients.machine_of(life) == "worker-0@first"


@pytest.mark.parametrize("seed", range(3))
def test_every_cluster_keeps_its_promises(seed: int) -> None:
    outcomes, _, histories = play_once(seed)
    for outcome in outcomes:
        assert not outcome.violations, str(outcome)
        assert outcome.acknowledged_count > 0
    for name, history in zip(NAMES, histories, strict=True):
        assert {died.node for died in history.of(Died)} <= {name}
    assert not list(histories[-1].of(Died)), "the last only had trouble with its network"
    assert outcomes[-1].faults.keys() <= {fault.value for fault in OF_LINKS}


def test_a_cluster_that_breaks_a_promise_is_named_and_no_other() -> None:
    """The first promises that its records survive a loss of power, and does not sync them."""
    plans = plans_of(1)
    topics = tuple(
        replace(topic, configs={**topic.configs, "flush.messages": "1000000"})
        for topic in plans[0].topics
    )
    lying = replace(
        plans[0], topics=topics, faults=(Fault.DIE,), deaths=(Death.POWER,), is_disk_reordering=True
    )
    outcomes, _, _ = play_plans(1, [lying, *plans[1:]])
    assert [bool(outcome.violations) for outcome in outcomes] == [True, False, False]


def test_clusters_in_one_world_play_the_same_again() -> None:
    (first, world, _), (again, again_world, _) = play_once(2), play(2)
    assert world.trace == again_world.trace
    assert [outcome.digest for outcome in first] == [outcome.digest for outcome in again]


class TestNetworkOfNodes:
    """The network between three machines, as one of their adversaries splits it."""

    @pytest.mark.parametrize("seed", range(4))
    def test_a_split_is_between_this_node_and_others_and_ends(self, seed: int) -> None:
        cuts: set[tuple[str, str]] = set()

        async def main(world: World) -> None:
            async with trio.open_nursery() as nursery:
                hosts = [
                    NodeHost(world, nursery, *node_config({}, name=name), name=name)
                    for name in NAMES
                ]
                cluster = ClusterHost(hosts)
                assert cluster.bootstrap == "first:9092,second:9092,third:9092"
                adversary = self.adversary(hosts[0])
                await adversary.keep_running()
                assert cluster.running == hosts[:1]
                world.network.cut("second", "third")
                nursery.start_soon(adversary._acts[Fault.SPLIT])
                await trio.sleep(0.5)
                cuts.update(world.network._cuts)
                await trio.sleep(30)
                assert world.network._cuts == {("second", "third")}, (
                    "each adversary heals what it did"
                )
                await cluster.stop()

        sim_run(seed, main)
        of_first = cuts - {("second", "third")}
        assert of_first
        assert all("first" in route for route in of_first)

    def test_splits_are_of_one_direction_or_of_both(self) -> None:
        kinds = set()

        async def main(world: World) -> None:
            async with trio.open_nursery() as nursery:
                host = NodeHost(world, nursery, *node_config({}, name="first"), name="first")
                adversary = self.adversary(host)
                await adversary.keep_running()
                for _ in range(20):
                    with trio.move_on_after(0.5):
                        await adversary._acts[Fault.SPLIT]()
                    cuts = world.network._cuts
                    kinds.add(
                        (
                            any(source == "first" for source, _ in cuts),
                            any(target == "first" for _, target in cuts),
                        )
                    )
                    world.network.heal("first")
                await host.stop()

        sim_run(1, main)
        assert kinds == {(True, True), (True, False), (False, True)}

    def test_each_node_has_a_clock_of_its_own(self) -> None:
        async def main(world: World) -> None:
            async with trio.open_nursery() as nursery:
                hosts = [
                    NodeHost(world, nursery, *node_config({}, name=name), name=name)
                    for name in NAMES[:2]
                ]
                for host in hosts:
                    await host.start()
                await self.adversary(hosts[0])._acts[Fault.CLOCK_JUMP]()
                assert world.clocks["first"].skew_ms != 0
                assert world.clocks["second"].skew_ms == 0
                await ClusterHost(hosts).stop()

        sim_run(1, main)

    def adversary(self, host: NodeHost) -> Adversary:
        victims = Victims(nodes=list(NAMES), machine_of=str)
        return Adversary(draw_plan(0), host, Auditor(host), History(trio.current_time), victims)
