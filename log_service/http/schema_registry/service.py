"""Runs one instance of the registry: it reads the topic, takes part in the election, and serves.

Every instance answers reading requests. The elected instance takes the topic over and writes. Other
instances forward changes to it. Invariant: ``is_writer`` is set only after this instance took the
topic over.
"""

import logging
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import trio

from log_service.client.admin.admin import Admin
from log_service.client.connections.env import real_env
from log_service.common.env import Env
from log_service.common.errors import ConfigError
from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.routes import registry_service
from log_service.http.schema_registry.authorization import open_access
from log_service.http.schema_registry.election.elector import ElectionSettings, Elector
from log_service.http.schema_registry.election.protocol import RegistryInstance
from log_service.http.schema_registry.forwarding import (
    FORWARD_HEADER,
    Forwarder,
    ForwardingFailed,
    LeaderAway,
    tls_of,
)
from log_service.http.schema_registry.log.errors import SchemasLogError
from log_service.http.schema_registry.log.expiration import warn_of_short_expiration
from log_service.http.schema_registry.log.schemas_log import LogSettings, SchemasLog
from log_service.http.schema_registry.records import noop_record
from log_service.http.schema_registry.registry import Registry, RegistryIdentity
from log_service.http.schema_registry.settings import RegistrySettings
from log_service.http.schema_registry.state_keeper import StateKeeper
from log_service.http.schema_registry.values import Settings
from log_service.http.schema_registry.writer_role import WriterRole
from log_service.http.server.authentication import Authentication
from log_service.http.server.cluster_acls import ClusterAcls
from log_service.http.server.metrics import HttpMeter
from log_service.http.server.values import HttpRequest, HttpResponse
from log_service.http.serving import ServiceListeners, stop_in_order

logger = logging.getLogger(__name__)

LOAD_TIMEOUT_MS = 300_000
LEADER_PATIENCE_S = 10.0
"""How long a change waits for an instance that writes, because elections take a moment."""
FORWARD_RETRY_S = 0.25
SHORT_TIMEOUTS = {"request_timeout_ms": 10_000}
"""Timeouts of single requests.

They are short, so that a hanging broker takes only a part of a write's time.
"""

Say = Callable[[str], None]


class RegistryService:
    """One instance. ``say`` is called with messages for the person who started it."""

    def __init__(self, settings: RegistrySettings, *, say: Say, env: Env | None = None) -> None:
        self._settings = settings
        self._say = say
        self._env = env or real_env()
        self._listeners = ServiceListeners(settings, self._env, "registry")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until the caller cancels. ``task_status`` reports when requests get responses.

        After a cancellation the open requests are finished, and the instance leaves the group, so
        that another instance can lead at once.

        Raises:
            ConfigError: the topic cannot hold schemas, or an address cannot be listened on.
            KafkaError: the cluster cannot be reached at the beginning.
        """
        settings, work = self._settings, trio.CancelScope()
        await self._listeners.bind()
        self._say(f"reading the topic {settings.topic}, before requests are answered")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_in_order, self._listeners, work)
            with trio.CancelScope(shield=True):
                async with (
                    Admin(
                        settings.bootstrap_servers,
                        env=self._env,
                        **{**SHORT_TIMEOUTS, **settings.client},
                    ) as admin,
                    Admin(
                        settings.bootstrap_servers, env=self._env, **settings.client
                    ) as group_client,
                    Forwarder(self._forwarding_tls()) as forwarder,
                ):
                    with work:
                        await self._work(admin, group_client, forwarder, task_status)
            nursery.cancel_scope.cancel()

    async def _work(
        self,
        admin: Admin,
        group_client: Admin,
        forwarder: Forwarder,
        task_status: trio.TaskStatus[None],
    ) -> None:
        settings = self._settings
        keeper = StateKeeper(Settings(compatibility_level=settings.level))
        log = SchemasLog(
            self._log_settings(),
            admin,
            keeper,
            self._env,
            first_value=lambda: noop_record(keeper.state.highest_ids).value,
        )
        identity = RegistryIdentity(
            cluster_id=(await admin.describe_cluster()).cluster_id or "",
            group=settings.group,
            is_mode_mutable=settings.is_mode_mutable,
        )
        acls = ClusterAcls(admin, settings.super_users)
        registry = Registry(
            keeper, log, identity, acls.may if settings.is_authorized else open_access
        )
        elector = Elector(self._election(), group_client)
        role = WriterRole(elector, log, registry)
        registry.forward = partial(self._forward, forwarder, registry, role)
        async with trio.open_nursery() as nursery:
            if settings.is_authorized:
                await nursery.start(acls.run)
            await nursery.start(log.run)
            nursery.start_soon(elector.run)
            nursery.start_soon(self._load, log, registry)
            nursery.start_soon(role.run, partial(warn_of_short_expiration, admin))
            meter = HttpMeter(self._env.clock)
            service = registry_service(registry, await self._authentication(nursery), meter)
            renew = partial(self._renew, forwarder)
            await self._listeners.serve(nursery, service, on_renewal=renew)
            self._say(f"schema registry at {', '.join(map(str, settings.listeners))}")
            task_status.started()

    def _forwarding_tls(self) -> ssl.SSLContext:
        """Return the TLS context of connections to other instances. Reads files, so it blocks."""
        return tls_of(forwarding_tls(self._settings.client), self._settings.tls)

    async def _renew(self, forwarder: Forwarder) -> None:
        """Use the listener's new certificate also for connections to other instances."""
        try:
            tls = await trio.to_thread.run_sync(self._forwarding_tls)
        except ConfigError as error:
            logger.error("Changes are forwarded with the former certificates: %s", error)
            return
        await forwarder.renew(tls)

    async def _authentication(self, nursery: trio.Nursery) -> Authentication | None:
        """Return the authentication that the settings configure, or None without any.

        Raises:
            ConfigError: passwords or tokens cannot be checked.
        """
        if not self._settings.logins:
            return None
        return await self._listeners.authentication(nursery, realm="schema registry")

    def _log_settings(self) -> LogSettings:
        settings = self._settings
        return LogSettings(
            bootstrap_servers=settings.bootstrap_servers,
            topic=settings.topic,
            replication_factor=settings.replication_factor,
            client=settings.client,
        )

    def _election(self) -> ElectionSettings:
        own = self._settings.advertised
        instance = RegistryInstance(
            scheme=own.scheme, host=own.host, port=own.port, is_eligible=self._settings.is_eligible
        )
        session_ms = self._settings.session_timeout_ms
        return ElectionSettings(
            instance=instance,
            group=self._settings.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms * 3 // 10,
        )

    async def _load(self, log: SchemasLog, registry: Registry) -> None:
        while not registry.is_loaded:
            try:
                await log.read_to_end(LOAD_TIMEOUT_MS)
                registry.note_loaded()
            except SchemasLogError as error:
                logger.warning("The topic of schemas is not read yet: %s", error)

    async def _forward(
        self, forwarder: Forwarder, registry: Registry, role: WriterRole, request: HttpRequest
    ) -> HttpResponse | None:
        """Return the writing instance's response, or None as soon as this instance writes.

        If the leader is unreachable, it may just have stopped. Then wait for the next election.

        Raises:
            RegistryError: no instance writes, or it cannot be reached.
        """
        failure = errors.RegistryError(
            errors.UNKNOWN_LEADER, "Leader not known. No instance was elected in time"
        )
        deadline = trio.current_time() + LEADER_PATIENCE_S
        while not registry.is_writer:
            url = None if role.leadership.is_self else role.leadership.leader_url
            if (
                url is not None
                and request.headers.get(FORWARD_HEADER.lower(), "").lower() == "true"
            ):
                text = (
                    "Leader not known. The request was forwarded to this instance, which does not"
                    " write"
                )
                raise errors.RegistryError(errors.UNKNOWN_LEADER, text)
            try:
                if url is not None:
                    return await forwarder.forward(url, request)
            except LeaderAway as error:
                failure = errors.RegistryError(errors.FORWARDING_FAILED, str(error))
            except ForwardingFailed as error:
                raise errors.RegistryError(errors.FORWARDING_FAILED, str(error)) from error
            if trio.current_time() >= deadline:
                raise failure
            with trio.move_on_after(FORWARD_RETRY_S):
                await role.wait_changed()
        return None


def forwarding_tls(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trust store settings in a client's settings.

    They are used to forward requests if the listener has no certificate authority of its own.
    """
    return {name: value for name, value in client.items() if name.startswith("ssl_truststore")}
