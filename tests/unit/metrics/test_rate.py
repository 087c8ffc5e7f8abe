"""Growth per second over this window and the one before."""

import pytest

from log_service.metrics.latency import WINDOW_MS
from log_service.metrics.rate import RateWindow


def test_a_rate_is_the_growth_since_the_window_before_began() -> None:
    window = RateWindow(0, 0)
    assert window.look(50, 10_000) == pytest.approx(5)
    assert window.look(600, WINDOW_MS) == pytest.approx(10)
    assert window.look(600, 2 * WINDOW_MS) == pytest.approx(5), "the first window still counts"
    assert window.look(600, 2 * WINDOW_MS + 1) == pytest.approx(0), (
        "nothing grew since the second began"
    )


def test_no_time_is_no_rate() -> None:
    assert RateWindow(7, 100).look(9, 100) == 0.0
