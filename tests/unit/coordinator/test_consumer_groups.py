"""Members join, reconcile and leave groups of the consumer protocol, and survive a restart
(KIP-848).
"""

from copy import deepcopy

import pytest

from log_service.common.errors import ErrorCode
from log_service.config.views import ConsumerGroupConfig, GroupConfig
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.consumer_story import BILLS, ORDERS, ConsumerStory, assigned
from tests.unit.coordinator.group_story import GROUP

SESSION_MS = 45_000


def two_members() -> ConsumerStory:
    """Two members that are reconciled: a holds 0 and 1 in epoch 3, b holds 2 and 3."""
    story = ConsumerStory()
    story.enter("a")
    story.enter("b")
    story.told("a", 2)
    story.told("a", 2, {ORDERS: (0, 1)})
    story.told("b", 3)
    assert story.group.state.value == "Stable"
    return story


def test_first_member_gets_everything_in_epoch_2() -> None:
    story = ConsumerStory()
    response = story.enter("a")
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (
        "a",
        2,
        5_000,
    )
    assert assigned(response) == {ORDERS: (0, 1, 2, 3)}
    assert story.types() == [5, 3, 7, 6, 8]


def test_steady_heartbeat_stores_nothing_and_tells_no_assignment() -> None:
    story = ConsumerStory()
    story.enter("a")
    stored = len(story.log)
    response = story.told("a", 2)
    assert (response.member_epoch, response.assignment, len(story.log)) == (2, None, stored)


def test_full_heartbeat_is_told_the_assignment_again() -> None:
    story = ConsumerStory()
    story.enter("a")
    response = story.told("a", 2, {ORDERS: (0, 1, 2, 3)}, topics=("orders",), rebalance_ms=60_000)
    assert assigned(response) == {ORDERS: (0, 1, 2, 3)}


@pytest.mark.parametrize(
    "said",
    [
        {"topics": ("orders",), "rebalance_ms": 60_000},
        {"owned": {ORDERS: (0, 1, 2, 3)}, "rebalance_ms": 60_000},
        {"owned": {ORDERS: (0, 1, 2, 3)}, "topics": ("orders",)},
    ],
)
def test_heartbeat_that_leaves_something_out_is_told_no_assignment(said: dict[str, object]) -> None:
    story = ConsumerStory()
    story.enter("a")
    assert story.told("a", 2, **said).assignment is None  # type: ignore[arg-type]


def test_partition_moves_only_after_its_owner_gave_it_up() -> None:
    story = ConsumerStory()
    story.enter("a")
    joined = story.enter("b")
    assert (joined.member_epoch, assigned(joined)) == (3, {})
    revoking = story.told("a", 2)
    assert (revoking.member_epoch, assigned(revoking)) == (2, {ORDERS: (0, 1)})
    assert story.told("b", 3).assignment is None, "the partitions are still the other member's"
    assert story.told("a", 2, {ORDERS: (0, 1, 2)}).member_epoch == 2, (
        "one partition is not given up yet"
    )
    assert story.told("a", 2, {ORDERS: (0, 1)}).member_epoch == 3
    assert assigned(story.told("b", 3)) == {ORDERS: (2, 3)}


def test_members_keep_what_they_have_when_another_one_comes() -> None:
    """Each partition that moves costs its consumer what it has fetched and built up."""
    story = ConsumerStory()
    story.enter("b")
    story.enter("a")
    assert assigned(story.told("b", 2)) == {ORDERS: (0, 1)}
    story.told("b", 2, {ORDERS: (0, 1)})
    assert assigned(story.told("a", 3)) == {ORDERS: (2, 3)}


def test_partition_that_comes_back_before_it_was_given_up_stays() -> None:
    story = ConsumerStory()
    story.enter("a")
    story.enter("b")
    story.told("a", 2)
    described = story.described().members[0].assignment.topic_partitions[0].partitions
    assert described == [0, 1, 2, 3], "what the member has yet to give up is shown"
    story.told("b", -1)
    response = story.told("a", 2, {ORDERS: (0, 1)})
    assert (response.member_epoch, assigned(response)) == (4, {ORDERS: (0, 1, 2, 3)})


def test_targets_are_not_computed_twice_within_the_interval() -> None:
    story = ConsumerStory(GroupConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=1_000)))
    story.enter("a")
    story.advance(500)
    joined = story.enter("b")
    assert (joined.member_epoch, assigned(joined)) == (2, {})
    assert story.group.state.value == "Assigning"
    story.advance(500)
    assert story.told("b", 2).member_epoch == 3


@pytest.mark.parametrize(
    ("epoch", "owned", "code"),
    [
        (4, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, {ORDERS: (3,)}, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, {ORDERS: (0,)}, ErrorCode.NONE),
        (2, {}, ErrorCode.NONE),
    ],
)
def test_older_epoch_passes_only_for_a_lost_reply(
    epoch: int, owned: dict[object, tuple[int, ...]] | None, code: ErrorCode
) -> None:
    story = two_members()
    if code is ErrorCode.NONE:
        assert story.told("a", epoch, owned).member_epoch == 3  # type: ignore[arg-type]
    else:
        assert story.refused("a", epoch, owned) == code  # type: ignore[arg-type]


def test_member_that_leaves_frees_its_partitions() -> None:
    story = two_members()
    stored = len(story.log)
    left = story.told("a", -1)
    assert (left.member_epoch, left.heartbeat_interval_ms, left.assignment) == (-1, 0, None)
    assert story.types()[stored:] == [8, 7, 5, 3]
    assert assigned(story.told("b", 3)) == {ORDERS: (0, 1, 2, 3)}
    assert story.refused("a", 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_silent_member_is_removed_after_its_session() -> None:
    story = two_members()
    story.advance(SESSION_MS - 1)
    story.told("b", 3)
    story.advance(1)
    assert list(story.group.members) == ["b"]
    story.advance(SESSION_MS)
    assert story.group.state.value == "Empty"


def test_member_that_gives_nothing_up_is_removed_after_its_rebalance_timeout() -> None:
    story = ConsumerStory()
    story.enter("a")
    story.enter("b")
    for _ in range(6):
        if "a" in story.group.members:
            story.told("a", 2)
        story.told("b", 3)
        story.advance(12_000)
    assert list(story.group.members) == ["b"]
    assert story.group.epoch.epoch == 4


@pytest.mark.parametrize("is_loaded_anew", [False, True])
def test_rebalance_timeout_begins_when_a_member_is_told_to_give_up_or_its_group_is_loaded(
    is_loaded_anew: bool,
) -> None:
    story = ConsumerStory()
    story.enter("a")
    story.advance(20_000)
    story.enter("b")
    assert assigned(story.told("a", 2)) == {ORDERS: (0, 1)}
    if is_loaded_anew:
        story.advance(20_000)
        story.restart()
    for ms in (30_000, 29_999):
        story.advance(ms)
        story.told("a", 2)
        story.told("b", 3)
    story.advance(1)
    assert list(story.group.members) == ["b"]


def test_member_that_gave_up_in_time_stays() -> None:
    story = two_members()
    for _ in range(4):
        story.advance(30_000)
        story.told("a", 3)
        story.told("b", 3)


def test_topics_that_change_while_no_coordinator_serves_are_looked_at_afterwards() -> None:
    story = ConsumerStory()
    story.enter("a")
    image = story.image
    story.add_partitions("orders", 4, 6)
    story.image, grown = image, story.image
    story.restart()
    story.image = grown
    assert assigned(story.told("a", 2)) == {ORDERS: (0, 1, 2, 3, 4, 5)}


def test_racks_that_change_bump_the_epoch_at_the_next_heartbeat() -> None:
    story = ConsumerStory()
    story.enter("a")
    story.move_broker("one")
    assert story.told("a", 2).member_epoch == 3
    assert story.told("a", 3).member_epoch == 3


def test_unwanted_topics_go_at_once_also_where_targets_wait_for_the_interval() -> None:
    story = ConsumerStory(
        GroupConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=1_000)),
        topics={"orders": 1, "bills": 1},
    )
    story.enter("a", topics=("bills", "orders"))
    response = story.told("a", 2, topics=("bills",))
    assert (response.member_epoch, assigned(response)) == (2, {BILLS: (0,)})
    assert story.group.target_epoch.epoch == 2, "the target is the old one still"


def test_changed_topics_bump_the_epoch_at_the_next_heartbeat() -> None:
    story = ConsumerStory()
    story.enter("a")
    story.add_partitions("orders", 4, 6)
    assert story.group.epoch.epoch == 2
    response = story.told("a", 2)
    assert (response.member_epoch, assigned(response)) == (3, {ORDERS: (0, 1, 2, 3, 4, 5)})


def test_deleted_topic_is_taken_away() -> None:
    story = ConsumerStory()
    story.enter("a")
    story.remove_topic("orders")
    assert assigned(story.told("a", 2)) == {}
    assert story.told("a", 2, {}).member_epoch == 3


def test_topic_that_does_not_exist_yet_is_assigned_once_it_does() -> None:
    story = ConsumerStory(topics={})
    assert assigned(story.enter("a")) == {}
    story.create_topic("orders", 1)
    assert assigned(story.told("a", 2)) == {ORDERS: (0,)}


def test_member_that_wants_other_topics_gives_up_the_old_ones_first() -> None:
    story = ConsumerStory(topics={"orders": 1, "bills": 1})
    story.enter("a")
    response = story.told("a", 2, topics=("bills",))
    assert (response.member_epoch, assigned(response)) == (2, {})
    response = story.told("a", 2, {})
    assert (response.member_epoch, assigned(response)) == (3, {BILLS: (0,)})


def test_everything_survives_a_restart() -> None:
    story = two_members()
    before = (story.group.epoch, story.group.target_epoch, story.group.targets, story.group.members)
    story.restart()
    assert (
        story.group.epoch,
        story.group.target_epoch,
        story.group.targets,
        story.group.members,
    ) == before
    assert story.told("a", 3).member_epoch == 3
    story.advance(SESSION_MS)
    assert not story.group.members, "sessions go on after a restart"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"member_id": "", "topics": ("orders",), "rebalance_ms": 1}, ErrorCode.INVALID_REQUEST),
        ({"topics": ("orders",)}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_ms": 1}, ErrorCode.INVALID_REQUEST),
        ({"topics": ("orders",), "rebalance_ms": 1, "owned": None}, ErrorCode.INVALID_REQUEST),
        (
            {"topics": ("orders",), "rebalance_ms": 1, "owned": {ORDERS: (0,)}},
            ErrorCode.INVALID_REQUEST,
        ),
        ({"topics": ("orders",), "rebalance_ms": 1, "instance": ""}, ErrorCode.INVALID_REQUEST),
        (
            {"topics": ("orders",), "rebalance_ms": 1, "assignor": "none"},
            ErrorCode.UNSUPPORTED_ASSIGNOR,
        ),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_request_that_cannot_be_is_refused_and_makes_no_group(
    said: dict[str, object], code: ErrorCode
) -> None:
    story = ConsumerStory()
    asked: dict[str, object] = {"member_id": "a", "epoch": 0, "owned": {}, **said}
    assert story.refused(**asked) == code  # type: ignore[arg-type]
    assert not story.log
    assert story.overviews() == []


def test_old_version_lets_the_coordinator_name_the_member() -> None:
    story = ConsumerStory()
    response = story.told("", 0, {}, topics=("orders",), rebalance_ms=1, api_version=0)
    assert response.member_id
    assert list(story.group.members) == [response.member_id]


def test_full_group_refuses_new_members_only() -> None:
    story = ConsumerStory(GroupConfig(consumer=ConsumerGroupConfig(max_size=1)))
    story.enter("a")
    assert (
        story.refused("b", 0, {}, topics=("orders",), rebalance_ms=1)
        == ErrorCode.GROUP_MAX_SIZE_REACHED
    )
    assert story.enter("a").member_epoch == 2


def test_heartbeat_that_the_log_refuses_changes_nothing() -> None:
    story = two_members()
    story.add_partitions("orders", 4, 6)
    sessions, steps = story.shard.consumers.sessions, story.shard.steps
    for member_id, epoch, topics in (("a", 3, None), ("b", -1, None), ("c", 0, ["orders"])):
        before = deepcopy((sessions.members.sessions, steps.stale))
        decision = story.decision()
        said = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=topics,
            topic_partitions=[] if topics else None,
        )
        context = RequestContext(
            api_version=1, client_id="client", client_host="127.0.0.1", reply_to=member_id
        )
        story.shard.handle_consumer_group_heartbeat(said, context, decision)
        assert decision.records
        decision.take_back()
        assert (sessions.members.sessions, steps.stale) == before
    assert story.told("a", 3).member_epoch == 4, "the group still looks at its topics"


# Static members


def test_static_member_that_comes_back_has_its_partitions_in_the_same_epoch() -> None:
    story = ConsumerStory()
    story.enter("a", instance="one")
    story.enter("b")
    assert (
        story.refused("c", 0, {}, topics=("orders",), rebalance_ms=1, instance="one")
        == ErrorCode.UNRELEASED_INSTANCE_ID
    )
    assert story.told("a", -2, instance="one").member_epoch == -2
    epoch = story.group.epoch.epoch
    response = story.enter("c", instance="one")
    assert (response.member_epoch, story.group.epoch.epoch) == (3, epoch)
    assert assigned(response) == {ORDERS: (0, 1)}, (
        "what is not its target any more was given up while it was away"
    )
    assert story.refused("a", 3, instance="one") == ErrorCode.FENCED_INSTANCE_ID
    assert story.refused("x", 3, instance="two") == ErrorCode.UNKNOWN_MEMBER_ID
    assert sorted(story.group.members) == ["b", "c"]


def test_static_member_that_does_not_come_back_is_removed() -> None:
    story = ConsumerStory()
    story.enter("a", instance="one")
    story.told("a", -2, instance="one")
    story.advance(SESSION_MS)
    assert not story.group.members


# Regular expressions


def test_join_by_a_regular_expression_gets_partitions_with_a_later_heartbeat() -> None:
    pytest.importorskip("re2")
    story = ConsumerStory(topics={"orders": 1, "bills": 1})
    response = story.enter("a", topics=None, regex="ord.*")
    assert (response.member_epoch, assigned(response)) == (1, {})
    story.advance(0)
    assert assigned(story.told("a", 1)) == {ORDERS: (0,)}
    story.advance(11_000)
    story.create_topic("ordinary", 1)
    story.told("a", 2)
    story.advance(0)
    assert len(assigned(story.told("a", 2)) or {}) == 2


def test_invalid_regular_expression_is_refused() -> None:
    pytest.importorskip("re2")
    story = ConsumerStory()
    for regex in ("(a", r"(a)\1"):
        code = story.refused("a", 0, {}, regex=regex, rebalance_ms=1)
        assert code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_regular_expression_that_is_used_no_more_is_forgotten() -> None:
    pytest.importorskip("re2")
    story = ConsumerStory()
    story.enter("a", topics=None, regex="ord.*")
    story.advance(0)
    assert list(story.group.regexes) == ["ord.*"]
    story.told("a", 1)
    story.told("a", -1)
    assert not story.group.regexes


def test_regular_expression_is_forgotten_when_its_last_user_takes_another_one_or_none() -> None:
    pytest.importorskip("re2")
    story = ConsumerStory(topics={"orders": 1, "bills": 1})
    story.enter("a", topics=None, regex="ord.*")
    story.enter("b", topics=None, regex="ord.*")
    story.advance(0)
    story.told("a", 1, regex="")
    assert list(story.group.regexes) == ["ord.*"], "the other member uses it"
    assert assigned(story.told("b", 1)) == {ORDERS: (0,)}
    epoch = story.group.epoch.epoch
    story.advance(11_000)
    story.told("b", story.group.members["b"].current.epoch, regex="bil.*")
    assert not story.group.regexes
    assert story.group.epoch.epoch == epoch, "nothing is known of the new one yet"
    story.advance(0)
    assert list(story.group.regexes) == ["bil.*"]
    story.told("b", story.group.members["b"].current.epoch, regex="")
    assert story.group.epoch.epoch == epoch + 2, "the group reads nothing any more"
    assert not story.group.regexes


# Offsets and administration


def commit_in_transaction(
    story: ConsumerStory, member_id: str, epoch: int, *partitions: int
) -> int:
    parts = [
        TxnOffsetCommitRequestPartition(partition_index=each, committed_offset=5)
        for each in partitions
    ]
    request = TxnOffsetCommitRequest(
        group_id=GROUP,
        producer_id=7,
        member_id=member_id,
        generation_id=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=parts)],
    )
    decision = story.decision()
    context = RequestContext(api_version=5, client_id="c", client_host="h", reply_to=0)
    story.shard.handle_txn_offset_commit(request, context, decision, shown=None)
    return int(decision.replies[0].response.topics[0].partitions[0].error_code)


def test_commits_in_transactions_are_judged_by_the_epoch_of_each_partition() -> None:
    """A rebalance that takes nothing from a member does not abort its transaction.

    Other commits go by the same rule (KIP-1251).
    """
    story = two_members()
    assert commit_in_transaction(story, "a", 3, 0, 1) == 0
    assert commit_in_transaction(story, "a", 2, 0, 1) == 0, (
        "the member has held these partitions since epoch 2"
    )
    for member_id, epoch, partition in (("a", 1, 0), ("a", 2, 2), ("a", 4, 0), ("b", 2, 2)):
        assert (
            commit_in_transaction(story, member_id, epoch, partition)
            == ErrorCode.ILLEGAL_GENERATION
        )
    assert commit_in_transaction(story, "x", 3, 0) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "error"), [(None, ErrorCode.NONE), ("", ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_a_tool_that_fetches_offsets_names_no_member_at_all(
    member_id: str | None, error: ErrorCode
) -> None:
    story = two_members()
    group = OffsetFetchRequestGroup(
        group_id=GROUP, member_id=member_id, member_epoch=-1, topics=None
    )
    assert story.replies[story.ask("offset_fetch", group)].error_code == error


def test_commits_are_checked_against_member_and_epoch() -> None:
    story = two_members()
    assert story.commit(5, "a", 3, api_version=9) == ErrorCode.NONE
    assert story.commit(6, "a", 2, api_version=9) == ErrorCode.NONE, (
        "it has held partition 0 since epoch 2"
    )
    assert story.commit(7, "b", 2, api_version=9) == ErrorCode.STALE_MEMBER_EPOCH
    assert story.commit(7, "a", 4, api_version=9) == ErrorCode.STALE_MEMBER_EPOCH
    assert story.commit(7, "x", 3, api_version=9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.commit(7, "a", 3, api_version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert story.commit(7, api_version=9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.committed() == 6


def test_group_is_shown_as_what_it_is() -> None:
    story = two_members()
    described = story.described()
    assert (
        described.group_state,
        described.group_epoch,
        described.assignment_epoch,
        described.assignor_name,
    ) == (
        "Stable",
        3,
        3,
        "uniform",
    )
    first = described.members[0]
    assert (first.member_id, first.member_epoch, first.member_type) == ("a", 3, 1)
    assert [
        (topic.topic_name, topic.partitions) for topic in first.assignment.topic_partitions
    ] == [("orders", [0, 1])]
    assert [topic.partitions for topic in first.target_assignment.topic_partitions] == [[0, 1]]
    (listed,) = story.shard.list_groups(
        ListGroupsRequest(types_filter=["Consumer"], states_filter=["stable"])
    )
    assert (listed.group_id, listed.group_type, listed.group_state, listed.protocol_type) == (
        GROUP,
        "consumer",
        "Stable",
        "consumer",
    )
    dead = story.describe(api_version=6)
    assert (dead.group_state, dead.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert story.describe(api_version=5).error_code == ErrorCode.NONE


def test_group_with_members_cannot_be_deleted_and_an_empty_one_leaves_nothing() -> None:
    story = two_members()
    story.commit(5, "a", 3, api_version=9)
    assert story.delete() == ErrorCode.NON_EMPTY_GROUP
    assert (
        story.delete_offsets("orders").topics[0].partitions[0].error_code
        == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    )
    story.told("a", -1)
    story.told("b", -1)
    assert story.delete() == ErrorCode.NONE
    latest = dict(story.log)
    assert not any(value for value in latest.values())
    story.restart()
    assert story.overviews() == []


# Groups change their kind while they are empty


def test_consumer_takes_over_an_empty_classic_group_and_its_positions() -> None:
    story = ConsumerStory()
    story.commit(7)
    story.enter("a")
    assert story.positions() == {"orders": 7}
    story.restart()
    assert story.told("a", 2).member_epoch == 2
    assert story.positions() == {"orders": 7}


def test_classic_member_takes_over_an_empty_consumer_group() -> None:
    story = ConsumerStory()
    story.enter("a")
    assert (
        story.joined(story.join(protocol_type="connect")).error_code
        == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    story.told("a", -1)
    story.stable_group(1)
    story.restart()
    assert story.describe().group_state == "Stable"


def test_consumer_is_refused_by_a_classic_group_with_members() -> None:
    story = ConsumerStory()
    story.stable_group(1)
    assert (
        story.refused("a", 0, {}, topics=("orders",), rebalance_ms=1)
        == ErrorCode.GROUP_ID_NOT_FOUND
    )
    assert story.describe().group_state == "Stable"


def test_targets_do_not_wait_for_a_clock_that_was_set_back() -> None:
    """The clock of another coordinator may be behind, too.

    Members would be told nothing new until it has caught up.
    """
    story = ConsumerStory(GroupConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=1_000)))
    story.enter("a")
    story.wall_offset_ms -= 3_600_000
    story.enter("b")
    assert story.group.target_epoch.epoch == story.group.epoch.epoch


def test_regular_expressions_do_not_wait_for_a_clock_that_was_set_back() -> None:
    pytest.importorskip("re2")
    story = ConsumerStory()
    story.enter("a", topics=None, regex="ord.*")
    story.advance(10)
    story.wall_offset_ms -= 3_600_000
    story.enter("b", topics=None, regex="or.*")
    story.advance(10)
    assert sorted(story.group.regexes) == ["or.*", "ord.*"]


def test_a_member_says_no_more_than_a_record_holds() -> None:
    """A record's size bounds a member, as with Apache Kafka, whose topic takes no larger records.

    Every coordinator of the group keeps it in memory.
    """
    story = ConsumerStory()
    many = tuple(f"{number:0200d}" for number in range(5_000))
    assert (
        story.refused("a", 0, {}, topics=many, rebalance_ms=60_000)
        == ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert not story.log
    story.enter("a", topics=many[:4_000])
    assert (
        story.refused("a", story.group.members["a"].current.epoch, {}, topics=many)
        == ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert len(story.group.members["a"].subscription.topics) == 4_000


def test_member_keeps_what_it_holds_where_its_subscription_comes_later_in_the_log() -> None:
    """Compaction leaves the last record of each key.

    Here the log has the member's partitions first, and its later subscription behind them.
    """
    story = ConsumerStory()
    story.enter("a")
    story.told("a", 2, {ORDERS: (0, 1, 2, 3)}, topics=("orders",), rebalance_ms=30_000)
    held = story.group.members["a"]
    story.compact(has_tombstones=True)
    story.restart()
    assert story.group.members["a"] == held
    assert story.told("a", 2).member_epoch == 2
    joined = story.enter("b")
    assert assigned(joined) == {}, "all of it is still held"
