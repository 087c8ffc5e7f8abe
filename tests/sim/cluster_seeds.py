"""Lists the seeds of the simulations.

A seed has a scenario or draws everything, and has a number of nodes.

They are chosen as those that take least time, or have shown a defect. The seeds of the general plan
that are left out acknowledge more records and have no more faults: half of those that are played
acknowledge 117 records or more, and one has nine faults on average.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tests.sim.cluster_aims import AIMS
from tests.sim.cluster_plan import Aim
from tests.sim.node_runs import parse_seeds


class Played(NamedTuple):
    """A seed that is played without a bug: ``aim`` is its scenario, None where the seed draws
    everything.
    """

    node_count: int
    aim: Aim | None
    seed: int
    is_long: bool = False
    """Whether only a long run plays it."""

    def __str__(self) -> str:
        return f"{self.node_count} nodes, {self.aim or 'general'}, {self.seed}"


SEEDS = (1, 3, 5)
"""Of the general plan with three nodes."""
MORE_SEEDS = (12, 17, 39, 3921)
"""Of the general plan as well. In 3921 two voters that refuse their peers die at one moment."""
LONG_SEEDS = tuple(
    parse_seeds(
        "4,6,8,11,13-16,18-19,22,28-29,33,37-38,40-41,45,47,51-53,57-59,62,65-67,73,75-77,80,83-84"
        ",86-87,97,101,121,129,241,279,337,341,426,507,510-511,6719"
    )
)
"""Of the general plan, for a long run. Each change of the product lets all seeds play other runs,
so a short run needs only a few of them.
"""
OTHER_SEEDS: Mapping[int, tuple[int, ...]] = {1: (0,), 5: (3, 11), 7: (1,)}
LONG_OTHER_SEEDS: Mapping[int, tuple[int, ...]] = {5: (6, 7), 7: (4,)}
"""The same with other numbers of nodes; some of those with more than three have controllers of
their own.
"""
AIMED_SEEDS: Mapping[str, tuple[int, ...]] = {
    "copy loop": (2, 4, 6),
    "ending coordinators": (7,),
    "zombies": (2, 17),
    "late transactions": (1,),
    "queues": (0, 1, 2),
    "streams groups": (1, 3, 4, 5),
    "secure clusters": (0,),
    "task handovers": (4,),
    "moving coordinators": (0, 3),
    "refused controllers": (0,),
    "changing voters": (2,),
    "slow followers": (1, 0, 7),
    "slow syncs": (1,),
    "late changes": (2,),
    "several deaths": (17,),
    "lost disks": (4,),
    "short snapshots": (1,),
    "consumer groups": (0,),
    "changed protocols": (0,),
    "unclean elections": (2,),
    "joining brokers": (0,),
    "full disks": (0,),
    "failing directories": (10,),
    "missing files": (1, 7, 22),
    "moving logs": (0,),
    "compacted topics": (0,),
    "quotas": (0,),
    "long lives": (2,),
}
"""Of each scenario. Every run plays the first, a long run the others, too. These and ``SEEDS`` show
the planted bugs: without a bug they show nothing.
"""

PLAYED = (
    *(Played(3, None, seed) for seed in (*SEEDS, *MORE_SEEDS)),
    *(Played(3, None, seed, is_long=True) for seed in LONG_SEEDS),
    *(
        Played(node_count, None, seed, is_long=is_long)
        for is_long, others in ((False, OTHER_SEEDS), (True, LONG_OTHER_SEEDS))
        for node_count, seeds in others.items()
        for seed in seeds
    ),
    *(
        Played(3, aim, seed, is_long=seed != AIMED_SEEDS[aim.name][0])
        for aim in AIMS
        for seed in AIMED_SEEDS[aim.name]
    ),
)
"""All of them."""
