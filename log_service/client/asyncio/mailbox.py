"""What one thread leaves for another, which is woken once for everything that came until it looks.

Knows neither trio nor asyncio: to wake is a function that it is given.

Invariant: whatever was put is run once, in order, by the thread that empties the mailbox, as long as waking works.
"""

import logging
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Mailbox:
    """Functions that wait until the other thread runs them. ``wake`` lets that thread call ``empty`` soon."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_wake_sent = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, function: Callable[[], object]) -> None:
        """Leave a function; from any thread."""
        self._waiting.append(function)
        if not self._is_wake_sent:
            self._is_wake_sent = True
            self._wake()

    def empty(self) -> None:
        """Run what waits now; what one of them raises is logged, and the others run."""
        self._is_wake_sent = False  # first: what is put from here on wakes again
        for _ in range(len(self._waiting)):
            function = self._waiting.popleft()
            try:
                function()
            except Exception:
                logger.exception("a function that was left for the event loop failed")
