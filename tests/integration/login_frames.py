"""Logs in by raw frames, so that tests can compare two brokers step by step.

It also has the properties of nodes that ask for a login.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from log_service.common.secrets import SecretText
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest
from log_service.security.sasl.credentials import ScramMechanism
from log_service.security.sasl.scram import salted_password
from log_service.security.sasl.scram_client import SaltingWanted, ScramClient
from tests.integration.differential import normalise
from tests.integration.wire import Wire

PACKAGE = "org.apache.kafka.common.security"
ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
ALICE, ALICE_PASSWORD = "alice", "alice-secret"
CAROL, CAROL_PASSWORD = "carol", "carol-secret"
CLOSED = "closed"
CLOSE_SECONDS = 5.0
VERSIONS = ApiVersionsRequest(client_software_name="story", client_software_version="1")

LOGIN_PROPERTIES: Mapping[str, str] = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PACKAGE}.plain.PlainLoginModule required username="{ADMIN}" password="{ADMIN_PASSWORD}" '
        f'user_{ADMIN}="{ADMIN_PASSWORD}" user_{ALICE}="{ALICE_PASSWORD}";'
    ),
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule required;",
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule required;",
}
"""The listener that clients connect to asks for a login; it is called PLAINTEXT, as it is without
these properties.
"""


def plain(name: str = ALICE, password: str = ALICE_PASSWORD, authorization: str = "") -> bytes:
    return f"{authorization}\0{name}\0{password}".encode()


def scram_change(
    name: str, password: str, mechanism: ScramMechanism, /, **wrong: Any
) -> ScramCredentialUpsertion:
    """Return the change that sets a user's password.

    ``wrong`` replaces fields.
    """
    salt = b"0123456789abcdefghijklmnop"
    salted = salted_password(mechanism, SecretText(password), salt, 4096).reveal()
    fields = {
        "name": name,
        "mechanism": mechanism,
        "iterations": 4096,
        "salt": salt,
        "salted_password": salted,
        **wrong,
    }
    return ScramCredentialUpsertion(**fields)


def alter_users(
    *changes: ScramCredentialUpsertion | ScramCredentialDeletion,
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, ScramCredentialDeletion)],
        upsertions=[change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )


class LoginWire(Wire):
    """A connection whose steps return the broker's reactions, as values that JSON knows.

    ``closed`` means that it closed the connection.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.bootstrap = bootstrap

    def told(self, request: Any, version: int) -> Any:
        return self._told(lambda: normalise(self.ask(request, version)))

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        told = self._told(lambda: self.ask(SaslHandshakeRequest(mechanism=mechanism), version))
        return told if told == CLOSED else [told.error_code, sorted(told.mechanisms)]

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        told = self._told(lambda: self.ask(SaslAuthenticateRequest(auth_bytes=token), version))
        return (
            told
            if told == CLOSED
            else [
                told.error_code,
                told.error_message,
                told.auth_bytes.hex(),
                told.session_lifetime_ms,
            ]
        )

    def bare(self, token: bytes) -> Any:
        """Send a token without a header."""
        self.send_frame(token)
        return self._told(lambda: self.receive_frame().hex())

    def raw(self, content: bytes) -> Any:
        """Send a frame of any bytes."""
        self.send_frame(content)
        return self._told(lambda: self.receive_frame().hex())

    def header(self, key: ApiKey, version: int, body: bytes = b"") -> Any:
        """Send a request's header, and bytes for its body; tells what came back, byte by byte."""
        self.send_header(key, version, body)
        return self._told(lambda: self.receive_frame().hex())

    def versions(self, version: int) -> Any:
        """Ask for versions in a version that may not exist.

        Return the first bytes of the response, its error code among them.
        """
        chunks: list[Any] = encode_request(
            RequestHeader(ApiKey.API_VERSIONS, 4, 7, "wire"), VERSIONS
        )
        frame = b"".join(chunks)[4:]
        told = self.raw(frame[:2] + version.to_bytes(2, "big") + frame[4:])
        return told if told == CLOSED else told[:12]

    def later(self) -> Self:
        """Let a login of a millisecond end."""
        time.sleep(0.02)
        return self

    def log_in(self, name: str = ADMIN, password: str = ADMIN_PASSWORD) -> Any:
        return [self.handshake(), self.authenticate(plain(name, password))]

    def scram(
        self,
        mechanism: ScramMechanism,
        name: str,
        password: str,
        change: Callable[[bytes], bytes] = bytes,
        *,
        is_by_token: bool = False,
    ) -> list[Any]:
        """Log in by SCRAM; tells the codes and texts of both rounds, and whether the broker proved
        itself. ``change`` alters the last.
        """
        told: list[Any] = [self.handshake(mechanism.mechanism_name)[0]]
        client = ScramClient(mechanism, name, "client-nonce", is_by_token=is_by_token)
        first = self._told(lambda: self.ask(SaslAuthenticateRequest(auth_bytes=client.first()), 2))
        if first == CLOSED or first.error_code:
            return [*told, CLOSED if first == CLOSED else [first.error_code, first.error_message]]
        wanted = client.evaluate(first.auth_bytes)
        assert isinstance(wanted, SaltingWanted)
        final = change(
            client.resume(
                salted_password(mechanism, SecretText(password), wanted.salt, wanted.iterations)
            )
        )
        last = self._told(lambda: self.ask(SaslAuthenticateRequest(auth_bytes=final), 2))
        if last == CLOSED or last.error_code:
            return [*told, CLOSED if last == CLOSED else [last.error_code, last.error_message]]
        client.evaluate(last.auth_bytes)
        return [*told, client.is_complete, last.session_lifetime_ms]

    def end(self) -> str:
        """Tell whether the broker closes the connection."""
        return CLOSED if self.is_closed_by_broker(CLOSE_SECONDS) else "open"

    def _told(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except (ConnectionError, BrokenPipeError):
            return CLOSED
