"""Groups that change their protocol while they have members: policies, refusals, loading, and
times.

What members hear at each step is held against Apache Kafka in the integration tests.
"""

from copy import deepcopy
from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.config.views import ConsumerGroupConfig, GroupConfig
from log_service.coordinator.group.classic.consumer_protocol import (
    encode_assignment,
    subscription_of,
)
from log_service.coordinator.group.classic.group import ClassicGroup
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.codec import encode
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from log_service.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from log_service.protocol.messages.leave_group import MemberIdentity
from tests.unit.coordinator.consumer_story import NAMES, ORDERS, ConsumerStory, assigned
from tests.unit.coordinator.group_story import GROUP

CONTEXT = RequestContext(api_version=1, client_id="client", client_host="host", reply_to="b")


def wants(*topics: str, owned: tuple[int, ...] = ()) -> bytes:
    held = (
        [ConsumerProtocolSubscriptionTopicPartition(topic="orders", partitions=list(owned))]
        if owned
        else []
    )
    return b"\0\3" + encode(
        ConsumerProtocolSubscription(topics=list(topics), owned_partitions=held), 3
    )


def part(story: ConsumerStory, *indexes: int) -> bytes:
    return encode_assignment({ORDERS: frozenset(indexes)}, story.image, wants("orders"))


def story_with(policy: str = "bidirectional", **config: Any) -> ConsumerStory:
    consumer = ConsumerGroupConfig(assignment_interval_ms=0, migration_policy=policy)
    return ConsumerStory(GroupConfig(initial_rebalance_delay_ms=0, consumer=consumer, **config))


def classic_member(story: ConsumerStory) -> str:
    """A classic group with one member that has all of orders, in generation 1."""
    member_id = story.new_member_id()
    token = story.join(member_id, metadata=wants("orders"))
    story.advance(0)
    assert story.joined(token).generation_id == 1
    assert (
        story.synced(story.sync(member_id, 1, {member_id: part(story, 0, 1, 2, 3)})).error_code == 0
    )
    return member_id


def mixed_group(story: ConsumerStory) -> str:
    """A consumer group of a classic member, whose id is returned, and of ``b``; each has half of
    orders.
    """
    member_id = classic_member(story)
    story.enter("b", assignor="range")
    story.join(member_id, metadata=wants("orders", owned=(0, 1, 2, 3)))
    story.sync(member_id, 1)
    joined = story.joined(
        story.join(member_id, metadata=wants("orders", owned=tuple(held(story, member_id))))
    )
    assert joined.error_code == 0
    assert story.synced(story.sync(member_id, joined.generation_id)).error_code == 0
    assert len(assigned(story.told("b", story.group.members["b"].current.epoch)) or {}) == 1
    return member_id


def held(story: ConsumerStory, member_id: str) -> list[int]:
    return sorted(story.group.members[member_id].current.assigned.get(ORDERS, {}))


@pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade", "disabled"])
def test_policy_says_whether_a_consumer_may_join_a_classic_group(policy: str) -> None:
    story = story_with(policy)
    member_id = classic_member(story)
    if policy in ("bidirectional", "upgrade"):
        assert story.enter("b").member_epoch == 2
        assert story.heartbeat(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    else:
        assert (
            story.refused("b", 0, {}, topics=("orders",), rebalance_ms=1)
            == ErrorCode.GROUP_ID_NOT_FOUND
        )
        assert story.heartbeat(member_id, 1) == ErrorCode.NONE


@pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade", "disabled"])
def test_policy_says_whether_a_classic_member_may_join_and_what_it_finds_when_it_is_alone(
    policy: str,
) -> None:
    story = story_with(policy)
    story.enter("b")
    response = story.joined(story.join(metadata=wants("orders")))
    if policy == "disabled":
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = story.joined(story.join(response.member_id, metadata=wants("orders")))
    assert (joined.error_code, joined.leader, joined.members) == (0, "", [])
    story.told("b", -1)
    if policy == "upgrade":
        assert isinstance(story.shard.groups[GROUP], ConsumerGroup)
        assert (
            story.heartbeat(response.member_id, joined.generation_id)
            == ErrorCode.REBALANCE_IN_PROGRESS
        ), "all is free now"
    else:
        group = story.shard.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        assert group.generation_id == 3
        assert story.describe().group_state == "PreparingRebalance"


def test_group_that_is_too_large_for_the_other_kind_stays_what_it_is() -> None:
    story = story_with(max_size=1)
    story.enter("a")
    story.enter("b")
    for _ in range(2):
        member_id = story.joined(story.join(metadata=wants("orders"))).member_id
        assert story.joined(story.join(member_id, metadata=wants("orders"))).error_code == 0
    story.told("a", -1)
    story.told("b", -1)
    assert len(story.group.members) == 2


def test_generation_that_no_record_can_hold_stays_a_consumer_group() -> None:
    story = story_with(max_metadata_record_bytes=450)
    story.enter("a")
    member_ids = [
        story.joined(story.join(metadata=wants("orders", "x" * 100))).member_id for _ in range(4)
    ]
    for member_id in member_ids:
        assert (
            story.joined(story.join(member_id, metadata=wants("orders", "x" * 100))).error_code == 0
        )
    story.told("a", -1)
    assert list(story.group.members) == member_ids


def test_upgrade_and_downgrade_that_the_log_refuses_change_nothing() -> None:
    story = story_with()
    classic_member(story)

    def beat(epoch: int) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="b",
            member_epoch=epoch,
            rebalance_timeout_ms=1,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        sessions = story.shard.consumers.sessions
        before = (
            story.shard.groups[GROUP],
            deepcopy(
                (
                    sessions.members.sessions,
                    sessions.awaited_joins,
                    story.shard.migration.ahead_of_log,
                )
            ),
        )
        decision = story.decision()
        story.shard.handle_consumer_group_heartbeat(request, CONTEXT, decision)
        assert decision.records
        decision.take_back()
        after = (
            story.shard.groups[GROUP],
            deepcopy(
                (
                    sessions.members.sessions,
                    sessions.awaited_joins,
                    story.shard.migration.ahead_of_log,
                )
            ),
        )
        assert after == before

    beat(0)
    assert story.describe().group_state == "Stable"
    story.enter("b")
    beat(-1)
    assert story.group.state.value == "Reconciling"


def test_what_is_loaded_after_each_step_is_what_was_there() -> None:
    story = story_with()
    member_id = mixed_group(story)
    before = story.described()
    story.restart()
    assert repr(story.described()) == repr(before)
    story.told("b", -1)
    generation = story.shard.groups[GROUP].generation_id  # type: ignore[union-attr]
    story.restart()
    assert story.describe().group_state == "Stable", "the rebalance that followed was not stored"
    assert story.heartbeat(member_id, generation) == ErrorCode.NONE


def test_static_classic_member_in_the_place_of_the_last_consumer_has_its_target_at_once() -> None:
    story = story_with()
    story.enter("a", instance="one")
    joined = story.joined(story.join(instance="one", metadata=wants("orders")))
    assert (joined.error_code, joined.generation_id) == (0, 2)
    assert story.synced(story.sync(joined.member_id, 2, instance="one")).assignment == part(
        story, 0, 1, 2, 3
    )
    group = story.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.members[joined.member_id].protocols == (("range", wants("orders")),)
    story.restart()
    assert story.heartbeat(joined.member_id, 2, "one") == ErrorCode.NONE


def test_classic_member_has_a_session_of_its_own_length() -> None:
    story = story_with()
    member_id = mixed_group(story)
    epoch = story.group.members[member_id].current.epoch
    story.advance(9_000)
    assert story.heartbeat(member_id, epoch) == ErrorCode.NONE
    story.advance(9_000)
    assert member_id in story.group.members
    story.advance(1_001)
    assert list(story.group.members) == ["b"]


def test_member_that_was_told_to_join_again_does_so_in_time() -> None:
    story = story_with()
    member_id = classic_member(story)
    story.enter("b")
    assert story.heartbeat(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(6):
        story.advance(9_999)
        assert story.heartbeat(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        story.told("b", 2)
    story.advance(60_000 - 6 * 9_999)
    assert list(story.group.members) == ["b"]


def test_member_that_never_syncs_is_removed() -> None:
    story = story_with()
    story.enter("b")
    member_id = story.joined(story.join(metadata=wants("orders"))).member_id
    epoch = story.joined(
        story.join(member_id, metadata=wants("orders"), rebalance_ms=20_000)
    ).generation_id
    for _ in range(3):
        story.heartbeat(member_id, epoch)
        story.advance(6_667)
    assert list(story.group.members) == ["b"]


def test_member_that_changes_its_protocol_is_not_waited_for_any_more() -> None:
    story = story_with()
    member_id = mixed_group(story)
    story.enter("c", assignor="range")
    epoch = story.group.members[member_id].current.epoch
    assert story.heartbeat(member_id, epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    sessions = story.shard.consumers.sessions
    assert sessions.awaited_joins == {(GROUP, member_id)}
    changed = story.enter(member_id, assignor="range")
    assert not sessions.awaited_joins
    assert not [
        key for key in story.timers if isinstance(key, tuple) and key[0] in {"join", "sync"}
    ]
    assert changed.member_epoch == story.group.target_epoch.epoch


def test_an_administrator_removes_members_of_both_protocols() -> None:
    story = story_with()
    story.enter("a", instance="one")
    member_id = story.joined(story.join(metadata=wants("orders"))).member_id
    story.join(member_id, metadata=wants("orders"))
    left = story.leave(
        MemberIdentity(member_id="", group_instance_id="one"), MemberIdentity(member_id=member_id)
    )
    assert [member.error_code for member in left.members] == [0, 0]
    assert story.group.state.value == "Empty"


def test_subscription_that_cannot_be_read_is_refused() -> None:
    story = story_with()
    story.enter("a")
    assert (
        story.joined(story.join("x", metadata=b"\0")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert list(story.group.members) == ["a"]


def test_subscriptions_say_what_their_members_own() -> None:
    said = subscription_of(wants("orders", owned=(1, 2)))
    assert [(each.topic, each.partitions) for each in said.owned_partitions] == [("orders", [1, 2])]
    assert NAMES["orders"] == ORDERS


def test_static_classic_member_that_comes_back_as_a_consumer_need_not_leave_first() -> None:
    """It cannot: a classic static member stays until its session is over."""
    story = story_with()
    token = story.join(instance="one", metadata=wants("orders"))
    story.advance(0)
    member_id = story.joined(token).member_id
    story.sync(member_id, 1, {member_id: part(story, 0, 1, 2, 3)}, instance="one")
    story.enter("b")
    assert story.enter("c", instance="one").member_id == "c"
    assert sorted(story.group.members) == ["b", "c"]
    assert story.heartbeat(member_id, 1, "one") == ErrorCode.FENCED_INSTANCE_ID
