"""Clusters and their clients go through crashes, lost power, splits and pauses.

Each seed is one world, and no promise is broken in any of them.

``make sim NODES=3 SEEDS=0-999`` plays as many as wanted.
"""

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.helpers.documents import ROOT
from tests.sim.cluster_aims import AIMS
from tests.sim.cluster_plan import draw_cluster_plan
from tests.sim.cluster_runs import play
from tests.sim.cluster_seeds import PLAYED, Played

# A world waits for nothing but the machine, which others may use as well.
pytestmark = pytest.mark.timeout(900)

play_once = cache(play)


@pytest.mark.parametrize(
    "played",
    [
        pytest.param(played, id=str(played), marks=pytest.mark.repeats if played.is_long else ())
        for played in PLAYED
    ],
)
def test_every_promise_is_kept(played: Played) -> None:
    outcome = (
        play_once(played.seed, played.node_count)
        if played.aim is None
        else play(played.seed, played.node_count, played.aim)
    )
    assert not outcome.violations, str(outcome)
    assert outcome.acknowledged_count > 0


def test_a_hundred_seeds_play_every_scenario_and_clusters_of_every_kind() -> None:
    assert len(PLAYED) == len({*map(str, PLAYED)}) >= 100
    assert {str(played.aim) for played in PLAYED if played.aim is not None} == {
        aim.name for aim in AIMS
    }
    plans = [draw_cluster_plan(played.seed, played.node_count, played.aim) for played in PLAYED]
    for node_count in (1, 3, 5, 7):
        assert any(len(plan.nodes) == node_count for plan in plans), node_count
    for node_count in (5, 7):
        larger = [plan for plan in plans if len(plan.nodes) == node_count]
        are_split = {any(not node.config.listeners for node in plan.nodes) for plan in larger}
        assert are_split == {True, False}, (
            f"{node_count} nodes with controllers that are brokers, and with others"
        )
        assert any("broker.rack" in plan.nodes[0].texts for plan in larger), (
            f"{node_count} nodes in racks"
        )
        assert {plan.are_voters_dynamic for plan in larger} == {True, False}


def test_same_seed_plays_the_same_run_also_in_a_process_with_other_hashes() -> None:
    code = "from tests.sim.cluster_runs import play; print(play(3).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": "2"}
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    assert told == f"{play_once(3, 3).digest}\n"
