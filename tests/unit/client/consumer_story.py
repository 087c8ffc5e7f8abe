"""A consumer's story runs in virtual time beside a scripted broker.

The test gives the broker a leader or a group.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from log_service.client import Consumer, TopicPartition
from tests.sim import World, sim_run
from tests.unit.client.scripted_broker import ScriptedBroker

S = TypeVar("S")


def tell_consumer_story(
    story: Callable[[S, Consumer], Awaitable[None]],
    script: Callable[[ScriptedBroker], S],
    *,
    partition_count: int = 1,
    **settings: Any,
) -> None:
    """Run ``story(script(broker), consumer)``. A consumer with a ``group_id`` is subscribed to
    topic t, another has all its partitions.
    """

    async def main(world: World) -> None:
        broker = ScriptedBroker(world, partition_count=partition_count)
        scripted = script(broker)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Consumer(
                "broker:9092",
                env=world.client_env(),
                **{"auto_offset_reset": "earliest", **settings},
            ) as consumer:
                if "group_id" in settings:
                    await consumer.subscribe(["t"])
                else:
                    consumer.assign(
                        [TopicPartition("t", number) for number in range(partition_count)]
                    )
                with trio.fail_after(1_000):
                    await story(scripted, consumer)
            nursery.cancel_scope.cancel()

    sim_run(1, main)
