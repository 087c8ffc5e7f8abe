"""One run of a table that follows a topic: plan, read, compute, check, and commit.

Decides the order that keeps a run exact when it is killed at any moment. The dead-letter snapshot
is loaded before the checkpoint is read. The dead letters are committed before the table. Only the
table's commit, of rows and offsets, moves the checkpoint. If another run commits meanwhile, the
whole attempt starts again. Knows no Dagster: sentences for a person go to ``Reporter``.
Invariant: after any number of runs and kills each record of a committed range is either in the
table or among its committed dead letters.
"""

from collections.abc import Mapping

import pyarrow as pa

from orchestration.dead_letters.table import DeadLetters, naming
from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.schemas import conform
from orchestration.lake.tables import CommitConflictError, TableSnapshot, advance
from orchestration.offsets.known_gaps import commit_marks
from orchestration.offsets.planning import BatchPlan
from orchestration.offsets.ranges import Places
from orchestration.rows.aggregates import merged
from orchestration.rows.latest import Changes, KeyedTable, Replaced, newest
from orchestration.rows.uniqueness import TableKeys
from orchestration.rows.upserts import remembered_deletions, upsert
from orchestration.transforms.batch.batch import Batch, ComputedBatch, compute_batch
from orchestration.transforms.batch.isolation import NOTHING
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.run.context import (
    COUNTS_OTHERS,
    RunContext,
    TopicRunResult,
    TopicState,
)
from orchestration.transforms.run.steps import (
    attempted,
    checked_result,
    dead_letter_rows,
    empty_result,
    origin_of,
    plan_next,
    read_planned,
    read_state,
)


def run_topic_table(table: TopicTable, context: RunContext) -> TopicRunResult:
    """Read the next batch of the table's topic and commit it.

    :raises CommitConflictError: in every attempt another writer was faster.
    :raises ProgressError, NotReadyError, TransformError, SchemaConflictError: nothing was
        committed. The text says what to do.
    """
    return attempted(context, lambda: _attempt(table, context))


def _attempt(table: TopicTable, context: RunContext) -> TopicRunResult:
    letters = DeadLetters(context.lake)
    letters_snapshot = letters.snapshot()
    state = read_state(table, context)
    plan, held = plan_next(table, context, state)
    if plan.is_empty:
        return empty_result(state, plan)
    source, plan = read_planned(table, context, state, plan, held=held)
    try:
        existing = TableKeys(snapshot=state.snapshot) if state.snapshot else None
        result = checked_batch(table, context, source, state, existing)
        if result.failures:
            return result
        assert result.batch is not None
        origin = origin_of(table, context, state.topic_id)
        rejected = dead_letter_rows(origin, source, result.batch.rejections, context.now())
    finally:
        source.release()
    changes = decide_changes(
        table, state, result.batch, log_starts=state.forgotten_below(plan.backlog)
    )
    stored = changes.rows if changes is not None and table.aggregates else result.batch.rows
    target = target_table(table, context, state, stored)
    conform(stored, table.name, target.arrow_schema, is_evolving=table.is_evolving)
    leader_epochs = source.statistics.epochs_at(plan.ranges.ends())
    _validate_unmoved(table, context, state)
    letters_snapshot = letters.cleaned(letters_snapshot, origin, target)
    attempt = letters.replace_pending(
        letters_snapshot, origin, plan.ranges, state.committed, rejected
    )
    named = naming(state.topic_id, attempt)
    if changes is None:
        committed = append_with_offsets(
            target,
            result.batch.rows,
            plan.ranges,
            leader_epochs,
            expected=state.committed,
            is_evolving=table.is_evolving,
            notes={"run_id": context.run_id},
            transactions=named,
        )
    else:
        notes = {"ranges": str(plan.ranges), "topic": plan.ranges.topic, "run_id": context.run_id}
        advanced = advance(target, plan.ranges, leader_epochs, state.committed)
        transactions = {**advanced, **named, **_commit_marks(table, state, target, plan)}
        committed = upsert(
            target, changes, is_evolving=table.is_evolving, notes=notes, transactions=transactions
        )
    return TopicRunResult(
        kind="batch",
        state=state,
        ranges=plan.ranges,
        version=committed.version,
        backlog=plan.backlog,
        statistics=source.statistics,
        batch=result.batch,
        outcomes=result.outcomes,
        row_count=committed.row_count,
        letters=rejected,
        changes=changes,
    )


def _commit_marks(
    table: TopicTable, state: TopicState, target: TableSnapshot, plan: BatchPlan
) -> dict[str, int]:
    """Return the transactions that note which records a table of aggregates counts.

    They are empty for other tables. A later replay, which computes the groups anew, needs them.
    """
    if not table.aggregates:
        return {}
    has_others = not state.committed and target.row_count > 0
    return {
        **commit_marks(plan.ranges, state.committed, target.transaction_version),
        **({COUNTS_OTHERS: 1} if has_others else {}),
    }


def decide_changes(
    table: TopicTable,
    state: TopicState,
    batch: ComputedBatch,
    *,
    log_starts: Mapping[int, int],
    replaced: Replaced | None = None,
) -> Changes | None:
    """Return the changes that a batch or replay makes to rows by key or to groups of aggregates.

    Return None for a table that keeps all rows. Deletions below ``log_starts`` are forgotten.

    :raises ProgressError: a replay cannot know the earlier value of a row.
    :raises AggregateError: a group cannot be computed.
    """
    if table.aggregates:
        return merged(batch.rows, state.snapshot, table.aggregate_by, table.aggregates)
    if batch.deletions is None:
        return None
    return newest(
        batch.rows,
        batch.deletions,
        table.latest_by,
        KeyedTable(
            snapshot=state.snapshot,
            deletions=None if state.snapshot is None else remembered_deletions(state.snapshot),
        ),
        state.topic_id,
        log_starts=log_starts,
        replaced=replaced,
    )


def checked_batch(
    table: TopicTable,
    context: RunContext,
    source: Batch,
    state: TopicState,
    existing: TableKeys | None,
    *,
    forgiven: Places = NOTHING,
) -> TopicRunResult:
    """Compute and check a batch without writing anything.

    ``failures`` are the reasons that forbid the commit. Records at the places ``forgiven`` are dead
    letters already, so the transform may throw on them again.
    """
    return checked_result(
        table,
        context,
        source,
        state,
        compute_batch(context.session(), table, source, existing, forgiven=forgiven),
    )


def _validate_unmoved(table: TopicTable, context: RunContext, state: TopicState) -> None:
    """Check, before the dead letters are written, that no other run has committed meanwhile.

    Another run's commit without dead letters does not conflict with the dead letters of this run.

    :raises CommitConflictError: another run moved the checkpoints.
    """
    moved = context.lake.existing(table.name).checkpoints(
        state.topic_id, [one.partition for one in state.log]
    )
    if moved != state.committed:
        raise CommitConflictError(f"another run moved the checkpoints of the table {table.name}")


def target_table(
    table: TopicTable, context: RunContext, state: TopicState, rows: pa.Table
) -> TableSnapshot:
    """Return the snapshot to commit from, and create the table if it does not exist yet."""
    if state.snapshot is not None:
        return state.snapshot
    conform(rows, table.name, rows.schema)
    return context.lake.create(
        table.name, rows.schema, description=table.function.__doc__ or "", latest_by=table.kept_by
    )
