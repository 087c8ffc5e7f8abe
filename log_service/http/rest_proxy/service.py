"""Runs one REST proxy, with its clients of the cluster and its listeners."""

from collections.abc import Callable
from dataclasses import replace

import trio

from log_service.client import Admin
from log_service.client.connections.env import real_env
from log_service.common.env import Env
from log_service.http.cluster_clients.pool import ClusterClients
from log_service.http.rest_proxy.context import RestContext
from log_service.http.rest_proxy.routes import rest_service
from log_service.http.rest_proxy.settings import RestSettings
from log_service.http.rest_proxy.streams import Streams
from log_service.http.rest_proxy.v1.shared_readers import SharedReaders
from log_service.http.rest_proxy.v2.instances import ConsumerInstances
from log_service.http.server.metrics import HttpMeter
from log_service.http.server.service import HttpService
from log_service.http.service_settings import ListenAddress
from log_service.http.serving import ServiceListeners, stop_in_order

SHORT_TIMEOUTS = {"request_timeout_ms": 10_000, "default_api_timeout_ms": 30_000}

Say = Callable[[str], None]


class RestService:
    """One proxy. ``say`` is called with lines of text for the person who runs it."""

    def __init__(self, settings: RestSettings, *, say: Say, env: Env | None = None) -> None:
        self._settings = settings
        self._say = say
        self._env = env or real_env()
        self._listeners = ServiceListeners(settings, self._env, "rest")
        self._instances = ConsumerInstances(
            self._env,
            max_count=settings.max_instance_count,
            idle_ms=settings.instance_timeout_ms,
        )
        self._streams = Streams(settings.max_stream_count)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until the caller cancels. ``task_status`` is started once requests get responses.

        After a cancellation it finishes the open requests, and its consumers leave their groups.

        Raises:
            ConfigError: an address cannot be bound, or settings contradict each other.
            KafkaError: the cluster cannot be reached at the beginning.
        """
        work = trio.CancelScope()
        await self._listeners.bind()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._streams.stop_on_cancel)
                nursery.start_soon(stop_in_order, self._listeners, work, self._instances.close)
                with trio.CancelScope(shield=True), work:
                    await self._work(task_status)
                nursery.cancel_scope.cancel()
        finally:
            self._listeners.close()

    async def _work(self, task_status: trio.TaskStatus[None]) -> None:
        settings = self._settings
        await self._require_cluster()
        clients = ClusterClients(
            settings.bootstrap_servers,
            settings.client,
            self._env,
            login_servers=settings.login_servers,
            login_settings=settings.login_client,
        )
        context = RestContext(
            clients=clients,
            settings=settings,
            env=self._env,
            instances=self._instances,
            streams=self._streams,
            readers=SharedReaders(clients, settings, self._streams),
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(clients.run)
            await nursery.start(self._instances.run)
            await nursery.start(self._streams.run)
            authentication = await self._listeners.authentication(
                nursery, realm="REST proxy", is_anonymous_allowed=not settings.logins
            )
            self._streams.authenticate = authentication
            meter = HttpMeter(self._env.clock)

            def service_at(address: ListenAddress) -> HttpService:
                return rest_service(replace(context, scheme=address.scheme), authentication, meter)

            await self._listeners.serve(nursery, service_at)
            self._say(f"REST proxy at {', '.join(map(str, settings.listeners))}")
            task_status.started()

    async def _require_cluster(self) -> None:
        """Refuse to start without a reachable cluster, so that a wrong address is found at once."""
        settings = self._settings
        async with Admin(
            settings.bootstrap_servers, env=self._env, **{**SHORT_TIMEOUTS, **settings.client}
        ) as admin:
            await admin.describe_cluster()
