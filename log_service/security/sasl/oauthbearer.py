"""The broker's side of OAUTHBEARER (RFC 7628, KIP-255): parses the token and has it validated.

    client-first   n,[a=<authorization id>], ^A auth=Bearer <token> ^A [<key>=<value> ^A]... ^A

After a refused token the broker sends a JSON text with the status, the client sends one byte, and
the login has failed. Extensions are parsed and ignored. Keys and claims are not known here, because
``validate`` is passed in.

Invariants: each login takes one token, because a second one would be a guess without a delay. No
outcome shows a token.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from log_service.common.access import Principal
from log_service.security.sasl.mechanisms import Accepted, Challenge, Outcome, Refused

FIRST: Final = re.compile(r"n,(?:a=(?P<authorization>[^,]*))?,\x01(?P<pairs>.*)\x01", re.DOTALL)
PAIR: Final = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]+)")
BEARER: Final = re.compile(
    r"(?P<scheme>[!#$%&'*+.^_`|~0-9A-Za-z-]+) +(?P<token>[-_.~+/0-9A-Za-z]+=*)"
)
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
MAX_TOKEN_LENGTH: Final = 1 << 16
"""The most characters of a token. Those of identity providers have a few thousand."""


class TokenRefusedError(Exception):
    """A token is refused. The text is for the broker's log and shows no part of the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidToken:
    """The claims of a validated token."""

    subject: str
    expires_at_ms: int
    scopes: frozenset[str] = frozenset()


Validate = Callable[[str], ValidToken]
"""Checks a token. Raises TokenRefusedError."""


class _Stage(Enum):
    FIRST = "the first message"
    REFUSED = "the end of a refused login"
    DONE = "nothing more"


class OAuthServer:
    """One OAUTHBEARER login on the broker's side."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._stage = _Stage.FIRST
        self._complaint = ""

    def __repr__(self) -> str:
        return f"<OAuthServer waits for {self._stage.value}>"

    @property
    def pending_refusal(self) -> str | None:
        """The reason of a refusal, until the client has ended the login; otherwise None."""
        return (
            f"the token was refused: {self._complaint}" if self._stage is _Stage.REFUSED else None
        )

    def guessed_user(self, token: bytes) -> None:
        """Return None, because an OAUTHBEARER token does not try a password."""

    def evaluate(self, token: bytes) -> Outcome:
        """Decide on the client's next message."""
        stage, self._stage = self._stage, _Stage.DONE
        if stage is _Stage.REFUSED:
            return Refused(
                reason=f"the token was refused: {self._complaint}",
                client_text=INVALID_TOKEN.decode(),
            )
        if stage is not _Stage.FIRST:
            return Refused(reason="a message came after the login")
        found = parse_first(token)
        return (
            Refused(reason="the OAUTHBEARER message is malformed")
            if found is None
            else self._decide(*found)
        )

    def _decide(self, authorization: str, bearer: str) -> Outcome:
        try:
            valid = self._validate(bearer)
        except TokenRefusedError as error:
            self._stage, self._complaint = _Stage.REFUSED, str(error)
            return Challenge(token=INVALID_TOKEN)
        if authorization not in ("", valid.subject):
            text = (
                "Authentication failed: Client requested an authorization id that is different from"
                " the token's principal name"
            )
            return Refused(reason=text, client_text=text)
        return Accepted(
            principal=Principal("User", valid.subject), expires_at_ms=valid.expires_at_ms
        )


def parse_first(content: bytes) -> tuple[str, str] | None:
    """Return the authorization id and token of a client's message, or None if it is malformed."""
    try:
        match = FIRST.fullmatch(content.decode())
    except UnicodeDecodeError:
        return None
    if match is None:
        return None
    values: dict[str, str] = {}
    for pair in match["pairs"].split("\x01")[:-1]:
        found = PAIR.fullmatch(pair)
        if found is None or found["key"] in values:
            return None
        values[found["key"]] = found["value"]
    bearer = BEARER.fullmatch(values.get("auth", ""))
    if (
        bearer is None
        or bearer["scheme"].lower() != "bearer"
        or len(bearer["token"]) > MAX_TOKEN_LENGTH
    ):
        return None
    return match["authorization"] or "", bearer["token"]
