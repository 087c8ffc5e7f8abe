"""What a replay of a span of time cannot reach: records that retention removed, so that the log begins within the span, or after it.

Decides which partitions lost the beginning of a span. The log does not tell the times of what it removed, so a partition whose first
record is younger than the span's start, and whose log no longer begins at offset 0, counts as one that lost something. Writes nothing.
"""

from collections.abc import Mapping, Sequence

from orchestration.archive.reading import find_archive
from orchestration.checkpoints import Checkpoint, PartitionOffsets
from orchestration.tables import Lake


def decide_lost(
    log: Sequence[PartitionOffsets], committed: Mapping[int, Checkpoint], starts: Mapping[int, int | None] | None
) -> list[PartitionOffsets]:
    """Return the partitions of a table that lost the beginning of a span.

    ``starts`` are the first offsets of the span as the log tells them, None where no record is as young; None altogether: the span has no
    beginning.
    """
    return [
        one
        for one in log
        if one.log_start_offset > 0 and one.partition in committed and (starts is None or _begins_within(one, starts.get(one.partition)))
    ]


def _begins_within(one: PartitionOffsets, start: int | None) -> bool:
    is_empty = one.log_start_offset >= one.high_watermark
    return is_empty or (start is not None and start <= one.log_start_offset)


def lost_sentence(lost: Sequence[PartitionOffsets], lake: Lake, topic: str) -> str:
    """Return what is said of them, with the topic's archive where there is one; empty where nothing was lost."""
    if not lost:
        return ""
    places = ", ".join(f"{topic}-{one.partition} [0, {one.log_start_offset})" for one in lost)
    archive = find_archive(lake, topic)
    where = (
        "the topic has no archive"
        if archive is None
        else f"the topic's archive, the lake table {archive.name}, has what was archived of them"
    )
    return f"retention has removed {places} from the log, and records of that time may be among them; {where}"
