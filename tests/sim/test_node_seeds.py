"""A node and its clients go through crashes, lost power, failing disks and networks.

Each seed is one world, and no promise is broken in any of them.

``make sim SEEDS=0-999`` plays as many as wanted.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.whole import of_a_run
from tests.sim.node_runs import parse_seeds, play, play_with_trace
from tests.sim.node_seeds import LONG_SEEDS, SEEDS

ROOT = Path(__file__).resolve().parents[2]

play_once = cache(play)


@pytest.mark.parametrize("seed", of_a_run(SEEDS, whole=LONG_SEEDS))
def test_every_promise_is_kept(seed: int) -> None:
    outcome = play_once(seed)
    assert not outcome.violations, str(outcome)
    assert outcome.acknowledged_count > 0


def test_same_seed_plays_the_same_run() -> None:
    (first, first_trace, _), (again, again_trace, _) = play_with_trace(45), play_with_trace(45)
    assert first_trace == again_trace
    assert (first.digest, first.entry_count, first.faults) == (
        again.digest,
        again.entry_count,
        again.faults,
    )


def test_a_run_is_the_same_in_other_processes_with_other_hashes() -> None:
    code = "from tests.sim.node_runs import play; print([play(seed).digest for seed in (2, 20)])"
    environments = [{**os.environ, "PYTHONHASHSEED": hash_seed} for hash_seed in ("1", "2")]
    processes = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=each, stdout=subprocess.PIPE)
        for each in environments
    ]
    digests = {process.communicate()[0] for process in processes}
    assert digests == {f"{[play_once(seed).digest for seed in (2, 20)]}\n".encode()}


def test_seeds_are_named_as_ranges_and_lists() -> None:
    assert parse_seeds("17") == [17]
    assert parse_seeds("1,5,9-12") == [1, 5, 9, 10, 11, 12]
