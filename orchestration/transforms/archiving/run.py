"""A run that archives a topic, without Dagster: plan, read, write files, and commit.

It takes a chunk of each partition at a time. It ends at the offsets where the log ended when the
run began. One commit holds the files of its ranges and the checkpoints after them. At the end of a
sweep it also holds the time of the sweep and the removal of expired files. So a run that is killed
at any moment has committed whole chunks or nothing. A commit of another writer restarts the
attempt. Knows no Spark. Invariant: each committed record below the archive's end is in it once,
unless it was no longer in the log, could not be read, or is no longer kept. A batch that cannot be
read leaves a gap, like a batch that retention has removed.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import (
    CommitConflictError,
    Lake,
    TableSnapshot,
    advance,
    commit_properties,
    conflicts_translated,
)
from orchestration.log_client.protocol import UNREADABLE, LogClient, OtherTopicError, RangeReader
from orchestration.offsets.known_gaps import beginning, commit_marks
from orchestration.offsets.planning import BatchPlan, Checkpoint, PartitionOffsets
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.retained.archive import Archive, archive_table
from orchestration.retained.archive_files import (
    ARCHIVE_SCHEMA,
    FILE_BYTES,
    PARTITION_BY,
    Chunk,
    discard,
    move_in,
    staging,
    write_chunk,
)
from orchestration.retained.archive_reading import (
    ARCHIVE_OF,
    ArchivedFile,
    archived_by,
    expired_files,
    files_of,
)
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.archiving.planning import is_tidying_due, pinned, plan_archive
from orchestration.transforms.errors import NotReadyError

COMMITS_PER_RUN = 50
"""Most commits of a run. The next run archives the rest."""
SWEPT_AT = "archive_swept_at"
"""The application transaction of sweeps.

Its version is the time of the last one. It is in seconds since 1970.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveContext:
    """The context of a run.

    ``pin`` gets the ranges before they are read, and ``note`` gets sentences for a person.
    """

    log: LogClient
    lake: Lake
    note: Callable[[str], None]
    pin: Callable[[OffsetRanges], None]
    run_id: str
    commit_attempts: int
    is_sweep: bool = True
    is_loss_accepted: bool = False
    file_bytes: int = FILE_BYTES
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveState:
    """The state of topic and archive. ``snapshot`` is None if nothing was archived yet."""

    topic_id: str
    log: tuple[PartitionOffsets, ...]
    snapshot: TableSnapshot | None
    committed: Mapping[int, Checkpoint]


@dataclass(slots=True, kw_only=True)
class ArchiveReport:
    """The result of a run.

    ``version`` is None if nothing was committed. ``backlog`` counts the offsets that the run left.
    ``row_count`` is that of the archive afterwards.
    """

    state: ArchiveState
    version: int | None = None
    ranges: OffsetRanges | None = None
    records: int = 0
    size_bytes: int = 0
    files: int = 0
    files_expired: int = 0
    backlog: int = 0
    row_count: int = 0
    newest: datetime | None = None
    next_offsets: dict[int, int] = field(default_factory=dict)

    def add(self, chunks: Sequence[Chunk], ranges: OffsetRanges, expired: int) -> None:
        """Add a commit to the result."""
        self.ranges = ranges if self.ranges is None else self.ranges.spanning(ranges)
        self.records += sum(one.records for one in chunks)
        self.size_bytes += sum(one.size_bytes for one in chunks)
        self.files += sum(one.file is not None for one in chunks)
        self.files_expired += expired
        self.newest = max(
            (one for one in (self.newest, *(chunk.newest for chunk in chunks)) if one is not None),
            default=None,
        )
        self.next_offsets.update(ranges.ends())


def run_archive(spec: TopicSpec, context: ArchiveContext) -> ArchiveReport:
    """Archive the waiting records: all of them in a sweep, else the full chunks.

    :raises CommitConflictError, OtherTopicError: in every attempt another writer was faster, or the
        topic was created anew.
    :raises ProgressError, NotReadyError, SchemaConflictError: nothing more was committed. The text
        says what to do.
    """
    state = read_state(spec, context)
    ends = {one.partition: one.last_stable_offset for one in state.log}
    report = ArchiveReport(
        state=state,
        row_count=state.snapshot.row_count if state.snapshot is not None else 0,
        next_offsets={partition: one.next_offset for partition, one in state.committed.items()},
    )
    losses = 0
    for _ in range(COMMITS_PER_RUN):
        plan = _plan(spec, context, state, ends)
        for note in plan.notes:
            context.note(note)
        report.backlog = plan.backlog
        if plan.is_empty and not _is_tidying(spec, context, state):
            break
        try:
            _archive(spec, context, state, plan, report)
            losses = 0
        except (CommitConflictError, OtherTopicError) as conflict:
            losses += 1
            if losses == context.commit_attempts:
                raise
            context.note(
                f"{conflict}; looking again at what is left to archive (attempt {losses + 1} of"
                f" {context.commit_attempts})"
            )
        state = read_state(spec, context)
    return report


def read_state(spec: TopicSpec, context: ArchiveContext) -> ArchiveState:
    """Return the state of topic and archive.

    :raises NotReadyError: there is no such topic.
    :raises SchemaConflictError: the lake has a table with the archive's name that is not the
        archive of this topic.
    """
    description = context.log.describe_topic(spec.name)
    if description is None:
        raise NotReadyError(
            f"there is no topic {spec.name}: materialize topics/{spec.name}, which creates it"
        )
    snapshot = context.lake.snapshot(archive_table(spec.name))
    if snapshot is not None and archived_by(snapshot) != spec.name:
        raise SchemaConflictError(
            f"the lake has a table {snapshot.name} that is not the archive of the topic"
            f" {spec.name}: give the table, or the topic, another name, or move the table away"
        )
    log = context.log.partition_offsets(spec.name)
    committed = (
        snapshot.checkpoints(description.topic_id, [one.partition for one in log])
        if snapshot
        else {}
    )
    return ArchiveState(
        topic_id=description.topic_id, log=log, snapshot=snapshot, committed=committed
    )


def swept_at(snapshot: TableSnapshot | None) -> int | None:
    """Return the time of the last sweep, in seconds since 1970, None if there was none."""
    return None if snapshot is None else snapshot.transaction_version(SWEPT_AT)


def _policy(spec: TopicSpec) -> Archive:
    return spec.archived or Archive()


def _plan(
    spec: TopicSpec, context: ArchiveContext, state: ArchiveState, ends: Mapping[int, int]
) -> BatchPlan:
    epochs = {
        partition: one.leader_epoch
        for partition, one in state.committed.items()
        if one.leader_epoch is not None
    }
    return plan_archive(
        topic=spec.name,
        topic_id=state.topic_id,
        log=pinned(state.log, ends),
        committed=state.committed,
        epoch_ends=context.log.leader_epoch_ends(spec.name, epochs) if epochs else {},
        other_topic_ids=(
            state.snapshot.topic_ids() if state.snapshot is not None and not state.committed else ()
        ),
        chunk_records=_policy(spec).chunk_records,
        is_sweep=context.is_sweep,
        is_loss_accepted=context.is_loss_accepted,
    )


def _archive(
    spec: TopicSpec,
    context: ArchiveContext,
    state: ArchiveState,
    plan: BatchPlan,
    report: ArchiveReport,
) -> None:
    """Archive the planned ranges and commit them.

    :raises CommitConflictError: another writer was faster. Nothing was committed.
    :raises OtherTopicError: the topic was created anew.
    """
    if not plan.is_empty:
        context.pin(plan.ranges)
    target = state.snapshot or context.lake.create(
        archive_table(spec.name),
        ARCHIVE_SCHEMA,
        description=(
            f"The archive of the topic {spec.name}: its records as they were, in the order of their"
            " offsets"
        ),
        partition_by=PARTITION_BY,
        properties={ARCHIVE_OF: spec.name},
    )
    if archived_by(target) != spec.name:
        raise CommitConflictError(f"another writer made a table {target.name} at the same time")
    with staging(target.folder) as folder:
        chunks = _chunks(folder, context, plan)
        taken = OffsetRanges(
            topic=spec.name, topic_id=state.topic_id, ranges=tuple(one.taken for one in chunks)
        )
        is_through = context.is_sweep and plan.backlog == 0 and taken.ends() == plan.ranges.ends()
        expired = _expired(spec, context, target) if is_through else []
        epochs = {
            one.taken.partition: one.leader_epoch for one in chunks if one.leader_epoch is not None
        }
        transactions = {
            **advance(target, taken, epochs, state.committed),
            **commit_marks(taken, state.committed, target.transaction_version),
            **_kept_from(expired, state.topic_id),
        }
        if is_through:
            transactions[SWEPT_AT] = int(context.now().timestamp())
        actions = move_in(target.folder, chunks)
    notes = {"ranges": str(taken), "topic": spec.name, "run_id": context.run_id}
    try:
        commit_chunks(
            target,
            [*actions, *(_removal(one, context.now()) for one in expired)],
            transactions,
            notes,
        )
    except CommitConflictError:
        discard(target.folder, actions, context.lake.existing(target.name).files)
        raise
    report.add(chunks, taken, len(expired))
    committed = context.lake.existing(target.name)
    report.version, report.row_count = committed.version, committed.row_count


def _chunks(folder: Path, context: ArchiveContext, plan: BatchPlan) -> list[Chunk]:
    read = context.log.range_reader(is_tolerant=True)
    chunks = []
    for one in plan.ranges:
        with closing(_records(read, plan.ranges, one)) as batches:
            found = _Readable(one)
            chunk = write_chunk(
                folder,
                plan.ranges.topic_id,
                one,
                found.batches(batches),
                limit_bytes=context.file_bytes,
            )
        taken = OffsetRange(
            partition=one.partition,
            start=found.start,
            end=max(found.start, min(chunk.taken.end, found.end)),
        )
        chunks.append(
            chunk if taken == chunk.taken else replace(chunk, taken=taken, leader_epoch=None)
        )
        if found.reason is not None:
            context.note(
                f"{plan.ranges.topic}-{one.partition}: {found.reason}. The archive of the topic"
                " goes on behind it"
            )
    return chunks


class _Readable:
    """Filters the records of a range down to its first readable part.

    The part begins after unreadable offsets at the start, and ends before the next unreadable one.
    """

    def __init__(self, wanted: OffsetRange) -> None:
        self.start, self.end = wanted.start, wanted.end
        self.reason: str | None = None

    def batches(self, found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of the part. ``start``, ``end`` and ``reason`` are valid afterwards."""
        is_at_start = True
        for batch in found:
            reasons = (
                batch[UNREADABLE].to_pylist()
                if UNREADABLE in batch.schema.names
                else [None] * batch.num_rows
            )
            first = (
                next((row for row, reason in enumerate(reasons) if reason is None), len(reasons))
                if is_at_start
                else 0
            )
            if first:
                self.start, self.reason = batch["offset"][first - 1].as_py() + 1, reasons[first - 1]
            last = next(
                (row for row in range(first, len(reasons)) if reasons[row] is not None),
                len(reasons),
            )
            if last > first:
                is_at_start = False
                yield batch.select(
                    [name for name in batch.schema.names if name != UNREADABLE]
                ).slice(first, last - first)
            if last < len(reasons):
                self.end = batch["offset"][last].as_py()
                return


def _records(
    read: RangeReader, ranges: OffsetRanges, wanted: OffsetRange
) -> Generator[pa.RecordBatch]:
    """Yield the records of a range.

    An empty range, which only moves a checkpoint, yields nothing.
    """
    if not wanted.is_empty:
        yield from read(ranges.topic, wanted, topic_id=ranges.topic_id)


def commit_chunks(
    target: TableSnapshot,
    actions: list[AddAction | RemoveAction],
    transactions: Mapping[str, int],
    notes: Mapping[str, str],
) -> None:
    """Commit files and checkpoints to the archive in one version."""
    properties = commit_properties(notes, transactions)
    with conflicts_translated(target.name):
        if not actions:  # no record lies in the ranges, but their checkpoints move all the same
            write_deltalake(
                target.delta,
                target.arrow_schema.empty_table(),
                mode="append",
                commit_properties=properties,
            )
            return
        target.delta.create_write_transaction(
            actions,
            mode="append",
            schema=target.delta.schema(),
            partition_by=PARTITION_BY,
            commit_properties=properties,
        )


def _is_tidying(spec: TopicSpec, context: ArchiveContext, state: ArchiveState) -> bool:
    """Return whether expired files are to be removed although there is nothing to archive."""
    return context.is_sweep and is_tidying_due(
        _policy(spec), swept_at(state.snapshot), context.now().timestamp()
    )


def _expired(spec: TopicSpec, context: ArchiveContext, target: TableSnapshot) -> list[ArchivedFile]:
    kept_s = _policy(spec).kept_s
    return (
        []
        if kept_s is None
        else expired_files(files_of(target), int((context.now().timestamp() - kept_s) * 1000))
    )


def _kept_from(expired: Sequence[ArchivedFile], topic_id: str) -> dict[str, int]:
    """Return transactions that note where each partition begins once ``expired`` is removed.

    ``expired`` are files. A partition then begins after the last record of its expired files.
    """
    found: dict[str, int] = {}
    for one in expired:
        if one.offsets is not None and one.topic_ids == (topic_id, topic_id):
            mark = beginning(topic_id, one.partition)
            found[mark] = max(found.get(mark, 0), one.offsets[1] + 1)
    return found


def _removal(file: ArchivedFile, now: datetime) -> RemoveAction:
    return RemoveAction(
        file.path,
        True,
        int(now.timestamp() * 1000),
        file.size_bytes,
        {"_partition": str(file.partition)},
    )
