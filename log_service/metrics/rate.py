"""Measures how fast a count grew recently. The reader hands in the count at each reading. Between
two readings nothing happens.

Decides the window, which is that of quantiles: the window before and the current one. Knows no
clock.
"""

from log_service.metrics.latency import WINDOW_MS


class RateWindow:
    """The growth of one count."""

    __slots__ = ("_before", "_window")

    def __init__(self, value: float, now_ms: int) -> None:
        self._before = self._window = (value, now_ms)

    def look(self, value: float, now_ms: int) -> float:
        """Return how much the count has grown per second since the window before the current one
        began.
        """
        before, before_ms = self._before
        if now_ms - self._window[1] >= WINDOW_MS:
            self._before, self._window = self._window, (value, now_ms)
        return (value - before) * 1_000 / (now_ms - before_ms) if now_ms > before_ms else 0.0
