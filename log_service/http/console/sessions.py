"""Sessions of logged-in people, which are kept only in memory.

A browser sends the random id of its session. The id is new after each login. Invariants: a session
ends after ``idle_ms`` without a request, and after ``max_age_ms`` in any case. The number of
sessions is bounded, in total and per person. A login beyond a bound ends the least recently used
session.
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from log_service.common.env import Clock
from log_service.http.cluster_clients.credentials import Credentials

ID_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """The limits on the number and the duration of sessions."""

    max_count: int = 1_000
    max_count_per_user: int = 20
    idle_ms: int = 30 * 60_000
    max_age_ms: int = 12 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The session of one login. ``user`` is the name at the cluster."""

    user: str
    credentials: Credentials
    opened_ms: int


class Sessions:
    """All sessions of one console. ``random_bytes`` returns unpredictable bytes."""

    def __init__(
        self,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        limits: SessionLimits | None = None,
    ) -> None:
        self._clock = clock
        self._random_bytes = random_bytes
        self._limits = limits or SessionLimits()
        self._key = random_bytes(32)
        self._sessions = OrderedDict[str, tuple[Session, int]]()
        """By id, with the time of the last request. The first one was used least recently."""

    def __repr__(self) -> str:
        return f"<Sessions count={len(self._sessions)}>"

    def __len__(self) -> int:
        return len(self._sessions)

    def new_id(self) -> str:
        """Return an id that no one can guess."""
        return self._random_bytes(ID_BYTES).hex()

    def csrf_token(self, browser_id: str) -> str:
        """Return the CSRF token that forms of a browser have to send, with or without a login."""
        return hmac.new(self._key, browser_id.encode(), hashlib.sha256).hexdigest()

    def is_csrf_token(self, browser_id: str, token: str) -> bool:
        """Return whether a token is that of a browser."""
        return hmac.compare_digest(self.csrf_token(browser_id).encode(), token.encode())

    def open(self, user: str, credentials: Credentials) -> str:
        """Begin a session, and return its id."""
        self._drop_overdue()
        own = [each for each, (session, _) in self._sessions.items() if session.user == user]
        if len(own) >= self._limits.max_count_per_user:
            del self._sessions[own[0]]
        if len(self._sessions) >= self._limits.max_count:
            self._sessions.popitem(last=False)
        session_id, now_ms = self.new_id(), self._clock.monotonic_ms()
        session = Session(user=user, credentials=credentials, opened_ms=now_ms)
        self._sessions[session_id] = session, now_ms
        return session_id

    def find(self, session_id: str, *, is_use: bool = True) -> Session | None:
        """Return the session with an id, None if it has ended or never existed.

        With ``is_use`` the call counts as a request, which delays the end of the session.
        """
        found = self._sessions.get(session_id)
        if found is None:
            return None
        session, used_ms = found
        now_ms = self._clock.monotonic_ms()
        if self._is_over(session, used_ms, now_ms):
            del self._sessions[session_id]
            return None
        if is_use:
            self._sessions[session_id] = session, now_ms
            self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: str) -> None:
        """End a session. Does nothing if it has already ended."""
        self._sessions.pop(session_id, None)

    def close_all_of(self, user: str) -> None:
        """End all sessions of a person. Call it after the person's password was changed."""
        own = [each for each, (session, _) in self._sessions.items() if session.user == user]
        for each in own:
            del self._sessions[each]

    def _drop_overdue(self) -> None:
        now_ms = self._clock.monotonic_ms()
        over = [
            each
            for each, (session, used_ms) in self._sessions.items()
            if self._is_over(session, used_ms, now_ms)
        ]
        for each in over:
            del self._sessions[each]

    def _is_over(self, session: Session, used_ms: int, now_ms: int) -> bool:
        limits = self._limits
        is_idle = now_ms - used_ms >= limits.idle_ms
        return is_idle or now_ms - session.opened_ms >= limits.max_age_ms
