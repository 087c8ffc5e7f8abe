"""The real clock has the right units and never goes back."""

import time

from log_service.common.clock import SystemClock
from log_service.common.env import Clock


def test_clock_reads_milliseconds() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.wall_ms() - time.time() * 1000) < 5_000
    assert abs(clock.monotonic_ms() - time.monotonic() * 1000) < 5_000
    readings = [clock.monotonic_ms() for _ in range(100)]
    assert readings == sorted(readings)
