"""What a run reads where retention has overtaken it: the archive of its topic, as if the log still held the records.

Decides from which offset on archive and log hold a partition without a gap. Looks at the archive only where the log no longer holds what
comes next, so that other runs have nothing of it. Writes nothing, and knows no table.
Invariant: reading begins below the log start only where each offset from there up to the log is in the archive.
"""

from collections.abc import Mapping, Sequence

from orchestration.checkpoints import Checkpoint, PartitionOffsets
from orchestration.held_records import HeldTopic, held_topic
from orchestration.log_client import LogClient
from orchestration.tables import Lake


def overtaken(
    topic: str, topic_id: str, offsets: Sequence[PartitionOffsets], committed: Mapping[int, Checkpoint], *, log: LogClient, lake: Lake
) -> HeldTopic | None:
    """Return what archive and log hold, where retention has removed what comes next and there is an archive; None otherwise.

    ``offsets`` are what the log says of the topic, and ``committed`` says by partition what comes next.
    """
    if not any(one.partition in committed and committed[one.partition].next_offset < one.log_start_offset for one in offsets):
        return None
    held = held_topic(topic, topic_id, log, offsets, lake)
    return None if held.archive is None else held


def readable_starts(held: HeldTopic, offsets: Sequence[PartitionOffsets]) -> dict[int, int]:
    """Return, by partition, the first offset from which on nothing is missing up to the log; partitions without such are left out."""
    starts = {}
    for one in offsets:
        tail = held.tails.get(one.partition, [])
        if tail and tail[0].start < one.log_start_offset <= tail[0].end:
            starts[one.partition] = tail[0].start
    return starts
