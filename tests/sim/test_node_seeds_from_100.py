"""Seeds 100 to 149: as in ``test_node_seeds``, in a file of their own, so that another worker plays them."""

import pytest

from tests.sim.node_runs import play


@pytest.mark.parametrize("seed", range(100, 150))
def test_every_promise_is_kept(seed: int) -> None:
    outcome = play(seed)
    assert not outcome.violations, str(outcome)
    assert outcome.acknowledged_count > 0
