"""Two tasks of an application that use one share consumer at a time."""

from typing import Any

import trio

from log_service.client import ShareConsumer
from log_service.protocol.api_versions import ApiKey
from tests.unit.client.scripted_queue import Queue, polled, tell


def test_what_one_task_subscribes_while_another_unsubscribes_is_read() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        await polled(consumer)
        respond = queue.broker.other[ApiKey.SHARE_GROUP_HEARTBEAT]

        async def respond_slowly(request: Any, version: int) -> Any:
            await trio.sleep(1)
            return await respond(request, version)

        queue.broker.other[ApiKey.SHARE_GROUP_HEARTBEAT] = respond_slowly
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.unsubscribe)
            await trio.sleep(0.5)
            await consumer.subscribe(["t"])
        assert consumer.subscription == {"t"}
        queue.deliver(1, [b"b"])
        with trio.fail_after(100):
            assert [record.value for record in await polled(consumer)] == [b"b"]

    tell(story)
