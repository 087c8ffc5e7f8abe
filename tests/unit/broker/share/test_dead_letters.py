"""A record that no member could process becomes a dead letter (beyond Apache Kafka 4.3).

The letter is written before the record is given up.
"""

from functools import partial

import pytest
import trio

from log_service.broker.share.led_share_partition import MAX_RETRY_MS, RETRY_MS
from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.resource_keys import DEAD_LETTER_TOPIC
from tests.unit.broker.share.context import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    ShareNode,
    batch,
    tell_shares,
)

LOCK_S = 30
ACKNOWLEDGED, ARCHIVED = 2, 4


async def prepare(node: ShareNode, *values: bytes) -> None:
    await node.share()
    node.configure_group(DEAD_LETTER_TOPIC, "dead")
    node.configure_group("share.delivery.count.limit", "2")
    for value in values:
        await node.produce("a", batch(value))


def test_a_rejected_record_has_a_letter_and_a_gap_has_none() -> None:
    async def story(node: ShareNode) -> None:
        await prepare(node, b"one", b"two", b"three")
        member = node.member()
        await member.fetch()
        assert await member.acknowledge((0, 2, [REJECT, GAP, ACCEPT])) == 0
        assert node.dead_letters.written == [("dead", 0, 1, "REJECTED")]
        assert node.stored() == (0, [(0, 1, ARCHIVED, 1), (2, 2, ACKNOWLEDGED, 1)])

    tell_shares(story)


def test_a_record_that_is_released_too_often_has_a_letter() -> None:
    async def story(node: ShareNode) -> None:
        await prepare(node, b"one")
        member = node.member()
        for _ in range(2):
            assert (await member.fetch()).acquired
            assert await member.acknowledge((0, 0, [RELEASE])) == 0
        assert node.dead_letters.written == [("dead", 0, 2, "DELIVERED_TOO_OFTEN")]
        assert not (await member.fetch()).acquired

    tell_shares(story)


def test_a_member_hears_why_its_rejection_could_not_be_written_and_holds_the_record_still() -> None:
    async def story(node: ShareNode) -> None:
        await prepare(node, b"one")
        member = node.member()
        await member.fetch()
        node.dead_letters.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "too few")
        assert await member.acknowledge((0, 0, [REJECT])) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert node.stored() == (0, [])
        node.dead_letters.refusal = None
        assert await member.acknowledge((0, 0, [ACCEPT])) == 0
        assert not node.dead_letters.written

    tell_shares(story)


def test_a_record_whose_last_lock_expires_waits_for_its_letter() -> None:
    async def story(node: ShareNode) -> None:
        await prepare(node, b"one", b"two")
        member, other = node.member(), node.member()
        await member.fetch()
        assert await member.acknowledge((0, 1, [RELEASE])) == 0
        assert (await member.fetch(max_records=1)).acquired
        node.dead_letters.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody leads")
        await trio.sleep(LOCK_S + 10)
        assert all(offset != 0 for offset, *_ in (await other.fetch()).acquired)
        assert all(state != ARCHIVED for _, _, state, _ in node.stored()[1])
        assert node.stored()[0] == 0
        node.dead_letters.refusal = None
        await trio.sleep(MAX_RETRY_MS / 1_000 + 0.1)
        assert ("dead", 0, 2, "DELIVERED_TOO_OFTEN") in node.dead_letters.written
        assert node.stored()[0] > 0 or any(
            first == 0 and state == ARCHIVED for first, _, state, _ in node.stored()[1]
        )

    tell_shares(story)


async def lose_last_delivery(node: ShareNode) -> None:
    """Let a record expire with its last delivery while no letter can be written.

    A session of its group stays.
    """
    await prepare(node, b"one")
    member = node.member()
    await member.fetch()
    assert await member.acknowledge((0, 0, [RELEASE])) == 0
    assert (await member.fetch()).acquired
    node.dead_letters.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody leads")
    await trio.sleep(LOCK_S)


@pytest.mark.parametrize("is_hurried", [False, True])
def test_letters_that_cannot_be_written_are_tried_ever_less_often(is_hurried: bool) -> None:
    """Also where locks are looked at meanwhile, as whenever a member vanishes."""

    async def story(node: ShareNode) -> None:
        await lose_last_delivery(node)
        for _ in range(600):
            await trio.sleep(1)
            if is_hurried:
                other = node.member()
                await other.fetch()
                other.vanish()
        assert 10 < node.dead_letters.attempt_count < 20
        node.dead_letters.refusal = None
        await trio.sleep(MAX_RETRY_MS / 1_000 + 1)
        assert node.dead_letters.written == [("dead", 0, 2, "DELIVERED_TOO_OFTEN")]

    tell_shares(story)


def test_letters_are_tried_soon_again_once_some_could_be_written() -> None:
    async def story(node: ShareNode) -> None:
        await lose_last_delivery(node)
        await trio.sleep(300)
        node.dead_letters.refusal = None
        await trio.sleep(MAX_RETRY_MS / 1_000 + 1)
        tried = node.dead_letters.attempt_count
        await node.produce("a", batch(b"two"))
        member = node.member()
        for _ in range(2):
            await member.fetch()
            node.dead_letters.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody leads")
            await trio.sleep(LOCK_S + 0.1)
        await trio.sleep(2)
        assert node.dead_letters.attempt_count >= tried + 2

    tell_shares(story)


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_letters_of_a_group_that_is_deleted_end(
    caplog: pytest.LogCaptureFixture, is_made_anew: bool
) -> None:
    async def story(node: ShareNode) -> None:
        await lose_last_delivery(node)
        await trio.sleep(5)
        del node.share_states.states[node.key()]
        if is_made_anew:
            node.share_states.initialize(
                node.key(), state_epoch=2, start_offset=-1, on_done=lambda _: None
            )
        await trio.sleep(MAX_RETRY_MS / 1_000 + 1)
        assert "are given up" in caplog.text
        tried = node.dead_letters.attempt_count
        await trio.sleep(600)
        assert node.dead_letters.attempt_count == tried
        assert not node.node.shares.partitions

    tell_shares(story)


def test_letters_that_were_written_for_a_group_that_is_deleted_are_not_stored_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: ShareNode) -> None:
        await lose_last_delivery(node)
        del node.share_states.states[node.key()]
        node.dead_letters.refusal = None
        await trio.sleep(MAX_RETRY_MS / 1_000 + 1)
        assert "are given up" in caplog.text
        assert not node.node.shares.partitions

    tell_shares(story)


def test_what_a_vanished_member_held_for_the_last_time_has_letters() -> None:
    async def story(node: ShareNode) -> None:
        await prepare(node, b"one")
        other = node.member()
        await other.fetch()
        assert await other.acknowledge((0, 0, [RELEASE])) == 0
        gone = node.member()
        assert (await gone.fetch()).acquired == [(0, 0, 2)]
        gone.vanish()
        assert node.dead_letters.written == [("dead", 0, 2, "DELIVERED_TOO_OFTEN")]

    tell_shares(story)


def test_a_leader_that_is_lost_before_the_letter_is_written_stores_nothing() -> None:
    """The next leader delivers the record again: the letter may be there twice, and is never
    missing.
    """

    async def story(node: ShareNode) -> None:
        await prepare(node, b"one")
        member = node.member()
        await member.fetch()
        node.dead_letters.is_holding = True
        codes: list[int] = []

        async def reject() -> None:
            codes.append(await member.acknowledge((0, 0, [REJECT])))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reject)
            await trio.sleep(1)
            node.context.elect(2)
            node.dead_letters.let_go()
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert node.stored() == (0, [])
        node.context.elect(1)
        other = node.member()
        assert (await other.fetch()).acquired == [(0, 0, 1)]

    tell_shares(story)


def test_records_of_the_dead_letter_topic_itself_are_given_up_without_another_letter() -> None:
    async def story(node: ShareNode) -> None:
        await node.share("dead")
        node.configure_group(DEAD_LETTER_TOPIC, "dead")
        await node.produce("dead", batch(b"one"))
        member = node.member()
        await member.fetch(("dead",))
        assert await member.acknowledge((0, 0, [REJECT]), topic="dead") == 0
        assert not node.dead_letters.written

    tell_shares(story)


def test_a_lock_that_expires_is_counted_once_however_often_its_letter_is_tried() -> None:
    async def story(node: ShareNode) -> None:
        await prepare(node, b"one")
        member = node.member()
        for _ in range(2):
            await member.fetch()
            await trio.sleep(LOCK_S + 0.1)
            node.dead_letters.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody leads")
        await trio.sleep(10 * RETRY_MS / 1_000)
        assert node.node.shares.counts.lock_timeouts == 2
        assert node.node.shares.partitions[node.key()].lock_timeout_count == 2

    tell_shares(story)


def test_no_lock_expires_when_a_member_vanishes() -> None:
    async def story(node: ShareNode) -> None:
        await prepare(node, b"one")
        for _ in range(2):
            gone = node.member()
            assert (await gone.fetch()).acquired
            gone.vanish()
        assert node.dead_letters.written == [("dead", 0, 2, "DELIVERED_TOO_OFTEN")]
        assert node.node.shares.counts.lock_timeouts == 0

    tell_shares(story)


def test_a_session_that_ends_late_does_not_end_the_next_one_of_its_member() -> None:
    """A session that ends late does not end the next session of its member.

    The member's last request waits for a letter, and meanwhile the member has begun anew.
    """

    async def story(node: ShareNode) -> None:
        await prepare(node, b"one", b"two")
        first = node.member()
        await first.fetch(max_records=1)
        node.dead_letters.is_holding = True
        again = node.member()
        again.member_id = first.member_id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(first.acknowledge, (0, 0, [REJECT]), epoch=-1))
            await trio.sleep(1)
            assert (await again.fetch()).acquired == [(1, 1, 1)]
            node.dead_letters.let_go()
        assert await again.acknowledge((1, 1, [ACCEPT])) == 0

    tell_shares(story)
