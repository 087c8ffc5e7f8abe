"""The middleware decides about pages and changes.

It checks sessions, tokens and origins, and gives refusals their look.
"""

import logging

import pytest

from log_service.client.schemas.errors import SchemaRegistryError
from log_service.common.errors import ErrorCode, KafkaError
from log_service.http.console.browser_rules import SECURITY_HEADERS
from tests.unit.http.console.stage import Stage, header, play, text


def test_without_logins_a_page_gives_the_browser_an_id() -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.get("/page")
        assert response.status == 200
        given = header(response, "set-cookie") or ""
        assert "; HttpOnly; SameSite=Strict" in given
        assert stage.sessions.csrf_token(stage.browser_id) in text(response)
        again = await stage.get("/page")
        assert header(again, "set-cookie") is None
        assert stage.clients.asked == [None, None]

    play(scene)


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ({"csrf_token": "-"}, {}),
        ({"csrf_token": "0" * 64}, {}),
        ({}, {"origin": ""}),
        ({}, {"origin": "null"}),
        ({}, {"origin": "http://evil.example"}),
        ({}, {"origin": "http://console:8081"}),
        ({}, {"cookie": "another=1"}),
    ],
)
@pytest.mark.parametrize("has_logins", [True, False])
def test_a_change_that_no_page_sent_is_refused(
    form: dict[str, str], headers: dict[str, str], *, has_logins: bool
) -> None:
    async def scene(stage: Stage) -> None:
        await (stage.log_in() if has_logins else stage.get("/page"))
        stage.page_requests.clear()
        response = await stage.post("/page", form, **headers)
        assert response.status == 403
        assert not stage.page_requests
        assert (await stage.post("/page", {"a": "1"})).status == 303
        assert stage.page_requests[0].form == {"a": "1"}, "the token is no field of the page"

    play(scene, has_logins=has_logins)


def test_a_body_that_is_no_form_changes_nothing() -> None:
    async def scene(stage: Stage) -> None:
        await stage.get("/page")
        response = await stage.post("/page", {}, content_type="text/plain")
        assert response.status == 415

    play(scene)


def test_a_person_logs_in_and_comes_back_to_the_page() -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.get("/page")
        assert response.status == 303
        assert header(response, "location") == "/login?next=%2Fpage"
        assert not stage.page_requests
        form = await stage.get("/login?next=/page")
        before = stage.browser_id
        assert 'name="next" value="/page"' in text(form)
        done = await stage.post("/login", {"user": "ann", "password": "right", "next": "/page"})
        assert header(done, "location") == "/page"
        assert stage.browser_id != before, "an id from before the login is worth nothing"
        shown = await stage.get("/page")
        assert "ann" in text(shown)
        (credentials,) = stage.clients.asked
        assert credentials is not None
        assert credentials.user == "ann"

    play(scene, has_logins=True)


def test_a_wrong_password_opens_no_session() -> None:
    async def scene(stage: Stage) -> None:
        await stage.get("/login")
        response = await stage.post("/login", {"user": "<b>ann", "password": "wrong"})
        assert response.status == 401
        assert "wrong" not in text(response)
        assert "&lt;b&gt;ann" in text(response)
        assert (await stage.get("/page")).status == 303
        assert not len(stage.sessions)

    play(scene, has_logins=True)


def test_a_login_that_no_page_sent_is_refused() -> None:
    async def scene(stage: Stage) -> None:
        await stage.get("/login")
        login = {"user": "ann", "password": "right"}
        assert (await stage.post("/login", {**login, "csrf_token": "-"})).status == 403
        assert (await stage.post("/login", login, origin="http://evil.example")).status == 403
        assert not len(stage.sessions)

    play(scene, has_logins=True)


def test_a_login_leads_to_no_other_site() -> None:
    async def scene(stage: Stage) -> None:
        await stage.get("/login")
        login = {"user": "ann", "password": "right", "next": "//evil.example"}
        assert header(await stage.post("/login", login), "location") == "/"

    play(scene, has_logins=True)


def test_a_session_ends_with_the_log_out() -> None:
    async def scene(stage: Stage) -> None:
        await stage.log_in()
        own = stage.browser_id
        assert (await stage.post("/logout", {"csrf_token": "-"})).status == 403
        assert (await stage.post("/logout", {})).status == 303
        stage.browser_id = own
        assert (await stage.get("/page")).status == 303

    play(scene, has_logins=True)


def test_a_change_after_the_session_is_refused_and_a_part_leads_to_the_login() -> None:
    async def scene(stage: Stage) -> None:
        await stage.log_in()
        stage.clock.now_ms += 24 * 3_600_000
        assert (await stage.post("/page", {})).status == 403
        part = await stage.get("/part", hx_request="true")
        assert part.status == 204
        assert header(part, "hx-redirect") == "/login?next=%2Fpart"

    play(scene, has_logins=True)


def test_a_login_that_the_cluster_takes_no_more_ends_the_session() -> None:
    async def scene(stage: Stage) -> None:
        await stage.log_in()
        stage.failure = KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "no such user")
        assert (await stage.get("/page")).status == 303
        assert not len(stage.sessions)

    play(scene, has_logins=True)


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_session_does_not_outlive_its_password(*, is_stream: bool) -> None:
    """Open clients never log in again, so that the cluster itself would refuse nothing."""

    async def scene(stage: Stage) -> None:
        await stage.log_in()
        await stage.get("/page")
        stage.password = "another"
        assert (await stage.get("/page")).status == 200, "it was right a moment ago"
        assert await stage.page_requests[0].person.is_here()
        stage.clock.now_ms += 60_000
        if is_stream:
            assert not await stage.page_requests[0].person.is_here()
            assert not len(stage.sessions)
        stage.page_requests.clear()
        assert (await stage.get("/page")).status == 303
        assert not stage.page_requests
        assert not len(stage.sessions)

    play(scene, has_logins=True)


def test_a_session_waits_for_a_cluster_that_does_not_respond() -> None:
    async def scene(stage: Stage) -> None:
        await stage.log_in()
        await stage.get("/page")
        stage.clock.now_ms += 60_000
        stage.password = ""
        assert (await stage.get("/page")).status == 503
        assert not await stage.page_requests[0].person.is_here()
        stage.password = "right"
        assert (await stage.get("/page")).status == 200

    play(scene, has_logins=True)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 403),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 403),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 404),
        (ErrorCode.TOPIC_ALREADY_EXISTS, 409),
        (ErrorCode.NETWORK_EXCEPTION, 503),
        (ErrorCode.INVALID_CONFIG, 400),
    ],
)
def test_a_refusal_of_the_cluster_is_a_page(code: ErrorCode, status: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.failure = KafkaError(code, "because of <script>alert(1)</script>")
        response = await stage.get("/page")
        assert response.status == status
        assert "because of &lt;script&gt;" in text(response)
        assert "<script>alert" not in text(response)

    play(scene)


@pytest.mark.parametrize(
    "path", ["/page", "/part", "/none", "/login", "/static/x/y", "/favicon.ico"]
)
@pytest.mark.parametrize("has_logins", [True, False])
def test_every_response_has_the_headers(path: str, *, has_logins: bool) -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.get(path)
        assert set(SECURITY_HEADERS) <= set(response.headers)
        if "static" not in path and "favicon" not in path:
            assert header(response, "cache-control") == "no-store"

    play(scene, has_logins=has_logins)


def test_a_change_leaves_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        await stage.log_in()
        await stage.get("/page")
        page_request = stage.page_requests[0]
        with page_request.audited("delete topic", "a\nb"):
            pass
        with pytest.raises(KafkaError), page_request.audited("delete topic", "c"):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
        with pytest.raises(SchemaRegistryError), page_request.audited("register schema", "d"):
            raise SchemaRegistryError(422, 42201, "invalid", address="http://registry")

    with caplog.at_level(logging.INFO, "log_service.http.console.audit"):
        play(scene, has_logins=True)
    logged, done, refused, invalid = [each.getMessage() for each in caplog.records]
    assert "action=log in" in logged
    assert "right" not in caplog.text
    assert (
        "principal=User:ann address=127.0.0.1 action=delete topic target=a\\nb result=done" in done
    )
    assert "target=c result=refused TOPIC_AUTHORIZATION_FAILED" in refused
    assert "target=d result=refused 422" in invalid
