"""Each planted bug is noticed within a stated number of seeds.

A simulation that has never caught one proves nothing.
"""

from dataclasses import replace

import pytest

from tests.sim.node_bugs import BUGS, Bug, planted, warn_where_late
from tests.sim.node_runs import play
from tests.sim.node_seeds import SEEDS


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_planted_bug_is_noticed(bug: Bug) -> None:
    with planted(bug):
        noticed = next((outcome for outcome in map(play, bug.seeds()) if outcome.violations), None)
    assert noticed is not None, (
        f"{bug} was not noticed within {bug.seed_limit} seeds, the known ones among them"
    )
    warn_where_late(bug, noticed.seed)


def test_a_bug_that_its_first_known_seed_shows_no_more_is_told() -> None:
    """The seeds behind the first one showed a bug no longer.

    A change of the product had made each bug show later.
    """
    bug = Bug(name="lost record", replacements=(), shown_by=(7, 9))
    warn_where_late(bug, 7)
    warn_where_late(replace(bug, shown_by=()), 3)
    with pytest.warns(
        UserWarning, match="the planted bug 'lost record' is shown by seed 9, and no more by 7"
    ):
        warn_where_late(bug, 9)


def test_the_known_seeds_are_played_first_and_have_what_the_bug_is_about() -> None:
    for bug in BUGS:
        seeds = list(bug.seeds())
        assert tuple(seeds[: len(bug.shown_by)]) == bug.shown_by
        assert len(set(seeds)) == bug.seed_limit
        assert all(bug.fits(bug.plan_of(seed)) for seed in seeds), str(bug)


def test_the_first_seed_that_shows_a_bug_is_also_played_without_it() -> None:
    for bug in BUGS:
        assert set(bug.shown_by[:1]) <= set(SEEDS), str(bug)
