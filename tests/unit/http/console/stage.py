"""A console without sockets and without a cluster: its routes, and pages that a test chooses."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

import trio

from log_service.client import real_env
from log_service.common.secrets import SecretText
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.assets import asset_routes
from log_service.http.console.login import LoginPages
from log_service.http.console.page_requests import (
    ConsoleContext,
    PageRequest,
    part_response,
    redirect,
)
from log_service.http.console.rendering import HERE, Pages
from log_service.http.console.session_middleware import CSRF_FIELD, SessionMiddleware
from log_service.http.console.sessions import Sessions
from log_service.http.server.passwords import Passwords
from log_service.http.server.routes import Router
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse
from tests.unit.http.console.clocks import SteppedClock

COOKIE = "tidelog_console_8080"
HOST = "console:8080"
ORIGIN = f"http://{HOST}"


class NoClients:
    """Clients that only note who asked for them."""

    def __init__(self) -> None:
        self.asked: list[Credentials | None] = []

    @asynccontextmanager
    async def lease(self, credentials: Credentials | None) -> AsyncIterator[Any]:
        self.asked.append(credentials)
        yield object()


@dataclass(kw_only=True)
class Stage:
    """One console. ``page`` handles ``GET /page`` and ``POST /page``."""

    nursery: trio.Nursery
    has_logins: bool = False
    page_requests: list[PageRequest] = field(default_factory=list)
    failure: Exception | None = None
    browser_id: str = ""
    password: str = "right"
    """Of all users at the cluster, which does not respond without one."""

    def __post_init__(self) -> None:
        self.clock, self.clients = SteppedClock(), NoClients()
        rows = (("GET", "/page"), ("POST", "/page"), ("GET", "/part"))
        area = Area(
            name="topics",
            label="Topics",
            path="/page",
            routes=tuple(PageRoute(method=m, path=p, handler=self.page) for m, p in rows),
            templates=HERE / "pages" / "topics" / "templates",
        )
        self.sessions = Sessions(self.clock, Random(1).randbytes)
        context = ConsoleContext(
            pages=Pages({"topics": Path(area.templates)}),
            navigation=(area.entry,),
            sections={"topics": "/page"},
            env=real_env(),
            nursery=self.nursery,
            has_logins=self.has_logins,
        )
        passwords = Passwords(self.check, self.clock, Random(2))
        self.middleware = SessionMiddleware(
            context,
            self.clients,  # type: ignore[arg-type]
            self.sessions,
            cookie=COOKIE,
            is_secure=False,
            passwords=passwords if self.has_logins else None,
        )
        routes = [
            *self.middleware.routes_of([area]),
            *asset_routes(),
            *LoginPages(self.middleware, passwords).routes(),
        ]
        self.router = Router(routes)

    async def check(self, user: str, password: SecretText) -> str | None:
        if not self.password:
            raise HttpError(503, "the cluster does not respond to logins")
        return f"User:{user}" if password.reveal() == self.password else None

    async def page(self, page_request: PageRequest) -> HttpResponse:
        self.page_requests.append(page_request)
        if self.failure is not None:
            raise self.failure
        if page_request.request.path == "/part":
            return part_response(b"part")
        if page_request.request.method == "POST":
            return redirect("/page")
        return page_request.page("create.html", title="A page", commands=("tidelog topics list",))

    async def get(self, path: str, **headers: str) -> HttpResponse:
        return await self.send("GET", path, b"", **headers)

    async def post(self, path: str, form: dict[str, str], **headers: str) -> HttpResponse:
        """Send a form, with the token and the origin of a page unless they are given."""
        token = self.sessions.csrf_token(self.browser_id)
        given = {CSRF_FIELD: token, **form}
        body = urlencode({name: value for name, value in given.items() if value != "-"}).encode()
        usual = {"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}
        return await self.send("POST", path, body, **{**usual, **headers})

    async def send(self, method: str, path: str, body: bytes, **headers: str) -> HttpResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items() if value}
        cookie = {"cookie": f"{COOKIE}={self.browser_id}"} if self.browser_id else {}
        where, _, query = path.partition("?")
        pairs = tuple((k, v) for k, _, v in (each.partition("=") for each in query.split("&")) if k)
        try:
            route, values = self.router.find(method, where)
            response = await route.handler(
                HttpRequest(
                    method=method,
                    path=where,
                    query=pairs,
                    headers={"host": HOST, **cookie, **named},
                    body=body,
                    path_values=values,
                    peer="127.0.0.1",
                )
            )
        except HttpError as error:
            response = self.middleware.error_page(error)
        if (given := header(response, "set-cookie")) is not None:
            self.browser_id = given.partition("=")[2].partition(";")[0]
        return response

    async def log_in(self, user: str = "ann") -> HttpResponse:
        await self.get("/login")
        return await self.post("/login", {"user": user, "password": self.password})


def header(response: HttpResponse, name: str) -> str | None:
    return next((value for key, value in response.headers if key == name), None)


def text(response: HttpResponse) -> str:
    assert isinstance(response.body, bytes)
    return response.body.decode()


def play(scene: Callable[[Stage], Awaitable[None]], **settings: Any) -> None:
    """Run a scene with one console."""

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await scene(Stage(nursery=nursery, **settings))
            nursery.cancel_scope.cancel()

    trio.run(run)
