"""The daemon's loops look at once where there is something to see, and seldom where nothing
happens.
"""

import itertools
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
)

from orchestration.installation.daemon.pace import (
    EARLY_S,
    LONGEST_S,
    RESTS_S,
    SETTLES_S,
    STEP_S,
    WITHOUT_THREADS_S,
    Bounded,
    Quiet,
    Resting,
    Turns,
    newest,
    newest_event,
    paced,
)

LOOP_S = 5.0
"""Dagster's pause between two looks of its loops."""


class Time:
    """The daemon's end, in time that passes only while a loop waits. ``at`` has what happens
    meanwhile.
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s
        self.pauses: list[float] = []
        self.at: dict[float, Callable[[], object]] = {}
        self.is_over = False

    def is_set(self) -> bool:
        return self.is_over

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        until_s = self.now_s + timeout
        for at_s in sorted(self.at):
            if not self.is_over and at_s <= until_s:
                self.now_s = max(at_s, self.now_s)
                self.at.pop(at_s)()
        if not self.is_over:
            self.now_s = until_s
        return self.is_over

    def end(self) -> None:
        self.is_over = True


class Events:
    """The conditions depend on these events."""

    def __init__(self) -> None:
        self.count = 0

    def seen(self) -> Hashable:
        return self.count

    def happen(self) -> None:
        self.count += 1


def looks(quiet: Quiet, time: Time, until_s: float) -> list[float]:
    """Return when a loop that pauses as Dagster's does looks."""
    found = []
    while not quiet.wait(LOOP_S) and time.now_s <= until_s:
        found.append(time.now_s)
    return found


def test_conditions_are_looked_at_each_full_minute_where_nothing_happens() -> None:
    time, events = Time(7.0), Events()
    quiet = Quiet(time, events.seen, lambda: time.now_s)
    found = looks(quiet, time, 400)
    quiet_s = 7 + SETTLES_S + 2 * LONGEST_S
    assert [at_s for at_s in found if at_s > quiet_s] == [
        at_s for at_s in range(60, 401, 60) if at_s > quiet_s
    ]


def test_an_event_is_seen_as_soon_as_ever_and_followed_by_looks_as_often_as_ever() -> None:
    time, events = Time(7.0), Events()
    quiet = Quiet(time, events.seen, lambda: time.now_s)
    looks(quiet, time, 300)
    happens_s = time.now_s + 11
    time.at[happens_s] = events.happen
    found = looks(quiet, time, happens_s + SETTLES_S)
    assert happens_s <= found[0] <= happens_s + LOOP_S
    assert max(later - earlier for earlier, later in itertools.pairwise(found)) <= LOOP_S
    assert found[-1] >= happens_s + SETTLES_S - LOOP_S


def test_a_question_that_fails_may_have_another_answer() -> None:
    def fail() -> Hashable:
        raise OSError("no storage")

    time = Time(1.0)
    quiet = Quiet(time, fail, lambda: time.now_s)
    time.now_s += 10 * SETTLES_S
    assert quiet.wait(LOOP_S) is False
    assert time.pauses == [LOOP_S]


def test_a_full_minute_that_passes_while_a_loop_looks_makes_its_pause_no_longer_than_its_own() -> (
    None
):
    """An evaluation before the full minute knows nothing of a cron schedule that is due at it."""
    time, events = Time(7.0), Events()
    quiet = Quiet(time, events.seen, lambda: time.now_s)
    looks(quiet, time, 300)
    time.at[time.now_s + 1] = events.happen
    looks(quiet, time, time.now_s + SETTLES_S - 1)
    while not quiet.wait(LOOP_S) and time.now_s % LONGEST_S:
        continue
    time.now_s += LONGEST_S + 2
    before_s = time.now_s
    assert quiet.wait(LOOP_S) is False
    assert time.now_s == before_s + LOOP_S


@pytest.mark.parametrize("second", range(0, 60, 7))
def test_no_sensor_that_is_not_due_at_a_full_minute_waits_for_the_next_one(second: int) -> None:
    """Dagster's own sensor of conditions has an interval of thirty seconds.

    A sensor that ticked shortly before is passed over.
    """
    interval_s, time, events = 30.0, Time(7.0), Events()
    quiet = Quiet(time, events.seen, lambda: time.now_s)
    time.at[600.0 + second] = events.happen
    ticks = [0.0]
    for look_s in looks(quiet, time, 900):
        if look_s >= ticks[-1] + interval_s:
            ticks.append(look_s + 0.01)
    assert [
        minute_s
        for minute_s in range(60, 841, 60)
        if not any(0 <= tick_s - minute_s <= interval_s + LOOP_S for tick_s in ticks)
    ] == []


def test_a_loop_that_took_longer_than_its_pause_asks_for_no_event_without_a_pause() -> None:
    """It asks Dagster for no pause at all."""
    time, events = Time(7.0), Events()
    quiet = Quiet(time, events.seen, lambda: time.now_s)
    looks(quiet, time, 300)
    time.pauses.clear()
    at_s = time.now_s
    time.at[at_s + 58] = time.end
    assert quiet.wait(0.0) is True
    assert time.pauses == [0.0, *[STEP_S] * 12]


def test_a_clock_that_is_put_back_ends_a_pause() -> None:
    """Else the loop would stand until the clock has caught up."""
    time, events, behind_s = Time(100_007.0), Events(), 0

    def put_back() -> None:
        nonlocal behind_s
        behind_s = 1_000

    quiet = Quiet(time, events.seen, lambda: time.now_s - behind_s)
    looks(quiet, time, 103_000)
    put_back_s = time.now_s + 2 * STEP_S
    time.at[put_back_s] = put_back
    for looked_by_s in (
        put_back_s + STEP_S,
        put_back_s + STEP_S + LONGEST_S,
        put_back_s + STEP_S + 2 * LONGEST_S,
    ):
        assert quiet.wait(LOOP_S) is False
        assert time.now_s <= looked_by_s


@pytest.mark.parametrize("end_s", [2.0, LONGEST_S * 5 + 1])
def test_the_end_of_the_daemon_ends_the_pause_of_conditions(end_s: float) -> None:
    time, events = Time(), Events()
    time.at[end_s] = time.end
    quiet = Quiet(time, events.seen, lambda: time.now_s)
    while not quiet.wait(LOOP_S):
        assert not quiet.is_set()
    assert time.now_s == end_s
    assert quiet.is_set()


def test_loops_that_pause_in_steps_make_longer_ones() -> None:
    time = Time()
    assert Bounded(time, shortest_s=STEP_S).wait(0.5) is False
    assert Bounded(time, shortest_s=STEP_S).wait(STEP_S + 1) is False
    assert time.pauses == [STEP_S, STEP_S + 1]


class Ticks:
    """An executor whose ticks begin and end when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Future[Any]]] = []

    def submit(self, function: Callable[[], Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        self.waiting.append((function, future))
        return future

    def run(self) -> None:
        function, future = self.waiting.pop(0)
        future.set_result(function())


class Looks:
    """A loop of sensors that does nothing but to pause, 300 s at most; it tells when it looks."""

    def __init__(self, turns: Turns) -> None:
        self.looked = threading.Semaphore(0)
        self._turns = turns
        self.thread = threading.Thread(target=self._loop)
        self.thread.start()

    def _loop(self) -> None:
        while not self._turns.wait(300):
            self.looked.release()


def test_the_end_of_a_tick_is_the_next_one_s_beginning() -> None:
    """The sensor that waits for records is looked at when its tick has ended.

    No other pause ends meanwhile.
    """
    ended, ticks = threading.Event(), Ticks()
    turns = Turns(ended, ticks)
    loop = Looks(turns)
    try:
        turns.due("new_records", None, 0)
        future = turns.submit(lambda: "waited")
        assert not loop.looked.acquire(timeout=0.3), "a tick goes on"
        ticks.run()
        assert future.result() == "waited"
        assert loop.looked.acquire(timeout=60)
        assert not loop.looked.acquire(timeout=0.3), "it looks once for one tick"
    finally:
        ended.set()
        loop.thread.join(60)
    assert not loop.thread.is_alive(), "the end of the daemon ends its pause"


def test_a_sensor_that_ticked_shortly_is_looked_at_when_its_interval_is_over() -> None:
    """The interval counts from the beginning of the tick, which a busy pool of threads puts off."""
    now_s, pauses = 100.0, []
    ended, ticks = threading.Event(), Ticks()
    turns = Turns(ended, ticks, now_s=lambda: now_s)

    def pause(timeout: float | None = None) -> bool:
        nonlocal now_s
        assert timeout is not None
        pauses.append(timeout)
        now_s += timeout
        return True

    turns._changed.wait = pause  # type: ignore[method-assign]
    turns.due("watchdog", None, 30)
    turns.submit(lambda: None)
    now_s += 3
    ticks.run()
    now_s += 1
    assert turns.wait(LOOP_S * 100) is False
    assert pauses == [pytest.approx(29 + EARLY_S)]
    assert turns.wait(LOOP_S) is False
    assert pauses[1:] == [pytest.approx(LOOP_S)], "a turn that was had is none any more"
    ended.set()


class RunSensor:
    """A sensor of runs that a loop submits every ten seconds; ``cursor`` moves with what a tick has
    seen.
    """

    def __init__(self, kind: str = "RUN_STATUS") -> None:
        self.now_s, self.cursor, self.kind = 1_000.0, "", kind
        self.events, self.ticks = Events(), 0
        self.turns = Turns(
            threading.Event(),
            self,
            Resting(self.seen, lambda: self.now_s).rests,
            now_s=lambda: self.now_s,
        )

    def seen(self) -> Hashable:
        return self.events.seen()

    def submit(self, function: Callable[[], Any]) -> "Future[Any]":
        self.ticks += 1
        future: Future[Any] = Future()
        future.set_result(function())
        return future

    def ticks_within(self, seconds: float) -> int:
        """Let a loop look each ten seconds, and return how many ticks it made."""
        before, until_s = self.ticks, self.now_s + seconds
        sensor = SimpleNamespace(
            selector_id="run_failures", sensor_type=SimpleNamespace(value=self.kind)
        )
        while self.now_s < until_s:
            state = SimpleNamespace(instigator_data=SimpleNamespace(cursor=self.cursor))
            self.turns.due(sensor, None, 10)
            assert self.turns.submit(lambda *_: None, object(), object(), sensor, state).done()
            self.now_s += 10
        return self.ticks - before


def test_a_sensor_of_runs_makes_no_ticks_for_nothing() -> None:
    sensor = RunSensor()
    assert sensor.ticks_within(SETTLES_S) == SETTLES_S / 10
    assert sensor.ticks_within(600) == 600 / RESTS_S
    sensor.events.happen()
    assert sensor.ticks_within(10) == 1, "an event is looked at with the next look of the loop"
    assert sensor.ticks_within(SETTLES_S - 10) == SETTLES_S / 10 - 1, (
        "a database may show another one later"
    )
    assert sensor.ticks_within(600) == 600 / RESTS_S


def test_a_sensor_of_runs_that_has_more_to_see_goes_on() -> None:
    """A tick is about five runs at most: its cursor tells that there were some."""
    sensor = RunSensor()
    sensor.ticks_within(600)
    sensor.events.happen()
    for position in range(30):
        sensor.cursor = f"seen {position}"
        assert sensor.ticks_within(10) == 1


def test_other_sensors_tick_whenever_their_interval_is_over() -> None:
    assert RunSensor("STANDARD").ticks_within(600) == 60


def test_a_sensor_of_runs_ticks_where_events_cannot_be_asked_for() -> None:
    class Refusing(RunSensor):
        def seen(self) -> Hashable:
            raise OSError("no storage")

    assert Refusing().ticks_within(600) == 60


class Daemon:
    """One of Dagster's loops, as far as its pause is concerned."""

    def __init__(self, kind: str, executor: object = None) -> None:
        self._kind = kind
        self._threadpool_executor = executor

    def daemon_type(self) -> str:
        return self._kind


def test_each_loop_is_handed_its_pause() -> None:
    ended, context, executor = threading.Event(), object(), Ticks()
    sensors = Daemon("SENSOR", executor)
    turns = paced(sensors, context, ended)
    assert isinstance(turns, Turns)
    assert sensors._threadpool_executor is turns
    assert sensors.instrument_elapsed == turns.due  # type: ignore[attr-defined]
    assert isinstance(paced(Daemon("ASSET"), context, ended), Quiet)
    assert isinstance(paced(Daemon("MONITORING"), context, ended), Bounded)
    assert isinstance(paced(Daemon("EVENT_LOG_CONSUMER"), context, ended), Quiet)
    assert paced(Daemon("SCHEDULER"), context, ended) is ended
    time = Time()
    assert paced(Daemon("SENSOR"), context, time).wait(LOOP_S) is False
    assert time.pauses == [WITHOUT_THREADS_S], (
        "ticks in the loop itself are followed by a short pause"
    )
    ended.set()


def test_killed_runs_are_started_anew_where_an_event_came() -> None:
    """The loop pauses in steps of half a second until its time has come."""
    time, events = Time(7.0), Events()
    context = SimpleNamespace(
        instance=SimpleNamespace(
            event_log_storage=SimpleNamespace(get_maximum_record_id=events.seen)
        )
    )
    pause = paced(Daemon("EVENT_LOG_CONSUMER"), context, time)
    assert isinstance(pause, Quiet)
    pause._now_s = lambda: time.now_s
    pause._changed_s = time.now_s
    while time.now_s < 300:
        assert pause.wait(0.5) is False
    began_s = time.now_s
    assert pause.wait(0.5) is False
    assert time.now_s - began_s > LOOP_S, "nothing has happened"
    time.at[time.now_s + 1] = events.happen
    began_s = time.now_s
    assert pause.wait(0.5) is False
    assert time.now_s - began_s <= STEP_S
    assert newest_event(context) == 1


def test_conditions_depend_on_events_and_loads_and_on_what_a_person_does() -> None:
    """A sensor that a person turned on, and partitions from outside, waited for the next full
    minute.

    No event tells of them.
    """

    class Context:
        """Dagster's process context of a project that is loaded."""

        def __init__(self, instance: dg.DagsterInstance) -> None:
            self.instance = instance
            self.load = "load 1"

        def create_request_context(self) -> "Context":
            return self

        def get_code_location_entries(self) -> dict[str, Any]:
            return {"tidelog": SimpleNamespace(version_key=self.load)}

    with dg.instance_for_test() as instance:
        context = Context(instance)
        seen = [newest(context)]
        assert newest(context) == seen[0]

        def changes() -> bool:
            seen.append(newest(context))
            return seen[-1] not in seen[:-1]

        instance.report_runless_asset_event(dg.AssetMaterialization("a"))
        assert changes()
        context.load = "load 2"
        assert changes()
        instance.add_dynamic_partitions("shops", ["one", "two"])
        assert changes()
        instance.delete_dynamic_partition("shops", "one")
        assert changes()
        instance.add_instigator_state(state_of_sensor(InstigatorStatus.STOPPED))
        assert changes()
        instance.update_instigator_state(state_of_sensor(InstigatorStatus.RUNNING))
        assert changes()
        instance.update_instigator_state(
            state_of_sensor(InstigatorStatus.RUNNING, cursor="further")
        )
        assert not changes()


def state_of_sensor(status: InstigatorStatus, cursor: str = "") -> InstigatorState:
    repository = RemoteRepositoryOrigin(
        code_location_origin=RegisteredCodeLocationOrigin("tidelog"),
        repository_name="__repository__",
    )
    origin = RemoteInstigatorOrigin(repository, "conditions")
    return InstigatorState(
        origin, InstigatorType.SENSOR, status, SensorInstigatorData(cursor=cursor)
    )
