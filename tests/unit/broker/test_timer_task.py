"""The task that fires a node's timers: in order, never early, and never past a callback that
failed.
"""

import pytest
import trio
from trio.testing import MockClock

from log_service.broker.timer_task import TimerTask
from log_service.common.timers import TimerQueue


class TrioClock:
    def wall_ms(self) -> int:
        return self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(trio.current_time() * 1_000)

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000


def test_timers_fire_when_they_are_due_and_an_earlier_one_wakes_the_task() -> None:
    fired: list[tuple[str, int]] = []

    async def main() -> None:
        clock, timers = TrioClock(), TimerQueue()
        start_ms = clock.monotonic_ms()

        def note(name: str) -> None:
            fired.append((name, clock.monotonic_ms() - start_ms))

        async with trio.open_nursery() as nursery:
            await nursery.start(TimerTask(timers, clock).run)
            timers.schedule(start_ms + 5_000, lambda: note("late"))
            await trio.sleep(1)
            timers.schedule(start_ms + 2_000, lambda: note("early"))
            await trio.sleep(10)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert fired == [("early", 2_000), ("late", 5_000)]


def test_a_callback_that_raises_takes_its_nursery_down() -> None:
    """A failed timer callback ends the node, as any failed room does.

    A lost session timer would be a member that never expires.
    """

    def fail() -> None:
        raise ZeroDivisionError("a bug in a callback")

    async def main() -> None:
        clock, timers = TrioClock(), TimerQueue()
        timers.schedule(clock.monotonic_ms(), fail)
        async with trio.open_nursery() as nursery:
            await nursery.start(TimerTask(timers, clock).run)
            await trio.sleep_forever()

    with pytest.RaisesGroup(ZeroDivisionError):
        trio.run(main, clock=MockClock(autojump_threshold=0))
