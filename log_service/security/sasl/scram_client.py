"""The client's side of SCRAM: makes two messages and checks the broker's (RFC 5802, section 5).

This module limits the number of iterations that a broker may demand. With too few iterations a
broker could guess the password. Too many would keep this process busy. Salting takes milliseconds,
so the caller does it. ``evaluate`` returns the request for it, and ``resume`` takes the result.
"""

import hmac
from dataclasses import dataclass, field
from enum import Enum

from log_service.common.secrets import SecretBytes
from log_service.security.sasl.credentials import ScramMechanism
from log_service.security.sasl.mechanisms import LoginError
from log_service.security.sasl.scram import (
    MIN_ITERATIONS,
    TOKEN_AUTHENTICATION,
    MalformedError,
    ServerFirst,
    client_key,
    client_proof,
    escaped,
    parse_server_final,
    parse_server_first,
    server_key,
    server_signature,
    to_base64,
)

MAX_CLIENT_ITERATIONS = 65_536
"""Four times the most that a broker stores.

A broker that asks for more means to keep its clients busy.
"""
MAX_SALT_BYTES = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class SaltingWanted:
    """A request to salt the password."""

    mechanism: ScramMechanism
    salt: bytes = field(repr=False)
    iterations: int


class _Stage(Enum):
    BEGUN = "nothing"
    FIRST_SENT = "the broker's first message"
    SALTING = "the salted password"
    FINAL_SENT = "the broker's last message"
    COMPLETE = "nothing more"


class ScramClient:
    """One login as ``name``, with a fresh ``nonce``.

    ``is_by_token`` means a login by delegation token (KIP-48). It uses the token's id as the name
    and its HMAC as the password.
    """

    def __init__(
        self, mechanism: ScramMechanism, name: str, nonce: str, *, is_by_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._nonce = nonce
        extension = f",{TOKEN_AUTHENTICATION}=true" if is_by_token else ""
        self._name = name
        self._bare = f"n={escaped(name)},r={nonce}{extension}"
        self._stage = _Stage.BEGUN
        self._server_first_text = ""
        self._server_first: ServerFirst | None = None
        self._expected_signature = b""

    def __repr__(self) -> str:
        return (
            f"<ScramClient {self._mechanism.mechanism_name} {self._name} waits for"
            f" {self._stage.value}>"
        )

    @property
    def is_complete(self) -> bool:
        """Whether the broker has proved that it knows the credential."""
        return self._stage is _Stage.COMPLETE

    def first(self) -> bytes:
        """Return the first message.

        Raises:
            LoginError: the user name cannot be sent.
        """
        if not self._name or "\0" in self._name:
            raise LoginError("SCRAM needs a user name, without a NUL in it")
        self._stage = _Stage.FIRST_SENT
        return f"n,,{self._bare}".encode()

    def evaluate(self, token: bytes) -> bytes | SaltingWanted:
        """Process a broker's message, and return a salting request, or empty bytes at the end.

        Raises:
            LoginError: the message is malformed or demands too few or too many iterations, or the
                broker does not know the credential.
        """
        try:
            if self._stage is _Stage.FIRST_SENT:
                return self._take_first(token)
            if self._stage is _Stage.FINAL_SENT:
                return self._take_final(parse_server_final(token))
        except MalformedError as error:
            raise LoginError(f"the broker sent a malformed SCRAM message: {error}") from None
        raise LoginError(
            f"the broker sent a SCRAM message where the client waits for {self._stage.value}"
        )

    def resume(self, salted: SecretBytes) -> bytes:
        """Return the last message, made with the requested salted password."""
        assert self._stage is _Stage.SALTING
        assert self._server_first is not None
        binding = to_base64(b"n,,")
        without_proof = f"c={binding},r={self._server_first.nonce}"
        auth_message = f"{self._bare},{self._server_first_text},{without_proof}".encode()
        proof = client_proof(self._mechanism, client_key(self._mechanism, salted), auth_message)
        self._expected_signature = server_signature(
            self._mechanism, server_key(self._mechanism, salted), auth_message
        )
        self._stage = _Stage.FINAL_SENT
        return f"{without_proof},p={to_base64(proof)}".encode()

    def _take_first(self, token: bytes) -> SaltingWanted:
        first = parse_server_first(token)
        if not first.nonce.startswith(self._nonce) or first.nonce == self._nonce:
            raise LoginError(
                "the broker's nonce does not begin with the client's, or adds nothing to it"
            )
        if not MIN_ITERATIONS <= first.iterations <= MAX_CLIENT_ITERATIONS:
            bounds = f"{MIN_ITERATIONS} to {MAX_CLIENT_ITERATIONS}"
            raise LoginError(
                f"the broker asks for {first.iterations} SCRAM iterations; this client takes"
                f" {bounds}"
            )
        if not 0 < len(first.salt) <= MAX_SALT_BYTES:
            raise LoginError(
                f"the broker sent a SCRAM salt of {len(first.salt)} bytes; this client takes 1 to"
                f" {MAX_SALT_BYTES}"
            )
        self._server_first_text, self._server_first = token.decode(), first
        self._stage = _Stage.SALTING
        return SaltingWanted(
            mechanism=self._mechanism, salt=first.salt, iterations=first.iterations
        )

    def _take_final(self, signature: bytes) -> bytes:
        if not hmac.compare_digest(signature, self._expected_signature):
            raise LoginError(
                "the broker does not know the user's credential: it may be another than it says"
            )
        self._stage = _Stage.COMPLETE
        return b""
