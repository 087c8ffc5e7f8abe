"""A share fetch waits for records in some cases only (KIP-932).

Its limit counts all of its partitions together.
"""

import trio

from log_service.common.errors import ErrorCode
from tests.unit.broker.share.context import ACCEPT, Got, ShareNode, batch, tell_shares


def test_a_fetch_that_waits_hears_at_once_that_one_of_its_partitions_is_led_elsewhere() -> None:
    """The others stay, and have nothing for it yet."""

    async def story(node: ShareNode) -> None:
        for topic in ("a", "b"):
            await node.share(topic)
        member = node.member()
        await member.send(("a", "b"))
        got: list[Got] = []

        async def wait() -> None:
            got.append(await member.fetch(max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            node.context.elect(2, "b")
            await trio.sleep(0.1)
            assert got == [Got(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=2)]

    tell_shares(story)


def test_a_fetch_that_may_acquire_nothing_waits_however_little_it_wants() -> None:
    """All that the group may have in flight is held."""

    async def story(node: ShareNode) -> None:
        await node.share()
        node.configure_group("share.partition.max.record.locks", "100")
        await node.produce("a", batch(*[b"one"] * 100))
        await node.produce("a", batch(b"two"))
        first, second = node.member(), node.member()
        assert (await first.fetch(max_records=1)).acquired == [(0, 99, 1)]
        got: list[Got] = []

        async def wait() -> None:
            got.append(await second.fetch(min_bytes=0, max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(10)
            assert not got
            assert await first.acknowledge((0, 99, [ACCEPT])) == 0
        assert [each.acquired for each in got] == [[(100, 100, 1)]]

    tell_shares(story)


def test_a_fetch_does_not_wait_for_what_retention_has_deleted() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        for value in (b"one", b"two"):
            await node.produce("a", batch(value))
        node.context.partition().delete_records(1)
        member = node.member()
        with trio.fail_after(1):
            await member.fetch(max_wait_ms=60_000)
            assert (await member.fetch(max_wait_ms=60_000)).acquired == [(1, 1, 1)]

    tell_shares(story)


def test_a_fetch_of_as_many_bytes_as_there_are_does_not_wait() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        await node.produce("a", batch(b"one"))
        with trio.fail_after(1):
            got = await node.member().fetch(min_bytes=len(batch(b"one")), max_wait_ms=60_000)
        assert got.acquired == [(0, 0, 1)]

    tell_shares(story)


def test_a_fetch_waits_where_its_group_begins_behind_the_end_of_the_log() -> None:
    """An administrator said so. Without a wait its members would ask again at once, and again."""

    async def story(node: ShareNode) -> None:
        await node.share(start=2)
        await node.produce("a", batch(b"one"))
        member = node.member()
        began = trio.current_time()
        assert not (await member.fetch(max_wait_ms=7_000)).acquired
        assert trio.current_time() - began == 7
        for value in (b"two", b"three"):
            await node.produce("a", batch(value))
        assert (await member.fetch()).acquired == [(2, 2, 1)]

    tell_shares(story)


def test_a_batch_that_is_larger_than_a_fetch_wants_is_delivered_all_the_same() -> None:
    """Else a group would never get past it. One is enough."""

    async def story(node: ShareNode) -> None:
        for topic in ("a", "b"):
            await node.share(topic)
            await node.produce(topic, batch(b"x" * 10_000))
        response = await node.member().send(("a", "b"), max_bytes=100)
        told = [partition for topic in response.responses for partition in topic.partitions]
        assert [
            len(partition.acquired_records) for partition in told if partition.acquired_records
        ] == [1]

    tell_shares(story)


def test_partitions_give_no_more_bytes_together_than_a_fetch_wants() -> None:
    """The first batch may be larger than its partition's share; what it takes is gone for the
    others.
    """

    async def story(node: ShareNode) -> None:
        for topic, size_bytes in (("a", 8_000), ("b", 5_000)):
            await node.share(topic)
            await node.produce(topic, batch(b"x" * size_bytes))
        member = node.member()
        counts = []
        for _ in range(2):
            response = await member.send(("a", "b"), max_bytes=12_000)
            counts.append(
                sum(
                    len(partition.acquired_records)
                    for topic in response.responses
                    for partition in topic.partitions
                )
            )
        assert counts == [1, 1]

    tell_shares(story)


def test_partitions_give_no_more_records_together_than_a_fetch_wants() -> None:
    async def story(node: ShareNode) -> None:
        for topic in ("a", "b"):
            await node.share(topic)
            for value in (b"one", b"two", b"three"):
                await node.produce(topic, batch(value))
        response = await node.member().send(("a", "b"), max_records=4)
        acquired = [
            each
            for topic in response.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        ]
        assert sum(each.last_offset - each.first_offset + 1 for each in acquired) == 4

    tell_shares(story)


def test_a_fetch_of_which_every_partition_has_failed_does_not_wait() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        node.share_states.states.clear()
        with trio.fail_after(1):
            assert (
                await node.member().fetch(max_wait_ms=60_000)
            ).error == ErrorCode.UNKNOWN_SERVER_ERROR

    tell_shares(story)


def test_a_fetch_of_which_one_partition_has_failed_waits_for_the_others() -> None:
    """Else its member would ask again at once, and again, for as long as that lasts."""

    async def story(node: ShareNode) -> None:
        for topic in ("a", "b"):
            await node.share(topic)
        del node.share_states.states[node.key("b")]
        began = trio.current_time()
        response = await node.member().send(("a", "b"), max_wait_ms=7_000)
        assert trio.current_time() - began == 7
        codes = {
            topic.topic_id: partition.error_code
            for topic in response.responses
            for partition in topic.partitions
        }
        assert codes.get(node.topic_ids["a"], ErrorCode.NONE) == ErrorCode.NONE
        assert codes[node.topic_ids["b"]] == ErrorCode.UNKNOWN_SERVER_ERROR

    tell_shares(story)


def test_a_fetch_waits_for_no_more_bytes_than_it_can_get() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        for value in (b"one", b"two"):
            await node.produce("a", batch(value))
        with trio.fail_after(1):
            got = await node.member().fetch(min_bytes=10_000, max_bytes=100, max_wait_ms=60_000)
        assert got.acquired == [(0, 0, 1)]

    tell_shares(story)


def test_the_last_fetch_of_a_session_gives_back_what_its_member_holds() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        for value in (b"one", b"two"):
            await node.produce("a", batch(value))
        member, other = node.member(), node.member()
        assert (await member.fetch()).acquired == [(0, 1, 1)]
        member.epoch = -1
        await member.fetch(acks={("a", 0): [(0, 0, [ACCEPT])]})
        assert (await other.fetch()).acquired == [(1, 1, 2)]
        member.epoch = 2
        assert (await member.fetch()).error == ErrorCode.SHARE_SESSION_NOT_FOUND

    tell_shares(story)


def test_the_first_response_of_a_session_names_every_partition_and_later_ones_those_with_news() -> (
    None
):
    async def story(node: ShareNode) -> None:
        for topic in ("a", "b"):
            await node.share(topic)
        member = node.member()
        assert len((await member.send(("a", "b"))).responses) == 2
        await node.produce("b", batch(b"one"))
        assert [topic.topic_id for topic in (await member.send()).responses] == [
            node.topic_ids["b"]
        ]

    tell_shares(story)
