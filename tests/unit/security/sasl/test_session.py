"""The broker handles each frame before, during and after a login.

The table has the rows of Apache Kafka's SaslServerAuthenticator.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.access import Principal
from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import KNOWN, ApiKey, request_class, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_request, parse_response_header
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
    TurnWanted,
)
from log_service.security.sasl.session import (
    Close,
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

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
CORRELATION_ID = 77
EARLY = Now(1_000_000_000_000, 1_700_000_000_000)
GENERIC = "Authentication failed during {} due to invalid credentials with SASL mechanism {}"


def after(ms: int) -> Now:
    return Now(EARLY.monotonic_ns + ms * 1_000_000, EARLY.wall_ms + ms)


class Scripted:
    """A mechanism whose tokens say what becomes of the login."""

    def guessed_user(self, token: bytes) -> str | None:
        return "alice" if token == b"a password" else None

    def evaluate(self, token: bytes) -> Outcome:
        text = token.decode(errors="replace")
        outcomes: dict[str, Callable[[], Outcome]] = {
            "alice": lambda: Accepted(principal=ALICE, token=b"proof"),
            "bob": lambda: Accepted(principal=BOB),
            "ends in 5 s": lambda: Accepted(principal=ALICE, expires_at_ms=EARLY.wall_ms + 5_000),
            "has ended": lambda: Accepted(principal=ALICE, expires_at_ms=EARLY.wall_ms),
            "more": lambda: Challenge(token=b"challenge"),
            "look up": lambda: Lookup(wanted="a token", resume=self.evaluate),
            "told": lambda: Refused(reason="why", client_text="you are told"),
        }
        return outcomes.get(text, lambda: Refused(reason="why"))()


def new_session(max_reauth_ms: int = 0) -> LoginSession:
    mechanisms = ("PLAIN", "SCRAM-SHA-512")
    return LoginSession(
        LoginPolicy(
            mechanisms=mechanisms,
            begin=lambda _: Scripted(),
            max_reauth_ms=dict.fromkeys(mechanisms, max_reauth_ms),
        )
    )


def frame(message: Any, version: int) -> bytes:
    header = RequestHeader(message.SCHEMA.key, version, CORRELATION_ID, "a-client")
    chunks: list[Any] = encode_request(header, message)
    return b"".join(chunks)[4:]


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return frame(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(token: str | bytes, version: int = 2) -> bytes:
    content = token.encode() if isinstance(token, str) else token
    return frame(SaslAuthenticateRequest(auth_bytes=content), version)


def any_frame(key: ApiKey, version: int | None = None) -> bytes:
    spec = KNOWN[key]
    return frame(request_class(key)(), spec.max_version if version is None else version)


def with_version(content: bytes, version: int) -> bytes:
    return content[:2] + version.to_bytes(2, "big") + content[4:]


def response(step: Step, key: ApiKey, version: int) -> Any:
    """Return the message that a step sends."""
    assert isinstance(step, Respond | Refuse), step
    assert step.chunks is not None
    content = b"".join(step.chunks)
    assert int.from_bytes(content[:4], "big") == len(content) - 4
    correlation_id, position = parse_response_header(key, version, content[4:])
    assert correlation_id == CORRELATION_ID
    return decode(response_class(key), version, content[4:], position)[0]


def token_response(step: Step, version: int = 2) -> SaslAuthenticateResponse:
    found: SaslAuthenticateResponse = response(step, ApiKey.SASL_AUTHENTICATE, version)
    return found


def handshake_response(step: Step) -> SaslHandshakeResponse:
    found: SaslHandshakeResponse = response(step, ApiKey.SASL_HANDSHAKE, 1)
    return found


def logged_in(
    token: str = "alice", max_reauth_ms: int = 0, version: int = 2, now: Now = EARLY
) -> LoginSession:
    session = new_session(max_reauth_ms)
    session.receive(handshake(), now)
    assert isinstance(session.receive(authenticate(token, version), now), Respond)
    assert session.phase is Phase.COMPLETE
    return session


# Before the login


def test_good_versions_are_passed_on_and_only_a_handshake_may_follow() -> None:
    session = new_session()
    assert session.receive(any_frame(ApiKey.API_VERSIONS), EARLY) == Pass(is_versions=True)
    session.note_versions_response(is_good=True)
    assert session.phase is Phase.HANDSHAKE
    assert isinstance(session.receive(handshake(), EARLY), Respond)


def test_versions_twice_after_good_ones_close_at_once() -> None:
    session = new_session()
    session.receive(any_frame(ApiKey.API_VERSIONS), EARLY)
    session.note_versions_response(is_good=True)
    assert isinstance(session.receive(any_frame(ApiKey.API_VERSIONS), EARLY), Close)


@pytest.mark.parametrize("version", [4, 99])
def test_versions_that_were_refused_may_be_asked_again(version: int) -> None:
    session = new_session()
    for _ in range(3):
        request = with_version(any_frame(ApiKey.API_VERSIONS), version)
        assert session.receive(request, EARLY) == Pass(is_versions=True)
        session.note_versions_response(is_good=False)
    assert isinstance(session.receive(handshake(), EARLY), Respond)


@pytest.mark.parametrize("key", sorted(set(KNOWN) - {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}))
def test_any_other_request_closes_at_once(key: ApiKey) -> None:
    assert isinstance(new_session().receive(any_frame(key), EARLY), Close)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"\x16\x03\x01\x02\0\x01", b"GET / HTTP/1.1\r\n\r\n", bytes(20), b"\xff" * 20],
)
def test_bytes_that_are_no_request_close_at_once(content: bytes) -> None:
    assert isinstance(new_session().receive(content, EARLY), Close)


@pytest.mark.parametrize("version", [2, 9, 32767])
def test_handshake_of_an_unknown_version_closes_at_once(version: int) -> None:
    assert isinstance(new_session().receive(with_version(handshake(), version), EARLY), Close)


def test_handshake_that_does_not_parse_closes_at_once() -> None:
    assert isinstance(new_session().receive(handshake()[:-2], EARLY), Close)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "SCRAM-SHA-256"])
def test_mechanism_that_is_not_enabled_is_refused_with_those_that_are(mechanism: str) -> None:
    step = new_session().receive(handshake(mechanism), EARLY)
    assert isinstance(step, Refuse)
    assert handshake_response(step).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert set(handshake_response(step).mechanisms) == {"PLAIN", "SCRAM-SHA-512"}


def test_enabled_mechanism_is_taken() -> None:
    answer = handshake_response(new_session().receive(handshake("SCRAM-SHA-512"), EARLY))
    assert answer.error_code == 0
    assert set(answer.mechanisms) == {"PLAIN", "SCRAM-SHA-512"}


# During the login


@pytest.mark.parametrize("version", [0, 1, 2])
def test_login_in_every_version(version: int) -> None:
    session = new_session()
    session.receive(handshake(), EARLY)
    challenge = session.receive(authenticate("more", version), EARLY)
    assert token_response(challenge, version).auth_bytes == b"challenge"
    step = session.receive(authenticate("alice", version), EARLY)
    assert isinstance(step, Respond)
    assert step.login is not None
    assert (step.login.mechanism, step.login.accepted.principal, step.login.is_repeated) == (
        "PLAIN",
        ALICE,
        False,
    )
    answer = token_response(step, version)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"proof", 0)


def test_bare_tokens_after_handshake_0() -> None:
    session = new_session()
    assert (
        response(session.receive(handshake(version=0), EARLY), ApiKey.SASL_HANDSHAKE, 0).error_code
        == 0
    )
    assert session.receive(b"more", EARLY) == Respond(chunks=[b"\0\0\0\x09challenge"])
    step = session.receive(b"bob", EARLY)
    assert isinstance(step, Respond)
    assert step.chunks == [b"\0\0\0\0"]
    assert step.login is not None


def test_bare_token_that_is_refused_gets_no_response() -> None:
    session = new_session()
    session.receive(handshake(version=0), EARLY)
    step = session.receive(b"told", EARLY)
    assert isinstance(step, Refuse)
    assert step.chunks is None


@pytest.mark.parametrize("key", sorted(set(KNOWN) - {ApiKey.SASL_AUTHENTICATE}))
def test_other_request_in_the_middle_of_a_login_is_refused(key: ApiKey) -> None:
    """The request gets the API's own error response where that has a place for the code.

    It gets an empty one otherwise, and its body is not read.
    """
    session, version = new_session(), KNOWN[key].max_version
    session.receive(handshake(), EARLY)
    step = session.receive(
        any_frame(key)[:-1] if key is ApiKey.CREATE_TOPICS else any_frame(key), EARLY
    )
    assert isinstance(step, Refuse)
    if step.chunks is not None:
        answer = response(step, key, version)
        assert getattr(answer, "error_code", 0) in (0, ErrorCode.ILLEGAL_SASL_STATE)
    assert session.phase is Phase.ENDED


def test_state_is_told_where_the_response_has_a_place_for_it() -> None:
    for key, version in (
        (ApiKey.API_VERSIONS, 0),
        (ApiKey.API_VERSIONS, 4),
        (ApiKey.SASL_HANDSHAKE, 1),
    ):
        session = new_session()
        session.receive(handshake(), EARLY)
        assert (
            response(session.receive(any_frame(key, version), EARLY), key, version).error_code
            == ErrorCode.ILLEGAL_SASL_STATE
        )


def test_metadata_1_in_the_middle_of_a_login_gets_an_empty_response() -> None:
    session = new_session()
    session.receive(handshake(), EARLY)
    answer = response(session.receive(any_frame(ApiKey.METADATA, 1), EARLY), ApiKey.METADATA, 1)
    assert (list(answer.brokers), list(answer.topics)) == ([], [])


@pytest.mark.parametrize(
    "content", [with_version(authenticate("alice"), 3), authenticate("alice")[:-3], b"", b"\0\x24"]
)
def test_broken_authenticate_closes_at_once(content: bytes) -> None:
    session = new_session()
    session.receive(handshake(), EARLY)
    assert isinstance(session.receive(content, EARLY), Close)


@pytest.mark.parametrize(
    ("token", "text"), [("told", "you are told"), ("no", GENERIC.format("authentication", "PLAIN"))]
)
def test_refused_login(token: str, text: str) -> None:
    session = new_session()
    session.receive(handshake(), EARLY)
    step = session.receive(authenticate(token), EARLY)
    assert isinstance(step, Refuse)
    answer = token_response(step)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)
    assert isinstance(session.receive(authenticate("alice"), EARLY), Close)


def test_login_that_has_to_be_looked_up() -> None:
    session = new_session()
    session.receive(handshake(), EARLY)
    assert session.receive(authenticate("look up"), EARLY) == Wait(wanted="a token")
    step = session.found(b"alice", EARLY)
    assert token_response(step).auth_bytes == b"proof"
    assert session.phase is Phase.COMPLETE


def test_a_password_is_compared_in_turn() -> None:
    session = new_session()
    session.receive(handshake(), EARLY)
    assert session.receive(authenticate("a password"), EARLY) == Wait(
        wanted=TurnWanted(user="alice")
    )
    assert session.phase is Phase.LOOKUP
    assert isinstance(session.found(None, EARLY), Refuse), "the mechanism has seen the token"


def test_a_login_that_is_turned_away_gets_no_response() -> None:
    """A client with the right password takes a closed connection for an outage, and tries again."""
    session = new_session()
    session.receive(handshake(), EARLY)
    session.receive(authenticate("a password"), EARLY)
    assert session.turn_away("too many") == Refuse(chunks=None, reason="too many")
    assert isinstance(session.receive(authenticate("alice"), EARLY), Close)


def test_frame_while_a_login_is_looked_up_closes_at_once() -> None:
    session = new_session()
    session.receive(handshake(), EARLY)
    session.receive(authenticate("look up"), EARLY)
    assert isinstance(session.receive(authenticate("alice"), EARLY), Close)


def test_login_takes_a_bounded_number_of_tokens() -> None:
    session = new_session()
    session.receive(handshake(), EARLY)
    steps = [session.receive(authenticate("more"), EARLY) for _ in range(9)]
    assert all(isinstance(step, Respond) for step in steps[:8])
    assert isinstance(steps[8], Refuse)


def test_credential_that_has_ended_is_refused() -> None:
    session = new_session()
    session.receive(handshake(), EARLY)
    assert isinstance(session.receive(authenticate("has ended"), EARLY), Refuse)


# After the login


@pytest.mark.parametrize("key", sorted(KNOWN))
def test_without_a_lifetime_everything_is_the_brokers(key: ApiKey) -> None:
    session = logged_in()
    assert session.receive(any_frame(key), after(10**9)) == Pass()
    assert session.phase is Phase.COMPLETE


@pytest.mark.parametrize(
    ("token", "max_reauth_ms", "lifetime_ms"),
    [
        ("alice", 0, 0),
        ("alice", 3_000, 3_000),
        ("ends in 5 s", 0, 5_000),
        ("ends in 5 s", 3_000, 3_000),
        ("ends in 5 s", 9_000, 5_000),
    ],
)
def test_lifetime_is_the_shorter_of_both(token: str, max_reauth_ms: int, lifetime_ms: int) -> None:
    session = new_session(max_reauth_ms)
    session.receive(handshake(), EARLY)
    assert (
        token_response(session.receive(authenticate(token), EARLY)).session_lifetime_ms
        == lifetime_ms
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_request_after_the_end_closes_at_once(version: int) -> None:
    """A client that logged in with SaslAuthenticate 0 is cut off, too.

    It was not told the lifetime, and cannot log in again.
    """
    session = logged_in(max_reauth_ms=1_000, version=version)
    assert session.receive(any_frame(ApiKey.METADATA), after(1_000)) == Pass()
    step = session.receive(any_frame(ApiKey.METADATA), after(1_001))
    assert isinstance(step, Close)
    assert step.is_expired


def test_lifetime_does_not_follow_the_wall_clock() -> None:
    session = logged_in(max_reauth_ms=1_000)
    assert (
        session.receive(
            any_frame(ApiKey.METADATA), Now(after(999).monotonic_ns, EARLY.wall_ms + 10**9)
        )
        == Pass()
    )
    assert isinstance(
        session.receive(any_frame(ApiKey.METADATA), Now(after(1_001).monotonic_ns, 0)), Close
    )


@pytest.mark.parametrize("ms", [500, 5_000])
def test_login_again_before_or_after_the_end(ms: int) -> None:
    session = logged_in(max_reauth_ms=1_000)
    assert handshake_response(session.receive(handshake(), after(ms))).error_code == 0
    step = session.receive(authenticate("alice"), after(ms))
    assert isinstance(step, Respond)
    assert step.login is not None
    assert step.login.is_repeated
    assert token_response(step).session_lifetime_ms == 1_000
    assert session.receive(any_frame(ApiKey.METADATA), after(ms + 1_000)) == Pass()
    assert isinstance(session.receive(any_frame(ApiKey.METADATA), after(ms + 1_001)), Close)


def test_login_again_within_a_second_is_left_to_the_broker_which_refuses_it() -> None:
    session = logged_in(max_reauth_ms=60_000)
    session.receive(handshake(), after(10))
    session.receive(authenticate("alice"), after(10))
    assert session.receive(handshake(), after(1_009)) == Pass()
    assert session.receive(any_frame(ApiKey.METADATA), after(1_009)) == Pass()
    assert isinstance(session.receive(handshake(), after(1_010)), Respond)


def test_login_again_within_a_second_of_an_ended_one_closes() -> None:
    session = logged_in(max_reauth_ms=100)
    session.receive(handshake(), after(10))
    session.receive(authenticate("alice"), after(10))
    assert isinstance(session.receive(handshake(), after(200)), Close)


def test_other_mechanism_is_answered_and_the_next_frame_is_refused_without_a_response() -> None:
    session = logged_in(max_reauth_ms=60_000)
    assert (
        handshake_response(session.receive(handshake("SCRAM-SHA-512"), after(10))).error_code == 0
    )
    step = session.receive(authenticate("alice"), after(10))
    assert isinstance(step, Refuse)
    assert step.chunks is None


def test_other_principal_is_refused_with_both_names() -> None:
    session = logged_in(max_reauth_ms=60_000)
    session.receive(handshake(), after(10))
    step = session.receive(authenticate("bob"), after(10))
    assert isinstance(step, Refuse)
    text = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert token_response(step).error_message == text
    assert session.login is not None
    assert session.login.accepted.principal == ALICE


def test_refused_login_again_says_so() -> None:
    session = logged_in(max_reauth_ms=60_000)
    session.receive(handshake(), after(10))
    step = session.receive(authenticate("no"), after(10))
    assert isinstance(step, Refuse)
    assert token_response(step).error_message == GENERIC.format("re-authentication", "PLAIN")


def test_request_between_handshake_and_the_end_of_the_next_login_is_refused() -> None:
    session = logged_in(max_reauth_ms=60_000)
    session.receive(handshake(), after(10))
    step = session.receive(any_frame(ApiKey.API_VERSIONS), after(10))
    assert response(step, ApiKey.API_VERSIONS, 4).error_code == ErrorCode.ILLEGAL_SASL_STATE


# Anything


FRAMES = [
    any_frame(ApiKey.API_VERSIONS),
    any_frame(ApiKey.METADATA),
    handshake(),
    handshake(version=0),
    handshake("SCRAM-SHA-512"),
    handshake("GSSAPI"),
    *(
        authenticate(token)
        for token in ("alice", "bob", "more", "look up", "told", "no", "ends in 5 s")
    ),
    b"alice",
]


@given(
    st.lists(st.one_of(st.sampled_from(FRAMES), st.binary(max_size=40)), max_size=8),
    st.sampled_from([0, 1_000]),
)
def test_any_frames_in_any_order(frames: list[bytes], max_reauth_ms: int) -> None:
    """Only a login makes a principal; what ended stays ended; a principal never changes."""
    session, principal = new_session(max_reauth_ms), None
    for index, content in enumerate(frames):
        has_ended = session.phase is Phase.ENDED
        step = session.receive(content, after(index * 700))
        if isinstance(step, Pass) and step.is_versions:
            session.note_versions_response(is_good=index % 2 == 0)
        elif isinstance(step, Wait):
            step = session.found(b"alice", after(index * 700))
        assert not has_ended or isinstance(step, Close)
        if isinstance(step, Pass) and not step.is_versions:
            assert principal is not None
        if isinstance(step, Respond) and step.login is not None:
            assert principal in (None, step.login.accepted.principal)
            principal = step.login.accepted.principal
