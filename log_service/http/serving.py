"""Binds the listeners of a service, serves on them with TLS and logins, and drains them.

Invariant: each bound listener is served, or is closed when the service ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from log_service.common.env import Env, Listener
from log_service.common.errors import ConfigError
from log_service.http.server.authentication import Authentication, token_check
from log_service.http.server.cluster_logins import ClusterLogins
from log_service.http.server.limits import HttpLimits
from log_service.http.server.passwords import CheckPassword
from log_service.http.server.server import HttpServer
from log_service.http.server.service import HttpService
from log_service.http.server.tls import HttpTls
from log_service.http.service_settings import ListenAddress, ServiceSettings
from log_service.security.oauth import OAuthOffer
from log_service.security.sasl.jaas import parse_jaas

DRAIN_MS: Final = 5_000
"""So long open requests may take when a service stops."""

CLOSE_MS: Final = 10_000

OnRenewal = Callable[[], Awaitable[None]]


class ServiceListeners:
    """The listeners of one instance of a service. Its log lines contain ``name``."""

    def __init__(self, settings: ServiceSettings, env: Env, name: str) -> None:
        self._settings = settings
        self._env = env
        self._name = name
        self._bound: list[tuple[Listener, ListenAddress]] = []
        self._servers: list[HttpServer] = []

    def __repr__(self) -> str:
        return f"<ServiceListeners of {self._name} servers={len(self._servers)}>"

    @property
    def servers(self) -> Sequence[HttpServer]:
        """The servers that have started, one for each address."""
        return self._servers

    async def bind(self) -> None:
        """Bind all addresses. Call it before the service does anything else.

        Raises:
            ConfigError: an address cannot be bound. The addresses bound before it are closed.
        """
        for address in self._settings.listeners:
            try:
                listener = await self._env.network.listen(address.host, address.port)
            except OSError as error:
                self.close()
                text = f"listeners={address}: {error.strerror or error}; name another address"
                raise ConfigError(text) from error
            self._bound.append((listener, address))

    def close(self) -> None:
        """Close all listeners of a service that failed before it could serve. Idempotent."""
        for listener, _ in self._bound:
            listener.close()

    async def serve(
        self,
        nursery: trio.Nursery,
        service: HttpService | Callable[[ListenAddress], HttpService],
        *,
        limits: HttpLimits | None = None,
        on_renewal: OnRenewal | None = None,
    ) -> None:
        """Serve on all bound addresses, and return once all servers have started.

        A new server starts in ``nursery`` for each address. ``on_renewal`` is called after a
        certificate changed.
        """
        for listener, address in self._bound:
            config = self._settings.tls if address.scheme == "https" else None
            tls = None if config is None else HttpTls(config, on_change=on_renewal)
            if tls is not None:
                nursery.start_soon(tls.run)
            server = HttpServer(
                listener=listener,
                clock=self._env.clock,
                service=service if isinstance(service, HttpService) else service(address),
                limits=limits,
                secure=None if tls is None else tls.secure,
                name=self._name,
            )
            await nursery.start(server.run)
            self._servers.append(server)

    async def drain(self) -> None:
        """Finish the open requests of all servers, and close the servers.

        All servers drain at the same time, for up to ``DRAIN_MS``.
        """
        async with trio.open_nursery() as nursery:
            for server in self._servers:
                nursery.start_soon(server.drain, DRAIN_MS)

    async def authentication(
        self, nursery: trio.Nursery, *, realm: str, is_anonymous_allowed: bool = False
    ) -> Authentication:
        """Return the check of logins that the settings describe.

        With no logins in the settings, it refuses every ``Authorization`` header.

        Raises:
            ConfigError: passwords or tokens cannot be checked.
        """
        settings = self._settings
        offer = await self._oauth_offer(nursery)
        return Authentication(
            clock=self._env.clock,
            rng=self._env.rng,
            check_password=self._password_check(),
            check_token=None if offer is None else token_check(offer.validate),
            is_anonymous_allowed=is_anonymous_allowed,
            is_certificate_enough="mtls" in settings.logins,
            realm=realm,
        )

    def _password_check(self) -> CheckPassword | None:
        settings = self._settings
        if "basic" not in settings.logins:
            return None
        return ClusterLogins(settings.login_servers, settings.login_client, self._env).check

    async def _oauth_offer(self, nursery: trio.Nursery) -> OAuthOffer | None:
        """Return the check of tokens, None if the settings have none.

        A task in ``nursery`` fetches the issuer's keys again from time to time.
        """
        settings = self._settings
        if settings.oauth is None:
            return None
        jaas = parse_jaas(settings.oauth_jaas.reveal())
        offer = OAuthOffer(self._name, settings.oauth, jaas, self._env.clock)
        await offer.fetch_keys()
        if offer.jwks is not None:
            nursery.start_soon(offer.jwks.run)
        return offer


async def stop_in_order(
    listeners: ServiceListeners,
    work: trio.CancelScope,
    close: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Wait until the caller cancels. Then drain the listeners, call ``close``, and stop the work.

    ``close`` is cancelled after ``CLOSE_MS``.
    """
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await listeners.drain()
            if close is not None:
                with trio.move_on_after(CLOSE_MS / 1_000):
                    await close()
        work.cancel()
