"""Groups change their protocol while they have members, or have members of both protocols.

The stories are for both sides.

The members of the classic protocol in them are told one by one when to join, so that no story
depends on who comes first.
"""

import time
from collections.abc import Callable

from log_service.client.group_protocol import Subscription, encode_assignment, encode_subscription
from log_service.common.types import TopicPartition
from log_service.protocol.messages.leave_group import MemberIdentity
from tests.integration.consumer_cast import Member, describe, stored
from tests.integration.group_cast import Cast, Player


def wants(
    *topics: str, owned: tuple[int, ...] = (), user_data: bytes | None = None
) -> list[tuple[str, bytes]]:
    """Return the metadata of a member under its one protocol.

    It has topics, and partitions of orders that it owns.
    """
    partitions = tuple(TopicPartition("orders", index) for index in owned)
    return [
        (
            "range",
            encode_subscription(Subscription(topics=topics, owned=partitions, user_data=user_data)),
        )
    ]


def part(*indexes: int) -> bytes:
    """An assignment of partitions of orders."""
    return encode_assignment(TopicPartition("orders", index) for index in indexes)


def classic_group(cast: Cast, instance: str | None = None) -> Player:
    """A classic group with one member that reads all of orders."""
    a = cast.member(protocols=wants("orders"), instance=instance)
    a.join()
    a.sync({a: part(0, 1, 2, 3)})
    return a


def upgrade_and_downgrade(cast: Cast) -> None:
    a = classic_group(cast)
    b = Member(cast, "b")
    b.join("orders")
    describe(cast)
    a.heartbeat()
    a.sync()
    a.commit(1, "orders", 3)
    a.join(protocols=wants("orders", owned=(0, 1, 2, 3)))
    a.sync()
    describe(cast)
    a.heartbeat()
    b.beat()
    a.join(protocols=wants("orders", owned=(0, 1)))
    a.sync()
    a.commit(1, "orders", 0)
    a.commit(1, "orders", 0, generation_id=a.generation_id - 1)
    b.beat()
    a.heartbeat()
    describe(cast)
    a.heartbeat(generation_id=a.generation_id - 1)
    a.heartbeat(member_id="nobody")
    a.heartbeat(member_id="b")
    a.sync(member_id="b", generation_id=b.epoch)
    a.sync(protocol_name="roundrobin")
    a.sync(protocol_type="connect")
    b.leave()
    describe(cast)
    a.heartbeat()
    a.join(protocols=wants("orders", owned=(0, 1)))
    a.sync({a: part(0, 1, 2, 3)})
    a.heartbeat()
    stored(cast)
    a.leave()


def classic_member_joins(cast: Cast) -> None:
    a = Member(cast, "a")
    a.join("orders")
    b, c = (
        cast.member(protocols=wants("orders"), instance="one"),
        cast.member(protocols=[("roundrobin", b"")]),
    )
    c.send_join(protocol_type="connect", protocols=[("range", b"")])
    c.hear_join()
    b.join()
    b.sync()
    describe(cast)
    a.beat()
    b.heartbeat()
    b.sync()
    a.beat({"orders": [0, 1]})
    b.heartbeat()
    b.join()
    b.sync()
    b.sync()
    b.heartbeat()
    describe(cast)
    c.send_join()
    c.hear_join()
    c.send_join(protocols=[("range", b"\0")])
    c.hear_join()
    c.send_join(version=3, protocols=wants("bills"))
    c.hear_join(3)
    describe(cast)
    c.sync()
    d = cast.member(protocols=wants("orders"))
    d.send_join()
    d.hear_join()
    b.join(protocols=wants("bills", "orders"))
    describe(cast)
    a.player.leave(
        members=[
            MemberIdentity(member_id="nobody"),
            MemberIdentity(member_id="a", group_instance_id="one"),
        ]
    )
    b.leave()
    c.leave()
    describe(cast)
    a.leave()
    stored(cast)


def last_consumer_member_is_removed_by_a_tool(cast: Cast) -> None:
    a = classic_group(cast)
    b = Member(cast, "b", "one")
    b.join("orders")
    a.join(protocols=wants("orders", owned=(0, 1, 2, 3)))
    b.beat(member_epoch=-2)
    describe(cast)
    a.leave(members=[MemberIdentity(group_instance_id="one")])
    describe(cast)
    a.heartbeat()
    a.sync()
    a.join()
    a.sync({a: part(0)})
    a.leave()


def upgrade_in_the_middle_of_a_rebalance(cast: Cast) -> None:
    a = classic_group(cast, "one")
    c = cast.member(protocols=wants("orders"), instance="two")
    c.send_join()
    b = Member(cast, "b")
    b.join("orders")
    c.hear_join()
    describe(cast)
    a.heartbeat()
    c.join()
    c.sync()
    a.join(protocols=wants("orders", owned=(0, 1, 2, 3)))
    a.sync()
    a.join()
    a.sync()
    c.heartbeat()
    b.beat()
    describe(cast)
    b.leave()
    for member in (a, c):
        member.heartbeat()
    describe(cast)


def upgrade_while_members_wait_for_assignments(cast: Cast) -> None:
    a = cast.member(protocols=wants("orders"), instance="one")
    a.join()
    c = cast.member(protocols=wants("orders"), instance="two")
    c.send_join()
    a.heartbeat()
    a.join()
    c.hear_join()
    c.send_sync()
    b = Member(cast, "b")
    b.join("orders")
    c.hear_sync()
    b.leave()
    a.heartbeat()
    c.heartbeat()


def static_members_change_their_protocol(cast: Cast) -> None:
    a = classic_group(cast, "one")
    b = Member(cast, "b", "one")
    b.join("orders")
    describe(cast)
    a.heartbeat()
    b.beat()
    again = cast.member(protocols=wants("orders"), instance="one")
    again.join()
    describe(cast)
    again.sync()
    again.heartbeat()
    b.beat()
    stored(cast)
    again.leave()


def static_classic_member_takes_the_place_of_a_consumer(cast: Cast) -> None:
    a, b = Member(cast, "a"), Member(cast, "b", "one")
    a.join("orders")
    b.join("orders")
    a.beat({"orders": [0, 1]})
    b.beat()
    c = cast.member(protocols=wants("orders"), instance="one")
    c.join()
    c.sync()
    describe(cast)
    b.beat()
    c.heartbeat()
    c.leave(members=[MemberIdentity(member_id="b", group_instance_id="one")])
    again = cast.member(protocols=wants("orders"), instance="one")
    again.join()
    c.heartbeat()
    c.sync()
    c.join()
    stranger = cast.member(protocols=wants("orders"), instance="two")
    stranger.send_join(member_id="nobody")
    stranger.hear_join()
    d = cast.member(protocols=wants("bills"), instance="one")
    d.join()
    describe(cast)
    a.leave()
    describe(cast)


def replacement_with_another_subscription_rebalances(cast: Cast) -> None:
    a = Member(cast, "a", "one")
    a.join("orders")
    b = cast.member(protocols=wants("bills"), instance="one")
    b.join()
    describe(cast)
    b.heartbeat()
    b.sync()
    b.join()
    b.sync({b: b""})
    b.leave()
    stored(cast)


def groups_that_cannot_be_upgraded(cast: Cast) -> None:
    a = cast.member(protocols=[("range", b"")], protocol_type="connect")
    a.join()
    a.sync({a: b""})
    b = Member(cast, "b")
    b.join("orders")
    a.heartbeat()
    a.leave()
    c = cast.member(protocols=wants("orders"))
    c.join()
    c.sync({c: part(0) + b""})
    d = cast.member(protocols=wants("orders"))
    d.ask_id()
    c.heartbeat()
    b.beat(member_epoch=3)
    b.leave()
    c.leave()


def assignments_that_cannot_be_taken_over(cast: Cast) -> None:
    a = cast.member(protocols=wants("orders"))
    a.join()
    a.sync({a: part(0)[:-4] + b"\0\0\0\1x"})
    b = Member(cast, "b")
    b.join("orders")
    a.heartbeat()
    a.leave()
    c = cast.member(protocols=wants("orders"))
    c.join()
    c.sync({c: b"\0"})
    b.join("orders")
    c.heartbeat()
    c.leave()


def classic_members_that_are_silent(cast: Cast) -> None:
    b = Member(cast, "b")
    b.join("orders")
    a, c = (
        cast.member(protocols=wants("orders"), rebalance_ms=ms, instance=str(ms))
        for ms in (1_000, 60_000)
    )
    a.join()
    time.sleep(1.5)
    describe(cast)
    c.join(session_ms=6_000)
    c.sync()
    b.beat({"orders": [0, 1]})
    c.heartbeat()
    b.leave()
    describe(cast)


MIGRATION_STORIES: list[Callable[[Cast], None]] = [
    upgrade_and_downgrade,
    classic_member_joins,
    last_consumer_member_is_removed_by_a_tool,
    upgrade_in_the_middle_of_a_rebalance,
    upgrade_while_members_wait_for_assignments,
    static_members_change_their_protocol,
    static_classic_member_takes_the_place_of_a_consumer,
    replacement_with_another_subscription_rebalances,
    groups_that_cannot_be_upgraded,
    assignments_that_cannot_be_taken_over,
    classic_members_that_are_silent,
]
