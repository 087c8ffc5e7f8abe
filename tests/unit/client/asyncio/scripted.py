"""An asyncio client runs beside a scripted broker.

Both live in the client's own thread, joined by the memory network, in real time.
"""

from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

import trio

from log_service.client import (
    AsyncioConsumer,
    AsyncioProducer,
    AsyncioShareConsumer,
    BlockingProducer,
    BlockingShareConsumer,
    real_env,
)
from log_service.client.asyncio.calls import OnAsyncio
from log_service.client.blocking.calls import Blocking
from log_service.common.env import Env
from tests.helpers.client_faces import client_of, portal_of
from tests.sim.world import World
from tests.unit.client.scripted_broker import ScriptedBroker
from tests.unit.client.scripted_queue import Coordination, Queue

P = TypeVar("P", AsyncioProducer, BlockingProducer)
S = TypeVar("S", AsyncioShareConsumer, BlockingShareConsumer)


def scripted_producer(*, seed: int = 1, **settings: Any) -> tuple[ScriptedBroker, AsyncioProducer]:
    """Return a broker that runs while the producer is open, and the producer, which is to be
    opened.
    """
    return beside_broker(AsyncioProducer, seed=seed, **settings)


def beside_broker(kind: type[P], *, seed: int = 1, **settings: Any) -> tuple[ScriptedBroker, P]:
    """The same for the producer of any face."""
    world = World(seed)
    broker, producer = ScriptedBroker(world), kind("broker:9092", env=_env(world), **settings)
    _put_beside(broker, producer)
    return broker, producer


def scripted_consumer(
    *, seed: int = 1, partition_count: int = 1, **settings: Any
) -> tuple[ScriptedBroker, AsyncioConsumer]:
    """Return a broker that runs while the consumer is open, and the consumer, which is to be
    opened.
    """
    world = World(seed)
    broker = ScriptedBroker(world, partition_count=partition_count)
    consumer = AsyncioConsumer(
        "broker:9092", env=_env(world), **{"auto_offset_reset": "earliest", **settings}
    )
    _put_beside(broker, consumer)
    return broker, consumer


def scripted_share_consumer(kind: type[S], *, seed: int = 1, **settings: Any) -> tuple[Queue, S]:
    """Return a queue, and a consumer of any face.

    Its broker runs while the consumer is open. The caller opens the consumer.
    """
    world = World(seed)
    broker = ScriptedBroker(world)
    consumer = kind("broker:9092", group_id="q", env=_env(world), **settings)
    _put_beside(broker, consumer)
    return Queue(broker, Coordination(broker)), consumer


def _env(world: World) -> Env:
    """The memory network, and the machine's clock: the event loop's thread asks for the time, too."""
    return replace(world.client_env(), clock=real_env().clock)


def _put_beside(broker: ScriptedBroker, face: OnAsyncio[Any] | Blocking[Any]) -> None:
    portal_of(face)._opened = _Beside(broker, client_of(face))


class _Beside:
    """Opens a client once the broker runs, and stops the broker once the client is closed."""

    def __init__(self, broker: ScriptedBroker, client: Any) -> None:
        self._broker = broker
        self._client = client
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Any:
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        await self._nursery.start(self._broker.run)
        return await self._client.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._client.__aexit__(kind, error, trace)
        finally:
            self._nursery.cancel_scope.cancel()
            await self._stack.aclose()
