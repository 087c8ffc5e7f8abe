"""Logins by password and token: what is refused, what is remembered, and how guesses are slowed."""

import base64
from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from log_service.common.secrets import SecretText
from log_service.http.server.authentication import Authentication, token_check
from log_service.http.server.health import health_routes
from log_service.http.server.passwords import MAX_CHECKS_OF_ADDRESS, REMEMBERED_MS, parse_basic
from log_service.http.server.values import ANONYMOUS, HttpError, HttpRequest
from log_service.security.sasl.oauthbearer import TokenRefusedError, ValidToken
from tests.helpers.garbage import counted_garbage
from tests.sim import VirtualClock
from tests.unit.http.server.harness import GET, Stage, play


class Users:
    """A store of one user, which counts its checks and may be slow or gone."""

    def __init__(self) -> None:
        self.password = "secret"
        self.check_count = 0
        self.pause_s = 0.0
        self.error: HttpError | None = None

    async def check(self, user: str, password: SecretText) -> str | None:
        self.check_count += 1
        await trio.sleep(self.pause_s)
        if self.error is not None:
            raise self.error
        return "User:ann" if (user, password.reveal()) == ("ann", self.password) else None


def basic(user: str = "ann", password: str = "secret") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def request(
    authorization: str | None,
    principal: str = ANONYMOUS,
    peer: str = "::1",
) -> HttpRequest:
    headers = {} if authorization is None else {"authorization": authorization}
    return HttpRequest(method="GET", path="/", headers=headers, principal=principal, peer=peer)


def play_logins(
    scene: Callable[[Authentication, Users], Awaitable[None]],
    *,
    is_anonymous_allowed: bool = False,
) -> None:
    async def main() -> None:
        users = Users()
        authentication = Authentication(
            clock=VirtualClock(),
            rng=Random(1),
            check_password=users.check,
            is_anonymous_allowed=is_anonymous_allowed,
        )
        with trio.fail_after(10_000):
            await scene(authentication, users)

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def status_of(authentication: Authentication, wanted: HttpRequest) -> int:
    try:
        await authentication(wanted)
    except HttpError as error:
        return error.status
    return 200


def test_a_password_names_its_user() -> None:
    """A wrong one, and none, get 401 with the way to log in."""

    async def scene(authentication: Authentication, users: Users) -> None:
        assert await authentication(request(basic())) == "User:ann"
        for text in (None, basic(password="wrong"), basic("bob"), "Basic", "Basic !", "Bearer abc"):
            with pytest.raises(HttpError) as refused:
                await authentication(request(text))
            assert refused.value.status == 401
            challenge = ("www-authenticate", 'Basic realm="tidelog", charset="UTF-8"')
            assert refused.value.headers == (challenge,)

    play_logins(scene)


def test_a_certificate_is_enough_and_a_password_wins() -> None:
    """The principal of the connection counts unless the request names another one."""

    async def scene(authentication: Authentication, users: Users) -> None:
        assert await authentication(request(None, "User:CN=bob")) == "User:CN=bob"
        assert await authentication(request(basic(), "User:CN=bob")) == "User:ann"
        assert await status_of(authentication, request(basic("x"), "User:CN=bob")) == 401

    play_logins(scene)


def test_a_certificate_may_be_needed_beside_a_password() -> None:
    """A listener that requires certificates, and a service that asks for passwords, want both."""

    async def main() -> None:
        users = Users()
        both = Authentication(
            clock=VirtualClock(),
            rng=Random(1),
            check_password=users.check,
            is_certificate_enough=False,
        )
        assert await status_of(both, request(None, "User:CN=bob")) == 401
        assert await both(request(basic(), "User:CN=bob")) == "User:ann"

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_anonymous_clients_may_be_allowed() -> None:
    """A wrong password is refused even so."""

    async def scene(authentication: Authentication, users: Users) -> None:
        assert await authentication(request(None)) == ANONYMOUS
        assert await status_of(authentication, request(basic("x"))) == 401

    play_logins(scene, is_anonymous_allowed=True)


def test_a_right_password_is_remembered_for_a_minute() -> None:
    """A changed password counts after that time at the latest. A wrong one is never remembered."""

    async def scene(authentication: Authentication, users: Users) -> None:
        for _ in range(10):
            assert await status_of(authentication, request(basic())) == 200
        assert users.check_count == 1
        users.password = "changed"
        assert await status_of(authentication, request(basic(password="changed"))) == 200
        assert users.check_count == 2
        await trio.sleep(REMEMBERED_MS / 1_000)
        assert await status_of(authentication, request(basic())) == 401
        assert await status_of(authentication, request(basic())) == 401
        assert users.check_count == 4

    play_logins(scene)


def test_requests_at_once_wait_for_one_check() -> None:
    """A client with many connections is neither slowed nor checked many times."""

    async def scene(authentication: Authentication, users: Users) -> None:
        users.pause_s = 1
        results: list[int] = []

        async def log_in(text: str) -> None:
            results.append(await status_of(authentication, request(text)))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(log_in, basic())
                nursery.start_soon(log_in, basic(password="wrong"))
        assert sorted(results) == [200] * 20 + [401] * 20
        assert users.check_count == 2
        assert trio.current_time() == 1

    play_logins(scene)


def test_a_check_whose_client_left_is_taken_over() -> None:
    """The next request with the same password begins a check of its own."""

    async def scene(authentication: Authentication, users: Users) -> None:
        users.pause_s = 5
        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                with trio.move_on_after(1):
                    await authentication(request(basic()))

            nursery.start_soon(leave)
            await trio.testing.wait_all_tasks_blocked()
            assert await authentication(request(basic())) == "User:ann"
        assert (users.check_count, trio.current_time()) == (2, 6)

    play_logins(scene)


def test_an_unreachable_cluster_is_no_wrong_password() -> None:
    """Its error reaches all waiting requests, and slows no later login."""

    async def scene(authentication: Authentication, users: Users) -> None:
        users.error, users.pause_s = HttpError(503, "it is gone"), 1
        results: list[int] = []

        async def log_in() -> None:
            results.append(await status_of(authentication, request(basic())))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(log_in)
        assert (results, users.check_count) == ([503] * 10, 1)
        users.error = None
        assert await status_of(authentication, request(basic())) == 200

    play_logins(scene)


def test_guesses_become_slow_and_other_addresses_do_not() -> None:
    """After five wrong passwords each guess takes longer. Many at once are turned away."""

    async def scene(authentication: Authentication, users: Users) -> None:
        for number in range(10):
            assert await status_of(authentication, request(basic(password=f"{number}"))) == 401
        assert trio.current_time() > 5
        statuses: list[int] = []

        async def guess(number: int) -> None:
            wanted = request(basic(password=f"more{number}"))
            statuses.append(await status_of(authentication, wanted))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(guess, number)
            await trio.testing.wait_all_tasks_blocked()
            began_s = trio.current_time()
            elsewhere = request(basic(), peer="10.0.0.1")
            assert await status_of(authentication, elsewhere) == 200
            assert trio.current_time() == began_s
        assert statuses.count(429) >= 15

    play_logins(scene)


def test_one_stranger_behind_a_proxy_keeps_nobody_out() -> None:
    """Guesses that waited for their turn took all checks, and everyone else was told 503."""

    async def scene(authentication: Authentication, users: Users) -> None:
        async def guess(user: str, number: int) -> None:
            await status_of(authentication, request(basic(user, f"{number}")))

        async with trio.open_nursery() as nursery:
            users.pause_s = 0.0
            for user in range(10):
                for number in range(20):
                    nursery.start_soon(guess, f"user-{user}", number)
                    await trio.testing.wait_all_tasks_blocked()
            began_s = trio.current_time()
            assert await status_of(authentication, request(basic())) == 200
            assert await status_of(authentication, request(basic(), peer="10.0.0.1")) == 200
            assert trio.current_time() == began_s
            nursery.cancel_scope.cancel()

    play_logins(scene)


def test_slow_checks_of_one_address_leave_room_for_others() -> None:
    async def scene(authentication: Authentication, users: Users) -> None:
        users.pause_s = 100.0
        statuses: list[int] = []

        async def log_in(user: str, peer: str) -> None:
            statuses.append(await status_of(authentication, request(basic(user), peer=peer)))

        async with trio.open_nursery() as nursery:
            for number in range(2 * MAX_CHECKS_OF_ADDRESS):
                nursery.start_soon(log_in, f"user-{number}", "10.0.0.1")
            await trio.testing.wait_all_tasks_blocked()
            assert statuses == [503] * MAX_CHECKS_OF_ADDRESS
            nursery.start_soon(log_in, "ann", "10.0.0.2")
        assert statuses.count(200) == 1

    play_logins(scene)


def test_tokens_name_their_subject() -> None:
    """The check of a broker's listener serves here too."""

    def validate(token: str) -> ValidToken:
        if token != "a.b.c":
            raise TokenRefusedError("it is none")
        return ValidToken(subject="svc", expires_at_ms=0)

    async def main() -> None:
        check = token_check(validate)
        authentication = Authentication(clock=VirtualClock(), rng=Random(1), check_token=check)
        assert await authentication(request("Bearer a.b.c")) == "User:svc"
        assert await authentication(request("bearer  a.b.c")) == "User:svc"
        for text in ("Bearer x.y.z", "Bearer", "Bearer a b", "Bearer ä", basic()):
            with pytest.raises(HttpError) as refused:
                await authentication(request(text))
            assert refused.value.headers == (("www-authenticate", 'Bearer realm="tidelog"'),)

    trio.run(main)


@given(st.text(max_size=50))
def test_no_header_is_an_error(text: str) -> None:
    """Any credentials are a login or none."""
    parse_basic(text, "")
    parse_basic(base64.b64encode(text.encode()).decode(), "")


@pytest.mark.parametrize("text", ["ann", ":", "ann:", ":secret", "a\nb:secret", "a:" + "x" * 513])
def test_an_incomplete_login_is_none(text: str) -> None:
    """User and password are there, printable and of a usual length."""
    assert parse_basic(base64.b64encode(text.encode()).decode(), "") is None


def test_a_password_may_hold_a_colon() -> None:
    """The first colon ends the user's name (RFC 7617)."""
    login = parse_basic(basic("ann", "a:b").partition(" ")[2], "")
    assert login is not None
    assert (login.user, login.password.reveal()) == ("ann", "a:b")


def test_a_server_asks_for_logins_before_it_reads_a_body() -> None:
    """Public routes need none. A handler sees the principal."""

    async def check(user: str, password: SecretText) -> str | None:
        return f"User:{user}" if password.reveal() == "secret" else None

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(GET)
        assert (answer.status, answer.headers["www-authenticate"].startswith("Basic")) == (
            401,
            True,
        )
        login = f"\r\nAuthorization: {basic()}\r\n\r\n".encode()
        assert (await client.ask(GET.replace(b"\r\n\r\n", login))).status == 200
        assert stage.sample.requests[0].principal == "User:ann"
        assert (await client.ask(GET.replace(b"/hello", b"/healthz"))).status == 200
        assert (await client.ask(GET.replace(b"/hello", b"/readyz"))).status == 503
        head = b"POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n"
        answer = await client.ask(head)
        assert (answer.status, answer.headers["connection"]) == (401, "close")

    authentication = Authentication(
        clock=VirtualClock(now=lambda: 0.0),
        rng=Random(1),
        check_password=check,
    )
    play(scene, routes=health_routes(lambda: "it starts"), authenticate=authentication)


def test_a_password_that_cannot_be_checked_leaves_no_garbage() -> None:
    """A failed check frees the password."""

    class Gone(Users):
        async def check(self, user: str, password: SecretText) -> str | None:
            await trio.lowlevel.checkpoint()
            raise HttpError(503, "the cluster is gone")

    async def main() -> None:
        authentication = Authentication(
            clock=VirtualClock(), rng=Random(1), check_password=Gone().check
        )
        with counted_garbage() as left:
            for _ in range(3):
                assert await status_of(authentication, request(basic())) == 503
        assert left == {}

    trio.run(main, clock=MockClock(autojump_threshold=0))
