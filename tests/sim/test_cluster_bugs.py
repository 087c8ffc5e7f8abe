"""Each planted bug is noticed in a seed that is known to show it.

A simulation that has never caught one proves nothing.

``python -m tests.sim.cluster_bugs --seeds 9``, and so for the other modules of bugs, finds other
seeds, where a change of the product has made the known ones show nothing. A warning says so where
only the first known one shows nothing any more.
"""

import pytest

from tests.sim import (
    access_bugs,
    cluster_bugs,
    copy_bugs,
    judge_bugs,
    queue_bugs,
    quota_bugs,
    streams_bugs,
)
from tests.sim.bug_hunts import ClusterBug, first_noticed
from tests.sim.cluster_aims import (
    QUEUES,
    QUOTAS,
    SECURE_CLUSTERS,
    STREAMS_GROUPS,
    TASK_HANDOVERS,
    TRANSACTIONAL_AIMS,
)
from tests.sim.cluster_seeds import AIMED_SEEDS, MORE_SEEDS, SEEDS
from tests.sim.node_bugs import warn_where_late

OF_SCENARIOS = (
    (access_bugs.BUGS, (SECURE_CLUSTERS,)),
    (copy_bugs.BUGS, TRANSACTIONAL_AIMS),
    (queue_bugs.BUGS, (QUEUES,)),
    (quota_bugs.BUGS, (QUOTAS,)),
    (streams_bugs.BUGS, (STREAMS_GROUPS, TASK_HANDOVERS)),
)
"""The bugs of one subject, with the scenarios that play it."""
BUGS = (
    *cluster_bugs.BUGS,
    *judge_bugs.BUGS,
    *(bug for bugs, _aims in OF_SCENARIOS for bug in bugs),
)


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, id=str(bug), marks=pytest.mark.repeats if bug.is_long else ())
        for bug in BUGS
    ],
)
def test_planted_bug_is_noticed(bug: ClusterBug) -> None:
    noticed = first_noticed(bug)
    assert noticed is not None, (
        f"{bug} was not noticed within {bug.seed_limit} seeds, the known ones among them"
    )
    warn_where_late(bug, noticed.seed)


def test_the_known_seeds_are_played_first_and_others_only_where_they_fit() -> None:
    for bug in cluster_bugs.BUGS:
        seeds = list(bug.seeds())
        assert tuple(seeds[: len(bug.shown_by)]) == bug.shown_by
        assert len(set(seeds)) == bug.seed_limit


def test_the_first_seed_that_shows_a_bug_is_also_played_without_it() -> None:
    for bug in BUGS:
        assert bug.shown_by[0] in (
            (*SEEDS, *MORE_SEEDS) if bug.aim is None else AIMED_SEEDS[bug.aim.name]
        ), str(bug)


def test_bugs_of_a_subject_are_played_in_its_scenarios() -> None:
    for bugs, aims in OF_SCENARIOS:
        assert all(bug.aim in aims for bug in bugs)


def test_no_two_bugs_have_one_name_and_a_name_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert cluster_bugs.main(["no bug of this name"]) == 2
    assert "no bug's name contains" in capsys.readouterr().err
