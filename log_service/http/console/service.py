"""Runs one console: it listens, keeps sessions, and sends requests to the cluster.

It sends them with the login of the person who uses the console. A console without logins sends them
with its own client settings.
"""

from collections.abc import Callable, Sequence
from functools import partial

import trio

from log_service.client.connections.env import real_env
from log_service.common.env import Env
from log_service.http.cluster_clients.pool import ClusterClients
from log_service.http.console.areas import Area, other_areas
from log_service.http.console.assets import asset_routes
from log_service.http.console.browser_rules import cookie_name
from log_service.http.console.history.sampler import Sampler
from log_service.http.console.login import LoginPages
from log_service.http.console.page_requests import ConsoleContext, RegistryAccess
from log_service.http.console.pages.areas import own_areas
from log_service.http.console.rendering import Pages
from log_service.http.console.session_middleware import SessionMiddleware
from log_service.http.console.sessions import Sessions
from log_service.http.console.settings import ConsoleSettings
from log_service.http.server.authentication import Authentication
from log_service.http.server.cluster_logins import ClusterLogins
from log_service.http.server.health import health_routes
from log_service.http.server.metrics import HttpMeter, metrics_route
from log_service.http.server.passwords import CheckPassword, Passwords
from log_service.http.server.routes import Route, Router
from log_service.http.server.service import HttpService
from log_service.http.service_settings import ListenAddress
from log_service.http.serving import ServiceListeners, stop_in_order

Say = Callable[[str], None]


class ConsoleService:
    """One console. ``say`` is called with lines of text for the person who runs it."""

    def __init__(self, settings: ConsoleSettings, *, say: Say, env: Env | None = None) -> None:
        self._settings = settings
        self._say = say
        self._env = env or real_env()
        self._listeners = ServiceListeners(settings, self._env, "console")
        self._streams = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<ConsoleService {', '.join(map(str, self._settings.listeners))}>"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until the caller cancels, then finish the open requests.

        Raises:
            ConfigError: an address cannot be listened on, or a setting is not valid.
        """
        work = trio.CancelScope()
        await self._listeners.bind()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_in_order, self._listeners, work)
            nursery.start_soon(self._end_streams)
            with trio.CancelScope(shield=True), work:
                await self._work(task_status)
            nursery.cancel_scope.cancel()

    async def _end_streams(self) -> None:
        """Cancel all streams as soon as the caller cancels, because draining waits for them."""
        try:
            await trio.sleep_forever()
        finally:
            self._streams.cancel()

    async def _work(self, task_status: trio.TaskStatus[None]) -> None:
        settings, env = self._settings, self._env
        areas = [*own_areas(), *other_areas()]
        pages = Pages({each.name: each.templates for each in areas})
        await trio.to_thread.run_sync(pages.compile_all)
        clients = ClusterClients(
            settings.bootstrap_servers,
            settings.client,
            env,
            login_servers=settings.login_servers,
            login_settings=settings.login_client,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(clients.run)
            sessions, meter = Sessions(env.clock, env.rng.randbytes), HttpMeter(env.clock)

            def end_sessions_of(user: str) -> None:
                sessions.close_all_of(user)
                clients.retire(user)

            sampler = Sampler(settings.metrics_urls, env.clock) if settings.metrics_urls else None
            if sampler is not None:
                nursery.start_soon(sampler.run)
            context = ConsoleContext(
                pages=pages,
                navigation=tuple(each.entry for each in areas if each.label),
                sections={each.name: each.path for each in areas},
                env=env,
                nursery=await nursery.start(self._run_streams),
                has_logins=bool(settings.logins),
                registry=self._registry(),
                sampler=sampler,
                flows={each.name: each.flow for each in areas if each.flow is not None},
                end_sessions_of=end_sessions_of,
            )
            check = self._password_check()

            def service_at(address: ListenAddress) -> HttpService:
                is_secure = address.scheme == "https"
                cookie = cookie_name(address.port, is_secure=is_secure)
                passwords = None if check is None else Passwords(check, env.clock, env.rng)
                middleware = SessionMiddleware(
                    context,
                    clients,
                    sessions,
                    cookie=cookie,
                    is_secure=is_secure,
                    passwords=passwords,
                )
                return self._service(middleware, areas, meter, check)

            await self._listeners.serve(nursery, service_at)
            self._say(f"console at {', '.join(map(str, settings.listeners))}")
            task_status.started()

    async def _run_streams(self, *, task_status: trio.TaskStatus[trio.Nursery]) -> None:
        """Start the nursery in which streams run, and wait until the streams are cancelled."""
        with self._streams:
            async with trio.open_nursery() as nursery:
                task_status.started(nursery)
                await trio.sleep_forever()

    def _service(
        self,
        middleware: SessionMiddleware,
        areas: Sequence[Area],
        meter: HttpMeter,
        check: CheckPassword | None,
    ) -> HttpService:
        env = self._env
        families = partial(HttpMeter.families, meter)
        routes: list[Route] = [
            *middleware.routes_of(areas),
            *asset_routes(),
            *health_routes(lambda: None),
            metrics_route(families, is_public=False),
        ]
        authenticate = None
        if check is not None and middleware.passwords is not None:
            routes += LoginPages(middleware, middleware.passwords).routes()
            authenticate = Authentication(
                clock=env.clock, rng=env.rng, check_password=check, realm="console"
            )
        return HttpService(
            router=Router(routes),
            authenticate=authenticate,
            error_response=middleware.error_page,
            note_response=meter.note,
        )

    def _password_check(self) -> CheckPassword | None:
        settings = self._settings
        if not settings.logins:
            return None
        return ClusterLogins(settings.login_servers, settings.login_client, self._env).check

    def _registry(self) -> RegistryAccess | None:
        settings = self._settings
        if not settings.registry_url:
            return None
        return RegistryAccess(url=settings.registry_url, settings=settings.registry_client)
