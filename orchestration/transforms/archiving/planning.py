"""Pure planning: which offsets of a topic a run archives, and whether a run is due.

A chunk is ``chunk_records`` offsets of a partition, and is archived as soon as it is full. A sweep
archives all waiting records. It is due ``within_s`` seconds after the last sweep.
``orchestration.offsets.planning`` decides where a batch starts, and when to refuse a truncated or
cleaned log, as for every table. Knows no clock, broker or table.
Invariants: a range begins at the archive's end and is below the last stable offset. No range
spans more than a chunk.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from orchestration.offsets.planning import BatchPlan, Checkpoint, PartitionOffsets, plan_batch
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.retained.archive import DAY_S, Archive
from orchestration.retained.lag import TopicLag

UNLIMITED = 2**62


def plan_archive(
    *,
    topic: str,
    topic_id: str,
    log: Sequence[PartitionOffsets],
    committed: Mapping[int, Checkpoint],
    epoch_ends: Mapping[int, int],
    other_topic_ids: Iterable[str] = (),
    chunk_records: int,
    is_sweep: bool,
    is_loss_accepted: bool = False,
) -> BatchPlan:
    """Return a plan with at most one chunk of each partition.

    A sweep takes all partitions that have waiting records. Any other run takes only full chunks.

    :raises ProgressError: the log was truncated below the archive's end, or records were removed
        before they were archived.
    """
    whole = plan_batch(
        topic=topic,
        topic_id=topic_id,
        log=log,
        committed=committed,
        epoch_ends=epoch_ends,
        other_topic_ids=other_topic_ids,
        limit=UNLIMITED,
        is_loss_accepted=is_loss_accepted,
    )
    chosen = [one for one in whole.ranges if is_sweep or one.is_empty or one.count >= chunk_records]
    ranges = tuple(
        OffsetRange(
            partition=one.partition, start=one.start, end=min(one.end, one.start + chunk_records)
        )
        for one in chosen
    )
    backlog = whole.ranges.count - sum(one.count for one in ranges)
    return BatchPlan(
        ranges=OffsetRanges(topic=topic, topic_id=topic_id, ranges=ranges),
        backlog=backlog,
        notes=whole.notes,
    )


def pinned(
    log: Sequence[PartitionOffsets], ends: Mapping[int, int]
) -> tuple[PartitionOffsets, ...]:
    """Return ``log`` with each last stable offset lowered to that in ``ends``, if it is higher.

    ``ends`` are offsets by partition. A run of several chunks plans with them, so that it ends
    although new records come.
    """
    return tuple(
        replace(one, last_stable_offset=min(one.last_stable_offset, ends.get(one.partition, 0)))
        for one in log
    )


def is_sweep_due(archive: Archive, swept_s: float | None, now_s: float) -> bool:
    """Return whether all waiting records are due.

    ``swept_s`` is the time of the last sweep, None if there was none.
    """
    return swept_s is None or now_s - swept_s >= archive.within_s


def due_offsets(lag: TopicLag, archive: Archive, swept_s: float | None, now_s: float) -> int:
    """Return how many offsets a run has to archive now."""
    if is_sweep_due(archive, swept_s, now_s):
        return lag.pending
    return sum(one.pending for one in lag.partitions if one.pending >= archive.chunk_records)


def is_tidying_due(archive: Archive, swept_s: float | None, now_s: float) -> bool:
    """Return whether a run has to look for expired files although no record waits.

    A sweep removes expired files, so it is due a day after the last one.
    """
    return archive.kept_days is not None and swept_s is not None and now_s - swept_s >= DAY_S
