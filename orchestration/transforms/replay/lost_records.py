"""Records that a replay cannot reach: retention removed them and no archive holds them.

Decides which gaps of a topic may have held records of a span of time. The times of removed records
are unknown. So a gap counts if the first remaining record of the span is directly after it, because
the gap may have held earlier records of the span. Writes nothing.
"""

from collections.abc import Mapping, Sequence

from orchestration.offsets.planning import Checkpoint
from orchestration.offsets.ranges import OffsetRange, outside, within
from orchestration.retained.readable_records import HeldTopic, Ranges

Offsets = Mapping[int, int | None]
"""The first offset at or after a time, by partition. It is None if all records are older."""


def decide_lost(
    held: Ranges,
    committed: Mapping[int, Checkpoint],
    starts: Offsets | None,
    ends: Offsets | None = None,
) -> list[OffsetRange]:
    """Return the gaps, among committed offsets, that may have held records of a span of time.

    ``held`` has the readable ranges of every partition. ``starts`` and ``ends`` are the first
    offsets in the span and after it. If ``starts`` or ``ends`` itself is None, the span has no
    beginning, or no end.
    """
    found = []
    for partition, ranges in sorted(held.items()):
        for gap in gaps_below(partition, ranges, committed):
            is_begun = starts is None or _begins_by(gap, starts.get(partition), ranges)
            end = None if ends is None else ends.get(partition)
            if is_begun and (end is None or end >= gap.end):
                found.append(gap)
    return found


def gaps_below(
    partition: int, held: Sequence[OffsetRange], committed: Mapping[int, Checkpoint]
) -> list[OffsetRange]:
    """Return the committed offsets of a partition that can no longer be read."""
    if partition not in committed:
        return []
    return outside(
        [OffsetRange(partition=partition, start=0, end=committed[partition].next_offset)], held
    )


def _begins_by(gap: OffsetRange, start: int | None, held: Sequence[OffsetRange]) -> bool:
    """Return whether the span may begin within the gap or before it.

    If no record of the span is left, return True for a gap without readable records after it.
    """
    if start is None:
        return not held or held[-1].end <= gap.start
    return start <= gap.end


def lost_sentence(
    lost: Sequence[OffsetRange],
    held: HeldTopic,
    *,
    is_of_time: bool = True,
    is_archive_read: bool = True,
) -> str:
    """Return a sentence about gaps that also names the topic's archive.

    It is empty without gaps. ``is_of_time`` says that a span of time is requested, so that it is
    unknown whether the gaps held records of it. ``is_archive_read`` is False if a part of a table
    of newest rows is replayed, because its archive is not read then.
    """
    if not lost:
        return ""
    unread = (
        within(lost, [part for found in held.ranges.values() for part in found])
        if is_archive_read
        else []
    )
    archive = (
        ""
        if held.archive is None
        else f"the topic's archive, the lake table {held.archive.snapshot.name},"
    )
    sentences = []
    if gone := outside(lost, unread):
        addition = ", and records of that time may be among them" if is_of_time else ""
        sentences.append(f"retention has removed {_places(gone, held)} from the log{addition}")
        if not archive:
            sentences.append("the topic has no archive")
        elif is_archive_read:
            sentences.append(f"{archive} does not hold them")
        else:
            sentences.append(
                f"{archive} is read only where everything is replayed: of a table that keeps the"
                " newest row of each key, a deletion behind them may have been forgotten"
            )
    if unread:
        sentences.append(
            f"{'it' if gone else archive} holds {_places(unread, held)}, which are not read: of a"
            " table that keeps the newest row of each key, a deletion in the gap behind them may"
            " have been forgotten"
        )
    return "; ".join(sentences)


def _places(ranges: Sequence[OffsetRange], held: HeldTopic) -> str:
    return ", ".join(f"{held.topic}-{one.partition} [{one.start}, {one.end})" for one in ranges)
