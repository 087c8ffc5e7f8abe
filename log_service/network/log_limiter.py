"""Log lines that a peer can provoke, so many per minute and kind and no more; what was left out is counted in the next line.

Decides only whether a line is written. The kinds are a few fixed words of the caller, so the table stays small.
"""

import logging

from log_service.common.env import Clock

WINDOW_MS = 60_000
MAX_LINES_PER_WINDOW = 20


class LogLimiter:
    """A logger for lines about peers, with a bound for each kind."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._windows: dict[str, tuple[int, int]] = {}

    def log(self, level: int, kind: str, text: str, *values: object, error: BaseException | None = None) -> bool:
        """Write a line unless its kind has had enough for this minute; return whether it was written."""
        now_ms = self._clock.monotonic_ms()
        started_ms, count = self._windows.get(kind, (now_ms, 0))
        suppressed_count = 0
        if now_ms - started_ms >= WINDOW_MS:
            suppressed_count = max(0, count - MAX_LINES_PER_WINDOW)
            started_ms, count = now_ms, 0
        self._windows[kind] = (started_ms, count + 1)
        if count >= MAX_LINES_PER_WINDOW:
            return False
        suffix = f" ({suppressed_count} more lines like this were left out)" if suppressed_count else ""
        self._logger.log(level, "%s%s", text % values, suffix, exc_info=error)
        return True
