"""What ends a group or a partition costs what its own share partitions cost, however many others the node serves."""

from collections.abc import Callable

import pytest

from log_service.broker.share.shares import Shares
from tests.helpers.opcodes import opcodes_of
from tests.unit.broker.share.context import Member, ShareNode, batch, tell_shares

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
        assert [key.group_id for key in shares.partitions] == [f"group-{number}" for number in range(other_count)]

    for other_count in (1, 40):
        tell_shares(lambda node, count=other_count: story(node, count))  # type: ignore[misc]
    assert costs[0] == costs[1]
