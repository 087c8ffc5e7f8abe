"""The two nodes of the benchmark of a hop from leader to follower still understand each other."""

import pytest

from benchmarks.replication_hop import measure


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_lock_step", [True, False])
def test_a_follower_gets_all_batches(is_lock_step: bool) -> None:
    alone, leader, follower, seconds = measure(100, 2, 20, is_lock_step=is_lock_step)
    assert seconds > 0
    assert follower > 0
    assert leader > 0
    assert (alone > 0) is is_lock_step
