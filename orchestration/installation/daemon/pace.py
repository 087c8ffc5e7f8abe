"""Sets the pauses of the daemon's loops: short after an event, long while nothing happens.

Each loop of Dagster's daemon pauses by waiting for the daemon's end, for a maximum number of
seconds. Here ``paced`` gives each loop another object to wait for, so that its pause is as long as
possible. Knows only the parts of Dagster that are passed to it. Invariants: no pause is longer than
the loop's own when something may have happened. The daemon's end ends every pause at once.
"""

import math
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from dagster._core.storage.event_log.schema import DynamicPartitionsTable
from dagster._core.storage.schedules.schema import InstigatorsTable
from sqlalchemy import func, select

SENSOR, ASSET, EVENTS = "SENSOR", "ASSET", "EVENT_LOG_CONSUMER"
STEPPING = frozenset({"MONITORING", "FRESHNESS_DAEMON"})
"""Loops of Dagster's that pause in steps of half a second."""
STEP_S = 5.0
SETTLES_S = 60.0
"""The time after an event in which conditions are evaluated at Dagster's own pace.

It is needed because the result of a condition may depend on its earlier result.
"""
LONGEST_S = 60.0
"""The longest pause of a loop that waits for an event. Cron schedules are due at full minutes."""
INTERVALS_S = 35.0
"""Time after a look in which the loop keeps its own pace, if a full minute passed meanwhile.

A sensor that ticked at that look may have missed that minute. Dagster's own sensor of conditions
ticks every 30 s.
"""
RUN_STATUS = "RUN_STATUS"
"""The type of sensors for runs. Such a sensor sees events that came after its cursor."""
RESTS_S = 60.0
"""The interval of such a sensor's ticks while nothing happens."""
EARLY_S = 0.05
"""The delay of a look after a sensor's interval.

Dagster counts the interval from a slightly later moment, and a look before its end would do
nothing.
"""
WITHOUT_THREADS_S = 0.5
"""The longest pause of a loop of sensors whose ticks run in the loop itself.

No tick can end that pause.
"""


class Pause(Protocol):
    """The object that a loop waits for. In Dagster it is the event of the daemon's end.

    It has all methods that Dagster's loops use of a ``threading.Event``.
    """

    def is_set(self) -> bool:
        """Return whether the daemon is to end."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Pause for about ``timeout`` seconds, and return whether the daemon is to end.

        An implementation may end the pause earlier, or extend it while nothing happens.
        """
        ...


class Bounded:
    """A pause with a lower and an upper limit, whatever timeout the loop passes."""

    def __init__(
        self, ended: Pause, *, shortest_s: float = 0.0, longest_s: float = math.inf
    ) -> None:
        self._ended = ended
        self._shortest_s, self._longest_s = shortest_s, longest_s

    def is_set(self) -> bool:
        """Return whether the daemon is to end."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Pause, and return whether the daemon is to end."""
        seconds = min(
            max(math.inf if timeout is None else timeout, self._shortest_s), self._longest_s
        )
        return self._ended.wait(None if seconds == math.inf else seconds)


class Quiet:
    """A pause that lasts until something has happened.

    ``seen`` returns another value after every event that may matter. It is called after each
    interval of the length that the loop passes. A call that fails counts as a change.
    """

    def __init__(
        self, ended: Pause, seen: Callable[[], Hashable], now_s: Callable[[], float] = time.time
    ) -> None:
        self._ended = ended
        self._look = seen
        self._now_s = now_s
        self._seen: Hashable = None
        self._changed_s = self._looked_s = now_s()

    def is_set(self) -> bool:
        """Return whether the daemon is to end."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Pause, and return whether the daemon is to end.

        The pause has the loop's own length if a full minute has passed since the last pause, or if
        the clock was put back.
        """
        pause_s = LONGEST_S if timeout is None else timeout
        began_s = self._now_s()
        until_s = (math.floor(self._looked_s / LONGEST_S) + 1) * LONGEST_S
        while not self._ended.wait(
            min(pause_s, until_s - self._now_s()) if self._is_awaited(until_s, began_s) else pause_s
        ):
            if (
                self._has_changed()
                or self._now_s() < self._changed_s + SETTLES_S
                or not self._is_awaited(until_s, began_s)
            ):
                if not until_s <= self._now_s() < self._looked_s + INTERVALS_S:
                    self._looked_s = self._now_s()
                return False
            pause_s = max(pause_s, STEP_S)  # a loop that took its time asks for none
        return True

    def _is_awaited(self, until_s: float, began_s: float) -> bool:
        return max(self._looked_s, began_s) <= self._now_s() < until_s

    def _has_changed(self) -> bool:
        try:
            seen = self._look()
        except Exception:  # noqa: BLE001 - the loop that looks next says what is wrong with the storage
            return True
        if seen == self._seen:
            return False
        self._seen, self._changed_s = seen, self._now_s()
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The state of the instance at the last tick of a run status sensor.

    ``seen`` is the newest event and the sensor's cursor. Both have been unchanged since
    ``since_s``. ``ticked_s`` is the time of the tick.
    """

    seen: Hashable
    since_s: float
    ticked_s: float


class Resting:
    """Decides which ticks of run status sensors are skipped, because there is no event to handle.

    A tick is skipped if neither ``newest_event`` nor the sensor's cursor has changed for
    ``SETTLES_S``, except for one tick each ``RESTS_S``. ``newest_event`` returns another value
    after every event, and no tick is skipped while it fails. ``SETTLES_S`` is needed because a
    database may show an event later than one with a higher number. The cursor counts because a tick
    that cannot handle all events moves it, and the next tick has to follow.
    """

    def __init__(
        self, newest_event: Callable[[], Hashable], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._newest_event = newest_event
        self._now_s = now_s
        self._sights: dict[str, Sight] = {}

    def rests(self, _context: object, _logger: object, sensor: Any, state: Any, *_: object) -> bool:
        """Return whether ``sensor`` is a run status sensor whose tick would find no event.

        The arguments are those of Dagster's function that makes a tick.
        """
        if sensor.sensor_type.value != RUN_STATUS:
            return False
        now_s = self._now_s()
        try:
            seen = self._newest_event(), state.instigator_data.cursor
        except Exception:  # noqa: BLE001 - the tick says what is wrong with the storage
            return False
        before = self._sights.get(sensor.selector_id)
        since_s = now_s if before is None or before.seen != seen else before.since_s
        if (
            before is not None
            and now_s >= since_s + SETTLES_S
            and now_s < before.ticked_s + RESTS_S
        ):
            return True
        self._sights[sensor.selector_id] = Sight(seen=seen, since_s=since_s, ticked_s=now_s)
        return False


class Turns:
    """A pause that ends when a sensor may tick again.

    Dagster's loop calls ``due`` with a sensor's interval before each tick, and ``submit`` to start
    the tick. ``submit`` notices the end of the tick. It starts none if ``rests`` returns True.
    """

    def __init__(
        self,
        ended: Pause,
        executor: Any,
        rests: Callable[..., bool] = lambda *_: False,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ended = ended
        self._executor = executor
        self._rests = rests
        self._now_s = now_s
        self._changed = threading.Condition()
        self._turns: list[float] = []
        self._interval_s = 0.0
        threading.Thread(target=self._await_end, name="end-of-sensor-loop", daemon=True).start()

    def due(self, _sensor: object, _elapsed_s: float | None, interval_s: int | None) -> None:
        """Note the interval of the sensor whose tick is submitted next, in seconds."""
        self._interval_s = float(interval_s or 0)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Start a tick in a thread. End the pause when its sensor may tick again after it."""
        if self._rests(*arguments):
            nothing: Future[Any] = Future()
            nothing.set_result(None)
            return nothing
        began_s, interval_s = self._now_s(), self._interval_s

        def tick() -> Any:
            nonlocal began_s
            began_s = self._now_s()
            return function(*arguments)

        future: Future[Any] = self._executor.submit(tick)
        future.add_done_callback(lambda _: self._look_at(began_s + interval_s + EARLY_S))
        return future

    def is_set(self) -> bool:
        """Return whether the daemon is to end."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Pause until a sensor may tick again, and return whether the daemon is to end.

        The pause lasts ``timeout`` seconds at most.
        """
        until_s = math.inf if timeout is None else self._now_s() + timeout
        with self._changed:
            while not self._ended.is_set():
                left_s = min([until_s, *self._turns]) - self._now_s()
                if left_s <= 0:
                    break
                self._changed.wait(min(left_s, threading.TIMEOUT_MAX))
            now_s = self._now_s()
            self._turns = [turn_s for turn_s in self._turns if turn_s > now_s]
        return self._ended.is_set()

    def _look_at(self, turn_s: float) -> None:
        with self._changed:
            self._turns.append(turn_s)
            self._changed.notify()

    def _await_end(self) -> None:
        self._ended.wait()
        with self._changed:
            self._changed.notify()


def paced(daemon: Any, context: Any, ended: Pause) -> Pause:
    """Return the object that a loop of Dagster's waits for in place of ``ended``, the daemon's end.

    From then on this module notices the ticks of the loop's sensors. ``daemon`` is the loop, and
    ``context`` is Dagster's process context, with the instance and the loaded project.

    - The loop of sensors looks for due sensors as soon as a tick has ended and its sensor may tick
      again (``Turns``). So a tick that waits for records is followed by the next one at once.
      Polling twice a second for that would take a quarter of an idle daemon's work.
    - The loop of automation conditions asks at Dagster's pace for the newest event, the sensors
      that are turned on, and the number of dynamic partitions (``Quiet``). Conditions depend on
      these, on the project and on the time of day. So they are evaluated while one of them changes
      and for ``SETTLES_S`` after that, after each load of the project, and at every full minute,
      when a cron schedule may be due.
    - A run status sensor makes no tick while no event has happened since it has handled all, except
      for one each ``RESTS_S`` (``Resting``).
    - Loops that act every few seconds check every ``STEP_S`` whether they are due, not twice a
      second (``Bounded``). The loop that restarts killed runs does so after an event, and at every
      full minute.
    """
    kind = daemon.daemon_type()
    if kind == SENSOR:
        if daemon._threadpool_executor is None:  # noqa: SLF001 - which threads make ticks: Dagster tells it nowhere else
            return Bounded(ended, longest_s=WITHOUT_THREADS_S)
        turns = Turns(
            ended,
            daemon._threadpool_executor,  # noqa: SLF001 - which threads make ticks: Dagster tells it nowhere else
            Resting(lambda: newest_event(context)).rests,
        )
        daemon._threadpool_executor = turns  # noqa: SLF001
        daemon.instrument_elapsed = turns.due
        return turns
    if kind == ASSET:
        return Quiet(ended, lambda: newest(context))
    if kind == EVENTS:
        return Quiet(Bounded(ended, shortest_s=STEP_S), lambda: newest_event(context))
    return Bounded(ended, shortest_s=STEP_S) if kind in STEPPING else ended


def newest_event(context: Any) -> Hashable:
    """Return the number of the instance's newest event."""
    number: Hashable = context.instance.event_log_storage.get_maximum_record_id()
    return number


def newest(context: Any) -> Hashable:
    """Return a value that changes with everything that conditions depend on, except the time.

    Changes are events, loads of the project, and a person's changes of sensors and partitions.
    """
    locations = context.create_request_context().get_code_location_entries()
    loads = tuple((name, entry.version_key) for name, entry in sorted(locations.items()))
    return newest_event(context), loads, turned_on(context), dynamic_partitions(context)


def turned_on(context: Any) -> Hashable:
    """Return the status of each sensor and schedule of the instance, on or off.

    It is read because no event reports that a person changed it.
    """
    columns = InstigatorsTable.c
    with context.instance.schedule_storage.connect() as connection:
        states = select(columns.selector_id, columns.status).order_by(columns.selector_id)
        return tuple(tuple(row) for row in connection.execute(states))


def dynamic_partitions(context: Any) -> Hashable:
    """Return the number of the newest dynamic partition, and the count of all.

    They are read because no event reports partitions that other programs add.
    """
    number = DynamicPartitionsTable.c.id
    with context.instance.event_log_storage.index_connection() as connection:
        return tuple(connection.execute(select(func.max(number), func.count(number))).one())
