"""Committed offsets of all groups of one shard: what a commit may change, what a fetch tells, and what expires.

It decides which records a commit, a deletion or the passing of time asks for, and changes only in ``replay``. It does not know
members: the shard has checked that the sender may commit. Expiry follows KIP-211: a group's offsets count down only while the group is
empty.
"""

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.types import NO_PRODUCER_ID, NO_TOPIC_ID, TopicPartition
from log_service.config.views import GroupConfig
from log_service.coordinator.group.records import NO_EXPIRY, CommittedOffset, GroupRecord, OffsetRecord
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from log_service.state_machine.decision import Decision, ReplayContext

NO_OFFSET = -1

GroupOffsets = dict[TopicPartition, CommittedOffset]
IsInUse = Callable[[str], bool]
"""Whether members of the group read a topic."""

LAST_TIMESTAMP_MS = 2**63 - 1
"""Later than this no record can say."""


class OffsetStore:
    """Positions by group and partition."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self._by_group: dict[str, GroupOffsets] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], tuple[int, OffsetRecord]]] = {}
        """What open transactions have said, by producer id, each with the offset of its record."""

    def of(self, group_id: str) -> GroupOffsets:
        """Return a group's positions; not to be changed."""
        return self._by_group.get(group_id, {})

    def group_ids(self) -> Iterator[str]:
        """Iterate over groups with at least one position."""
        yield from self._by_group

    def replay(self, record: OffsetRecord, context: ReplayContext) -> None:
        """Take over what the log holds. A position in a transaction counts once the transaction is committed."""
        if context.producer_id != NO_PRODUCER_ID:
            key = (record.group_id, TopicPartition(record.topic, record.partition))
            self._pending.setdefault(context.producer_id, {})[key] = (context.offset, record)
        else:
            self._take(context.offset, record)

    def replay_end_transaction(self, producer_id: int, *, is_committed: bool) -> set[str]:
        """End a producer's transaction and return the groups that it gave positions to."""
        ended = self._pending.pop(producer_id, {}).values()
        if not is_committed:
            return set()
        for offset, record in ended:
            self._take(offset, record)
        return {record.group_id for _, record in ended}

    def _take(self, offset: int, record: OffsetRecord) -> None:
        """Let a record count; what other transactions said before it does not count any more, however they end."""
        where = TopicPartition(record.topic, record.partition)
        for pending in self._pending.values():
            if pending.get((record.group_id, where), (offset,))[0] < offset:
                del pending[record.group_id, where]
        if record.committed is not None:
            self._by_group.setdefault(record.group_id, {})[where] = record.committed
            return
        offsets = self._by_group.get(record.group_id, {})
        offsets.pop(where, None)
        if not offsets:
            self._by_group.pop(record.group_id, None)

    def commit(self, request: OffsetCommitRequest, decision: Decision[GroupRecord]) -> OffsetCommitResponse:
        """Decide on every partition of a commit whose sender may commit."""
        response = OffsetCommitResponse()
        for topic in request.topics:
            told = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            for partition in topic.partitions:
                error = self._commit_one(request, topic, partition, decision)
                told.partitions.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error))
            response.topics.append(told)
        return response

    def _commit_one(
        self,
        request: OffsetCommitRequest,
        topic: OffsetCommitRequestTopic,
        partition: OffsetCommitRequestPartition,
        decision: Decision[GroupRecord],
    ) -> ErrorCode:
        metadata = partition.committed_metadata or ""
        if len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > self._config.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        retention_ms = request.retention_time_ms
        expires = NO_EXPIRY if retention_ms < 0 else min(decision.wall_ms + retention_ms, LAST_TIMESTAMP_MS)
        committed = CommittedOffset(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=metadata,
            commit_timestamp_ms=decision.wall_ms,
            expire_timestamp_ms=expires,
            topic_id=topic.topic_id,
        )
        decision.append(OffsetRecord(group_id=request.group_id, topic=topic.name, partition=partition.partition_index, committed=committed))
        return ErrorCode.NONE

    def fetch(self, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        """Return the positions that were asked for; all of the group's where no topics are named."""
        offsets = self.of(request.group_id)
        wanted = request.topics
        if wanted is None:
            wanted = [OffsetFetchRequestTopics(name=name, partition_indexes=found) for name, found in by_topic(offsets).items()]
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    fetched(index, _of_topic(offsets.get(TopicPartition(topic.name, index)), topic.topic_id))
                    for index in topic.partition_indexes
                ],
            )
            for topic in wanted
        ]
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def forget(self, group_id: str, partitions: Iterable[TopicPartition], decision: Decision[GroupRecord]) -> None:
        """Decide to take back the named positions, as far as there are any."""
        offsets = self.of(group_id)
        for where in partitions:
            if where in offsets:
                decision.append(OffsetRecord(group_id=group_id, topic=where.topic, partition=where.partition, committed=None))

    def delete(self, request: OffsetDeleteRequest, is_in_use: IsInUse, decision: Decision[GroupRecord]) -> OffsetDeleteResponse:
        """Decide on every partition of a deletion: what the group still reads stays."""
        response = OffsetDeleteResponse()
        for topic in request.topics:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_in_use(topic.name) else ErrorCode.NONE
            if error is ErrorCode.NONE:
                wanted = [TopicPartition(topic.name, partition.partition_index) for partition in topic.partitions]
                self.forget(request.group_id, wanted, decision)
            told = [OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error) for each in topic.partitions]
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=told))
        return response

    def expired(self, group_id: str, is_in_use: IsInUse, *, wall_ms: int, since_ms: int | None) -> list[TopicPartition]:
        """Return what has outlived its retention in topics that no member of the group is subscribed to.

        ``since_ms`` is when the group lost its last member; None where each position counts from its commit.
        """
        retention_ms = self._config.offsets_retention_ms
        found = []
        for topic, partitions in by_topic(self.of(group_id)).items():
            if is_in_use(topic):
                continue
            for partition in partitions:
                where = TopicPartition(topic, partition)
                if _is_over(self.of(group_id)[where], wall_ms=wall_ms, since_ms=since_ms, retention_ms=retention_ms):
                    found.append(where)
        return found


def _is_over(committed: CommittedOffset, *, wall_ms: int, since_ms: int | None, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return committed.expire_timestamp_ms <= wall_ms
    return (committed.commit_timestamp_ms if since_ms is None else since_ms) + retention_ms <= wall_ms


def _of_topic(committed: CommittedOffset | None, topic_id: UUID) -> CommittedOffset | None:
    """Return a position unless it was committed for an earlier topic of that name."""
    if committed is None or NO_TOPIC_ID in (committed.topic_id, topic_id) or committed.topic_id == topic_id:
        return committed
    return None


def by_topic(offsets: GroupOffsets) -> dict[str, list[int]]:
    """Group partitions by topic, in order."""
    topics: dict[str, list[int]] = {}
    for where in sorted(offsets):
        topics.setdefault(where.topic, []).append(where.partition)
    return topics


def fetched(partition: int, committed: CommittedOffset | None) -> OffsetFetchResponsePartitions:
    """Return what a fetch tells of one partition; nothing committed is offset -1 without an error."""
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=partition, committed_offset=NO_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
