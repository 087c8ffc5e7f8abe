"""Delayed operations: who finishes them, how often, and what is left behind."""

from log_service.common.timers import TimerQueue
from log_service.replication.purgatory import Purgatory


class Waiting:
    """An operation that is ready when the test says so, and that remembers what it was told."""

    def __init__(self, *, is_ready: bool = False) -> None:
        self.ready = is_ready
        self.asked: list[str] = []
        self.told: list[str] = []

    def is_ready(self, key: str) -> bool:
        self.asked.append(key)
        return self.ready

    def on_ready(self) -> None:
        self.told.append("ready")

    def on_expired(self) -> None:
        self.told.append("expired")


def test_a_changed_key_finishes_a_ready_operation_once() -> None:
    timers = TimerQueue()
    purgatory: Purgatory[str] = Purgatory(timers)
    operation = Waiting(is_ready=True)
    purgatory.watch(operation, ["a", "b"], 100)
    assert purgatory.check("a") == 1
    assert purgatory.check("b") == 0
    assert timers.fire_due(1_000) == 0
    assert operation.told == ["ready"]


def test_an_operation_that_is_not_ready_waits_on() -> None:
    purgatory: Purgatory[str] = Purgatory(TimerQueue())
    operation = Waiting()
    purgatory.watch(operation, ["a"], 100)
    assert purgatory.check("a") == 0
    operation.ready = True
    assert purgatory.check("a") == 1
    assert operation.asked == ["a", "a"]


def test_a_key_that_is_not_watched_asks_no_operation() -> None:
    purgatory: Purgatory[str] = Purgatory(TimerQueue())
    operation = Waiting(is_ready=True)
    purgatory.watch(operation, ["a"], 100)
    assert purgatory.check("z") == 0
    assert operation.asked == []


def test_the_deadline_finishes_it_and_keys_no_longer_do() -> None:
    timers = TimerQueue()
    purgatory: Purgatory[str] = Purgatory(timers)
    operation = Waiting()
    purgatory.watch(operation, ["a"], 100)
    timers.fire_due(99)
    assert operation.told == []
    timers.fire_due(100)
    operation.ready = True
    assert purgatory.check("a") == 0
    assert operation.told == ["expired"]


def test_a_cancelled_operation_is_told_nothing() -> None:
    timers = TimerQueue()
    purgatory: Purgatory[str] = Purgatory(timers)
    operation = Waiting(is_ready=True)
    watch = purgatory.watch(operation, ["a"], 100)
    watch.cancel()
    watch.cancel()
    purgatory.check("a")
    timers.fire_due(1_000)
    assert operation.told == []
    assert len(timers) == 0


def test_nothing_is_left_behind() -> None:
    timers = TimerQueue()
    purgatory: Purgatory[str] = Purgatory(timers)
    purgatory.watch(Waiting(is_ready=True), ["a", "b"], 100)
    purgatory.watch(Waiting(), ["b", "c"], 200)
    assert (len(purgatory), len(purgatory.watches)) == (2, 3)
    purgatory.check("a")
    timers.fire_due(200)
    assert (len(purgatory), len(purgatory.watches), len(timers)) == (0, 0, 0)


def test_an_operation_may_watch_again_while_it_is_finished() -> None:
    timers = TimerQueue()
    purgatory: Purgatory[str] = Purgatory(timers)

    class Again(Waiting):
        def on_ready(self) -> None:
            super().on_ready()
            self.ready = False
            purgatory.watch(self, ["a"], 200)

    operation = Again(is_ready=True)
    purgatory.watch(operation, ["a"], 100)
    assert purgatory.check("a") == 1
    assert len(purgatory) == 1
    timers.fire_due(200)
    assert operation.told == ["ready", "expired"]


def test_one_operation_may_cancel_another_during_a_check() -> None:
    purgatory: Purgatory[str] = Purgatory(TimerQueue())
    second = Waiting(is_ready=True)

    class First(Waiting):
        def on_ready(self) -> None:
            second_watch.cancel()

    purgatory.watch(First(is_ready=True), ["a"], 100)
    second_watch = purgatory.watch(second, ["a"], 100)
    assert purgatory.check("a") == 1
    assert second.told == []


def test_expiring_all_empties_it() -> None:
    timers = TimerQueue()
    purgatory: Purgatory[str] = Purgatory(timers)
    operations = [Waiting(), Waiting()]
    for operation in operations:
        purgatory.watch(operation, ["a", "b"], 100)
    assert purgatory.expire_all() == 2
    assert [operation.told for operation in operations] == [["expired"], ["expired"]]
    assert len(timers) == 0
