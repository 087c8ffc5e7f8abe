"""Builds the responses to OffsetFetch from committed offsets.

This file decides the response for a partition with an offset, without one, or with one that an open
transaction may still change. A group may have very many offsets. A response with all of them is
built in steps, from a copy that does not change meanwhile.
"""

from dataclasses import dataclass
from operator import attrgetter

from log_service.common.errors import ErrorCode
from log_service.common.steps import Steps, sorted_in_steps
from log_service.common.types import TopicPartition
from log_service.coordinator.group.records.offset import CommittedOffset
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = -1
OFFSETS_PER_STEP = 500

GroupOffsets = dict[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOffsets:
    """A copy of all offsets of a group, from which a response is built in several steps.

    ``unstable`` are the partitions whose offset an open transaction may still change.
    """

    group_id: str
    offsets: GroupOffsets
    unstable: frozenset[TopicPartition]

    def response(self) -> Steps[OffsetFetchResponseGroup]:
        """Build the response, sorted by topic, from a bounded number of offsets in each step."""
        topics: dict[str, list[OffsetFetchResponsePartitions]] = {}
        left = OFFSETS_PER_STEP
        for where, committed in self.offsets.items():
            if left <= 0:
                yield
                left = OFFSETS_PER_STEP
            left -= 1
            topics.setdefault(where.topic, []).append(
                unstable_offset(where.partition)
                if where in self.unstable
                else fetched(where.partition, committed)
            )
        listed = []
        for name in (yield from sorted_in_steps(topics)):
            if left <= 0:
                yield
                left = OFFSETS_PER_STEP
            left -= 1
            partitions = sorted(topics[name], key=attrgetter("partition_index"))
            listed.append(OffsetFetchResponseTopics(name=name, partitions=partitions))
        return OffsetFetchResponseGroup(group_id=self.group_id, topics=listed)


def fetched(partition: int, committed: CommittedOffset | None) -> OffsetFetchResponsePartitions:
    """Return the response for one partition.

    Without a committed offset, the response holds offset -1 and no error.
    """
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=partition, committed_offset=NO_OFFSET, metadata=""
        )
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def unstable_offset(partition: int) -> OffsetFetchResponsePartitions:
    """Return the response for a partition whose offset an open transaction may still change."""
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
