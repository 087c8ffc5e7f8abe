"""The longest turn of the event loop, as the metrics page tells it."""

import trio
import trio.lowlevel

from log_service.broker.metrics.loop_turns import WINDOW_NS, LoopTurns

MS = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


def turn(turns: LoopTurns, clock: Clock, busy_ms: int, idle_ms: int = 0) -> None:
    turns.after_io_wait(0)
    clock.ns += busy_ms * MS
    turns.before_io_wait(0)
    clock.ns += idle_ms * MS
    turns.after_io_wait(0)


def test_the_longest_turn_counts_and_waits_do_not() -> None:
    clock = Clock()
    turns = LoopTurns(clock)
    for busy_ms in (3, 70, 5):
        turn(turns, clock, busy_ms, idle_ms=900)
    assert turns.longest_ms() == 70


def test_a_turn_under_way_counts() -> None:
    clock = Clock()
    turns = LoopTurns(clock)
    turns.after_io_wait(0)
    clock.ns += 40 * MS
    assert turns.longest_ms() == 40


def test_a_stall_is_told_for_half_a_minute_at_least_and_for_a_minute_at_most() -> None:
    clock = Clock()
    turns = LoopTurns(clock)
    turn(turns, clock, 70)
    told = []
    for _ in range(130):
        turn(turns, clock, 1, idle_ms=499)
        told.append((clock.ns / 1_000 / MS, turns.longest_ms()))
    assert all(longest == 70 for second, longest in told if second < 30)
    assert all(longest == 1 for second, longest in told if second > 61)


def test_a_loop_that_slept_through_both_windows_has_no_stall() -> None:
    clock = Clock()
    turns = LoopTurns(clock)
    turn(turns, clock, 70)
    turns.before_io_wait(0)
    clock.ns += 3 * WINDOW_NS
    turns.after_io_wait(0)
    assert turns.longest_ms() == 0


def test_the_loop_tells_its_turns() -> None:
    clock = Clock()
    turns = LoopTurns(clock)

    async def work() -> None:
        await trio.lowlevel.checkpoint()
        clock.ns += 25 * MS
        await trio.lowlevel.checkpoint()

    trio.run(work, instruments=[turns])
    assert turns.longest_ms() == 25
