"""Steps that the runs of all kinds share: plan, read, check, and make dead letters.

A step writes nothing. Knows no Dagster: sentences for a person go to ``Reporter``.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import TypeVar

import pyarrow as pa

from log_service.common.counts import counted
from orchestration.dead_letters.fixes import At, FixedReader
from orchestration.dead_letters.places import removed_note
from orchestration.dead_letters.table import ENVELOPE, DeadLetters, Origin, Rejection, envelopes
from orchestration.lake.schemas import validate_shape
from orchestration.lake.tables import CommitConflictError, TableSnapshot
from orchestration.log_client.protocol import OtherTopicError
from orchestration.offsets.planning import BatchPlan, Checkpoint, plan_batch
from orchestration.offsets.ranges import OffsetRange, OffsetRanges, places_within
from orchestration.quality.rules import broken_rules
from orchestration.retained.readable_records import HeldTopic
from orchestration.transforms.batch.batch import Batch, ComputedBatch
from orchestration.transforms.batch.checking import blocking_failures, evaluate_suite
from orchestration.transforms.batch.reading import read_batch
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.run.archived_ranges import overtaken, readable_starts
from orchestration.transforms.run.context import NO_FIXES, RunContext, TopicRunResult, TopicState

Result = TypeVar("Result")


def attempted(context: RunContext, attempt: Callable[[], Result]) -> Result:
    """Return the result of ``attempt``, which is repeated after conflicts.

    In a conflict, another writer was faster, or the topic was created anew.

    :raises CommitConflictError, OtherTopicError: there was a conflict in every attempt.
    """
    for number in range(1, context.commit_attempts + 1):
        try:
            return attempt()
        except (CommitConflictError, OtherTopicError) as conflict:
            if number == context.commit_attempts:
                raise
            context.reporter.note(
                f"{conflict}; looking again at what is left to do (attempt {number + 1} of"
                f" {context.commit_attempts})"
            )
    raise AssertionError("commit_attempts is at least one")


def read_state(table: TopicTable, context: RunContext) -> TopicState:
    """Return the state of topic and table.

    :raises NotReadyError: there is no such topic.
    :raises SchemaConflictError: the table has another key than its declaration, or none.
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
        raise NotReadyError(
            f"there is no topic {topic}: materialize topics/{topic}, which creates it"
        )
    log = context.log.partition_offsets(topic)
    partitions = [one.partition for one in log]
    committed = snapshot.checkpoints(description.topic_id, partitions) if snapshot else {}
    return TopicState(
        topic_id=description.topic_id, log=log, snapshot=snapshot, committed=committed
    )


def read_planned(
    table: TopicTable,
    context: RunContext,
    state: TopicState,
    plan: BatchPlan,
    *,
    held: HeldTopic | None = None,
    fixes: Mapping[At, bytes | None] = NO_FIXES,
) -> tuple[Batch, BatchPlan]:
    """Read the planned ranges, with the corrected values of fixed records.

    Return the batch and the plan. If the run reads several ranges, the next one is read ahead. The
    returned plan is cut to the ranges that were read, because a run stops at its limit of bytes.
    ``held`` is set if the archive is read. If Spark's workers are on another machine, they cannot
    read files of the lake, so this process reads the archive.
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
        arrow_records=(
            max(context.arrow_records, plan.ranges.count) if is_here else context.arrow_records
        ),
        scratch=context.scratch,
        ahead=ahead,
        following=partial(_following, table, context, state),
        has_headers=table.has_headers,
        limits=context.byte_limits,
    )
    return source, plan if source.ranges == plan.ranges else cut_short(context, plan, source.ranges)


def cut_short(context: RunContext, plan: BatchPlan, taken: OffsetRanges) -> BatchPlan:
    """Return the plan cut to ``taken``, and report that a later run reads the rest."""
    context.reporter.note(
        f"{taken.count} of {counted(plan.ranges.count, 'offset')} of topic {taken.topic} were read:"
        f" they have the bytes that a run opens at most, {context.byte_limits.run_bytes}"
        " (TIDELOG_BYTES_PER_RUN). The next run goes on behind them"
    )
    context.reporter.pin("batch", taken)
    return plan.as_read(taken)


def checked_result(
    table: TopicTable, context: RunContext, source: Batch, state: TopicState, batch: ComputedBatch
) -> TopicRunResult:
    """Check a computed batch. ``failures`` are the reasons that forbid the commit."""
    outcomes = evaluate_suite(context.session(), table.suite, batch.rows, table=table.name)
    broken = broken_rules(table.rules, batch.violations)
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


def dead_letter_rows(
    origin: Origin, source: Batch, rejections: tuple[Rejection, ...], now: datetime
) -> pa.Table:
    """Return ``rejections`` as rows of the dead-letter table, with the records as they were."""
    wanted: dict[int, list[int]] = {}
    for one in rejections:
        wanted.setdefault(one.partition, []).append(one.offset)
    return envelopes(origin, rejections, source.records_at(wanted), now)


def letters_that_stay(
    origin: Origin, context: RunContext, source: Batch, ranges: Iterable[OffsetRange]
) -> pa.Table:
    """Return the dead letters in ``ranges`` whose records compaction has removed.

    A replay cannot turn them into rows, and they have the only copy of the records' values. So it
    commits them again instead of dropping them. Their number is reported as a note.
    """
    letters = DeadLetters(context.lake)
    places = places_within(letters.places(origin.target, origin.topic_id), ranges)
    if not places:
        return ENVELOPE.empty_table()
    found = source.records_at(places)
    read = set(zip(found["_partition"].to_pylist(), found["_offset"].to_pylist(), strict=True))
    gone = {
        partition: [one for one in offsets if (partition, one) not in read]
        for partition, offsets in places.items()
    }
    count = sum(map(len, gone.values()))
    if not count:
        return ENVELOPE.empty_table()
    context.reporter.note(removed_note(count, origin.target))
    return letters.rows_at(origin.target, origin.topic_id, gone)


def origin_of(table: TopicTable, context: RunContext, topic_id: str) -> Origin:
    """Return the ``Origin`` of dead letters from the table's topic with ``topic_id``."""
    return Origin(
        target=table.name, topic=table.topic.name, topic_id=topic_id, run_id=context.run_id
    )


def _archived_part(table: TopicTable, context: RunContext, state: TopicState) -> HeldTopic | None:
    """Return the ranges of archive and log if only the archive has some of the next records.

    Return None if the log has all of them, or if there is no archive.
    """
    return overtaken(
        table.topic.name,
        state.topic_id,
        state.log,
        state.committed,
        log=context.log,
        lake=context.lake,
    )


def plan_next(
    table: TopicTable, context: RunContext, state: TopicState
) -> tuple[BatchPlan, HeldTopic | None]:
    """Return the next ranges, and report the notes of the plan.

    If only the archive has some of the next records, also return the ranges of archive and log.

    :raises ProgressError: the log was truncated or cleaned below the committed offsets.
    """
    held = _archived_part(table, context, state)
    epochs = {
        partition: one.leader_epoch
        for partition, one in state.committed.items()
        if one.leader_epoch is not None
    }
    others: tuple[str, ...] = ()
    if state.snapshot is not None and not state.committed:
        others = state.snapshot.topic_ids()
    plan = plan_batch(
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
    for note in plan.notes:
        context.reporter.note(note)
    return plan, held


def empty_result(state: TopicState, plan: BatchPlan) -> TopicRunResult:
    """Return the result of a run that found no new records."""
    return TopicRunResult(
        kind="batch", state=state, ranges=plan.ranges, version=None, backlog=plan.backlog
    )


def _following(
    table: TopicTable, context: RunContext, state: TopicState, taken: OffsetRanges
) -> OffsetRanges:
    """Return the ranges that the next run plans if this one commits ``taken``.

    New records in the meantime are not considered.
    """
    ends = {
        partition: Checkpoint(next_offset=end, leader_epoch=None)
        for partition, end in taken.ends().items()
    }
    return plan_batch(
        topic=table.topic.name,
        topic_id=state.topic_id,
        log=state.log,
        committed={**state.committed, **ends},
        epoch_ends={},
        limit=table.records_per_run or context.records_per_run,
        is_loss_accepted=context.is_loss_accepted,
    ).ranges
