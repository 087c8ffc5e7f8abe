"""The end of a session or share partition costs only its own share partitions.

It does not matter how many others there are.
"""

from collections.abc import Callable

import pytest
import trio

from log_service.broker.share.shares import Shares
from log_service.common.errors import ErrorCode
from log_service.coordinator.share.share_state import UNKNOWN_START_OFFSET
from tests.helpers.opcodes import opcodes_of
from tests.unit.broker.share.context import (
    ACCEPT,
    REJECT,
    RELEASE,
    Ack,
    Got,
    Member,
    ShareNode,
    batch,
    tell_shares,
)

End = Callable[[Shares, ShareNode, Member], None]


def end_connection(shares: Shares, _node: ShareNode, member: Member) -> None:
    shares.end_connection(member.connection.connection_id)


def lose_partition(shares: Shares, node: ShareNode, _member: Member) -> None:
    shares.on_lost(shares.partitions[node.key("mine", group="mine")].partition)


@pytest.mark.parametrize("end", [end_connection, lose_partition])
def test_an_end_costs_the_same_among_few_and_among_many(end: End) -> None:
    costs: list[int] = []

    async def story(node: ShareNode, other_count: int) -> None:
        shares = node.node.shares
        for number in range(other_count):
            await node.share(f"other-{number}", group=f"group-{number}")
            await node.member(f"group-{number}").fetch((f"other-{number}",))
        await node.share("mine", group="mine")
        await node.produce("mine", batch(b"one"))
        member = node.member("mine")
        assert (await member.fetch(("mine",))).acquired
        costs.append(opcodes_of(lambda: end(shares, node, member)))
        assert [key.group_id for key in shares.partitions] == [
            f"group-{number}" for number in range(other_count)
        ]

    for other_count in (1, 40):
        tell_shares(lambda node, count=other_count: story(node, count))  # type: ignore[misc]
    assert costs[0] == costs[1]


@pytest.mark.parametrize("end", [end_connection, lose_partition])
def test_an_end_costs_the_same_after_few_and_after_many(end: End) -> None:
    """An ended session or share partition is not kept.

    The test ends partitions of a group, and groups on a partition.
    """
    costs: list[int] = []

    async def story(node: ShareNode, ended_count: int) -> None:
        shares = node.node.shares
        await node.share("mine", group="mine")
        for number in range(ended_count):
            for topic, group in ((f"other-{number}", "mine"), ("mine", f"group-{number}")):
                await node.share(topic, group=group)
                member = node.member(group)
                await member.fetch((topic,))
                await member.leave()
        assert not shares.partitions
        await node.produce("mine", batch(b"one"))
        member = node.member("mine")
        assert (await member.fetch(("mine",))).acquired
        costs.append(opcodes_of(lambda: end(shares, node, member)))

    for ended_count in (1, 20):
        tell_shares(lambda node, count=ended_count: story(node, count))  # type: ignore[misc]
    assert costs[0] == costs[1]


def test_a_group_of_which_one_partition_is_led_elsewhere_goes_on_with_the_others() -> None:
    async def story(node: ShareNode) -> None:
        for topic in ("a", "b"):
            await node.share(topic)
        member = node.member()
        await member.send(("a", "b"))
        node.context.elect(2, "b")
        assert list(node.node.shares.partitions) == [node.key("a")]
        await node.produce("a", batch(b"one"))
        response = await member.send()
        told = {
            partition.error_code for topic in response.responses for partition in topic.partitions
        }
        assert told == {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
        await member.leave()
        assert not node.node.shares.partitions

    tell_shares(story)


def test_a_fetch_that_waits_for_a_state_does_not_outlast_share_groups() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        node.share_states.is_holding = True
        got: list[Got] = []

        async def wait() -> None:
            got.append(await node.member().fetch(max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            node.set_share_version(0)
            await trio.sleep(1)
            assert [each.error for each in got] == [ErrorCode.INVALID_SHARE_SESSION_EPOCH]

    tell_shares(story)


def test_a_member_that_has_left_has_no_session_any_more() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        member = node.member()
        await member.fetch()
        epoch = member.epoch
        await member.leave()
        assert not len(node.node.shares.sessions)
        assert await member.acknowledge(epoch=epoch) == ErrorCode.SHARE_SESSION_NOT_FOUND

    tell_shares(story)


def test_a_group_whose_last_member_held_nothing_is_forgotten_at_once() -> None:
    """Else a group of the same name that is made later would go on where this one was."""

    async def story(node: ShareNode) -> None:
        await node.share()
        for value in (b"one", b"two"):
            await node.produce("a", batch(value))
        member = node.member()
        assert (await member.fetch()).acquired == [(0, 1, 1)]
        assert await member.acknowledge((0, 1, [ACCEPT])) == 0
        await member.leave()
        assert not node.node.shares.partitions
        assert not node.node.shares.fetch_counts
        await node.share()
        assert (await node.member().fetch()).acquired == [(0, 1, 1)]

    tell_shares(story)


def test_a_group_that_got_nothing_yet_goes_on_where_it_began() -> None:
    """Else records that come between two short visits of a new group reach nobody."""

    async def story(node: ShareNode) -> None:
        await node.share(start=UNKNOWN_START_OFFSET)
        for value in (b"before", b"between"):
            await node.produce("a", batch(value))
            member = node.member()
            got = await member.fetch()
            await member.leave()
            assert not node.node.shares.partitions
        assert got.acquired == [(1, 1, 1)]

    tell_shares(story)


def test_a_group_whose_start_cannot_be_stored_is_forgotten_all_the_same() -> None:
    async def story(node: ShareNode) -> None:
        await node.share(start=UNKNOWN_START_OFFSET)
        member = node.member()
        await member.fetch()
        node.share_states.refusals.append(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await member.leave()
        assert not node.share_states.refusals
        assert not node.node.shares.partitions

    tell_shares(story)


def test_acknowledgements_are_counted_by_type_and_record() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        await node.produce("a", batch(*[b"one"] * 6))
        member = node.member()
        await member.fetch()
        assert await member.acknowledge((0, 2, [ACCEPT]), (3, 5, [REJECT, RELEASE, RELEASE])) == 0
        assert node.node.shares.acknowledged == {ACCEPT: 3, REJECT: 1, RELEASE: 2}

    tell_shares(story)


@pytest.mark.parametrize(
    ("acks", "counted"),
    [
        ([(0, 0, [ACCEPT]), (1, 3, [ACCEPT])], {ACCEPT: 2}),
        ([(0, 1, [ACCEPT, REJECT])], {}),
        ([(0, 3, [REJECT, ACCEPT, ACCEPT, RELEASE])], {ACCEPT: 1, RELEASE: 1}),
    ],
)
def test_acknowledgements_of_records_that_are_done_with_are_not_counted(
    acks: list[Ack], counted: dict[int, int]
) -> None:
    """They pass, as nothing can happen to those records any more."""

    async def story(node: ShareNode) -> None:
        await node.share()
        await node.produce("a", batch(*[b"one"] * 6))
        member = node.member()
        await member.fetch()
        assert await member.acknowledge((0, 1, [ACCEPT])) == 0
        node.node.shares.acknowledged.clear()
        assert await member.acknowledge(*acks) == 0
        assert +node.node.shares.acknowledged == counted

    tell_shares(story)
