"""Other sites cannot use Dagster's UI: browser headers, and a hostile page in a real browser.

Dagster served mutations by GET and looked at neither Host nor Origin, so that any page could launch
runs. The application here is Dagster's own, with an instance whose sensors a mutation pauses.
"""

import json
import subprocess
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from dagster._core.test_utils import instance_for_test
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster_webserver import cli
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from orchestration.installation.ui.guard import GuardedUi
from orchestration.installation.webserver import CREATE, guard
from orchestration.settings import SettingsError, ui_hosts
from tests.platform.browser import PATIENCE_S, browser, needs_browser, served

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another HTTP client than Dagster brings
    from starlette.testclient import TestClient

pytestmark = pytest.mark.platform
MUTATION = "mutation { setAutoMaterializePaused(paused: %s) }"
NAMED = "query Read { version } mutation Write { setAutoMaterializePaused(paused: %s) }"
IS_PAUSED = "{ instance { autoMaterializePaused } }"
SOCKET = "ws://127.0.0.1:3000/graphql"
HOSTILE_PAGE = """<!doctype html><title>hostile</title><iframe name="sink"></iframe><script>
const ui = "UI", query = QUERY, told = [];
const ended = (name) => new Promise((resolve) => {
  const end = (how) => () => { told.push(name + "=" + how); resolve(); };
  if (name === "image") {
    const image = new Image();
    image.onload = end("loaded"); image.onerror = end("refused");
    image.src = ui + "/graphql?query=" + encodeURIComponent(query);
  } else if (name === "form") {
    const form = document.createElement("form");
    form.method = "post"; form.target = "sink"; form.enctype = "text/plain";
    form.action = ui + "/graphql?query=" + encodeURIComponent(query);
    document.body.append(form);
    document.querySelector("iframe").onload = end("answered");
    form.submit();
  } else if (name === "fetch") {
    fetch(ui + "/graphql", {method: "POST", mode: "no-cors", body: JSON.stringify({query}),
      headers: {"Content-Type": "text/plain; application/json"}}).then(end("answered"), end("refused"));
  } else {
    const socket = new WebSocket(ui.replace("http", "ws") + "/graphql", "graphql-ws");
    socket.onopen = end("opened"); socket.onerror = end("refused");
  }
});
onload = async () => {
  for (const name of ["image", "form", "fetch", "socket"]) await ended(name);
  await fetch("/told?" + told.join("&"));
};
</script>"""


class Passed:
    """Application that notes the requests that reach Dagster's."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.requests: list[str] = []
        self.is_queried = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            self.requests.append(f"{scope.get('method', 'WEBSOCKET')} {scope['path']}")
        if scope.get("method") == "POST" and scope["path"] == "/graphql":
            self.is_queried.set()
        await self.app(scope, receive, send)


@pytest.fixture
def dagster_ui(monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedUi]:
    """Return the application that ``orchestration.installation.webserver`` serves, of an empty
    workspace.
    """
    monkeypatch.setattr(cli, CREATE, vars(cli)[CREATE])  # put back afterwards
    guard(["ui.example.com"])
    with (
        instance_for_test() as instance,
        WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as context,
    ):
        app = vars(cli)[CREATE](context)
        assert isinstance(app, GuardedUi)
        yield app


@pytest.fixture
def client(dagster_ui: GuardedUi) -> TestClient:
    return TestClient(dagster_ui, base_url="http://127.0.0.1:3000")


def is_paused(client: TestClient) -> bool:
    return bool(
        client.post("/graphql", json={"query": IS_PAUSED}).json()["data"]["instance"][
            "autoMaterializePaused"
        ]
    )


def other(client: TestClient) -> str:
    """Return the GraphQL literal of the state that does not hold now."""
    return "false" if is_paused(client) else "true"


def test_a_mutation_of_the_ui_itself_passes(client: TestClient) -> None:
    before = is_paused(client)
    headers = {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-origin"}
    assert (
        client.post(
            "/graphql", json={"query": MUTATION % other(client)}, headers=headers
        ).status_code
        == 200
    )
    assert is_paused(client) is not before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://127.0.0.1:8000"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        (
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document",
            },
            403,
        ),
        ({"Host": "rebound.example:3000"}, 421),
        (
            {
                "Host": "rebound.example:3000",
                "Origin": "http://rebound.example:3000",
                "Sec-Fetch-Site": "same-origin",
            },
            421,
        ),
        ({"Host": "127.0.0.1.rebound.example"}, 421),
        ({"Host": ""}, 421),
        ({"Content-Type": "text/plain; application/json"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/graphql"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=application/json"}, 415),
    ],
)
def test_a_mutation_of_another_site_is_refused(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    before = is_paused(client)
    sent = {"Content-Type": "application/json", **headers}
    body = json.dumps({"query": MUTATION % other(client)})
    answer = client.post(
        "/graphql", params={"query": MUTATION % other(client)}, content=body, headers=sent
    )
    assert (answer.status_code, is_paused(client)) == (status, before)


@pytest.mark.parametrize("query", [MUTATION, NAMED], ids=["alone", "named"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_post_runs_a_mutation(client: TestClient, method: str, query: str) -> None:
    before = is_paused(client)
    asked = {"query": query % other(client), "operationName": "Write" if query == NAMED else ""}
    answer = client.request(method, "/graphql", params=asked)
    assert (answer.status_code, is_paused(client)) == (405, before)


def test_what_reports_events_takes_json_alone(client: TestClient) -> None:
    path = "/report_asset_materialization/orders"
    assert client.post(path).status_code == 415
    assert client.post(path, json={}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:8000"},
        {"Host": "rebound.example"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_websocket_of_another_site_is_refused(
    client: TestClient, headers: dict[str, str]
) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(SOCKET, headers=headers):
        pass
    with client.websocket_connect(SOCKET, headers={"Origin": "http://127.0.0.1:3000"}) as own:
        own.send_json({"type": "connection_init"})
        assert own.receive_json() == {"type": "connection_ack"}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:3000", "localhost:3000", "LOCALHOST", "ui.example.com", "ui.example.com:8443"],
)
def test_names_of_the_ui_are_served(client: TestClient, host: str) -> None:
    assert client.get("/server_info", headers={"Host": host}).status_code == 200
    origin = {"Host": host, "Origin": f"https://{host.lower()}"}
    assert client.post("/graphql", json={"query": IS_PAUSED}, headers=origin).status_code == 200


def test_a_link_from_another_site_opens_a_page(client: TestClient) -> None:
    link = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    assert client.get("/runs", headers=link).status_code == 200
    assert client.get("/runs", headers={**link, "Sec-Fetch-Dest": "iframe"}).status_code == 403


def test_pages_have_security_headers(client: TestClient) -> None:
    headers = client.get("/").headers
    assert headers["content-security-policy"].startswith("base-uri 'none'")
    assert headers["content-security-policy"].endswith("; frame-ancestors 'self'")
    assert (headers["x-frame-options"], headers["x-content-type-options"]) == (
        "SAMEORIGIN",
        "nosniff",
    )
    assert (headers["referrer-policy"], headers["cache-control"]) == ("same-origin", "no-store")
    assert client.post("/graphql", json={"query": IS_PAUSED}).headers["cache-control"] == "no-store"
    assert "cache-control" not in client.get("/favicon.svg").headers


def test_hosts_of_the_setting_are_names() -> None:
    assert ui_hosts({"TIDELOG_UI_HOSTS": " ui.example.com, ::1,"}) == ("ui.example.com", "::1")
    for bad in ("*", "http://ui.example.com", "ui.example.com:80", "a b"):
        with pytest.raises(SettingsError, match="TIDELOG_UI_HOSTS names"):
            ui_hosts({"TIDELOG_UI_HOSTS": bad})


@contextmanager
def hostile_site(page: str) -> Iterator[tuple[str, threading.Event, dict[str, list[str]]]]:
    """Serve ``page``; yields its URL, and what the page tells of its attempts once all have ended."""
    has_told, told = threading.Event(), dict[str, list[str]]()

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())
            if self.path.startswith("/told?"):
                told.update(parse_qs(urlsplit(self.path).query))
                has_told.set()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name of the base class
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", has_told, told
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def visiting(home: Path, url: str) -> Iterator[None]:
    """Have a browser stay on a page."""
    command = browser(home, "--remote-debugging-port=0", url)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait()


@needs_browser
@pytest.mark.timeout(600)
def test_a_hostile_page_in_a_browser_changes_nothing(
    dagster_ui: GuardedUi, client: TestClient, tmp_path: Path
) -> None:
    before, query = is_paused(client), MUTATION % other(client)
    dagster_ui.app = passed = Passed(dagster_ui.app)
    with served(dagster_ui) as ui:
        page = HOSTILE_PAGE.replace("UI", ui).replace("QUERY", json.dumps(query))
        with hostile_site(page) as (url, has_told, told), visiting(tmp_path, url):
            assert has_told.wait(PATIENCE_S)
        assert passed.requests == []
        assert (told["image"], told["socket"]) == (["refused"], ["refused"])
    assert is_paused(client) is before


@needs_browser
@pytest.mark.timeout(600)
def test_a_rebound_name_shows_a_browser_nothing(dagster_ui: GuardedUi, tmp_path: Path) -> None:
    dagster_ui.app = passed = Passed(dagster_ui.app)
    with served(dagster_ui) as ui:
        url = f"http://rebound.example:{urlsplit(ui).port}/graphql?query={quote(IS_PAUSED)}"
        command = browser(
            tmp_path, "--host-resolver-rules=MAP rebound.example 127.0.0.1", "--dump-dom", url
        )
        shown = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        ).stdout
    assert "is not allowed: name it in TIDELOG_UI_HOSTS" in shown
    assert passed.requests == []


@needs_browser
@pytest.mark.timeout(600)
def test_the_ui_works_in_a_browser(dagster_ui: GuardedUi, tmp_path: Path) -> None:
    dagster_ui.app = passed = Passed(dagster_ui.app)
    with (
        served(dagster_ui) as ui,
        visiting(tmp_path, f"{ui.replace('127.0.0.1', 'localhost')}/runs"),
    ):
        assert passed.is_queried.wait(PATIENCE_S)
