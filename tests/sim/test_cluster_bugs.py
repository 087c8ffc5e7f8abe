"""A simulation that has never caught a planted bug proves nothing: each of these is noticed in a seed that is known to show it.

Played here are the bugs with a known seed. ``python -m tests.sim.cluster_bugs`` plays the others, which no seed has shown so far.
"""

import pytest

from tests.sim.cluster_bugs import BUGS, PROVEN, UNPROVEN, ClusterBug, first_noticed, main
from tests.sim.test_cluster_seeds import SEEDS


@pytest.mark.parametrize("bug", PROVEN, ids=str)
def test_planted_bug_is_noticed(bug: ClusterBug) -> None:
    assert first_noticed(bug) is not None, f"{bug} was not noticed within {bug.seed_limit} seeds, the known ones among them"


def test_the_known_seeds_are_played_first_and_others_only_where_they_fit() -> None:
    for bug in BUGS:
        seeds = list(bug.seeds())
        assert tuple(seeds[: len(bug.shown_by)]) == bug.shown_by
        assert len(set(seeds)) == bug.seed_limit


def test_every_known_seed_is_also_played_without_a_bug() -> None:
    assert {bug.shown_by[0] for bug in PROVEN} <= {*SEEDS}


def test_no_bug_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    assert {bug.name for bug in (*PROVEN, *UNPROVEN)} == {bug.name for bug in BUGS}
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert main(["no bug of this name"]) == 2
    assert "no bug's name contains" in capsys.readouterr().err
