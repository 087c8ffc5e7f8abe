"""Carries calls from one thread to another. The other is woken once for everything that came until
it looks.

Knows neither trio nor asyncio: to wake is a function that it is given.

Invariant: whatever was put is run once, in order, by the thread that empties the mailbox, as long as waking works. Where a wake-up that was
sent may never be heard, the next one is sent all the same.
"""

import logging
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Mailbox:
    """Functions that wait until the other thread runs them. ``wake`` lets that thread call ``empty`` soon.

    ``is_deaf`` says that the other thread will not, whatever it was sent.
    """

    def __init__(self, wake: Callable[[], None], is_deaf: Callable[[], bool] = bool) -> None:
        self._wake = wake
        self._is_deaf = is_deaf
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_wake_sent = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, function: Callable[[], object]) -> None:
        """Leave a function; from any thread."""
        self._waiting.append(function)
        if not self._is_wake_sent or self._is_deaf():
            self._is_wake_sent = True
            self._wake()

    def empty(self) -> None:
        """Run the waiting calls.

        An error of one is logged, and the others run, after a Ctrl-C at the next wake-up.
        """
        self._is_wake_sent = False  # first: what is put from here on wakes again
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
