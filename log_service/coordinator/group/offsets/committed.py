"""Committed offsets of all groups of one shard: commits, fetches, deletions, and expiry.

This file decides on the records of a commit, a deletion or an expiry. Its state changes only in
``replay``. It does not know members, because the shard has checked that the sender may commit. An
offset does not expire while members of the group may read its topic (KIP-211), or while an open
transaction holds a pending offset for the same partition. A fetch that requires stable offsets
(KIP-447) gets UNSTABLE_OFFSET_COMMIT until this transaction has ended.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.steps import finish
from log_service.common.types import NO_PRODUCER_ID, NO_TOPIC_ID, TopicPartition
from log_service.config.views import GroupConfig
from log_service.coordinator.group.offsets.fetching import (
    OFFSETS_PER_STEP,
    AllOffsets,
    GroupOffsets,
    fetched,
    unstable_offset,
)
from log_service.coordinator.group.offsets.pending import PendingOffsets
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.records.offset import NO_EXPIRY, CommittedOffset, OffsetRecord
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
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from log_service.state_machine.decision import Decision, ReplayContext

IsInUse = Callable[[str], bool]
"""Returns whether members of the group read a topic."""

LAST_TIMESTAMP_MS = 2**63 - 1
"""The latest timestamp that a record can hold."""


class OffsetStore:
    """Committed and pending offsets by group and partition."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self._by_group: dict[str, GroupOffsets] = {}
        self._pending = PendingOffsets()

    def of(self, group_id: str) -> GroupOffsets:
        """Return a group's committed offsets. The caller must not change them."""
        return self._by_group.get(group_id, {})

    def group_ids(self) -> Iterator[str]:
        """Iterate over groups with at least one committed or pending offset."""
        yield from self._by_group
        yield from (
            group_id for group_id in self._pending.group_ids() if group_id not in self._by_group
        )

    def pending_of(self, group_id: str) -> Collection[TopicPartition]:
        """Return the partitions for which a group has offsets in open transactions."""
        return self._pending.of(group_id)

    def last_pending_of(self, group_id: str, where: TopicPartition) -> int:
        """Return the log offset of the newest record with a pending offset for a partition.

        Without such a record, return ``NONE_PENDING``.
        """
        return self._pending.last_of(group_id, where)

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions in which a group has a committed or pending offset."""
        return list(dict.fromkeys((*self.of(group_id), *self._pending.of(group_id))))

    def replay(self, record: OffsetRecord, context: ReplayContext) -> None:
        """Apply one record of the log.

        A transactional offset is pending until its transaction commits.
        """
        if context.producer_id != NO_PRODUCER_ID:
            self._pending.add(context.producer_id, context.offset, record)
        else:
            self._take(context.offset, record)

    def replay_end_transaction(self, producer_id: int, *, is_committed: bool) -> set[str]:
        """End a producer's transaction and return the groups whose offsets it committed."""
        ended = self._pending.end(producer_id)
        if not is_committed:
            return set()
        for offset, record in ended:
            self._take(offset, record)
        return {record.group_id for _, record in ended}

    def _take(self, offset: int, record: OffsetRecord) -> None:
        """Apply a committed offset or its deletion. Earlier pending offsets never take effect."""
        where = TopicPartition(record.topic, record.partition)
        if record.committed is not None:
            self._pending.note_committed(record.group_id, where, offset)
            self._by_group.setdefault(record.group_id, {})[where] = record.committed
            return
        self._pending.note_deleted(record.group_id, where)
        offsets = self._by_group.get(record.group_id, {})
        offsets.pop(where, None)
        if not offsets:
            self._by_group.pop(record.group_id, None)

    def commit(
        self, request: OffsetCommitRequest, decision: Decision[GroupRecord]
    ) -> OffsetCommitResponse:
        """Append the offsets of a commit, and return the response with a result per partition.

        The caller has validated the sender.
        """
        response = OffsetCommitResponse()
        for topic in request.topics:
            topic_response = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            for partition in topic.partitions:
                error = self._commit_one(request, topic, partition, decision)
                topic_response.partitions.append(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                )
            response.topics.append(topic_response)
        return response

    def _commit_one(
        self,
        request: OffsetCommitRequest,
        topic: OffsetCommitRequestTopic,
        partition: OffsetCommitRequestPartition,
        decision: Decision[GroupRecord],
    ) -> ErrorCode:
        metadata = partition.committed_metadata or ""
        if self._is_too_large(metadata):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        retention_ms = request.retention_time_ms
        expires = (
            NO_EXPIRY
            if retention_ms < 0
            else min(decision.wall_ms + retention_ms, LAST_TIMESTAMP_MS)
        )
        committed = CommittedOffset(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=metadata,
            commit_timestamp_ms=decision.wall_ms,
            expire_timestamp_ms=expires,
            topic_id=topic.topic_id,
        )
        decision.append(
            OffsetRecord(
                group_id=request.group_id,
                topic=topic.name,
                partition=partition.partition_index,
                committed=committed,
            )
        )
        return ErrorCode.NONE

    def _is_too_large(self, metadata: str) -> bool:
        return (
            len(metadata.encode("utf-16-le", "surrogatepass")) // 2
            > self._config.offset_metadata_max_bytes
        )

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, decision: Decision[GroupRecord]
    ) -> TxnOffsetCommitResponse:
        """Append the offsets of a transactional commit, and return the response.

        The caller has validated the sender. A transactional offset has no expiry time of its own.
        """
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            topic_response = TxnOffsetCommitResponseTopic(name=topic.name)
            for partition in topic.partitions:
                metadata, index = partition.committed_metadata or "", partition.partition_index
                error = (
                    ErrorCode.OFFSET_METADATA_TOO_LARGE
                    if self._is_too_large(metadata)
                    else ErrorCode.NONE
                )
                topic_response.partitions.append(
                    TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)
                )
                if error is ErrorCode.NONE:
                    committed = CommittedOffset(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp_ms=decision.wall_ms,
                    )
                    decision.append(
                        OffsetRecord(
                            group_id=request.group_id,
                            topic=topic.name,
                            partition=index,
                            committed=committed,
                        )
                    )
            response.topics.append(topic_response)
        return response

    def fetch(
        self, request: OffsetFetchRequestGroup, *, is_stable_required: bool = False
    ) -> OffsetFetchResponseGroup | AllOffsets:
        """Return the requested offsets. If no topics are named, return all offsets of the group.

        With ``is_stable_required``, an offset that an open transaction may still change gets an
        error.
        """
        offsets = self.of(request.group_id)
        unstable = self._pending.of(request.group_id) if is_stable_required else ()
        wanted = request.topics
        if wanted is None:
            found = AllOffsets(
                group_id=request.group_id, offsets=offsets.copy(), unstable=frozenset(unstable)
            )
            return finish(found.response()) if len(offsets) <= OFFSETS_PER_STEP else found
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    (
                        unstable_offset(index)
                        if (where := TopicPartition(topic.name, index)) in unstable
                        else fetched(index, _of_topic(offsets.get(where), topic.topic_id))
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in wanted
        ]
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def forget(
        self, group_id: str, partitions: Iterable[TopicPartition], decision: Decision[GroupRecord]
    ) -> None:
        """Append tombstones for the given partitions that have a committed or pending offset."""
        offsets, pending = self.of(group_id), self._pending.of(group_id)
        for where in partitions:
            if where in offsets or where in pending:
                decision.append(
                    OffsetRecord(
                        group_id=group_id,
                        topic=where.topic,
                        partition=where.partition,
                        committed=None,
                    )
                )

    def delete(
        self, request: OffsetDeleteRequest, is_in_use: IsInUse, decision: Decision[GroupRecord]
    ) -> OffsetDeleteResponse:
        """Append tombstones for the offsets that a request deletes, and return the response.

        A topic that the group still reads gets GROUP_SUBSCRIBED_TO_TOPIC.
        """
        response = OffsetDeleteResponse()
        for topic in request.topics:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_in_use(topic.name) else ErrorCode.NONE
            if error is ErrorCode.NONE:
                wanted = [
                    TopicPartition(topic.name, partition.partition_index)
                    for partition in topic.partitions
                ]
                self.forget(request.group_id, wanted, decision)
            results = [
                OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=error
                )
                for each in topic.partitions
            ]
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
        return response

    def expired(
        self, group_id: str, is_in_use: IsInUse, *, wall_ms: int, since_ms: int | None
    ) -> list[TopicPartition]:
        """Return the partitions whose committed offset has expired.

        Topics that members subscribe to and partitions with pending offsets are left out.
        ``since_ms`` is the time when the group lost its last member. If it is None, the retention
        of each offset starts at its commit. An offset with an expiry time of its own ignores both.
        """
        retention_ms = self._config.offsets_retention_ms
        found = []
        for topic, partitions in by_topic(self.of(group_id)).items():
            if is_in_use(topic):
                continue
            for partition in partitions:
                where = TopicPartition(topic, partition)
                if where in self._pending.of(group_id):
                    continue
                if _is_over(
                    self.of(group_id)[where],
                    wall_ms=wall_ms,
                    since_ms=since_ms,
                    retention_ms=retention_ms,
                ):
                    found.append(where)
        return found


def _is_over(
    committed: CommittedOffset, *, wall_ms: int, since_ms: int | None, retention_ms: int
) -> bool:
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return committed.expire_timestamp_ms <= wall_ms
    return (
        committed.commit_timestamp_ms if since_ms is None else since_ms
    ) + retention_ms <= wall_ms


def _of_topic(committed: CommittedOffset | None, topic_id: UUID) -> CommittedOffset | None:
    """Return a committed offset, or None if it belongs to an earlier topic of the same name."""
    if (
        committed is None
        or NO_TOPIC_ID in (committed.topic_id, topic_id)
        or committed.topic_id == topic_id
    ):
        return committed
    return None


def by_topic(offsets: GroupOffsets) -> dict[str, list[int]]:
    """Group partitions by topic, in order."""
    topics: dict[str, list[int]] = {}
    for where in sorted(offsets):
        topics.setdefault(where.topic, []).append(where.partition)
    return topics
