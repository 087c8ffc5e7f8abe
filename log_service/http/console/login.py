"""The pages to log in and out.

The cluster checks user and password. Each login gives the browser a new session id, so that an id
is useless that an attacker gave the browser before.
"""

from log_service.common.errors import ConfigError
from log_service.common.log_lines import escaped
from log_service.common.secrets import SecretText
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.console.audit import audited
from log_service.http.console.browser_rules import safe_path
from log_service.http.console.forms import form_of
from log_service.http.console.page_requests import Person, redirect, rendered
from log_service.http.console.session_middleware import CSRF_FIELD, SessionMiddleware
from log_service.http.server.passwords import Login, Passwords
from log_service.http.server.routes import Route
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse

MAX_LOGIN_BYTES = 8 << 10
REFUSED = "The cluster refuses this user or password."


class LoginPages:
    """The pages to log in and out. ``passwords`` checks passwords at the cluster."""

    def __init__(self, middleware: SessionMiddleware, passwords: Passwords) -> None:
        self._middleware = middleware
        self._passwords = passwords

    def __repr__(self) -> str:
        return f"<LoginPages {self._passwords!r}>"

    def routes(self) -> list[Route]:
        """Return the routes."""
        rows = (
            ("GET", "/login", self.show),
            ("POST", "/login", self.log_in),
            ("POST", "/logout", self.log_out),
        )
        return [
            Route(
                method=method,
                path=path,
                handler=handler,
                max_body_bytes=MAX_LOGIN_BYTES,
                is_public=True,
            )
            for method, path, handler in rows
        ]

    async def show(self, request: HttpRequest) -> HttpResponse:
        """Show the form."""
        return self._form(request, safe_path(request.query_value("next") or "/"))

    async def log_in(self, request: HttpRequest) -> HttpResponse:
        """Begin a session, if the cluster takes user and password."""
        form = form_of(request)
        self._middleware.check_change(request, form.get(CSRF_FIELD, ""))
        user, password = form.get("user", ""), SecretText(form.get("password", ""))
        path = safe_path(form.get("next", "/"))
        try:
            with audited(user, request.peer, "log in", ""):
                await self._check(Login(user=user, password=password, address=request.peer))
        except HttpError as error:
            return self._form(request, path, user=user, error=error)
        except ConfigError as error:
            text = f"This user cannot log in here: {escaped(str(error))}"
            return self._form(request, path, user=user, error=HttpError(401, text))
        sessions = self._middleware.sessions
        sessions.close(self._middleware.browser_id(request))
        session_id = sessions.open(user, Credentials(user=user, password=password))
        return redirect(path, headers=(self._middleware.new_cookie(session_id),))

    async def _check(self, login: Login) -> None:
        if await self._passwords.principal_of(login) is None:
            raise HttpError(401, REFUSED)

    async def log_out(self, request: HttpRequest) -> HttpResponse:
        """End the session."""
        self._middleware.check_change(request, form_of(request).get(CSRF_FIELD, ""))
        self._middleware.sessions.close(self._middleware.browser_id(request))
        return redirect("/login", headers=(self._middleware.new_cookie(""),))

    def _form(
        self,
        request: HttpRequest,
        path: str,
        *,
        user: str = "",
        error: HttpError | None = None,
    ) -> HttpResponse:
        middleware, browser_id = self._middleware, self._middleware.browser_id(request)
        headers: tuple[tuple[str, str], ...] = ()
        if not browser_id:
            browser_id = middleware.sessions.new_id()
            headers = (middleware.new_cookie(browser_id),)
        return rendered(
            middleware.context,
            Person(csrf_token=middleware.sessions.csrf_token(browser_id)),
            "console/login.html",
            title="Log in",
            status=200 if error is None else error.status,
            headers=(*headers, *(() if error is None else error.headers)),
            next=path,
            name=user,
            refusal="" if error is None else error.text,
        )
