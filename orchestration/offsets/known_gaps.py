"""Stores the first offset of a table in each partition, and the gaps in its offsets.

A gap is a range that retention removed before the table read it, and whose loss a run accepted.
Each note is an application transaction, because it has to move with the rows. Transactions hold one
number by name and cannot be listed. Therefore the note on each gap names the gap before it.
Archives and tables of aggregates have notes, but those of earlier releases have none. Knows no
broker.
"""

from collections.abc import Callable, Mapping

from orchestration.offsets.planning import Checkpoint
from orchestration.offsets.ranges import OffsetRange, OffsetRanges

NO_HOLE = 0
Versions = Callable[[str], int | None]
"""Returns the version that an application transaction last committed, None if it never did."""


def commit_marks(
    taken: OffsetRanges, committed: Mapping[int, Checkpoint], versions: Versions
) -> dict[str, int]:
    """Return the application transactions that note first offsets and gaps of a commit.

    ``taken`` are the committed ranges. A new partition gets its first offset. Another partition
    gets a gap if ``taken`` starts above its checkpoint.
    """
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
    """Return the name of the transaction with the table's first offset in a partition."""
    return f"{topic_id}/{partition}/begins_at"


def holes_in(topic_id: str, partition: int, versions: Versions) -> tuple[OffsetRange, ...]:
    """Return the ranges that were lost before the table read them, in order."""
    hole = _hole(topic_id, partition)
    found = []
    end = versions(hole)
    while end:
        found.append(
            OffsetRange(partition=partition, start=versions(f"{hole}/{end}") or 0, end=end)
        )
        end = versions(f"{hole}/{end}/before")
    return tuple(reversed(found))


def _hole(topic_id: str, partition: int) -> str:
    """Return the name of the transaction with the end of the newest gap."""
    return f"{topic_id}/{partition}/hole"
