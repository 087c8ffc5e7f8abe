"""Logins of Dagster's UI use users and rights of a real broker.

The application is Dagster's own, and the browser is real.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from dagster._core.test_utils import instance_for_test
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster_webserver import cli
from starlette.requests import Request
from starlette.websockets import WebSocketDisconnect

from log_service.client import BlockingAdmin, ConfigError
from log_service.client.admin.access import AclBinding, AclFilter, ScramUser
from log_service.common.secrets import SecretText
from orchestration.installation.ui import sessions
from orchestration.installation.ui.guard import GuardedUi
from orchestration.installation.ui.login import LoginUi, address_of, is_only_query, local_path
from orchestration.installation.ui.sessions import Sessions
from orchestration.installation.ui.users import UI_GROUP, ClusterUsers, UiRights
from orchestration.installation.webserver import CREATE, guard
from orchestration.settings import ui_login
from tests.helpers.broker_process import HOST, BrokerProcess
from tests.helpers.ports import free_port
from tests.platform.browser import needs_browser, served, tab

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another HTTP client than Dagster brings
    from starlette.testclient import TestClient

pytestmark = pytest.mark.platform
SITE = "http://127.0.0.1:3000"
SOCKET = "ws://127.0.0.1:3000/graphql"
MUTATION = "mutation { setAutoMaterializePaused(paused: %s) }"
IS_PAUSED = "{ instance { autoMaterializePaused } }"
PASSWORDS = {"ann": "anns-word", "rea": "reas-word", "bob": "bobs-word"}
RIGHTS = {"ann": UiRights.CHANGE, "rea": UiRights.READ, "bob": UiRights.NONE}
PAGE = {"Accept": "text/html"}


def binding(
    user: str, operation: str, group: str = UI_GROUP, permission: str = "allow"
) -> AclBinding:
    return AclBinding(
        resource_type="group",
        name=group,
        pattern_type="literal",
        principal=f"User:{user}",
        operation=operation,
        permission=permission,
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Yield a broker with three users.

    Ann may change, rea read, bob is a consumer of all groups and may do neither.
    """
    directory, port = tmp_path_factory.mktemp("cluster"), free_port()
    properties = {
        "listeners": f"PLAINTEXT://{HOST}:0,LOGIN://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.login.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    file = directory / "login.properties"
    file.write_text(
        f"bootstrap.servers={HOST}:{port}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
    )
    with (
        BrokerProcess(directory / "broker", properties=properties) as broker,
        BlockingAdmin(broker.bootstrap) as admin,
    ):
        admin.set_scram_users(
            [
                ScramUser(name=user, mechanism="SCRAM-SHA-512", password=word)
                for user, word in PASSWORDS.items()
            ]
        )
        admin.create_acls(
            [
                binding("ann", "alter_configs"),
                binding("rea", "describe_configs"),
                binding("bob", "read", "*"),
            ]
        )
        yield SimpleNamespace(users=ClusterUsers.of_file(file), admin=admin)


@pytest.fixture
def ui(cluster: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedUi]:
    monkeypatch.setattr(cli, CREATE, vars(cli)[CREATE])  # put back afterwards
    monkeypatch.setattr(sessions, "FAILURE_DELAY_S", 0.0)
    guard([], cluster.users)
    with (
        instance_for_test() as instance,
        WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as context,
    ):
        app = vars(cli)[CREATE](context)
        assert isinstance(app, GuardedUi)
        yield app


@pytest.fixture
def client(ui: GuardedUi) -> Iterator[TestClient]:
    with TestClient(ui, base_url=SITE, follow_redirects=False) as made:
        yield made


def log_in(client: TestClient, user: str, password: str = "", wanted: str = "/", **headers: str):  # type: ignore[no-untyped-def]
    fields = {"user": user, "password": password or PASSWORDS[user], "next": wanted}
    return client.post("/login", data=fields, headers={"Origin": SITE, **headers})


@pytest.mark.parametrize("user", PASSWORDS)
def test_rights_are_the_clusters(cluster: SimpleNamespace, user: str) -> None:
    assert cluster.users.rights_of(user, SecretText(PASSWORDS[user])) is RIGHTS[user]
    for wrong in ("wrong", "", "x" * 600, "nul\0", PASSWORDS[user] + " "):
        assert cluster.users.rights_of(user, SecretText(wrong)) is UiRights.UNKNOWN


def test_nothing_is_shown_without_a_login(client: TestClient) -> None:
    for path in (
        "/server_info",
        "/graphql",
        "/favicon.svg",
        "/logs/a/b.out",
        "/download_debug/x",
        "/report_asset_check/x",
    ):
        assert client.get(path, headers={"Accept": "*/*"}).status_code in {401, 405}, path
    assert client.post("/graphql", json={"query": IS_PAUSED}).status_code == 401
    assert client.post("/report_asset_materialization/x", json={}).status_code == 401
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(SOCKET, headers={"Origin": SITE}),
    ):
        pass
    answer = client.get("/runs?q=a", headers=PAGE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/runs%3Fq%3Da")
    shown = client.get("/login?next=/runs%3Fq%3Da", headers=PAGE)
    assert 'value="/runs?q=a"' in shown.text
    assert "<script" not in shown.text
    assert "default-src 'none'" in shown.headers["content-security-policy"]


def test_a_user_with_the_right_changes_and_leaves(client: TestClient) -> None:
    answer = log_in(client, "ann", wanted="/runs")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    assert "ann &middot; log out" in client.get("/runs", headers=PAGE).text
    assert client.post("/graphql", json={"query": MUTATION % "true"}).json()["data"] == {
        "setAutoMaterializePaused": True
    }
    with client.websocket_connect(SOCKET, headers={"Origin": SITE}) as socket:
        socket.send_json({"type": "connection_init"})
        assert socket.receive_json() == {"type": "connection_ack"}
    before = dict(client.cookies)
    assert (
        client.post("/logout", data={}, headers={"Origin": "http://127.0.0.1:8000"}).status_code
        == 403
    )
    assert client.post("/graphql", json={"query": IS_PAUSED}).status_code == 200
    assert (
        client.post(
            "/logout", headers={"Origin": SITE, "Content-Type": "application/x-www-form-urlencoded"}
        ).status_code
        == 303
    )
    client.cookies.update(before)
    assert client.post("/graphql", json={"query": IS_PAUSED}).status_code == 401, (
        "the token itself counts no more"
    )


def test_over_tls_the_cookie_is_for_tls(ui: GuardedUi) -> None:
    with TestClient(ui, base_url="https://127.0.0.1:3000", follow_redirects=False) as client:
        assert (
            "; secure"
            in log_in(client, "ann", Origin="https://127.0.0.1:3000").headers["set-cookie"].lower()
        )


@pytest.mark.parametrize(
    ("user", "password", "status"),
    [("ann", "wrong", 401), ("nobody", "word", 401), ("bob", PASSWORDS["bob"], 403)],
)
def test_others_are_refused(client: TestClient, user: str, password: str, status: int) -> None:
    answer = log_in(client, user, password)
    assert (answer.status_code, "set-cookie" in answer.headers) == (status, False)
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://127.0.0.1:8000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": SITE, "Content-Type": "application/json"}, 415),
    ],
)
def test_a_form_of_another_page_is_refused(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    answer = client.post(
        "/login", data={"user": "ann", "password": PASSWORDS["ann"]}, headers=headers
    )
    assert (answer.status_code, "set-cookie" in answer.headers) == (status, False)


@pytest.mark.parametrize(
    "query",
    [
        MUTATION % "true",
        "query A { version } " + (MUTATION % "true").replace("{", "B {", 1),
        "no graphql",
    ],
)
def test_a_reader_changes_nothing(client: TestClient, query: str) -> None:
    log_in(client, "rea")
    assert client.post("/graphql", json={"query": query, "operationName": "B"}).status_code == 403
    assert client.post("/report_asset_materialization/x", json={}).status_code == 403
    assert (
        client.post(
            "/graphql", content=b"[]", headers={"Content-Type": "application/json"}
        ).status_code
        == 403
    )
    told = client.post(
        "/graphql",
        json={"query": "{ permissions { permission value } instance { autoMaterializePaused } }"},
    ).json()["data"]
    assert {each["value"] for each in told["permissions"]} == {False}
    assert "rea (read only)" in client.get("/", headers=PAGE).text


def test_a_withdrawn_right_ends_the_session(
    cluster: SimpleNamespace, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(client, "ann")
    with client.websocket_connect(SOCKET, headers={"Origin": SITE}) as socket:
        socket.send_json({"type": "connection_init"})
        socket.receive_json()
        denial = binding("ann", "all", permission="deny")
        cluster.admin.create_acls([denial])
        try:
            monkeypatch.setattr(sessions, "RECHECK_S", 0.0)
            monkeypatch.setattr(sessions, "RECHECK_PATIENCE_S", 30.0)
            assert client.post("/graphql", json={"query": IS_PAUSED}).status_code == 401
            socket.send_json({"type": "connection_init"})
            with pytest.raises(WebSocketDisconnect):
                socket.receive_json()
        finally:
            cluster.admin.delete_acls([AclFilter(resource_type="group", permission="deny")])


def test_a_session_ends_by_itself(cluster: SimpleNamespace, ui: GuardedUi) -> None:
    now_s = [0.0]
    kept = Sessions(cluster.users, lambda: now_s[0])
    assert isinstance(ui.app, LoginUi)
    ui.app = LoginUi(ui.app.app, kept)
    with TestClient(ui, base_url=SITE, follow_redirects=False) as client:
        log_in(client, "rea")
        for step_s, status in ((sessions.IDLE_S, 200), (sessions.IDLE_S + 1, 401)):
            now_s[0] += step_s
            assert client.post("/graphql", json={"query": IS_PAUSED}).status_code == status
        log_in(client, "rea")
        for _ in range(12):
            now_s[0] += sessions.IDLE_S
            assert client.post("/graphql", json={"query": IS_PAUSED}).status_code == 200
        now_s[0] += 1
        assert client.post("/graphql", json={"query": IS_PAUSED}).status_code == 401


def test_a_cluster_that_does_not_answer_ends_no_session(
    client: TestClient, ui: GuardedUi, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(client, "rea")
    monkeypatch.setattr(sessions, "RECHECK_S", 0.0)
    monkeypatch.setattr("orchestration.installation.ui.users.ANSWER_MS", 100)
    assert isinstance(ui.app, LoginUi)
    gone = ClusterUsers(servers=f"{HOST}:{free_port()}", settings={})
    monkeypatch.setattr(ui.app.sessions, "_users", gone)
    assert client.post("/graphql", json={"query": IS_PAUSED}).status_code == 200
    assert log_in(client, "ann").status_code == 503


def test_a_link_from_elsewhere_is_loaded_once_more_with_the_cookie(client: TestClient) -> None:
    link = {
        **PAGE,
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    answer = client.get("/runs", headers=link)
    assert (answer.status_code, 'http-equiv="refresh"' in answer.text) == (200, True)


@pytest.mark.parametrize(
    "elsewhere",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\/evil.example",
        "/a\nb",
        "/login",
        "",
    ],
)
def test_a_login_leads_to_no_other_site(elsewhere: str) -> None:
    assert local_path(elsewhere) == "/"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:DB8:1:2::9%eth0", "2001:db8:1:2::"),
        ("x" * 60_000, ""),
        ("", ""),
    ],
)
def test_an_address_that_a_header_tells_is_an_address(told: str, expected: str) -> None:
    """A server that trusts its peer takes any text of X-Forwarded-For.

    Each new one would be another guesser.
    """
    assert address_of(Request({"type": "http", "client": (told, 1)})) == expected


def test_a_query_in_the_address_is_no_way_around(client: TestClient) -> None:
    """Dagster reads the address where the content type is none that it knows.

    It knows small letters alone.
    """
    log_in(client, "rea")
    headers = {"Origin": SITE, "Content-Type": "APPLICATION/JSON"}
    response = client.post(
        "/graphql",
        params={"query": MUTATION % "true"},
        content='{"query": "{ __typename }"}',
        headers=headers,
    )
    assert response.status_code == 415
    other = client.post(
        "/report_asset_check/graphql", json={"query": "{ __typename }"}, headers={"Origin": SITE}
    )
    assert other.status_code == 403


def test_only_queries_are_queries() -> None:
    assert is_only_query(b'{"query": "{ version }"}')
    for changing in (
        b"",
        b"{}",
        b'{"query": 1}',
        b'{"query": "subscription { a }"}',
        b"[" * 100_000,
    ):
        assert not is_only_query(changing)


def test_a_file_without_servers_or_passwords_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "login.properties"
    for text in (
        "sasl.mechanism=SCRAM-SHA-512\n",
        "bootstrap.servers=a:1\n",
        "bootstrap.servers=a:1\nsasl.mechanism=OAUTHBEARER\n",
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"login\.properties"):
            ClusterUsers.of_file(file)
    assert ui_login({"TIDELOG_UI_LOGIN": str(file)}) == file
    assert ui_login({}) is None


@needs_browser
@pytest.mark.timeout(600)
def test_a_person_logs_in_with_a_browser_without_scripts(ui: GuardedUi, tmp_path: Path) -> None:
    with served(ui) as url, tab(tmp_path / "browser") as page:
        page.ask(
            "Emulation.setDeviceMetricsOverride",
            width=390,
            height=844,
            deviceScaleFactor=1,
            mobile=True,
        )
        page.ask("Emulation.setScriptExecutionDisabled", value=True)
        page.open(f"{url}/runs")
        page.wait_for(
            "location.pathname === '/login' && document.querySelector('#password') !== null"
        )
        assert page.value("document.documentElement.scrollWidth") == 390, (
            "nothing is wider than the screen"
        )
        page.screenshot(tmp_path / "login.png")
        page.fill("#user", "ann")
        page.fill("#password", "wrong")
        page.press_enter()
        page.wait_for("document.querySelector('[role=alert]') !== null")
        page.screenshot(tmp_path / "refused.png")
        page.fill("#password", PASSWORDS["ann"])
        page.press_enter()
        page.wait_for("location.pathname === '/runs'")
        page.ask("Emulation.setScriptExecutionDisabled", value=False)
        page.ask("Emulation.clearDeviceMetricsOverride")
        page.open(f"{url}/runs")
        page.wait_for(
            "document.querySelector('a[href=\"/logout\"]') !== null && document.body.innerText.includes('Deployment')"
        )
        assert page.value("document.cookie") == "", "no script sees the cookie"
        page.screenshot(tmp_path / "runs.png")
        page.open(f"{url}/logout")
        page.wait_for("document.querySelector('form[action=\"/logout\"]') !== null")
        page.screenshot(tmp_path / "logout.png")
        page.value("document.querySelector('button').click()")
        page.wait_for("location.pathname === '/login'")
        page.open(f"{url}/runs")
        page.wait_for(
            f"location.href === {urlsplit(url)._replace(path='/login', query='next=/runs').geturl()!r}"
        )
