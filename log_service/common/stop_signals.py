"""Tells a second wish to stop from a signal that only repeats the first.

A process manager and the shell around it may both send a SIGTERM, and a terminal sends Ctrl-C to each process of a group.
"""

from collections.abc import Callable

import trio

SAME_WISH_SECONDS = 1.0
"""How soon after the first signal another one is the same wish."""


class StopWishes:
    """Takes note of the signals that ask a process to stop. ``is_second`` says that the last one is a second wish."""

    __slots__ = ("_began", "_now", "is_second")

    def __init__(self, now: Callable[[], float] = trio.current_time) -> None:
        self._now = now
        self._began: float | None = None
        self.is_second = False

    def is_repeated(self) -> bool:
        """Take note of a signal; whether it comes so soon after the first that it is the same wish."""
        if self._began is None:
            self._began = self._now()
            return False
        self.is_second = self._now() - self._began >= SAME_WISH_SECONDS
        return not self.is_second
