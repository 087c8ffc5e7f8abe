"""Producers that talk to a scripted cluster."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from log_service.client.producer.producer import Producer
from tests.sim.world import World, sim_run
from tests.unit.client.scripted_broker import ScriptedBroker

Story = Callable[[ScriptedBroker, Producer], Awaitable[None]]


def tell(
    story: Story,
    *,
    seed: int = 1,
    partition_count: int = 1,
    max_batch_bytes: int = 1 << 20,
    **settings: Any,
) -> ScriptedBroker:
    """Run a story in virtual time; returns the broker for a last look."""

    async def main(world: World) -> ScriptedBroker:
        broker = ScriptedBroker(
            world, partition_count=partition_count, max_batch_bytes=max_batch_bytes
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Producer("broker:9092", env=world.client_env(), **settings) as producer:
                await story(broker, producer)
            nursery.cancel_scope.cancel()
        return broker

    return sim_run(seed, main)


async def send_many(producer: Producer, count: int) -> list[bytes]:
    values = [b"%d" % index for index in range(count)]
    for value in values:
        await producer.send("t", value, partition=0)
    return values
