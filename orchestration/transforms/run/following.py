"""A run that follows its topic: one range after another for a bounded time.

The reason is the cost of a run. A batch may take half a second of work, and a Dagster run takes one
and a half seconds more (the daemon's tick, the code server, the fork, some twenty events). With one
range per run, a table without an interval between its runs would always be seconds behind a steady
stream. So its run looks again after each commit and continues while records come. Only the run of
such a table follows its topic. The topic sensor requests this when the interval is zero. Every
other run is one range.

Decides when a run continues and when it ends. Each range has its own plan, checkpoint, dead
letters, checks, commit and materialization, like the only range of a run. One run at a time holds
the table's pool. A killed run leaves the same state as any killed run.
Invariants: the caller has taken a result before the next range is planned. The first check that
forbids a commit ends the run.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from orchestration.transforms.batch.reading import ReadAhead
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.run.context import RunContext, TopicRunResult

IDLE_S = 10.0
"""Longest wait for the next record.

It is short because a waiting run holds a process and a session.
"""
PACE_S = 0.5
"""Shortest time between the beginnings of two ranges without a backlog.

It avoids many small files.
"""


class Range(Protocol):
    """The result of one range."""

    @property
    def failures(self) -> Sequence[str]:
        """Return the reasons that forbade the commit, if any."""
        ...

    @property
    def backlog(self) -> int:
        """Return how many offsets were left for later ranges."""
        ...

    @property
    def awaited(self) -> Mapping[tuple[str, int], int]:
        """Return, by topic and partition, the offset at which the next new record would be."""
        ...


Ran = TypeVar("Ran", bound=Range)


def follow(
    table: TopicTable,
    context: RunContext,
    *,
    follow_s: float,
    run: Callable[[TopicTable, RunContext], TopicRunResult],
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[TopicRunResult]:
    """Read range after range, and yield the result of each.

    No range begins after ``follow_s`` seconds. If that is 0, there is one range. ``run`` reads,
    checks and commits a range.

    :raises Exception: ``run`` raised it. The results yielded before are committed.
    """
    return follow_ranges(
        lambda several: run(table, several), context, follow_s=follow_s, now_s=now_s, sleep=sleep
    )


def follow_ranges(
    run: Callable[[RunContext], Ran],
    context: RunContext,
    *,
    follow_s: float,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Ran]:
    """Yield the results of ``run``, range by range, as ``follow`` does for a table."""
    until_s = now_s() + follow_s
    with ReadAhead() as ahead:
        several = replace(context, ahead=ahead if follow_s > 0 else None)
        while True:
            began_s = now_s()
            result = run(several)
            yield result
            left_s = until_s - now_s()
            if (
                result.failures
                or left_s <= 0
                or not _is_more_coming(context, result, min(left_s, IDLE_S))
            ):
                return
            if result.backlog == 0:
                sleep(max(began_s + PACE_S - now_s(), 0.0))


def _is_more_coming(context: RunContext, result: Range, wait_s: float) -> bool:
    """Wait for a record beyond the committed ones, and return whether one came."""
    return bool(context.log.wait_for_records(result.awaited, max(int(wait_s * 1000), 1)))
