"""Averages that forget."""

from log_service.client.metrics import WINDOW_MS, Spread


def test_an_average_is_of_the_last_minute_at_most() -> None:
    spread = Spread()
    for value in (10, 20):
        spread.add(value, now_ms=0)
    assert (spread.average(1), spread.maximum(1)) == (15, 20)
    spread.add(90, now_ms=WINDOW_MS)
    assert (spread.average(WINDOW_MS), spread.maximum(WINDOW_MS)) == (40, 90)
    assert (spread.average(2 * WINDOW_MS), spread.maximum(2 * WINDOW_MS)) == (90, 90)
    assert (spread.average(9 * WINDOW_MS), spread.maximum(9 * WINDOW_MS)) == (0, 0)
