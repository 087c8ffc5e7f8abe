"""Logins of a SASL listener: a frame handler that wraps the one of the pipeline.

Decides nothing about logins. ``LoginSession`` decides on each frame, and this module acts. It
passes frames on that a client may send at the time, sends a session's responses, looks up data for
a login, delays and closes refused logins (KIP-306), and puts the principal into the connection's
context. A listener without SASL has no such handler, at no cost.

Invariants:

- Before the login the pipeline gets no frame but ApiVersions.
- A refusal is sent after the delay and never before it.
- No password is compared before the turn of its address and user (``common.guesses``). Listeners
  whose delay is 0 have no turns.
- The number of waiting refusals is bounded, for one address and for all, and so is the number of
  logins that wait for their turn. Further ones are closed without a response.
- No token is logged.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import trio

from log_service.broker.requests.call import StartTask
from log_service.common.env import Clock
from log_service.common.errors import ProtocolError
from log_service.common.guesses import Guesses
from log_service.common.quiet_log import QuietLogger
from log_service.metrics.failure_counts import FailureCounts
from log_service.network.connection import SIZE_BYTES
from log_service.network.responses import (
    Chunk,
    ConnectionContext,
    FrameHandler,
    PendingResponse,
    Response,
)
from log_service.security.sasl.mechanisms import TurnWanted
from log_service.security.sasl.session import (
    Close,
    Login,
    LoginPolicy,
    LoginSession,
    Now,
    Pass,
    Phase,
    Refuse,
    Respond,
    Step,
    Wait,
)

MAX_DELAYED_COUNT = 1_000
MAX_DELAYED_COUNT_OF_HOST = 100
"""Limits of the numbers of delayed logins, from all addresses and from one address.

Delayed logins are refused logins, and logins whose turn has not come yet. Further logins are closed
at once.
"""
LOOKUP_TIMEOUT_S = 10.0
"""Timeout of a login's lookup."""

logger = logging.getLogger(__name__)

Find = Callable[[Any], Awaitable[object]]
"""Looks up data for a login, or None if there is none."""


@dataclass(slots=True)
class LoginMeter:
    """Counters of a listener's logins with one mechanism."""

    success_total: int = 0
    failure_total: int = 0
    repeated_success_total: int = 0
    repeated_failure_total: int = 0
    expired_total: int = 0
    """Connections that were closed because their login had expired."""


class LoginQueue:
    """Counts the waiting logins of all listeners of a node, by address."""

    def __init__(self) -> None:
        self._count_of_host: Counter[str] = Counter()
        self._count = 0

    def __repr__(self) -> str:
        return f"<LoginQueue waiting={self._count}>"

    def try_enter(self, host: str) -> bool:
        """Count one more waiting login, if so many may wait. Return whether it was counted."""
        if (
            self._count >= MAX_DELAYED_COUNT
            or self._count_of_host[host] >= MAX_DELAYED_COUNT_OF_HOST
        ):
            return False
        self._count += 1
        self._count_of_host[host] += 1
        return True

    def leave(self, host: str) -> None:
        """Count one waiting login less."""
        self._count -= 1
        self._count_of_host[host] -= 1
        if not self._count_of_host[host]:
            del self._count_of_host[host]


class GuessGate:
    """Limits how often passwords are tried, by address and user, on all listeners of a node."""

    def __init__(self, clock: Clock) -> None:
        self.waiting = LoginQueue()
        self._guesses = Guesses()
        self._clock = clock

    def __repr__(self) -> str:
        return f"<GuessGate {self._guesses!r} {self.waiting!r}>"

    def begin(self, host: str, user: str) -> int | None:
        """Return how long a login waits for its turn, in ms, or None if too many wait already.

        A login that has waited must call ``waiting.leave`` afterwards.
        """
        wait_ms = self._guesses.begin(host, user, self._clock.monotonic_ms())
        if wait_ms and not self.waiting.try_enter(host):
            self._guesses.note_unseen(host, user)
            return None
        return wait_ms

    def end(self, host: str, user: str, *, is_right: bool) -> None:
        """Note the outcome of a login whose password was compared."""
        if is_right:
            self._guesses.note_success(host, user)
        else:
            self._guesses.note_failure(host, user, self._clock.monotonic_ms())

    def give_up(self, host: str, user: str) -> None:
        """Note that a login ended before its password was compared."""
        self._guesses.note_unseen(host, user)


class LoginHandler:
    """The frame handler of one SASL listener. ``handler`` gets the frames that are passed on."""

    def __init__(
        self,
        handler: FrameHandler,
        policy: LoginPolicy,
        *,
        clock: Clock,
        start_task: StartTask,
        find: Find,
        refusals: LoginQueue,
        gate: GuessGate,
        failed_delay_ms: int,
    ) -> None:
        self.meters = {mechanism: LoginMeter() for mechanism in ("", *policy.mechanisms)}
        """Counts of logins by mechanism.

        The empty name has logins that failed before the client chose an offered mechanism.
        """
        self.failures = FailureCounts()
        self._handler = handler
        self._policy = policy
        self._clock = clock
        self._start_task = start_task
        self._find = find
        self._refusals = refusals
        self._gate = gate if failed_delay_ms else None
        self._failed_delay_s = failed_delay_ms / 1_000
        self._sessions: dict[int, LoginSession] = {}
        self._log = QuietLogger(logger, clock.monotonic_ms, max_lines=20)

    def __repr__(self) -> str:
        return f"<LoginHandler connections={self.session_count} of {self._handler!r}>"

    @property
    def session_count(self) -> int:
        """The number of connections that have a login session."""
        return len(self._sessions)

    def handle_frame(self, context: ConnectionContext, frame: memoryview) -> Response:
        """Respond to a frame of a login, or pass the frame on to the pipeline.

        Raises:
            ProtocolError: the connection must be closed.
        """
        session = self._sessions.get(context.connection_id)
        if session is None:
            session = self._sessions[context.connection_id] = LoginSession(self._policy)
        elif session.phase is Phase.COMPLETE and session.expires_ns is None:
            return self._handler.handle_frame(context, frame)
        step = session.receive(frame, self._now())
        if isinstance(step, Pass):
            return self._pass_on(context, session, step, frame)
        if isinstance(step, Wait):
            if isinstance(step.wanted, TurnWanted):
                return self._take_turn(context, session, step.wanted.user)
            response = PendingResponse()
            self._start_task(self._look_up, context, session, step, response)
            return response
        return self._perform(context, session, step)

    def connection_closed(self, context: ConnectionContext) -> None:
        """Drop the connection's login session.

        A client that leaves when it sees its token refused counts as refused.
        """
        session = self._sessions.pop(context.connection_id, None)
        reason = None if session is None else session.pending_refusal
        if session is not None and reason is not None:
            self._note_refusal(context, session, reason)
        self._handler.connection_closed(context)

    def _now(self) -> Now:
        return Now(self._clock.monotonic_ns(), self._clock.wall_ms())

    def _pass_on(
        self, context: ConnectionContext, session: LoginSession, step: Pass, frame: memoryview
    ) -> Response:
        response = self._handler.handle_frame(context, frame)
        if step.is_versions and isinstance(response, list):
            session.note_versions_response(is_good=_has_no_error(response))
        return response

    def _perform(self, context: ConnectionContext, session: LoginSession, step: Step) -> Response:
        """Carry out the session's decision on a frame that was not passed on.

        Raises:
            ProtocolError: the connection must be closed.
        """
        if isinstance(step, Respond):
            if step.login is not None:
                self._logged_in(context, step.login)
            return step.chunks
        if isinstance(step, Refuse):
            response = PendingResponse()
            self._refuse(context, session, step, response)
            return response
        assert isinstance(step, Close), step
        if step.is_expired:
            self.meters[session.mechanism].expired_total += 1
        raise ProtocolError(step.reason)

    async def _look_up(
        self,
        context: ConnectionContext,
        session: LoginSession,
        step: Wait,
        response: PendingResponse,
    ) -> None:
        """Look up data for a login, and respond.

        An error here is logged, because it must not end other connections.
        """
        found: object = None
        with trio.move_on_after(LOOKUP_TIMEOUT_S):
            try:
                found = await self._find(step.wanted)
            except Exception:
                logger.exception("Looking a login up failed")
        if response.is_discarded or session.phase is not Phase.LOOKUP:
            return
        self._go_on(context, session, session.found(found, self._now()), response)

    def _go_on(
        self,
        context: ConnectionContext,
        session: LoginSession,
        step: Step,
        response: PendingResponse,
    ) -> None:
        """Carry out the session's decision after a wait."""
        if isinstance(step, Refuse):
            self._refuse(context, session, step, response)
            return
        assert isinstance(step, Respond), step
        if step.login is not None:
            self._logged_in(context, step.login)
        response.complete_encoded(step.chunks)

    def _take_turn(self, context: ConnectionContext, session: LoginSession, user: str) -> Response:
        """Compare a password, after a wait if others were tried for its user from this address."""
        wait_ms = 0 if self._gate is None else self._gate.begin(context.peer_host, user)
        if wait_ms == 0:
            return self._perform(context, session, self._compare(context, session, user))
        response = PendingResponse()
        if wait_ms is None:
            reason = (
                "too many logins of its user wait there already, and its password was not compared"
            )
            self._refuse(context, session, session.turn_away(reason), response)
        else:
            self._start_task(self._compare_late, context, session, user, wait_ms, response)
        return response

    async def _compare_late(
        self,
        context: ConnectionContext,
        session: LoginSession,
        user: str,
        wait_ms: int,
        response: PendingResponse,
    ) -> None:
        assert self._gate is not None
        try:
            await trio.sleep(wait_ms / 1_000)
        except BaseException:
            self._gate.give_up(context.peer_host, user)
            raise
        finally:
            self._gate.waiting.leave(context.peer_host)
        if response.is_discarded or session.phase is not Phase.LOOKUP:
            self._gate.give_up(context.peer_host, user)
            return
        self._go_on(context, session, self._compare(context, session, user), response)

    def _compare(self, context: ConnectionContext, session: LoginSession, user: str) -> Step:
        """Compare a password, and count the outcome."""
        is_right = False
        try:
            step = session.found(None, self._now())
            is_right = not isinstance(step, Refuse)
        finally:
            if self._gate is not None:
                self._gate.end(context.peer_host, user, is_right=is_right)
        return step

    def _logged_in(self, context: ConnectionContext, login: Login) -> None:
        context.principal = login.accepted.principal
        context.is_token_authenticated = login.accepted.is_by_token
        context.max_frame_bytes = None
        context.must_log_in_by_ms = None
        if login.is_repeated:
            self.meters[login.mechanism].repeated_success_total += 1
        else:
            self.meters[login.mechanism].success_total += 1
        logger.debug(
            "%s from %s logged in with %s",
            login.accepted.principal,
            context.peer_host,
            login.mechanism,
        )

    def _refuse(
        self,
        context: ConnectionContext,
        session: LoginSession,
        step: Refuse,
        response: PendingResponse,
    ) -> None:
        """Send a refusal after the delay, and close. If too many wait, close at once.

        Raises:
            ProtocolError: too many wait.
        """
        self._note_refusal(context, session, step.reason)
        context.must_log_in_by_ms = None  # the refusal has its own delay
        context.finish()
        if not self._refusals.try_enter(context.peer_host):
            response.complete_encoded(None)
            return
        self._start_task(self._respond_late, context.peer_host, step.chunks, response)

    def _note_refusal(self, context: ConnectionContext, session: LoginSession, reason: str) -> None:
        meter = self.meters[session.mechanism]
        if session.login is None:
            meter.failure_total += 1
        else:
            meter.repeated_failure_total += 1
        self.failures.add(session.mechanism, context.peer_host)
        text = "Refusing a login from %s on listener %s: %s"
        self._log.warning(
            ("refused", context.peer_host), text, context.peer_host, context.listener_name, reason
        )

    async def _respond_late(
        self, host: str, chunks: list[Chunk] | None, response: PendingResponse
    ) -> None:
        try:
            await trio.sleep(self._failed_delay_s)
        finally:
            self._refusals.leave(host)
        response.complete_encoded(chunks)


def _has_no_error(chunks: list[Chunk]) -> bool:
    """Whether a response to ApiVersions has no error.

    The error code follows size and correlation id in all of its versions.
    """
    first = chunks[0]
    assert isinstance(first, bytes | bytearray | memoryview)
    position = SIZE_BYTES + 4
    return bytes(first[position : position + 2]) == b"\0\0"
