"""A replay: read committed records once more, and replace exactly what came from them, in the table and among the dead letters.

Decides which offsets are meant (ranges, a span of time, everything, what was rejected) once, at the start, and goes through them piece by
piece, at most as many offsets at a time as a run of the table reads. Each piece is one commit of the table, and takes effect in that moment
whole: its rows and its dead letters are replaced together (``orchestration.dead_letters`` says how). A replay that is killed leaves the
pieces that it had committed replayed and the others as they were; it may be run again. No checkpoint moves. A record that was fixed
(``orchestration.fixes``) is read as it should have been. Knows no Dagster.

A table that keeps the newest row of each key is replayed in one piece: what a row replaced is not in the table, so only the whole range
says what is newest. Where not even that says it (the range no longer gives a key the row that it gave it), a replay of everything does.

An offset belongs to the time of the newest timestamp up to it, as in Kafka's ListOffsets: spans of time that follow one another cover each
offset once, though timestamps need not be in order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from orchestration.checkpoints import ProgressError, clip_replay, plan_replay, share_limit
from orchestration.dead_letters import DeadLetters, Origin, naming
from orchestration.fixes import FixedReader, Fixes
from orchestration.latest import Replaced
from orchestration.offsets import OffsetRange, OffsetRanges
from orchestration.schemas import conform
from orchestration.tables import overwrite_ranges, ranges_predicate
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.lost_records import decide_lost, lost_sentence
from orchestration.transforms.reading import read_batch
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """What to replay: ranges of offsets, a span of time [from_ms, to_ms), everything, or what the dead letters of the table came from.

    What is asked for in several ways is put together.
    """

    ranges: tuple[OffsetRange, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    is_everything: bool = False
    is_of_dead_letters: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.ranges or self.is_everything or self.is_of_dead_letters) and self.from_ms is None and self.to_ms is None


@dataclass(slots=True)
class Replayed:
    """What a replay did in all."""

    ranges: list[OffsetRanges] = field(default_factory=list)
    records: int = 0
    rows: int = 0
    dead_letters: int = 0
    commits: int = 0
    lost: str = ""
    """What of the span of time is no longer in the log, in words."""

    def add(self, result: TopicRunResult) -> None:
        """Count a piece that was committed."""
        if result.version is not None and result.batch is not None and result.statistics is not None:
            self.ranges.append(result.ranges)
            self.records += result.statistics.records
            self.rows += result.batch.rows.num_rows
            self.dead_letters += len(result.batch.rejections)
            self.commits += 1

    def metadata(self) -> dict[str, str | int]:
        """Return it by labels."""
        is_of_several = len({one.topic for one in self.ranges}) > 1
        return {
            "rows": self.rows,
            "records": self.records,
            "dead_letters": self.dead_letters,
            "commits": self.commits,
            "offsets": " ".join(f"{one.topic} {one}" if is_of_several else str(one) for one in self.ranges) or "none",
            **({"no_longer_in_the_log": self.lost} if self.lost else {}),
        }


def run_replay(table: TopicTable, context: RunContext, request: ReplayRequest) -> Iterator[TopicRunResult]:
    """Replay what ``request`` asks for and yield what became of each piece; the first one that may not be committed is the last.

    :raises ProgressError: a range was never committed or is no longer in the log. :raises CommitConflictError: rivals were always faster.
    """
    ranges = plan(table, context, request)
    if ranges.is_empty:
        context.reporter.note(f"there is nothing to replay for the table {table.name}")
        yield TopicRunResult(kind="replay", state=read_state(table, context), ranges=ranges, version=None)
    else:
        context.reporter.pin("replay", ranges)
    whole = [] if ranges.is_empty else [ranges]
    for piece in whole if table.latest_by else pieces(ranges, table.records_per_run or context.records_per_run):
        result = _run_piece(table, context, piece)
        yield result
        if result.failures:
            return


def why_no_replay_of_groups(name: str, topic: str) -> str:
    """Return why nothing can be replayed into a table of aggregates."""
    return (
        f"the table {name} keeps aggregates, and what a range gave to a group cannot be taken out of it: there is no replay. To have it "
        f"built anew from {topic}, move the table's folder in the lake away: the next run begins at the log start"
    )


def plan(table: TopicTable, context: RunContext, request: ReplayRequest) -> OffsetRanges:
    """Return the offsets that ``request`` means; writes nothing and reads no record.

    :raises NotReadyError: there is no such topic or table. :raises ProgressError: as ``run_replay``, and where nothing of a span of time is
        left in the log.
    """
    if table.aggregates:
        raise ProgressError(why_no_replay_of_groups(table.name, table.topic.name))
    state = read_state(table, context)
    if state.snapshot is None:
        raise NotReadyError(f"the table {table.name} does not exist yet: there is nothing to replay")
    wanted = _wanted_ranges(table, context, request, state)
    lost = _lost_of_time(table, context, request, state)
    if lost and not wanted:
        raise ProgressError(f"there is nothing to replay for the table {table.name}: {lost}")
    if lost:
        context.reporter.note(f"the replay of {table.name} is not whole: {lost}")
    return plan_replay(topic=table.topic.name, topic_id=state.topic_id, wanted=wanted, log=state.log, committed=state.committed)


def pieces(ranges: OffsetRanges, limit: int) -> Iterator[OffsetRanges]:
    """Cut ``ranges`` into pieces of at most ``limit`` offsets, each with its share of every partition.

    A run of the table shares its limit in the same way, so that a piece mostly takes the place of whole files.
    """
    left: dict[int, list[OffsetRange]] = {}
    for one in ranges:
        left.setdefault(one.partition, []).append(one)
    while left:
        shares = share_limit({partition: sum(one.count for one in kept) for partition, kept in left.items()}, limit)
        yield _some(ranges, [part for partition, share in shares.items() for part in _taken(left[partition], share)])
        left = {partition: kept for partition, kept in left.items() if kept}


def _taken(kept: list[OffsetRange], count: int) -> Iterator[OffsetRange]:
    """Yield the first ``count`` offsets, and leave the others."""
    while count > 0:
        one = kept.pop(0)
        end = min(one.end, one.start + count)
        yield OffsetRange(partition=one.partition, start=one.start, end=end)
        if end < one.end:
            kept.insert(0, OffsetRange(partition=one.partition, start=end, end=one.end))
        count -= end - one.start


def _some(ranges: OffsetRanges, held: Sequence[OffsetRange]) -> OffsetRanges:
    return OffsetRanges(topic=ranges.topic, topic_id=ranges.topic_id, ranges=tuple(held))


def _run_piece(table: TopicTable, context: RunContext, wanted: OffsetRanges) -> TopicRunResult:
    return attempted(context, lambda: _attempt(table, context, wanted))


def _attempt(table: TopicTable, context: RunContext, wanted: OffsetRanges) -> TopicRunResult:
    letters = DeadLetters(context.lake)
    letters_snapshot = letters.snapshot()
    state = read_state(table, context)
    if state.snapshot is None or state.topic_id != wanted.topic_id:
        raise NotReadyError(f"the table {table.name} or its topic {table.topic.name} was made anew while it was replayed")
    ranges = plan_replay(topic=wanted.topic, topic_id=wanted.topic_id, wanted=wanted, log=state.log, committed=state.committed)
    reader = FixedReader(context.log.range_reader(), Fixes(context.lake).of(table.name, state.topic_id))
    source = read_batch(
        context.session(),
        reader,
        ranges,
        table.topic.fields,
        value_format=table.topic.value_format,
        arrow_records=context.arrow_records,
        scratch=context.scratch,
        has_headers=table.has_headers,
    )
    try:
        existing = TableKeys(snapshot=state.snapshot, without=ranges_predicate(ranges))
        result = checked_batch(table, context, source, state, existing)
        if result.failures:
            return replace(result, kind="replay")
        assert result.batch is not None
        origin = Origin(target=table.name, topic=table.topic.name, topic_id=state.topic_id, run_id=context.run_id)
        rejected = dead_letter_rows(origin, source, result.batch.rejections, context.now())
        staying = letters_that_stay(origin, context, source, ranges)
    finally:
        source.release()
    conform(result.batch.rows, table.name, state.snapshot.arrow_schema, is_evolving=table.is_evolving)
    changes = decide_changes(table, state, result.batch, Replaced(ranges=ranges, is_whole=_is_whole(ranges, state)))
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


def _is_whole(ranges: OffsetRanges, state: TopicState) -> bool:
    """Whether ``ranges`` are all that was committed and is in the log."""
    starts = {one.partition: one.log_start_offset for one in state.log}
    everything = [
        OffsetRange(partition=partition, start=starts[partition], end=one.next_offset)
        for partition, one in sorted(state.committed.items())
        if starts[partition] < one.next_offset
    ]
    return merged(list(ranges)) == everything


def _wanted_ranges(table: TopicTable, context: RunContext, request: ReplayRequest, state: TopicState) -> list[OffsetRange]:
    wanted = list(request.ranges)
    if request.is_everything:
        wanted += _ranges_of_time(table, context, ReplayRequest(), state)
    elif request.from_ms is not None or request.to_ms is not None:
        wanted += _ranges_of_time(table, context, request, state)
    if request.is_of_dead_letters:
        starts = {one.partition: one.log_start_offset for one in state.log}
        letters = DeadLetters(context.lake).replay_ranges(table.name, state.topic_id)
        kept = [one for one in letters if one.start >= starts.get(one.partition, 0)]
        if len(kept) < len(letters):
            context.reporter.note(f"{len(letters) - len(kept)} ranges of dead letters are no longer in the log; they stay as they are")
        wanted += kept
    return merged(wanted)


def lost_records(table: TopicTable, context: RunContext, request: ReplayRequest) -> str:
    """Return what of the span of time of ``request`` is no longer in the log, in words; empty where nothing is known to be missing."""
    return _lost_of_time(table, context, request, read_state(table, context))


def _lost_of_time(table: TopicTable, context: RunContext, request: ReplayRequest, state: TopicState) -> str:
    if request.is_everything or (request.from_ms is None and request.to_ms is None):
        return ""
    starts = None if request.from_ms is None else context.log.offsets_at(table.topic.name, request.from_ms)
    return lost_sentence(decide_lost(state.log, state.committed, starts), context.lake, table.topic.name)


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
