"""What a table notes of each partition beside its checkpoint: where it begins, and the holes that accepted losses left in it.

Each mark is an application transaction, so that it moves with the rows. These hold one number by name and cannot be listed, therefore each
hole names the one before it. Archives and tables of aggregates have marks; those of earlier releases have none. Knows no broker.
"""

from collections.abc import Callable, Mapping

from orchestration.offsets.planning import Checkpoint
from orchestration.offsets.ranges import OffsetRange, OffsetRanges

NO_HOLE = 0
Versions = Callable[[str], int | None]
"""The version that an application transaction last committed, None if it never did."""


def marks_of(taken: OffsetRanges, committed: Mapping[int, Checkpoint], versions: Versions) -> dict[str, int]:
    """Return what a commit of ``taken`` notes: the beginning of partitions that are new, and what was lost before the others."""
    found: dict[str, int] = {}
    for one in taken:
        before = committed.get(one.partition)
        hole = _hole(taken.topic_id, one.partition)
        if before is None:
            found[beginning(taken.topic_id, one.partition)] = one.start
        elif one.start > before.next_offset:
            found |= {
                hole: one.start,
                f"{hole}/{one.start}": before.next_offset,
                f"{hole}/{one.start}/before": versions(hole) or NO_HOLE,
            }
    return found


def beginning(topic_id: str, partition: int) -> str:
    """Return the name of the mark that says from which offset on the table has a partition."""
    return f"{topic_id}/{partition}/begins_at"


def holes_in(topic_id: str, partition: int, versions: Versions) -> tuple[OffsetRange, ...]:
    """Return the offsets that were lost before they were read, in order."""
    hole = _hole(topic_id, partition)
    found = []
    end = versions(hole)
    while end:
        found.append(OffsetRange(partition=partition, start=versions(f"{hole}/{end}") or 0, end=end))
        end = versions(f"{hole}/{end}/before")
    return tuple(reversed(found))


def _hole(topic_id: str, partition: int) -> str:
    """Return the name of the mark that says where the newest hole ends."""
    return f"{topic_id}/{partition}/hole"
