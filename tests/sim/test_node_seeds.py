"""A node and its clients through crashes, lost power, failing disks and networks: one world per seed, and no promise broken in any of them.

Its three neighbours play 150 more, beside it; ``make sim SEEDS=0-999`` plays as many as wanted.
"""

import pytest

from tests.sim.node_runs import parse_seeds, play, play_with_trace

SEEDS = range(50)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept(seed: int) -> None:
    outcome = play(seed)
    assert not outcome.violations, str(outcome)
    assert outcome.acknowledged_count > 0


def test_same_seed_plays_the_same_run() -> None:
    (first, first_trace, _), (again, again_trace, _) = play_with_trace(5), play_with_trace(5)
    assert first_trace == again_trace
    assert (first.digest, first.entry_count, first.faults) == (again.digest, again.entry_count, again.faults)


def test_seeds_are_named_as_ranges_and_lists() -> None:
    assert parse_seeds("17") == [17]
    assert parse_seeds("1,5,9-12") == [1, 5, 9, 10, 11, 12]
