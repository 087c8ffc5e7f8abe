"""Measures the longest turn of the event loop, which bounds how long a new request waits.

A turn lasts from the return of the system's wait for events until the next wait. The longest turn
of the last 30 to 60 seconds is kept, so each of two scrapes a minute sees every stall.
"""

from collections.abc import Callable

import trio

WINDOW_NS = 30_000_000_000
NS_PER_MS = 1_000_000


class LoopTurns(trio.abc.Instrument):
    """An instrument of the loop that measures its turns."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._began_ns = self._window_ns = now_ns()
        self._longest_ns = self._longest_before_ns = 0

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio's signature
        """Note the beginning of a turn."""
        self._began_ns = self._now_ns()

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio's signature
        """Note the end of a turn."""
        now_ns = self._now_ns()
        if now_ns - self._window_ns >= WINDOW_NS:
            self._roll(now_ns)
        self._longest_ns = max(self._longest_ns, now_ns - self._began_ns)

    def longest_ms(self) -> float:
        """Return the length of the longest recent turn, which may be the present one."""
        now_ns = self._now_ns()
        if now_ns - self._window_ns >= WINDOW_NS:
            self._roll(now_ns)
        return max(self._longest_ns, self._longest_before_ns, now_ns - self._began_ns) / NS_PER_MS

    def _roll(self, now_ns: int) -> None:
        is_recent = now_ns - self._window_ns < 2 * WINDOW_NS
        self._longest_before_ns = self._longest_ns if is_recent else 0
        self._longest_ns, self._window_ns = 0, now_ns
