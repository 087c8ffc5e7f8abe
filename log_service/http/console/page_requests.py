"""One request of a person: the person, the form in the body, and the clients to act with.

Handlers of pages get a page request and return a response. The clients log in as the person, so the
cluster's own ACLs decide what a page shows and does.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import trio

from log_service.client.admin.admin import Admin
from log_service.client.schemas.registry_client import SchemaRegistryClient
from log_service.common.env import Env
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.cluster_clients.pool import LoginClients
from log_service.http.console.audit import audited
from log_service.http.console.browser_rules import PAGE_HEADERS
from log_service.http.console.flow import FlowPart
from log_service.http.console.history.sampler import Sampler
from log_service.http.console.rendering import Pages
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse
from log_service.http.server.work_limits import WorkLimits

HTML = "text/html; charset=utf-8"
MAX_SEARCHES = 8
MAX_SEARCHES_OF_PERSON = 2
"""The most searches in records at the same time, in total and per person."""
MAX_STREAMS = 32
MAX_STREAMS_OF_PERSON = 8
"""The most downloads and live views at the same time, in total and per person."""
BUSY = "too many people search, follow or download records now: try again in a moment"
OWN_BUSY = "you search, follow or download records in too many pages: close one, or try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigationEntry:
    """One entry of the navigation."""

    label: str
    path: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """The schema registry. ``settings`` are the settings of its client, without a login."""

    url: str
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleContext:
    """The parts of a console that all page requests share. ``nursery`` runs its streams.

    ``sections`` has the path of the navigation entry of each area, by the area's name. ``flows``
    has the function of each area that returns its edges for the page Flow. ``sampler`` has the
    figures of the last hour, and is None if no metrics page is configured.
    """

    pages: Pages
    navigation: tuple[NavigationEntry, ...]
    sections: Mapping[str, str]
    env: Env
    nursery: trio.Nursery
    has_logins: bool
    registry: RegistryAccess | None = None
    flows: Mapping[str, "FlowSource"] = field(default_factory=dict)
    sampler: Sampler | None = None
    end_sessions_of: Callable[[str], None] = field(default=lambda _user: None, repr=False)
    """End the sessions of a user, and close the clients that act as this user."""
    searches: WorkLimits = field(
        default_factory=lambda: WorkLimits(
            most=MAX_SEARCHES, most_of_one=MAX_SEARCHES_OF_PERSON, busy=BUSY, own_busy=OWN_BUSY
        )
    )
    streams: WorkLimits = field(
        default_factory=lambda: WorkLimits(
            most=MAX_STREAMS,
            most_of_one=MAX_STREAMS_OF_PERSON,
            is_patient=False,
            busy=BUSY,
            own_busy=OWN_BUSY,
        )
    )


async def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The person who sent a request. Without a login ``user`` is empty.

    ``is_here`` returns whether the session has not ended and the cluster still accepts its
    password. A stream calls it from time to time.
    """

    csrf_token: str
    user: str = ""
    credentials: Credentials | None = None
    is_here: Callable[[], Awaitable[bool]] = field(default=_always, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A person's request for a page. ``area`` names the part of the console that has the page.

    ``refusal`` is the reason why the input of a form was refused, empty if it was accepted.
    """

    request: HttpRequest
    person: Person
    context: ConsoleContext
    clients: LoginClients
    area: str
    form: Mapping[str, str] = field(default_factory=dict, repr=False)
    refusal: str = ""

    @property
    def typed(self) -> Mapping[str, str]:
        """The fields that the person typed, if their form is shown again, otherwise empty."""
        return (self.form or self.query) if self.refusal else {}

    @property
    def query(self) -> dict[str, str]:
        """The first value of each parameter in the query."""
        found: dict[str, str] = {}
        for name, value in self.request.query:
            found.setdefault(name, value)
        return found

    async def admin(self) -> Admin:
        """Return the admin client of the person."""
        return await self.clients.admin()

    def value(self, name: str) -> str:
        """Return the value of a placeholder in the route's path."""
        return self.request.path_values[name]

    def required(self, name: str) -> str:
        """Return a value of the form or the query.

        Raises:
            HttpError: 400, it is missing.
        """
        found = self.form.get(name) or self.query.get(name, "")
        if not found:
            raise HttpError(400, f"this page needs a value for {name}")
        return found

    def audited(self, action: str, target: str) -> AbstractContextManager[None]:
        """Return a context that logs a change with its result when it ends."""
        return audited(self.person.user, self.request.peer, action, target)

    def page(
        self, template: str, *, title: str, commands: tuple[str, ...] = (), **values: Any
    ) -> HttpResponse:
        """Return a page of this area. ``commands`` are command lines with the same effect."""
        return rendered(
            self.context,
            self.person,
            f"{self.area}/{template}",
            area=self.area,
            title=title,
            commands=commands,
            **{"refusal": self.refusal, "typed": self.typed, **values},
        )

    def part(self, template: str, **values: Any) -> bytes:
        """Render a part of a page of this area."""
        return self.context.pages.render(
            f"{self.area}/{template}", {**values, "csrf_token": self.person.csrf_token}
        )

    @property
    def is_part(self) -> bool:
        """Whether the page's script wants only a part, to put it into the open page."""
        return self.request.headers.get("hx-request") == "true"

    async def registry(self) -> SchemaRegistryClient:
        """Return the client of the schema registry that logs in as the person.

        All requests with the same login share the client.

        Raises:
            HttpError: 404, no registry is configured.
        """
        return await self.clients.shared_client("the registry client of a login", self.new_registry)

    @property
    def registry_maker(self) -> Callable[[], SchemaRegistryClient] | None:
        """The function that makes a registry client for this person, None without a registry."""
        return None if self.context.registry is None else self.new_registry

    def new_registry(self) -> SchemaRegistryClient:
        """Return a new client of the schema registry, which is not open yet.

        Blocks to read trust stores.

        Raises:
            HttpError: 404, no registry is configured.
        """
        access = self.context.registry
        if access is None:
            text = "no schema registry is configured: set schema.registry.url"
            raise HttpError(404, text)
        return SchemaRegistryClient(access.url, **self._registry_settings(access))

    def _registry_settings(self, access: RegistryAccess) -> dict[str, Any]:
        login = self.person.credentials
        return dict(access.settings) if login is None else login.registry_settings(access.settings)


PageHandler = Callable[[PageRequest], Awaitable[HttpResponse]]
FlowSource = Callable[[PageRequest], Awaitable[FlowPart]]
"""Return the edges of an area that the person may see."""


def rendered(
    context: ConsoleContext,
    person: Person | None,
    template: str,
    *,
    area: str = "",
    title: str,
    commands: tuple[str, ...] = (),
    status: int = 200,
    headers: tuple[tuple[str, str], ...] = (),
    **values: Any,
) -> HttpResponse:
    """Return a whole page: ``template`` within the layout that all pages share."""
    body = context.pages.render(
        template,
        {
            **values,
            "area": area,
            "section": context.sections.get(area, ""),
            "title": title,
            "commands": commands,
            "navigation": context.navigation,
            "user": "" if person is None else person.user,
            "csrf_token": "" if person is None else person.csrf_token,
        },
    )
    return HttpResponse(
        status=status, body=body, content_type=HTML, headers=(*PAGE_HEADERS, *headers)
    )


def part_response(body: bytes) -> HttpResponse:
    """Return the response with a rendered part of a page."""
    return HttpResponse(body=body, content_type=HTML, headers=PAGE_HEADERS)


def redirect(path: str, *, headers: tuple[tuple[str, str], ...] = ()) -> HttpResponse:
    """Return the response 303 that sends a browser to another page after a change."""
    return HttpResponse(status=303, headers=(*PAGE_HEADERS, ("location", path), *headers))
