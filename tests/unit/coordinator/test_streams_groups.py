"""A coordinator of streams groups takes heartbeats and keeps epochs and statuses (KIP-1071).

It removes members.
"""

from dataclasses import replace
from typing import Any

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.views import GroupConfig, StreamsGroupConfig
from log_service.coordinator.group.streams.configuration import StreamsStatus
from log_service.coordinator.group.streams.heartbeats import StreamsHeartbeatReply
from log_service.coordinator.group.topic_hash import TopicHashes
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.image import ResourceType
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from log_service.protocol.messages.leave_group import MemberIdentity
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from log_service.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    RequestEndpoint,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.consumer_story import configure
from tests.unit.coordinator.group_story import GROUP
from tests.unit.coordinator.streams_story import (
    AT_ONCE,
    StreamsStory,
    active,
    changelog,
    counting,
    standby,
    statuses,
)

MISSING, DELAYED = StreamsStatus.MISSING_INTERNAL_TOPICS, StreamsStatus.ASSIGNMENT_DELAYED


def with_config(**changed: Any) -> GroupConfig:
    return GroupConfig(streams=replace(AT_ONCE, **changed))


# Joining, leaving


def test_the_first_member_gets_all_tasks_in_epoch_2() -> None:
    story = StreamsStory()
    response = story.start("a")
    assert (response.member_epoch, active(response), response.heartbeat_interval_ms) == (
        2,
        {"0": (0, 1, 2, 3)},
        5_000,
    )
    assert story.types() == [19, 23, 17, 21, 20, 22]
    steady = story.hear("a", 2)
    assert (
        steady.member_epoch,
        steady.active_tasks,
        steady.standby_tasks,
        steady.warmup_tasks,
        steady.status,
    ) == (2, None, None, None, [])
    assert story.types() == [19, 23, 17, 21, 20, 22], "a steady heartbeat stores nothing"
    assert story.shown().group_state == "Stable"


def test_an_empty_group_waits_for_more_members_and_a_timer_assigns() -> None:
    story = StreamsStory(config=with_config(initial_rebalance_delay_ms=3_000))
    first = story.start("a")
    assert (first.member_epoch, active(first), statuses(first)) == (1, {}, [DELAYED])
    second = story.start("b")
    assert (second.member_epoch, active(second), statuses(second)) == (1, {}, [DELAYED])
    assert story.streams.target_epoch.epoch == 1
    story.advance(3_000)
    assert story.streams.target_epoch.epoch == story.streams.epoch.epoch == 3
    one, other = story.hear("a", 1), story.hear("b", 1)
    assert (one.member_epoch, active(one), statuses(one)) == (3, {"0": (0, 2)}, [])
    assert (other.member_epoch, active(other)) == (3, {"0": (1, 3)})


def test_after_the_delay_the_only_member_is_assigned_at_its_next_heartbeat() -> None:
    story = StreamsStory(config=with_config(initial_rebalance_delay_ms=3_000))
    story.start("a")
    story.advance(3_000)
    response = story.hear("a", 1)
    assert (response.member_epoch, active(response)) == (2, {"0": (0, 1, 2, 3)})


def test_a_group_that_was_emptied_waits_again() -> None:
    story = StreamsStory(config=with_config(initial_rebalance_delay_ms=3_000))
    story.start("a")
    story.advance(3_000)
    story.hear("a", 1)
    story.hear("a", -1)
    assert statuses(story.start("b")) == [DELAYED]
    story.advance(3_000)
    assert active(story.hear("b", 2)) == {"0": (0, 1, 2, 3)}


def test_targets_are_not_computed_again_and_again() -> None:
    story = StreamsStory(config=with_config(assignment_interval_ms=1_000))
    story.start("a")
    joined = story.start("b")
    assert (joined.member_epoch, active(joined), statuses(joined)) == (2, {}, [DELAYED])
    story.advance(1_000)
    assert statuses(story.hear("b", 2)) == []
    assert story.streams.target_epoch.epoch == 3


def test_a_task_is_handed_over_only_when_it_was_released() -> None:
    story = StreamsStory()
    story.start("a")
    joined = story.start("b")
    assert (joined.member_epoch, active(joined)) == (3, {})
    revoking = story.hear("a", 2)
    kept = active(revoking)
    assert revoking.member_epoch == 2
    assert kept is not None
    assert len(kept["0"]) == 2
    assert active(story.hear("b", 3)) is None, "the tasks are not released"
    assert active(story.hear("a", 2, {"0": (0, 1, 2, 3)})) is None, "the member still runs them"
    released = story.hear("a", 2, kept)
    assert (released.member_epoch, released.active_tasks) == (3, None)
    got = active(story.hear("b", 3))
    assert got is not None
    assert sorted((*got["0"], *kept["0"])) == [0, 1, 2, 3]
    assert story.shown().group_state == "Stable"


def test_a_member_that_does_not_release_in_time_is_removed() -> None:
    story = StreamsStory()
    story.start("a", rebalance_timeout_ms=7_000)
    story.start("b")
    story.hear("a", 2)
    story.advance(7_000)
    assert story.refused_with("a", 2, {}) == ErrorCode.UNKNOWN_MEMBER_ID
    assert active(story.hear("b", 3)) == {"0": (0, 1, 2, 3)}


def test_a_silent_member_is_removed() -> None:
    story = StreamsStory()
    story.start("a")
    story.advance(30_000)
    story.start("b")
    story.advance(15_000)
    assert list(story.streams.members) == ["b"]
    story.advance(30_000)
    assert story.shown().group_state == "Empty"


def test_after_a_failover_members_have_a_whole_session_and_keep_their_tasks() -> None:
    story = StreamsStory()
    story.start("a")
    story.advance(40_000)
    story.restart()
    story.advance(40_000)
    before = len(story.log)
    assert story.hear("a", 2).active_tasks is None
    assert len(story.log) == before
    story.advance(45_000)
    assert not story.streams.members


def test_a_member_that_must_release_is_timed_anew_after_a_failover() -> None:
    story = StreamsStory()
    story.start("a", rebalance_timeout_ms=7_000)
    story.start("b")
    story.hear("a", 2)
    story.restart()
    story.advance(7_000)
    assert list(story.streams.members) == ["b"]


def test_leaving_bumps_the_epoch_and_takes_the_member_back() -> None:
    story = StreamsStory()
    story.start("a")
    before = len(story.log)
    response = story.hear("a", -1)
    assert (response.member_epoch, response.heartbeat_interval_ms, response.status) == (-1, 0, [])
    assert story.types()[before:] == [22, 21, 19, 17]
    assert story.streams.epoch.epoch == 3
    assert story.refused_with("a", -1) == ErrorCode.UNKNOWN_MEMBER_ID


# Requests that are wrong


@pytest.mark.parametrize(
    ("epoch", "said", "code"),
    [
        (0, {"group_id": " "}, ErrorCode.INVALID_REQUEST),
        (0, {"instance_id": "i"}, ErrorCode.INVALID_REQUEST),
        (0, {"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        (0, {"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        (0, {"topology": None}, ErrorCode.INVALID_REQUEST),
        (0, {"task_offsets": [TaskOffset()]}, ErrorCode.INVALID_REQUEST),
        (0, {"task_end_offsets": []}, ErrorCode.INVALID_REQUEST),
        (0, {"active_tasks": None}, ErrorCode.INVALID_REQUEST),
        (0, {"standby_tasks": None}, ErrorCode.INVALID_REQUEST),
        (0, {"warmup_tasks": None}, ErrorCode.INVALID_REQUEST),
        (
            0,
            {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None},
            ErrorCode.INVALID_REQUEST,
        ),
        (-2, {}, ErrorCode.INVALID_REQUEST),
        (-3, {}, ErrorCode.INVALID_REQUEST),
        (2, {}, ErrorCode.INVALID_REQUEST),  # with a topology
        (2, {"topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
        (-1, {"topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    epoch: int, said: dict[str, Any], code: ErrorCode
) -> None:
    story = StreamsStory()
    assert story.refused_with("a", epoch, {}, **{**story.joining("a"), **said}) == code
    assert not story.log


def test_a_member_needs_an_id() -> None:
    story = StreamsStory()
    assert story.refused_with(" ", 0, {}, **story.joining(" ")) == ErrorCode.INVALID_REQUEST


def subtopology(**said: Any) -> Topology:
    return Topology(
        subtopologies=[Subtopology(**{"subtopology_id": "0", "source_topics": ["orders"], **said})]
    )


@pytest.mark.parametrize(
    "topology",
    [
        Topology(epoch=-1, subtopologies=counting().subtopologies),
        Topology(
            subtopologies=[
                Subtopology(subtopology_id="0", source_topics=["orders"]) for _ in range(2)
            ]
        ),
        subtopology(source_topics=[]),
        subtopology(state_changelog_topics=[TopicInfo(name="c", partitions=3)]),
        subtopology(state_changelog_topics=[changelog("c"), changelog("c")]),
        subtopology(
            repartition_source_topics=[TopicInfo(name="r", partitions=-2)],
            repartition_sink_topics=["r"],
        ),
        subtopology(repartition_source_topics=[TopicInfo(name="r")]),
        subtopology(
            source_topics=[],
            repartition_source_topics=[TopicInfo(name="r")],
            repartition_sink_topics=["r"],
        ),
        subtopology(copartition_groups=[CopartitionGroup(source_topics=[0, 1])]),
        subtopology(
            copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[-1])]
        ),
    ],
)
def test_a_topology_that_no_topics_could_make_run_is_refused(topology: Topology) -> None:
    story = StreamsStory()
    assert (
        story.refused_with("a", 0, {}, **{**story.joining("a"), "topology": topology})
        == ErrorCode.STREAMS_INVALID_TOPOLOGY
    )
    assert not story.log
    assert story.start("a").member_epoch == 2, "nothing is left of what was refused"


def test_regular_expressions_are_refused() -> None:
    story = StreamsStory()
    wrong = {**story.joining("a"), "topology": subtopology(source_topic_regex=["o.*"])}
    assert story.refused_with("a", 0, {}, **wrong) == ErrorCode.INVALID_REQUEST


def test_epochs_of_others_are_fenced_and_the_previous_one_passes_with_owned_tasks() -> None:
    story = StreamsStory()
    story.start("a")
    story.start("b")
    story.hear("a", 2)
    kept = {"0": tuple(sorted(story.streams.members["a"].current.assigned.active["0"]))}
    story.hear("a", 2, kept)
    assert story.streams.members["a"].current.epoch == 3
    assert story.refused_with("a", 4, kept) == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.refused_with("a", 2) == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.refused_with("a", 2, {"0": (0, 1, 2, 3)}) == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.hear("a", 2, kept).member_epoch == 3


def test_tasks_that_are_not_in_the_topology_are_refused() -> None:
    story = StreamsStory()
    story.start("a")
    assert story.refused_with("a", 2, {"1": (0,)}) == ErrorCode.INVALID_REQUEST
    assert story.refused_with("a", 2, {"0": (4,)}) == ErrorCode.INVALID_REQUEST
    assert story.refused_with("a", 2, {"0": (-1,)}) == ErrorCode.INVALID_REQUEST


def test_a_full_group_takes_no_more() -> None:
    story = StreamsStory(config=with_config(max_size=1))
    story.start("a")
    assert story.refused_with("b", 0, {}, **story.joining("b")) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_topology_larger_than_a_record_is_refused() -> None:
    story = StreamsStory(config=replace(with_config(), max_metadata_record_bytes=2_000))
    large = subtopology(
        state_changelog_topics=[changelog(f"a-state-store-changelog-{each}") for each in range(100)]
    )
    refused = story.reply("a", 0, {}, **{**story.joining("a"), "topology": large})
    assert isinstance(refused, KafkaError)
    assert not story.log


# Topologies and topics


def test_missing_internal_topics_are_replied_and_the_epoch_is_bumped_when_they_are_there() -> None:
    story = StreamsStory(topology=counting())
    reply = story.reply("a", 0, {}, **story.joining("a"))
    assert isinstance(reply, StreamsHeartbeatReply)
    assert [(each.name, each.partitions, each.configs) for each in reply.missing_topics] == [
        ("counts-changelog", 4, (("cleanup.policy", "compact"),))
    ]
    assert (reply.response.member_epoch, active(reply.response), statuses(reply.response)) == (
        2,
        {},
        [MISSING],
    )
    assert (story.shown().group_state, story.streams.epoch.validated_topology_epoch) == (
        "NotReady",
        -1,
    )
    story.create_topic("counts-changelog", 4)
    response = story.hear("a", 2)
    assert (response.member_epoch, active(response), response.status) == (
        3,
        {"0": (0, 1, 2, 3)},
        [],
    )
    assert (story.streams.epoch.epoch, story.streams.epoch.validated_topology_epoch) == (3, 0)


def test_a_topology_that_is_validated_bumps_the_epoch_even_if_the_hash_is_the_same() -> None:
    """The group was stored as one that is not ready, with the present hash of its topics.

    Only the validation is new.
    """
    story = StreamsStory(topology=counting())
    story.start("a")
    story.create_topic("counts-changelog", 4)
    metadata_hash = TopicHashes().of(story.streams.required_topics, story.image)
    story.streams.epoch = replace(story.streams.epoch, metadata_hash=metadata_hash)
    story.shard.streams.forget(GROUP)
    response = story.hear("a", 2)
    assert (story.streams.epoch.epoch, response.member_epoch, active(response)) == (
        3,
        3,
        {"0": (0, 1, 2, 3)},
    )


def test_missing_source_topics_are_a_status_and_no_error() -> None:
    story = StreamsStory(topics={}, topology=counting())
    response = story.start("a")
    assert [(each.status_code, each.status_detail) for each in response.status or ()] == [
        (StreamsStatus.MISSING_SOURCE_TOPICS, "Source topics orders are missing.")
    ]
    assert (response.member_epoch, active(response)) == (2, {})


def test_a_deleted_source_topic_takes_the_tasks_away() -> None:
    story = StreamsStory()
    story.start("a")
    story.remove_topic("orders")
    response = story.hear("a", 2, {"0": (0, 1, 2, 3)})
    assert (active(response), statuses(response)) == ({}, [StreamsStatus.MISSING_SOURCE_TOPICS])
    assert story.shown().group_state == "NotReady"


def test_new_partitions_are_new_tasks() -> None:
    story = StreamsStory()
    story.start("a")
    story.add_partitions("orders", 4, 6)
    response = story.hear("a", 2)
    assert (response.member_epoch, active(response)) == (3, {"0": (0, 1, 2, 3, 4, 5)})


def test_an_internal_topic_with_another_count_is_told() -> None:
    story = StreamsStory(topics={"orders": 4, "counts-changelog": 3}, topology=counting())
    (status,) = story.start("a").status or []
    assert status.status_code == StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert (
        status.status_detail
        == "Existing topic counts-changelog has different number of partitions: expected 4, found 3"
    )


def test_a_group_keeps_its_topology() -> None:
    story = StreamsStory(topics={"orders": 4, "counts-changelog": 4}, topology=counting(epoch=3))
    story.start("a")
    assert (
        story.refused_with("b", 0, {}, **{**story.joining("b"), "topology": counting(epoch=4)})
        == ErrorCode.INVALID_REQUEST
    )
    other = Topology(epoch=3, subtopologies=subtopology().subtopologies)
    assert (
        story.refused_with("b", 0, {}, **{**story.joining("b"), "topology": other})
        == ErrorCode.INVALID_REQUEST
    )
    stale = story.start("b", topology=counting(epoch=2))
    assert statuses(stale) == [StreamsStatus.STALE_TOPOLOGY]
    assert statuses(story.hear("b", stale.member_epoch)) == [StreamsStatus.STALE_TOPOLOGY]


def test_the_number_of_standby_tasks_may_change_while_members_run() -> None:
    story = StreamsStory(topics={"orders": 4, "counts-changelog": 4}, topology=counting())
    story.start("a")
    story.start("b")
    story.hear("a", 2)
    kept = {"0": tuple(sorted(story.streams.members["a"].current.assigned.active["0"]))}
    story.hear("a", 2, kept)
    story.hear("b", 3)
    assert story.streams.epoch.epoch == 3
    configure(story, ResourceType.GROUP, GROUP, "streams.num.standby.replicas", "1")
    response = story.hear("a", 3)
    assert story.streams.epoch.epoch == 4
    others = {"0": tuple(sorted({0, 1, 2, 3} - set(kept["0"])))}
    assert (active(response), standby(response)) == (kept, others)


def test_one_instance_asks_all_to_shut_down() -> None:
    story = StreamsStory()
    story.start("a")
    story.start("b")
    story.hear("a", 2, shutdown_application=True)
    (status,) = story.hear("b", 3).status or []
    assert status.status_code == StreamsStatus.SHUTDOWN_APPLICATION
    assert "member a " in status.status_detail
    story.hear("a", -1)
    assert statuses(story.hear("b", 3)) == [StreamsStatus.SHUTDOWN_APPLICATION]
    story.hear("b", -1)
    assert statuses(story.start("c")) == [], "a group without members has forgotten it"


def test_members_learn_where_the_state_is_when_it_has_moved() -> None:
    story = StreamsStory(topics={"orders": 2, "counts-changelog": 2}, topology=counting())
    first = story.start("a", user_endpoint=RequestEndpoint(host="h", port=1))
    assert first.endpoint_information_epoch == 0
    assert [
        (each.user_endpoint.host, each.user_endpoint.port)
        for each in first.partitions_by_user_endpoint or ()
    ] == [("h", 1)]
    second = story.start("b", user_endpoint=RequestEndpoint(host="h", port=2))
    assert second.endpoint_information_epoch == 1
    told = story.hear("a", 2)
    assert told.endpoint_information_epoch == 2
    shown = {
        each.user_endpoint.port: [
            (topic.topic, topic.partitions) for topic in each.active_partitions
        ]
        for each in told.partitions_by_user_endpoint or ()
    }
    assert shown[2] == []
    assert len(shown[1][0][1]) == 1
    assert story.hear("a", 2, endpoint_information_epoch=2).partitions_by_user_endpoint is None
    assert story.hear("b", 3, endpoint_information_epoch=1).partitions_by_user_endpoint is not None


# Groups of other kinds


def test_an_empty_classic_group_becomes_a_streams_group_and_back() -> None:
    story = StreamsStory()
    (classic,) = story.stable_group(1)
    assert story.refused_with("a", 0, {}, **story.joining("a")) == ErrorCode.GROUP_ID_NOT_FOUND
    story.leave(MemberIdentity(member_id=classic))
    assert story.start("a").member_epoch == 2
    assert story.joined(story.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    story.hear("a", -1)
    assert story.joined(story.join()).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert story.shard.streams_group(GROUP) is None
    assert story.describe().group_state == "Empty"


def test_members_of_other_protocols_do_not_find_the_group() -> None:
    story = StreamsStory()
    story.start("a")
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="c",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    share = ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id="c", subscribed_topic_names=["orders"]
    )
    refused = story.replies[story.ask("consumer_group_heartbeat", consumer, api_version=1)]
    assert isinstance(refused, KafkaError)
    assert refused.code == ErrorCode.GROUP_ID_NOT_FOUND
    context = RequestContext(api_version=1, client_id="c", client_host="h", reply_to=0)
    with pytest.raises(KafkaError, match=GROUP):
        story.shard.share_groups.handle_heartbeat(share, context, story.decision())
    assert story.synced(story.sync("c", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.heartbeat("c", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        story.leave(MemberIdentity(member_id="c")).members[0].error_code
        == ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert story.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


# Offsets


def commit(
    story: StreamsStory,
    member_id: str,
    epoch: int,
    *partitions: int,
    topic: str = "orders",
    version: int = 9,
) -> int:
    parts = [
        OffsetCommitRequestPartition(partition_index=each, committed_offset=5)
        for each in partitions
    ]
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=parts)],
    )
    return int(
        story.replies[story.ask("offset_commit", request, api_version=version)]
        .topics[0]
        .partitions[0]
        .error_code
    )


def commit_in_transaction(story: StreamsStory, member_id: str, epoch: int, *partitions: int) -> int:
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


def settled(story: StreamsStory) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Have two members share the tasks, and return the tasks of each.

    Those of a run since epoch 2, those of b since epoch 3.
    """
    story.start("a")
    story.start("b")
    story.hear("a", 2)
    kept = tuple(sorted(story.streams.members["a"].current.assigned.active["0"]))
    story.hear("a", 2, {"0": kept})
    story.hear("b", 3)
    return kept, tuple(sorted(story.streams.members["b"].current.assigned.active["0"]))


def test_commits_are_judged_by_the_epoch_of_each_task() -> None:
    story = StreamsStory()
    of_a, of_b = settled(story)
    assert commit(story, "a", 3, *of_a) == 0
    assert commit(story, "a", 2, *of_a) == 0, "the member has run these tasks since epoch 2"
    assert commit(story, "a", 1, *of_a) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(story, "a", 2, *of_b) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(story, "a", 2, 0, topic="bills") == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(story, "b", 2, *of_b) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(story, "a", 4, *of_a) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(story, "x", 3, *of_a) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(story, "", -1, *of_a) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(story, "a", 3, *of_a, version=8) == ErrorCode.UNSUPPORTED_VERSION


def test_commits_in_transactions_are_judged_by_the_epoch_of_each_task() -> None:
    story = StreamsStory()
    of_a, of_b = settled(story)
    assert commit_in_transaction(story, "a", 3, *of_a) == 0
    assert commit_in_transaction(story, "a", 2, *of_a) == 0
    assert commit_in_transaction(story, "a", 2, *of_b) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(story, "a", 4, *of_a) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(story, "x", 3, *of_a) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(story, "", -1, *of_a) == 0


def fetch(story: StreamsStory, member_id: str | None, epoch: int) -> int:
    group = OffsetFetchRequestGroup(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=None
    )
    return int(story.replies[story.ask("offset_fetch", group, api_version=9)].error_code)


def test_fetches_of_offsets_are_of_members_in_their_epoch_or_of_tools() -> None:
    story = StreamsStory()
    story.start("a")
    assert [fetch(story, *asked) for asked in ((None, -1), ("a", 2), ("a", 1), ("x", 2))] == [
        0,
        0,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


def test_offsets_of_topics_that_are_read_are_not_deleted() -> None:
    story = StreamsStory()
    story.start("a")
    commit(story, "a", 2, 0)
    assert (
        story.delete_offsets("orders").topics[0].partitions[0].error_code
        == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    )
    story.hear("a", -1)
    assert story.delete_offsets("orders").topics[0].partitions[0].error_code == 0
    assert story.positions() == {}


# Administration


def test_a_group_is_deleted_when_it_is_empty() -> None:
    story = StreamsStory()
    story.start("a")
    assert story.delete() == ErrorCode.NON_EMPTY_GROUP
    commit(story, "a", 2, 0)
    story.hear("a", -1)
    assert story.delete() == 0
    assert story.types()[-4:] == [1, 20, 17, 23]
    assert story.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    story.restart()
    assert story.shown().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_listed_with_its_type() -> None:
    story = StreamsStory()
    story.start("a")
    (listed,) = story.shard.list_groups(ListGroupsRequest(types_filter=["Streams"]))
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        GROUP,
        "streams",
        "Stable",
        "streams",
    )
    (overview,) = story.shard.overviews()
    assert (overview.protocol, overview.state, overview.member_count) == ("streams", "Stable", 1)


def test_a_group_is_described_with_topology_members_and_targets() -> None:
    story = StreamsStory(topics={"orders": 2, "counts-changelog": 2}, topology=counting())
    story.start(
        "a",
        rack_id="r",
        user_endpoint=RequestEndpoint(host="h", port=1),
        client_tags=[KeyValue(key="z", value="1"), KeyValue(key="c", value="2")],
    )
    before = story.shown().topology
    assert before is not None
    assert [
        topic.partitions
        for each in before.subtopologies or ()
        for topic in each.state_changelog_topics
    ] == [0]
    story.hear("a", 2)
    shown = story.shown()
    assert (shown.group_state, shown.group_epoch, shown.assignment_epoch) == ("Stable", 2, 2)
    assert shown.topology is not None
    (described,) = shown.topology.subtopologies or []
    assert [(topic.name, topic.partitions) for topic in described.state_changelog_topics] == [
        ("counts-changelog", 2)
    ]
    (member,) = shown.members
    assert (member.member_id, member.rack_id, member.process_id, member.topology_epoch) == (
        "a",
        "r",
        "process of a",
        0,
    )
    assert [(tag.key, tag.value) for tag in member.client_tags] == [("c", "2"), ("z", "1")]
    for assignment in (member.assignment, member.target_assignment):
        assert [(each.subtopology_id, each.partitions) for each in assignment.active_tasks] == [
            ("0", [0, 1])
        ]


def test_a_refused_append_changes_nothing() -> None:
    story = StreamsStory(
        config=GroupConfig(streams=StreamsGroupConfig(initial_rebalance_delay_ms=3_000))
    )
    decision = story.decision()
    request = StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="a",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        shutdown_application=True,
        **story.joining("a"),
    )
    context = RequestContext(api_version=0, client_id="c", client_host="h", reply_to=0)
    story.shard.handle_streams_group_heartbeat(request, context, decision)
    decision.take_back()
    assert statuses(story.start("a")) == [DELAYED], (
        "nothing is left of the shutdown that was asked for"
    )
    assert ("streams delay", GROUP) in story.timers
