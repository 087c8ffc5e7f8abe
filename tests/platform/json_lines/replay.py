"""A replay into a table of JSON lines: new rows of the records replace the old ones.

Files that hold rows of the range are written anew, as one file. One commit names it in their place
and moves no offset.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from orchestration.dead_letters.fixes import Fixes
from orchestration.dead_letters.table import DeadLetters, Origin, naming
from orchestration.lake.tables import Lake, replace_all
from orchestration.offsets.ranges import OffsetRanges
from orchestration.transforms.batch.batch import compute_batch
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay.pieces import read_held
from orchestration.transforms.replay.plan import ReplayPlan, ReplayRequest, held_of, plan
from orchestration.transforms.replay.steps import replanned, run_plan
from orchestration.transforms.run.context import RunContext, TopicRunResult
from orchestration.transforms.run.steps import (
    checked_result,
    dead_letter_rows,
    letters_that_stay,
    read_state,
)
from tests.platform.json_lines.run import JsonLines, Row, names_in, next_commit, table_of


@dataclass(frozen=True, slots=True)
class JsonLinesReplayer:
    """Replays into a table of JSON lines."""

    lines: JsonLines
    context: RunContext

    @property
    def lake(self) -> Lake:
        """Return the lake that holds the dead letters."""
        return self.context.lake

    def plan(self, request: ReplayRequest, *, needed: ReplayRequest | None = None) -> ReplayPlan:
        """Return the offsets of ``request``."""
        return plan(self.lines.follower, self.context, request, needed=needed)

    def run(self, planned: ReplayPlan) -> Iterator[TopicRunResult]:
        """Replay the planned offsets and yield the result of each piece."""
        return run_plan(self.lines.follower, self.context, planned, self._attempt)

    def _attempt(
        self, table: TopicTable, context: RunContext, wanted: OffsetRanges, is_everything: bool
    ) -> TopicRunResult:
        letters = DeadLetters(context.lake)
        letters_snapshot = letters.snapshot()
        state = read_state(table, context)
        held = held_of(table, context, state)
        ranges = replanned(table, held, state, wanted, is_everything=is_everything)
        assert state.snapshot is not None
        fixes = Fixes(context.lake).of(table.name, state.topic_id)
        source = read_held(table, context, held, ranges, fixes=fixes, is_whole=False)
        ranges = source.ranges
        try:
            forgiven = letters.places(table.name, state.topic_id)
            batch = compute_batch(context.session(), table, source, None, forgiven=forgiven)
            result = replace(checked_result(table, context, source, state, batch), kind="replay")
            if result.failures:
                return result
            origin = Origin(
                target=table.name,
                topic=table.topic.name,
                topic_id=state.topic_id,
                run_id=context.run_id,
            )
            rejected = dead_letter_rows(origin, source, batch.rejections, context.now())
            staying = letters_that_stay(origin, context, source, ranges)
        finally:
            source.release()
        letters_snapshot = letters.cleaned(letters_snapshot, origin, state.snapshot)
        attempt = letters.begin_replay(
            letters_snapshot, origin, ranges, pa.concat_tables([rejected, staying])
        )
        before = {name: self.lines.rows([name]) for name in names_in(state.snapshot)}
        after = {
            name: [row for row in rows if not is_of(ranges, row)] for name, rows in before.items()
        }
        untouched = [name for name in before if after[name] == before[name]]
        kept = [row for name in after.keys() - {*untouched} for row in after[name]]
        with self.lines.written(state.snapshot, [*kept, *batch.rows.to_pylist()]) as name:
            transactions = {**naming(state.topic_id, attempt), **next_commit(state.snapshot)}
            committed = replace_all(
                state.snapshot, table_of([*untouched, name]), transactions, {"replay": str(ranges)}
            )
        if attempt is not None:
            letters.settle_replay(origin, ranges, attempt)
        return replace(result, version=committed.version, letters=rejected)


def is_of(ranges: OffsetRanges, row: Row) -> bool:
    """Return whether ``row`` came from a record in ``ranges``."""
    return row["_topic_id"] == ranges.topic_id and any(
        row["_partition"] == one.partition and row["_offset"] in one for one in ranges
    )
