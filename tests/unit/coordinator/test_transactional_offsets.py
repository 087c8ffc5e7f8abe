"""Transactions commit positions in a serving shard.

They are pending, counted or forgotten, and hold others up (KIP-98, KIP-447).
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group.offsets.removals import ORPHAN_TIMER
from log_service.coordinator.group_service import GroupService
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from log_service.records.batch import parse_header
from log_service.records.control import EndOfTransaction
from log_service.state_machine.decision import InTransaction, ReplayContext
from log_service.storage.verifications import UNCHECKED
from tests.unit.coordinator.group_story import GROUP, GroupStory
from tests.unit.coordinator.memory_log import CLIENT, MemoryLog, commit, with_leader

PRODUCER = 7
UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
NOTHING = (-1, ErrorCode.NONE)


def commit_in_transaction(
    groups: GroupService, offset: int, replies: list[Any], *, producer_id: int = PRODUCER
) -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="writer",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=3,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )
    groups.txn_offset_commit(request, CLIENT, replies.append, shown=UNCHECKED)


def end(
    groups: GroupService, *, is_abort: bool = False, producer_id: int = PRODUCER
) -> list[ErrorCode]:
    codes: list[ErrorCode] = []
    groups.end_transaction(
        0, EndOfTransaction(producer_id, 3, is_abort=is_abort, coordinator_epoch=0), codes.append
    )
    return codes


def position(groups: GroupService, *, is_stable: bool = False) -> tuple[int, int]:
    replies: list[Any] = []
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    groups.offset_fetch(
        [OffsetFetchRequestGroup(group_id="g", topics=topics)],
        CLIENT,
        replies.append,
        is_stable_required=is_stable,
    )
    told = replies[0][0].topics[0].partitions[0]
    return told.committed_offset, told.error_code


def tell(story: Callable[[GroupService, MemoryLog], None]) -> MemoryLog:
    log = MemoryLog()
    with_leader(log, lambda groups: story(groups, log))
    return log


@pytest.mark.parametrize("is_abort", [False, True])
def test_a_position_counts_when_its_transaction_is_committed(*, is_abort: bool) -> None:
    def story(groups: GroupService, _log: MemoryLog) -> None:
        replies: list[Any] = []
        commit(groups, 5, replies)
        commit_in_transaction(groups, 10, replies)
        assert [
            partition.error_code for reply in replies for partition in reply.topics[0].partitions
        ] == [0, 0]
        assert position(groups) == (5, ErrorCode.NONE)
        assert position(groups, is_stable=True) == UNSTABLE
        assert end(groups, is_abort=is_abort) == [ErrorCode.NONE]
        assert position(groups, is_stable=True) == (5 if is_abort else 10, ErrorCode.NONE)

    log = tell(story)
    header = parse_header(log.batches[1])
    assert (
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
    ) == (PRODUCER, 3, -1, True)
    after_failover: list[tuple[int, int]] = []
    with_leader(log, lambda groups: after_failover.append(position(groups, is_stable=True)))
    assert after_failover == [(5 if is_abort else 10, ErrorCode.NONE)]


def test_what_was_committed_later_counts_and_the_transaction_is_waited_for_all_the_same() -> None:
    def story(groups: GroupService, _log: MemoryLog) -> None:
        commit_in_transaction(groups, 10, [])
        commit_in_transaction(groups, 20, [], producer_id=8)
        commit(groups, 30, [])
        assert position(groups, is_stable=True) == UNSTABLE
        end(groups, producer_id=8)
        assert position(groups, is_stable=True) == UNSTABLE
        end(groups)
        assert position(groups, is_stable=True) == (30, ErrorCode.NONE)

    tell(story)


def test_a_deleted_group_takes_what_is_pending_along() -> None:
    def story(groups: GroupService, _log: MemoryLog) -> None:
        replies: list[Any] = []
        commit_in_transaction(groups, 10, [])
        groups.delete_groups(DeleteGroupsRequest(groups_names=["g"]), CLIENT, replies.append)
        assert replies[0].results[0].error_code == ErrorCode.NONE
        assert position(groups, is_stable=True) == NOTHING
        end(groups)
        assert position(groups) == NOTHING

    tell(story)


def test_the_marker_is_told_once_it_is_safe() -> None:
    def story(groups: GroupService, log: MemoryLog) -> None:
        commit_in_transaction(groups, 10, [])
        log.is_high_watermark_held = True
        codes = end(groups)
        assert codes == []
        log.advance_high_watermark()
        assert codes == [ErrorCode.NONE]

    tell(story)


def test_a_marker_that_the_log_refuses_ends_nothing() -> None:
    def story(groups: GroupService, log: MemoryLog) -> None:
        commit_in_transaction(groups, 10, [])
        log.failure = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        assert end(groups) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        log.failure = None
        assert position(groups, is_stable=True) == UNSTABLE

    tell(story)


def test_a_commit_that_the_log_refuses_is_told_with_its_code() -> None:
    def story(groups: GroupService, log: MemoryLog) -> None:
        replies: list[Any] = []
        log.failure = KafkaError(ErrorCode.INVALID_TXN_STATE)
        commit_in_transaction(groups, 10, replies)
        log.failure = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        commit_in_transaction(groups, 10, replies)
        codes = [reply.topics[0].partitions[0].error_code for reply in replies]
        assert codes == [ErrorCode.INVALID_TXN_STATE, ErrorCode.COORDINATOR_NOT_AVAILABLE]

    tell(story)


def test_markers_for_a_partition_that_is_not_here() -> None:
    def story(groups: GroupService, _log: MemoryLog) -> None:
        codes: list[ErrorCode] = []
        groups.end_transaction(
            3, EndOfTransaction(PRODUCER, 3, is_abort=True, coordinator_epoch=0), codes.append
        )
        assert codes == [ErrorCode.NOT_COORDINATOR]

    tell(story)


# Expiry and deletion


def pending(story: GroupStory, producer_id: int = PRODUCER, *, at_offset: int = 1_000) -> None:
    """Have a transaction commit a position that stays pending; ``at_offset`` is that of its record."""
    request = TxnOffsetCommitRequest(
        group_id=GROUP,
        producer_id=producer_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="orders", partitions=[TxnOffsetCommitRequestPartition(committed_offset=9)]
            )
        ],
    )
    decision = story.decision()
    story.shard.handle_txn_offset_commit(
        request, CLIENT.context(producer_id), decision, shown=UNCHECKED
    )
    assert decision.transaction == InTransaction(producer_id, 0, UNCHECKED)
    for offset, record in enumerate(decision.records, at_offset):
        story.shard.replay(record, ReplayContext(offset, producer_id, 0))


def test_a_group_with_a_pending_position_does_not_expire() -> None:
    story = GroupStory()
    pending(story)
    story.advance(2 * story.config.offsets_retention_ms)
    assert [overview.group_id for overview in story.shard.overviews()] == [GROUP]
    assert not story.log, "neither a position nor the group was taken back"
    story.shard.replay_end_transaction(PRODUCER, 0, is_committed=False)
    story.advance(2 * story.config.offsets_retention_check_interval_ms)
    assert not story.shard.overviews()


def test_a_position_does_not_expire_while_another_is_pending_for_its_partition() -> None:
    story = GroupStory()
    story.commit(3)
    pending(story)
    written = len(story.log)
    story.advance(2 * story.config.offsets_retention_ms)
    assert len(story.log) == written
    story.shard.replay_end_transaction(PRODUCER, 0, is_committed=False)
    story.advance(2 * story.config.offsets_retention_check_interval_ms)
    assert len(story.log) > written


def test_a_deleted_topic_takes_what_is_pending_along() -> None:
    story = GroupStory()
    pending(story)
    story.delete_topic("orders", 1)
    assert len(story.log) == 1, "a tombstone for the pending position"
    story.shard.replay_end_transaction(PRODUCER, 0, is_committed=True)
    story.advance(2 * story.config.offsets_retention_check_interval_ms)
    assert not story.shard.overviews()


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("first_committed", [None, 3])
def test_a_deleted_topic_takes_nothing_along_that_is_pending_in_its_successor(
    first_committed: int | None, *, is_committed: bool
) -> None:
    """The log refuses to take back the old positions at first.

    Meanwhile the topic is made again, and a transaction goes on in it.
    """
    gone: list[str] = []
    story = GroupStory(is_there=lambda where, _topic_id: where.topic not in gone)
    if first_committed is not None:
        story.commit(first_committed)
    pending(story)
    gone.append("orders")
    resumed = story.decision()
    story.shard.on_loaded(resumed)
    story.settle(resumed)
    refused = story.decision()
    story.shard.on_timer(ORPHAN_TIMER, refused)
    assert refused.records
    refused.take_back()
    gone.clear()
    pending(story, 8, at_offset=2_000)
    story.advance(10_000)
    story.shard.replay_end_transaction(8, 0, is_committed=is_committed)
    story.advance(10_000)
    assert story.positions() == ({"orders": 9} if is_committed else {})


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_new_coordinator_takes_nothing_along_that_is_pending_in_a_topic_that_is_there(
    *, is_committed: bool
) -> None:
    """The old position waits for the transaction, and another node coordinates then.

    That node knows only that the position is of another topic.
    """
    gone: list[UUID] = []
    story = GroupStory(is_there=lambda _where, topic_id: topic_id not in gone)
    story.commit(3, api_version=10, topic_id=UUID(int=7))
    pending(story, at_offset=2_000)
    gone.append(UUID(int=7))
    loaded = story.decision()
    story.shard.on_loaded(loaded)
    story.settle(loaded)
    story.advance(10_000)
    assert story.positions() == {"orders": 3}
    story.shard.replay_end_transaction(PRODUCER, 0, is_committed=is_committed)
    story.advance(10_000)
    assert story.positions() == ({"orders": 9} if is_committed else {})


def test_a_position_that_is_deleted_takes_no_other_of_its_transaction_along() -> None:
    def story(groups: GroupService, _log: MemoryLog) -> None:
        replies: list[Any] = []
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=10 + index, committed_metadata=metadata
            )
            for index, metadata in enumerate(("read so far", None))
        ]
        request = TxnOffsetCommitRequest(
            transactional_id="writer",
            group_id="g",
            producer_id=PRODUCER,
            producer_epoch=3,
            topics=[
                TxnOffsetCommitRequestTopic(name="orders", partitions=partitions),
                TxnOffsetCommitRequestTopic(name="bills", partitions=partitions),
            ],
        )
        commit(groups, 1, replies)
        groups.txn_offset_commit(request, CLIENT, replies.append, shown=UNCHECKED)
        deleted = OffsetDeleteRequestTopic(
            name="bills", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        groups.offset_delete(
            OffsetDeleteRequest(group_id="g", topics=[deleted]), CLIENT, replies.append
        )
        assert end(groups) == [ErrorCode.NONE]
        groups.offset_fetch(
            [OffsetFetchRequestGroup(group_id="g", topics=None)], CLIENT, replies.append
        )
        told = {
            (topic.name, partition.partition_index): (
                partition.committed_offset,
                partition.metadata,
            )
            for topic in replies[-1][0].topics
            for partition in topic.partitions
        }
        assert told == {
            ("bills", 1): (11, ""),
            ("orders", 0): (10, "read so far"),
            ("orders", 1): (11, ""),
        }

    tell(story)
