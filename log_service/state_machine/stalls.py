"""Detects stalls of this process, after which peers that seem silent get extra time.

A timer that fires much later than it was due shows that the process was stalled: it was paused, or
its machine was busy. Messages that arrived meanwhile are still unread. So peers get a grace time
before they are removed as silent.
"""

from collections.abc import Callable

STALL_MS = 100
"""A timer that fires later than this after its deadline shows that the process itself was stalled.
"""
STALL_GRACE_MS = 2_000
"""How long a stalled process reads before silence counts."""
MAX_GRACES_IN_A_ROW = 5
"""Stalls in a row, without a punctual timer between them, after which silence counts.

A process with so many is overloaded.
"""


class Stalls:
    """Finds the stalls of one process by its late timers.

    ``on_stall`` is called once for each stall, with the delay of the timer in milliseconds.
    """

    def __init__(self, on_stall: Callable[[int], None]) -> None:
        self._on_stall = on_stall
        self._grace_end_ms = 0
        self._count_in_a_row = 0

    def __repr__(self) -> str:
        return f"<Stalls grace until {self._grace_end_ms} ms>"

    def acted_on_at_ms(self, due_ms: int, now_ms: int) -> int:
        """Return when a due timer about silent peers may take effect, in ms: now or later."""
        late_ms = now_ms - max(due_ms, self._grace_end_ms)
        if late_ms <= STALL_MS:
            self._count_in_a_row = 0 if late_ms >= 0 else self._count_in_a_row
        elif self._count_in_a_row < MAX_GRACES_IN_A_ROW:
            self._count_in_a_row += 1
            self._grace_end_ms = now_ms + STALL_GRACE_MS
            self._on_stall(late_ms)
        return max(now_ms, self._grace_end_ms)
