"""The outcomes of a login step, on both sides, and the names of the mechanisms.

A ``ServerExchange`` receives the client's tokens one by one and returns an ``Outcome``.

- ``Challenge``: the client must send another token.
- ``Accepted``: the client has proved its identity.
- ``Refused``: the login failed.
- ``Lookup``: the caller must look up a value, which takes time, and pass it to ``resume``.
  ``resume`` returns another outcome.

A ``ClientExchange`` receives the broker's tokens and returns its own. ``is_complete`` tells whether
the broker has proved everything that the mechanism demands.

Invariant: no outcome shows a token, a password or a key in its ``repr``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from log_service.common.access import Principal


class Mechanism(StrEnum):
    """The supported mechanisms. The values are their SASL names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """The broker's token. The client must send another token."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The client has proved that it is ``principal``.

    ``expires_at_ms`` is the wall time at which the credential expires, or None if it never does.
    """

    principal: Principal
    token: bytes = field(default=b"", repr=False)
    expires_at_ms: int | None = None
    is_by_token: bool = False
    """Whether the login used a delegation token (KIP-48)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The login failed.

    ``reason`` is for the broker's log, ``client_text`` for the client. If it is None, the client
    gets a general text.
    """

    reason: str
    client_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A value that an exchange needs before it can continue. Pass the value to ``resume``."""

    wanted: Any = field(repr=False)
    resume: "Callable[[Any], Outcome]" = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWanted:
    """A request for permission to compare a password of this user with the sent one.

    The caller may delay or deny it, to slow down guessing.
    """

    user: str


Outcome = Challenge | Accepted | Refused | Lookup


class ServerExchange(Protocol):
    """One login on the broker's side."""

    def guessed_user(self, token: bytes) -> str | None:
        """Return the user whose password the client's next token tries, or None."""

    def evaluate(self, token: bytes) -> Outcome:
        """Evaluate the client's next token."""


class ClientExchange(Protocol):
    """One login on the client's side."""

    @property
    def is_complete(self) -> bool:
        """Whether the broker has proved everything that the mechanism demands."""

    def first(self) -> bytes:
        """Return the first token."""

    def evaluate(self, token: bytes) -> bytes:
        """Process the broker's token, and return the next token.

        Raises:
            LoginError: the broker has not proved its identity, or has refused the login.
        """


class LoginError(Exception):
    """A login failed on the client's side. The text has no secrets, so it may be shown."""
