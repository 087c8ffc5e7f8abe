"""Sessions of Dagster's UI: the logins, their age, and whether their rights still hold.

They are kept in the memory of the webserver, so that a restart ends them all. A browser holds a
random token, and the server its digest. Invariants: a session ends an hour after its last request
and twelve hours after its login. It ends as soon as the cluster refuses user, password or right,
which is checked every minute. While the cluster does not respond, a session continues, because the
UI is needed in an outage.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from log_service.client import ConfigError, KafkaError
from log_service.common.guesses import Guesses
from log_service.common.log_lines import escaped
from log_service.common.secrets import SecretText
from orchestration.installation.ui.users import ClusterUsers, UiRights

LIFETIME_S = 12 * 3600.0
IDLE_S = 3600.0
RECHECK_S = 60.0
RECHECK_PATIENCE_S = 2.0
"""The longest wait of a request for the response of a slow cluster.

After it the request is served.
"""
FAILURE_DELAY_S = 1.0
MAX_SESSIONS = 1000
MAX_LOGINS = 64
"""Most logins that wait for the cluster's response at the same time."""
MAX_LOGINS_OF_ADDRESS = 8
MAX_WAITING = 512
MAX_WAITING_OF_ADDRESS = 64
"""Most wrong passwords of one address that wait for their turn or for their delayed refusal.

A correct login does not wait for them, because many users may come from the address of one proxy.
"""
ASKING_THREADS = 4
RECHECKING_THREADS = 2
"""The threads that check the rights of sessions again, apart from those of logins.

So a flood of logins does not prolong a session that has lost its right.
"""
TOKEN_BYTES = 32
logger = logging.getLogger("tidelog.ui")


class BusyError(Exception):
    """Too many logins are waiting, in total, from this address, or of this user from it."""


class UnreachableError(Exception):
    """The cluster did not say whether the password is right."""


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One login. Times are of a monotonic clock, in seconds."""

    digest: bytes = field(repr=False)
    user: str
    password: SecretText
    rights: UiRights
    begun_s: float
    used_s: float
    checked_s: float
    is_ended: bool = False
    recheck: asyncio.Task[None] | None = field(default=None, repr=False)

    def is_over(self, now_s: float) -> bool:
        """Return whether the session has ended."""
        return self.is_ended or now_s - self.used_s > IDLE_S or now_s - self.begun_s > LIFETIME_S


class Sessions:
    """All sessions of one webserver."""

    def __init__(
        self,
        users: ClusterUsers,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._users = users
        self._clock = clock
        self._sleep = sleep
        self._sessions = OrderedDict[bytes, Session]()
        self._guesses = Guesses()
        self._pending = Counter[str]()
        self._waiting = Counter[str]()
        self._threads = ThreadPoolExecutor(ASKING_THREADS, thread_name_prefix="ui-login")
        self._rechecking = ThreadPoolExecutor(RECHECKING_THREADS, thread_name_prefix="ui-recheck")

    async def log_in(self, user: str, password: SecretText, address: str) -> tuple[str, UiRights]:
        """Return the token of a new session, and its rights.

        The token is empty if the user has no right to read.

        :raises BusyError: too many logins wait.
        :raises UnreachableError: the cluster did not respond.
        """
        wait_ms = self._guesses.begin(address, user, self._now_ms())
        if wait_ms is None:
            raise BusyError
        rights = await self._attempt(user, password, address, wait_ms)
        if rights is UiRights.UNKNOWN:
            with _place(self._waiting, address, MAX_WAITING, MAX_WAITING_OF_ADDRESS):
                await self._sleep(FAILURE_DELAY_S)
        logger.warning("login of %s from %s: %s", escaped(user), escaped(address), rights.value)
        return self._begin(user, password, rights) if rights.is_reader else "", rights

    async def _attempt(
        self, user: str, password: SecretText, address: str, wait_ms: int
    ) -> UiRights:
        """Return the user's rights, which the cluster is asked for after ``wait_ms``.

        A wrong password is counted as a guess.
        """
        try:
            if wait_ms:
                with _place(self._waiting, address, MAX_WAITING, MAX_WAITING_OF_ADDRESS):
                    await self._sleep(wait_ms / 1000)
            with _place(self._pending, address, MAX_LOGINS, MAX_LOGINS_OF_ADDRESS):
                rights = await self._ask(user, password, self._threads)
        except BaseException:
            self._guesses.note_unseen(address, user)
            raise
        if rights is UiRights.UNKNOWN:
            self._guesses.note_failure(address, user, self._now_ms())
        else:
            self._guesses.note_success(address, user)
        return rights

    def _begin(self, user: str, password: SecretText, rights: UiRights) -> str:
        token, now_s = secrets.token_urlsafe(TOKEN_BYTES), self._clock()
        digest = _digest(token)
        self._sessions[digest] = Session(
            digest=digest,
            user=user,
            password=password,
            rights=rights,
            begun_s=now_s,
            used_s=now_s,
            checked_s=now_s,
        )
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)[1].is_ended = True
        return token

    async def find(self, token: str | None) -> Session | None:
        """Return the session of a token, or None if it is over.

        Asks the cluster again if that is due.
        """
        session = None if token is None else self._sessions.get(_digest(token))
        if session is None or not await self.is_alive(session):
            return None
        session.used_s = self._clock()
        self._sessions.move_to_end(session.digest)
        return session

    async def is_alive(self, session: Session) -> bool:
        """Return whether a session is still valid. Ask the cluster again if that is due."""
        if session.is_over(self._clock()):
            self.end(session)
            return False
        if session.recheck is None and self._clock() - session.checked_s >= RECHECK_S:
            session.recheck = asyncio.create_task(self._check_again(session))
        if session.recheck is not None:
            await asyncio.wait([session.recheck], timeout=RECHECK_PATIENCE_S)
        return not session.is_ended

    def end(self, session: Session) -> None:
        """End a session, so that its token is refused from now on."""
        session.is_ended = True
        self._sessions.pop(session.digest, None)

    async def _check_again(self, session: Session) -> None:
        try:
            rights = await self._ask(session.user, session.password, self._rechecking)
        except UnreachableError:
            return
        else:
            session.rights = rights
            if not rights.is_reader:
                logger.warning("the session of %s ends: %s", escaped(session.user), rights.value)
                self.end(session)
        finally:
            session.checked_s, session.recheck = self._clock(), None

    async def _ask(self, user: str, password: SecretText, threads: ThreadPoolExecutor) -> UiRights:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(threads, self._users.rights_of, user, password)
        except (KafkaError, ConfigError) as error:
            logger.warning(
                "the cluster does not say whether %s may use the UI: %s",
                escaped(user),
                escaped(str(error)),
            )
            raise UnreachableError from error

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


@contextmanager
def _place(taken: Counter[str], address: str, most: int, most_of_address: int) -> Iterator[None]:
    """Count a login in ``taken`` until the block ends.

    :raises BusyError: there are too many, in total or of this address.
    """
    if taken.total() >= most or taken[address] >= most_of_address:
        raise BusyError
    taken[address] += 1
    try:
        yield
    finally:
        taken[address] -= 1
        if not taken[address]:
            del taken[address]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
