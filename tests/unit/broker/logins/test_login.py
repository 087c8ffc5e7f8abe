"""A broker's listener asks for a login, in virtual time.

The tests tell which clients get in, how long a refusal takes, and when connections are closed.
"""

import logging
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import trio

from log_service.broker.logins.login import MAX_DELAYED_COUNT_OF_HOST, LoginQueue
from log_service.common.access import Principal
from log_service.common.errors import ErrorCode
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest
from log_service.security.sasl.credentials import ScramMechanism
from log_service.security.sasl.oauthbearer import INVALID_TOKEN
from tests.sim import World, sim_run
from tests.unit.broker.context import PORT, Story, running
from tests.unit.broker.logins.login_story import (
    CLEAR_PORT,
    LISTENER,
    PACKAGE,
    PROPERTIES,
    guest,
    plain,
    scram_user,
    seconds,
    tell_of_logins,
)
from tests.unit.security.sasl.issuer import unsigned


def test_client_with_the_right_password_is_served_and_one_without_is_not() -> None:
    async def story(node: Story) -> None:
        client = await guest(node)
        versions = await client.ask(
            ApiVersionsRequest(client_software_name="story", client_software_version="1"), 4
        )
        assert {17, 36} <= {api.api_key for api in versions.api_keys}
        assert (await client.log_in()).error_code == 0
        assert (await client.ask(MetadataRequest(topics=None), 12)).brokers
        assert {context.principal for context in principals(node)} >= {Principal("User", "alice")}
        stranger = await guest(node)
        await stranger.send(MetadataRequest(topics=None), 12)
        assert await stranger.is_closed()

    def principals(node: Story) -> list:  # type: ignore[type-arg]
        return [
            connection.context
            for server in node.broker.servers
            for connection in server.connections
        ]

    tell_of_logins(story)


@pytest.mark.parametrize("delay_ms", ["100", "700", "0"])
def test_refusal_is_told_after_the_delay_and_the_connection_closed(delay_ms: str) -> None:
    async def story(node: Story) -> None:
        client = await guest(node)
        await client.handshake()

        async def refused() -> None:
            response = await client.authenticate(plain(password="wrong"))
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert response.error_message == "Authentication failed: Invalid username or password"

        assert await seconds(refused) == pytest.approx(int(delay_ms) / 1_000, abs=0.02)
        assert await client.is_closed()
        assert node.broker.logins is not None
        assert node.broker.logins.refusals.__repr__() == "<LoginQueue waiting=0>"

    tell_of_logins(story, connection_failed_authentication_delay_ms=delay_ms)


def test_unknown_mechanism_is_refused_after_the_delay() -> None:
    async def story(node: Story) -> None:
        client = await guest(node)

        async def refused() -> None:
            response = await client.handshake("GSSAPI")
            assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert set(response.mechanisms) == {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

        assert await seconds(refused) == pytest.approx(0.1, abs=0.02)
        assert await client.is_closed()

    tell_of_logins(story)


def test_nothing_is_handled_while_a_refusal_waits() -> None:
    """Guessing on one connection would otherwise cost nothing."""

    async def story(node: Story) -> None:
        client = await guest(node)
        await client.handshake()
        await client.send(SaslAuthenticateRequest(auth_bytes=plain(password="wrong")), 2)
        await client.send(SaslAuthenticateRequest(auth_bytes=plain()), 2)
        assert (await client.receive()).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises((EOFError, OSError)):
            await client.receive()

    tell_of_logins(story)


def test_bare_tokens_of_old_clients() -> None:
    async def story(node: Story) -> None:
        client = await guest(node)
        assert (await client.handshake(version=0)).error_code == 0
        await client.send_bytes(len(plain()).to_bytes(4, "big") + plain())
        assert await client.receive_frame() == b""
        assert (await client.ask(MetadataRequest(topics=None), 1)).brokers
        refused = await guest(node)
        await refused.handshake(version=0)
        await refused.send_bytes(b"\0\0\0\x03abc")
        assert await refused.is_closed()

    tell_of_logins(story)


def test_frame_before_the_login_is_bound_and_after_it_is_not() -> None:
    async def story(node: Story) -> None:
        client = await guest(node)
        await client.send_bytes((2_001).to_bytes(4, "big"))
        assert await client.is_closed()
        client = await guest(node)
        await client.log_in()
        assert (
            await client.ask(
                MetadataRequest(
                    topics=[],
                ),
                12,
            )
        ).brokers
        await client.send_bytes((5_000).to_bytes(4, "big"))
        assert not await client.is_closed()
        client.close()

    tell_of_logins(story, sasl_server_max_receive_size="2000")


def test_client_that_does_not_log_in_is_sent_away() -> None:
    async def story(node: Story) -> None:
        silent, half = await guest(node), await guest(node)
        await half.handshake()
        await trio.sleep(50)
        assert not await silent.is_closed()
        await trio.sleep(25)
        assert await silent.is_closed()
        assert await half.is_closed()
        logged_in = await guest(node)
        await logged_in.log_in()
        await trio.sleep(200)
        assert (await logged_in.ask(MetadataRequest(topics=None), 12)).brokers

    tell_of_logins(story)


def test_login_that_ends_is_repeated_or_costs_the_connection() -> None:
    async def story(node: Story) -> None:
        one, other = await guest(node), await guest(node)
        for client in (one, other):
            assert (await client.log_in()).session_lifetime_ms == 5_000
        await trio.sleep(4)
        assert (await one.log_in()).session_lifetime_ms == 5_000
        await trio.sleep(2)
        assert (await one.ask(MetadataRequest(topics=None), 12)).brokers
        await other.send(MetadataRequest(topics=None), 12)
        assert await other.is_closed()
        assert node.broker.logins is not None
        meter = node.broker.logins.handlers["GUARDED"].meters["PLAIN"]
        assert (meter.success_total, meter.repeated_success_total, meter.expired_total) == (2, 1, 1)

    tell_of_logins(story, connections_max_reauth_ms="5000")


def test_lifetime_of_one_mechanism() -> None:
    async def story(node: Story) -> None:
        assert (await (await guest(node)).log_in()).session_lifetime_ms == 9_000

    tell_of_logins(
        story,
        **{
            "connections_max_reauth_ms": "5000",
            f"{LISTENER}.plain.connections.max.reauth.ms": "9000",
        },
    )


@pytest.mark.parametrize("port", [PORT, CLEAR_PORT])
def test_login_that_is_not_due_is_refused_and_the_connection_stays(port: int) -> None:
    async def story(node: Story) -> None:
        client = await guest(node, port)
        if port == PORT:
            await client.log_in()
        for version in (0, 1):
            response = await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
            assert (response.error_code, list(response.mechanisms)) == (
                ErrorCode.ILLEGAL_SASL_STATE,
                [],
            )
        for version in (0, 1, 2):
            assert (
                await client.authenticate(plain(), version)
            ).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.ask(MetadataRequest(topics=None), 12)).brokers

    tell_of_logins(story)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_scram_user_of_the_metadata(mechanism: ScramMechanism) -> None:
    async def story(node: Story) -> None:
        admin = await guest(node, CLEAR_PORT)
        (result,) = (await admin.ask(scram_user("carol", "carol-secret", mechanism), 0)).results
        assert result.error_code == 0
        client = await guest(node)
        assert (await client.log_in_by_scram("carol", "carol-secret", mechanism)).error_code == 0
        assert (await client.ask(MetadataRequest(topics=None), 12)).brokers

        async def refused(name: str, password: str) -> None:
            stranger = await guest(node)
            response = await stranger.log_in_by_scram(name, password, mechanism)
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            text = f"invalid credentials with SASL mechanism {mechanism.mechanism_name}"
            assert response.error_message.endswith(text)
            assert await stranger.is_closed()

        await refused("carol", "wrong")
        await refused("nobody", "carol-secret")

    tell_of_logins(story)


def test_revoked_user_is_out_when_the_login_ends() -> None:
    async def story(node: Story) -> None:
        admin = await guest(node, CLEAR_PORT)
        await admin.ask(scram_user("carol", "carol-secret"), 0)
        client = await guest(node)
        await client.log_in_by_scram("carol", "carol-secret")
        request = scram_user("carol", "another-secret")
        assert (await admin.ask(request, 0)).results[0].error_code == 0
        await trio.sleep(4)
        assert (await client.ask(MetadataRequest(topics=None), 12)).brokers
        refused = await client.log_in_by_scram("carol", "carol-secret")
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.is_closed()

    tell_of_logins(story, connections_max_reauth_ms="5000")


def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: Story) -> None:
        for token in (plain(password="planted-wrong"), b"\xffplanted-odd"):
            client = await guest(node)
            await client.handshake()
            await client.authenticate(token)
        client = await guest(node)
        await client.log_in()
        await client.send_bytes(b"\0\0\0\x0eplanted-rubbish"[:18])
        assert await client.is_closed()

    with caplog.at_level(logging.DEBUG):
        tell_of_logins(story)
    assert any("Refusing a login" in line for line in caplog.messages)
    assert not [line for line in caplog.messages if "planted" in line or "alice-secret" in line]


def test_client_that_leaves_when_its_token_is_refused_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It need not ask for the refusal: guessing tokens would be seen nowhere."""

    async def story(node: Story) -> None:
        client = await guest(node)
        assert (await client.handshake("OAUTHBEARER")).error_code == 0
        told = await client.authenticate(f"n,,\x01auth=Bearer {unsigned(exp=1)}\x01\x01".encode())
        assert (told.error_code, told.auth_bytes) == (0, INVALID_TOKEN)
        client.close()
        await trio.sleep(1)
        assert node.broker.logins is not None
        assert node.broker.logins.handlers["GUARDED"].meters["OAUTHBEARER"].failure_total == 1

    jaas = {
        f"{LISTENER}.oauthbearer.sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;"
    }
    tell_of_logins(
        story,
        **jaas,
        sasl_enabled_mechanisms="PLAIN,OAUTHBEARER",
        sasl_oauthbearer_unsecured_tokens_allowed="true",
    )
    assert "the token was refused: the token has expired" in caplog.text


def test_flood_of_refusals_waits_within_bounds() -> None:
    async def story(node: Story) -> None:
        closed = 0
        clients = [await guest(node) for _ in range(MAX_DELAYED_COUNT_OF_HOST + 5)]
        for number, client in enumerate(clients):
            await client.handshake()
            await client.send(
                SaslAuthenticateRequest(auth_bytes=plain(f"user {number}", "wrong")), 2
            )
        for client in clients:
            try:
                assert (await client.receive()).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            except (EOFError, OSError):
                closed += 1
        assert closed == 5
        assert (await (await guest(node)).log_in()).error_code == 0

    tell_of_logins(story, connection_failed_authentication_delay_ms="60000")


def test_refusals_of_one_address_leave_room_for_others() -> None:
    queue = LoginQueue()
    assert all(queue.try_enter("one") for _ in range(MAX_DELAYED_COUNT_OF_HOST))
    assert not queue.try_enter("one")
    assert queue.try_enter("other")
    queue.leave("one")
    assert queue.try_enter("one")


@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_before_the_login_harm_the_node(seed: int) -> None:
    """No bytes before a login harm the node.

    They are good frames, cut, changed and mixed. Afterwards the node serves a client that logs
    in, and no other session is left.
    """
    rng = Random(seed)
    good = [
        frame_of(ApiVersionsRequest(client_software_name="story", client_software_version="1"), 4),
        *(
            frame_of(SaslHandshakeRequest(mechanism=name), version)
            for name in ("PLAIN", "SCRAM-SHA-256")
            for version in (0, 1)
        ),
        *(
            frame_of(SaslAuthenticateRequest(auth_bytes=token), 2)
            for token in (plain(password="wrong"), b"n,,n=alice,r=abc", b"")
        ),
        frame_of(MetadataRequest(topics=None), 12),
    ]

    async def story(node: Story) -> None:
        for _ in range(60):
            client = await guest(node)
            content = b"".join(rng.choice(good) for _ in range(rng.randint(1, 4)))
            spoilt = bytearray(
                content[: rng.randint(1, len(content))] if rng.random() < 0.5 else content
            )
            for _ in range(rng.randint(0, 3)):
                spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
            with suppress(OSError):
                await client.send_bytes(bytes(spoilt))
            client.close()
        await trio.sleep(5)
        survivor = await guest(node)
        assert (await survivor.log_in()).error_code == 0
        assert (await survivor.ask(MetadataRequest(topics=None), 12)).brokers
        assert node.broker.logins is not None
        assert node.broker.logins.handlers["GUARDED"].session_count == 1

    tell_of_logins(story)


def frame_of(request: Any, version: int) -> bytes:
    chunks: list[Any] = encode_request(
        RequestHeader(request.SCHEMA.key, version, 7, "story"), request
    )
    return b"".join(chunks)


# Users of PLAIN that change while the node runs


JAAS_KEY = f"{LISTENER}.plain.sasl.jaas.config"


def jaas(*users: str) -> str:
    return f"{PACKAGE}.plain.PlainLoginModule required {' '.join(users)};"


async def change_users(node: Story, text: str | None, key: str = JAAS_KEY) -> Any:
    """Set the text, or take it back, over the listener in the clear."""
    operation = 1 if text is None else 0
    configs = [AlterableConfig(name=key, config_operation=operation, value=text)]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=configs)]
    )
    response = (await (await guest(node, CLEAR_PORT)).ask(request, 1)).responses[0]
    await trio.sleep(0.1)
    return response


async def who_gets_in(node: Story) -> set[str]:
    users = {"alice": "alice-secret", "bob": "bob-secret", "dave": "dave-secret"}
    return {
        name
        for name, password in users.items()
        if (await (await guest(node)).log_in(plain(name, password))).error_code == 0
    }


def test_users_of_plain_change_while_a_node_runs() -> None:
    async def story(node: Story) -> None:
        early = await guest(node)
        await early.log_in()
        assert (
            await change_users(node, jaas('user_dave="dave-secret"', 'user_bob="bob-secret"'))
        ).error_code == 0
        assert await who_gets_in(node) == {"dave", "bob"}
        assert (await early.ask(MetadataRequest(topics=None), 12)).brokers, (
            "who has logged in goes on"
        )
        assert (await change_users(node, None)).error_code == 0
        assert await who_gets_in(node) == {"alice", "bob"}, "those of the file again"

    tell_of_logins(story)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rubbish", "the login module of PLAIN on listener GUARDED"),
        (
            f"{PACKAGE}.scram.ScramLoginModule required;",
            "is org.apache.kafka.common.security.scram.ScramLoginModule, which is for",
        ),
    ],
)
def test_users_stay_where_a_change_cannot_be_used(text: str, complaint: str) -> None:
    async def story(node: Story) -> None:
        refused = await change_users(node, text)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert complaint in refused.error_message
        assert "secret" not in refused.error_message
        assert await who_gets_in(node) == {"alice", "bob"}

    tell_of_logins(story)


def test_what_a_listener_asks_of_clients_is_named_where_a_request_sets_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A request that changes a listener's demands on clients names them in the log.

    Existing listeners do not change, as in Apache Kafka. PLAIN goes on, and an operator who
    turned it off must hear of it.
    """

    async def story(node: Story) -> None:
        configs = [
            AlterableConfig(name=f"{LISTENER}.sasl.enabled.mechanisms", value="SCRAM-SHA-512"),
            AlterableConfig(
                name=f"{LISTENER}.scram-sha-512.sasl.jaas.config",
                value=f"{PACKAGE}.scram.ScramLoginModule required;",
            ),
            AlterableConfig(name=f"{LISTENER}.plain.connections.max.reauth.ms", value="5000"),
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=configs)]
        )
        admin = await guest(node, CLEAR_PORT)
        for _ in range(2):
            assert (await admin.ask(request, 1)).responses[0].error_code == 0
        await trio.sleep(0.1)
        assert (await (await guest(node)).log_in()).session_lifetime_ms == 0

    tell_of_logins(story)
    (told,) = [line for line in caplog.messages if "count from its file alone" in line]
    named = f"{LISTENER}.plain.connections.max.reauth.ms, {LISTENER}.sasl.enabled.mechanisms; set them there"
    assert named in told, "the third says what the file says"


def test_users_that_were_changed_hold_after_a_restart() -> None:
    async def whole(world: World) -> None:
        async with running(world, **PROPERTIES) as node:
            assert (await change_users(node, jaas('user_dave="dave-secret"'))).error_code == 0
        async with running(world, **PROPERTIES) as node:
            assert await who_gets_in(node) == {"dave"}

    sim_run(1, whole)
