"""PLAIN (RFC 4616), both sides: user name and password in one token, in the clear.

The token is ``[authorization id] NUL user name NUL password`` in UTF-8. Refusals have Apache
Kafka's texts, because clients show them.

Invariants: an unknown user costs the same comparison as a known one, with as many bytes as the sent
password, and gets the same refusal. The password is checked before the authorization id.
"""

import hmac
from collections.abc import Mapping

from log_service.common.access import Principal
from log_service.common.secrets import SecretText
from log_service.security.sasl.mechanisms import Accepted, LoginError, Outcome, Refused

SEPARATOR = "\0"
MAX_TOKENS = 4
"""The most parts that are counted for the text of a refusal."""


class PlainServer:
    """One PLAIN login on the broker's side. ``users`` are passwords by user name."""

    def __init__(self, users: Mapping[str, SecretText]) -> None:
        self._users = users

    def guessed_user(self, token: bytes) -> str | None:
        """Return the user that the client's only token names, or None if it names none."""
        parts = _parts(token)
        return (parts[1] or None) if parts is not None and len(parts) == 3 else None

    def evaluate(self, token: bytes) -> Outcome:
        """Decide on the client's only token."""
        parts = _parts(token)
        if parts is None:
            return Refused(reason="the PLAIN token is not UTF-8")
        if len(parts) != 3:
            return _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, name, password = parts
        complaint = self._complaint(authorization_id, name, password)
        return (
            Accepted(principal=Principal("User", name))
            if complaint is None
            else _refused(f"Authentication failed: {complaint}")
        )

    def _complaint(self, authorization_id: str, name: str, password: str) -> str | None:
        if not name:
            return "username not specified"
        if not password:
            return "password not specified"
        if not _is_password_of(self._users.get(name), password):
            return "Invalid username or password"
        if authorization_id not in ("", name):
            return "Client requested an authorization id that is different from username"
        return None


def _parts(token: bytes) -> list[str] | None:
    try:
        return token.decode().split(SEPARATOR, MAX_TOKENS - 1)
    except UnicodeDecodeError:
        return None


def _is_password_of(expected: SecretText | None, password: str) -> bool:
    given = password.encode()
    wanted = bytes(len(given)) if expected is None else expected.reveal().encode()
    return hmac.compare_digest(wanted, given) and expected is not None


def _refused(text: str) -> Refused:
    return Refused(reason=text, client_text=text)


class PlainClient:
    """One PLAIN login on the client's side, as ``name`` with ``password``."""

    is_complete = True

    def __init__(self, name: str, password: SecretText) -> None:
        self._name = name
        self._password = password

    def __repr__(self) -> str:
        return f"<PlainClient {self._name}>"

    def first(self) -> bytes:
        """Return the token with name and password.

        Raises:
            LoginError: name or password cannot be sent.
        """
        password = self._password.reveal()
        if not self._name or not password:
            raise LoginError("PLAIN needs a user name and a password; one of them is empty")
        if SEPARATOR in self._name or SEPARATOR in password:
            raise LoginError("PLAIN cannot carry a NUL in a user name or a password")
        return f"{SEPARATOR}{self._name}{SEPARATOR}{password}".encode()

    def evaluate(self, token: bytes) -> bytes:
        """Refuse a challenge, because PLAIN has none.

        Raises:
            LoginError: always.
        """
        raise LoginError(
            f"the broker sent {len(token)} bytes after a PLAIN login, which takes one token"
        )
