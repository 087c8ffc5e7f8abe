"""A SCRAM login from end to end, for tests: both sides, with any message changed on its way."""

from collections.abc import Callable, Mapping

from log_service.common.secrets import SecretText
from log_service.security.sasl.credentials import ScramCredential, ScramMechanism
from log_service.security.sasl.mechanisms import Accepted, Challenge, Outcome
from log_service.security.sasl.scram import (
    credential_from,
    decoy_credential,
    salted_password,
    usual_shape,
)
from log_service.security.sasl.scram_client import SaltingWanted, ScramClient
from log_service.security.sasl.scram_server import ScramServer

Change = Callable[[bytes], bytes]


def unchanged(token: bytes) -> bytes:
    return token


def credential(
    mechanism: ScramMechanism,
    password: str,
    *,
    salt: bytes = b"a-salt-of-kafka",
    iterations: int = 4096,
) -> ScramCredential:
    return credential_from(
        mechanism,
        salted_password(mechanism, SecretText(password), salt, iterations),
        salt,
        iterations,
    )


def new_server(
    mechanism: ScramMechanism, users: Mapping[str, ScramCredential], nonce: str = "of-the-server"
) -> ScramServer:
    shape = usual_shape(users.values())

    def decoy(name: str, _is_of_token: bool) -> ScramCredential:
        return decoy_credential(mechanism, name, shape, b"secret")

    return ScramServer(mechanism, nonce, find=users.get, decoy=decoy)


def answer(client: ScramClient, token: bytes, password: str) -> bytes:
    """Return the client's next message; salting is done here."""
    wanted = client.evaluate(token)
    if isinstance(wanted, SaltingWanted):
        return client.resume(
            salted_password(wanted.mechanism, SecretText(password), wanted.salt, wanted.iterations)
        )
    return wanted


def log_in(
    server: ScramServer, client: ScramClient, password: str, change_final: Change = unchanged
) -> Outcome:
    outcome = server.evaluate(client.first())
    if not isinstance(outcome, Challenge):
        return outcome
    outcome = server.evaluate(change_final(answer(client, outcome.token, password)))
    if isinstance(outcome, Accepted):
        assert answer(client, outcome.token, password) == b""
        assert client.is_complete
    return outcome
