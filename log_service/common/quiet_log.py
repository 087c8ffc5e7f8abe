"""Limits how many log lines with the same key are written within an interval.

The next line with the key says how many were left out. This module decides which lines are written.
The caller chooses their key, text and level. It knows neither clients nor peers.

Invariant: at most ``MAX_REMEMBERED`` keys are remembered. The key that was used longest ago is
forgotten first.
"""

import logging
from collections.abc import Callable, Hashable

INTERVAL_MS = 30_000
MAX_REMEMBERED = 256


class QuietLogger:
    """A module's logger for lines that may come by the thousand.

    It writes at most ``max_lines`` lines with the same key ``what`` within ``interval_ms``.
    """

    def __init__(
        self,
        logger: logging.Logger,
        now_ms: Callable[[], int],
        interval_ms: int = INTERVAL_MS,
        max_lines: int = 1,
    ) -> None:
        self._logger = logger
        self._now_ms = now_ms
        self._interval_ms = interval_ms
        self._max_lines = max_lines
        self._said: dict[Hashable, tuple[int, int, int]] = {}

    @property
    def remembered_count(self) -> int:
        """The number of keys that are remembered."""
        return len(self._said)

    def info(self, what: Hashable, text: str, *args: object) -> None:
        """Log ``text % args``, unless ``max_lines`` lines with the key ``what`` were logged.

        Only lines within the interval count.
        """
        self._say(logging.INFO, what, text, args)

    def warning(self, what: Hashable, text: str, *args: object) -> None:
        """Log as ``info`` does, at level WARNING."""
        self._say(logging.WARNING, what, text, args)

    def error(
        self, what: Hashable, text: str, *args: object, error: BaseException | None = None
    ) -> None:
        """Log as ``info`` does, at level ERROR, with the traceback of ``error``."""
        self._say(logging.ERROR, what, text, args, error)

    def _say(
        self,
        level: int,
        what: Hashable,
        text: str,
        args: tuple[object, ...],
        error: BaseException | None = None,
    ) -> None:
        now_ms = self._now_ms()
        began_ms, said_count, kept_back = self._said.pop(what, (now_ms, 0, 0))
        if now_ms - began_ms >= self._interval_ms:
            began_ms, said_count = now_ms, 0
        if said_count >= self._max_lines:
            self._said[what] = began_ms, said_count, kept_back + 1
            return
        if len(self._said) >= MAX_REMEMBERED:
            del self._said[next(iter(self._said))]
        self._said[what] = began_ms, said_count + 1, 0
        if kept_back:
            text, args = text + " (and %d times more before)", (*args, kept_back)
        self._logger.log(level, text, *args, exc_info=error)
