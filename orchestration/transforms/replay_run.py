"""A replay: read committed records once more, and replace the rows and dead letters they made.

Replays the offsets of a ``replay_plan`` piece by piece. A piece has at most as many records as a
run of the table reads. Each piece is one commit of the table that replaces its rows and its dead
letters together (``orchestration.dead_letters`` says how). A killed replay leaves each piece either
replayed or as it was, and may be run again. No checkpoint moves. A fixed record
(``orchestration.fixes``) is read with its correction. Knows no Dagster.

A table that keeps the newest row of each key is replayed in one piece. The table does not hold
replaced rows, so only the whole range says which row is newest. If the range no longer gives a key
the row that it gave before, only a replay of everything can tell. The groups of a table of
aggregates are made anew (``rebuilding``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from orchestration.checkpoints import plan_replay
from orchestration.dead_letters import DeadLetters, Origin, naming
from orchestration.fixes import Fixes
from orchestration.held_records import HeldTopic
from orchestration.latest import Replaced
from orchestration.offsets import OffsetRanges
from orchestration.schemas import conform
from orchestration.tables import overwrite_ranges, ranges_predicate
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.rebuilding import Rebuild
from orchestration.transforms.replay_pieces import pieces, read_held, rest_of
from orchestration.transforms.replay_plan import ReplayPlan, ReplayRequest, everything_of, held_of, plan, readable_by, told_of_records
from orchestration.transforms.topic_run import (
    RunContext,
    TopicRunResult,
    TopicState,
    attempted,
    checked_batch,
    dead_letter_rows,
    decide_changes,
    letters_that_stay,
    read_state,
)
from orchestration.uniqueness import TableKeys
from orchestration.upserts import upsert


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
        if result.version is not None and result.batch is not None and result.statistics is not None:
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
            "offsets": " ".join(f"{one.topic} {one}" if is_of_several else str(one) for one in self.ranges) or "none",
            **told_of_records(self.lost, self.archived_count),
        }


def run_replay(table: TopicTable, context: RunContext, request: ReplayRequest) -> Iterator[TopicRunResult]:
    """Replay the records of ``request`` and yield the result of each piece.

    The first piece that may not be committed is the last.

    :raises ProgressError: a range was never committed or can be read no more.
    :raises CommitConflictError: rivals were always faster.
    """
    yield from run_plan(table, context, plan(table, context, request))


def run_plan(table: TopicTable, context: RunContext, planned: ReplayPlan, *, attempt: "Attempt | None" = None) -> Iterator[TopicRunResult]:
    """Replay the planned offsets.

    Yield and raise as ``run_replay`` does. ``attempt`` replays into another target than the lake's
    table.
    """
    if planned.ranges.is_empty:
        context.reporter.note(f"there is nothing to replay for the table {table.name}")
        yield TopicRunResult(kind="replay", state=planned.state, ranges=planned.ranges, version=None)
        return
    context.reporter.pin("replay", planned.ranges)
    if table.aggregates:
        yield Rebuild(table, context, planned.ranges.topic_id).run()
        return
    limit = table.records_per_run or context.records_per_run
    for piece in [planned.ranges] if table.latest_by else pieces(planned.ranges, limit):
        is_everything, left = planned.is_everything and bool(table.latest_by), piece
        while not left.is_empty:
            result = attempted(context, partial(attempt or _attempt, table, context, left, is_everything))
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


def replanned(table: TopicTable, held: HeldTopic, state: TopicState, wanted: OffsetRanges, *, is_everything: bool) -> OffsetRanges:
    """Return the offsets of a piece by the present state of log, archive and table.

    :raises ProgressError: they can be read no more.
    :raises NotReadyError: table or topic were made anew.
    """
    if state.snapshot is None or state.topic_id != wanted.topic_id:
        raise NotReadyError(f"the table {table.name} or its topic {table.topic.name} was made anew while it was replayed")
    readable = readable_by(table, held, state, is_everything=is_everything)
    return plan_replay(
        topic=wanted.topic,
        topic_id=wanted.topic_id,
        wanted=everything_of(readable, state.committed) if is_everything else wanted,
        held=readable,
        committed=state.committed,
    )


def replaced_by(table: TopicTable, held: HeldTopic, state: TopicState, ranges: OffsetRanges) -> Replaced:
    """Return the rows that a replay of ``ranges`` replaces."""
    is_whole = bool(table.latest_by) and list(ranges) == everything_of(held.tails, state.committed)
    return Replaced(ranges=ranges, is_whole=is_whole)


def _attempt(table: TopicTable, context: RunContext, wanted: OffsetRanges, is_everything: bool) -> TopicRunResult:  # noqa: FBT001 - an Attempt
    letters = DeadLetters(context.lake)
    letters_snapshot = letters.snapshot()
    state = read_state(table, context)
    held = held_of(table, context, state)
    ranges = replanned(table, held, state, wanted, is_everything=is_everything)
    assert state.snapshot is not None
    fixes = Fixes(context.lake).of(table.name, state.topic_id)
    source = read_held(table, context, held, ranges, fixes=fixes, is_whole=bool(table.latest_by))
    ranges = source.ranges
    try:
        existing = TableKeys(snapshot=state.snapshot, without=ranges_predicate(ranges))
        forgiven = DeadLetters(context.lake).places(table.name, state.topic_id)
        result = checked_batch(table, context, source, state, existing, forgiven=forgiven)
        if result.failures:
            return replace(result, kind="replay")
        assert result.batch is not None
        origin = Origin(target=table.name, topic=table.topic.name, topic_id=state.topic_id, run_id=context.run_id)
        rejected = dead_letter_rows(origin, source, result.batch.rejections, context.now())
        staying = letters_that_stay(origin, context, source, ranges)
    finally:
        source.release()
    conform(result.batch.rows, table.name, state.snapshot.arrow_schema, is_evolving=table.is_evolving)
    changes = decide_changes(table, state, result.batch, log_starts={}, replaced=replaced_by(table, held, state, ranges))
    cleaned = letters.cleaned(letters_snapshot, origin, state.snapshot)
    attempt = letters.begin_replay(cleaned, origin, ranges, pa.concat_tables([rejected, staying]))
    named = naming(state.topic_id, attempt)
    if changes is None:
        committed = overwrite_ranges(
            state.snapshot,
            result.batch.rows,
            ranges,
            is_evolving=table.is_evolving,
            notes={"run_id": context.run_id},
            transactions=named,
        )
    else:
        committed = upsert(
            state.snapshot,
            changes,
            is_evolving=table.is_evolving,
            notes={"replay": str(ranges), "topic": ranges.topic, "run_id": context.run_id},
            transactions=named,
        )
    if attempt is not None:
        letters.settle_replay(origin, ranges, attempt)
    return replace(result, kind="replay", version=committed.version, row_count=committed.row_count, letters=rejected, changes=changes)
