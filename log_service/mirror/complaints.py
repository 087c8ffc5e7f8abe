"""The present problems of a mirror, for its log, its status and the person at the terminal.

A complaint is current until it is withdrawn, or until it was not repeated for ``LASTING_MS``. The
time is longer for a flow that looks for problems at longer intervals, because each check repeats
the complaint while the problem persists. A new complaint is logged. Complaints do not affect the
flow.
"""

import logging
from collections.abc import Callable

LASTING_MS = 60_000
MAX_COMPLAINTS = 1_000
MAX_SHOWN = 20

logger = logging.getLogger(__name__)


class Complaints:
    """The complaints of one flow.

    ``name`` is the flow's name. ``longest_pause_s`` is the longest interval between two checks.
    """

    def __init__(self, name: str, now_ms: Callable[[], int], *, longest_pause_s: int = 0) -> None:
        self._name = name
        self._lasting_ms = max(LASTING_MS, 2_000 * longest_pause_s)
        self._now_ms = now_ms
        self._made_ms: dict[str, int] = {}

    def note(self, text: str) -> None:
        """Log a new complaint, or keep a repeated one current."""
        now_ms = self._now_ms()
        self._expire(now_ms)
        if text not in self._made_ms:
            logger.warning("%s: %s", self._name, text)
        self._made_ms.pop(text, None)
        self._made_ms[text] = now_ms
        if len(self._made_ms) > MAX_COMPLAINTS:
            del self._made_ms[next(iter(self._made_ms))]

    def withdraw(self, text: str) -> None:
        """Remove a complaint, because its problem is over."""
        if self._made_ms.pop(text, None) is not None:
            logger.warning("%s: over: %s", self._name, text)

    def current(self) -> list[str]:
        """Return the latest ``MAX_SHOWN`` current complaints, the latest first.

        Each begins with the flow's name.
        """
        self._expire(self._now_ms())
        return [f"{self._name}: {text}" for text in [*reversed(self._made_ms)][:MAX_SHOWN]]

    def _expire(self, now_ms: int) -> None:
        self._made_ms = {
            text: made_ms
            for text, made_ms in self._made_ms.items()
            if now_ms - made_ms < self._lasting_ms
        }
