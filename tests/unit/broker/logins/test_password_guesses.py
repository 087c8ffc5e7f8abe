"""How fast passwords can be guessed at a broker, in virtual time, and whose logins that delays."""

from collections import Counter
from typing import Any

import pytest
import trio

from log_service.broker.logins.login import MAX_DELAYED_COUNT_OF_HOST
from log_service.common.errors import ErrorCode
from log_service.common.guesses import FREE_GUESSES, MAX_STEP_MS, MAX_WAIT_MS
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from log_service.security.sasl.credentials import ScramMechanism
from tests.unit.broker.context import HOST, PORT, Story
from tests.unit.broker.logins.login_story import (
    CLEAR_PORT,
    LISTENER,
    PROPERTIES,
    Guest,
    guest,
    plain,
    scram_user,
    seconds,
    tell_of_logins,
)

REFUSED = ErrorCode.SASL_AUTHENTICATION_FAILED
CLOSED = "closed without a response"
WRONG = plain(password="wrong")
STEADY_GUESSES = 12
"""After so many wrong passwords the time between two turns has reached its bound."""


async def guest_from(node: Story, address: str, port: int = PORT) -> Guest:
    return Guest(await node.world.client_env(address).network.connect(HOST, port))


async def outcome_of(client: Guest, mechanism: str, user: str, password: str) -> object:
    """Log in, and return the code of the response, or that there was none."""
    try:
        if mechanism == "PLAIN":
            return (await client.log_in(plain(user, password))).error_code
        return (await client.log_in_by_scram(user, password, ScramMechanism.SHA_256)).error_code
    except (EOFError, OSError):
        return CLOSED


async def guess(
    node: Story, count: int, mechanism: str = "PLAIN", user: str = "alice", port: int = PORT
) -> None:
    for _ in range(count):
        assert await outcome_of(await guest(node, port), mechanism, user, "wrong") == REFUSED


async def set_password(node: Story, user: str) -> None:
    admin = await guest(node, CLEAR_PORT)
    assert (await admin.ask(scram_user(user, "right"), 0)).results[0].error_code == 0


@pytest.mark.parametrize("user", ["alice", "nobody"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_guesses_one_after_the_other_slow_down(mechanism: str, user: str) -> None:
    """571 guesses a second were possible. A name that is unknown takes as long as a known one."""

    async def story(node: Story) -> None:
        await set_password(node, "alice")
        took = [
            await seconds(lambda: guess(node, 1, mechanism, user)) for _ in range(STEADY_GUESSES)
        ]
        delay_s, steps_ms = (
            0.1,
            [
                *[0] * FREE_GUESSES,
                100,
                300,
                700,
                1_500,
                3_100,
                MAX_STEP_MS - 100,
                MAX_STEP_MS - 100,
            ],
        )
        assert took == pytest.approx([step_ms / 1_000 + delay_s for step_ms in steps_ms], abs=0.02)

    tell_of_logins(story)


def test_guesses_at_once_are_no_faster() -> None:
    """Connections that guess at the same time wait in turns.

    Those whose turn is too far away are closed without a response.
    """

    async def story(node: Story) -> None:
        clients = [await guest(node) for _ in range(64)]
        for client in clients:
            await client.handshake()
        for client in clients:
            await client.send(SaslAuthenticateRequest(auth_bytes=WRONG), 2)
        came: Counter[object] = Counter()

        async def receive(client: Guest) -> None:
            try:
                came[(await client.receive()).error_code] += 1
            except (EOFError, OSError):
                came[CLOSED] += 1

        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(receive, client)
        served = FREE_GUESSES + 5
        assert came == {REFUSED: served, CLOSED: 64 - served}

    tell_of_logins(story)


def test_all_mechanisms_and_listeners_count_together() -> None:
    async def story(node: Story) -> None:
        await set_password(node, "alice")
        await guess(node, 4, "PLAIN")
        await guess(node, 4, "SCRAM-SHA-256")
        await guess(node, 4, "PLAIN", port=OTHER_PORT)
        for mechanism, port in (("SCRAM-SHA-256", PORT), ("PLAIN", OTHER_PORT)):
            assert await seconds(lambda: guess(node, 1, mechanism, port=port)) == pytest.approx(  # noqa: B023
                MAX_STEP_MS / 1_000, abs=0.02
            )

    other = "listener.name.other"
    properties: dict[str, Any] = {
        "listeners": f"{PROPERTIES['listeners']},OTHER://{HOST}:{OTHER_PORT}",
        "listener.security.protocol.map": f"{PROPERTIES['listener.security.protocol.map']},OTHER:SASL_PLAINTEXT",
        f"{other}.plain.sasl.jaas.config": PROPERTIES[f"{LISTENER}.plain.sasl.jaas.config"],
        f"{other}.sasl.enabled.mechanisms": "PLAIN",
    }
    tell_of_logins(story, **properties)


OTHER_PORT = 9095


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_strangers_delay_nobody_elsewhere(mechanism: str) -> None:
    """The right password waits for nothing.

    Wrong ones from other addresses or for other users do not matter.
    """

    async def story(node: Story) -> None:
        await set_password(node, "alice")
        await set_password(node, "bob")
        await guess(node, STEADY_GUESSES, mechanism)
        password = {"PLAIN": ("alice-secret", "bob-secret"), "SCRAM-SHA-256": ("right", "right")}[
            mechanism
        ]

        async def elsewhere() -> None:
            assert (
                await outcome_of(
                    await guest_from(node, "10.9.9.9"), mechanism, "alice", password[0]
                )
                == 0
            )

        async def another_user() -> None:
            assert await outcome_of(await guest(node), mechanism, "bob", password[1]) == 0

        assert await seconds(elsewhere) == pytest.approx(0, abs=0.02)
        assert await seconds(another_user) == pytest.approx(0, abs=0.02)

    tell_of_logins(story)


def test_the_right_password_waits_once_and_then_no_more() -> None:
    async def story(node: Story) -> None:
        await guess(node, STEADY_GUESSES)

        async def log_in() -> None:
            assert await outcome_of(await guest(node), "PLAIN", "alice", "alice-secret") == 0

        assert await seconds(log_in) == pytest.approx(MAX_STEP_MS / 1_000 - 0.1, abs=0.02)
        assert await seconds(log_in) == pytest.approx(0, abs=0.02)

    tell_of_logins(story)


def test_many_right_logins_at_once_wait_for_nothing() -> None:
    """All clients of a host come back at the same time when a broker restarts."""

    async def story(node: Story) -> None:
        async def log_in_all() -> None:
            clients = [await guest(node) for _ in range(50)]
            async with trio.open_nursery() as nursery:
                for client in clients:
                    nursery.start_soon(client.log_in)

        assert await seconds(log_in_all) == pytest.approx(0, abs=0.02)

    tell_of_logins(story)


def test_others_are_served_while_a_guess_waits() -> None:
    async def story(node: Story) -> None:
        await guess(node, STEADY_GUESSES)
        waiting, served = await guest(node), await guest_from(node, "10.9.9.9")
        await served.log_in()
        await waiting.handshake()
        await waiting.send(SaslAuthenticateRequest(auth_bytes=WRONG), 2)

        async def ask() -> None:
            assert (await served.ask(MetadataRequest(topics=None), 12)).brokers

        assert await seconds(ask) == pytest.approx(0, abs=0.02)
        assert (await waiting.receive()).error_code == REFUSED

    tell_of_logins(story)


def test_one_who_leaves_while_waiting_is_not_judged() -> None:
    async def story(node: Story) -> None:
        await guess(node, STEADY_GUESSES)
        leaving = await guest(node)
        await leaving.handshake()
        await leaving.send(SaslAuthenticateRequest(auth_bytes=WRONG), 2)
        await trio.sleep(0.1)
        leaving.close()
        await trio.sleep(MAX_WAIT_MS / 1_000)
        assert node.broker.logins is not None
        logins = node.broker.logins
        assert logins.handlers["GUARDED"].meters["PLAIN"].failure_total == STEADY_GUESSES
        assert repr(logins.gate.waiting) == "<LoginQueue waiting=0>"

    tell_of_logins(story)


def test_a_frame_while_a_guess_waits_ends_the_connection() -> None:
    async def story(node: Story) -> None:
        await guess(node, STEADY_GUESSES)
        client = await guest(node)
        await client.handshake()
        for _ in range(2):
            await client.send(SaslAuthenticateRequest(auth_bytes=plain()), 2)
        assert await client.is_closed()

    tell_of_logins(story)


def test_a_login_that_is_repeated_is_a_guess_like_any_other() -> None:
    """A repeated login is a guess like any other.

    Otherwise a client that is logged in could guess for another user, because the principal is
    compared after the password.
    """

    async def story(node: Story) -> None:
        for _ in range(STEADY_GUESSES):
            client = await guest_from(node, "10.9.9.9")
            await client.log_in()
            await trio.sleep(1)
            assert (await client.log_in(plain("bob", "wrong"))).error_code == REFUSED
        client = await guest_from(node, "10.9.9.9")

        async def log_in() -> None:
            assert (await client.log_in(plain("bob", "bob-secret"))).error_code == 0

        assert await seconds(log_in) > 1

    tell_of_logins(story, connections_max_reauth_ms="60000")


def test_logins_that_wait_have_room_for_each_address() -> None:
    async def story(node: Story) -> None:
        assert node.broker.logins is not None
        gate = node.broker.logins.gate
        users = [f"user {number}" for number in range(MAX_DELAYED_COUNT_OF_HOST + 5)]
        for user in users:
            for host in ("one", "other"):
                for _ in range(FREE_GUESSES):
                    assert gate.begin(host, user) == 0
                    gate.end(host, user, is_right=False)
        waits = [gate.begin("one", user) for user in users]
        assert waits == [200] * MAX_DELAYED_COUNT_OF_HOST + [None] * 5
        assert gate.begin("other", users[0]) == 200
        gate.waiting.leave("one")
        assert gate.begin("one", users[-1]) is not None, "one that was turned away is not in flight"

    tell_of_logins(story)


def test_a_listener_without_delay_has_no_turns() -> None:
    """``connection.failed.authentication.delay.ms=0`` turns off delays and turns.

    Clients behind a proxy have one address.
    """

    async def story(node: Story) -> None:
        assert await seconds(lambda: guess(node, 50)) == pytest.approx(0, abs=0.02)

    tell_of_logins(story, connection_failed_authentication_delay_ms="0")
