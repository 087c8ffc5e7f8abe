"""The records of a run that retention has removed from the log, read from the topic's archive.

Decides from which offset on archive and log hold a partition without a gap. Opens the archive only
if the log no longer holds the next records, so that other runs pay nothing for it. Writes nothing,
and knows no table.
Invariant: reading begins below the log start offset only if the archive has each offset from there
up to the log.
"""

from collections.abc import Mapping, Sequence

from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import LogClient
from orchestration.offsets.planning import Checkpoint, PartitionOffsets
from orchestration.retained.readable_records import HeldTopic, held_topic


def overtaken(
    topic: str,
    topic_id: str,
    offsets: Sequence[PartitionOffsets],
    committed: Mapping[int, Checkpoint],
    *,
    log: LogClient,
    lake: Lake,
) -> HeldTopic | None:
    """Return the ranges of archive and log if retention has removed the next records from the log.

    Return None if the log has the next records, or if there is no archive. ``offsets`` are those of
    the log, and ``committed`` has the next offset of each partition.
    """
    if not any(
        one.partition in committed and committed[one.partition].next_offset < one.log_start_offset
        for one in offsets
    ):
        return None
    held = held_topic(topic, topic_id, log, offsets, lake)
    return None if held.archive is None else held


def readable_starts(held: HeldTopic, offsets: Sequence[PartitionOffsets]) -> dict[int, int]:
    """Return, by partition, the first offset from which no offset up to the log is missing.

    Partitions without such an offset are left out.
    """
    starts = {}
    for one in offsets:
        tail = held.tails.get(one.partition, [])
        if tail and tail[0].start < one.log_start_offset <= tail[0].end:
            starts[one.partition] = tail[0].start
    return starts
