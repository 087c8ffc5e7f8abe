"""What one step of a login gives back, on the side of the broker and on that of the client; and the names of the mechanisms.

A ``ServerExchange`` gets the client's tokens one after the other and gives back an ``Outcome``. ``Challenge``: the client has to send
another token. ``Accepted``: it is who it says. ``Refused``: it is not. ``Lookup``: the caller has to find something that takes time, and to
hand it to ``resume``, which gives back another outcome.

A ``ClientExchange`` gets the broker's tokens and gives back its own; ``is_complete`` says that the broker has proved all it has to prove.

Invariant: no outcome shows a token, a password or a key in its ``repr``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from log_service.common.access import Principal


class Mechanism(StrEnum):
    """The mechanisms that are there, by the names that clients ask for."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """The broker's token; the client has to send another one."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The client is ``principal``. ``expires_at_ms`` is when its credential ends, in wall time; None where it does not end."""

    principal: Principal
    token: bytes = field(default=b"", repr=False)
    expires_at_ms: int | None = None
    is_by_token: bool = False
    """Whether a delegation token stood for the principal (KIP-48)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The login failed. ``reason`` is for the broker's log; ``told`` for the client, None where it is told no more than that."""

    reason: str
    told: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What an exchange has to know before it can go on. ``resume`` takes what was found."""

    wanted: Any = field(repr=False)
    resume: "Callable[[Any], Outcome]" = field(repr=False)


Outcome = Challenge | Accepted | Refused | Lookup


class ServerExchange(Protocol):
    """One login, as the broker sees it."""

    def evaluate(self, token: bytes) -> Outcome:
        """Take the client's next token."""


class ClientExchange(Protocol):
    """One login, as the client sees it."""

    @property
    def is_complete(self) -> bool:
        """Whether the broker has proved all that it has to prove."""

    def first(self) -> bytes:
        """Return the first token."""

    def evaluate(self, token: bytes) -> bytes:
        """Take the broker's token, and return the next one.

        Raises:
            LoginError: the broker is not what it should be, or has refused the login.
        """


class LoginError(Exception):
    """A login failed, as its client sees it; the text may be shown."""
