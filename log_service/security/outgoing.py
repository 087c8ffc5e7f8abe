"""TLS and login on a fresh connection that we opened: ``rpc.connection.Security`` for a client.

This module decides which failures are final. An untrusted certificate and a refused login are
reported at once and never retried. The modules of TLS and logins are imported only if the
configuration needs them, so plaintext clients do not pay for them.
"""

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from log_service.common.env import Connection
from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.client_security import ClientSecurity
from log_service.config.security import TlsConfig
from log_service.rpc.connection import Destination, Plaintext, RpcConnection, Security

if TYPE_CHECKING:
    from log_service.security.login import ClientLogin

WORDS_OF_DISTRUST: Final = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "ALERT_HANDSHAKE_FAILURE")
"""Parts of OpenSSL's reasons that mean distrust.

A TLS 1.2 peer that misses a certificate reports only a handshake failure.
"""


class StreamSecurity(Protocol):
    """Encrypts the stream of a fresh connection."""

    async def secure(self, destination: Destination, stream: Connection) -> Connection:
        """Return the stream to use on the connection, encrypted or as it is. Raises OSError."""


class OutgoingSecurity:
    """TLS if ``tls`` is given, then a login if ``login`` is given."""

    def __init__(self, tls: StreamSecurity | None, login: "ClientLogin | None") -> None:
        self._tls = tls
        self._login = login

    def __repr__(self) -> str:
        return f"<OutgoingSecurity tls={self._tls is not None} login={self._login!r}>"

    async def secure(self, destination: Destination, stream: Connection) -> Connection:
        """Return the encrypted stream.

        Raises:
            KafkaError: SASL_AUTHENTICATION_FAILED, one side does not trust the other's certificate.
            OSError: the handshake failed for another reason.
        """
        if self._tls is None:
            return stream
        try:
            return await self._tls.secure(destination, stream)
        except OSError as error:
            if _is_distrust(error):
                raise _distrust(destination, error) from error
            raise OSError(
                error.errno, f"the TLS handshake failed: {error.strerror or error}"
            ) from error

    async def authenticate(self, connection: RpcConnection) -> None:
        """Log in.

        A TLS 1.3 peer refuses a client's certificate after the handshake, so the first response may
        report that refusal.

        Raises:
            KafkaError: SASL_AUTHENTICATION_FAILED, the peer refuses the certificate; or an error of
                ``ClientLogin.authenticate``.
        """
        try:
            await (
                connection.negotiate()
                if self._login is None
                else self._login.authenticate(connection)
            )
        except KafkaError as error:
            if isinstance(connection.failure, OSError) and _is_distrust(connection.failure):
                raise _distrust(connection.destination, connection.failure) from error
            raise


def outgoing_security(security: ClientSecurity, rng: Random) -> Security:
    """Return the TLS and login that a client uses on every new connection.

    Raises:
        ConfigError: a key or trust store cannot be read, or the JAAS text configures no login.
    """
    if security.tls is None and security.login is None:
        return Plaintext()
    login = None
    if security.login is not None:
        from log_service.security.login import (  # noqa: PLC0415 - plaintext clients have no use for it
            ClientLogin,
        )

        login = ClientLogin(security.login, rng)
    return OutgoingSecurity(None if security.tls is None else _stream_security(security.tls), login)


def _stream_security(config: TlsConfig) -> StreamSecurity:
    from log_service.security.tls.outgoing import (  # noqa: PLC0415 - plaintext clients have no use for it
        RenewedTls,
    )

    return RenewedTls(config, Path.read_bytes)


def _distrust(destination: Destination, error: OSError) -> KafkaError:
    advice = (
        "see ssl_ca or ssl_truststore_location, and ssl_keystore_location where the broker asks for"
        " a certificate"
    )
    text = f"the TLS handshake with {destination} failed: {error.strerror or error}; {advice}"
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)


def _is_distrust(error: OSError) -> bool:
    import ssl  # noqa: PLC0415 - loaded already if a handshake failed

    found: BaseException | None = error
    while found is not None:
        reason = str(getattr(found, "reason", "") or "").upper()
        if isinstance(found, ssl.SSLCertVerificationError) or any(
            word in reason for word in WORDS_OF_DISTRUST
        ):
            return True
        found = found.__cause__
    return False
