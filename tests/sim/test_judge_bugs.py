"""Planted bugs for judges of clusters that other bugs hardly reach: each is noticed in a seed that is known to show it.

``python -m tests.sim.judge_bugs --seeds 9`` finds other seeds, where a change of the product has made the known ones show nothing.
"""

import pytest

from tests.sim.bug_hunts import ClusterBug, first_noticed
from tests.sim.cluster_bugs import BUGS as OTHER_BUGS
from tests.sim.cluster_seeds import AIMED_SEEDS, MORE_SEEDS, SEEDS
from tests.sim.judge_bugs import BUGS


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_planted_bug_is_noticed(bug: ClusterBug) -> None:
    assert first_noticed(bug) is not None, f"{bug} was not noticed within {bug.seed_limit} seeds, the known ones among them"


def test_the_first_seed_that_shows_a_bug_is_also_played_without_it() -> None:
    names = {bug.name for bug in (*BUGS, *OTHER_BUGS)}
    assert len(names) == len(BUGS) + len(OTHER_BUGS)
    for bug in BUGS:
        assert bug.shown_by[0] in ((*SEEDS, *MORE_SEEDS) if bug.aim is None else AIMED_SEEDS[bug.aim.name]), str(bug)
