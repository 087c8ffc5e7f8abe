"""Stalls of this process: messages of silent peers may only be unread.

Decides when silence may count. A timer that fires much later than it was due shows that the process
was stalled: it was paused, or its machine was busy. Messages of that time are still unread, so
peers get a grace time before their silence counts.
"""

from collections.abc import Callable

STALL_MS = 100
"""A timer that fires later than this after its deadline shows that the process itself was stalled.
"""
STALL_GRACE_MS = 2_000
"""For how long a process that was stalled reads before silence counts."""
MAX_GRACES_IN_A_ROW = 5
"""A process that is late all the time is overloaded: silence counts after so many stalls, if no
timer in between was in time.
"""


class Stalls:
    """The stalls of one process, as timers show them. ``on_stall`` hears once of each, by how many
    milliseconds a timer was late.
    """

    def __init__(self, on_stall: Callable[[int], None]) -> None:
        self._on_stall = on_stall
        self._grace_end_ms = 0
        self._count_in_a_row = 0

    def __repr__(self) -> str:
        return f"<Stalls grace until {self._grace_end_ms} ms>"

    def acted_on_at_ms(self, due_ms: int, now_ms: int) -> int:
        """Return when a timer about silence that was due may be acted on: now, or later."""
        late_ms = now_ms - max(due_ms, self._grace_end_ms)
        if late_ms <= STALL_MS:
            self._count_in_a_row = 0 if late_ms >= 0 else self._count_in_a_row
        elif self._count_in_a_row < MAX_GRACES_IN_A_ROW:
            self._count_in_a_row += 1
            self._grace_end_ms = now_ms + STALL_GRACE_MS
            self._on_stall(late_ms)
        return max(now_ms, self._grace_end_ms)
