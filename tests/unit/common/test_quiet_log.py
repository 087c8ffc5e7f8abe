"""Lines that do not flood."""

import logging

import pytest

from log_service.common.quiet_log import MAX_REMEMBERED, QuietLogger


def test_the_same_thing_is_said_once_per_interval_with_how_often_it_was_kept_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
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
    assert quiet.remembered_count <= MAX_REMEMBERED
