"""Lines that do not flood, and averages that forget."""

import logging

import pytest

from log_service.client.client_metrics import WINDOW_MS, Spread
from log_service.common.quiet_log import MAX_REMEMBERED, QuietLogger


def test_the_same_thing_is_said_once_per_interval_with_how_often_it_was_kept_back(caplog: pytest.LogCaptureFixture) -> None:
    now = [0]
    quiet = QuietLogger(logging.getLogger("quiet"), lambda: now[0], interval_ms=1_000)
    for now[0] in range(0, 2_500, 10):
        quiet.warning("lost", "connection %d", now[0])
    quiet.warning("other", "another thing")
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "connection 0",
        "connection 1000 (and 99 times more before)",
        "connection 2000 (and 99 times more before)",
        "another thing",
    ]


def test_what_is_remembered_is_bounded() -> None:
    quiet = QuietLogger(logging.getLogger("quiet"), lambda: 0)
    for number in range(10_000):
        quiet.info(number, "")
    assert len(quiet._said) <= MAX_REMEMBERED


def test_an_average_is_of_the_last_minute_at_most() -> None:
    spread = Spread()
    for value in (10, 20):
        spread.add(value, now_ms=0)
    assert (spread.average(1), spread.maximum(1)) == (15, 20)
    spread.add(90, now_ms=WINDOW_MS)
    assert (spread.average(WINDOW_MS), spread.maximum(WINDOW_MS)) == (40, 90)
    assert (spread.average(2 * WINDOW_MS), spread.maximum(2 * WINDOW_MS)) == (90, 90)
    assert (spread.average(9 * WINDOW_MS), spread.maximum(9 * WINDOW_MS)) == (0, 0)
