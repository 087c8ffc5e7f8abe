"""Measures how fast a count grew over the last minutes.

The reader passes in the count at each reading. Between two readings nothing happens. The last
minutes are the current window and the one before, as in ``latency``. This module has no clock.
"""

from log_service.metrics.latency import WINDOW_MS


class RateWindow:
    """The growth of one count over the previous and the current window."""

    __slots__ = ("_before", "_window")

    def __init__(self, value: float, now_ms: int) -> None:
        self._before = self._window = (value, now_ms)

    def look(self, value: float, now_ms: int) -> float:
        """Return the growth of the count per second since the previous window began.

        Begin a new window if the current one is old.
        """
        before, before_ms = self._before
        if now_ms - self._window[1] >= WINDOW_MS:
            self._before, self._window = self._window, (value, now_ms)
        return (value - before) * 1_000 / (now_ms - before_ms) if now_ms > before_ms else 0.0
