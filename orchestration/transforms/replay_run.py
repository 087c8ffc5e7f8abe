"""A replay: read committed ranges once more, and replace exactly what came from them, in the table and among the dead letters.

Decides the order of its three commits: the new rejections are added first, then the table's rows are replaced, then dead letters that are
accepted now go. So no record is ever in neither table; a replay that is killed may leave one in both, and is to be run again. No
checkpoint moves. Knows no Dagster.
"""

from dataclasses import dataclass, replace

from orchestration.checkpoints import clip_replay, plan_replay
from orchestration.dead_letters import DeadLetters, Origin
from orchestration.offsets import OffsetRange
from orchestration.schemas import conform
from orchestration.tables import CommitConflictError, overwrite_ranges, ranges_predicate
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.reading import read_batch
from orchestration.transforms.topic_run import RunContext, TopicRunResult, TopicState, checked_batch, dead_letter_rows, read_state
from orchestration.uniqueness import TableKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """What to replay: ranges of offsets, a range of time [from_ms, to_ms), or what the dead letters of the table came from."""

    ranges: tuple[OffsetRange, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    is_of_dead_letters: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return not self.ranges and self.from_ms is None and self.to_ms is None and not self.is_of_dead_letters


def run_replay(table: TopicTable, context: RunContext, request: ReplayRequest) -> TopicRunResult:
    """Replay what ``request`` asks for.

    :raises ProgressError: a range was never committed or is no longer in the log. :raises CommitConflictError: rivals were always faster.
    """
    for attempt in range(1, context.commit_attempts + 1):
        try:
            return _attempt(table, context, request)
        except CommitConflictError:
            if attempt == context.commit_attempts:
                raise
    raise AssertionError("commit_attempts is at least one")


def _attempt(table: TopicTable, context: RunContext, request: ReplayRequest) -> TopicRunResult:
    letters = DeadLetters(context.lake)
    letters_snapshot = letters.snapshot()
    state = read_state(table, context)
    if state.snapshot is None:
        raise NotReadyError(f"the table {table.name} does not exist yet: there is nothing to replay")
    wanted = _wanted_ranges(table, context, request, state)
    ranges = plan_replay(topic=table.topic.name, topic_id=state.topic_id, wanted=wanted, log=state.log, committed=state.committed)
    if ranges.is_empty:
        context.reporter.note(f"there is nothing to replay for the table {table.name}")
        return TopicRunResult(kind="replay", state=state, ranges=ranges, version=None)
    context.reporter.pin("replay", ranges)
    source = read_batch(
        context.session(),
        context.log.range_reader(),
        ranges,
        table.topic.schema,
        arrow_records=context.arrow_records,
        scratch=context.scratch,
    )
    try:
        existing = TableKeys(snapshot=state.snapshot, without=ranges_predicate(ranges))
        result = checked_batch(table, context, source, state, existing)
        if result.failures:
            return replace(result, kind="replay")
        assert result.batch is not None
        origin = Origin(target=table.name, topic=table.topic.name, topic_id=state.topic_id, run_id=context.run_id)
        rejected = dead_letter_rows(origin, source, result.batch.rejections, context.now())
    finally:
        source.release()
    conform(result.batch.rows, table.name, state.snapshot.arrow_schema, is_evolving=table.is_evolving)
    letters.add_replayed(letters_snapshot, origin, ranges, rejected)
    notes = {"run_id": context.run_id}
    committed = overwrite_ranges(state.snapshot, result.batch.rows, ranges, is_evolving=table.is_evolving, notes=notes)
    letters.settle_replayed(origin, ranges, rejected)
    return replace(result, kind="replay", version=committed.version)


def _wanted_ranges(table: TopicTable, context: RunContext, request: ReplayRequest, state: TopicState) -> list[OffsetRange]:
    wanted = list(request.ranges)
    if request.from_ms is not None or request.to_ms is not None:
        wanted += _ranges_of_time(table, context, request, state)
    if request.is_of_dead_letters:
        starts = {one.partition: one.log_start_offset for one in state.log}
        letters = DeadLetters(context.lake).replay_ranges(table.name, state.topic_id)
        kept = [one for one in letters if one.start >= starts.get(one.partition, 0)]
        if len(kept) < len(letters):
            context.reporter.note(f"{len(letters) - len(kept)} ranges of dead letters are no longer in the log; they stay as they are")
        wanted += kept
    return merged(wanted)


def _ranges_of_time(table: TopicTable, context: RunContext, request: ReplayRequest, state: TopicState) -> list[OffsetRange]:
    topic = table.topic.name
    starts = (
        {one.partition: one.log_start_offset for one in state.log}
        if request.from_ms is None
        else context.log.offsets_at(topic, request.from_ms)
    )
    ends = {} if request.to_ms is None else context.log.offsets_at(topic, request.to_ms)
    found = (
        clip_replay(one.partition, starts.get(one.partition), ends.get(one.partition), one, state.committed.get(one.partition))
        for one in state.log
    )
    return [one for one in found if one is not None]


def merged(ranges: list[OffsetRange]) -> list[OffsetRange]:
    """Return ``ranges`` in order, those that touch or overlap made one."""
    whole: list[OffsetRange] = []
    for one in sorted(ranges):
        if whole and whole[-1].partition == one.partition and one.start <= whole[-1].end:
            whole[-1] = OffsetRange(partition=one.partition, start=whole[-1].start, end=max(whole[-1].end, one.end))
        else:
            whole.append(one)
    return whole
