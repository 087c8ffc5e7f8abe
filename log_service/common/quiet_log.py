"""Log lines that do not flood: the same thing is said once per interval, and how often it was kept back is said with the next line.

Decides which lines are let through; the text and its level are the caller's. Knows no clients.

Invariant: what it remembers is bounded; the oldest is forgotten first.
"""

import logging
from collections.abc import Callable, Hashable

INTERVAL_MS = 30_000
MAX_REMEMBERED = 256


class QuietLogger:
    """A part's logger for lines that may come by the thousand."""

    def __init__(self, logger: logging.Logger, now_ms: Callable[[], int], interval_ms: int = INTERVAL_MS) -> None:
        self._logger = logger
        self._now_ms = now_ms
        self._interval_ms = interval_ms
        self._said: dict[Hashable, tuple[int, int]] = {}

    def info(self, what: Hashable, text: str, *args: object) -> None:
        """Say ``text % args`` unless ``what`` was said within the interval."""
        self._say(logging.INFO, what, text, args)

    def warning(self, what: Hashable, text: str, *args: object) -> None:
        """The same, as a warning."""
        self._say(logging.WARNING, what, text, args)

    def _say(self, level: int, what: Hashable, text: str, args: tuple[object, ...]) -> None:
        now_ms = self._now_ms()
        said_ms, kept_back = self._said.pop(what, (-self._interval_ms, 0))
        if now_ms - said_ms < self._interval_ms:
            self._said[what] = said_ms, kept_back + 1
            return
        if len(self._said) >= MAX_REMEMBERED:
            del self._said[next(iter(self._said))]
        self._said[what] = now_ms, 0
        if kept_back:
            text, args = text + " (and %d times more before)", (*args, kept_back)
        self._logger.log(level, text, *args)
