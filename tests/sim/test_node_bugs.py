"""A simulation that has never caught a planted bug proves nothing: each of these is noticed within a stated number of seeds."""

from collections.abc import Iterator
from itertools import count, islice

import pytest

from tests.sim.node_bugs import BUGS, Bug, planted
from tests.sim.node_plan import draw_plan
from tests.sim.node_runs import play


def seeds_for(bug: Bug) -> Iterator[int]:
    """The first seeds that have what the bug is about."""
    return islice((seed for seed in count() if bug.fits(draw_plan(seed))), bug.seed_limit)


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_planted_bug_is_noticed(bug: Bug) -> None:
    with planted(bug):
        noticed = next((outcome for outcome in map(play, seeds_for(bug)) if outcome.violations), None)
    assert noticed is not None, f"{bug} was not noticed within {bug.seed_limit} seeds"
