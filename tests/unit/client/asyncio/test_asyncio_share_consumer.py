"""A share consumer for asyncio settles its records where a task is cancelled.

It runs beside a scripted queue.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from log_service.client import AsyncioShareConsumer
from tests.helpers.client_faces import portal_of
from tests.unit.client.asyncio.scripted import scripted_share_consumer


async def leave_by_the_block(consumer: AsyncioShareConsumer) -> None:
    await consumer.__aexit__(None, None, None)


@pytest.mark.parametrize("leave", [leave_by_the_block, AsyncioShareConsumer.close])
def test_leaving_that_is_cancelled_accepts_nothing_that_the_loop_did_not_hand_out(
    leave: Callable[[AsyncioShareConsumer], Awaitable[None]],
) -> None:
    """The rest of what a poll had brought was accepted without a look at it: it was lost."""
    queue, consumer = scripted_share_consumer(AsyncioShareConsumer)
    queue.deliver(0, [b"a", b"b", b"c"])

    async def story() -> None:
        await consumer.__aenter__()
        await consumer.subscribe(["t"])
        async for record in consumer:
            assert record.value == b"a"
            break
        # So that call and cancellation reach the client's thread together.
        portal_of(consumer).post(partial(time.sleep, 0.2))
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        await leave(consumer)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(story())
    assert queue.said == [(0, 0, 0, (1,))]
