"""A stream of records keeps the clients of its login open for as long as it lasts."""

from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from log_service.common.secrets import SecretText
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.cluster_clients.pool import ClientLimits, ClusterClients, LoginClients
from log_service.http.rest_proxy import context as rest_context
from log_service.http.rest_proxy import record_stream
from log_service.http.rest_proxy.context import RestContext, handled
from log_service.http.rest_proxy.v3 import produce
from log_service.http.server.values import HttpRequest
from tests.sim import VirtualClock, World

SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
ANN = Credentials(user="ann", password=SecretText("secret"))


async def nothing(*_: object) -> Any:
    """Stand for the cluster, which no record of the test reaches."""
    await trio.lowlevel.checkpoint()
    return SimpleNamespace(name="t")


async def no_outcomes(*_: object) -> list[Any]:
    await trio.lowlevel.checkpoint()
    return []


async def at_once(work: Any, _size_bytes: int) -> Any:
    """Work without a thread, because virtual time does not wait for one."""
    await trio.lowlevel.checkpoint()
    return work()


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[LoginClients]:
    """The clients that were closed. Records are refused before the cluster is asked."""
    found: list[LoginClients] = []

    def close(clients: LoginClients) -> None:
        found.append(clients)

    monkeypatch.setattr(LoginClients, "close", close)
    monkeypatch.setattr(LoginClients, "producer", nothing)
    monkeypatch.setattr(rest_context, "credentials_of", lambda _request: ANN)
    monkeypatch.setattr(produce, "known_topic", nothing)
    monkeypatch.setattr(produce, "require_room", lambda _producer: None)
    monkeypatch.setattr(record_stream, "send_all", no_outcomes)
    monkeypatch.setattr(record_stream, "run_off_loop", at_once)

    async def cluster_call(call: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return SimpleNamespace(call=call, cluster_id="c")

    monkeypatch.setattr(produce, "cluster_call", cluster_call)
    return found


def test_a_stream_leases_its_clients_before_its_first_line(closed: list[LoginClients]) -> None:
    """A password that changes during the stream closes them when the stream is over."""

    async def main() -> None:
        env = replace(World(0).client_env(), clock=VirtualClock())
        clients = ClusterClients("server:1", SASL, env, ClientLimits(max_login_count=2))
        context = cast("RestContext", SimpleNamespace(clients=clients))
        gate = trio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b'{"first": 1}'
            await gate.wait()
            yield b'{"second": 2}'

        async with trio.open_nursery() as nursery:
            await nursery.start(clients.run)
            request = HttpRequest(
                method="POST", path="", path_values={"topic": "t"}, pieces=pieces()
            )
            response = await handled(context, produce.produce)(request)
            lines = cast("AsyncIterator[bytes]", response.body)
            first = await anext(lines)
            clients.retire("ann")
            assert closed == []
            gate.set()
            rest = [line async for line in lines]
            assert len(closed) == 1
            assert [line.count(b"error_code") for line in (first, *rest)] == [1, 1]
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
