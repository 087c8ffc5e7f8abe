"""What the adversaries of a cluster do, in which order."""

from types import SimpleNamespace
from typing import Any

import trio
from trio.testing import MockClock

from tests.sim.cluster_faults import ClusterAdversary


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
        adversary.host = SimpleNamespace(name="node1", is_running=False, current=SimpleNamespace(ended=ended))
        adversary.world = SimpleNamespace(network=SimpleNamespace(heal=told.append))
        await adversary._pause_and_heal(5)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert told == ["node1", "start"]
