"""The adversaries of a cluster act in a certain order."""

from random import Random
from types import SimpleNamespace
from typing import Any

import trio
from trio.testing import MockClock

from tests.sim.cluster_faults import Allowance, ClusterAdversary


def test_a_node_that_has_died_while_it_was_cut_off_is_healed_before_it_is_started() -> None:
    """Its start waits for its quorum: the other way round the cut would last for ever."""
    told: list[str] = []

    class Noting(ClusterAdversary):
        async def keep_running(self) -> None:
            told.append("start")

    async def main() -> None:
        adversary: Any = object.__new__(Noting)
        ended = trio.Event()
        ended.set()
        adversary.host = SimpleNamespace(
            name="node1", is_running=False, current=SimpleNamespace(ended=ended)
        )
        adversary.world = SimpleNamespace(network=SimpleNamespace(heal=told.append))
        await adversary._pause_and_heal(5)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert told == ["node1", "start"]


def test_a_node_that_has_died_while_it_refused_its_peers_is_healed_before_it_is_started() -> None:
    """Two voters that refuse their peers and died at one moment never elect a leader.

    No start would end.
    """
    told: list[str] = []

    class Noting(ClusterAdversary):
        async def keep_running(self) -> None:
            told.append("start")

    async def main() -> None:
        adversary: Any = object.__new__(Noting)
        ended = trio.Event()
        adversary.rng = Random(0)
        adversary.victims = SimpleNamespace(nodes=["node1", "node2"])
        adversary.host = SimpleNamespace(
            name="node1", is_running=False, current=SimpleNamespace(ended=ended)
        )
        adversary.world = SimpleNamespace(
            network=SimpleNamespace(
                refuse=lambda peer, name: told.append(f"{name} refuses {peer}"),
                reset_connections=lambda _name: ended.set(),
                heal=lambda name: told.append(f"{name} heals"),
            )
        )
        await adversary._refuse_peers()
        await adversary.keep_running()  # as after every fault

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert told == ["node1 refuses node2", "node1 heals", "start"]


def test_power_goes_on_the_next_machine_once_all_replicas_are_in_sync_again() -> None:
    plan: Any = SimpleNamespace(is_all_synced=False)
    state = SimpleNamespace(is_whole=True)
    allowance = Allowance(plan, lambda: state.is_whole)
    assert allowance.may_lose_power("node1")
    allowance.note_power_lost("node1")
    state.is_whole = False
    assert allowance.may_lose_power("node1"), "it has nothing left to lose"
    assert not allowance.may_lose_power("node2")
    state.is_whole = True
    assert allowance.may_lose_power("node2")


def test_where_each_record_is_synced_power_goes_on_any_machine() -> None:
    plan: Any = SimpleNamespace(is_all_synced=True)
    allowance = Allowance(plan, lambda: False)
    allowance.note_power_lost("node1")
    assert allowance.may_lose_power("node2")


def test_where_a_disk_is_lost_power_goes_on_no_other_machine_before_all_replicas_are_in_sync_again() -> (
    None
):
    plan: Any = SimpleNamespace(is_all_synced=True)
    state = SimpleNamespace(is_whole=False)
    allowance = Allowance(plan, lambda: state.is_whole)
    allowance.note_disk_lost("node1")
    assert allowance.may_lose_power("node1"), "it has nothing left to lose"
    allowance.note_power_lost("node1")
    assert not allowance.may_lose_power("node2"), (
        "it may be the only one that has everything, and could not say so"
    )
    state.is_whole = True
    assert allowance.may_lose_power("node2")
    allowance.note_power_lost("node2")
    state.is_whole = False
    assert allowance.may_lose_power("node1")
