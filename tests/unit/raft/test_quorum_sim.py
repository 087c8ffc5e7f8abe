"""Replicas of the quorum keep every promise for every seed, over lossy networks and disks.

Every planted bug is noticed.
"""

import importlib
from unittest import mock

import pytest

from tests.unit.raft.quorum_bugs import BUGS, Bug
from tests.unit.raft.quorum_sim import BrokenPromiseError, run_seed

SEEDS_PER_TEST = 10
SEED_LIMIT = 60


@pytest.mark.parametrize("first", range(0, 60, SEEDS_PER_TEST))
def test_a_quorum_keeps_its_promises(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        run_seed(seed)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_noticed(bug: Bug) -> None:
    patches = [
        mock.patch.object(
            importlib.import_module(owner) if isinstance(owner, str) else owner, name, replacement
        )
        for owner, name, replacement in bug.replacements
    ]
    for patch in patches:
        patch.start()
    try:
        with pytest.raises(BrokenPromiseError):
            run_seeds(SEED_LIMIT)
    finally:
        mock.patch.stopall()


def run_seeds(count: int) -> None:
    for seed in range(count):
        run_seed(seed)
