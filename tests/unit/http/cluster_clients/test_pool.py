"""Clients of logins: shared, bounded, and closed when no request uses them."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from log_service.client import ConfigError, KafkaError
from log_service.common.env import Env
from log_service.common.secrets import SecretText
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.cluster_clients.pool import ClientLimits, ClusterClients
from log_service.http.server.values import HttpError
from tests.sim import VirtualClock, World

SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
LIMITS = ClientLimits(max_login_count=2, idle_ms=10_000)


async def at_once(work: Callable[[], object]) -> object:
    """Work without a thread, because virtual time does not wait for one."""
    return work()


def login(user: str) -> Credentials:
    """Return a login."""
    return Credentials(user=user, password=SecretText("secret"))


def env() -> Env:
    """Return an environment in virtual time."""
    return replace(World(0).client_env(), clock=VirtualClock())


async def opened(nursery: trio.Nursery) -> ClusterClients:
    """Return a running pool in front of a cluster that is not there."""
    clients = ClusterClients("server:1", SASL, env(), LIMITS)
    await nursery.start(clients.run)
    return clients


def tell(
    story: Callable[[ClusterClients], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a story in virtual time."""
    monkeypatch.setattr("trio.to_thread.run_sync", at_once)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await story(await opened(nursery))
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_requests_of_a_login_share_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another password of the same user is another login."""

    async def story(clients: ClusterClients) -> None:
        async with clients.lease(login("ann")) as first, clients.lease(login("ann")) as second:
            assert first is second
            assert await first.admin() is await second.admin()
            assert await first.producer() is await second.producer()
            assert first.settings()["sasl_username"] == "ann"
        other = Credentials(user="ann", password=SecretText("wrong"))
        async with clients.lease(other) as third:
            assert third is not first
            assert clients.login_count == 2

    tell(story, monkeypatch)


def test_idle_clients_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of a request that takes long are not closed."""

    async def story(clients: ClusterClients) -> None:
        async with clients.lease(login("ann")) as ann:
            admin = await ann.admin()
            await trio.sleep(60)
            assert admin is await ann.admin()
            assert clients.login_count == 1
        await trio.sleep(20)
        assert clients.login_count == 0
        with pytest.raises(KafkaError, match="closed"):
            await admin.describe_cluster()

    tell(story, monkeypatch)


def test_the_login_that_is_idle_for_the_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an idle one, a request is told to come back."""

    async def story(clients: ClusterClients) -> None:
        for user in ("ann", "bob"):
            async with clients.lease(login(user)):
                await trio.sleep(1)
        async with clients.lease(login("bob")), clients.lease(login("carl")):
            assert clients.login_count == 2
            with pytest.raises(HttpError) as refused:
                async with clients.lease(login("ann")):
                    pass
            assert refused.value.status == 503
            assert refused.value.headers

    tell(story, monkeypatch)


def test_clients_of_a_changed_password_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that uses them now is answered first."""

    async def story(clients: ClusterClients) -> None:
        async with clients.lease(login("bob")) as bob:
            others = await bob.admin()
        async with clients.lease(login("ann")) as ann:
            admin = await ann.admin()
            clients.retire("ann")
            assert clients.login_count == 1
            assert await ann.admin() is admin
            async with clients.lease(login("ann")) as after:
                assert after is not ann
        await wait_all_tasks_blocked()
        with pytest.raises(KafkaError, match="closed"):
            await admin.describe_cluster()
        async with clients.lease(login("bob")) as bob:
            assert await bob.admin() is others

    tell(story, monkeypatch)


def test_wrong_settings_cost_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool goes on."""

    async def story(_clients: ClusterClients) -> None:
        settings: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT"}
        broken = ClusterClients("server:1", settings, env(), LIMITS)
        async with trio.open_nursery() as nursery:
            await nursery.start(broken.run)
            for _ in range(2):
                async with broken.lease(None) as own:
                    with pytest.raises(ConfigError, match="sasl_mechanism"):
                        await own.admin()
            nursery.cancel_scope.cancel()

    tell(story, monkeypatch)


def test_a_pool_that_does_not_run_lends_nothing() -> None:
    """A request that comes while the service stops is told so."""

    async def main() -> None:
        clients = ClusterClients("server:1", SASL, env(), LIMITS)
        lease = partial(clients.lease, None)
        with pytest.raises(HttpError) as refused:
            async with lease():
                pass
        assert refused.value.status == 503

    trio.run(main)
