"""Decides for which tables runs start, as a pure function.

The decision is based on the tables themselves and on Dagster's runs, not on a cursor, so nothing is
forgotten when a sensor's state is lost or a run is killed. It knows no clock and no broker.
Invariants: at most one run of a table is in flight. Two starts of a table are at least its interval
apart, more after failed runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

FIRST_BACKOFF_S = 10.0
LAST_BACKOFF_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state of a table that follows a topic.

    ``pending`` counts offsets that a run could read. ``is_announced`` is False if the table holds a
    commit without a materialization. ``is_misplaced`` is True if a checkpoint is outside the log,
    which a run has to report. ``is_upkeep_due`` is True if a run has work to do without new
    records, such as offsets that the cluster would forget, or files that are no longer kept.
    ``failures`` counts the newest runs that failed in a row.
    """

    table: str
    pending: int
    is_announced: bool = True
    is_misplaced: bool = False
    is_upkeep_due: bool = False
    is_running: bool = False
    last_start_s: float | None = None
    failures: int = 0
    minimum_interval_s: float = 0.0

    @property
    def is_wanting(self) -> bool:
        """Whether a run would have something to do."""
        return self.pending > 0 or not self.is_announced or self.is_misplaced or self.is_upkeep_due

    @property
    def due_s(self) -> float:
        """The time from which the next run may start."""
        return next_start_s(self.last_start_s, self.minimum_interval_s, self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDecision:
    """The tables to start now, the tables whose run is in flight, and those that are due later."""

    start: tuple[str, ...]
    in_flight: tuple[str, ...]
    waiting: tuple[TableState, ...] = ()

    @property
    def next_due_s(self) -> float | None:
        """The time at which the first of the waiting tables is due."""
        return min((one.due_s for one in self.waiting), default=None)

    @property
    def is_anything_wanting(self) -> bool:
        """Whether a run of any table has, or would have, something to do."""
        return bool(self.start or self.in_flight) or self.next_due_s is not None


def decide_runs(tables: Iterable[TableState], now_s: float) -> RunDecision:
    """Return which tables get a run at ``now_s``, which have one, and which have to wait."""
    start, in_flight, waiting = [], [], []
    for one in tables:
        if not one.is_wanting:
            continue
        if one.is_running:
            in_flight.append(one.table)
        elif one.due_s <= now_s:
            start.append(one.table)
        else:
            waiting.append(one)
    return RunDecision(start=tuple(start), in_flight=tuple(in_flight), waiting=tuple(waiting))


def next_start_s(last_start_s: float | None, minimum_interval_s: float, failures: int) -> float:
    """Return the time from which the next run may start after ``failures`` failures in a row."""
    return (
        0.0 if last_start_s is None else last_start_s + max(minimum_interval_s, backoff_s(failures))
    )


def backoff_s(failures: int) -> float:
    """Return the pause in seconds of a table after ``failures`` failures in a row.

    It is ten seconds, doubled by each failure up to five minutes.

    >>> [backoff_s(count) for count in (0, 1, 2, 9)]
    [0.0, 10.0, 20.0, 300.0]
    """
    return (
        min(FIRST_BACKOFF_S * 2 ** min(failures - 1, 30), LAST_BACKOFF_S) if failures > 0 else 0.0
    )
