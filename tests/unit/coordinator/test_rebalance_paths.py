"""Apache Kafka's own responses settle these paths of the classic group's state machine.

They settle the bounds of a group, too.
"""

import pytest

from log_service.common.errors import ErrorCode
from log_service.config.views import GroupConfig
from log_service.coordinator.group.classic.joining import MAX_PENDING_MEMBERS, MIN_POSTPONEMENT_MS
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.leave_group import MemberIdentity
from log_service.state_machine.decision import SetTimer
from tests.unit.coordinator.group_story import GROUP, REBALANCE_MS, SESSION_MS, GroupStory


def test_group_that_was_only_asked_for_is_there_until_the_next_check() -> None:
    story = GroupStory()
    story.new_member_id()
    assert story.describe().group_state == "Empty"
    story.restart()
    assert story.describe().group_state == "Empty"
    story.advance(story.config.offsets_retention_check_interval_ms)
    assert story.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_refused_joiner_leaves_an_empty_group_behind() -> None:
    story = GroupStory()
    assert (
        story.joined(story.join(protocols=())).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert story.describe().group_state == "Empty"


def test_members_that_leave_together_cause_one_rebalance() -> None:
    story = GroupStory()
    first, second, third = story.stable_group(3)
    gone = [
        MemberIdentity(member_id=first),
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id=second),
    ]
    codes = [response.error_code for response in story.leave(*gone).members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert story.heartbeat(third, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert story.joined(story.join(third)).generation_id == 2


def test_a_stranger_that_leaves_disturbs_no_member() -> None:
    story = GroupStory()
    (member,) = story.stable_group(1)
    assert story.leave().members == []
    assert (
        story.leave(MemberIdentity(member_id="nobody")).members[0].error_code
        == ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert story.heartbeat(member, 1) == ErrorCode.NONE


def test_id_that_is_given_back_starts_a_rebalance_as_a_member_would() -> None:
    story = GroupStory()
    (member,) = story.stable_group(1)
    assert (
        story.leave(MemberIdentity(member_id=story.new_member_id())).members[0].error_code
        == ErrorCode.NONE
    )
    assert story.heartbeat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_id_that_is_given_back_to_an_empty_group_changes_nothing() -> None:
    story = GroupStory()
    story.leave(MemberIdentity(member_id=story.new_member_id()))
    assert story.describe().group_state == "Empty"
    token = story.join(story.new_member_id())
    story.advance(0)
    assert story.joined(token).generation_id == 1


def test_id_that_is_given_back_lets_the_others_go_on() -> None:
    story = GroupStory()
    (member,) = story.stable_group(1)
    unused = story.new_member_id()
    token = story.join(member)
    assert token not in story.replies
    story.leave(MemberIdentity(member_id=unused))
    assert story.joined(token).generation_id == 2


def test_assignments_are_shown_until_there_are_new_ones() -> None:
    story = GroupStory()
    leader, _ = story.stable_group(2)
    story.join(leader)
    described = story.describe()
    assert described.group_state == "PreparingRebalance"
    assert {member.member_assignment for member in described.members} >= {
        f"part of {leader}".encode()
    }
    assert {member.member_metadata for member in described.members} == {b""}


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ("range", "roundrobin", "range"),
        ("range", "sticky", "sticky"),
        ("roundrobin", "cooperative-sticky", "roundrobin"),
        ("sticky", "cooperative-sticky", "sticky"),
    ],
)
def test_tied_votes_go_where_kafka_looks_first(first: str, second: str, chosen: str) -> None:
    story = GroupStory()
    for protocols in ((first, second), (second, first)):
        member_id = story.joined(story.join(protocols=protocols)).member_id
        token = story.join(member_id, protocols=protocols)
    story.advance(REBALANCE_MS)
    assert story.joined(token).protocol_name == chosen


def test_places_of_a_full_group_go_to_those_who_rejoin() -> None:
    story = GroupStory(GroupConfig(initial_rebalance_delay_ms=0, max_size=2))
    first, second = story.stable_group(2)
    story.join(first)
    newcomer = story.join(story.new_member_id())
    refused = story.joined(story.join(second))
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    story.advance(REBALANCE_MS)
    assert story.joined(newcomer).error_code == ErrorCode.NONE


def test_flood_of_ids_is_bounded_and_the_newest_are_good() -> None:
    story = GroupStory()
    oldest = story.new_member_id()
    newest = [story.new_member_id() for _ in range(MAX_PENDING_MEMBERS)][-1]
    assert story.joined(story.join(oldest)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.join(newest) not in story.replies
    assert (
        sum(key[0] == "session" for key in story.timers if isinstance(key, tuple))
        == MAX_PENDING_MEMBERS
    )


def test_heartbeats_set_no_timers_and_still_keep_a_member_alive() -> None:
    story = GroupStory()
    (member,) = story.stable_group(1)
    for _ in range(10):
        story.advance(SESSION_MS // 2)
        decision = story.decision()
        request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member)
        story.shard.handle_heartbeat(request, _context(), decision)
        assert not [timer for timer in decision.timers if isinstance(timer, SetTimer)]
    assert story.describe().group_state == "Stable"
    story.advance(SESSION_MS)
    assert story.describe().group_state == "Empty"


def test_static_member_that_comes_back_brings_its_own_timeouts() -> None:
    story = GroupStory()
    member_id = story.joined(_after_join(story, story.join(instance="one"))).member_id
    story.sync(member_id, 1, {member_id: b"all"}, instance="one")
    story.join(instance="one", session_ms=2 * SESSION_MS)
    story.restart()
    story.advance(2 * SESSION_MS - 1)
    assert story.describe().group_state == "Stable"
    story.advance(1)
    assert story.describe().group_state == "Empty"


def test_static_member_that_comes_back_and_falls_silent_is_removed() -> None:
    story = GroupStory()
    member_id = story.joined(_after_join(story, story.join(instance="one"))).member_id
    story.sync(member_id, 1, {member_id: b"all"}, instance="one")
    story.advance(SESSION_MS // 2)
    story.join(instance="one")
    story.advance(SESSION_MS - 1)
    assert story.describe().group_state == "Stable"
    story.advance(1)
    assert story.describe().group_state == "Empty"


def test_static_member_that_comes_back_before_the_assignment_is_there_joins_anew_and_its_old_self_is_fenced() -> (
    None
):
    story = GroupStory()
    tokens = [story.join(instance="a"), story.join(instance="b")]
    story.advance(0)
    first, second = (story.joined(token).member_id for token in tokens)
    waiting = story.sync(second, 1, instance="b")
    back = story.join(instance="b")
    assert story.synced(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert story.describe().group_state == "PreparingRebalance"
    story.join(first, instance="a")
    assert story.joined(back).generation_id == 2


def test_static_member_that_comes_back_with_another_protocol_starts_a_rebalance() -> None:
    story = GroupStory()
    member_id = story.joined(
        _after_join(story, story.join(instance="one", protocols=("range", "sticky")))
    ).member_id
    story.sync(member_id, 1, {member_id: b"all"}, instance="one")
    back = story.joined(story.join(instance="one", protocols=("sticky",)))
    assert (back.generation_id, back.protocol_name) == (2, "sticky")


def test_members_that_keep_arriving_put_the_first_generation_off_no_longer_than_the_rebalance_timeout() -> (
    None
):
    """KIP-134."""
    story = GroupStory(GroupConfig(initial_rebalance_delay_ms=3_000))
    began_ms, first = story.now_ms, story.join(api_version=3)
    while first not in story.replies:
        assert story.now_ms - began_ms < REBALANCE_MS
        story.advance(1_500)
        story.join(api_version=3)
    assert story.joined(first).generation_id == 1
    assert story.now_ms - began_ms > REBALANCE_MS // 2


def test_member_that_rejoins_brings_its_own_timeouts() -> None:
    story = GroupStory()
    (member_id,) = story.stable_group(1)
    story.join(member_id, session_ms=2 * SESSION_MS)
    story.sync(member_id, 2, {member_id: b"all"})
    story.advance(2 * SESSION_MS - 1)
    assert story.describe().group_state == "Stable"
    story.advance(1)
    assert story.describe().group_state == "Empty"


def test_a_join_phase_that_waits_for_absent_members_is_not_looked_at_in_a_tight_loop() -> None:
    story = GroupStory()
    leaver = story.new_member_id()
    tokens = story.join(leaver), story.join(instance="one", rebalance_ms=0)
    story.advance(0)
    for token in tokens:
        joined = story.joined(token)
        story.sync(joined.member_id, 1, {}, instance="one" if joined.member_id != leaver else None)
    assert story.describe().group_state == "Stable"
    story.leave(MemberIdentity(member_id=leaver))
    fired_count = 0
    while story.describe().group_state != "Empty":
        story.advance(min(story.timers.values()) - story.now_ms)
        fired_count += 1
        assert fired_count < 2 * SESSION_MS / MIN_POSTPONEMENT_MS
    assert story.now_ms <= 2 * SESSION_MS


def _after_join(story: GroupStory, token: int) -> int:
    story.advance(0)
    return token


def _context() -> RequestContext:
    return RequestContext(
        api_version=4, client_id="client", client_host="127.0.0.1", reply_to="nobody"
    )
