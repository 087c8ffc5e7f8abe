"""Virtual time replaces trio's clock, and gives a node its milliseconds.

``WorldClock`` stands still while anything can run, and jumps to the next deadline or alarm
otherwise. An alarm wakes a parking lot; unlike a deadline it takes neither a cancel scope nor a
turn of the scheduler. What a simulated network does is nearly all to wait for arrivals.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf

import trio
import trio._core._run as trio_run

EPOCH_MS = 1_700_000_000_000


class VirtualClock:
    """Both clocks follow ``now``; a node's wall clock may be off by ``skew_ms``, which may change."""

    def __init__(
        self,
        *,
        epoch_ms: int = EPOCH_MS,
        skew_ms: int = 0,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._epoch_ms = epoch_ms
        self._now = now
        self.skew_ms = skew_ms

    def wall_ms(self) -> int:
        return self._epoch_ms + self.skew_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(self._now() * 1000)

    def monotonic_ns(self) -> int:
        return round(self._now() * 1_000_000_000)


class WorldClock(trio.abc.Clock):
    """Trio's clock while a world runs; it begins at 0. What is in ``on_idle`` is called when all
    has happened in a moment.
    """

    def __init__(self) -> None:
        self.on_idle: list[Callable[[], None]] = []
        self._now = 0.0
        self._alarms: list[tuple[float, int, trio.lowlevel.ParkingLot]] = []
        self._numbers = count()

    def start_clock(self) -> None:
        """It stands still by itself."""

    def current_time(self) -> float:
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Go on to the next deadline, so that trio does not sleep.

        Trio calls this if no task can run.
        """
        if deadline <= self._now:
            return 0
        if trio_run.GLOBAL_RUN_CONTEXT.runner.waiting_for_idle:
            return inf
        for look in self.on_idle:
            look()
        alarms = self._alarms
        if alarms and alarms[0][0] <= deadline:
            self._now = max(self._now, alarms[0][0])
            while alarms and alarms[0][0] <= self._now:
                heappop(alarms)[2].unpark_all()
        elif deadline < inf:
            self._now = deadline
        else:
            return inf
        return 0

    def wake_at(self, time: float, lot: trio.lowlevel.ParkingLot) -> None:
        """Wake all that are parked in ``lot`` at ``time``, in seconds.

        If that has passed, they wake as soon as nothing else can run.
        """
        heappush(self._alarms, (time, next(self._numbers), lot))
