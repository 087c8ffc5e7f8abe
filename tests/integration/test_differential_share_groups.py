"""Share groups (KIP-932) live the same lives on tidelog and on Apache Kafka.

The tests have heartbeats, epochs, offsets, and a group's records in the log.

Targets are computed at once. Where two members share partitions, which one gets which depends on
Kafka's hash maps: a story notes how many each has. States begin beside the heartbeats, so that a
story waits for them before it goes on.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from log_service.coordinator.group.records.codec import decode, encode
from log_service.coordinator.group.records.share import SHARE_GROUP_RECORDS
from log_service.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from log_service.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from log_service.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from log_service.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from log_service.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.integration.consumer_cast import pairs_of, stored
from tests.integration.differential import Cluster, Duel
from tests.integration.group_cast import Cast, coordinators_are_there, told

PROPERTIES = {
    "group.share.assignment.interval.ms": "0",
    "group.share.max.size": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}
READY_SECONDS = 30.0


@pytest.fixture(autouse=True)
def _coordinators_are_there(duel: Duel) -> None:
    coordinators_are_there(duel)
    if "orders" not in duel.clusters.tidelog.topic_ids:
        levels = [FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=1)]
        duel.clusters.tidelog.wire.ask(
            UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=levels), 1
        )
        duel.create_topic("orders", 4)
        duel.create_topic("bills", 1)
        for cluster in duel.clusters.sides():
            key = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
            deadline = time.monotonic() + READY_SECONDS
            while (
                cluster.wire.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
                .coordinators[0]
                .error_code
            ):
                assert time.monotonic() < deadline
                time.sleep(0.1)


class Member:
    """One member that reports by heartbeats; it makes its own id, and keeps the epoch that it was
    told.
    """

    def __init__(self, cast: Cast, name: str) -> None:
        self.cast = cast
        self.wire = cast.member().wire
        self.member_id = name
        self.epoch = 0

    def beat(self, *, is_counted: bool = False, **said: Any) -> Any:
        """Send a heartbeat and note the response: which partitions it was assigned, or how many."""
        fields: dict[str, Any] = {
            "group_id": self.cast.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
        }
        response = self.wire.ask(ShareGroupHeartbeatRequest(**{**fields, **said}), 1)
        for topic in [] if response.assignment is None else response.assignment.topic_partitions:
            topic.partitions = [len(topic.partitions)] if is_counted else sorted(topic.partitions)
        self.cast.note(response)
        if response.error_code == 0:
            self.epoch = response.member_epoch
        return response

    def join(self, *topics: str, **said: Any) -> Any:
        return self.beat(**{"member_epoch": 0, "subscribed_topic_names": list(topics), **said})

    def leave(self) -> Any:
        return self.beat(member_epoch=-1)


def offsets_of(
    cluster: Cluster,
    group: str,
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = None,
    version: int = 1,
) -> Any:
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
    response = cluster.wire.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), version)
    for topic in response.groups[0].topics:
        topic.partitions.sort(key=lambda each: each.partition_index)
    return response


def until_begun(cast: Cast, count: int) -> None:
    """Wait until the states of so many partitions have begun."""
    deadline = time.monotonic() + READY_SECONDS
    while (
        sum(
            len(topic.partitions) for topic in offsets_of(cast.cluster, cast.group).groups[0].topics
        )
        != count
    ):
        assert time.monotonic() < deadline, "states never begin"
        time.sleep(0.05)


def describe(cast: Cast, *, is_counted: bool = False) -> None:
    response = cast.cluster.wire.ask(
        ShareGroupDescribeRequest(group_ids=[cast.group, "nobody-is-in-it"]), 1
    )
    for member in (member for group in response.groups for member in group.members):
        for topic in member.assignment.topic_partitions:
            topic.partitions = [len(topic.partitions)] if is_counted else sorted(topic.partitions)
    cast.note(response)
    cast.describe(6)
    listed = cast.cluster.wire.ask(ListGroupsRequest(types_filter=["Share"]), 5)
    cast.note([group for group in listed.groups if group.group_id == cast.group])


def offsets(cast: Cast, **topics: list[int]) -> None:
    named = [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name.replace("_", "-"), partitions=of)
        for name, of in topics.items()
    ]
    cast.note(offsets_of(cast.cluster, cast.group, named or None))


def alter(cast: Cast, group: str | None = None, **topics: dict[int, int]) -> None:
    named = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name.replace("_", "-"),
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=at)
                for index, at in of.items()
            ],
        )
        for name, of in topics.items()
    ]
    cast.ask(
        AlterShareGroupOffsetsRequest(
            group_id=cast.group if group is None else group, topics=named
        ),
        0,
    )


def forget(cast: Cast, *topics: str, group: str | None = None) -> None:
    named = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    cast.ask(
        DeleteShareGroupOffsetsRequest(
            group_id=cast.group if group is None else group, topics=named
        ),
        0,
    )


def bytes_are_kept(cast: Cast) -> None:
    """Note whether the group's records in the log are those that tidelog would write, byte by byte.

    Both sides have to say so.
    """
    held = [(decode(key, value), key, value) for key, value in pairs_of(cast)]
    mine = [
        encode(record) == (key, value)
        for record, key, value in held
        if isinstance(record, SHARE_GROUP_RECORDS)
    ]
    cast.note([["as written by tidelog", all(mine), bool(mine)]])


def first_member(cast: Cast) -> None:
    a = Member(cast, "a")
    a.join("orders")
    describe(cast)
    until_begun(cast, 4)
    a.beat()
    describe(cast)
    a.beat()
    a.beat(subscribed_topic_names=["orders"])
    a.beat(member_epoch=2)
    a.beat(member_epoch=7)
    a.beat(member_epoch=1)
    a.beat(rack_id="r")
    a.join("orders")
    a.beat(member_id="nobody")
    stored(cast)
    bytes_are_kept(cast)
    a.leave()
    a.beat()
    a.leave()
    describe(cast)
    offsets(cast)
    cast.delete()
    describe(cast)
    stored(cast)
    a.beat()
    a.leave()


def refused_requests(cast: Cast) -> None:
    a = Member(cast, "a")
    a.join("orders", member_id="")
    a.join("orders", member_id=" ")
    a.join("orders", member_id="x" * 37)
    a.join("orders", group_id="")
    a.join("orders", rack_id="")
    a.join(subscribed_topic_names=None)
    a.join()
    a.beat(member_epoch=-2)
    a.beat(member_epoch=5)
    a.beat(member_epoch=-1)
    a.join("no-such-topic")
    a.beat()
    describe(cast)


def members_share(cast: Cast) -> None:
    a, b, c, d = (Member(cast, name) for name in "abcd")
    a.join("orders")
    until_begun(cast, 4)
    a.beat()
    b.join("orders", is_counted=True)
    a.beat(is_counted=True)
    describe(cast, is_counted=True)
    c.join("bills")
    until_begun(cast, 5)
    c.beat()
    a.beat(is_counted=True)
    b.beat(is_counted=True)
    describe(cast, is_counted=True)
    d.join("bills")
    b.beat(subscribed_topic_names=["bills"])
    b.beat(is_counted=True)
    a.leave()
    describe(cast, is_counted=True)
    for member in (b, c):
        member.beat(is_counted=True)
        member.leave()
    describe(cast)


def offsets_are_altered_and_deleted(cast: Cast) -> None:
    offsets(cast)
    forget(cast, "orders")
    alter(cast, orders={0: 3, 9: 0}, no_such_topic={0: 0})
    until_begun(cast, 1)
    describe(cast)
    offsets(cast)
    # Kafka has no end for a partition that does not exist.
    offsets(cast, orders=[0, 1], no_such_topic=[0])
    stored(cast)
    a = Member(cast, "a")
    a.join("orders")
    until_begun(cast, 4)
    a.beat()
    alter(cast, orders={0: 0})
    forget(cast, "orders")
    cast.delete()
    a.leave()
    forget(cast, "orders", "bills", "no-such-topic")
    offsets(cast)
    alter(cast, orders={1: 0})
    until_begun(cast, 1)
    alter(cast, group="", orders={1: 0})
    forget(cast, "orders", group="")
    stored(cast)
    cast.delete()
    stored(cast)


def groups_of_other_kinds(cast: Cast) -> None:
    a = Member(cast, "a")
    a.join("orders")
    until_begun(cast, 4)
    player = cast.member()
    player.join()
    player.commit(5, "orders")
    player.commit(5, "orders", generation_id=-1)
    player.heartbeat()
    player.leave()
    joining = ConsumerGroupHeartbeatRequest(
        group_id=cast.group,
        member_id="b",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    cast.ask(joining, 1)
    cast.ask(ConsumerGroupDescribeRequest(group_ids=[cast.group]), 1)
    cast.fetch({"orders": [0]})
    gone = [
        OffsetDeleteRequestTopic(
            name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
    ]
    cast.ask(OffsetDeleteRequest(group_id=cast.group, topics=gone), 0)
    a.leave()
    cast.ask(joining, 1)
    player.join()
    cast.delete()
    cast.ask(joining, 1)
    a.join("orders")
    cast.ask(ShareGroupDescribeRequest(group_ids=[cast.group]), 1)
    alter(cast, orders={0: 0})
    forget(cast, "orders")


STORIES: list[Callable[[Cast], None]] = [
    first_member,
    refused_requests,
    members_share,
    offsets_are_altered_and_deleted,
    groups_of_other_kinds,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story(duel: Duel, story: Callable[[Cast], None]) -> None:
    duel.compare_told(told(story))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "g",
        "g:AAAAAAAAAAAAAAAAAAAAAQ",
        "a:b:AAAAAAAAAAAAAAAAAAAAAQ:0",
        ":AAAAAAAAAAAAAAAAAAAAAQ:0",
        "g:x:0",
        "g:AAAAAAAAAAAAAAAAAAAAAQ:x",
    ],
)
def test_names_of_share_partitions(duel: Duel, key: str) -> None:
    """Kafka says nothing of what is wrong."""
    duel.compare(
        FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6, ignore=("error_message",)
    )
