"""Plans the offsets that a run reads, from the table's checkpoints and the log's offsets.

Decides where a batch starts and ends, how partitions share a limit, which ranges a replay may
touch, and when to refuse. A log that was truncated or cleaned under the table is reported, never
skipped. Knows no broker, no table and no clock.
Invariants: a planned range starts at the partition's checkpoint (the log start if there is none)
and ends at or below its last stable offset. A checkpoint never goes back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from orchestration.offsets.ranges import OffsetRange, OffsetRanges, outside

NO_ARCHIVE: Mapping[int, int] = MappingProxyType({})
UNDEFINED_OFFSET = -1
"""The response of OffsetForLeaderEpoch for an epoch that the leader has never known (KIP-101)."""


class ProgressError(Exception):
    """A further run would lose or repeat records, so it is refused.

    The text names topic, partition and offsets, and gives the remedy.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """The bounds of one partition in the log, as the log service reports them."""

    partition: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The progress of a table in one partition.

    It holds the next offset to read, and the leader epoch of the last record read if it is known.
    """

    next_offset: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The ranges that one run has to read.

    ``notes`` are sentences for the run's log. ``backlog`` counts offsets that the limit left for
    later runs. If the log no longer holds any unread record of a partition, an empty range moves
    the checkpoint to the log start.
    """

    ranges: OffsetRanges
    backlog: int
    notes: tuple[str, ...]

    def as_read(self, taken: OffsetRanges) -> "BatchPlan":
        """Return the plan of a run that has read only ``taken``.

        The offsets that were not read are added to the backlog.
        """
        return replace(self, ranges=taken, backlog=self.backlog + self.ranges.count - taken.count)

    @property
    def is_empty(self) -> bool:
        """Return whether there is no offset to read and no checkpoint to move."""
        return not self.ranges.ranges


def plan_batch(
    *,
    topic: str,
    topic_id: str,
    log: Sequence[PartitionOffsets],
    committed: Mapping[int, Checkpoint],
    epoch_ends: Mapping[int, int],
    other_topic_ids: Iterable[str] = (),
    limit: int,
    is_loss_accepted: bool = False,
    archived_starts: Mapping[int, int] = NO_ARCHIVE,
) -> BatchPlan:
    """Return the ranges [checkpoint, last stable offset), with at most ``limit`` offsets in all.

    ``epoch_ends`` holds, by partition, the end offset that the leader gives for the checkpoint's
    leader epoch. ``other_topic_ids`` are ids of earlier topics of this name that the table has rows
    of. If retention removed unread records, ``is_loss_accepted`` starts at the log start.
    ``archived_starts`` are, by partition, offsets below the log start. From each of them on, an
    archive holds all records up to the log start.

    :raises ProgressError: the log was truncated below a checkpoint, or records were removed before
        they were read.
    """
    notes: list[str] = []
    recreated = sorted(set(other_topic_ids) - {topic_id})
    if recreated and not committed:
        notes.append(
            f"topic {topic} was recreated: its id is now {topic_id} (the table also holds"
            f" {', '.join(recreated)}); reading starts at its log start"
        )
    starts = {}
    for state in sorted(log, key=lambda one: one.partition):
        start, note = _start_of(
            topic,
            state,
            committed.get(state.partition),
            epoch_ends.get(state.partition),
            min(
                state.log_start_offset, archived_starts.get(state.partition, state.log_start_offset)
            ),
            is_loss_accepted=is_loss_accepted,
        )
        starts[state.partition] = start
        notes.extend(note)
    pending = {
        state.partition: max(state.last_stable_offset - starts[state.partition], 0) for state in log
    }
    shares = share_limit(pending, limit)
    ranges = tuple(
        OffsetRange(partition=partition, start=starts[partition], end=starts[partition] + share)
        for partition, share in sorted(shares.items())
        if share > 0 or _is_overtaken(committed.get(partition), starts[partition])
    )
    backlog = sum(pending.values()) - sum(shares.values())
    return BatchPlan(
        ranges=OffsetRanges(topic=topic, topic_id=topic_id, ranges=ranges),
        backlog=backlog,
        notes=tuple(notes),
    )


def _is_overtaken(checkpoint: Checkpoint | None, start: int) -> bool:
    """Return whether reading starts above the checkpoint.

    It does so only if the loss of the records in between is accepted.
    """
    return checkpoint is not None and start > checkpoint.next_offset


def _start_of(
    topic: str,
    state: PartitionOffsets,
    checkpoint: Checkpoint | None,
    epoch_end: int | None,
    held_from: int,
    *,
    is_loss_accepted: bool,
) -> tuple[int, list[str]]:
    if checkpoint is None:
        return state.log_start_offset, []
    where = f"{topic}-{state.partition}"
    _validate_not_truncated(where, state, checkpoint, epoch_end)
    start = checkpoint.next_offset
    if start >= state.log_start_offset:
        return start, []
    if start >= held_from:
        return start, [
            f"{where}: the offsets [{start}, {state.log_start_offset}) are no longer in the log and"
            " are read from its archive"
        ]
    lost = (
        f"{where}: the offsets [{start}, {held_from}) were removed from the log before the table"
        " read them"
    )
    if not is_loss_accepted:
        raise ProgressError(
            f"{lost}. Nothing was read or committed. Give the topic a longer retention"
            " (retention.ms, retention.bytes); to go on without those records run the table once"
            " with the config accept_lost_records: true"
        )
    return held_from, [f"{lost}; going on without them, as the run's config asks"]


def _validate_not_truncated(
    where: str, state: PartitionOffsets, checkpoint: Checkpoint, epoch_end: int | None
) -> None:
    advice = (
        "The log lost records that the table holds (an unclean election, or a log directory put"
        " back from a copy). Nothing was read or committed. Restore the log, or move the table away"
        " and let it be built anew"
    )
    if state.high_watermark < checkpoint.next_offset:
        raise ProgressError(
            f"{where}: the high watermark {state.high_watermark} is below the table's checkpoint"
            f" {checkpoint.next_offset}. {advice}"
        )
    is_log_empty = state.log_start_offset >= state.high_watermark
    if epoch_end is None or checkpoint.leader_epoch is None or is_log_empty:
        return
    if epoch_end == UNDEFINED_OFFSET:
        raise ProgressError(
            f"{where}: the leader does not know leader epoch {checkpoint.leader_epoch}, "
            f"of which the table holds records up to offset {checkpoint.next_offset}. {advice}"
        )
    if epoch_end < checkpoint.next_offset:
        raise ProgressError(
            f"{where}: leader epoch {checkpoint.leader_epoch} ends at offset {epoch_end}, "
            f"below the table's checkpoint {checkpoint.next_offset}. {advice}"
        )


def share_limit(pending: Mapping[int, int], limit: int) -> dict[int, int]:
    """Share ``limit`` offsets among partitions, so that no partition starves.

    Short backlogs are read whole, and the rest is shared in equal parts.

    >>> share_limit({0: 10, 1: 1000, 2: 1000}, 110)
    {0: 10, 1: 50, 2: 50}
    """
    shares: dict[int, int] = {}
    left, open_partitions = (
        limit,
        sorted(pending, key=lambda partition: (pending[partition], partition)),
    )
    for position, partition in enumerate(open_partitions):
        share = min(pending[partition], left // (len(open_partitions) - position))
        if share == 0 and left > 0 and pending[partition] > 0:
            share = 1
        shares[partition] = share
        left -= share
    return dict(sorted(shares.items()))


def plan_replay(
    *,
    topic: str,
    topic_id: str,
    wanted: Iterable[OffsetRange],
    held: Mapping[int, Sequence[OffsetRange]],
    committed: Mapping[int, Checkpoint],
) -> OffsetRanges:
    """Return ``wanted`` in order, if every range was committed before and can be read.

    ``held`` are, for every partition, the ranges that can be read.

    :raises ProgressError: a range reaches above the checkpoint, is not within ``held``, overlaps
        another, or names an unknown partition.
    """
    ranges: list[OffsetRange] = []
    for one in sorted(wanted):
        if one.partition not in held:
            raise ProgressError(
                f"topic {topic} has no partition {one.partition}: it has {len(held)}"
            )
        if ranges and ranges[-1].partition == one.partition and ranges[-1].end > one.start:
            raise ProgressError(f"the replay ranges {ranges[-1]} and {one} of {topic} overlap")
        ranges.append(
            _validated_replay(
                f"{topic}-{one.partition}", one, held[one.partition], committed.get(one.partition)
            )
        )
    return OffsetRanges(topic=topic, topic_id=topic_id, ranges=tuple(ranges)).without_empty()


def _validated_replay(
    where: str, wanted: OffsetRange, held: Sequence[OffsetRange], checkpoint: Checkpoint | None
) -> OffsetRange:
    next_offset = checkpoint.next_offset if checkpoint else 0
    if wanted.end > next_offset:
        raise ProgressError(
            f"{where}: the replay [{wanted.start}, {wanted.end}) reaches above the checkpoint"
            f" {next_offset}. A replay repeats what was committed; a run without replay reads what"
            " comes after"
        )
    gone = outside([wanted], held)
    if gone:
        places = ", ".join(f"[{one.start}, {one.end})" for one in gone)
        left = ", ".join(f"[{one.start}, {one.end})" for one in held) or "nothing"
        raise ProgressError(
            f"{where}: of the replay [{wanted.start}, {wanted.end}) neither the log nor an archive"
            f" of the topic holds {places}: those records are gone. Replay within what is left:"
            f" {left}"
        )
    return wanted


def clip_replay(
    start: int | None, end: int | None, held: Sequence[OffsetRange], checkpoint: Checkpoint | None
) -> list[OffsetRange]:
    """Return the committed parts of [start, end) of a partition that are within ``held``.

    The checkpoint replaces a bound that is None. A replay by time passes None, because a time
    after the last record has no offset.
    """
    next_offset = checkpoint.next_offset if checkpoint else 0
    first = next_offset if start is None else start
    after = min(next_offset if end is None else end, next_offset)
    return [
        OffsetRange(partition=one.partition, start=max(one.start, first), end=min(one.end, after))
        for one in held
        if max(one.start, first) < min(one.end, after)
    ]


def validate_advance(
    topic: str, committed: Mapping[int, Checkpoint], ends: Mapping[int, int]
) -> None:
    """Refuse a commit that would move a checkpoint back, because Delta itself would accept it.

    :raises ProgressError: an end is below its partition's checkpoint.
    """
    for partition, end in ends.items():
        checkpoint = committed.get(partition)
        if checkpoint is not None and end < checkpoint.next_offset:
            raise ProgressError(
                f"{topic}-{partition}: a commit of offset {end} would move the checkpoint back from"
                f" {checkpoint.next_offset}; refused"
            )
