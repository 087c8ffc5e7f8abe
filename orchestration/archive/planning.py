"""Pure planning: which offsets of a topic a run archives, and whether a run is due.

Decides that a partition is archived in chunks, and what is left over when ``within_s`` has passed. Where a batch starts, and when to refuse
because the log was truncated or cleaned, is decided as for every table (``orchestration.checkpoints``). Knows no clock, broker or table.
Invariants: a range begins at the archive's end and lies below the last stable offset; no range spans more than a chunk.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from orchestration.archive.declaration import DAY_S, Archive
from orchestration.checkpoints import BatchPlan, Checkpoint, PartitionOffsets, plan_batch
from orchestration.lag import TopicLag
from orchestration.offsets import OffsetRange, OffsetRanges

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
    """Return at most one chunk of each partition: of all that have something in a sweep, else of those that have a full one.

    :raises ProgressError: the log was truncated below the archive's end, or records were removed before they were archived.
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
    ranges = tuple(OffsetRange(partition=one.partition, start=one.start, end=min(one.end, one.start + chunk_records)) for one in chosen)
    backlog = whole.ranges.count - sum(one.count for one in ranges)
    return BatchPlan(ranges=OffsetRanges(topic=topic, topic_id=topic_id, ranges=ranges), backlog=backlog, notes=whole.notes)


def pinned(log: Sequence[PartitionOffsets], ends: Mapping[int, int]) -> tuple[PartitionOffsets, ...]:
    """Return the log as far as ``ends`` (by partition), so that a run which takes several chunks has an end."""
    return tuple(replace(one, last_stable_offset=min(one.last_stable_offset, ends.get(one.partition, 0))) for one in log)


def is_sweep_due(archive: Archive, swept_s: float | None, now_s: float) -> bool:
    """Return whether all that waits is to be archived. ``swept_s`` is when that was done last, None if never."""
    return swept_s is None or now_s - swept_s >= archive.within_s


def due_offsets(lag: TopicLag, archive: Archive, swept_s: float | None, now_s: float) -> int:
    """Return how many offsets a run has to archive now."""
    if is_sweep_due(archive, swept_s, now_s):
        return lag.pending
    return sum(one.pending for one in lag.partitions if one.pending >= archive.chunk_records)


def is_tidying_due(archive: Archive, swept_s: float | None, now_s: float) -> bool:
    """Return whether a run has to look for files that are no longer kept, though nothing new may have come: once a day."""
    return archive.kept_days is not None and swept_s is not None and now_s - swept_s >= DAY_S
