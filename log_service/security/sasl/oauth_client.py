"""The client's side of OAUTHBEARER (RFC 7628, KIP-255): one message with a token, and the broker's reasons where it refuses it."""

from log_service.common.secrets import SecretText
from log_service.security.sasl.mechanisms import LoginError

SEPARATOR = "\x01"
MAX_REASON_LENGTH = 500


class OAuthClient:
    """A login with a bearer token."""

    def __init__(self, token: SecretText) -> None:
        self._token = token
        self._is_refused = False

    def __repr__(self) -> str:
        return "<OAuthClient>"

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is to be said."""
        return not self._is_refused

    def first(self) -> bytes:
        """Return the message.

        Raises:
            LoginError: the token cannot be sent.
        """
        token = self._token.reveal()
        if not token.isascii() or not token.isprintable() or " " in token:
            raise LoginError("the token has characters that no token has")
        return f"n,,{SEPARATOR}auth=Bearer {token}{SEPARATOR}{SEPARATOR}".encode()

    def evaluate(self, token: bytes) -> bytes:
        """Take the broker's reasons for a refusal, and return the byte that makes it end the login.

        Raises:
            LoginError: the broker goes on after that.
        """
        if self._is_refused:
            raise LoginError(f"the broker refused the token: {token[:MAX_REASON_LENGTH].decode(errors='replace')}")
        self._is_refused = True
        return SEPARATOR.encode()
