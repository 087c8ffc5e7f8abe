"""A group, a leader or a member's next request changes during an earlier request (KIP-932)."""

import trio

from log_service.common.errors import ErrorCode
from tests.unit.broker.share.context import ACCEPT, RENEW, Got, ShareNode, batch, tell_shares


def test_a_lock_that_is_renewed_for_a_shorter_time_expires_after_that_time() -> None:
    """The group's setting was lowered after the record was acquired."""

    async def story(node: ShareNode) -> None:
        await node.share_record()
        node.configure_group("share.record.lock.duration.ms", "60000")
        first, second = node.member(), node.member()
        await first.fetch()
        node.configure_group("share.record.lock.duration.ms", "15000")
        await trio.sleep(5)
        assert await first.acknowledge((0, 0, [RENEW]), is_renewing=True) == 0
        await trio.sleep(14.9)
        assert not (await second.fetch()).acquired
        await trio.sleep(0.2)
        assert (await second.fetch()).acquired == [(0, 0, 2)]

    tell_shares(story)


def test_what_is_acknowledged_while_the_state_is_loaded_is_refused_at_once() -> None:
    """The leader has changed and back: what the member holds was forgotten with its lock."""

    async def story(node: ShareNode) -> None:
        await node.share_record()
        member, other = node.member(), node.member()
        assert (await member.fetch()).acquired == [(0, 0, 1)]
        node.context.elect(2)
        node.context.elect(1)
        node.share_states.is_holding = True
        got: list[Got] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.fetch_into, got)
            await trio.sleep(1)
            with trio.fail_after(1):
                assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
            node.share_states.let_go()
        assert [each.acquired for each in got] == [[(0, 0, 1)]]

    tell_shares(story)


def test_a_fetch_that_waits_acquires_nothing_once_its_member_has_sent_another_request() -> None:
    """The member has given the first one up, and looks at no response to it."""

    async def story(node: ShareNode) -> None:
        await node.share()
        member, other = node.member(), node.member()
        await member.fetch()
        got: list[Got] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.fetch_into, got)
            await trio.sleep(1)
            anew = node.member()
            anew.member_id, anew.epoch = member.member_id, 2
            assert await anew.acknowledge() == 0
            await node.produce("a", batch(b"one"))
        assert got == [Got(error=ErrorCode.INVALID_SHARE_SESSION_EPOCH, is_told=False)]
        assert (await other.fetch()).acquired == [(0, 0, 1)]

    tell_shares(story)
