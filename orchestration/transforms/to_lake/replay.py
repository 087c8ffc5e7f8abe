"""A replay: reads committed records once more, and replaces the rows and dead letters they made.

Each piece is one commit of the table that replaces its rows and its dead letters together
(``dead_letters.table`` says how). A killed replay leaves each piece either replayed or as it was,
and may be run again. No checkpoint moves. A fixed record (``dead_letters.fixes``) is read with its
correction. Knows no Dagster.

If a range no longer yields a key, its replay cannot remove the row of that key. Only a replay of
everything can. The groups of a table of aggregates are computed anew (``rebuilding``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from orchestration.dead_letters.fixes import Fixes
from orchestration.dead_letters.table import DeadLetters, naming
from orchestration.lake.range_commits import overwrite_ranges
from orchestration.lake.schemas import conform
from orchestration.lake.tables import Lake, ranges_predicate
from orchestration.offsets.ranges import OffsetRanges
from orchestration.rows.uniqueness import TableKeys
from orchestration.rows.upserts import upsert
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay.pieces import read_held
from orchestration.transforms.replay.plan import ReplayPlan, ReplayRequest, held_of, plan
from orchestration.transforms.replay.steps import replaced_by, replanned, run_plan
from orchestration.transforms.run.context import RunContext, TopicRunResult
from orchestration.transforms.run.steps import (
    dead_letter_rows,
    letters_that_stay,
    origin_of,
    read_state,
)
from orchestration.transforms.to_lake.rebuilding import Rebuild
from orchestration.transforms.to_lake.run import checked_batch, decide_changes


@dataclass(frozen=True, slots=True)
class TableReplayer:
    """Replays into a table of the lake."""

    table: TopicTable
    context: RunContext

    @property
    def lake(self) -> Lake:
        """Return the lake."""
        return self.context.lake

    def plan(self, request: ReplayRequest, *, needed: ReplayRequest | None = None) -> ReplayPlan:
        """Return the offsets of ``request``.

        ``needed`` is a span of time. The plan is refused if no record of it is left.
        """
        return plan(self.table, self.context, request, needed=needed)

    def run(self, planned: ReplayPlan) -> Iterator[TopicRunResult]:
        """Replay the planned offsets."""
        return run_planned(self.table, self.context, planned)


def run_replay(
    table: TopicTable, context: RunContext, request: ReplayRequest
) -> Iterator[TopicRunResult]:
    """Replay the records of ``request`` and yield the result of each piece.

    If a check forbids the commit of a piece, that piece is the last.

    :raises ProgressError: a range was never committed or can no longer be read.
    :raises CommitConflictError: in every attempt another writer was faster.
    """
    yield from run_planned(table, context, plan(table, context, request))


def run_planned(
    table: TopicTable, context: RunContext, planned: ReplayPlan
) -> Iterator[TopicRunResult]:
    """Replay the planned offsets. Yield and raise as ``run_replay`` does."""
    if table.aggregates and not planned.ranges.is_empty:
        context.reporter.pin("replay", planned.ranges)
        yield Rebuild(table, context, planned.ranges.topic_id).run()
        return
    yield from run_plan(table, context, planned, _attempt)


def _attempt(
    table: TopicTable,
    context: RunContext,
    wanted: OffsetRanges,
    is_everything: bool,  # noqa: FBT001 - an Attempt
) -> TopicRunResult:
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
        origin = origin_of(table, context, state.topic_id)
        rejected = dead_letter_rows(origin, source, result.batch.rejections, context.now())
        staying = letters_that_stay(origin, context, source, ranges)
    finally:
        source.release()
    conform(
        result.batch.rows, table.name, state.snapshot.arrow_schema, is_evolving=table.is_evolving
    )
    changes = decide_changes(
        table, state, result.batch, log_starts={}, replaced=replaced_by(table, held, state, ranges)
    )
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
    return replace(
        result,
        kind="replay",
        version=committed.version,
        row_count=committed.row_count,
        letters=rejected,
        changes=changes,
    )
