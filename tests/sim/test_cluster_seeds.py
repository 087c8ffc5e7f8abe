"""Clusters and their clients through crashes, lost power, splits and pauses: one world per seed, and no promise broken in any of them.

``make sim NODES=3 SEEDS=0-999`` plays as many as wanted.
"""

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.helpers.documents import ROOT
from tests.sim.cluster_aims import AIMS
from tests.sim.cluster_plan import Aim
from tests.sim.cluster_runs import play
from tests.sim.cluster_seeds import AIMED_SEEDS, SEEDS

SEEDS_ALONE = (0,)

play_once = cache(play)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept(seed: int) -> None:
    outcome = play_once(seed)
    assert not outcome.violations, str(outcome)
    assert outcome.acknowledged_count > 0


@pytest.mark.parametrize("aim", AIMS, ids=str)
def test_every_promise_is_kept_in_every_scenario(aim: Aim) -> None:
    for seed in AIMED_SEEDS[aim.name]:
        outcome = play(seed, aim=aim)
        assert not outcome.violations, str(outcome)
        assert outcome.acknowledged_count > 0


@pytest.mark.parametrize("seed", SEEDS_ALONE)
def test_a_cluster_of_one_keeps_every_promise(seed: int) -> None:
    outcome = play(seed, 1)
    assert not outcome.violations, str(outcome)
    assert outcome.acknowledged_count > 0


def test_same_seed_plays_the_same_run_also_in_a_process_with_other_hashes() -> None:
    code = "from tests.sim.cluster_runs import play; print(play(3).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": "2"}
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout
    assert told == f"{play_once(3).digest}\n"
