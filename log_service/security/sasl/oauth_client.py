"""The client's side of OAUTHBEARER (RFC 7628, KIP-255).

The client sends one message with a token. A broker that refuses it sends its reasons.
"""

import re
from collections.abc import Mapping
from typing import Final

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.security.sasl.jaas import JaasEntry
from log_service.security.sasl.mechanisms import LoginError

SEPARATOR = "\x01"
MAX_REASON_LENGTH = 500
EXTENSION: Final = "extension_"
EXTENSION_NAME: Final = re.compile(r"(?!auth$)[A-Za-z]+")
EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
NO_EXTENSIONS: Final[Mapping[str, str]] = {}


def extensions_of(entry: JaasEntry) -> dict[str, str]:
    """Return the SASL extensions (KIP-342) that a JAAS text sets as ``extension_<name>``.

    Raises:
        ConfigError: RFC 7628 does not allow a name or a value.
    """
    found = {
        name.removeprefix(EXTENSION): value.reveal()
        for name, value in entry.options.items()
        if name.startswith(EXTENSION)
    }
    for name, value in found.items():
        if not EXTENSION_NAME.fullmatch(name) or not EXTENSION_VALUE.fullmatch(value):
            raise ConfigError(
                f"{EXTENSION}{name} of sasl_jaas_config: a name has letters alone and is not auth,"
                " a value has visible ASCII"
            )
    return found


class OAuthClient:
    """A login with a bearer token and extensions."""

    def __init__(self, token: SecretText, extensions: Mapping[str, str] = NO_EXTENSIONS) -> None:
        self._token = token
        self._extensions = extensions
        self._is_refused = False

    def __repr__(self) -> str:
        return "<OAuthClient>"

    @property
    def is_complete(self) -> bool:
        """Whether the client has nothing more to send."""
        return not self._is_refused

    def first(self) -> bytes:
        """Return the message with the token.

        Raises:
            LoginError: the token cannot be sent.
        """
        token = self._token.reveal()
        if not token.isascii() or not token.isprintable() or " " in token:
            raise LoginError("the token has characters that no token has")
        pairs = [
            f"auth=Bearer {token}",
            *(f"{name}={value}" for name, value in self._extensions.items()),
        ]
        return f"n,,{SEPARATOR}{''.join(pair + SEPARATOR for pair in pairs)}{SEPARATOR}".encode()

    def evaluate(self, token: bytes) -> bytes:
        """Process the broker's reasons for a refusal, and return the byte that ends the login.

        Raises:
            LoginError: the broker sends yet another token.
        """
        if self._is_refused:
            raise LoginError(
                "the broker refused the token:"
                f" {token[:MAX_REASON_LENGTH].decode(errors='replace')}"
            )
        self._is_refused = True
        return SEPARATOR.encode()
