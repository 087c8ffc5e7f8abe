"""The task of a node that fires timers. It sleeps until the next deadline.

An earlier deadline wakes it. Decides nothing. If a callback raises, ``run`` ends with that
exception. This ends the node, like the failure of any room. A lost timer would mean a member that
never expires, or a fetch that never gets its response. While no timer is scheduled the task sleeps.
"""

import trio

from log_service.common.env import Clock
from log_service.common.timers import TimerQueue


class TimerTask:
    """Fires the timers of one ``TimerQueue``, and sets the queue's ``on_earlier``."""

    def __init__(self, timers: TimerQueue, clock: Clock) -> None:
        self._timers = timers
        self._clock = clock
        self._is_changed = trio.Event()
        timers.on_earlier = self._wake

    def _wake(self) -> None:
        self._is_changed.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fire due timers, until cancelled or until a callback raises."""
        task_status.started()
        while True:
            self._is_changed = trio.Event()
            self._timers.fire_due(self._clock.monotonic_ms())
            deadline_ms = self._timers.next_deadline_ms()
            if deadline_ms is None:
                await self._is_changed.wait()
                continue
            with trio.move_on_after(max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000):
                await self._is_changed.wait()
