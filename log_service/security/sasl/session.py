"""The broker's handling of each frame on a SASL listener, before, during and after the login.

One ``LoginSession`` belongs to one connection. It takes a frame and the time, and returns the next
step: pass the frame on to the broker, respond, wait for a lookup, refuse the login, or close the
connection. The order of states is that of Apache Kafka's SaslServerAuthenticator (KIP-43, KIP-152,
KIP-255, KIP-368).

    OPENING       ApiVersions (a good response leads to HANDSHAKE) or SaslHandshake
    HANDSHAKE     SaslHandshake
    AUTHENTICATE  SaslAuthenticate after SaslHandshake 1, bare tokens after SaslHandshake 0
    LOOKUP        no frame, because the broker looks something up, or the password check must wait
    COMPLETE      all requests; SaslHandshake begins the next login if the login has a lifetime
    MISMATCH      no frame, because the client began its next login with another mechanism
    ENDED         no frame, because the login was refused

Invariants: before the login only the bodies of SaslHandshake, SaslAuthenticate and ApiVersions are
read. A password is compared only after the caller permits it (``TurnWanted``). A repeated login
keeps mechanism and principal. Lifetimes use the monotonic clock.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from log_service.common.errors import ErrorCode, ProtocolError
from log_service.common.types import Buffer
from log_service.protocol.api_versions import ApiKey, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import (
    RequestHeader,
    UnsupportedVersionError,
    encode_response,
    parse_request_header,
)
from log_service.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from log_service.security.sasl.mechanisms import (
    Accepted,
    Challenge,
    Lookup,
    Outcome,
    Refused,
    ServerExchange,
    TurnWanted,
)
from log_service.security.sasl.oauthbearer import OAuthServer

MIN_RELOGIN_INTERVAL_NS: Final = 1_000_000_000
"""The least time between the beginnings of two repeated logins on a connection."""
FIRST_VERSION_WITH_REQUESTS: Final = 1
"""The first version of SaslHandshake after which tokens travel in SaslAuthenticate requests."""
HANDSHAKE_KEY: Final = int(ApiKey.SASL_HANDSHAKE)
MAX_TOKENS: Final = 8
"""The most tokens of one login. The longest exchange takes three."""

_SIZE = struct.Struct(">i")


class Phase(Enum):
    """The state of a session."""

    OPENING = "opening"
    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    LOOKUP = "lookup"
    COMPLETE = "complete"
    MISMATCH = "mismatch"
    ENDED = "ended"


class Now(NamedTuple):
    """The current time: monotonic for lifetimes of logins, wall time for credentials."""

    monotonic_ns: int
    wall_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The broker must handle the frame.

    With ``is_versions`` it is ApiVersions before a login, and the caller must pass the outcome to
    ``LoginSession.note_versions_response``.
    """

    is_versions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """Send this frame. ``login`` is set if it completes a login."""

    chunks: list[Any] = field(repr=False)
    login: "Login | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Look up ``wanted``, and pass the result to ``LoginSession.found``."""

    wanted: Any = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The login failed.

    After the delay for failed logins send this frame, if any, and close the connection.

    ``reason`` is for the log.
    """

    chunks: list[Any] | None = field(repr=False)
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Close at once. ``reason`` is for the log."""

    reason: str
    is_expired: bool = False


Step = Pass | Respond | Wait | Refuse | Close


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A complete login.

    ``expires_ns`` is on the monotonic clock, or None if the login does not expire.
    """

    mechanism: str
    accepted: Accepted
    expires_ns: int | None
    is_repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPolicy:
    """The mechanisms that a listener offers.

    ``begin`` starts a login of an enabled mechanism. ``max_reauth_ms`` has the lifetime of logins
    for each mechanism whose logins expire.
    """

    mechanisms: tuple[str, ...]
    begin: Callable[[str], ServerExchange]
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)


class LoginSession:
    """The logins of one connection."""

    __slots__ = (
        "_began_again_ns",
        "_exchange",
        "_is_bare",
        "_mechanism",
        "_policy",
        "_request",
        "_resume",
        "_token_count",
        "expires_ns",
        "login",
        "phase",
    )

    def __init__(self, policy: LoginPolicy) -> None:
        self.phase = Phase.OPENING
        self.login: Login | None = None
        self.expires_ns: int | None = None
        """The end of the login. It is a copy, because every request reads it."""
        self._policy = policy
        self._exchange: ServerExchange | None = None
        self._mechanism = ""
        self._is_bare = False
        self._token_count = 0
        self._request: RequestHeader | None = None
        self._resume: Callable[[Any], Outcome] | None = None
        self._began_again_ns: int | None = None

    def __repr__(self) -> str:
        return f"<LoginSession {self.phase.value} {self._mechanism}>"

    @property
    def mechanism(self) -> str:
        """The offered mechanism of the newest login, or empty before the client has chosen one."""
        return self._mechanism

    @property
    def pending_refusal(self) -> str | None:
        """The reason of a refusal, until the client has fetched the refusal; otherwise None.

        A client that leaves before it fetches the refusal was refused, too.
        """
        return self._exchange.pending_refusal if isinstance(self._exchange, OAuthServer) else None

    def receive(self, frame: Buffer, now: Now) -> Step:
        """Decide on the next frame, given without its size."""
        if self.phase is Phase.COMPLETE:
            return self.after_login(frame, now)
        if self.phase is Phase.AUTHENTICATE:
            return self._authenticate(frame, now)
        if self.phase is Phase.LOOKUP:
            return self._close("a frame came while the broker was looking a login up")
        if self.phase is Phase.MISMATCH:
            return self._refuse(None, "the client began to log in again with another mechanism")
        if self.phase is Phase.ENDED:
            return self._close("a frame came after the login was refused")
        return self._open(frame)

    def note_versions_response(self, *, is_good: bool) -> None:
        """Record the response to ApiVersions. After a good one only a handshake may follow."""
        if is_good and self.phase is Phase.OPENING:
            self.phase = Phase.HANDSHAKE

    def found(self, what: object, now: Now) -> Step:
        """Continue with the result of the lookup."""
        assert self._resume is not None
        resume, self._resume = self._resume, None
        self.phase = Phase.AUTHENTICATE
        return self._conclude(resume(what), now)

    def turn_away(self, reason: str) -> Refuse:
        """Refuse a login whose password was not compared.

        The client gets no response, so that one with the right password tries again.
        """
        self._resume = None
        return self._refuse(None, reason)

    # Before the login

    def _open(self, frame: Buffer) -> Step:
        try:
            header, body = parse_request_header(frame)
        except UnsupportedVersionError as error:
            if error.header.api_key is ApiKey.API_VERSIONS and self.phase is Phase.OPENING:
                return Pass(is_versions=True)
            return self._close(str(error))
        except ProtocolError as error:
            return self._close(str(error))
        if header.api_key is ApiKey.SASL_HANDSHAKE:
            return self._handshake(header, frame, body)
        if header.api_key is ApiKey.API_VERSIONS and self.phase is Phase.OPENING:
            return Pass(is_versions=True)
        return self._close(f"{header.api_key.name} came before the login")

    def _handshake(self, header: RequestHeader, frame: Buffer, body: int) -> Step:
        try:
            request, _ = decode(SaslHandshakeRequest, header.api_version, frame, body)
        except ProtocolError as error:
            return self._close(str(error))
        mechanism, enabled = request.mechanism, list(self._policy.mechanisms)
        if mechanism not in enabled:
            response = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled
            )
            return self._refuse(
                _encoded(header, response), "the client asked for a mechanism that is not enabled"
            )
        respond = Respond(chunks=_encoded(header, SaslHandshakeResponse(mechanisms=enabled)))
        if self.login is not None and self.login.mechanism != mechanism:
            self.phase = Phase.MISMATCH
            return respond
        self.phase = Phase.AUTHENTICATE
        self._mechanism = mechanism
        self._exchange = self._policy.begin(mechanism)
        self._is_bare = header.api_version < FIRST_VERSION_WITH_REQUESTS
        self._token_count = 0
        return respond

    # During the login

    def _authenticate(self, frame: Buffer, now: Now) -> Step:
        if self._is_bare:
            return self._evaluate(None, bytes(frame), now)
        try:
            header, body = parse_request_header(frame)
            if header.api_key is not ApiKey.SASL_AUTHENTICATE:
                return self._refuse(
                    _state_error(header), f"{header.api_key.name} came in the middle of a login"
                )
            request, _ = decode(SaslAuthenticateRequest, header.api_version, frame, body)
        except ProtocolError as error:
            return self._close(str(error))
        return self._evaluate(header, request.auth_bytes, now)

    def _evaluate(self, header: RequestHeader | None, token: bytes, now: Now) -> Step:
        exchange = self._exchange
        assert exchange is not None
        self._request = header
        self._token_count += 1
        if self._token_count > MAX_TOKENS:
            return self._conclude(
                Refused(reason=f"a login took more than {MAX_TOKENS} tokens"), now
            )
        user = exchange.guessed_user(token)
        if user is not None:
            return self._conclude(
                Lookup(wanted=TurnWanted(user=user), resume=lambda _: exchange.evaluate(token)), now
            )
        return self._conclude(exchange.evaluate(token), now)

    def _conclude(self, outcome: Outcome, now: Now) -> Step:
        """Turn a mechanism's outcome into the broker's next step."""
        if isinstance(outcome, Challenge):
            return Respond(chunks=self._token(outcome.token))
        if isinstance(outcome, Lookup):
            self._resume, self.phase = outcome.resume, Phase.LOOKUP
            return Wait(wanted=outcome.wanted)
        if isinstance(outcome, Refused):
            return self._fail(outcome)
        return self._accept(outcome, now)

    def _accept(self, accepted: Accepted, now: Now) -> Step:
        before = self.login
        if before is not None and before.accepted.principal != accepted.principal:
            one, other = before.accepted.principal, accepted.principal
            text = (
                f"Cannot change principals during re-authentication from {one.type}.{one.name}:"
                f" {other.type}.{other.name}"
            )
            return self._fail(Refused(reason=text, client_text=text))
        if accepted.expires_at_ms is not None and accepted.expires_at_ms <= now.wall_ms:
            return self._fail(Refused(reason="the credential has expired"))
        lifetime_ms = _lifetime_ms(
            accepted, self._policy.max_reauth_ms.get(self._mechanism, 0), now.wall_ms
        )
        expires_ns = None if lifetime_ms is None else now.monotonic_ns + lifetime_ms * 1_000_000
        self.login = Login(
            mechanism=self._mechanism,
            accepted=accepted,
            expires_ns=expires_ns,
            is_repeated=before is not None,
        )
        self.expires_ns, self.phase, self._exchange = expires_ns, Phase.COMPLETE, None
        return Respond(chunks=self._token(accepted.token, lifetime_ms or 0), login=self.login)

    def _fail(self, refused: Refused) -> Step:
        kind = "authentication" if self.login is None else "re-authentication"
        text = (
            refused.client_text
            or f"Authentication failed during {kind} due to invalid credentials with SASL mechanism"
            f" {self._mechanism}"
        )
        chunks = None
        if self._request is not None:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text
            )
            chunks = _encoded(self._request, response)
        return self._refuse(chunks, refused.reason)

    def _token(self, token: bytes, lifetime_ms: int = 0) -> list[Any]:
        """Return the frame with a token: a SaslAuthenticate response, or only size and token."""
        if self._request is None:
            return [_SIZE.pack(len(token)) + token]
        response = SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)
        return _encoded(self._request, response)

    # After the login

    def after_login(self, frame: Buffer, now: Now) -> Step:
        """Decide on a frame after a login: pass it on unless the login has expired.

        A handshake begins the next login, even just after expiry.
        """
        if self.expires_ns is None:
            return Pass()
        if _key_of(frame) == HANDSHAKE_KEY and self._may_begin_again(now):
            self._began_again_ns = now.monotonic_ns
            return self._open(frame)
        if now.monotonic_ns > self.expires_ns:
            return self._close("its login has ended", is_expired=True)
        return Pass()

    def _may_begin_again(self, now: Now) -> bool:
        return (
            self._began_again_ns is None
            or now.monotonic_ns - self._began_again_ns >= MIN_RELOGIN_INTERVAL_NS
        )

    def _refuse(self, chunks: list[Any] | None, reason: str) -> Refuse:
        self.phase = Phase.ENDED
        return Refuse(chunks=chunks, reason=reason)

    def _close(self, reason: str, *, is_expired: bool = False) -> Close:
        self.phase = Phase.ENDED
        return Close(reason=reason, is_expired=is_expired)


def _lifetime_ms(accepted: Accepted, max_reauth_ms: int, wall_ms: int) -> int | None:
    """Return the lifetime of a login in milliseconds.

    It is the lesser of the listener's and the credential's lifetime, or None without either.
    """
    lifetimes = [max_reauth_ms] if max_reauth_ms > 0 else []
    if accepted.expires_at_ms is not None:
        lifetimes.append(max(0, accepted.expires_at_ms - wall_ms))
    return min(lifetimes, default=None)


def _key_of(frame: Buffer) -> int:
    return int.from_bytes(frame[:2], "big")


def _encoded(header: RequestHeader, response: Any) -> list[Any]:
    return encode_response(header.api_key, header.api_version, header.correlation_id, response)


def _state_error(header: RequestHeader) -> list[Any] | None:
    """Return an API's own response with ILLEGAL_SASL_STATE, or None if it cannot be encoded.

    A response class without an error code is sent with its defaults.
    """
    response: Any = response_class(header.api_key)()
    if hasattr(response, "error_code"):
        response.error_code = ErrorCode.ILLEGAL_SASL_STATE
    try:
        return _encoded(header, response)
    except ProtocolError:
        return None
