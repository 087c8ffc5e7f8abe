"""One heap for everything that waits: order, cancellation, and a size that follows the live timers."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from log_service.common.timers import Timer, TimerQueue


def nothing() -> None:
    pass


def test_timers_fire_in_order_of_deadline_and_then_of_scheduling() -> None:
    queue = TimerQueue()
    fired: list[str] = []
    for deadline_ms, name in ((30, "c"), (10, "a"), (20, "b1"), (20, "b2"), (40, "d")):
        queue.schedule(deadline_ms, partial(fired.append, name))
    assert queue.next_deadline_ms() == 10
    assert queue.fire_due(9) == 0
    assert queue.fire_due(30) == 4
    assert fired == ["a", "b1", "b2", "c"]
    assert len(queue) == 1
    assert queue.fire_due(1_000) == 1
    assert queue.next_deadline_ms() is None


def test_cancelled_timer_never_fires_and_may_be_cancelled_again() -> None:
    queue = TimerQueue()
    fired: list[int] = []
    kept, dropped = (
        queue.schedule(1, partial(fired.append, 1)),
        queue.schedule(1, partial(fired.append, 2)),
    )
    dropped.cancel()
    dropped.cancel()
    assert (kept.is_pending, dropped.is_pending) == (True, False)
    assert len(queue) == 1
    assert queue.fire_due(1) == 1
    assert fired == [1]
    kept.cancel()
    assert len(queue) == 0


def test_next_deadline_passes_over_cancelled_timers() -> None:
    queue = TimerQueue()
    first = queue.schedule(1, nothing)
    queue.schedule(2, nothing)
    first.cancel()
    assert queue.next_deadline_ms() == 2


def test_callback_may_schedule_what_is_due_at_once_and_cancel_what_is_due_later() -> None:
    queue = TimerQueue()
    fired: list[str] = []
    timers: dict[str, Timer] = {}

    def first() -> None:
        fired.append("first")
        timers["victim"].cancel()
        queue.schedule(5, partial(fired.append, "scheduled meanwhile"))

    queue.schedule(5, first)
    timers["victim"] = queue.schedule(6, partial(fired.append, "victim"))
    assert queue.fire_due(10) == 2
    assert fired == ["first", "scheduled meanwhile"]


def test_callback_that_cancels_its_own_timer_does_no_harm() -> None:
    queue = TimerQueue()
    timers: list[Timer] = []

    def cancel_self() -> None:
        timers[0].cancel()

    timers.append(queue.schedule(1, cancel_self))
    queue.schedule(2, nothing)
    assert queue.fire_due(1) == 1
    assert len(queue) == 1


def test_owner_is_told_when_an_earlier_deadline_comes_in() -> None:
    queue = TimerQueue()
    told: list[int | None] = []
    queue.on_earlier = lambda: told.append(queue.next_deadline_ms())
    for deadline_ms in (50, 60, 40, 40):
        queue.schedule(deadline_ms, nothing)
    assert told == [50, 40]


def test_long_timers_that_are_always_cancelled_do_not_pile_up() -> None:
    queue = TimerQueue()
    queue.schedule(10**9, nothing)
    for number in range(10_000):
        queue.schedule(10**6 + number, nothing).cancel()
    assert len(queue) == 1
    assert queue.held_count < 200


@given(
    st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=300),
    st.lists(st.integers(0, 60), max_size=20),
)
def test_whatever_is_scheduled_and_cancelled_every_live_timer_fires_once_when_due(
    plan: list[tuple[int, bool]], looks: list[int]
) -> None:
    queue = TimerQueue()
    fired: list[int] = []
    live: list[int] = []
    for number, (deadline_ms, is_cancelled) in enumerate(plan):
        timer = queue.schedule(deadline_ms, partial(fired.append, number))
        if is_cancelled:
            timer.cancel()
        else:
            live.append(number)
    for now_ms in sorted(looks):
        queue.fire_due(now_ms)
        due = [number for number in live if plan[number][0] <= now_ms]
        assert fired == sorted(due, key=lambda number: (plan[number][0], number))
        assert len(queue) == len(live) - len(due)
