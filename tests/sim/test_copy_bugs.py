"""Planted bugs of transactions and groups: the copy loop notices each of them in a seed that is known to show it.

``python -m tests.sim.copy_bugs --seeds 9`` finds other seeds, where a change of the product has made the known ones show nothing.
"""

import pytest

from tests.sim.bug_hunts import ClusterBug, first_noticed
from tests.sim.cluster_aims import TRANSACTIONAL_AIMS
from tests.sim.cluster_seeds import AIMED_SEEDS
from tests.sim.copy_bugs import BUGS, main


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_planted_bug_is_noticed(bug: ClusterBug) -> None:
    assert first_noticed(bug) is not None, f"{bug} was not noticed within {bug.seed_limit} seeds, the known ones among them"


def test_the_first_seed_that_shows_a_bug_is_also_played_without_it() -> None:
    for bug in BUGS:
        assert bug.aim in TRANSACTIONAL_AIMS
        assert bug.shown_by[0] in AIMED_SEEDS[bug.aim.name], str(bug)


def test_no_two_bugs_have_one_name_and_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert main(["no bug of this name"]) == 2
    assert "no bug's name contains" in capsys.readouterr().err
