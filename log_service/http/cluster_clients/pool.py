"""Keeps the clients of each login open between requests, within bounds.

An admin and a producer are opened when a request first needs them, and are shared by all requests
of the login. Clients of a login that no request uses are closed after a while, or when the maximum
number of logins is reached.

Invariants: at most ``max_login_count`` logins have clients. A client stays open while a request
holds its lease.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import trio

from log_service.client import Admin, Producer
from log_service.common.env import Env
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.cluster_clients.hosted import HostedClient
from log_service.http.server.values import HttpError

SWEEP_INTERVAL_S: Final = 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Bounds of the clients through which HTTP requests use the cluster."""

    max_login_count: int = 100
    idle_ms: int = 300_000
    """How long the clients of a login stay open without a request."""
    request_timeout_ms: int = 10_000
    """The time for one request to a broker.

    It is a part of ``api_timeout_ms``, so that a hanging broker does not use all of that time.
    """
    api_timeout_ms: int = 30_000
    """The time for one call of an admin, or one record of a producer, with all retries."""
    producer_buffer_bytes: int = 8 << 20
    """The bytes of one login's records that may wait to be sent. Further requests wait for room."""
    producer_block_ms: int = 10_000
    max_request_bytes: int = 1 << 20


class LoginClients:
    """The clients of one login. ``credentials`` is None for the login of the service itself."""

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        credentials: Credentials | None,
        servers: str,
        settings: Mapping[str, Any],
        env: Env,
        limits: ClientLimits,
    ) -> None:
        self.credentials = credentials
        self.servers = servers
        self.env = env
        self._nursery = nursery
        self._shared_clients: dict[str, HostedClient[Any]] = {}
        self.lease_count = 0
        self.is_retired = False
        """Whether the pool no longer lends these clients. They are closed with the last lease."""
        self.idle_since_ms = env.clock.monotonic_ms()
        self._settings = {"request_timeout_ms": limits.request_timeout_ms, **settings}
        call = {"default_api_timeout_ms": limits.api_timeout_ms}
        delivery_ms = max(limits.api_timeout_ms, 2 * self._settings["request_timeout_ms"])
        delivery = {
            "delivery_timeout_ms": delivery_ms,
            "buffer_memory": limits.producer_buffer_bytes,
            "max_block_ms": limits.producer_block_ms,
            "max_request_size": limits.max_request_bytes,
        }
        make_admin = partial(Admin, servers, env=env, **{**call, **self._settings})
        make_producer = partial(Producer, servers, env=env, **{**delivery, **self._settings})
        self._admin = HostedClient[Admin](nursery, make_admin, "the admin of a login")
        self._producer = HostedClient[Producer](nursery, make_producer, "the producer of a login")

    def __repr__(self) -> str:
        return f"<LoginClients {self.credentials!r} leases={self.lease_count}>"

    async def admin(self) -> Admin:
        """Return the admin client of this login, and open it first if necessary.

        Raises:
            ConfigError: the settings of the service contradict each other.
        """
        return await self._admin.get()

    async def producer(self) -> Producer:
        """Return the idempotent producer of this login, and open it first if necessary.

        Raises:
            ConfigError: the settings of the service contradict each other.
        """
        return await self._producer.get()

    async def shared_client(
        self, name: str, make: Callable[[], AbstractAsyncContextManager[T]]
    ) -> T:
        """Return a client of another service that lives as long as this login's clients.

        ``name`` identifies the client within the login. ``make`` makes it at the first call.
        """
        hosted = self._shared_clients.get(name)
        if hosted is None:
            hosted = self._shared_clients[name] = HostedClient(self._nursery, make, name)
        found: T = await hosted.get()
        return found

    def settings(self) -> dict[str, Any]:
        """Return the settings of a further client of this login, for example a consumer."""
        return dict(self._settings)

    def close(self) -> None:
        """Begin to close the clients, without waiting."""
        self._admin.close_soon()
        self._producer.close_soon()
        for each in self._shared_clients.values():
            each.close_soon()


class ClusterClients:
    """The clients of all logins. ``run`` keeps them open, and ``lease`` lends them to a request.

    ``servers`` and ``settings`` are those of the service's own client. Users log in at
    ``login_servers`` with ``login_settings`` (default: the same), because a cluster may have a
    separate listener for passwords.
    """

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, Any],
        env: Env,
        limits: ClientLimits | None = None,
        *,
        login_servers: str | None = None,
        login_settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._servers = servers
        self._settings = settings
        self._env = env
        self._limits = limits or ClientLimits()
        self._login_servers = login_servers or servers
        self._login_settings = settings if login_settings is None else login_settings
        self._nursery: trio.Nursery | None = None
        self._clients: dict[Credentials | None, LoginClients] = {}

    def __repr__(self) -> str:
        return f"<ClusterClients at {self._servers} logins={len(self._clients)}>"

    @property
    def login_count(self) -> int:
        """The number of logins that have clients now."""
        return len(self._clients)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep clients open and close idle clients, until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                while True:
                    await trio.sleep(SWEEP_INTERVAL_S)
                    self._close_idle()
        finally:
            self._nursery = None
            self._clients.clear()

    @asynccontextmanager
    async def lease(self, credentials: Credentials | None) -> AsyncIterator[LoginClients]:
        """Lend the clients of a login for the duration of the ``async with`` block.

        Raises:
            ConfigError: users cannot log in with the settings of the service.
            HttpError: 503, too many logins have requests open.
        """
        clients = self._clients_of(credentials)
        clients.lease_count += 1
        try:
            yield clients
        finally:
            clients.lease_count -= 1
            clients.idle_since_ms = self._env.clock.monotonic_ms()
            if clients.is_retired and not clients.lease_count:
                clients.close()

    def retire(self, user: str) -> None:
        """Stop lending the clients of a user, because the password has changed.

        Requests that hold a lease keep them. They are closed when no lease is left.
        """
        own = [each for each in self._clients if each is not None and each.user == user]
        for each in own:
            clients = self._clients.pop(each)
            clients.is_retired = True
            if not clients.lease_count:
                clients.close()

    def _clients_of(self, credentials: Credentials | None) -> LoginClients:
        found = self._clients.get(credentials)
        if found is not None:
            return found
        if self._nursery is None:
            raise HttpError(503, "the service is stopping", (("retry-after", "1"),))
        servers, settings = self._servers, dict(self._settings)
        if credentials is not None:
            servers = self._login_servers
            settings = credentials.settings(self._login_settings)
        self._make_room()
        made = LoginClients(
            nursery=self._nursery,
            credentials=credentials,
            servers=servers,
            settings=settings,
            env=self._env,
            limits=self._limits,
        )
        self._clients[credentials] = made
        return made

    def _make_room(self) -> None:
        """At the maximum number of logins, close the clients of the one that was idle longest.

        Raises:
            HttpError: 503, all logins have requests open.
        """
        if len(self._clients) < self._limits.max_login_count:
            return
        idle = [each for each in self._clients.values() if not each.lease_count]
        if not idle:
            raise HttpError(503, "too many logins have requests open", (("retry-after", "1"),))
        self._close(min(idle, key=lambda each: each.idle_since_ms))

    def _close_idle(self) -> None:
        until_ms = self._env.clock.monotonic_ms() - self._limits.idle_ms
        for each in list(self._clients.values()):
            if not each.lease_count and each.idle_since_ms <= until_ms:
                self._close(each)

    def _close(self, clients: LoginClients) -> None:
        del self._clients[clients.credentials]
        clients.close()
