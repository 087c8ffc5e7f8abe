"""Classic groups live the same lives on tidelog and on Apache Kafka.

They join, rebalance, sync and leave, and everything goes wrong.
"""

import time
from collections.abc import Callable

import pytest

from log_service.protocol.messages.leave_group import MemberIdentity
from tests.integration.differential import Duel
from tests.integration.group_cast import (
    UNKNOWN_ID,
    Cast,
    coordinators_are_there,
    subscription,
    told,
)

PROPERTIES = {
    "group.min.session.timeout.ms": "300",
    "group.max.session.timeout.ms": "60000",
    "group.max.size": "3",
}


@pytest.fixture(autouse=True)
def _coordinator_is_there(duel: Duel) -> None:
    coordinators_are_there(duel)


def first_member(cast: Cast) -> None:
    a = cast.member()
    cast.is_listed()
    a.ask_id()
    cast.settle()
    cast.describe()
    cast.is_listed()
    a.join()
    cast.describe()
    a.heartbeat()
    a.sync({a: b"mine"})
    cast.describe()
    cast.is_listed()
    a.sync()
    a.heartbeat()
    a.heartbeat(generation_id=a.generation_id + 1)
    a.heartbeat(generation_id=-1)
    a.heartbeat(member_id=UNKNOWN_ID)
    a.heartbeat(member_id="")
    a.leave()
    cast.describe()
    cast.is_listed()
    a.heartbeat()
    a.sync()
    a.leave()
    cast.delete()
    cast.describe()
    cast.delete()
    a.heartbeat()
    a.sync()
    a.leave()


def old_versions_join(cast: Cast) -> None:
    for version in (0, 1, 2, 3):
        a = cast.member()
        a.join(version)
        a.sync({a: b"mine"}, min(version, 2))
        a.heartbeat(min(version, 2))
        a.join(version)
        a.leave(min(version, 2))
    for version in (4, 5, 6, 7, 8):
        a = cast.member()
        a.join(version)
        a.sync({a: b"mine"}, 4 if version < 7 else 5)
        a.leave(3)


def refused_joins(cast: Cast) -> None:
    a = cast.member()
    a.ask_id(group="")
    a.ask_id(session_ms=299)
    a.ask_id(session_ms=60_001)
    for version in (3, 6, 9):
        a.send_join(version, member_id=UNKNOWN_ID)
        a.hear_join(version)
    cast.is_listed()
    for version in (3, 6, 9):
        a.ask_id(version, protocols=[])
        a.ask_id(version, protocol_type="")
    cast.is_listed()
    cast.describe()


def wrong_protocols(cast: Cast) -> None:
    a, b = cast.member(), cast.member()
    a.join(protocols=[("range", b""), ("roundrobin", b"")])
    b.ask_id(protocols=[("sticky", b"")])
    b.ask_id(protocol_type="connect")
    b.ask_id(protocols=[])
    a.sync({a: b"x"}, protocol_name="roundrobin")
    a.sync({a: b"x"}, protocol_type="connect")
    a.sync({a: b"x"}, version=4)
    b.ask_id(protocols=[("sticky", b"")])
    a.send_join(protocol_type="connect")
    a.hear_join()
    a.send_join(protocols=[("sticky", b"")])
    a.hear_join()
    a.heartbeat()
    cast.describe()


def two_members_agree(cast: Cast) -> None:
    a = cast.member(protocols=[("range", b"a1"), ("roundrobin", b"a2")])
    b = cast.member(protocols=[("roundrobin", b"b2"), ("sticky", b"b3")])
    a.join()
    b.ask_id()
    b.send_join()
    a.heartbeat()
    a.sync({a: b"x"})
    a.join()
    b.hear_join()
    cast.describe()
    b.send_sync(protocol_name="roundrobin")
    cast.describe()
    a.sync({a: b"for a", b: b"for b"}, protocol_name="roundrobin")
    b.hear_sync()
    cast.describe()
    b.join()
    b.heartbeat()
    b.send_join(protocols=[("roundrobin", b"new"), ("sticky", b"b3")])
    a.heartbeat()
    a.join()
    b.hear_join()


def votes_are_counted(cast: Cast) -> None:
    names = ["range", "roundrobin", "sticky", "cooperative-sticky"]
    for first in names:
        a = cast.member(
            protocols=[(name, b"") for name in [first, *[name for name in names if name != first]]]
        )
        for second in names:
            b = cast.member(
                protocols=[
                    (name, b"") for name in [second, *[name for name in names if name != second]]
                ]
            )
            if not a.member_id:
                a.join(3)
            b.send_join(3)
            a.join(3)
            b.hear_join(3)
            b.leave(2)
        a.leave(2)


def rejoining(cast: Cast) -> None:
    a, b = cast.member(), cast.member()
    a.join()
    a.join()
    b.ask_id()
    b.send_join()
    a.join()
    b.hear_join()
    a.join()
    b.join()
    a.send_sync({a: b"1", b: b"2"})
    a.hear_sync()
    b.sync()
    b.join()
    b.sync(generation_id=b.generation_id - 1)
    b.sync(member_id=UNKNOWN_ID)
    a.send_join(protocols=[("range", subscription("orders", user_data=b"changed"))])
    time.sleep(0.1)
    cast.describe()
    b.heartbeat()
    b.sync()
    b.join()
    a.hear_join()
    cast.describe()


def join_while_syncing(cast: Cast) -> None:
    a, b, c = cast.member(), cast.member(), cast.member()
    a.join()
    b.ask_id()
    b.send_join()
    a.join()
    b.hear_join()
    b.send_sync()
    time.sleep(0.1)
    c.ask_id()
    c.send_join()
    b.hear_sync()
    a.sync({a: b"1"})
    a.send_join()
    b.join()
    a.hear_join()
    c.hear_join()
    a.sync({a: b"1", c: b"3"})
    b.sync()
    c.sync()
    cast.describe()


def group_is_full(cast: Cast) -> None:
    members = [cast.member() for _ in range(3)]
    late = cast.member()
    members[0].join()
    for member in members[1:]:
        member.ask_id()
    for member in members[1:]:
        member.send_join()
    members[0].join()
    for member in members[1:]:
        member.hear_join()
    late.ask_id(3)
    members[0].sync(dict.fromkeys(members, b"x"))
    late.ask_id()
    members[1].join()
    members[0].send_join()
    late.ask_id()
    members[1].send_join()
    members[2].join()
    for member in members[:2]:
        member.hear_join()
    cast.describe()


def static_member_returns_to_a_full_group(cast: Cast) -> None:
    members = [cast.member(instance=name) for name in ("one", "two", "three")]
    members[0].join()
    for member in members[1:]:
        member.send_join()
    members[0].send_join()
    for member in [*members[1:], members[0]]:
        member.hear_join()
    members[0].sync(dict.fromkeys(members, b"x"))
    for version in (5, 9):
        again = cast.member(instance="two")
        again.ask_id(version)
    cast.describe()


def rebalances_of_many_reasons(cast: Cast) -> None:
    a, b = cast.member(), cast.member()
    a.join(reason="first")
    a.sync({a: b""})
    b.ask_id(reason="because")
    b.send_join(reason="")
    a.join(reason="x" * 300)
    b.hear_join()
    a.sync({a: b"1", b: b"2"})
    b.sync()
    a.send_join(session_ms=5_000, rebalance_ms=5_000)
    b.join(session_ms=6_000)
    a.hear_join()
    b.send_sync()
    a.sync({b: b"all", a: b""})
    b.hear_sync()
    b.leave(3)
    cast.describe()


def leaving(cast: Cast) -> None:
    a, b = cast.member(), cast.member()
    a.join()
    b.ask_id()
    b.send_join()
    a.join()
    b.hear_join()
    a.sync({a: b"1", b: b"2"})
    b.sync()
    a.leave(members=[])
    a.leave(
        members=[
            MemberIdentity(member_id=UNKNOWN_ID),
            MemberIdentity(member_id=b.member_id, reason="because"),
        ]
    )
    a.heartbeat()
    a.leave(members=[MemberIdentity(member_id="")])
    a.leave(members=[MemberIdentity(member_id="", group_instance_id="nobody")])
    a.leave(members=[MemberIdentity(member_id=a.member_id, group_instance_id="nobody")])
    a.leave(members=[MemberIdentity(member_id=a.member_id), MemberIdentity(member_id=a.member_id)])
    cast.describe()
    for version in (0, 1, 2, 3, 4):
        a.leave(version)


def pending_member_leaves_a_stable_group(cast: Cast) -> None:
    a, b = cast.member(), cast.member()
    a.join()
    a.sync({a: b"1"})
    b.ask_id()
    b.leave()
    a.heartbeat()
    cast.describe()


def a_member_is_removed_while_it_joins(cast: Cast) -> None:
    a, b, admin = cast.member(), cast.member(), cast.member()
    a.join()
    a.sync({a: b"1"})
    b.ask_id()
    b.send_join()
    admin.leave(members=[MemberIdentity(member_id=b.member_id, group_instance_id=None)])
    b.hear_join()
    a.heartbeat()
    a.join()
    cast.describe()


def pending_member_leaves_an_empty_group(cast: Cast) -> None:
    b = cast.member()
    b.ask_id()
    b.leave()
    time.sleep(0.1)
    cast.describe()
    cast.is_listed()
    a = cast.member()
    a.join()


def pending_member_holds_up_a_rebalance(cast: Cast) -> None:
    a, b = cast.member(), cast.member()
    a.join()
    b.ask_id()
    a.send_join()
    time.sleep(0.1)
    cast.describe()
    b.leave()
    a.hear_join()
    cast.describe()


def pending_member_expires(cast: Cast) -> None:
    a, b = cast.member(), cast.member(session_ms=400)
    a.join()
    b.ask_id()
    a.send_join()
    a.hear_join()
    b.send_join()
    b.hear_join()
    cast.describe()


def members_fall_silent(cast: Cast) -> None:
    a, b = cast.member(session_ms=1_500), cast.member(rebalance_ms=2_000)
    a.join()
    a.sync({a: b"1"})
    cast.describe()
    time.sleep(2.0)
    cast.describe()
    a.heartbeat()
    a.member_id = ""
    a.join()
    b.ask_id()
    b.send_join()
    b.hear_join()
    a.heartbeat()
    cast.describe()
    time.sleep(3.0)
    cast.describe()
    b.heartbeat()


def leader_dies_before_sync(cast: Cast) -> None:
    a, b = cast.member(rebalance_ms=2_000), cast.member(rebalance_ms=2_000)
    a.join()
    b.ask_id()
    b.send_join()
    a.join()
    b.hear_join()
    b.send_sync()
    b.hear_sync()
    cast.describe()
    b.join()
    b.sync({b: b"all"})
    cast.describe()


def member_never_syncs(cast: Cast) -> None:
    a, b = cast.member(rebalance_ms=2_000), cast.member(rebalance_ms=2_000)
    a.join()
    b.ask_id()
    b.send_join()
    a.join()
    b.hear_join()
    a.sync({a: b"1", b: b"2"})
    a.heartbeat()
    time.sleep(2.4)
    a.heartbeat()
    b.heartbeat()
    a.join()
    cast.describe()


def any_protocol_type(cast: Cast) -> None:
    for kind in ("connect", "sr", "streams?"):
        a, b = (
            cast.member(protocol_type=kind, protocols=[("v0", b"\xff\x00opaque")]),
            cast.member(protocol_type="consumer"),
        )
        a.join()
        a.sync({a: b"\x00\x01"}, protocol_name="v0")
        b.ask_id()
        cast.describe()
        cast.is_listed()
        a.heartbeat()
        a.leave()
        cast.describe()
        cast.is_listed()


def empty_group_changes_its_type(cast: Cast) -> None:
    a, b = cast.member(), cast.member(protocol_type="connect", protocols=[("x", b"")])
    a.join()
    a.leave()
    b.join()
    b.sync({b: b"1"}, protocol_name="x")
    cast.describe()
    cast.is_listed(types_filter=["classic"])
    cast.is_listed(types_filter=["Classic", "share"])
    cast.is_listed(types_filter=["consumer"])
    cast.is_listed(states_filter=["stable"])
    cast.is_listed(states_filter=["Empty", "Dead"])
    cast.is_listed(states_filter=["nonsense"])


@pytest.mark.parametrize(
    "story",
    [
        first_member,
        old_versions_join,
        refused_joins,
        wrong_protocols,
        two_members_agree,
        votes_are_counted,
        rejoining,
        join_while_syncing,
        group_is_full,
        static_member_returns_to_a_full_group,
        rebalances_of_many_reasons,
        leaving,
        pending_member_leaves_a_stable_group,
        a_member_is_removed_while_it_joins,
        pending_member_leaves_an_empty_group,
        pending_member_holds_up_a_rebalance,
        pending_member_expires,
        members_fall_silent,
        leader_dies_before_sync,
        member_never_syncs,
        any_protocol_type,
        empty_group_changes_its_type,
    ],
)
def test_a_group_lives_as_with_apache_kafka(duel: Duel, story: Callable[[Cast], None]) -> None:
    duel.compare_told(told(story))
