"""What happens to a fresh connection that we opened: TLS, then a login. Makes ``rpc.connection.Security`` of a client's settings.

Decides which failures are final: a certificate that is not trusted and a login that is refused are told at once and never retried.
The modules of TLS and of logins are imported where a configuration asks for them, so that plaintext clients do not pay for them.
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
"""In OpenSSL's reasons. A peer of TLS 1.2 that misses a certificate says no more than that the handshake failed."""


class StreamSecurity(Protocol):
    """What encrypts the stream of a fresh connection."""

    async def secure(self, destination: Destination, stream: Connection) -> Connection:
        """Return the stream to speak on. Raises OSError."""


class OutgoingSecurity:
    """TLS where ``tls`` is given, and then a login where ``login`` is."""

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
            raise OSError(error.errno, f"the TLS handshake failed: {error.strerror or error}") from error

    async def authenticate(self, connection: RpcConnection) -> None:
        """Log in. A peer of TLS 1.3 refuses a client's certificate after the handshake, so that the first response may say so.

        Raises:
            KafkaError: SASL_AUTHENTICATION_FAILED, the peer wants another certificate; or as ``ClientLogin.authenticate``.
        """
        try:
            await (connection.negotiate() if self._login is None else self._login.authenticate(connection))
        except KafkaError as error:
            if isinstance(connection.failure, OSError) and _is_distrust(connection.failure):
                raise _distrust(connection.destination, connection.failure) from error
            raise


def outgoing_security(security: ClientSecurity, rng: Random) -> Security:
    """Return what is done with each fresh connection of a client.

    Raises:
        ConfigError: a store cannot be read, or the JAAS text means no login.
    """
    if security.tls is None and security.login is None:
        return Plaintext()
    login = None
    if security.login is not None:
        from log_service.security.login import ClientLogin  # noqa: PLC0415 - plaintext clients have no use for it

        login = ClientLogin(security.login, rng)
    return OutgoingSecurity(None if security.tls is None else _stream_security(security.tls), login)


def _stream_security(config: TlsConfig) -> StreamSecurity:
    from log_service.security.tls.outgoing import RenewedTls  # noqa: PLC0415 - plaintext clients have no use for it

    return RenewedTls(config, Path.read_bytes)


def _distrust(destination: Destination, error: OSError) -> KafkaError:
    advice = "see ssl_ca or ssl_truststore_location, and ssl_keystore_location where the broker asks for a certificate"
    text = f"the TLS handshake with {destination} failed: {error.strerror or error}; {advice}"
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)


def _is_distrust(error: OSError) -> bool:
    import ssl  # noqa: PLC0415 - loaded already where a handshake failed

    found: BaseException | None = error
    while found is not None:
        reason = str(getattr(found, "reason", "") or "").upper()
        if isinstance(found, ssl.SSLCertVerificationError) or any(word in reason for word in WORDS_OF_DISTRUST):
            return True
        found = found.__cause__
    return False
