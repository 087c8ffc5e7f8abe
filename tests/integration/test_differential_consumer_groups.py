"""Groups of the consumer protocol (KIP-848) live the same lives on tidelog and on Apache Kafka.

The tests have heartbeats, epochs, and null and empty assignments.

Targets are computed at once. Groups that change their protocol are in ``group_migration_stories``.
"""

import time
from collections.abc import Callable

import pytest

from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.integration.consumer_cast import Member, describe
from tests.integration.differential import Duel
from tests.integration.group_cast import Cast, coordinators_are_there, told
from tests.integration.group_migration_stories import MIGRATION_STORIES

RESOLVING_SECONDS = 2.0
"""Longer than the search for the topics of a regular expression takes beside everything else."""
PROPERTIES = {"group.consumer.assignment.interval.ms": "0", "group.consumer.max.size": "3"}


@pytest.fixture(autouse=True)
def _coordinator_is_there(duel: Duel) -> None:
    coordinators_are_there(duel)


def first_member(cast: Cast) -> None:
    a = Member(cast, "a")
    a.join("orders")
    describe(cast)
    a.beat()
    a.beat({"orders": [0, 1, 2, 3]})
    a.beat({"orders": [0, 1, 2, 3]}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
    a.beat(member_epoch=1)
    a.beat(member_epoch=7)
    a.beat({"orders": [0]}, member_epoch=1)
    a.beat(
        {"orders": []},
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
    )
    a.join("orders")
    a.beat(member_id="nobody")
    a.leave()
    a.beat()
    a.leave()
    describe(cast)
    cast.delete()
    describe(cast)
    a.beat()
    a.leave()


def refused_requests(cast: Cast) -> None:
    a = Member(cast, "a")
    a.join("orders", member_id="")
    a.join("orders", group_id="")
    a.join("orders", instance_id="")
    a.join("orders", rack_id="")
    a.join("orders", rebalance_timeout_ms=-1)
    a.join("orders", topic_partitions=None)
    a.join(subscribed_topic_names=None)
    a.join("orders", server_assignor="nobody-has-it")
    a.beat(member_epoch=-3)
    a.beat(member_epoch=-2)
    a.beat(member_epoch=5)
    a.beat(member_epoch=-1)
    a.beat(member_id="", member_epoch=5, version=0)
    a.join("no-such-topic")
    a.beat()
    describe(cast)


def partitions_move(cast: Cast) -> None:
    a, b, c, d = (Member(cast, name) for name in "abcd")
    a.join("orders")
    b.join("orders")
    describe(cast)
    a.beat()
    describe(cast)
    b.beat()
    a.beat({"orders": [0, 1, 2]})
    a.beat({"orders": [0, 1]})
    b.beat()
    describe(cast)
    b.beat({"orders": [2, 3]})
    describe(cast)
    c.join("orders")
    d.join("orders")
    a.beat({"orders": [0, 1]})
    b.beat({"orders": [2, 3]})
    b.beat({"orders": [2]})
    c.beat()
    describe(cast)
    b.leave()
    a.beat()
    a.beat({"orders": [0, 1]})
    c.beat()
    c.beat({"orders": [3]})
    c.beat()
    describe(cast)


def revoked_partition_comes_back(cast: Cast) -> None:
    a, b = Member(cast, "a"), Member(cast, "b")
    a.join("orders")
    b.join("orders")
    a.beat()
    b.leave()
    a.beat({"orders": [0, 1]})
    describe(cast)
    a.beat()
    a.beat({"orders": [0, 1]})
    describe(cast)


def other_topics(cast: Cast) -> None:
    a = Member(cast, "a")
    a.join("orders", "bills")
    a.beat(subscribed_topic_names=["bills"])
    describe(cast)
    a.beat({"bills": [0]})
    a.beat()
    a.beat(subscribed_topic_names=["bills", "orders"])
    a.beat(subscribed_topic_names=[])
    a.beat({})
    a.beat(server_assignor="uniform")
    a.beat(rack_id="r")
    describe(cast)


def static_member(cast: Cast) -> None:
    a, b = Member(cast, "a", "one"), Member(cast, "b")
    a.join("orders")
    b.join("orders")
    a.beat({"orders": [0, 1]})
    b.beat()
    again = Member(cast, "a2", "one")
    again.join("orders")
    a.beat(member_epoch=-2)
    describe(cast)
    again.join("orders")
    describe(cast)
    a.epoch = again.epoch
    a.beat()
    a.leave()
    Member(cast, "x", "two").beat(member_epoch=3)
    again.beat(member_epoch=-2)
    again.leave()
    b.beat()


def commits(cast: Cast) -> None:
    a, b = Member(cast, "a"), Member(cast, "b")
    a.commit("orders", epoch=3)
    a.commit("orders", epoch=3, version=8)
    a.join("orders")
    b.join("orders")
    a.beat({"orders": [0, 1]})
    a.commit("orders")
    a.commit("orders", epoch=2)
    a.commit("orders", 3, epoch=2)
    a.commit("orders", epoch=1)
    a.commit("orders", epoch=9)
    a.commit("orders", version=8)
    b.commit("orders", 2, epoch=2)
    Member(cast, "nobody").commit("orders", epoch=3)
    Member(cast, "").commit("orders", epoch=-1)
    wanted = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    for member_id, epoch in (
        (None, -1),
        ("a", a.epoch),
        ("a", a.epoch - 1),
        ("nobody", 1),
        ("", 1),
    ):
        group = OffsetFetchRequestGroup(
            group_id=cast.group, member_id=member_id, member_epoch=epoch, topics=wanted
        )
        cast.ask(OffsetFetchRequest(groups=[group]), 9)
    forgotten = [
        OffsetDeleteRequestTopic(
            name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
    ]
    cast.ask(OffsetDeleteRequest(group_id=cast.group, topics=forgotten), 0)
    cast.delete()
    a.leave()
    b.leave()
    Member(cast, "").commit("orders", epoch=-1)
    cast.ask(OffsetDeleteRequest(group_id=cast.group, topics=forgotten), 0)
    cast.delete()
    cast.fetch()


def consumer_takes_an_empty_classic_group_over(cast: Cast) -> None:
    classic = cast.member()
    classic.join()
    classic.sync({classic: b""})
    classic.leave()
    a = Member(cast, "a")
    a.join("orders")
    describe(cast)
    classic.heartbeat()
    classic.sync()
    classic.leave()
    a.leave()
    late = cast.member()
    late.join()
    late.sync({late: b""})
    time.sleep(0.2)
    describe(cast)
    late.leave()


def regular_expressions(cast: Cast) -> None:
    a, b = Member(cast, "a"), Member(cast, "b")
    for regex in ("(", r"(o)\1", "(?=orders)", "*"):
        a.join(subscribed_topic_names=None, subscribed_topic_regex=regex)
    a.join(subscribed_topic_names=None, subscribed_topic_regex="ord.*")
    time.sleep(RESOLVING_SECONDS)
    a.beat()
    a.beat()
    describe(cast)
    b.join(subscribed_topic_names=None, subscribed_topic_regex="ord.*")
    a.beat({"orders": [0, 1]})
    b.beat()
    a.beat(subscribed_topic_regex="")
    describe(cast)
    a.beat({})
    b.beat()
    describe(cast)
    b.leave()
    a.beat()
    describe(cast)


def regular_expressions_beside_names(cast: Cast) -> None:
    """Racks are told, and no assignor goes by them."""
    a, b = Member(cast, "a"), Member(cast, "b")
    a.join("bills", subscribed_topic_regex="ord.*", rack_id="here")
    time.sleep(RESOLVING_SECONDS)
    a.beat({"bills": [0]})
    describe(cast)
    b.join("orders", rack_id="there")
    a.beat({"bills": [0], "orders": [0, 1]})
    b.beat()
    describe(cast)
    a.beat({"bills": [0], "orders": [0, 1]}, subscribed_topic_names=[])
    a.beat({"orders": [0, 1]})
    describe(cast)
    a.beat({"orders": [0, 1]}, subscribed_topic_names=["bills"], subscribed_topic_regex="")
    a.beat({})
    b.beat({"orders": [2, 3]})
    describe(cast)


def full_group(cast: Cast) -> None:
    members = [Member(cast, name) for name in "abcd"]
    for member in members:
        member.join("orders")
    members[0].leave()
    members[3].join("orders")


STORIES: list[Callable[[Cast], None]] = [
    first_member,
    refused_requests,
    partitions_move,
    revoked_partition_comes_back,
    other_topics,
    static_member,
    commits,
    consumer_takes_an_empty_classic_group_over,
    regular_expressions,
    regular_expressions_beside_names,
    full_group,
    *MIGRATION_STORIES,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story(duel: Duel, story: Callable[[Cast], None]) -> None:
    if story in {regular_expressions, regular_expressions_beside_names}:
        pytest.importorskip("re2")
    if "orders" not in duel.clusters.tidelog.topic_ids:
        duel.create_topic("orders", 4)
        duel.create_topic("bills", 1)
    duel.compare_told(told(story))
