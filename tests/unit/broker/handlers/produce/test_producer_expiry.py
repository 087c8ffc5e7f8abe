"""A partition remembers a silent idempotent producer for a while.

The tests also tell what the producer may do afterwards.
"""

from collections.abc import Awaitable, Callable

import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tests.unit.broker.context import Story, batch, tell

EXPIRATION_MS = 60_000
CHECK_MS = 5_000


def tell_with_expiry(story: Callable[[Story], Awaitable[None]]) -> None:
    tell(
        story,
        producer_id_expiration_ms=str(EXPIRATION_MS),
        producer_id_expiration_check_interval_ms=str(CHECK_MS),
    )


async def known(node: Story) -> dict[int, int]:
    """The last sequence of each producer."""
    request = DescribeProducersRequest(topics=[TopicRequest(name="a", partition_indexes=[0])])
    response: DescribeProducersResponse = await node.ask(request, 0)
    return {
        one.producer_id: one.last_sequence
        for one in response.topics[0].partitions[0].active_producers
    }


async def send(node: Story, producer_id: int, sequence: int, *, epoch: int = 0) -> int:
    """The answer's code."""
    sent = batch(b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return (await node.produce("a", sent)).error_code


def test_a_producer_is_forgotten_once_its_time_is_over_and_not_before() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        assert await send(node, 1, 0) == 0
        await trio.sleep(EXPIRATION_MS / 1000 - CHECK_MS / 1000 - 1)
        assert await known(node) == {1: 0}
        await trio.sleep(2 * CHECK_MS / 1000 + 2)
        assert await known(node) == {}

    tell_with_expiry(story)


def test_a_producer_that_goes_on_is_kept() -> None:
    """Also where its records have timestamps of long ago: what counts is when they came."""

    async def story(node: Story) -> None:
        await node.create_topic("a", retention_ms="-1")
        for sequence in range(6):
            assert await send(node, 1, sequence) == 0
            await trio.sleep(EXPIRATION_MS / 2000)
        assert await known(node) == {1: 5}

    tell_with_expiry(story)


def test_a_producer_that_was_forgotten_may_go_on_anywhere() -> None:
    """A forgotten producer's records are not refused (KIP-360).

    The partition does not know its last record, and it does not know an old epoch either.
    """

    async def story(node: Story) -> None:
        await node.create_topic("a")
        assert await send(node, 1, 0, epoch=3) == 0
        assert await send(node, 1, 5, epoch=3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await send(node, 1, 1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
        await trio.sleep((EXPIRATION_MS + 2 * CHECK_MS) / 1000)
        assert await send(node, 1, 5, epoch=2) == 0
        assert await send(node, 1, 6, epoch=2) == 0
        assert await send(node, 1, 8, epoch=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    tell_with_expiry(story)
