"""One request of a person, and the clients that it acts with."""

import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from log_service.client import SchemaRegistryClient, real_env
from log_service.common.secrets import SecretText
from log_service.http.cluster_clients.pool import ClusterClients
from log_service.http.console.page_requests import PageRequest, RegistryAccess
from log_service.http.record_formats import consuming
from log_service.http.record_formats.decoding import open_decoder
from log_service.http.server import cluster_logins
from tests.unit.http.console.stage import Stage, play

HERE = RegistryAccess(url="http://127.0.0.1:1")


def with_clients(scene: Callable[[PageRequest], Awaitable[None]]) -> None:
    """Run a scene with a page request that has real clients of a cluster that is not there."""

    async def staged(stage: Stage) -> None:
        await stage.get("/page")
        pool = ClusterClients("127.0.0.1:1", {}, real_env())
        await stage.nursery.start(pool.run)
        async with pool.lease(None) as clients:
            page_request = stage.page_requests[0]
            context = replace(page_request.context, registry=HERE)
            await scene(replace(page_request, clients=clients, context=context))

    play(staged)


def test_requests_of_a_login_share_a_client_of_the_registry() -> None:
    """Each one reads trust stores and shakes hands, which took the loop's time on every page."""

    async def scene(page_request: PageRequest) -> None:
        first = await page_request.registry()
        assert isinstance(first, SchemaRegistryClient)
        assert await page_request.registry() is first

    with_clients(scene)


class Noted:
    """Makes of a client a class that tells the thread in which each one is made."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def __call__(self, *_given: Any, **_settings: Any) -> AbstractAsyncContextManager[Any]:
        self.threads.append(threading.current_thread())
        return AsyncNothing()


class AsyncNothing:
    """A client that does nothing."""

    async def __aenter__(self) -> Any:
        async def describe_cluster() -> None:
            """Refuses no password."""

        return SimpleNamespace(describe_cluster=describe_cluster)

    async def __aexit__(self, *_error: object) -> None:
        """Nothing is open."""


def test_trust_stores_are_read_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's login reads them, too."""
    made = Noted()

    async def scene(page_request: PageRequest) -> None:
        monkeypatch.setattr(consuming, "Consumer", made)
        monkeypatch.setattr(cluster_logins, "Admin", made)
        monkeypatch.setattr("log_service.http.console.page_requests.SchemaRegistryClient", made)
        async with (
            consuming.open_consumer(page_request.clients, is_committed_only=True),
            open_decoder(page_request.registry_maker),
        ):
            await page_request.registry()
        settings = {"sasl_mechanism": "PLAIN"}
        check = cluster_logins.ClusterLogins("127.0.0.1:1", settings).check
        assert await check("ann", SecretText("secret")) == "User:ann"

    with_clients(scene)
    assert len(made.threads) == 4
    assert threading.current_thread() not in made.threads
