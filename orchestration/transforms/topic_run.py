"""One run of a table that follows a topic: plan, read, compute, check, and commit.

Decides the order that keeps a run exact when it is killed at any moment. The dead-letter snapshot
is loaded before the checkpoint is read. The dead letters are committed before the target. The
target's commit of rows and offsets alone is the checkpoint. A rival's commit restarts the whole
attempt. Knows no Dagster: sentences for a person go to ``Reporter``.
Invariant: after any number of runs and kills each record of a committed range is either in the
table or among its committed dead letters.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from orchestration.aggregates import merged
from orchestration.byte_limits import DEFAULT_LIMITS, ByteLimits
from orchestration.checkpoints import BatchPlan, Checkpoint, PartitionOffsets, plan_batch
from orchestration.dead_letters import ENVELOPE, DeadLetters, Origin, Rejection, envelopes, naming
from orchestration.fixes import At, FixedReader
from orchestration.held_records import HeldTopic
from orchestration.latest import Changes, Held, Replaced, newest
from orchestration.log_client import LogClient, OtherTopicError
from orchestration.marks import marks_of
from orchestration.offsets import OffsetRange, OffsetRanges, Places, places_within
from orchestration.quality.rules import broken_fail_rules
from orchestration.quality.suites import Outcome
from orchestration.schemas import conform, validate_shape
from orchestration.spark.source import BatchStatistics
from orchestration.tables import CommitConflictError, Lake, TableSnapshot, advance, append_with_offsets
from orchestration.transforms.batch import Batch, ComputedBatch, compute_batch
from orchestration.transforms.checking import blocking_failures, evaluate_suite
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.isolation import NOTHING
from orchestration.transforms.overtaken import overtaken, readable_starts
from orchestration.transforms.reading import ReadAhead, read_batch
from orchestration.uniqueness import TableKeys
from orchestration.upserts import remembered_deletions, upsert

Result = TypeVar("Result")
COUNTS_OTHERS = "counts_other_topics"
"""The application transaction of a table of aggregates that also counts records of another topic.

That topic may be a deleted one of the same name.
"""
NO_FIXES: Mapping[At, bytes | None] = MappingProxyType({})


class Reporter(Protocol):
    """Receives the reports of a run."""

    def note(self, sentence: str) -> None:
        """Report a sentence for a person."""
        ...

    def pin(self, kind: str, ranges: OffsetRanges) -> None:
        """Report the ranges that the run is going to read, before it reads them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The context of a run.

    ``session`` opens Spark on its first call, so that a run without records needs none.
    """

    log: LogClient
    lake: Lake
    session: Callable[[], Any]
    reporter: Reporter
    run_id: str
    records_per_run: int
    arrow_records: int
    commit_attempts: int
    byte_limits: ByteLimits = DEFAULT_LIMITS
    scratch: Path | None = None
    is_loss_accepted: bool = False
    ahead: ReadAhead | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic and a table's progress in it, as read at the start of an attempt."""

    topic_id: str
    log: tuple[PartitionOffsets, ...]
    snapshot: TableSnapshot | None
    committed: Mapping[int, Checkpoint]

    @property
    def high_watermarks(self) -> dict[int, int]:
        """Return the high watermark of each partition."""
        return {one.partition: one.high_watermark for one in self.log}

    def forgotten_below(self, backlog: int) -> dict[int, int]:
        """Return, by partition, the offset below which a table of newest rows forgets deletions.

        ``backlog`` is the number of offsets that the run leaves. They may hold an older record of a
        key that another partition has deleted. So nothing is forgotten before they are read.
        """
        return {} if backlog else {one.partition: one.log_start_offset for one in self.log}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRunResult:
    """The result of a run.

    ``version`` is None if nothing was committed. Then there was nothing new, or a check stopped it.
    ``row_count`` is of the whole table after the commit. ``letters`` are the rows of the dead
    letters that the commit made valid. ``changes`` are set for a table that keeps the newest row of
    each key. ``sent`` has the counts of a transform to a topic by label.
    """

    kind: str
    state: TopicState
    ranges: OffsetRanges
    version: int | None
    backlog: int = 0
    statistics: BatchStatistics | None = None
    batch: ComputedBatch | None = None
    outcomes: tuple[Outcome, ...] = ()
    failures: tuple[str, ...] = ()
    row_count: int | None = None
    letters: pa.Table | None = None
    changes: Changes | None = None
    sent: Mapping[str, int | str] | None = None

    @property
    def next_offsets(self) -> dict[int, int]:
        """Return the checkpoints after the run, by partition.

        A replay, or a run without a commit, moves none.
        """
        before = {partition: one.next_offset for partition, one in self.state.committed.items()}
        return before if self.version is None or self.kind == "replay" else {**before, **self.ranges.ends()}

    @property
    def awaited(self) -> dict[tuple[str, int], int]:
        """Return the first offset at which a record would be new, by topic and partition."""
        return awaited_of(self.ranges.topic, self.state.log, self.next_offsets)


def awaited_of(topic: str, log: Sequence[PartitionOffsets], next_offsets: Mapping[int, int]) -> dict[tuple[str, int], int]:
    """Return the first offset of a new record of ``topic``, by topic and partition."""
    return {(topic, one.partition): next_offsets.get(one.partition, one.log_start_offset) for one in log}


def run_topic_table(table: TopicTable, context: RunContext) -> TopicRunResult:
    """Read the next batch of the table's topic and commit it.

    :raises CommitConflictError: rivals were faster in every attempt.
    :raises ProgressError, NotReadyError, TransformError, SchemaConflictError: nothing was
        committed. The text says what to do.
    """
    return attempted(context, lambda: _attempt(table, context))


def attempted(context: RunContext, attempt: Callable[[], Result]) -> Result:
    """Return the result of ``attempt``, which is repeated after conflicts.

    A conflict is a faster rival, or a topic that was created anew.

    :raises CommitConflictError, OtherTopicError: there was a conflict in every attempt.
    """
    for number in range(1, context.commit_attempts + 1):
        try:
            return attempt()
        except (CommitConflictError, OtherTopicError) as conflict:
            if number == context.commit_attempts:
                raise
            context.reporter.note(f"{conflict}; looking again at what is left to do (attempt {number + 1} of {context.commit_attempts})")
    raise AssertionError("commit_attempts is at least one")


def read_state(table: TopicTable, context: RunContext) -> TopicState:
    """Return the state of topic and table.

    :raises NotReadyError: there is no such topic.
    :raises SchemaConflictError: the table keeps other rows than its declaration says.
    """
    snapshot = context.lake.snapshot(table.name)
    if snapshot is not None:
        validate_shape(table.name, snapshot.latest_by, table.kept_by)
    return topic_state(table.topic.name, context, snapshot)


def topic_state(topic: str, context: RunContext, snapshot: TableSnapshot | None) -> TopicState:
    """Return the state of a topic, and the checkpoints of ``snapshot`` in it.

    :raises NotReadyError: there is no such topic.
    """
    description = context.log.describe_topic(topic)
    if description is None:
        raise NotReadyError(f"there is no topic {topic}: materialize topics/{topic}, which creates it")
    log = context.log.partition_offsets(topic)
    partitions = [one.partition for one in log]
    committed = snapshot.checkpoints(description.topic_id, partitions) if snapshot else {}
    return TopicState(topic_id=description.topic_id, log=log, snapshot=snapshot, committed=committed)


def _attempt(table: TopicTable, context: RunContext) -> TopicRunResult:
    letters = DeadLetters(context.lake)
    letters_snapshot = letters.snapshot()
    state = read_state(table, context)
    held = archived_part(table, context, state)
    plan = plan_next(table, context, state, held)
    for note in plan.notes:
        context.reporter.note(note)
    if plan.is_empty:
        return TopicRunResult(kind="batch", state=state, ranges=plan.ranges, version=None, backlog=plan.backlog)
    source, plan = read_planned(table, context, state, plan, held=held)
    try:
        existing = TableKeys(snapshot=state.snapshot) if state.snapshot else None
        result = checked_batch(table, context, source, state, existing)
        if result.failures:
            return result
        assert result.batch is not None
        origin = Origin(target=table.name, topic=table.topic.name, topic_id=state.topic_id, run_id=context.run_id)
        rejected = dead_letter_rows(origin, source, result.batch.rejections, context.now())
    finally:
        source.release()
    changes = decide_changes(table, state, result.batch, log_starts=state.forgotten_below(plan.backlog))
    stored = changes.rows if changes is not None and table.aggregates else result.batch.rows
    target = _target(table, context, state, stored)
    conform(stored, table.name, target.arrow_schema, is_evolving=table.is_evolving)
    leader_epochs = source.statistics.epochs_at(plan.ranges.ends())
    _validate_unmoved(table, context, state)
    letters_snapshot = letters.cleaned(letters_snapshot, origin, target)
    attempt = letters.replace_pending(letters_snapshot, origin, plan.ranges, state.committed, rejected)
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
        committed = upsert(
            target,
            changes,
            is_evolving=table.is_evolving,
            notes={"ranges": str(plan.ranges), "topic": plan.ranges.topic, "run_id": context.run_id},
            transactions={**advance(target, plan.ranges, leader_epochs, state.committed), **named, **_marks(table, state, target, plan)},
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


def _marks(table: TopicTable, state: TopicState, target: TableSnapshot, plan: BatchPlan) -> dict[str, int]:
    """Return the marks of the records that a table of aggregates counts.

    A later replay, which makes the groups anew, needs them.
    """
    if not table.aggregates:
        return {}
    has_others = not state.committed and target.row_count > 0
    return {**marks_of(plan.ranges, state.committed, target.transaction_version), **({COUNTS_OTHERS: 1} if has_others else {})}


def read_planned(
    table: TopicTable,
    context: RunContext,
    state: TopicState,
    plan: BatchPlan,
    *,
    held: HeldTopic | None = None,
    fixes: Mapping[At, bytes | None] = NO_FIXES,
) -> tuple[Batch, BatchPlan]:
    """Read the planned ranges, with fixed records as corrected.

    Return the batch and the plan. If the run reads several ranges, the next one is begun ahead. The
    returned plan is cut to the ranges that were read, because a run stops at its limit of bytes.
    ``held`` is set if the archive is read. Spark's workers on another machine have no files of the
    lake, so this process reads it then.
    """
    reader = context.log.range_reader(is_tolerant=True) if held is None else held.reader
    is_here = held is not None and context.scratch is None
    ahead = context.ahead if held is None else None
    context.reporter.pin("batch", plan.ranges)
    source = read_batch(
        context.session(),
        FixedReader(reader, fixes) if fixes else reader,
        plan.ranges,
        table.topic.fields,
        value_format=table.topic.value_format,
        arrow_records=max(context.arrow_records, plan.ranges.count) if is_here else context.arrow_records,
        scratch=context.scratch,
        ahead=ahead,
        following=partial(_following, table, context, state),
        has_headers=table.has_headers,
        limits=context.byte_limits,
    )
    return source, plan if source.ranges == plan.ranges else cut_short(context, plan, source.ranges)


def cut_short(context: RunContext, plan: BatchPlan, taken: OffsetRanges) -> BatchPlan:
    """Return the plan as far as it was read, and report that a later run reads the rest."""
    context.reporter.note(
        f"{taken.count} of {plan.ranges.count} offsets of topic {taken.topic} were read: they have the bytes that a run opens at most, "
        f"{context.byte_limits.run_bytes} (TIDELOG_BYTES_PER_RUN). The next run goes on behind them"
    )
    context.reporter.pin("batch", taken)
    return plan.as_read(taken)


def decide_changes(
    table: TopicTable, state: TopicState, batch: ComputedBatch, *, log_starts: Mapping[int, int], replaced: Replaced | None = None
) -> Changes | None:
    """Return the changes of a batch or replay in a table of newest rows or of groups.

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
        Held(snapshot=state.snapshot, deletions=None if state.snapshot is None else remembered_deletions(state.snapshot)),
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
    return judged_batch(table, context, source, state, compute_batch(context.session(), table, source, existing, forgiven=forgiven))


def judged_batch(table: TopicTable, context: RunContext, source: Batch, state: TopicState, batch: ComputedBatch) -> TopicRunResult:
    """Check a computed batch. ``failures`` are the reasons that forbid the commit."""
    outcomes = evaluate_suite(context.session(), table.suite, batch.rows, table=table.name)
    broken = [
        f"rule {rule.name}: {batch.violations[rule.name]} rows violate {rule.condition}"
        for rule in broken_fail_rules(table.rules, batch.violations)
    ]
    return TopicRunResult(
        kind="batch",
        state=state,
        ranges=source.ranges,
        version=None,
        statistics=source.statistics,
        batch=batch,
        outcomes=outcomes,
        failures=(*broken, *blocking_failures(outcomes)),
    )


def dead_letter_rows(origin: Origin, source: Batch, rejections: tuple[Rejection, ...], now: datetime) -> pa.Table:
    """Return the dead-letter rows of ``rejections``, with the records as they were."""
    wanted: dict[int, list[int]] = {}
    for one in rejections:
        wanted.setdefault(one.partition, []).append(one.offset)
    return envelopes(origin, rejections, source.records_at(wanted), now)


def letters_that_stay(origin: Origin, context: RunContext, source: Batch, ranges: Iterable[OffsetRange]) -> pa.Table:
    """Return the dead letters in ``ranges`` whose records are no longer in the log.

    They come as rows for another attempt, and their number is reported. Compaction removed the
    records, so they can make no rows, and the dead letters have the only copy of their values.
    """
    letters = DeadLetters(context.lake)
    places = places_within(letters.places(origin.target, origin.topic_id), ranges)
    if not places:
        return ENVELOPE.empty_table()
    found = source.records_at(places)
    read = set(zip(found["_partition"].to_pylist(), found["_offset"].to_pylist(), strict=True))
    gone = {partition: [one for one in offsets if (partition, one) not in read] for partition, offsets in places.items()}
    count = sum(map(len, gone.values()))
    if not count:
        return ENVELOPE.empty_table()
    context.reporter.note(f"the records of {count} dead letters of {origin.target} are no longer in the log; they stay as they are")
    return letters.rows_at(origin.target, origin.topic_id, gone)


def archived_part(table: TopicTable, context: RunContext, state: TopicState) -> HeldTopic | None:
    """Return the records of archive and log if the archive has some of the next ones.

    Return None if the log has all of them, or if there is no archive.
    """
    return overtaken(table.topic.name, state.topic_id, state.log, state.committed, log=context.log, lake=context.lake)


def plan_next(table: TopicTable, context: RunContext, state: TopicState, held: HeldTopic | None = None) -> BatchPlan:
    """Return the next ranges.

    ``held`` is set if the archive has a part of them.

    :raises ProgressError: the log was truncated or cleaned below the committed offsets.
    """
    epochs = {partition: one.leader_epoch for partition, one in state.committed.items() if one.leader_epoch is not None}
    others: tuple[str, ...] = ()
    if state.snapshot is not None and not state.committed:
        others = state.snapshot.topic_ids()
    return plan_batch(
        topic=table.topic.name,
        topic_id=state.topic_id,
        log=state.log,
        committed=state.committed,
        epoch_ends=context.log.leader_epoch_ends(table.topic.name, epochs) if epochs else {},
        other_topic_ids=others,
        limit=table.records_per_run or context.records_per_run,
        is_loss_accepted=context.is_loss_accepted,
        archived_starts={} if held is None else readable_starts(held, state.log),
    )


def _following(table: TopicTable, context: RunContext, state: TopicState, taken: OffsetRanges) -> OffsetRanges:
    """Return the ranges that the next run plans if this one commits ``taken``.

    New records in the meantime are not considered.
    """
    ends = {partition: Checkpoint(next_offset=end, leader_epoch=None) for partition, end in taken.ends().items()}
    return plan_batch(
        topic=table.topic.name,
        topic_id=state.topic_id,
        log=state.log,
        committed={**state.committed, **ends},
        epoch_ends={},
        limit=table.records_per_run or context.records_per_run,
        is_loss_accepted=context.is_loss_accepted,
    ).ranges


def _validate_unmoved(table: TopicTable, context: RunContext, state: TopicState) -> None:
    """Check once more, before the dead letters are written, that no rival committed meanwhile.

    A rival's commit without dead letters would not conflict with ours.

    :raises CommitConflictError: another run moved the checkpoints.
    """
    moved = context.lake.existing(table.name).checkpoints(state.topic_id, [one.partition for one in state.log])
    if moved != state.committed:
        raise CommitConflictError(f"another run moved the checkpoints of the table {table.name}")


def _target(table: TopicTable, context: RunContext, state: TopicState, rows: pa.Table) -> TableSnapshot:
    """Return the snapshot to commit through: the one that was read, or the new table's."""
    if state.snapshot is not None:
        return state.snapshot
    conform(rows, table.name, rows.schema)
    return context.lake.create(table.name, rows.schema, description=table.function.__doc__ or "", latest_by=table.kept_by)
