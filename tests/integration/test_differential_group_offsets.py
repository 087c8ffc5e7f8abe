"""Static members, and offsets in every state of a group, are the same on tidelog and on Apache
Kafka.
"""

import time
from collections.abc import Callable
from uuid import UUID

import pytest

from log_service.protocol.messages.delete_topics import DeleteTopicsRequest
from log_service.protocol.messages.leave_group import MemberIdentity
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.integration.differential import Cluster, Duel
from tests.integration.group_cast import (
    UNKNOWN_ID,
    Cast,
    coordinators_are_there,
    subscription,
    told,
)

PROPERTIES = {"group.min.session.timeout.ms": "300", "offset.metadata.max.bytes": "10"}
CONSUMER = [("range", subscription("orders"))]


@pytest.fixture(autouse=True)
def _there(duel: Duel) -> None:
    coordinators_are_there(duel)
    for side in duel.clusters.sides():
        if "orders" not in side.topic_ids:
            duel.create_topic("orders", 2)
            duel.create_topic("bills", 1)


# Static members (KIP-345)


def static_member_returns(cast: Cast) -> None:
    a, b = cast.member(instance="one"), cast.member(instance="two")
    a.join()
    b.send_join()
    a.heartbeat()
    a.join()
    b.hear_join()
    a.sync({a: b"1", b: b"2"})
    b.sync()
    again = cast.member(instance="two")
    again.join()
    again.sync()
    again.heartbeat()
    b.heartbeat()
    b.sync()
    b.send_join()
    b.hear_join()
    b.commit(1)
    b.leave()
    cast.describe()
    for version in (5, 7, 8, 9):
        leader = cast.member(instance="one")
        leader.join(version)
        leader.sync(version=3 if version < 7 else 5)
        leader.heartbeat(3)
    cast.describe()
    a.heartbeat()
    a.heartbeat(member_id="")
    a.heartbeat(instance_id="unknown")
    a.heartbeat(instance_id=None)


def static_member_returns_with_other_protocols(cast: Cast) -> None:
    both = [("range", b""), ("roundrobin", b"")]
    a, b = cast.member(instance="one", protocols=both), cast.member(instance="two", protocols=both)
    a.join()
    b.send_join()
    a.join()
    b.hear_join()
    a.sync({a: b"1", b: b"2"})
    b.sync()
    again = cast.member(instance="two", protocols=[("range", subscription("x"))])
    again.join()
    again.sync()
    cast.describe()
    again = cast.member(instance="two", protocols=[("roundrobin", b"")])
    again.send_join()
    cast.describe()
    a.heartbeat()
    a.join()
    again.hear_join()
    again = cast.member(instance="two", protocols=[("sticky", b"")])
    again.ask_id()


def static_member_returns_while_others_wait(cast: Cast) -> None:
    a, b = cast.member(instance="one"), cast.member(instance="two")
    a.join()
    b.send_join()
    again = cast.member(instance="two")
    again.send_join()
    b.hear_join()
    cast.describe()
    a.join()
    again.hear_join()
    again.send_sync()
    third = cast.member(instance="two")
    third.send_join()
    again.hear_sync()
    cast.describe()
    a.sync({a: b"1"})
    a.join()
    third.hear_join()


def an_id_that_was_handed_out_is_of_no_static_member(cast: Cast) -> None:
    a, b = cast.member(instance="one"), cast.member()
    a.join()
    a.sync({a: b"1"})
    b.ask_id()
    for instance in ("one", "two"):
        b.instance_id = instance
        b.join()
    b.instance_id = None
    cast.describe()
    b.leave()
    a.heartbeat()


def static_members_are_removed(cast: Cast) -> None:
    a, b = cast.member(instance="one"), cast.member(instance="two")
    a.join()
    b.send_join()
    a.join()
    b.hear_join()
    a.sync({a: b"1", b: b"2"})
    a.leave(
        members=[
            MemberIdentity(member_id="", group_instance_id="three"),
            MemberIdentity(member_id="", group_instance_id="two"),
        ]
    )
    b.heartbeat()
    a.heartbeat()
    a.leave(members=[MemberIdentity(member_id=UNKNOWN_ID, group_instance_id="one")])
    a.leave(
        members=[
            MemberIdentity(member_id=a.member_id, group_instance_id="one"),
            MemberIdentity(member_id="", group_instance_id="one"),
        ]
    )
    cast.describe()
    a.member_id = UNKNOWN_ID
    a.send_join()
    a.hear_join()


def unknown_member_with_a_known_instance(cast: Cast) -> None:
    a = cast.member(instance="one")
    a.join()
    a.sync({a: b"1"})
    b = cast.member(instance="one")
    b.send_join(member_id=UNKNOWN_ID)
    b.hear_join()
    b = cast.member(instance="two")
    b.send_join(member_id=UNKNOWN_ID)
    b.hear_join()
    b.send_join(member_id=a.member_id)
    b.hear_join()
    a.heartbeat()


def static_member_does_not_rejoin(cast: Cast) -> None:
    a, b = (
        cast.member(rebalance_ms=1_500),
        cast.member(instance="two", rebalance_ms=1_500, session_ms=6_000),
    )
    a.join()
    b.send_join()
    a.join()
    b.hear_join()
    a.sync({a: b"1", b: b"2"})
    b.sync()
    a.join()
    cast.describe()
    a.sync({a: b"1", b: b"2"})
    cast.describe()
    time.sleep(2.0)
    cast.describe()
    a.heartbeat()
    b.heartbeat()


# Commits


def commits_of_members(cast: Cast) -> None:
    a = cast.member()
    a.commit(1)
    a.commit(1, member_id="x", generation_id=1)
    a.commit(1, member_id="x", generation_id=1, version=8)
    a.commit(1, member_id="x", generation_id=-1)
    a.ask_id()
    a.commit(2)
    a.join()
    for version in (2, 5, 7, 8, 9):
        a.commit(3, version=version, instance_id=None)
        a.commit(3, version=version, instance_id=None, member_id="", generation_id=-1)
    a.sync({a: b""})
    a.commit(4, metadata="0123456789", leader_epoch=3)
    a.commit(5, metadata="0123456789a")
    a.commit(5, metadata="01234567\U0001f30a")
    a.commit(5, metadata="012345678\U0001f30a")
    a.commit(6, metadata=None)
    a.commit(7, member_id="", generation_id=-1)
    a.commit(7, member_id="", generation_id=a.generation_id)
    a.commit(7, member_id=a.member_id, generation_id=-1)
    a.commit(7, member_id=UNKNOWN_ID)
    a.commit(7, generation_id=99)
    a.commit(7, instance_id="nobody")
    a.commit(7, partition=9)
    a.commit(7, topic="nowhere")
    a.commit(-1)
    a.commit(-7)
    a.commit(2**62)
    cast.fetch()
    a.send_join()
    cast.describe()
    a.hear_join()
    a.sync({a: b""})
    b = cast.member()
    b.ask_id()
    b.send_join()
    a.commit(8)
    a.commit(8, member_id="", generation_id=-1)
    cast.member().commit(8, member_id=b.member_id)
    cast.member().commit(8, member_id=b.member_id, generation_id=a.generation_id)
    a.join()
    b.hear_join()
    a.commit(9)
    b.commit(9, generation_id=b.generation_id - 1)
    a.leave()
    a.commit(10)
    b.leave()
    b.commit(10)
    b.commit(11, member_id="", generation_id=-1)
    cast.fetch({"orders": [0, 1, 7], "nowhere": [0]})


def commits_of_standalone_consumers(cast: Cast) -> None:
    a = cast.member()
    a.commit(5)
    a.commit(6, partition=1, metadata="hi")
    a.commit(6, topic="bills")
    cast.is_listed()
    cast.describe()
    cast.fetch()
    cast.fetch({})
    cast.fetch({"orders": []})
    a.heartbeat()
    a.heartbeat(member_id="x", generation_id=1)
    a.join()
    a.sync({a: b""})
    cast.is_listed()
    cast.delete()
    a.leave()
    cast.is_listed()
    cast.delete()
    cast.fetch()
    cast.is_listed()
    cast.describe(6)


def commits_of_other_protocol_types(cast: Cast) -> None:
    a = cast.member(protocol_type="connect", protocols=[("v1", b"?")])
    a.join()
    a.sync({a: b""}, protocol_name="v1")
    a.commit(1)
    a.commit(2, member_id="", generation_id=-1)
    cast.fetch()
    _delete(cast, {"orders": [0]})
    a.leave()
    _delete(cast, {"orders": [0]})
    cast.fetch()


def the_empty_group_id(cast: Cast) -> None:
    cast.group = ""
    a = cast.member()
    a.commit(1)
    cast.fetch()
    cast.describe()
    cast.describe(6)
    a.heartbeat()
    a.heartbeat(member_id="x", generation_id=1)
    a.sync()
    a.leave()
    a.leave(2)
    a.ask_id()
    a.ask_id(3)
    _delete(cast, {"orders": [0]})
    cast.is_listed()
    cast.delete()
    cast.delete()
    _delete(cast, {"orders": [0]})
    a.commit(1, member_id="x", generation_id=1)


def fetching_offsets(cast: Cast) -> None:
    a = cast.member()
    a.commit(5, metadata="m", leader_epoch=2)
    a.commit(6, partition=1)
    there = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1, 5])]
    nowhere = [OffsetFetchRequestTopic(name="nowhere", partition_indexes=[0])]
    for version in range(1, 8):
        for topics in (there, nowhere, []):
            cast.ask(
                OffsetFetchRequest(group_id=cast.group, topics=topics, require_stable=version >= 7),
                version,
            )
    for version in range(2, 8):
        cast.ask(OffsetFetchRequest(group_id=cast.group, topics=None), version)
    cast.ask(OffsetFetchRequest(group_id="nobody", topics=None), 5)
    cast.ask(
        OffsetFetchRequest(
            group_id="nobody",
            topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])],
        ),
        1,
    )
    for version in (8, 9):
        wanted = [
            OffsetFetchRequestGroup(group_id=cast.group, topics=None),
            OffsetFetchRequestGroup(group_id="nobody", topics=None),
            OffsetFetchRequestGroup(
                group_id=cast.group,
                topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[1, 3])],
            ),
        ]
        cast.ask(OffsetFetchRequest(groups=wanted, require_stable=True), version)
        cast.ask(OffsetFetchRequest(groups=[]), version)
    strange = OffsetFetchRequestGroup(
        group_id=cast.group, member_id="m", member_epoch=7, topics=None
    )
    cast.ask(OffsetFetchRequest(groups=[strange]), 9)


def offsets_by_topic_id(cast: Cast) -> None:
    a = cast.member()
    orders = cast.cluster.topic_id("orders")
    unknown = type(orders)(int=12345)
    zero = type(orders)(int=0)
    positions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in (0, 9)
    ]
    for topic_id in (orders, unknown, zero):
        topics = [OffsetCommitRequestTopic(topic_id=topic_id, partitions=positions)]
        cast.ask(OffsetCommitRequest(group_id=cast.group, topics=topics), 10)
    wanted = [
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0, 9])
        for topic_id in (orders, unknown)
    ]
    cast.ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=cast.group, topics=wanted)]), 10
    )
    cast.ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=cast.group, topics=None)]), 10
    )
    cast.ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="nobody", topics=wanted)]), 10
    )
    a.commit(1)


def _delete(cast: Cast, topics: dict[str, list[int]]) -> None:
    wanted = [
        OffsetDeleteRequestTopic(
            name=name,
            partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in of],
        )
        for name, of in topics.items()
    ]
    cast.ask(OffsetDeleteRequest(group_id=cast.group, topics=wanted), 0)


def deleting_offsets(cast: Cast) -> None:
    a = cast.member(protocols=CONSUMER)
    _delete(cast, {"orders": [0]})
    _delete(cast, {})
    a.commit(1)
    a.commit(2, topic="bills")
    _delete(cast, {"orders": [0, 1, 7], "nowhere": [0]})
    cast.fetch()
    a.commit(1)
    a.join()
    _delete(cast, {"orders": [0], "bills": [0]})
    a.sync({a: b""})
    cast.fetch()
    _delete(cast, {"orders": [0, 5], "bills": [0], "nowhere": [0]})
    cast.fetch()
    a.leave()
    _delete(cast, {"orders": [0, 5]})
    cast.fetch()
    cast.is_listed()


def deleting_offsets_between_two_generations(cast: Cast) -> None:
    """A topic that the earlier generation read is in use."""
    a, b = (
        cast.member(protocols=CONSUMER),
        cast.member(protocols=[("range", subscription("bills"))]),
    )
    for topic in ("orders", "bills"):
        a.commit(1, topic=topic)
    a.join()
    a.sync({a: b""})
    b.ask_id()
    b.send_join()
    _delete(cast, {"orders": [0], "bills": [0]})
    a.join()
    b.hear_join()
    _delete(cast, {"orders": [0], "bills": [0]})
    a.leave()
    b.leave()
    a.ask_id()
    b.member_id = ""
    b.ask_id()
    _delete(cast, {"orders": [0], "bills": [0]})
    cast.fetch()


def deleting_offsets_of_unreadable_members(cast: Cast) -> None:
    a = cast.member(protocols=[("range", b"")])
    a.join()
    a.sync({a: b""})
    a.commit(1)
    _delete(cast, {"orders": [0]})
    cast.fetch()


@pytest.mark.parametrize(
    "story",
    [
        static_member_returns,
        static_member_returns_with_other_protocols,
        static_member_returns_while_others_wait,
        static_members_are_removed,
        unknown_member_with_a_known_instance,
        static_member_does_not_rejoin,
        commits_of_members,
        commits_of_standalone_consumers,
        commits_of_other_protocol_types,
        the_empty_group_id,
        fetching_offsets,
        offsets_by_topic_id,
        deleting_offsets,
        deleting_offsets_between_two_generations,
        deleting_offsets_of_unreadable_members,
        an_id_that_was_handed_out_is_of_no_static_member,
    ],
)
def test_positions_and_places_are_kept_as_with_apache_kafka(
    duel: Duel, story: Callable[[Cast], None]
) -> None:
    duel.compare_told(told(story))


def test_positions_go_with_their_topic_and_do_not_come_back(duel: Duel) -> None:
    duel.create_topic("gone")

    def commit(cast: Cast) -> None:
        cast.group = "readers-of-gone"
        cast.member().commit(3, topic="gone")
        cast.member().commit(4, topic="bills")
        cast.fetch()

    def look(cast: Cast) -> None:
        cast.group = "readers-of-gone"
        cast.fetch()
        cast.fetch({"gone": [0]})

    duel.compare_told(told(commit))
    duel.on_both(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=10_000), 5)
    everything = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="readers-of-gone", topics=None)]
    )
    duel.until(everything, 8, lambda answer: len(answer.groups[0].topics) == 1)
    duel.create_topic("gone")
    duel.compare_told(told(look))


@pytest.mark.parametrize("version", [2, 9, 10])
def test_commits_of_topics_that_are_named_twice_or_are_not_there(duel: Duel, version: int) -> None:
    """Refused partitions come first, and each topic once if any is refused."""

    def commit(*topics: tuple[str, tuple[int, ...]]) -> None:
        def build(side: Cluster) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=f"committer-{version}",
                generation_id_or_member_epoch=-1,
                topics=[
                    OffsetCommitRequestTopic(
                        name=name,
                        topic_id=side.topic_ids.get(name, UUID(int=len(name))),
                        partitions=[
                            OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
                            for index in indexes
                        ],
                    )
                    for name, indexes in topics
                ],
            )

        duel.compare(build, version, ordered=True)

    commit(("orders", (0,)), ("orders", (1, 0)))
    commit(("orders", (0,)), ("orders", (1, 0, 5)))
    commit(("orders", ()), ("missing", ()), ("bills", (0, 9)), ("missing", (3,)), ("orders", (0,)))
    commit(("orders", ()))
    commit(("missing", ()))
    commit()


def test_positions_are_taken_back_of_topics_that_are_named_twice_or_are_not_there(
    duel: Duel,
) -> None:
    """Refused partitions come first, and each topic once if any is refused."""
    position = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=[position]) for name in ("orders", "bills")
    ]
    duel.on_both(
        OffsetCommitRequest(group_id="taker", generation_id_or_member_epoch=-1, topics=topics), 8
    )

    def take_back(*topics: tuple[str, tuple[int, ...]]) -> None:
        wanted = [
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                ],
            )
            for name, indexes in topics
        ]
        duel.compare(OffsetDeleteRequest(group_id="taker", topics=wanted), 0, ordered=True)

    take_back(("orders", (0, 9, 1)), ("orders", (8, 0)), ("missing", ()), ("bills", ()))
    take_back(("missing", (3,)), ("bills", (0,)), ("missing", (4,)))
    take_back(("bills", (0,)), ("bills", (0,)))
    take_back(("bills", ()))
