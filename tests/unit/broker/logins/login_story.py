"""These stories have a broker whose listener asks for a login.

This module has the properties of such a node, and clients that log in with raw frames.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from log_service.broker.one_error import one_error
from log_service.common.secrets import SecretText
from log_service.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from log_service.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest
from log_service.security.sasl.credentials import ScramMechanism
from log_service.security.sasl.scram import salted_password
from log_service.security.sasl.scram_client import SaltingWanted, ScramClient
from tests.sim import World, sim_run
from tests.unit.broker.context import HOST, PORT, RawClient, Story, running

CLEAR_PORT = 9094
PACKAGE = "org.apache.kafka.common.security"
LISTENER = "listener.name.guarded"
PROPERTIES = {
    "listeners": f"GUARDED://{HOST}:{PORT},PLAINTEXT://{HOST}:{CLEAR_PORT}",
    "listener.security.protocol.map": "GUARDED:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{LISTENER}.plain.sasl.jaas.config": (
        f'{PACKAGE}.plain.PlainLoginModule required user_alice="alice-secret" user_bob="bob-secret";'
    ),
    f"{LISTENER}.scram-sha-256.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule required;",
    f"{LISTENER}.scram-sha-512.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule required;",
}
ITERATIONS = 4096
SALT = b"a-salt-of-kafka"


def plain(name: str = "alice", password: str = "alice-secret") -> bytes:
    return f"\0{name}\0{password}".encode()


class Guest(RawClient):
    """A connection that is not logged in."""

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return await self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    async def authenticate(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        response: SaslAuthenticateResponse = await self.ask(
            SaslAuthenticateRequest(auth_bytes=token), version
        )
        return response

    async def log_in(self, token: bytes = plain()) -> SaslAuthenticateResponse:
        assert (await self.handshake()).error_code == 0
        return await self.authenticate(token)

    async def log_in_by_scram(
        self,
        name: str,
        password: str,
        mechanism: ScramMechanism = ScramMechanism.SHA_256,
        *,
        is_by_token: bool = False,
        before_last: Callable[[], Awaitable[object]] | None = None,
    ) -> Any:
        """Log in; ``before_last`` happens while the broker waits for the last message."""
        assert (await self.handshake(mechanism.mechanism_name)).error_code == 0
        client = ScramClient(mechanism, name, "abc", is_by_token=is_by_token)
        challenge = await self.authenticate(client.first())
        if challenge.error_code:
            return challenge
        wanted = client.evaluate(challenge.auth_bytes)
        assert isinstance(wanted, SaltingWanted)
        salted = salted_password(mechanism, SecretText(password), wanted.salt, wanted.iterations)
        if before_last is not None:
            await before_last()
        response = await self.authenticate(client.resume(salted))
        if not response.error_code:
            client.evaluate(response.auth_bytes)
            assert client.is_complete
        return response


async def guest(node: Story, port: int = PORT) -> Guest:
    return Guest(await node.world.client_env().network.connect(HOST, port))


async def seconds(waiting: Callable[[], Awaitable[object]]) -> float:
    """How long something takes, in virtual time."""
    began = trio.current_time()
    await waiting()
    return trio.current_time() - began


def scram_user(
    name: str,
    password: str,
    mechanism: ScramMechanism = ScramMechanism.SHA_256,
    iterations: int = ITERATIONS,
    salt: bytes = SALT,
) -> Any:
    """The request that sets a user's password."""
    salted = salted_password(mechanism, SecretText(password), salt, iterations).reveal()
    upsertion = ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )
    return AlterUserScramCredentialsRequest(upsertions=[upsertion])


def tell_of_logins(story: Callable[[Story], Awaitable[None]], **properties: str) -> None:
    """Run one story against a broker whose first listener asks for a login.

    Property names are given with underscores.
    """

    async def main(world: World) -> None:
        names = {name.replace("_", "."): value for name, value in properties.items()}
        async with running(world, **{**PROPERTIES, **names}) as node:
            await story(node)

    with one_error():
        sim_run(1, main)
