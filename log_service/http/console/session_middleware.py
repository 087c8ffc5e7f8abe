"""Leads each request to its page: checks session, origin and token, and makes error pages.

Decides the user of a request, and refuses changes that were not sent by a page of the console. If
the cluster refuses a request, the page shows the cluster's words, with the matching HTTP status. A
session ends within a minute after the cluster begins to refuse its login.
"""

from collections.abc import Iterable
from dataclasses import replace

from log_service.client.schemas.errors import NO_RESPONSE, SchemaRegistryError
from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.http.cluster_clients.pool import ClusterClients
from log_service.http.console.addresses import path_to
from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.browser_rules import cookie_of, require_own_origin, set_cookie
from log_service.http.console.forms import form_of
from log_service.http.console.page_requests import (
    ConsoleContext,
    PageRequest,
    Person,
    redirect,
    rendered,
)
from log_service.http.console.sessions import Session, Sessions
from log_service.http.server.passwords import Login, Passwords
from log_service.http.server.routes import Route
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse

CSRF_FIELD = "csrf_token"
CSRF_HEADER = "x-csrf-token"
HANDLER_DEADLINE_MS = 60_000
STALE = "the page was too old for this change: go back, reload it, and try again"
WHY = {
    400: "This is not possible",
    403: "You may not do this",
    404: "There is no such thing",
    405: "This is not possible",
    409: "Something else is in the way",
    429: "Too many attempts",
    503: "The cluster does not respond",
}
MISSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)
IN_THE_WAY = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.DUPLICATE_RESOURCE,
    }
)
AWAY = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)

AT_THE_FORM = frozenset({400, 404, 409})
"""Statuses of refusals that are shown at the form, with the text that the person typed."""
REFUSALS = (HttpError, KafkaError, SchemaRegistryError, ConfigError)


def status_of(code: ErrorCode) -> int:
    """Return the HTTP status that matches an error of the cluster."""
    if code.name.endswith("AUTHORIZATION_FAILED"):
        return 403
    if code in MISSING:
        return 404
    if code in IN_THE_WAY:
        return 409
    return 503 if code in AWAY else 400


def refusal_of(error: Exception) -> HttpError:
    """Convert an error of the console, the cluster or the registry to one with an HTTP status."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, KafkaError):
        return HttpError(status_of(error.code), str(error))
    if isinstance(error, SchemaRegistryError):
        status = 503 if error.status == NO_RESPONSE or error.status >= 500 else error.status
        return HttpError(status if status in WHY else 400, str(error))
    return HttpError(400, str(error))


class SessionMiddleware:
    """The checks before all pages. ``cookie`` is the name of the session's cookie.

    ``passwords`` checks the passwords of sessions again about once a minute. It is None without
    logins.
    """

    def __init__(
        self,
        context: ConsoleContext,
        clients: ClusterClients,
        sessions: Sessions,
        *,
        cookie: str,
        is_secure: bool,
        passwords: Passwords | None = None,
    ) -> None:
        self.passwords = passwords
        self.context = context
        self.sessions = sessions
        self.cookie = cookie
        self.is_secure = is_secure
        self._clients = clients

    def __repr__(self) -> str:
        return f"<SessionMiddleware {self.sessions!r}>"

    def routes_of(self, areas: Iterable[Area]) -> list[Route]:
        """Return the routes of all pages, which run these checks first."""
        return [self._route(area, each) for area in areas for each in area.routes]

    def error_page(self, error: HttpError) -> HttpResponse:
        """Return the error page for a refused request."""
        return self._failure(None, None, error)

    def browser_id(self, request: HttpRequest) -> str:
        """Return the session id in a browser's cookie, empty without one."""
        return cookie_of(request.headers, self.cookie)

    def new_cookie(self, value: str) -> tuple[str, str]:
        """Return the header that sets a browser's session id. An empty ``value`` deletes it."""
        return set_cookie(self.cookie, value, is_secure=self.is_secure)

    def check_change(self, request: HttpRequest, token: str) -> None:
        """Refuse a change that was not sent by a page of the console in the same browser.

        Raises:
            HttpError: 403, the origin is another one, or the CSRF token is not the browser's.
        """
        require_own_origin(request.headers)
        browser_id = self.browser_id(request)
        if not browser_id or not self.sessions.is_csrf_token(browser_id, token):
            raise HttpError(403, STALE)

    def _route(self, area: Area, page: PageRoute) -> Route:
        async def respond(request: HttpRequest) -> HttpResponse:
            return await self._respond(area, page, request)

        return Route(
            method=page.method,
            path=page.path,
            handler=respond,
            max_body_bytes=page.max_body_bytes,
            deadline_ms=HANDLER_DEADLINE_MS,
            is_public=True,
        )

    async def _respond(self, area: Area, page: PageRoute, request: HttpRequest) -> HttpResponse:
        browser_id = self.browser_id(request)
        person = await self._person(browser_id, request.peer)
        if person is None:
            return self._to_login(request)
        form = {}
        if page.method != "GET":
            form = form_of(request)
            self.check_change(request, form.pop(CSRF_FIELD, request.headers.get(CSRF_HEADER, "")))
        headers: tuple[tuple[str, str], ...] = ()
        if not browser_id:  # without logins, the first page gives the id
            browser_id = self.sessions.new_id()
            person = Person(csrf_token=self.sessions.csrf_token(browser_id))
            headers = (self.new_cookie(browser_id),)
        response = await self._visit(area, page, request, person, form)
        if not headers:
            return response
        return HttpResponse(
            status=response.status,
            body=response.body,
            content_type=response.content_type,
            headers=(*response.headers, *headers),
        )

    async def _person(self, browser_id: str, address: str) -> Person | None:
        """Return the person who sent a request, None if a login is needed.

        Raises:
            HttpError: the cluster cannot check the password now.
        """
        token = self.sessions.csrf_token(browser_id)
        if not self.context.has_logins:
            return Person(csrf_token=token)
        session = self.sessions.find(browser_id)
        if session is None or not await self._is_still_right(browser_id, session, address):
            return None

        async def is_here() -> bool:
            if self.sessions.find(browser_id, is_use=False) is None:
                return False
            try:
                return await self._is_still_right(browser_id, session, address)
            except HttpError:
                return False  # a stream may begin again, once the cluster responds

        return Person(
            csrf_token=token,
            user=session.user,
            credentials=session.credentials,
            is_here=is_here,
        )

    async def _is_still_right(self, browser_id: str, session: Session, address: str) -> bool:
        """Return whether the cluster accepts a session's password. If not, end the session."""
        if self.passwords is None:
            return True
        login = Login(session.user, session.credentials.password, address)
        if await self.passwords.principal_of(login) is None:
            self.sessions.close(browser_id)
        return self.sessions.find(browser_id, is_use=False) is not None

    def _to_login(self, request: HttpRequest) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            raise HttpError(403, "your session has ended: log in, and try again")
        wanted = request.path if request.path != "/" else None
        path = path_to("login", next=wanted)
        if request.headers.get("hx-request") == "true":
            return HttpResponse(status=204, headers=(("hx-redirect", path),))
        return redirect(path)

    async def _visit(
        self,
        area: Area,
        page: PageRoute,
        request: HttpRequest,
        person: Person,
        form: dict[str, str],
    ) -> HttpResponse:
        try:
            async with self._clients.lease(person.credentials) as clients:
                page_request = PageRequest(
                    request=request,
                    person=person,
                    context=self.context,
                    clients=clients,
                    area=area.name,
                    form=form,
                )
                return await _handled(page, page_request)
        except REFUSALS as error:
            code = error.code if isinstance(error, KafkaError) else None
            if code is ErrorCode.SASL_AUTHENTICATION_FAILED and person.user:
                self.sessions.close(self.browser_id(request))
                return self._to_login(request)
            return self._failure(person, area, refusal_of(error))

    def _failure(self, person: Person | None, area: Area | None, error: HttpError) -> HttpResponse:
        return rendered(
            self.context,
            person,
            "console/error.html",
            area="" if area is None else area.name,
            title=WHY.get(error.status, "Something went wrong"),
            status=error.status,
            headers=error.headers,
            text=error.text,
            number=error.status,
        )


async def _handled(page: PageRoute, page_request: PageRequest) -> HttpResponse:
    """Return the response of a page.

    If the page refuses the input of a form, return the form with the refusal and the typed fields.
    """
    try:
        return await page.handler(page_request)
    except REFUSALS as error:
        refusal = refusal_of(error)
        if page.form is None or refusal.status not in AT_THE_FORM:
            raise
        try:
            shown = await page.form(replace(page_request, refusal=refusal.text))
        except REFUSALS:
            raise error from None  # the form cannot be shown either, because its topic is missing
        return replace(shown, status=refusal.status)
