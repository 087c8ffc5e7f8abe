"""Seeds 50 to 99: as in ``test_node_seeds``, in a file of their own, so that another worker plays them."""

import pytest

from tests.sim.node_runs import play


@pytest.mark.parametrize("seed", range(50, 100))
def test_every_promise_is_kept(seed: int) -> None:
    outcome = play(seed)
    assert not outcome.violations, str(outcome)
    assert outcome.acknowledged_count > 0
