"""A listener with SASL, and a client that logs in, read these bytes before they know each other.

Draws a whole login, by PLAIN or by SCRAM, with requests before, in the middle and behind it, and
damages it: any byte of it, the order of its frames, or how many there are. The broker's part of the
nonce is fixed here, so that the proof of a login is right while nothing is damaged. A client is
told of few iterations, of many, and of numbers that are none.

A target breaks its promise where a login succeeds as a user that is not there, or where a client is
to salt a password more often than it takes. A refusal is a ``ProtocolError`` here, as of every
other decoder.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

from log_service.common.access import Principal
from log_service.common.errors import ProtocolError
from log_service.common.secrets import SecretText
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest
from log_service.protocol.schema import Message
from log_service.security.sasl.credentials import ScramCredential, ScramMechanism
from log_service.security.sasl.mechanisms import LoginError, ServerExchange
from log_service.security.sasl.plain import PlainServer
from log_service.security.sasl.scram import (
    MIN_ITERATIONS,
    PLAIN_SHAPE,
    client_key,
    client_proof,
    credential_from,
    decoy_credential,
    salted_password,
    server_signature,
    to_base64,
)
from log_service.security.sasl.scram import server_key as key_of_server
from log_service.security.sasl.scram_client import MAX_CLIENT_ITERATIONS, SaltingWanted, ScramClient
from log_service.security.sasl.scram_server import ScramServer
from log_service.security.sasl.session import (
    Close,
    LoginPolicy,
    LoginSession,
    Now,
    Pass,
    Phase,
    Refuse,
    Wait,
)
from tests.fuzz.mutations import mutate

MECHANISM = ScramMechanism.SHA_256
USER, PASSWORD, SALT = "alice", SecretText("alice-secret"), b"salt"
CLIENT_NONCE, SERVER_NONCE = "clientnonce", "servernonce"
KNOWN = Principal("User", USER)
LENGTH = struct.Struct(">H")
BARE, FINAL_WITHOUT_PROOF = f"n={USER},r={CLIENT_NONCE}", f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE}"
SERVER_FIRST = f"r={CLIENT_NONCE}{SERVER_NONCE},s={to_base64(SALT)},i={MIN_ITERATIONS}"
ITERATIONS = (
    "0",
    "1",
    "4095",
    "4096",
    "65536",
    "65537",
    "2147483647",
    "99999999999",
    "-1",
    "",
    "4096.0",
    "٤٠٩٦",
    "1" * 5_000,
)
MOST_STEPS = 64


@cache
def _salted() -> Any:
    return salted_password(MECHANISM, PASSWORD, SALT, MIN_ITERATIONS)


def _auth_message() -> bytes:
    return f"{BARE},{SERVER_FIRST},{FINAL_WITHOUT_PROOF}".encode()


# The broker's side


def draw_login(rng: Random) -> bytes:
    """Return the frames of one connection, each behind its length, and damaged in most cases."""
    frames = list(_frames(rng))
    if rng.random() < 0.3:
        rng.shuffle(frames)
    if rng.random() < 0.2:
        frames.insert(rng.randrange(len(frames) + 1), rng.choice(frames))
    if rng.random() < 0.7:
        place = rng.randrange(len(frames))
        frames[place] = mutate(rng, frames[place])
    return joined(frames)


def joined(frames: Sequence[bytes]) -> bytes:
    """Return frames, each behind its length; those that are too long are left out."""
    return b"".join(LENGTH.pack(len(frame)) + frame for frame in frames if len(frame) < 1 << 16)


def whole_login(handshake_version: int) -> list[bytes]:
    """Return the frames of a SCRAM login that succeeds; tokens are bare behind a handshake of
    version 0.
    """
    return [
        _frame(SaslHandshakeRequest(mechanism=MECHANISM.mechanism_name), handshake_version),
        *(
            _frame(SaslAuthenticateRequest(auth_bytes=token), 2) if handshake_version else token
            for token in _scram_tokens()
        ),
    ]


def _frames(rng: Random) -> Iterator[bytes]:
    if rng.random() < 0.5:
        yield _frame(
            ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3
        )
    is_scram, is_bare = rng.random() < 0.7, rng.random() < 0.3
    yield _frame(
        SaslHandshakeRequest(mechanism=MECHANISM.mechanism_name if is_scram else "PLAIN"),
        0 if is_bare else 1,
    )
    for token in _scram_tokens() if is_scram else [f"\0{USER}\0{PASSWORD.reveal()}".encode()]:
        token = mutate(rng, token) if rng.random() < 0.3 else token  # noqa: PLW2901 - the same, damaged
        yield (
            token
            if is_bare
            else _frame(SaslAuthenticateRequest(auth_bytes=token), rng.randrange(3))
        )
    yield _frame(MetadataRequest(), 9)


def _scram_tokens() -> list[bytes]:
    proof = client_proof(MECHANISM, client_key(MECHANISM, _salted()), _auth_message())
    return [f"n,,{BARE}".encode(), f"{FINAL_WITHOUT_PROOF},p={to_base64(proof)}".encode()]


def _frame(request: Message, version: int) -> bytes:
    key = ApiKey(request.SCHEMA.key or 0)
    chunks: list[Any] = list(encode_request(RequestHeader(key, version, 7, "fuzz"), request))
    return b"".join(chunks)[4:]


@cache
def _credential() -> ScramCredential:
    return credential_from(MECHANISM, _salted(), SALT, MIN_ITERATIONS)


def _begin(mechanism: str) -> ServerExchange:
    if mechanism == "PLAIN":
        return PlainServer({USER: PASSWORD})
    return ScramServer(
        MECHANISM,
        SERVER_NONCE,
        find=lambda name: _credential() if name == USER else None,
        decoy=lambda name, _is_by_token: decoy_credential(MECHANISM, name, PLAIN_SHAPE, b"secret"),
    )


def read_login(content: bytes) -> LoginSession:
    """Take frames as a listener does, until one is refused."""
    session = LoginSession(
        LoginPolicy(
            mechanisms=("PLAIN", MECHANISM.mechanism_name),
            begin=_begin,
            max_reauth_ms={"PLAIN": 60_000},
        )
    )
    position = 0
    for number in range(MOST_STEPS):
        if position + LENGTH.size > len(content):
            break
        (size,) = LENGTH.unpack_from(content, position)
        frame = memoryview(content)[position + LENGTH.size : position + LENGTH.size + size]
        position += LENGTH.size + size
        _receive(session, frame, Now(number * 10**9, 0))
    if session.login is not None and session.login.accepted.principal != KNOWN:
        raise AssertionError(f"logged in as {session.login.accepted.principal}")
    if session.phase is Phase.COMPLETE and session.login is None:
        raise AssertionError("complete without a login")
    return session


def _receive(session: LoginSession, frame: memoryview, now: Now) -> None:
    was_in = session.login is not None
    step = session.receive(frame, now)
    if isinstance(step, Wait):  # a token that is not there
        step = session.found(None, now)
    if isinstance(step, Pass):
        if not was_in and not step.is_versions:
            raise AssertionError("a request is served before the login")
        session.note_versions_response(is_good=step.is_versions)
    elif isinstance(step, Refuse | Close):
        raise ProtocolError(step.reason)


# The client's side


def draw_challenge(rng: Random) -> bytes:
    """Return a broker's first message and its last, each behind its length.

    They are right, with odd iterations, or damaged.
    """
    first = (
        SERVER_FIRST
        if rng.random() < 0.5
        else SERVER_FIRST.replace(str(MIN_ITERATIONS), rng.choice(ITERATIONS))
    )
    signature = server_signature(MECHANISM, key_of_server(MECHANISM, _salted()), _auth_message())
    messages = [first.encode(), f"v={to_base64(signature)}".encode()]
    if rng.random() < 0.6:
        place = rng.randrange(2)
        messages[place] = mutate(rng, messages[place])
    return b"".join(LENGTH.pack(len(message)) + message for message in messages)


def read_challenge(content: bytes) -> None:
    """Log in at a broker that says this."""
    client = ScramClient(MECHANISM, USER, CLIENT_NONCE)
    client.first()
    try:
        for _ in range(2):
            size = LENGTH.unpack_from(content)[0] if len(content) >= LENGTH.size else 0
            wanted = client.evaluate(bytes(content[LENGTH.size : LENGTH.size + size]))
            content = content[LENGTH.size + size :]
            if isinstance(wanted, SaltingWanted):
                if not MIN_ITERATIONS <= wanted.iterations <= MAX_CLIENT_ITERATIONS:
                    raise AssertionError(f"a password is to be salted {wanted.iterations} times")
                client.resume(_salted())
    except LoginError as error:
        raise ProtocolError(str(error)) from error
    if not client.is_complete:
        raise AssertionError("the client is content, and the broker has proved nothing")
