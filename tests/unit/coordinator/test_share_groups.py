"""Members of share groups share partitions with a state.

Administrators alter and delete offsets (KIP-932).
"""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode
from log_service.config.server import parse_server_properties
from log_service.config.views import GroupConfig, ShareGroupConfig
from log_service.coordinator.group.records.codec import decode, encode
from log_service.coordinator.group.records.share import (
    ShareAssignment,
    ShareAssignmentRecord,
    ShareEpochRecord,
    ShareMemberRecord,
    ShareSubscription,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
    StateTopic,
)
from log_service.coordinator.group.share.assignor import ShareMemberSpec, assign_simply
from log_service.coordinator.group.share.groups import OffsetsToAlter, StatesToDelete
from log_service.coordinator.group.share.states import (
    with_all_deleting,
    with_topics_deleting,
    without_deleting,
    without_initializing,
)
from log_service.coordinator.group.values.epochs import GroupEpoch, TargetEpoch
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, ResourceType
from log_service.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from log_service.protocol.messages.delete_groups import DeletableGroupResult
from log_service.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from log_service.protocol.stored.metadata_records import RemoveTopicRecord
from log_service.state_machine.decision import Decision
from tests.unit.coordinator.consumer_story import BILLS, ORDERS, configure
from tests.unit.coordinator.group_story import GROUP
from tests.unit.coordinator.share_story import ShareStory, assigned

ALL = {ORDERS: [0, 1, 2, 3]}


def running(*members: str, **named: Any) -> ShareStory:
    """A group whose members have their partitions."""
    story = ShareStory(**named)
    for member in members:
        story.enter(member)
        story.begin()
    for _ in range(2):
        for member in members:
            story.told(member, story.group.members[member].current.epoch)
    return story


# Members


def test_partitions_are_assigned_once_their_states_are_initialized() -> None:
    story = ShareStory()
    first = story.enter("a")
    assert (first.member_epoch, assigned(first)) == (2, {})
    (wanted,) = story.to_initialize
    assert (wanted.state_epoch, wanted.start_offsets) == (2, {ORDERS: dict.fromkeys(range(4), -1)})
    assert assigned(story.told("a", 2)) is None
    assert len(story.to_initialize) == 1
    story.begin()
    second = story.told("a", 2)
    assert (second.member_epoch, assigned(second)) == (3, ALL)
    assert assigned(story.told("a", 3)) is None
    assert assigned(story.told("a", 3, topics=("orders",))) == ALL


def test_states_that_could_not_be_initialized_are_initialized_with_the_next_heartbeat() -> None:
    story = ShareStory()
    story.enter("a")
    story.begin(fails=True)
    assert story.group.known_states == StatePartitions()
    story.told("a", 2)
    assert len(story.to_initialize) == 1


def test_new_partitions_of_a_topic_begin_and_are_assigned() -> None:
    story = running("a")
    story.add_partitions("orders", 4, 6)
    epoch = story.told("a", 3).member_epoch
    (wanted,) = story.to_initialize
    assert wanted.start_offsets == {ORDERS: {4: -1, 5: -1}}
    story.begin()
    assert assigned(story.told("a", epoch)) == {ORDERS: [0, 1, 2, 3, 4, 5]}


def test_states_that_could_not_be_initialized_take_no_others_along() -> None:
    orders, bills = (
        StateTopic(name="orders", partitions=frozenset({0, 1})),
        StateTopic(name="bills", partitions=frozenset({0})),
    )
    states = StatePartitions(initializing={ORDERS: orders, BILLS: bills})
    some = without_initializing(states, {ORDERS: frozenset({1})})
    assert some.initializing == {ORDERS: replace(orders, partitions=frozenset({0})), BILLS: bills}
    assert without_initializing(states, {ORDERS: orders.partitions}).initializing == {BILLS: bills}


def test_states_that_are_deleted_take_no_others_along() -> None:
    orders, bills = (
        StateTopic(name="orders", partitions=frozenset({0, 1})),
        StateTopic(name="bills", partitions=frozenset({0})),
    )
    states = StatePartitions(initializing={BILLS: bills}, initialized={ORDERS: orders})
    deleting, going = with_topics_deleting(states, [ORDERS, BILLS], EMPTY_IMAGE)
    assert deleting == StatePartitions(initializing={BILLS: bills}, deleting={ORDERS: "orders"})
    assert going == {ORDERS: orders.partitions}
    both = replace(states, deleting={ORDERS: "orders", BILLS: "bills"})
    assert without_deleting(both, [ORDERS]) == replace(states, deleting={BILLS: "bills"})


def test_states_of_a_group_are_deleted_where_a_topic_of_an_earlier_attempt_has_gone_since() -> None:
    states = StatePartitions(deleting={BILLS: "bills"})
    assert with_all_deleting(states, EMPTY_IMAGE) == (StatePartitions(), {})


def test_members_share_partitions_where_there_are_more_of_them() -> None:
    story = running("a", "b", "c", topics={"orders": 2})
    shares = [member.current.partitions[ORDERS] for member in story.group.members.values()]
    assert all(shares)
    assert sorted(len(share) for share in shares) in ([1, 1, 1], [1, 1, 2])


def test_a_member_that_leaves_or_is_silent_leaves_its_partitions_to_others() -> None:
    story = running("a", "b")
    story.told("b", -1)
    assert assigned(story.told("a", story.group.members["a"].current.epoch)) == ALL
    story.advance(46_000)
    assert story.described().group_state == "Empty"


def test_a_member_that_goes_on_reporting_stays_and_nothing_is_stored_meanwhile() -> None:
    story = running("a", "b")
    epochs = {member_id: member.current.epoch for member_id, member in story.group.members.items()}
    stored = len(story.log)
    for _ in range(10):
        story.advance(30_000)
        for member_id, epoch in epochs.items():
            response = story.told(member_id, epoch)
            assert (response.member_id, response.member_epoch, response.assignment) == (
                member_id,
                epoch,
                None,
            )
    assert (sorted(story.group.members), len(story.log)) == (["a", "b"], stored)


def test_a_member_names_its_rack_once() -> None:
    story = ShareStory()
    epoch = story.told("a", 0, topics=("orders",), rack="east").member_epoch
    story.told("a", epoch)
    assert [member.rack_id for member in story.described().members] == ["east"]
    story.told("a", epoch, rack="west")
    assert [member.rack_id for member in story.described().members] == ["west"]


def test_a_lost_reply_does_no_harm_and_a_zombie_is_fenced() -> None:
    story = running("a")
    assert story.group.members["a"].current.epoch == 3
    assert story.told("a", 2).member_epoch == 3
    for epoch in (1, 4):
        assert story.refused("a", epoch) == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.refused("nobody", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.refused("a", 3, group="another") == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_reads_other_topics() -> None:
    story = running("a", topics={"orders": 4, "bills": 1})
    response = story.told("a", 3, topics=("bills",))
    assert assigned(response) == {}
    story.begin()
    assert assigned(story.told("a", response.member_epoch)) == {BILLS: [0]}


def test_a_refused_append_changes_nothing() -> None:
    story = ShareStory()
    story.enter("a")
    heartbeats = story.shard.share_groups.heartbeats
    before = (dict(heartbeats.sessions.sessions), set(heartbeats.stale))
    decision = story.decision()
    request = ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id="b", member_epoch=0, subscribed_topic_names=["orders"]
    )
    context = RequestContext(api_version=1, client_id="c", client_host="h", reply_to=1)
    story.shard.share_groups.handle_heartbeat(request, context, decision)
    decision.take_back()
    assert (heartbeats.sessions.sessions, heartbeats.stale) == before
    assert set(story.group.members) == {"a"}


# What the log brings back


def test_a_load_brings_back_the_group_and_initializes_again_what_was_being_initialized() -> None:
    story = running("a", "b")
    story.add_partitions("orders", 4, 5)
    story.told("a", story.group.members["a"].current.epoch)
    story.to_initialize.clear()
    before = (story.group.members, story.group.targets, story.group.states, story.group.epoch)
    story.restart()
    assert (
        story.group.members,
        story.group.targets,
        story.group.states,
        story.group.epoch,
    ) == before
    story.told("a", story.group.members["a"].current.epoch)
    assert story.to_initialize == []
    story.advance(30_000)
    story.told("a", story.group.members["a"].current.epoch)
    assert [each.start_offsets for each in story.to_initialize] == [{ORDERS: {4: -1}}]


def test_states_of_a_deleted_topic_are_deleted() -> None:
    story = running("a", topics={"orders": 4, "bills": 1})
    assert ORDERS in story.group.known_states.initialized
    story.remove_topic("orders")
    assert story.group.known_states == StatePartitions()


@pytest.mark.parametrize("states", ["initializing", "initialized", "deleting"])
def test_states_of_a_topic_that_went_while_no_shard_was_loaded_are_forgotten(states: str) -> None:
    story = ShareStory(topics={"orders": 4, "bills": 1})
    story.enter("a", "orders", "bills")
    if states != "initializing":
        story.begin()
    story.told("a", -1)
    if states == "deleting":
        story.share("delete_offsets", forgetting("orders"))
    assert ORDERS in getattr(story.group.known_states, states)
    delta = MetadataDelta(story.image)
    delta.replay(RemoveTopicRecord(topic_id=ORDERS))
    story.image = delta.build(offset=story.image.offset + 1, epoch=1)
    for _ in range(2):
        story.restart()
        known = story.group.known_states
        assert (set(known.initializing) | set(known.initialized), known.deleting) == ({BILLS}, {})


def test_a_state_that_is_initialized_after_its_topic_has_gone_is_not_remembered() -> None:
    """The share coordinator is on another node.

    It may say that all is well while this one hears of the deletion.
    """
    story = ShareStory(topics={"orders": 4, "bills": 1})
    story.enter("a", "orders", "bills")
    story.remove_topic("orders")
    story.begin()
    assert (
        set(story.group.known_states.initializing),
        set(story.group.known_states.initialized),
    ) == (set(), {BILLS})


EVERY_KIND = [
    ShareMemberRecord(
        group_id="g",
        member_id="m",
        content=ShareSubscription(rack_id=None, client_id="c", client_host="/h", topics=("a", "b")),
    ),
    ShareEpochRecord(group_id="g", content=GroupEpoch(epoch=3, metadata_hash=-7)),
    ShareTargetEpochRecord(group_id="g", content=TargetEpoch(epoch=3, computed_ms=12)),
    ShareTargetRecord(group_id="g", member_id="m", content={ORDERS: frozenset({0, 2})}),
    ShareAssignmentRecord(
        group_id="g",
        member_id="m",
        content=ShareAssignment(epoch=3, previous_epoch=2, partitions={BILLS: frozenset({1})}),
    ),
    StatePartitionsRecord(
        group_id="g",
        content=StatePartitions(
            initializing={ORDERS: StateTopic(name="orders", partitions=frozenset({1}))},
            initialized={ORDERS: StateTopic(name="orders", partitions=frozenset({0}))},
            deleting={BILLS: "bills"},
        ),
    ),
]


@pytest.mark.parametrize("record", EVERY_KIND, ids=lambda record: type(record).__name__)
def test_records_are_read_as_they_are_stored(record: Any) -> None:
    assert decode(*encode(record)) == record
    gone = type(record)(
        **{**{name: getattr(record, name) for name in record.__slots__}, "content": None}
    )
    assert encode(gone)[1] is None
    assert decode(*encode(gone)) == gone


# Administration


def altering(**topics: dict[int, int]) -> AlterShareGroupOffsetsRequest:
    named = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=at)
                for index, at in of.items()
            ],
        )
        for name, of in topics.items()
    ]
    return AlterShareGroupOffsetsRequest(group_id=GROUP, topics=named)


def forgetting(*topics: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        group_id=GROUP,
        topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
    )


def test_offsets_are_altered_while_nobody_reads() -> None:
    story = ShareStory()
    told = story.share("alter_offsets", altering(orders={1: 7, 9: 0}, nothing={0: 0}))
    assert isinstance(told, OffsetsToAlter)
    assert (told.to_initialize.state_epoch, told.to_initialize.start_offsets) == (
        1,
        {ORDERS: {1: 7}},
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[part.error_code for part in topic.partitions] for topic in told.topics] == [
        [0, unknown],
        [unknown],
    ]
    assert story.described().group_state == "Empty"
    story.enter("a")
    assert story.share("alter_offsets", altering(orders={1: 7})).code is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_topics_are_deleted_and_what_remains_is_deleted_again() -> None:
    story = running("a")
    assert story.share("delete_offsets", forgetting("orders")).code is ErrorCode.NON_EMPTY_GROUP
    story.told("a", -1)
    told = story.share("delete_offsets", forgetting("orders", "bills"))
    assert told.partitions == {ORDERS: frozenset(range(4))}
    assert [(topic.topic_name, topic.error_code) for topic in told.refused] == [
        ("bills", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ]
    story.restart()
    again = story.share("delete_offsets", forgetting("orders"))
    assert (again.partitions, again.refused) == (told.partitions, [])
    decision: Decision[Any] = story.decision()
    story.shard.share_groups.handle_deleted(GROUP, [ORDERS], "token", decision)
    story.settle(decision)
    assert story.group.known_states == StatePartitions()
    assert story.share("delete_offsets", forgetting("orders")).partitions == {}


def test_a_group_goes_when_its_states_are_deleted() -> None:
    story = running("a")
    assert delete(story).error_code == ErrorCode.NON_EMPTY_GROUP
    story.told("a", -1)
    told = delete(story)
    assert isinstance(told, StatesToDelete)
    assert told.partitions == {ORDERS: frozenset(range(4))}
    story.enter("a")
    assert delete(story, are_states_deleted=True).error_code == ErrorCode.NON_EMPTY_GROUP
    story.told("a", -1)
    assert isinstance(delete(story, are_states_deleted=True), StatesToDelete)
    assert isinstance(gone := delete(story, are_states_deleted=True), DeletableGroupResult)
    assert gone.error_code == 0
    story.restart()
    assert GROUP not in story.shard.share_groups


def delete(story: ShareStory, *, are_states_deleted: bool = False) -> Any:
    return story.share("delete_group", GROUP, are_states_deleted=are_states_deleted)


def test_a_share_group_is_listed_and_no_other_kind_takes_its_name() -> None:
    story = running("a")
    (listed,) = story.shard.list_groups(ListGroupsRequest(types_filter=["share"]))
    assert (listed.group_id, listed.group_type, listed.protocol_type, listed.group_state) == (
        GROUP,
        "share",
        "share",
        "Stable",
    )
    assert [(each.group_id, each.member_count) for each in story.shard.overviews()] == [(GROUP, 1)]
    token = story.join("")
    assert story.replies[token].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# Keys of the file and of a group


def story_of(**properties: str) -> ShareStory:
    texts = {f"group.share.{name.replace('_', '.')}": value for name, value in properties.items()}
    config, _ = parse_server_properties({"node.id": "1", **texts})
    return ShareStory(config=config.groups)


def silent_ms(story: ShareStory) -> int:
    story.enter("a")
    start_ms = story.now_ms
    while story.group.members:
        story.advance(1_000)
    return story.now_ms - start_ms


def test_session_timeout_is_the_files_or_the_groups_own_within_its_bounds() -> None:
    times = {
        "min_session_timeout_ms": "10000",
        "session_timeout_ms": "20000",
        "max_session_timeout_ms": "30000",
    }
    assert silent_ms(story_of(**times)) == 20_000
    for own, timeout_ms in (("25000", 25_000), ("5000", 10_000), ("50000", 30_000)):
        story = story_of(**times)
        configure(story, ResourceType.GROUP, GROUP, "share.session.timeout.ms", own)
        assert silent_ms(story) == timeout_ms


def test_heartbeat_interval_is_the_files_or_the_groups_own_within_its_bounds() -> None:
    times = {
        "min_heartbeat_interval_ms": "2000",
        "heartbeat_interval_ms": "3000",
        "max_heartbeat_interval_ms": "4000",
    }
    assert story_of(**times).enter("a").heartbeat_interval_ms == 3_000
    for own, interval_ms in (("3500", 3_500), ("1000", 2_000), ("9000", 4_000)):
        story = story_of(**times)
        configure(story, ResourceType.GROUP, GROUP, "share.heartbeat.interval.ms", own)
        assert story.enter("a").heartbeat_interval_ms == interval_ms


def assignment_interval_ms(story: ShareStory) -> int:
    """How long after its first targets a member waits for those whose states are initialized."""
    story.enter("a")
    story.begin()
    for waited_ms in count(0, 100):
        if assigned(story.told("a", story.group.members["a"].current.epoch)):
            return waited_ms
        story.advance(100)
    raise AssertionError


def test_assignment_interval_is_the_files_or_the_groups_own_within_its_bounds() -> None:
    times = {
        "min_assignment_interval_ms": "1000",
        "assignment_interval_ms": "2000",
        "max_assignment_interval_ms": "3000",
    }
    assert assignment_interval_ms(story_of(**times)) == 2_000
    for own, interval_ms in (("2500", 2_500), ("500", 1_000), ("9000", 3_000)):
        story = story_of(**times)
        configure(story, ResourceType.GROUP, GROUP, "share.assignment.interval.ms", own)
        assert assignment_interval_ms(story) == interval_ms


def test_size_and_retry_are_the_files() -> None:
    story = story_of(max_size="2", initialize_retry_interval_ms="700")
    story.enter("a")
    story.enter("b")
    assert story.refused("c", 0, topics=("orders",)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    story.to_initialize.clear()
    for ms, expected in ((699, 0), (1, 1)):
        story.advance(ms)
        story.told("a", story.group.members["a"].current.epoch)
        assert len(story.to_initialize) == expected


# The assignor


TOPICS = st.frozensets(st.sampled_from([ORDERS, BILLS]), min_size=1)
LAST_TARGETS = st.dictionaries(
    st.sampled_from([ORDERS, BILLS]), st.frozensets(st.integers(0, 5), min_size=1)
)


@given(
    st.lists(st.tuples(TOPICS, LAST_TARGETS), min_size=1, max_size=7),
    st.dictionaries(st.sampled_from([ORDERS, BILLS]), st.frozensets(st.integers(0, 5), min_size=1)),
)
def test_partitions_are_shared_evenly_and_only_among_readers(
    members: list[tuple[Any, Any]], assignable: Any
) -> None:
    specs = [
        ShareMemberSpec(member_id=f"m{number}", topic_ids=topics, last_target=last)
        for number, (topics, last) in enumerate(members)
    ]
    result = assign_simply(specs, assignable)
    assert result.keys() == {spec.member_id for spec in specs}
    for spec in specs:
        for topic_id, indexes in result[spec.member_id].items():
            assert topic_id in spec.topic_ids
            assert indexes <= assignable.get(topic_id, frozenset())
    for topic_id, indexes in assignable.items():
        readers = [spec for spec in specs if topic_id in spec.topic_ids]
        for index in indexes:
            users = sum(index in result[spec.member_id].get(topic_id, ()) for spec in readers)
            assert users >= (1 if readers else 0), "every partition is read"
    again = [
        ShareMemberSpec(
            member_id=spec.member_id, topic_ids=spec.topic_ids, last_target=result[spec.member_id]
        )
        for spec in specs
    ]
    assert assign_simply(again, assignable) == result, "nothing moves without need"
    if len({spec.topic_ids for spec in specs}) == 1:
        sizes = [sum(map(len, result[spec.member_id].values())) for spec in specs]
        place_count = sum(
            len(indexes)
            for topic_id, indexes in assignable.items()
            if topic_id in specs[0].topic_ids
        )
        sharing = -(-len(specs) // place_count) if place_count else 0
        assert max(sizes) <= -(-sharing * place_count // len(specs)), sizes


def test_member_keeps_what_it_may_fetch_where_its_own_record_comes_later_in_the_log() -> None:
    """Compaction leaves the last record of each key.

    Here the log has the member's assignment first, and its later record behind it.
    """
    story = running("a")
    epoch = story.group.members["a"].current.epoch
    story.told("a", epoch, rack="elsewhere")
    before = story.group.members["a"]
    story.compact(has_tombstones=True)
    story.restart()
    assert story.group.members["a"] == before
    assert story.told("a", epoch).member_epoch == epoch


def test_targets_do_not_wait_for_a_clock_that_was_set_back() -> None:
    story = running("a", config=GroupConfig(share=ShareGroupConfig(assignment_interval_ms=1_000)))
    story.wall_offset_ms -= 3_600_000
    story.enter("b")
    assert story.group.target_epoch.epoch == story.group.epoch.epoch


def test_a_member_says_no_more_than_a_record_holds() -> None:
    story = ShareStory()
    many = tuple(f"{number:0200d}" for number in range(5_000))
    assert story.refused("a", 0, topics=many) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not story.log
