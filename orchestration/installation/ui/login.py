"""Asks for a login before Dagster's UI shows anything.

``LoginUi`` serves ``/login`` and ``/logout`` itself, both without scripts. Everything else,
WebSockets too, needs the cookie of a session (``ui.sessions``). A user with read access gets
Dagster's pages with all buttons off, and a request that would change something is refused before
Dagster sees it. Requests pass ``ui.guard`` first, which accepts forms from pages of this site only.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import parse_qs, quote

from dagster._core.workspace.context import WorkspaceRequestContext
from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from log_service.common.addresses import network_of, parse_address
from log_service.common.secrets import SecretText
from orchestration.installation.ui.guard import GRAPHQL, POLICY_VIOLATION
from orchestration.installation.ui.sessions import BusyError, Session, Sessions, UnreachableError
from orchestration.installation.ui.users import UI_GROUP, UiRights

LOGIN, LOGOUT = "/login", "/logout"
FORM_PATHS = frozenset({LOGIN, LOGOUT})
SESSION = "tidelog.session"
"""Key of the session in an ASGI scope."""
MAX_FORM_BYTES = 8192
MAX_QUERY_BYTES = 1 << 22
MAX_QUERY_TOKENS = 20_000
"""Most tokens of a reader's query, because it is parsed on the event loop."""
MAX_NEXT_CHARACTERS = 2000
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">{head}
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title} - tidelog</title><style>
*{{box-sizing:border-box}}body{{margin:0;min-height:100vh;display:grid;place-items:center;padding:16px;
font:16px/1.5 system-ui,sans-serif;background:#f5f6f8;color:#1c2330}}
main{{width:100%;max-width:360px;background:#fff;border:1px solid #d7dbe2;border-radius:8px;padding:24px}}
h1{{margin:0 0 16px;font-size:20px}}label{{display:block;margin-top:12px;font-weight:600}}
input{{width:100%;margin-top:4px;padding:10px;font:inherit;border:1px solid #7d8797;border-radius:4px;background:#fff;color:inherit}}
button{{width:100%;margin-top:20px;padding:10px;font:inherit;font-weight:600;border:0;border-radius:4px;background:#1f4fd8;color:#fff}}
input:focus-visible,button:focus-visible,a:focus-visible{{outline:3px solid #8fb0ff;outline-offset:1px}}
p{{margin:0 0 12px;overflow-wrap:anywhere}}.wrong{{color:#a3182d}}.note{{margin:16px 0 0;font-size:14px;color:#4c5565}}
@media(prefers-color-scheme:dark){{body{{background:#14181f;color:#e6e9ef}}main{{background:#1d232d;border-color:#39424f}}
input{{background:#14181f;border-color:#7d8797}}.wrong{{color:#ff9aa8}}.note{{color:#aab3c0}}a{{color:#8fb0ff}}}}
</style></head><body><main><h1>{title}</h1>{content}</main></body></html>"""
FORM = """<form method="post" action="/login"><input type="hidden" name="next" value="{next}">
<label for="user">User</label><input id="user" name="user" value="{user}" autocomplete="username" autocapitalize="none" spellcheck="false"
 required autofocus maxlength="512"><label for="password">Password</label><input id="password" name="password" type="password"
 autocomplete="current-password" required maxlength="512"><button type="submit">Log in</button></form>
<p class="note">Users and passwords are the cluster's: <code>tidelog users add NAME</code>.</p>"""
LEAVE = """<p>{user}, {rights}.</p><form method="post" action="/logout"><button type="submit">Log out</button></form>
<p class="note"><a href="/">Back to the UI</a></p>"""
REFRESH = '<meta http-equiv="refresh" content="0">'
BADGE = """<a href="/logout" style="position:fixed;right:16px;bottom:4px;z-index:30;padding:2px 8px;border-radius:4px;opacity:.85;
font:12px/1.6 system-ui,sans-serif;background:#1c2330;color:#fff;max-width:200px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
>{text}</a>"""
RIGHT_WORDS: Mapping[UiRights, str] = {
    UiRights.READ: "you may read",
    UiRights.CHANGE: "you may read and change",
}


@dataclass(frozen=True, slots=True)
class LoginUi:
    """ASGI application that serves ``app`` to those who have logged in."""

    app: ASGIApp
    sessions: Sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        session = await self.sessions.find(HTTPConnection(scope).cookies.get(cookie_name(scope)))
        if scope["type"] == "websocket":
            await self._serve_socket(session, scope, receive, send)
        elif scope["path"] in FORM_PATHS:
            response = await self._answer(Request(scope, receive), session)
            response.headers["content-security-policy"] = PAGE_POLICY
            await response(scope, receive, send)
        elif session is None:
            await _turned_away(scope)(scope, receive, send)
        else:
            await self._serve(session, scope, receive, send)

    async def _answer(self, request: Request, session: Session | None) -> Response:
        if request.method == "POST":
            return await (
                self._log_in(request, session)
                if request.url.path == LOGIN
                else self._log_out(request, session)
            )
        if request.url.path == LOGOUT and session is not None:
            text = LEAVE.format(user=escape(session.user), rights=RIGHT_WORDS[session.rights])
            return page("Log out", text)
        if request.url.path == LOGOUT:
            return RedirectResponse(LOGIN, status_code=303)
        wanted = local_path(request.query_params.get("next", ""))
        return (
            RedirectResponse(wanted, status_code=303) if session is not None else form_page(wanted)
        )

    async def _log_in(self, request: Request, session: Session | None) -> Response:
        fields = await form_fields(request)
        user, password, wanted = (
            fields.get("user", ""),
            fields.get("password", ""),
            local_path(fields.get("next", "")),
        )
        if not user or not password:
            return form_page(wanted, user, "Give user and password.", 400)
        try:
            token, rights = await self.sessions.log_in(
                user, SecretText(password), address_of(request)
            )
        except BusyError:
            return form_page(wanted, user, "Too many logins wait: try again in some seconds.", 429)
        except UnreachableError:
            return form_page(wanted, user, "The cluster does not answer: try again.", 503)
        if rights is UiRights.UNKNOWN:
            return form_page(wanted, user, "User or password is wrong.", 401)
        if not token:
            needed = (
                f"{user} may not read this UI. It needs describe_configs or alter_configs on the"
                f" group {UI_GROUP}."
            )
            return form_page(wanted, user, needed, 403)
        if session is not None:
            self.sessions.end(session)
        response = RedirectResponse(wanted, status_code=303)
        set_cookie(response, request.scope, token)
        return response

    async def _log_out(self, request: Request, session: Session | None) -> Response:
        if session is not None:
            self.sessions.end(session)
        response = RedirectResponse(LOGIN, status_code=303)
        response.delete_cookie(
            cookie_name(request.scope),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def _serve(self, session: Session, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and session.rights is not UiRights.CHANGE:
            body = await _body(Request(scope, receive), MAX_QUERY_BYTES)
            if body is None or scope["path"] != GRAPHQL or not is_only_query(body):
                refused = {
                    "errors": [
                        {
                            "message": (
                                f"{session.user} may only read: alter_configs on the group"
                                f" {UI_GROUP} lets a user change."
                            )
                        }
                    ]
                }
                await Response(json.dumps(refused), status_code=403, media_type="application/json")(
                    scope, receive, send
                )
                return
            receive = replayed(body, receive)
        await self.app({**scope, SESSION: session}, receive, with_badge(session, send))

    async def _serve_socket(
        self, session: Session | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve a WebSocket until its session ends."""
        if session is None:
            await send(
                {"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "log in first"}
            )
            return
        is_closed = False

        async def is_open() -> bool:
            nonlocal is_closed
            if not is_closed and not await self.sessions.is_alive(session):
                is_closed = True
                await send(
                    {"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "log in again"}
                )
            return not is_closed

        async def send_alive(message: Message) -> None:
            if await is_open():
                await send(message)

        async def receive_alive() -> Message:
            message = await receive()
            return (
                message
                if await is_open()
                else {"type": "websocket.disconnect", "code": POLICY_VIOLATION}
            )

        await self.app({**scope, SESSION: session}, receive_alive, send_alive)


def address_of(request: Request) -> str:
    """Return the client's address, or an empty text if it is not known.

    For an IPv6 address it is the /64 network. A trusted proxy may have put any text into the header
    that the address comes from, and such a text is not an address.
    """
    host = request.client.host if request.client else ""
    return "" if parse_address(host) is None else network_of(host)


def cookie_name(scope: Scope) -> str:
    """Return the name of the cookie. It contains the port, because ports share their cookies."""
    server = scope.get("server")
    return f"tidelog_ui_{server[1] if server else ''}"


def set_cookie(response: Response, scope: Scope, token: str) -> None:
    """Set the cookie with a session's token, which scripts and other sites cannot read."""
    response.set_cookie(
        cookie_name(scope),
        token,
        httponly=True,
        samesite="strict",
        secure=scope["scheme"] == "https",
        path="/",
    )


def local_path(text: str) -> str:
    """Return the path to open after a login. A text that may lead to another site becomes ``/``."""
    is_path = (
        text.startswith("/")
        and not text.startswith("//")
        and "\\" not in text
        and text.isprintable()
        and text.isascii()
    )
    return (
        text
        if is_path and len(text) <= MAX_NEXT_CHARACTERS and text.partition("?")[0] not in FORM_PATHS
        else "/"
    )


def page(title: str, content: str, status: int = 200, head: str = "") -> Response:
    """Return a page that needs no scripts. ``content`` and ``head`` are HTML."""
    return HTMLResponse(
        PAGE.format(title=escape(title), content=content, head=head), status_code=status
    )


def form_page(wanted: str, user: str = "", wrong: str = "", status: int = 200) -> Response:
    """Return the page that asks for a login.

    ``wanted`` is the path to open afterwards, and ``wrong`` is an error to show.
    """
    warning = f'<p class="wrong" role="alert">{escape(wrong)}</p>' if wrong else ""
    return page("Log in", warning + FORM.format(next=escape(wanted), user=escape(user)), status)


def _turned_away(scope: Scope) -> Response:
    """Redirect a person to the login, and refuse programs.

    A browser does not send a strict cookie when a person follows a link on another site. So a page
    of this site loads the wanted page once more.
    """
    headers = Headers(scope=scope)
    if scope["method"] not in {"GET", "HEAD"} or "text/html" not in headers.get("accept", ""):
        return PlainTextResponse("Log in first: open /login in a browser.\n", status_code=401)
    if headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        return page("One moment", f'<p><a href="{LOGIN}">Log in</a></p>', head=REFRESH)
    wanted = scope["path"] + (
        f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
    )
    return RedirectResponse(
        LOGIN if wanted == "/" else f"{LOGIN}?next={quote(wanted, safe='/')}", status_code=303
    )


async def form_fields(request: Request) -> Mapping[str, str]:
    """Return the fields of a form. There are none if the body is too long or not a form."""
    body = await _body(request, MAX_FORM_BYTES)
    try:
        fields = parse_qs(
            (body or b"").decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=10,
        )
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}


async def _body(request: Request, limit: int) -> bytes | None:
    """Return the body of a request, or None if it is longer than ``limit`` bytes."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            return None
    return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that returns ``body``, which was read already, as the request's body."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return rest.pop() if rest else await receive()

    return receive_again


def is_only_query(body: bytes) -> bool:
    """Return whether a GraphQL request reads, and changes nothing."""
    try:
        asked: Any = json.loads(body)
        document = parse(asked["query"], max_tokens=MAX_QUERY_TOKENS)
    except (ValueError, TypeError, KeyError, RecursionError, GraphQLError):
        return False
    operations = [
        each for each in document.definitions if isinstance(each, OperationDefinitionNode)
    ]
    return all(each.operation is OperationType.QUERY for each in operations)


def with_badge(session: Session, send: Send) -> Send:
    """Return a ``send`` that adds the user's name and a button for the logout to each page."""
    started: list[Message] = []
    text = session.user + ("" if session.rights is UiRights.CHANGE else " (read only)")
    badge = BADGE.format(text=escape(text) + " &middot; log out").encode()

    async def send_page(message: Message) -> None:
        if message["type"] == "http.response.start" and Headers(raw=message["headers"]).get(
            "content-type", ""
        ).startswith("text/html"):
            started.append(message)
        elif not started:
            await send(message)
        else:
            start = started.pop()
            body = message.get("body", b"")
            if not message.get("more_body") and body.endswith(b"</body></html>"):
                body = body.removesuffix(b"</body></html>") + badge + b"</body></html>"
                MutableHeaders(scope=start)["content-length"] = str(len(body))
            await send(start)
            await send({**message, "body": body})

    return send_page


def read_only_for_readers(context: Any) -> None:
    """Let Dagster know which requests may only read, so that it shows their buttons as off."""
    create: Callable[[Any], Any] = context.create_request_context

    def create_request_context(source: Any = None) -> Any:
        made = create(source)
        session = source.scope.get(SESSION) if isinstance(source, HTTPConnection) else None
        if session is None or session.rights is UiRights.CHANGE:
            return made
        return WorkspaceRequestContext(
            instance=made.instance,
            current_workspace=made.get_current_workspace(),
            process_context=made.process_context,
            version=made.version,
            source=source,
            read_only=True,
        )

    context.create_request_context = create_request_context
