"""Replays a plan piece by piece, into a table of any kind.

A piece has at most as many records as a run of the table reads. A table that keeps the newest row
of each key is replayed in one piece. Such a table lacks the older rows of a key, so only the whole
range says which row is newest. Knows no Dagster.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from orchestration.lake.tables import Lake
from orchestration.offsets.planning import plan_replay
from orchestration.offsets.ranges import OffsetRanges
from orchestration.retained.readable_records import HeldTopic
from orchestration.rows.latest import Replaced
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.replay.pieces import pieces, rest_of
from orchestration.transforms.replay.plan import (
    ReplayPlan,
    ReplayRequest,
    everything_of,
    readable_by,
    record_counts,
)
from orchestration.transforms.run.context import RunContext, TopicRunResult, TopicState
from orchestration.transforms.run.steps import attempted


@dataclass(slots=True)
class Replayed:
    """The totals of a replay."""

    ranges: list[OffsetRanges] = field(default_factory=list)
    records: int = 0
    rows: int = 0
    dead_letters: int = 0
    commits: int = 0
    lost: str = ""
    """Describes the records of the span of time that neither log nor archive holds."""
    archived_count: int = 0
    """Counts the offsets that were to be read from the archive."""

    def add(self, result: TopicRunResult) -> None:
        """Count a piece that was committed."""
        if (
            result.version is not None
            and result.batch is not None
            and result.statistics is not None
        ):
            self.ranges.append(result.ranges)
            self.records += result.statistics.records
            self.rows += result.batch.rows.num_rows
            self.dead_letters += len(result.batch.rejections)
            self.commits += 1

    def metadata(self) -> dict[str, str | int]:
        """Return the totals as labelled metadata."""
        is_of_several = len({one.topic for one in self.ranges}) > 1
        return {
            "rows": self.rows,
            "records": self.records,
            "dead_letters": self.dead_letters,
            "commits": self.commits,
            "offsets": (
                " ".join(f"{one.topic} {one}" if is_of_several else str(one) for one in self.ranges)
                or "none"
            ),
            **record_counts(self.lost, self.archived_count),
        }


class ReplayRefusedError(RuntimeError):
    """A check forbids the commit of a piece. Pieces that were committed before stay replayed."""


def counted(name: str, replayed: Replayed, results: Iterable[TopicRunResult]) -> Replayed:
    """Add the counts of each piece to ``replayed`` and return it.

    :raises ReplayRefusedError: a check forbids the commit of a piece.
    """
    for result in results:
        if result.failures:
            raise ReplayRefusedError(
                f"{name}, offsets {result.ranges}: {'; '.join(result.failures)}"
            )
        replayed.add(result)
    return replayed


def run_plan(
    table: TopicTable, context: RunContext, planned: ReplayPlan, attempt: "Attempt"
) -> Iterator[TopicRunResult]:
    """Replay the planned offsets by ``attempt``, and yield the result of each piece.

    If a check forbids the commit of a piece, that piece is the last.

    :raises ProgressError: a range can no longer be read.
    :raises CommitConflictError: in every attempt another writer was faster.
    """
    if planned.ranges.is_empty:
        context.reporter.note(f"there is nothing to replay for the table {table.name}")
        yield TopicRunResult(
            kind="replay", state=planned.state, ranges=planned.ranges, version=None
        )
        return
    context.reporter.pin("replay", planned.ranges)
    limit = table.records_per_run or context.records_per_run
    for piece in [planned.ranges] if table.latest_by else pieces(planned.ranges, limit):
        is_everything, left = planned.is_everything and bool(table.latest_by), piece
        while not left.is_empty:
            result = attempted(context, partial(attempt, table, context, left, is_everything))
            yield result
            if result.failures:
                return
            if table.latest_by:  # replayed whole, except for removed records
                break
            left = rest_of(left, result.ranges)


Attempt = Callable[[TopicTable, RunContext, OffsetRanges, bool], TopicRunResult]
"""Replays one piece, as far as the limits of a run allow.

The ranges of the result say how far. The last argument says whether everything is replayed,
including records that were committed meanwhile.
"""


def replanned(
    table: TopicTable,
    held: HeldTopic,
    state: TopicState,
    wanted: OffsetRanges,
    *,
    is_everything: bool,
) -> OffsetRanges:
    """Plan the offsets of a piece again, by the present state of log, archive and table.

    :raises ProgressError: the offsets can no longer be read.
    :raises NotReadyError: table or topic were created anew.
    """
    if state.snapshot is None or state.topic_id != wanted.topic_id:
        raise NotReadyError(
            f"the table {table.name} or its topic {table.topic.name} was made anew while it was"
            " replayed"
        )
    readable = readable_by(table, held, state, is_everything=is_everything)
    return plan_replay(
        topic=wanted.topic,
        topic_id=wanted.topic_id,
        wanted=everything_of(readable, state.committed) if is_everything else wanted,
        held=readable,
        committed=state.committed,
    )


def replaced_by(
    table: TopicTable, held: HeldTopic, state: TopicState, ranges: OffsetRanges
) -> Replaced:
    """Return ``ranges``, and whether they are all that a table with ``latest_by`` can replay."""
    is_whole = bool(table.latest_by) and list(ranges) == everything_of(held.tails, state.committed)
    return Replaced(ranges=ranges, is_whole=is_whole)


class Replayer(Protocol):
    """Replays records into one table."""

    @property
    def lake(self) -> Lake:
        """Return the lake that holds the dead letters."""
        ...

    def plan(self, request: ReplayRequest, *, needed: ReplayRequest | None = None) -> ReplayPlan:
        """Return the offsets of ``request``.

        ``needed`` is a span of time. The plan is refused if no record of it is left.
        """
        ...

    def run(self, planned: ReplayPlan) -> Iterator[TopicRunResult]:
        """Replay the planned offsets and yield the result of each piece."""
        ...


def replayed_by(replayer: Replayer, name: str, request: ReplayRequest) -> Replayed:
    """Replay the records of ``request`` into the table ``name``, and return the totals.

    :raises ReplayRefusedError: a check forbids the commit of a piece.
    """
    planned = replayer.plan(request)
    return counted(
        name,
        Replayed(lost=planned.lost, archived_count=planned.archived_count),
        replayer.run(planned),
    )
