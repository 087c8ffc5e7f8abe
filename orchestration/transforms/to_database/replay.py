"""A replay into a table of a database: new rows of the records replace the old ones.

The rows are replaced in one transaction of the database that moves no offset. It names the dead
letters that count from then on, as a run's commit does. The writer is opened first, so that no
older run commits meanwhile. A killed replay has replaced some pieces whole and the others not at
all. A table with a key is replayed in one piece, because only the whole range says which row is
newest (``transforms.replay.steps``). Knows no Dagster.
Invariant: afterwards the table has the rows of the records before its offsets, each once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from orchestration.dead_letters.fixes import Fixes
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.offsets.ranges import OffsetRanges
from orchestration.transforms.batch.batch import compute_batch
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay.pieces import read_held
from orchestration.transforms.replay.plan import ReplayPlan, ReplayRequest, held_of, plan
from orchestration.transforms.replay.steps import replaced_by, replanned, run_plan
from orchestration.transforms.run.context import RunContext, TopicRunResult, TopicState
from orchestration.transforms.run.steps import (
    checked_result,
    dead_letter_rows,
    letters_that_stay,
    origin_of,
    topic_state,
)
from orchestration.transforms.to_database.run import Storing
from orchestration.transforms.to_database.stores import Batch


@dataclass(frozen=True, slots=True)
class DatabaseReplayer:
    """Replays into a table of a database."""

    work: Storing
    context: RunContext

    @property
    def lake(self) -> Lake:
        """Return the lake that holds the dead letters."""
        return self.context.lake

    @property
    def table(self) -> TopicTable:
        """Return the declaration of the table as one that follows a topic."""
        return self.work.declared.follower

    def plan(self, request: ReplayRequest, *, needed: ReplayRequest | None = None) -> ReplayPlan:
        """Return the offsets of ``request``. The ledger says which offsets are committed.

        ``needed`` is a span of time. The plan is refused if no record of it is left.
        """
        return plan(self.table, self.context, request, needed=needed, read=_by_ledger)

    def run(self, planned: ReplayPlan) -> Iterator[TopicRunResult]:
        """Replay the planned offsets and yield the result of each piece.

        If a check forbids the commit of a piece, that piece is the last.

        :raises StoreError: the database refuses.
        :raises ProgressError, CommitConflictError: as for a table of the lake.
        """
        return run_plan(self.table, self.context, planned, attempt=self._attempt)

    def _attempt(
        self,
        table: TopicTable,
        context: RunContext,
        wanted: OffsetRanges,
        is_everything: bool,  # noqa: FBT001
    ) -> TopicRunResult:
        letters = DeadLetters(context.lake)
        letters_snapshot = letters.snapshot()
        with self.work.attempt(table, context) as attempt:
            account, progress, state = attempt.start()
            held = held_of(table, context, state)
            ranges = replanned(table, held, state, wanted, is_everything=is_everything)
            fixes = Fixes(context.lake).of(table.name, state.topic_id)
            source = read_held(
                table, context, held, ranges, fixes=fixes, is_whole=bool(table.latest_by)
            )
            ranges = source.ranges
            try:
                forgiven = letters.places(table.name, state.topic_id)
                computed = attempt.storable(
                    compute_batch(context.session(), table, source, None, forgiven=forgiven)
                )
                result = checked_result(table, context, source, state, computed)
                if result.failures:
                    return replace(result, kind="replay")
                origin = origin_of(table, context, state.topic_id)
                rejected = dead_letter_rows(origin, source, computed.rejections, context.now())
                staying = letters_that_stay(origin, context, source, ranges)
            finally:
                source.release()
            changes, keys = attempt.changes(
                computed, state, log_starts={}, replaced=replaced_by(table, held, state, ranges)
            )
            cleaned = letters.cleaned(letters_snapshot, origin, account)
            number = letters.begin_replay(
                cleaned, origin, ranges, pa.concat_tables([rejected, staying])
            )
            batch = Batch(
                ranges=ranges,
                leader_epochs={},
                letters=progress.letters if number is None else number,
                run_id=context.run_id,
                at=context.now(),
                rows=computed.rows if changes is None else changes.rows,
                changes=changes,
                keys=keys,
                is_replay=True,
            )
            account = attempt.commit(batch, progress)
        if number is not None:
            letters.settle_replay(origin, ranges, number)
        sent = {"target": self.work.store.place, "rows_written": batch.rows.num_rows}
        return replace(
            result,
            kind="replay",
            version=account.version,
            letters=rejected,
            changes=changes,
            sent=sent,
        )


def _by_ledger(table: TopicTable, context: RunContext) -> TopicState:
    return topic_state(table.topic.name, context, context.lake.snapshot(table.name))
