"""Committed offsets end by deletion (KIP-496), by expiry (KIP-211) and with their topics.

A restart finds the rest.
"""

from dataclasses import replace
from functools import partial
from uuid import UUID

from log_service.client.group_protocol import Subscription, encode_subscription
from log_service.common.errors import ErrorCode
from log_service.config.views import ConsumerGroupConfig, GroupConfig
from log_service.coordinator.group.offsets.removals import (
    GROUPS_PER_EXPIRY_STEP,
    MAX_ORPHANS_PER_BATCH,
    ORPHAN_TIMER,
)
from log_service.coordinator.group.records.codec import decode, encode
from log_service.coordinator.group.records.offset import CommittedOffset, OffsetRecord
from log_service.protocol.messages.leave_group import MemberIdentity
from log_service.state_machine.decision import ReplayContext
from tests.unit.coordinator.consumer_story import ConsumerStory
from tests.unit.coordinator.group_story import GROUP, SESSION_MS, GroupStory

HOUR_MS = 3_600_000
CONFIG = GroupConfig(
    initial_rebalance_delay_ms=0,
    offsets_retention_ms=24 * HOUR_MS,
    max_session_timeout_ms=2**31 - 1,
)
SOON_MS = 20_000
EXPIRES_SOON = replace(
    CONFIG,
    offsets_retention_ms=SOON_MS,
    offsets_retention_check_interval_ms=1_000,
    consumer=ConsumerGroupConfig(assignment_interval_ms=0),
)
READS_ORDERS = encode_subscription(Subscription(topics=("orders",)))
FIRST, SECOND = UUID(int=1), UUID(int=2)


def consumer(
    story: GroupStory, metadata: bytes = READS_ORDERS, protocol_type: str = "consumer"
) -> str:
    """Let one member join and sync that never falls silent."""
    join = partial(story.join, metadata=metadata, protocol_type=protocol_type, session_ms=2**31 - 1)
    member_id = story.joined(join()).member_id
    join(member_id)
    story.advance(0)
    story.sync(member_id, 1, {member_id: b""})
    return member_id


# Deletion


def test_positions_in_topics_that_members_read_cannot_be_deleted() -> None:
    story = GroupStory(CONFIG)
    member_id = consumer(story)
    for topic in ("orders", "bills"):
        story.commit(1, member_id, 1, topic=topic)
    responses = {
        topic.name: topic.partitions[0].error_code
        for topic in story.delete_offsets("orders", "bills", "never").topics
    }
    assert responses == {
        "orders": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        "bills": ErrorCode.NONE,
        "never": ErrorCode.NONE,
    }
    assert story.positions() == {"orders": 1}


def test_positions_of_an_empty_group_can_be_deleted() -> None:
    story = GroupStory(CONFIG)
    member_id = consumer(story)
    story.commit(1, member_id, 1)
    story.leave(MemberIdentity(member_id=member_id))
    assert story.delete_offsets("orders").error_code == ErrorCode.NONE
    assert story.positions() == {}


def test_positions_of_consumers_that_cannot_be_read_are_kept() -> None:
    story = GroupStory(CONFIG)
    story.commit(1, consumer(story, metadata=b"?"), 1)
    (response,) = story.delete_offsets("orders").topics
    assert response.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_positions_of_members_that_are_no_consumers_cannot_be_deleted() -> None:
    story = GroupStory(CONFIG)
    consumer(story, protocol_type="connect")
    assert story.delete_offsets("orders").error_code == ErrorCode.NON_EMPTY_GROUP


def test_a_group_of_positions_outlives_the_last_of_them_until_the_next_check() -> None:
    story = GroupStory(CONFIG)
    story.commit(1)
    story.delete_offsets("orders")
    assert story.describe().group_state == "Empty"
    assert story.commit(1, "somebody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    story.restart()
    assert story.describe().group_state == "Empty"
    story.advance(CONFIG.offsets_retention_check_interval_ms)
    assert story.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_deleting_from_a_group_that_is_not_there_says_so() -> None:
    assert GroupStory().delete_offsets("orders").error_code == ErrorCode.GROUP_ID_NOT_FOUND


# Expiry


def test_positions_in_topics_that_no_member_reads_any_more_expire_in_a_stable_group() -> None:
    story = GroupStory(CONFIG)
    member_id = consumer(story)
    for topic in ("orders", "bills"):
        story.commit(1, member_id, 1, topic=topic)
    story.advance(25 * HOUR_MS)
    assert story.positions() == {"orders": 1}


def test_positions_of_members_that_are_no_consumers_wait_for_an_empty_group() -> None:
    story = GroupStory(CONFIG)
    member_id = consumer(story, protocol_type="connect")
    story.commit(1, member_id, 1)
    story.advance(100 * HOUR_MS)
    assert story.positions() == {"orders": 1}
    story.leave(MemberIdentity(member_id=member_id))
    story.advance(25 * HOUR_MS)
    assert story.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_groups_positions_count_from_the_moment_it_became_empty() -> None:
    story = GroupStory(CONFIG)
    member_id = consumer(story)
    story.commit(1, member_id, 1)
    story.advance(HOUR_MS)
    story.leave(MemberIdentity(member_id=member_id))
    story.advance(23 * HOUR_MS)
    assert story.commit(2) == ErrorCode.NONE
    story.restart()
    assert story.positions() == {"orders": 2}
    story.advance(2 * HOUR_MS)
    assert story.positions() == {}
    assert story.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_nothing_expires_while_a_group_rebalances() -> None:
    """A member that joins may read records that no one has read so far."""
    story = GroupStory(EXPIRES_SOON)
    member_id = consumer(story)
    for topic in ("orders", "bills"):
        story.commit(1, member_id, 1, topic=topic)
    join = partial(story.join, metadata=READS_ORDERS, session_ms=2**31 - 1)
    join(story.joined(join()).member_id)
    story.advance(SOON_MS + 1_000)
    assert story.describe().group_state == "PreparingRebalance"
    assert story.positions() == {"bills": 1, "orders": 1}


def test_positions_of_a_consumer_group_expire_in_topics_that_no_member_reads_and_the_group_goes_with_the_last() -> (
    None
):
    """KIP-848: these count from their commits, also after the last member has gone."""
    story = ConsumerStory(config=EXPIRES_SOON, topics={"orders": 4, "bills": 1})
    epoch = story.enter("a").member_epoch
    for topic in ("orders", "bills"):
        assert story.commit(1, "a", epoch, api_version=9, topic=topic) == ErrorCode.NONE
    story.advance(SOON_MS + 1_000)
    assert story.positions() == {"orders": 1}
    story.told("a", -1)
    story.advance(1_000)
    assert story.positions() == {}
    story.restart()
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_positions_of_standalone_consumers_expire_one_by_one() -> None:
    story = GroupStory(CONFIG)
    story.commit(1, topic="orders")
    story.advance(12 * HOUR_MS)
    story.commit(1, topic="bills")
    story.advance(13 * HOUR_MS)
    assert story.positions() == {"bills": 1}
    story.advance(12 * HOUR_MS)
    assert story.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    story.restart()
    assert story.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_retention_beyond_all_timestamps_keeps_a_position_for_ever() -> None:
    story = GroupStory(CONFIG)
    assert story.commit(1, retention_ms=2**63 - 1, api_version=4) == ErrorCode.NONE
    story.advance(100 * HOUR_MS)
    story.restart()
    assert story.positions() == {"orders": 1}


def test_a_check_of_many_groups_gives_others_the_turn_and_reaches_all() -> None:
    story = GroupStory(CONFIG)
    group_count = 2 * GROUPS_PER_EXPIRY_STEP + 1
    committed = CommittedOffset(offset=1, leader_epoch=-1, metadata="", commit_timestamp_ms=0)
    for number in range(group_count):
        record = OffsetRecord(
            group_id=f"group-{number}", topic="orders", partition=0, committed=committed
        )
        story.shard.replay(record, ReplayContext(number))
    decision = story.decision()
    decision.wall_ms = 25 * HOUR_MS
    story.shard.on_timer(("expire-offsets",), decision)
    assert len(decision.records) == 2 * GROUPS_PER_EXPIRY_STEP  # a position and a group each
    story.settle(decision)
    story.now_ms = 25 * HOUR_MS
    story.advance(CONFIG.offsets_retention_check_interval_ms)
    assert story.overviews() == []


# Topics that go


def test_a_topic_takes_its_positions_along_in_bounded_batches() -> None:
    story = GroupStory(CONFIG)
    committed = CommittedOffset(offset=1, leader_epoch=-1, metadata="", commit_timestamp_ms=0)
    partition_count = MAX_ORPHANS_PER_BATCH + 10
    for number in range(partition_count):
        record = OffsetRecord(group_id=GROUP, topic="orders", partition=number, committed=committed)
        story.shard.replay(record, ReplayContext(number))
    story.delete_topic("orders", partition_count)
    assert len(story.log) == MAX_ORPHANS_PER_BATCH
    assert story.commit(7) == ErrorCode.NONE  # the topic is there again
    story.advance(1_000)
    assert story.positions() == {"orders": 7}
    assert len(story.log) == partition_count + 1


def test_positions_whose_end_the_log_refuses_go_with_the_next_try() -> None:
    gone: list[str] = []
    story = GroupStory(CONFIG, is_there=lambda where, _topic_id: where.topic not in gone)
    story.commit(1, topic="orders", topic_id=FIRST)
    gone.append("orders")
    resumed = story.decision()
    story.shard.on_loaded(resumed)
    story.settle(resumed)
    refused = story.decision()
    story.shard.on_timer(ORPHAN_TIMER, refused)
    assert refused.records
    refused.take_back()
    assert story.positions() == {"orders": 1}
    story.advance(0)
    assert story.positions() == {}


def test_positions_in_a_topic_that_went_while_no_shard_was_loaded_do_not_come_back() -> None:
    story = GroupStory(CONFIG)
    story.commit(1, topic="orders", topic_id=FIRST)
    story.commit(2, topic="bills", topic_id=SECOND)
    story.is_there = lambda where, topic_id: (where.topic, topic_id) == ("bills", SECOND)
    story.restart()
    assert story.positions() == {"bills": 2}
    story.is_there = lambda _where, _topic_id: True
    story.restart()
    assert story.positions() == {"bills": 2}


# Records


def test_stored_positions_keep_the_topics_id() -> None:
    committed = CommittedOffset(
        offset=5, leader_epoch=2, metadata="m", commit_timestamp_ms=9, topic_id=FIRST
    )
    record = OffsetRecord(group_id="g", topic="orders", partition=3, committed=committed)
    assert decode(*encode(record)) == record


def test_members_of_a_group_that_was_restored_have_one_session_to_show_themselves() -> None:
    story = GroupStory(GroupConfig(initial_rebalance_delay_ms=0))
    story.stable_group(2)
    story.advance(SESSION_MS - 1)
    story.restart()
    story.advance(SESSION_MS - 1)
    assert story.describe().group_state == "Stable"
    story.advance(1)
    assert story.describe().group_state == "Empty"
