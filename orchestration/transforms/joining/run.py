"""One run of a table of two joined topics: plan both, read, join, compute, check, and commit.

Decides the order that keeps a run exact when it is killed at any moment, as ``to_lake.run`` does.
The dead letters are written first, under a number that the table's commit names. Then one commit
holds the rows, the offsets of both topics, the rows that are kept for a partner, and the watermark.
Knows no Dagster.
Invariant: each record of a committed range was joined with all its partners so far, or is a dead
letter.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import pyarrow as pa
from deltalake import write_deltalake

from log_service.common.counts import counted
from orchestration.dead_letters.table import DeadLetters, Origin, Rejection, naming
from orchestration.lake.schemas import conform
from orchestration.lake.tables import (
    JOINED_AS,
    CommitConflictError,
    TableSnapshot,
    advance,
    after_commit,
    commit_properties,
    conflicts_translated,
)
from orchestration.log_client.protocol import RangeReader
from orchestration.offsets.byte_limits import ByteLimits
from orchestration.offsets.planning import BatchPlan, ProgressError, plan_batch
from orchestration.offsets.ranges import OffsetRanges
from orchestration.quality.rules import broken_rules
from orchestration.quality.suites import Outcome
from orchestration.rows.join_state import (
    STATE,
    JoinState,
    StateWriter,
    fitted,
    read_state,
    validate_joined,
)
from orchestration.rows.joins import (
    LEFT,
    RIGHT,
    SIDES,
    Arrivals,
    JoinStep,
    Side,
    first_clock,
    is_idle,
    joined,
)
from orchestration.spark.source import BatchStatistics
from orchestration.transforms.batch.batch import decide_doubtful
from orchestration.transforms.batch.checking import blocking_failures, evaluate_suite
from orchestration.transforms.batch.intake import Intake, take_in
from orchestration.transforms.joining.declarations import JoinedTable
from orchestration.transforms.joining.pairs import arrow_schema, computed
from orchestration.transforms.run.archived_ranges import overtaken, readable_starts
from orchestration.transforms.run.context import RunContext, TopicState, awaited_of
from orchestration.transforms.run.steps import (
    attempted,
    cut_short,
    dead_letter_rows,
    letters_that_stay,
    topic_state,
)
from orchestration.values.times import MICROSECOND

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class SideResult:
    """The result of a run for one topic.

    ``statistics`` is None if nothing was read. For a replay, ``lost`` describes the lost records of
    the topic, and ``archived_count`` counts the offsets that come from the archive.
    """

    topic: str
    state: TopicState
    ranges: OffsetRanges
    backlog: int
    statistics: BatchStatistics | None = None
    rejections: tuple[Rejection, ...] = ()
    lost: str = ""
    archived_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRunResult:
    """The result of a run.

    If ``version`` is None, nothing was committed, because there was nothing new, or a check forbade
    it. ``letters`` are the rows of the dead letters that the commit made valid. ``held`` is the
    state that is kept from then on, and ``held_bytes`` the size of its files.
    """

    sides: Mapping[Side, SideResult]
    kind: str = "batch"
    version: int | None = None
    rows: pa.Table | None = None
    violations: Mapping[str, int] | None = None
    outcomes: tuple[Outcome, ...] = ()
    failures: tuple[str, ...] = ()
    row_count: int | None = None
    letters: pa.Table | None = None
    held: JoinState | None = None
    held_bytes: int = 0

    @property
    def backlog(self) -> int:
        """Return how many offsets of both topics were left for later runs."""
        return sum(side.backlog for side in self.sides.values())

    @property
    def awaited(self) -> dict[tuple[str, int], int]:
        """Return, by topic and partition, the offset at which the next new record would be."""
        left, right = (
            awaited_of(one.topic, one.state.log, self.next_offsets(side))
            for side, one in self.sides.items()
        )
        return {**left, **right}

    def next_offsets(self, side: Side) -> dict[int, int]:
        """Return the checkpoints in the topic of one side, as they are after the run."""
        one = self.sides[side]
        before = {
            partition: checkpoint.next_offset
            for partition, checkpoint in one.state.committed.items()
        }
        return (
            before
            if self.version is None or self.kind == "replay"
            else {**before, **one.ranges.ends()}
        )


def run_joined_table(table: JoinedTable, context: RunContext) -> JoinRunResult:
    """Read the next batch of both topics and commit its result.

    :raises CommitConflictError: in every attempt another writer was faster.
    :raises ProgressError, NotReadyError, TransformError, SchemaConflictError: nothing was
        committed. The text says what to do.
    """
    return attempted(context, lambda: _attempt(table, context))


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStart:
    """The state at the beginning of an attempt.

    It holds the dead letters and the table, loaded in this order, and the ranges of both topics.
    ``held`` is the state that the last commit kept. Only a replay has ``amended``. This function
    amends the joined rows by those of records that cannot be read any more.
    """

    letters: TableSnapshot
    table: TableSnapshot | None
    held: JoinState | None
    sides: Mapping[Side, SideResult]
    readers: Mapping[Side, RangeReader]
    amended: Callable[[JoinStep], JoinStep] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinBatch:
    """The result of a batch before anything is written.

    ``rejected`` holds the rows of new dead letters, and ``staying`` those of dead letters that a
    replay leaves in place.
    """

    result: JoinRunResult
    rows: pa.Table
    held: JoinState
    rejected: Mapping[Side, pa.Table]
    staying: Mapping[Side, pa.Table]


def _attempt(table: JoinedTable, context: RunContext) -> JoinRunResult:
    letters = DeadLetters(context.lake).snapshot()
    snapshot = context.lake.snapshot(table.name)
    if snapshot is not None:
        validate_joined(snapshot, table.declared)
    held = None if snapshot is None else read_state(snapshot)
    planned = {side: _planned(table, context, side, snapshot, held) for side in SIDES}
    sides = {side: result for side, (result, _) in planned.items()}
    read = [one.ranges for one in sides.values() if one.ranges.ranges]
    if not read:
        return JoinRunResult(sides=sides)
    for ranges in read:
        context.reporter.pin("batch", ranges)
    readers = {side: reader for side, (_, reader) in planned.items()}
    start = JoinStart(letters=letters, table=snapshot, held=held, sides=sides, readers=readers)
    batch = compute(table, context, start)
    return batch.result if batch.result.failures else _commit(table, context, start, batch)


def compute(table: JoinedTable, context: RunContext, start: JoinStart) -> JoinBatch:
    """Read, join and check, without writing anything.

    ``failures`` of the returned result are the reasons that forbid the commit.
    """
    with ExitStack() as releasing:
        intakes: dict[Side, Intake] = {}
        for side in SIDES:
            intakes[side] = take_in(
                start.readers[side],
                start.sides[side].ranges,
                table.fields(side),
                None,
                value_format=table.topic(side).value_format,
                has_headers=table.has_headers,
                limits=_limits(context, is_replay=start.amended is not None),
            )
            releasing.callback(intakes[side].release)
        start = replace(
            start,
            sides={
                side: _as_read(context, one, intakes[side].ranges)
                for side, one in start.sides.items()
            },
        )
        step, rejections = _joined(table, context, intakes, start)
        rows, violations = computed(table, context, step, start.table)
        outcomes = (
            evaluate_suite(context.session(), table.suite, rows, table=table.name)
            if table.suite.expectations
            else ()
        )
        sides = {
            side: replace(
                start.sides[side], statistics=intakes[side].statistics, rejections=rejections[side]
            )
            for side in SIDES
        }
        rejected = {
            side: dead_letter_rows(
                origin_of(table, context, one), intakes[side], one.rejections, context.now()
            )
            for side, one in sides.items()
        }
        staying = {
            side: letters_that_stay(
                origin_of(table, context, one),
                context,
                intakes[side],
                one.ranges if start.amended else (),
            )
            for side, one in sides.items()
        }
    failures = _failures(table, violations, outcomes)
    result = JoinRunResult(
        sides=sides, rows=rows, violations=violations, outcomes=outcomes, failures=failures
    )
    return JoinBatch(
        result=result,
        rows=rows,
        held=JoinState(kept=step.kept, clock=step.clock),
        rejected=rejected,
        staying=staying,
    )


def _limits(context: RunContext, *, is_replay: bool) -> ByteLimits:
    """Return the byte limits of each topic: half of a run's limit.

    A replay reads its ranges whole.
    """
    whole = context.byte_limits.run_bytes
    return replace(
        context.byte_limits, run_bytes=None if is_replay or whole is None else max(whole // 2, 1)
    )


def _as_read(context: RunContext, side: SideResult, taken: OffsetRanges) -> SideResult:
    """Return the plan of a topic, cut to the ranges that were read."""
    if taken == side.ranges:
        return side
    plan = cut_short(context, BatchPlan(ranges=side.ranges, backlog=side.backlog, notes=()), taken)
    return replace(side, ranges=plan.ranges, backlog=plan.backlog)


def _commit(
    table: JoinedTable, context: RunContext, start: JoinStart, batch: JoinBatch
) -> JoinRunResult:
    """Commit the dead letters of both topics, then everything else.

    The dead letters count from the moment in which the second commit names their numbers.
    """
    sides = batch.result.sides
    target = start.table or create_table(table, context, batch.rows)
    rows, _ = conform(batch.rows, table.name, target.arrow_schema)
    validate_unmoved(table, context, sides, target)
    letters = DeadLetters(context.lake)
    origins = {side: origin_of(table, context, one) for side, one in sides.items()}
    letters_snapshot = cleaned_letters(letters, start.letters, origins, target)
    transactions: dict[str, int] = {}
    for side, one in sides.items():
        assert one.statistics is not None
        committed = one.state.committed
        attempt = letters.replace_pending(
            letters_snapshot, origins[side], one.ranges, committed, batch.rejected[side]
        )
        moved = advance(target, one.ranges, one.statistics.epochs_at(one.ranges.ends()), committed)
        transactions |= {**moved, **naming(one.state.topic_id, attempt)}
    notes = {f"ranges_{side}": f"{one.topic} {one.ranges}" for side, one in sides.items()}
    after, held_bytes = commit_join(
        target, rows, batch.held, transactions, {**notes, "run_id": context.run_id}
    )
    return replace(
        batch.result,
        version=after.version,
        row_count=after.row_count,
        letters=pa.concat_tables(list(batch.rejected.values())),
        held=batch.held,
        held_bytes=held_bytes,
    )


def commit_join(
    target: TableSnapshot,
    rows: pa.Table,
    held: JoinState,
    transactions: Mapping[str, int],
    notes: Mapping[str, str],
    *,
    mode: Literal["append", "overwrite"] = "append",
) -> tuple[TableSnapshot, int]:
    """Commit ``rows``, the kept state and ``transactions`` at once.

    Return the table, and the size of the kept state's files in bytes.

    :raises CommitConflictError: the table changed since ``target``.
    """
    writer = StateWriter(target.folder)
    held_bytes = writer.write(held)
    properties = commit_properties(notes, {**transactions, STATE: writer.number})
    with conflicts_translated(target.name):
        write_deltalake(target.delta, rows, mode=mode, commit_properties=properties)
    writer.tidy()
    return after_commit(target), held_bytes


def _planned(
    table: JoinedTable,
    context: RunContext,
    side: Side,
    snapshot: TableSnapshot | None,
    held: JoinState | None,
) -> tuple[SideResult, RangeReader]:
    """Return the next ranges of one topic, and their reader.

    The reader uses the archive, too, if retention has removed records of the ranges from the log. A
    batch is joined in the run's memory, so it has at most ``arrow_records`` offsets.

    :raises NotReadyError: there is no such topic.
    :raises ProgressError: the log was truncated, or records were removed before they were read.
    """
    topic = table.topic(side).name
    state = topic_state(topic, context, snapshot)
    epochs = {
        partition: one.leader_epoch
        for partition, one in state.committed.items()
        if one.leader_epoch is not None
    }
    archived = overtaken(
        topic, state.topic_id, state.log, state.committed, log=context.log, lake=context.lake
    )
    plan = plan_batch(
        topic=topic,
        topic_id=state.topic_id,
        log=state.log,
        committed=state.committed,
        epoch_ends=context.log.leader_epoch_ends(topic, epochs) if epochs else {},
        other_topic_ids=(
            () if held is None or state.committed else (held.clock.side(side).topic_id,)
        ),
        limit=min(table.records_per_run or context.records_per_run, max(context.arrow_records, 1)),
        is_loss_accepted=context.is_loss_accepted,
        archived_starts={} if archived is None else readable_starts(archived, state.log),
    )
    for note in plan.notes:
        context.reporter.note(note)
    reader = context.log.range_reader(is_tolerant=True) if archived is None else archived.reader
    return SideResult(topic=topic, state=state, ranges=plan.ranges, backlog=plan.backlog), reader


def _joined(
    table: JoinedTable, context: RunContext, intakes: Mapping[Side, Intake], start: JoinStart
) -> tuple[JoinStep, dict[Side, tuple[Rejection, ...]]]:
    """Join the batch, and return the join's result and the rejections of both topics.

    :raises ProgressError: more rows than are allowed would be kept.
    """
    now_us = (context.now() - EPOCH) // MICROSECOND
    arrivals, misfits, kept = {}, {}, {}
    is_replay = start.amended is not None
    for side, one in start.sides.items():
        schema = arrow_schema(table, side)
        rows, misfits[side] = _parsed(table, context, intakes[side], schema)
        is_read = not one.ranges.is_empty and not is_replay
        waiting = frozenset[int]() if is_replay else _waiting(one)
        arrivals[side] = Arrivals(
            topic_id=one.state.topic_id, rows=rows, waiting=waiting, is_any_read=is_read
        )
        kept[side] = fitted(
            None if start.held is None or is_replay else start.held.kept[side], schema, table.name
        )
    topic_ids = {side: one.topic_id for side, one in arrivals.items()}
    clock = first_clock(topic_ids, now_us) if start.held is None else start.held.clock
    step = joined(table.shape, kept, clock, arrivals, now_us, is_late_possible=not is_replay)
    step = step if start.amended is None else start.amended(step)
    _log_idle(table, context, step, arrivals, now_us)
    _validate_bound(table, step)
    return step, {side: (*misfits[side], *step.rejections[side]) for side in SIDES}


def _parsed(
    table: JoinedTable, context: RunContext, intake: Intake, schema: pa.Schema
) -> tuple[pa.Table, tuple[Rejection, ...]]:
    """Return the rows of the records, with ``schema``, and the rejections of misfits."""
    session = context.session() if intake.doubtful.num_rows else None
    decided, misfits = decide_doubtful(session, table.name, intake)
    return intake.rows({name: name for name in schema.names}, decided).cast(schema), misfits


def _waiting(side: SideResult) -> frozenset[int]:
    """Return the partitions that have more records than the run reads."""
    ends, committed = side.ranges.ends(), side.state.committed
    after = {
        one.partition: (
            committed[one.partition].next_offset
            if one.partition in committed
            else one.log_start_offset
        )
        for one in side.state.log
    }
    return frozenset(
        one.partition
        for one in side.state.log
        if one.last_stable_offset > {**after, **ends}[one.partition]
    )


def _log_idle(
    table: JoinedTable,
    context: RunContext,
    step: JoinStep,
    arrivals: Mapping[Side, Arrivals],
    now_us: int,
) -> None:
    for side in SIDES:
        if is_idle(table.shape, step.clock.side(side), arrivals[side], now_us):
            context.reporter.note(
                f"{table.name}: the topic {table.topic(side).name} stands still; the watermark goes"
                " on without it"
            )


def _validate_bound(table: JoinedTable, step: JoinStep) -> None:
    counts = {side: step.kept[side].num_rows for side in SIDES}
    if sum(counts.values()) > table.state_rows:
        raise ProgressError(
            f"{table.name} would keep {counted(counts[LEFT], 'row')} of {table.left.name} and"
            f" {counts[RIGHT]} of {table.right.name} for partners that may still come, and"
            f" {table.state_rows} are allowed (state_rows). The watermark is at"
            f" {step.clock.watermark or 'no time yet'}. Nothing was committed. Does one of the"
            " topics stand still? idle_after goes on without it; else shorten within or lateness,"
            " or allow more"
        )


def _failures(
    table: JoinedTable, violations: Mapping[str, int], outcomes: tuple[Outcome, ...]
) -> tuple[str, ...]:
    broken = broken_rules(table.rules, violations)
    return (*broken, *blocking_failures(outcomes))


def cleaned_letters(
    letters: DeadLetters,
    snapshot: TableSnapshot,
    origins: Mapping[Side, Origin],
    target: TableSnapshot,
) -> TableSnapshot:
    """Remove dead letters of attempts that ``target`` never named, and return what is left.

    There are such rows only after a killed run, and only then is anything committed. Raises as
    ``DeadLetters.cleaned`` does.
    """
    for side in SIDES:
        snapshot = letters.cleaned(snapshot, origins[side], target)
    return snapshot


def origin_of(table: JoinedTable, context: RunContext, one: SideResult) -> Origin:
    """Return the ``Origin`` of dead letters from one topic."""
    return Origin(
        target=table.name, topic=one.topic, topic_id=one.state.topic_id, run_id=context.run_id
    )


def create_table(table: JoinedTable, context: RunContext, rows: pa.Table) -> TableSnapshot:
    """Create the lake table of a join, with the columns of ``rows``."""
    conform(rows, table.name, rows.schema)
    return context.lake.create(
        table.name,
        rows.schema,
        description=table.function.__doc__ or "",
        properties={JOINED_AS: table.declared},
    )


def validate_unmoved(
    table: JoinedTable, context: RunContext, sides: Mapping[Side, SideResult], target: TableSnapshot
) -> None:
    """Check, before the dead letters are written, that no other run has committed meanwhile.

    Another run's commit without dead letters does not conflict with the dead letters of this run.

    :raises CommitConflictError: another run committed to the table.
    """
    newest = context.lake.existing(table.name)
    moved = [
        one.topic
        for one in sides.values()
        if newest.checkpoints(
            one.state.topic_id, [partition.partition for partition in one.state.log]
        )
        != one.state.committed
    ]
    if moved or newest.transaction_version(STATE) != target.transaction_version(STATE):
        raise CommitConflictError(f"another run committed to the table {table.name}")
