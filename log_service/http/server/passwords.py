"""Checks of passwords, with delays after wrong guesses and a short memory of right passwords.

A check may need a login at the cluster, and clients send their password with each request. So a
right password is remembered for ``REMEMBERED_MS``, by a keyed hash whose key is never stored.
Requests from one address with the same user and password share one check.

Invariants: a wrong password is never remembered. Memory is bounded. A password is in memory only
while it is checked. A guess that is delayed does not keep other users from a check.
"""

import base64
import binascii
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

import trio

from log_service.common.env import Clock
from log_service.common.guesses import MAX_WAIT_MS, Guesses
from log_service.common.secrets import SecretText
from log_service.http.server.values import HttpError

REMEMBERED_MS: Final = 60_000
"""How long a password is still accepted after the cluster began to refuse it."""
MAX_REMEMBERED: Final = 1_000
MAX_CHECKS: Final = 64
MAX_CHECKS_OF_ADDRESS: Final = 32
"""The most checks at the same time, in total and per address."""
MAX_WAITING: Final = 1_000
MAX_WAITING_OF_ADDRESS: Final = 100
"""The most guesses that wait for their turn. A user without wrong passwords never waits."""
MAX_TEXT_CHARACTERS: Final = 512
"""A longer user or password is wrong."""

CheckPassword = Callable[[str, SecretText], Awaitable[str | None]]
"""Return the principal of a user, None if user or password is wrong.

Raises HttpError if it cannot be checked now.
"""


class Login(NamedTuple):
    """A user, a password, and the client's address."""

    user: str
    password: SecretText
    address: str


@dataclass(slots=True, eq=False)
class _Check:
    """A check under way. ``error`` and ``principal`` are set when it is complete."""

    is_complete: bool = False
    principal: str | None = None
    error: HttpError | None = None
    ended: trio.Event = field(default_factory=trio.Event)


class _Places:
    """A limit on simultaneous work, in total and per client address."""

    def __init__(self, most: int, most_of_address: int) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._taken = Counter[str]()

    @contextmanager
    def one_of(self, address: str, status: int, text: str) -> Iterator[None]:
        """Count one piece of work of an address within a ``with`` block.

        Raises:
            HttpError: the limit is reached. The error has the given status and text.
        """
        taken = self._taken
        if taken.total() >= self._most or taken[address] >= self._most_of_address:
            raise HttpError(status, text, (("retry-after", "1"),))
        taken[address] += 1
        try:
            yield
        finally:
            taken[address] -= 1
            if not taken[address]:
                del taken[address]


class Passwords:
    """Checks the passwords of one service."""

    def __init__(self, check: CheckPassword, clock: Clock, rng: Random) -> None:
        self._check = check
        self._clock = clock
        self._key = rng.randbytes(32)
        self._guesses = Guesses()
        self._remembered = OrderedDict[bytes, tuple[int, str]]()
        """Principal, and the time until which it counts, in monotonic milliseconds."""
        self._checks: dict[tuple[str, bytes], _Check] = {}
        self._running = _Places(MAX_CHECKS, MAX_CHECKS_OF_ADDRESS)
        self._waiting = _Places(MAX_WAITING, MAX_WAITING_OF_ADDRESS)

    def __repr__(self) -> str:
        return f"<Passwords remembered={len(self._remembered)} checks={len(self._checks)}>"

    async def principal_of(self, login: Login) -> str | None:
        """Return the principal of a user, None if user or password is wrong.

        Raises:
            HttpError: 429, the user had too many wrong passwords. 503, too many checks run. Or the
                error of the check itself.
        """
        content = f"{login.user}\0{login.password.reveal()}".encode()
        digest = hashlib.blake2b(content, key=self._key, digest_size=32).digest()
        while True:
            until_ms, principal = self._remembered.get(digest, (0, ""))
            if until_ms > self._clock.monotonic_ms():
                return principal
            check = self._checks.get((login.address, digest))
            if check is None:
                return await self._run_check(digest, login)
            await check.ended.wait()
            if check.error is not None:
                raise HttpError(check.error.status, check.error.text, check.error.headers)
            if check.is_complete:
                return check.principal

    async def _run_check(self, digest: bytes, login: Login) -> str | None:
        key = login.address, digest
        check = self._checks[key] = _Check()
        try:
            check.principal = await self._attempt(login)
            check.is_complete = True
        except HttpError as error:
            # The traceback of the error itself holds the password, and leads back to this check.
            check.error = HttpError(error.status, error.text, error.headers)
            raise
        finally:
            del self._checks[key]
            check.ended.set()
        if check.principal is not None:
            self._remember(digest, check.principal)
        return check.principal

    async def _attempt(self, login: Login) -> str | None:
        """Check a password after the delay of earlier wrong guesses, and count the result.

        Raises:
            HttpError: 429, there were too many wrong passwords, or too many checks are delayed.
                503, too many checks run. Or the error of the check itself.
        """
        user, password, address = login
        wait_ms = self._guesses.begin(address, user, self._clock.monotonic_ms())
        if wait_ms is None:
            pause = str(MAX_WAIT_MS // 1_000)
            raise HttpError(429, "too many wrong passwords of this user", (("retry-after", pause),))
        try:
            if wait_ms:
                with self._waiting.one_of(address, 429, "too many passwords wait to be checked"):
                    await trio.sleep(wait_ms / 1_000)
            with self._running.one_of(address, 503, "too many passwords are checked at once"):
                principal = await self._check(user, password)
        except BaseException:
            self._guesses.note_unseen(address, user)
            raise
        if principal is None:
            self._guesses.note_failure(address, user, self._clock.monotonic_ms())
        else:
            self._guesses.note_success(address, user)
        return principal

    def _remember(self, digest: bytes, principal: str) -> None:
        self._remembered.pop(digest, None)
        self._remembered[digest] = self._clock.monotonic_ms() + REMEMBERED_MS, principal
        while len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)


def parse_basic(credentials: str, address: str) -> Login | None:
    """Parse a ``Basic`` header (RFC 7617). Return None if it is invalid."""
    try:
        text = base64.b64decode(credentials.encode("ascii"), validate=True).decode()
    except (binascii.Error, UnicodeError):
        return None
    user, colon, password = text.partition(":")
    is_usable = all(0 < len(each) <= MAX_TEXT_CHARACTERS for each in (user, password))
    if not colon or not is_usable or not text.isprintable():
        return None
    return Login(user, SecretText(password), address)
