"""A run that follows its topic: one range after another for a bounded time, each planned, checked and committed like the only one of a run.

Why: around a batch that takes half a second of work, a run of Dagster's takes one and a half more (the daemon's tick, the code server, the
fork, some twenty events). A table without an interval between its runs would always be seconds behind a steady stream for it. So its run
looks again after each commit and goes on while records come. Only such a table's run follows: the topic sensor asks for it, when the
interval is zero. Every other run is one range, and both go through ``run_topic_table``.

Decides when a run goes on and when it ends. Nothing else differs: each range has its own checkpoint, dead letters, checks, commit and
materialization, one run at a time holds the table's pool, and a run that is killed leaves what any killed run leaves.
Invariants: a result is told (the caller has taken it) before the next range is planned; the first check that forbids a commit is the end.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.reading import ReadAhead
from orchestration.transforms.topic_run import RunContext, TopicRunResult, run_topic_table

IDLE_S = 10.0
"""How long a run waits for the next record before it ends: a run that waits holds a process and a Spark session."""
PACE_S = 0.5
"""How far apart two ranges begin at least where no backlog is left: more commits than that are small files and little else."""


class Range(Protocol):
    """What became of one range."""

    @property
    def failures(self) -> Sequence[str]:
        """What forbade the commit."""
        ...

    @property
    def backlog(self) -> int:
        """How many offsets were left for later ranges."""
        ...

    @property
    def awaited(self) -> Mapping[tuple[str, int], int]:
        """From where on a record would be new, by topic and partition."""
        ...


Ran = TypeVar("Ran", bound=Range)


def follow(
    table: TopicTable,
    context: RunContext,
    *,
    follow_s: float,
    run: Callable[[TopicTable, RunContext], TopicRunResult] = run_topic_table,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[TopicRunResult]:
    """Yield what became of each range; no further one begins after ``follow_s`` seconds, and with 0 there is one.

    ``run`` is what reads, checks and commits a range.

    :raises Exception: what ``run`` raises; what was yielded before is committed.
    """
    return follow_ranges(lambda several: run(table, several), context, follow_s=follow_s, now_s=now_s, sleep=sleep)


def follow_ranges(
    run: Callable[[RunContext], Ran],
    context: RunContext,
    *,
    follow_s: float,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Ran]:
    """Yield as ``follow`` does, whatever ``run`` reads and commits."""
    until_s = now_s() + follow_s
    with ReadAhead() as ahead:
        several = replace(context, ahead=ahead if follow_s > 0 else None)
        while True:
            began_s = now_s()
            result = run(several)
            yield result
            left_s = until_s - now_s()
            if result.failures or left_s <= 0 or not _is_more_coming(context, result, min(left_s, IDLE_S)):
                return
            if result.backlog == 0:
                sleep(max(began_s + PACE_S - now_s(), 0.0))


def _is_more_coming(context: RunContext, result: Range, wait_s: float) -> bool:
    """Wait for a record beyond what was committed."""
    return bool(context.log.wait_for_records(result.awaited, max(int(wait_s * 1000), 1)))
