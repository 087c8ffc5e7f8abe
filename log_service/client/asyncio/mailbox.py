"""Carries functions from one thread to another. All waiting functions share one wake-up.

This module knows neither trio nor asyncio. The caller passes the function that wakes the other
thread.

Invariant: the thread that empties the mailbox runs each function once, in order. If a wake-up may
have been lost, the next ``put`` sends another one.
"""

import logging
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Mailbox:
    """Functions that wait until the other thread runs them.

    ``wake`` makes that thread call ``empty`` soon. ``is_deaf`` returns whether the other thread
    ignores all wake-ups.
    """

    def __init__(self, wake: Callable[[], None], is_deaf: Callable[[], bool] = bool) -> None:
        self._wake = wake
        self._is_deaf = is_deaf
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_wake_sent = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, function: Callable[[], object]) -> None:
        """Add a function. Any thread may call this."""
        self._waiting.append(function)
        if not self._is_wake_sent or self._is_deaf():
            self._is_wake_sent = True
            self._wake()

    def empty(self) -> None:
        """Run the waiting functions.

        An exception of one is logged, and the others run. After a Ctrl-C the others run at the next
        wake-up.
        """
        self._is_wake_sent = False  # first, so that later functions wake the thread again
        for _ in range(len(self._waiting)):
            function = self._waiting.popleft()
            try:
                function()
            except Exception:
                logger.exception("a function that was left for the event loop failed")
            except BaseException:
                if self._waiting and not self._is_wake_sent:
                    self._is_wake_sent = True
                    self._wake()
                raise
