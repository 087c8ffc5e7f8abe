"""The classic group protocol: joining, generations, silence, static members. Each test is one
story.
"""

import pytest

from log_service.common.errors import ErrorCode
from log_service.config.views import GroupConfig
from log_service.coordinator.group.classic.group import TRANSITIONS, ClassicGroup, GroupState
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.leave_group import MemberIdentity
from tests.unit.coordinator.group_story import GROUP, REBALANCE_MS, SESSION_MS, GroupStory


@pytest.mark.parametrize("start", GroupState)
@pytest.mark.parametrize("end", GroupState)
def test_states_change_only_along_the_table(start: GroupState, end: GroupState) -> None:
    group = ClassicGroup("g", state=start)
    if end in TRANSITIONS[start]:
        group.transition_to(end, 5)
        assert (group.state, group.state_since_ms) == (end, 5)
    else:
        with pytest.raises(AssertionError):
            group.transition_to(end, 5)


def test_new_member_is_given_an_id_before_it_may_join() -> None:
    """KIP-394."""
    story = GroupStory()
    response = story.joined(story.join())
    assert (response.error_code, response.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "client-1")


def test_member_of_an_old_version_joins_at_once() -> None:
    story = GroupStory()
    token = story.join(api_version=3)
    story.advance(0)
    assert story.joined(token).error_code == ErrorCode.NONE


def test_leader_alone_hears_the_metadata_of_all() -> None:
    story = GroupStory()
    ids = [story.new_member_id(), story.new_member_id()]
    tokens = [story.join(member_id) for member_id in ids]
    story.advance(0)
    leader, follower = (story.joined(token) for token in tokens)
    assert leader.leader == leader.member_id == follower.leader
    assert [(member.member_id, member.metadata) for member in leader.members] == [
        (ids[0], b"topics"),
        (ids[1], b"topics"),
    ]
    assert follower.members == []
    assert leader.generation_id == follower.generation_id == 1


def test_assignments_reach_members_that_synced_before_and_after_the_leader() -> None:
    story = GroupStory()
    ids = [story.new_member_id() for _ in range(3)]
    for member_id in ids:
        story.join(member_id)
    story.advance(0)
    before = story.sync(ids[1], 1)
    assert before not in story.replies
    story.sync(ids[0], 1, {ids[1]: b"one", ids[2]: b"two"})
    after = story.sync(ids[2], 1)
    assert [story.synced(before).assignment, story.synced(after).assignment] == [b"one", b"two"]


def test_first_rebalance_waits_for_members_that_keep_arriving() -> None:
    """KIP-134."""
    story = GroupStory(GroupConfig(initial_rebalance_delay_ms=3_000))
    first = story.join(api_version=3)
    story.advance(2_000)
    second = story.join(api_version=3)
    story.advance(2_000)
    assert first not in story.replies
    story.advance(2_000)
    assert story.joined(first).generation_id == story.joined(second).generation_id == 1


def test_joining_member_makes_the_others_rejoin() -> None:
    story = GroupStory()
    leader, follower = story.stable_group(2)
    newcomer = story.join(story.new_member_id())
    assert story.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    story.join(leader)
    assert newcomer not in story.replies
    story.join(follower)
    assert story.joined(newcomer).generation_id == 2


def test_follower_that_rejoins_unchanged_stays_in_its_generation() -> None:
    story = GroupStory()
    _, follower = story.stable_group(2)
    assert story.joined(story.join(follower)).generation_id == 1
    assert story.describe().group_state == "Stable"


def test_leader_hears_what_a_member_says_anew_of_itself() -> None:
    story = GroupStory()
    leader, follower = story.stable_group(2)
    token = story.join(leader)
    story.join(follower, metadata=b"other topics")
    assert [(member.member_id, member.metadata) for member in story.joined(token).members] == [
        (leader, b"topics"),
        (follower, b"other topics"),
    ]


def test_leader_that_rejoins_starts_a_rebalance() -> None:
    story = GroupStory()
    leader, _ = story.stable_group(2)
    story.join(leader)
    assert story.describe().group_state == "PreparingRebalance"


def test_member_that_does_not_rejoin_in_time_is_left_out() -> None:
    story = GroupStory()
    leader, follower = story.stable_group(2)
    token = story.join(leader)
    for _ in range(REBALANCE_MS // 5_000):
        story.advance(5_000)
        story.heartbeat(follower, 1)
    response = story.joined(token)
    assert [member.member_id for member in response.members] == [leader]
    assert story.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_silent_member_is_removed_after_its_session() -> None:
    story = GroupStory()
    leader, follower = story.stable_group(2)
    story.advance(SESSION_MS - 1)
    assert story.heartbeat(leader, 1) == ErrorCode.NONE
    story.advance(1)
    assert story.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert [member.member_id for member in story.describe().members] == [leader]
    assert story.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_id_that_is_never_used_expires_and_holds_no_member_up() -> None:
    story = GroupStory()
    token = story.join(api_version=3)
    story.new_member_id()
    story.advance(SESSION_MS)
    assert story.joined(token).generation_id == 1


def test_member_that_never_syncs_is_removed() -> None:
    story = GroupStory()
    ids = [story.new_member_id(), story.new_member_id()]
    for member_id in ids:
        story.join(member_id, session_ms=1_000_000)
    story.advance(0)
    story.sync(ids[0], 1, {ids[0]: b"all"})
    story.advance(REBALANCE_MS)
    assert [member.member_id for member in story.describe().members] == [ids[0]]


def test_leaving_member_starts_a_rebalance_and_the_last_one_empties_the_group() -> None:
    story = GroupStory()
    leader, follower = story.stable_group(2)
    assert story.leave(MemberIdentity(member_id=follower)).members[0].error_code == ErrorCode.NONE
    assert story.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    story.leave(MemberIdentity(member_id=leader))
    assert story.describe().group_state == "Empty"


def test_member_that_was_not_there_cannot_leave() -> None:
    story = GroupStory()
    story.stable_group(1)
    assert (
        story.leave(MemberIdentity(member_id="nobody")).members[0].error_code
        == ErrorCode.UNKNOWN_MEMBER_ID
    )


@pytest.mark.parametrize("generation", [0, 2])
def test_heartbeat_of_another_generation_is_illegal(generation: int) -> None:
    story = GroupStory()
    (leader,) = story.stable_group(1)
    assert story.heartbeat(leader, generation) == ErrorCode.ILLEGAL_GENERATION


def test_heartbeat_to_a_group_that_does_not_exist_is_from_an_unknown_member() -> None:
    story = GroupStory()
    assert story.heartbeat("somebody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    token = story.ask("heartbeat", HeartbeatRequest(group_id="", generation_id=1, member_id="m"))
    assert story.replies[token].error_code == ErrorCode.INVALID_GROUP_ID


def test_sync_during_a_new_rebalance_is_told_to_rejoin() -> None:
    story = GroupStory()
    ids = [story.new_member_id(), story.new_member_id()]
    for member_id in ids:
        story.join(member_id)
    story.advance(0)
    waiting = story.sync(ids[1], 1)
    story.join(story.new_member_id())
    assert story.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_with_another_protocol_than_the_chosen_one_is_refused() -> None:
    """KIP-559."""
    story = GroupStory()
    (leader,) = story.stable_group(1)
    token = story.sync(leader, 1, protocol_name="sticky")
    assert story.synced(token).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_group_settles_on_a_protocol_that_all_members_share() -> None:
    story = GroupStory()
    ids = [story.new_member_id(), story.new_member_id()]
    story.join(ids[0], protocols=("range", "roundrobin"))
    token = story.join(ids[1], protocols=("sticky", "roundrobin"))
    story.advance(0)
    assert story.joined(token).protocol_name == "roundrobin"


@pytest.mark.parametrize(
    ("protocols", "protocol_type"),
    [(("sticky",), "consumer"), (("range",), "connect"), ((), "consumer")],
)
def test_joiner_that_shares_nothing_with_the_group_is_refused(
    protocols: tuple[str, ...], protocol_type: str
) -> None:
    story = GroupStory()
    story.stable_group(1)
    token = story.join(protocols=protocols, protocol_type=protocol_type)
    assert story.joined(token).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.describe().group_state == "Stable"


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
def test_session_timeout_out_of_bounds_is_refused(session_ms: int) -> None:
    story = GroupStory()
    assert (
        story.joined(story.join(session_ms=session_ms)).error_code
        == ErrorCode.INVALID_SESSION_TIMEOUT
    )


def test_group_does_not_grow_beyond_its_size() -> None:
    story = GroupStory(GroupConfig(initial_rebalance_delay_ms=0, max_size=2))
    story.stable_group(2)
    assert story.joined(story.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_metadata_beyond_all_bounds_is_refused_before_it_does_harm() -> None:
    story = GroupStory(GroupConfig(initial_rebalance_delay_ms=0, max_metadata_record_bytes=1_000))
    story.stable_group(1)
    assert (
        story.joined(story.join(metadata=bytes(8_000))).error_code
        == ErrorCode.GROUP_MAX_SIZE_REACHED
    )


def test_generation_that_no_record_could_hold_is_given_up_and_all_members_hear_it() -> None:
    story = GroupStory(GroupConfig(initial_rebalance_delay_ms=0, max_metadata_record_bytes=1_000))
    leader, follower = story.stable_group(2)
    tokens = [story.join(leader), story.join(follower)]
    generation = story.joined(tokens[0]).generation_id
    waiting = story.sync(follower, generation)
    too_much = story.sync(leader, generation, {leader: bytes(2_000)})
    assert (
        story.synced(too_much).error_code
        == story.synced(waiting).error_code
        == ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert story.describe().group_state == "PreparingRebalance"


def test_unknown_member_cannot_bring_a_group_into_being() -> None:
    story = GroupStory()
    assert story.joined(story.join("made-up")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_static_member_that_comes_back_keeps_its_place_without_a_rebalance() -> None:
    """KIP-345."""
    story = GroupStory()
    tokens = [story.join(instance="a"), story.join(instance="b")]
    story.advance(0)
    ids = [story.joined(token).member_id for token in tokens]
    story.sync(ids[0], 1, {ids[0]: b"one", ids[1]: b"two"}, instance="a")
    story.sync(ids[1], 1, instance="b")
    returned = story.joined(story.join(instance="b"))
    assert (returned.error_code, returned.generation_id) == (ErrorCode.NONE, 1)
    assert story.synced(story.sync(returned.member_id, 1, instance="b")).assignment == b"two"
    assert story.heartbeat(ids[1], 1, "b") == ErrorCode.FENCED_INSTANCE_ID


def test_static_leader_that_comes_back_skips_the_assignment() -> None:
    """KIP-814; before version 9 it is told that its old self leads, so that it does not assign."""
    story = GroupStory()
    first = story.join(instance="a")
    story.advance(0)
    old_id = story.joined(first).member_id
    story.sync(old_id, 1, {old_id: b"all"}, instance="a")
    new = story.joined(story.join(instance="a"))
    assert (new.skip_assignment, new.leader) == (True, new.member_id)
    older = story.joined(story.join(instance="a", api_version=8))
    assert (older.skip_assignment, older.leader) == (False, new.member_id)


def test_static_leader_that_stays_away_is_followed_by_one_that_is_there_and_goes_on_leading() -> (
    None
):
    story = GroupStory()
    tokens = [story.join(instance="a"), story.join(instance="b")]
    story.advance(0)
    first, second = (story.joined(token).member_id for token in tokens)
    story.sync(first, 1, {first: b"one", second: b"two"}, instance="a")
    rejoining = story.join(second, instance="b", protocols=("range", "sticky"))
    while rejoining not in story.replies:
        story.advance(5_000)
        story.heartbeat(first, 1, "a")
    response = story.joined(rejoining)
    assert (response.leader, {member.member_id for member in response.members}) == (
        second,
        {first, second},
    )
    story.sync(second, 2, {second: b"all"}, instance="b")
    again, back = story.join(second, instance="b"), story.join(first, instance="a")
    assert story.joined(back).generation_id == 3
    assert story.joined(back).leader == story.joined(again).leader == second


def test_administrator_removes_a_static_member_by_its_instance_id() -> None:
    story = GroupStory()
    token = story.join(instance="a")
    story.advance(0)
    member_id = story.joined(token).member_id
    story.sync(member_id, 1, {member_id: b"all"}, instance="a")
    assert (
        story.leave(MemberIdentity(group_instance_id="a")).members[0].error_code == ErrorCode.NONE
    )
    assert story.describe().group_state == "Empty"


def test_group_survives_a_restart_with_its_assignments() -> None:
    story = GroupStory()
    leader, follower = story.stable_group(2)
    story.restart()
    assert story.heartbeat(leader, 1) == ErrorCode.NONE
    described = story.describe()
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert {member.member_id: member.member_assignment for member in described.members}[
        follower
    ] == f"part of {follower}".encode()
    story.advance(SESSION_MS)
    assert story.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_describing_names_the_group_and_its_members() -> None:
    story = GroupStory()
    (leader,) = story.stable_group(1)
    described = story.describe()
    assert (described.group_id, described.protocol_type) == (GROUP, "consumer")
    assert (described.members[0].member_id, described.members[0].client_host) == (
        leader,
        "127.0.0.1",
    )
