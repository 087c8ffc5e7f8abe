"""Committed offsets: who may commit, what survives, and when positions expire."""

import pytest

from log_service.common.errors import ErrorCode
from log_service.config.views import GroupConfig
from log_service.protocol.messages.leave_group import MemberIdentity
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tests.unit.coordinator.group_story import GROUP, GroupStory

HOUR_MS = 3_600_000


def expiring_story() -> GroupStory:
    story = GroupStory(
        GroupConfig(
            initial_rebalance_delay_ms=0,
            offsets_retention_ms=HOUR_MS,
            offsets_retention_check_interval_ms=60_000,
        )
    )
    story.restart()
    return story


def test_member_commits_in_its_generation_and_it_survives_a_restart() -> None:
    story = GroupStory()
    (leader,) = story.stable_group(1)
    assert story.commit(42, leader, 1) == ErrorCode.NONE
    story.restart()
    assert story.committed() == 42


def test_consumer_that_assigns_itself_commits_without_a_group() -> None:
    story = GroupStory()
    assert story.commit(7) == ErrorCode.NONE
    assert story.committed() == 7
    assert story.describe().group_state == "Empty"


def test_stranger_cannot_commit_for_a_group_with_members() -> None:
    story = GroupStory()
    story.stable_group(1)
    assert story.commit(7) == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.commit(7, "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.committed() == -1


@pytest.mark.parametrize("generation", [0, 2])
def test_commit_of_another_generation_is_illegal(generation: int) -> None:
    story = GroupStory()
    (leader,) = story.stable_group(1)
    assert story.commit(7, leader, generation) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("api_version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_commit_of_a_member_of_a_group_that_is_gone_is_refused(
    api_version: int, code: ErrorCode
) -> None:
    assert GroupStory().commit(7, "member", 3, api_version=api_version) == code


def test_commit_of_a_member_of_a_group_that_has_only_positions_is_refused() -> None:
    story = GroupStory()
    assert story.commit(7) == ErrorCode.NONE
    assert story.commit(8, "member", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.committed() == 7


def test_member_may_commit_while_others_rejoin_but_not_while_assignments_are_made() -> None:
    story = GroupStory()
    leader, follower = story.stable_group(2)
    story.join(leader)
    assert story.commit(5, follower, 1) == ErrorCode.NONE
    story.join(follower)
    assert story.describe().group_state == "CompletingRebalance"
    assert story.commit(6, follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS


def test_too_much_metadata_is_refused_for_its_partition() -> None:
    assert GroupStory().commit(1, metadata="x" * 4_097) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_metadata_is_kept_up_to_its_bound_and_none_is_none() -> None:
    """The bound counts characters of UTF-16, as Java does: one beyond the basic plane is two."""
    for metadata, code in (
        ("x" * 4_096, ErrorCode.NONE),
        ("\N{GRINNING FACE}" * 2_048, ErrorCode.NONE),
        ("\N{GRINNING FACE}" * 2_049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ):
        story = GroupStory()
        assert story.commit(1, metadata=metadata) == code
        response = story.replies[
            story.ask("offset_fetch", OffsetFetchRequestGroup(group_id=GROUP, topics=None))
        ]
        told = [partition.metadata for topic in response.topics for partition in topic.partitions]
        assert told == ([metadata] if code is ErrorCode.NONE else [])
    story = GroupStory()
    assert story.commit(1, metadata=None) == ErrorCode.NONE
    assert story.positions() == {"orders": 1}


def test_offsets_of_a_group_in_use_never_expire() -> None:
    story = expiring_story()
    (leader,) = story.stable_group(1)
    story.commit(1, leader, 1)
    for _ in range(3 * 720):
        story.advance(5_000)
        story.heartbeat(leader, 1)
    assert story.committed() == 1


def test_offsets_expire_once_the_group_has_been_empty_for_long() -> None:
    """KIP-211."""
    story = expiring_story()
    (leader,) = story.stable_group(1)
    story.commit(1, leader, 1)
    story.advance(5_000)
    story.leave(MemberIdentity(member_id=leader))
    story.advance(HOUR_MS - 60_000)
    assert story.committed() == 1
    story.advance(120_000)
    assert story.committed() == -1
    assert story.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_retention_that_an_old_client_names_wins() -> None:
    story = expiring_story()
    story.commit(1, retention_ms=120_000)
    story.restart()
    story.advance(240_000)
    assert story.committed() == -1


def test_group_with_members_cannot_be_deleted_and_an_empty_one_can() -> None:
    story = GroupStory()
    (leader,) = story.stable_group(1)
    story.commit(9, leader, 1)
    assert story.delete() == ErrorCode.NON_EMPTY_GROUP
    story.leave(MemberIdentity(member_id=leader))
    assert story.delete() == ErrorCode.NONE
    assert story.committed() == -1
    assert story.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    story.restart()
    assert story.delete() == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_go_with_their_topic() -> None:
    story = GroupStory()
    story.commit(9)
    story.delete_topic("orders", 1)
    assert story.committed() == -1


def test_groups_are_listed_by_state_and_type() -> None:
    story = GroupStory()
    story.stable_group(1)
    listed = story.shard.list_groups(
        ListGroupsRequest(states_filter=["stable"], types_filter=["Classic"])
    )
    assert [(group.group_id, group.group_state, group.protocol_type) for group in listed] == [
        (GROUP, "Stable", "consumer")
    ]
    assert story.shard.list_groups(ListGroupsRequest(states_filter=["Empty"])) == []
