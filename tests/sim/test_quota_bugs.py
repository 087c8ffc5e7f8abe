"""Planted bugs of quotas: their clients notice each of them in a seed that is known to show it.

``python -m tests.sim.quota_bugs --seeds 9`` finds other seeds, where a change of the product has made the known ones show nothing.
"""

import pytest

from tests.sim.bug_hunts import ClusterBug, first_noticed
from tests.sim.cluster_aims import QUOTAS
from tests.sim.cluster_seeds import AIMED_SEEDS
from tests.sim.quota_bugs import BUGS


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_planted_bug_is_noticed(bug: ClusterBug) -> None:
    assert first_noticed(bug) is not None, f"{bug} was not noticed within {bug.seed_limit} seeds, the known ones among them"


def test_the_first_seed_that_shows_a_bug_is_also_played_without_it() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        assert bug.aim is QUOTAS
        assert bug.shown_by[0] in AIMED_SEEDS[QUOTAS.name], str(bug)
