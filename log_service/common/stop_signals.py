"""Distinguishes a second request to stop from a repetition of the first signal.

One request may arrive as several signals. A process manager and the shell around it may both send a
SIGTERM, and a terminal sends Ctrl-C to each process of a group.
"""

from collections.abc import Callable

import trio

SAME_REQUEST_SECONDS = 1.0
"""Signals that arrive this soon after the first one repeat the same request to stop."""


class StopRequests:
    """Tracks signals that ask a process to stop. ``is_second`` is true after a second request."""

    __slots__ = ("_began", "_now", "is_second")

    def __init__(self, now: Callable[[], float] = trio.current_time) -> None:
        self._now = now
        self._began: float | None = None
        self.is_second = False

    def is_repeated(self) -> bool:
        """Note a signal, and return whether it only repeats the first one.

        A signal within ``SAME_REQUEST_SECONDS`` of the first one repeats it. A later signal is a
        second request to stop, and sets ``is_second``.
        """
        if self._began is None:
            self._began = self._now()
            return False
        self.is_second = self._now() - self._began >= SAME_REQUEST_SECONDS
        return not self.is_second
