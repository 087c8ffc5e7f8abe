"""Finds out why a listener ends fresh connections without a response.

The listener may require a login or TLS, or may not support TLS. A node that stops, or has too many
connections, ends them in the same way. So the end alone proves nothing. A test request is sent on a
connection of its own before the next attempt to connect. Only a response that proves one of these
causes makes the failure final. Any other response changes nothing.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import trio

from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from log_service.rpc.channel import TLS_BEGINNINGS
from log_service.rpc.connection import (
    Destination,
    EndedUnheardError,
    EndedWhileSecuredError,
    RpcConnection,
    RpcSettings,
    Security,
    open_connection,
)
from log_service.rpc.hello import client_hello

QUESTION_TIMEOUT_MS: Final = 3_000
ENDS_BEFORE_QUESTION: Final = 2
"""The number of connections that end in a row before the listener's protocol is checked.

A dying node ends one connection in the same way, and then refuses the next.
"""
QUESTION_INTERVAL_MS: Final = 10_000
"""The least time between two such checks of a destination, so that few reach a node in trouble."""
NO_MECHANISM: Final = ""
"""An invalid mechanism.

A listener with logins refuses it and names its mechanisms, without beginning a login.
"""

Question = Callable[[Env, Destination, RpcSettings, Security | None], Awaitable[None]]
"""Raises a KafkaError that is not retriable if the listener speaks another protocol."""


def question_after(ended: Exception) -> Question | None:
    """Return the test that finds the cause of a failed attempt to connect.

    None if the error itself tells the cause.
    """
    if isinstance(ended, EndedWhileSecuredError):
        return require_tls
    return require_no_tls if isinstance(ended, EndedUnheardError) else None


def question_to(connection: RpcConnection) -> Question | None:
    """Return the test that finds out why a connection ended, or None if it had been of use."""
    return require_no_login if connection.is_ended_unused else None


async def require_tls(
    env: Env, destination: Destination, settings: RpcSettings, _: Security | None
) -> None:
    """Raise if a listener that ended a TLS handshake responds to requests without TLS.

    Raises:
        KafkaError: SASL_AUTHENTICATION_FAILED, it responds.
    """
    try:
        async with open_connection(env, destination, _short(settings)):
            pass
    except (OSError, ProtocolError, KafkaError):
        return
    text = (
        f"{destination} speaks Kafka's protocol without TLS: set security_protocol to PLAINTEXT or"
        " SASL_PLAINTEXT, or take another port"
    )
    raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)


async def require_no_tls(
    env: Env, destination: Destination, _: RpcSettings, __: Security | None
) -> None:
    """Raise if a listener that ended a plain connection responds to a TLS handshake.

    Raises:
        KafkaError: SASL_AUTHENTICATION_FAILED, it responds.
    """
    received = bytearray(len(TLS_BEGINNINGS[0]))
    try:
        with trio.fail_after(QUESTION_TIMEOUT_MS / 1_000):
            stream = await env.network.connect(destination.host, destination.port)
            try:
                await stream.send_gathered([client_hello(destination.host)])
                await stream.receive_into(received)
            finally:
                stream.close()
    except (OSError, trio.TooSlowError):
        return
    if bytes(received) in TLS_BEGINNINGS:
        text = (
            f"{destination} speaks TLS: set security_protocol to SSL or SASL_SSL, or take another"
            " port"
        )
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)


async def require_no_login(
    env: Env, destination: Destination, settings: RpcSettings, security: Security | None
) -> None:
    """Raise if a listener that ended a connection at its first request offers logins.

    Raises:
        KafkaError: SASL_AUTHENTICATION_FAILED, it offers logins.
    """
    try:
        async with open_connection(env, destination, _short(settings), security) as connection:
            response = await connection.request_of_login(
                SaslHandshakeRequest(mechanism=NO_MECHANISM), SaslHandshakeResponse
            )
    except (OSError, ProtocolError, KafkaError):
        return
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(sorted(response.mechanisms))
        advice = "set security_protocol to SASL_SSL, or to SASL_PLAINTEXT where it has no TLS"
        text = (
            f"{destination} takes no request without a login: {advice}, and sasl_mechanism to one"
            f" of {offered}"
        )
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)


def _short(settings: RpcSettings) -> RpcSettings:
    return replace(
        settings, request_timeout_ms=QUESTION_TIMEOUT_MS, connect_timeout_ms=QUESTION_TIMEOUT_MS
    )
