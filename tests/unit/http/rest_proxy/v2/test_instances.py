"""Consumer instances belong to a principal, and one principal leaves room to others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import pytest
import trio

from log_service.common.env import Env
from log_service.http.cluster_clients.pool import LoginClients
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v2 import instances as rooms
from log_service.http.rest_proxy.v2.instance import InstanceSettings
from log_service.http.rest_proxy.v2.instances import ConsumerInstances, InstanceKey
from log_service.http.server.values import ANONYMOUS
from tests.sim import MemoryNetwork, VirtualClock


class NoClients:
    """The clients of a login, without a cluster."""

    servers, env = "b:1", None

    def settings(self) -> dict[str, Any]:
        return {}


@asynccontextmanager
async def no_consumer() -> AsyncIterator[object]:
    await trio.lowlevel.checkpoint()
    yield object()


async def create(held: ConsumerInstances, owner: str, name: str) -> None:
    """Create a consumer of the group g."""
    clients = cast("LoginClients", NoClients())
    await held.create(InstanceKey(owner, "g", name), clients, InstanceSettings(), {})


def test_a_user_has_a_quarter_of_the_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may use the same names, and only the owner finds an instance."""
    monkeypatch.setattr(rooms, "Consumer", lambda *_, **__: no_consumer())

    async def scene() -> None:
        env = Env(clock=VirtualClock(), rng=Random(1), network=MemoryNetwork().host("a"))
        held = ConsumerInstances(env, max_count=8, idle_ms=60_000)
        async with trio.open_nursery() as nursery:
            await nursery.start(held.run)
            await create(held, "User:ann", "one")
            await create(held, "User:ann", "two")
            with pytest.raises(RestError, match="Your user has too many"):
                await create(held, "User:ann", "three")
            await create(held, "User:bob", "one")
            assert held.find(InstanceKey("User:bob", "g", "one")).owner == "User:bob"
            with pytest.raises(RestError, match="not found"):
                held.find(InstanceKey("User:bob", "g", "two"))
            for number in range(5):
                await create(held, ANONYMOUS, str(number))
            with pytest.raises(RestError, match="There are too many"):
                await create(held, ANONYMOUS, "more")
            nursery.cancel_scope.cancel()

    trio.run(scene)
