"""The handshakes of clients on one listener: limits, deadlines, and the clients' principals.

This module decides when a handshake has taken too long, how many half-open connections there may be
(in total and from one address), and which principal belongs to a client's certificate. A half-open
connection counts against the connection limits like any other. The server has counted it before it
arrives here.

``replace`` swaps the context. Open connections keep the old one, and new handshakes use the new
one.
"""

import errno
from datetime import UTC, datetime

import trio

from log_service.common.access import ANONYMOUS, Principal
from log_service.common.env import Connection, RunInPool
from log_service.config.security import TlsConfig
from log_service.network.responses import ConnectionContext
from log_service.security.tls.connection import TlsConnection
from log_service.security.tls.contexts import Contexts, has_ended, server_context
from log_service.security.tls.distinguished_names import subject_text
from log_service.security.tls.failures import TlsError
from log_service.security.tls.material import Read
from log_service.security.tls.principal_mapping import NoRuleMatchesError, PrincipalMapping

HANDSHAKE_DEADLINE_MS = 10_000
MAX_HALF_OPEN_COUNT = 1_024
MAX_HALF_OPEN_COUNT_PER_HOST = 256


class TlsListener:
    """One listener's side of TLS.

    ``is_client_named`` tells whether a certificate determines the principal. On SASL listeners the
    login does.

    Raises:
        ConfigError: the configuration cannot be applied.
    """

    def __init__(
        self,
        config: TlsConfig,
        read: Read,
        *,
        is_client_named: bool = True,
        run_in_pool: RunInPool | None = None,
    ) -> None:
        self.contexts = server_context(config, read)
        self._mapping = PrincipalMapping(config.principal_mapping_rules)
        self._is_client_named = is_client_named
        self._run_in_pool = run_in_pool
        self._half_open: dict[str, dict[Connection, None]] = {}
        self._half_open_count = 0

    def __repr__(self) -> str:
        return f"<TlsListener half_open={self._half_open_count}>"

    @property
    def half_open_count(self) -> int:
        """The number of handshakes in progress."""
        return self._half_open_count

    def replace(self, contexts: Contexts) -> None:
        """Use these contexts for new handshakes."""
        self.contexts = contexts

    async def secure(self, stream: Connection, context: ConnectionContext) -> Connection:
        """Perform the handshake with a client, and return the stream to use.

        It also sets the principal of ``context`` to the client's.

        Raises:
            TlsError: the client does not speak TLS, or not ours; its certificate is not accepted;
                it takes too long; there are too many.
            OSError: the client is gone.
        """
        self._admit(stream, context.peer_host)
        try:
            secured = TlsConnection(stream, self.contexts.context, run_in_pool=self._run_in_pool)
            with trio.move_on_after(HANDSHAKE_DEADLINE_MS / 1_000) as scope:
                await secured.handshake()
            if scope.cancelled_caught:
                raise TlsError(
                    f"its TLS handshake was not complete after {HANDSHAKE_DEADLINE_MS} ms"
                )
        finally:
            self._release(stream, context.peer_host)
        _check_resumed(secured)
        if self._is_client_named:
            context.principal = self._principal(secured.peer_certificate)
        return secured

    def _principal(self, certificate: bytes | None) -> Principal:
        if certificate is None:
            return ANONYMOUS
        try:
            return Principal("User", self._mapping.user_of(subject_text(certificate)))
        except (ValueError, NoRuleMatchesError) as error:
            raise TlsError(f"its certificate names no user: {error}") from error

    def _admit(self, stream: Connection, host: str) -> None:
        """Count a handshake, or refuse it because there are too many.

        At the limit of all addresses together, the oldest handshake of the address that has the
        most is closed to make room.

        Raises:
            TlsError: this address has too many handshakes, or no room was made.
        """
        own_count = len(self._half_open.get(host, ()))
        if own_count >= MAX_HALF_OPEN_COUNT_PER_HOST or (
            self._half_open_count >= MAX_HALF_OPEN_COUNT and not self._has_made_room(own_count)
        ):
            text = (
                f"{self._half_open_count} TLS handshakes are under way, {own_count} of them from"
                " this address"
            )
            raise TlsError(text) from OSError(errno.EBUSY, text)
        self._half_open_count += 1
        self._half_open.setdefault(host, {})[stream] = None

    def _has_made_room(self, own_count: int) -> bool:
        """Close the oldest handshake of the address that has the most, and return whether it did.

        ``own_count`` is the number of handshakes of the new client's address. If the other address
        has at most one more, nothing is closed.
        """
        busiest = max(self._half_open, key=lambda host: len(self._half_open[host]))
        if len(self._half_open[busiest]) <= own_count + 1:
            return False
        oldest = next(iter(self._half_open[busiest]))
        self._release(oldest, busiest)
        oldest.close()
        return True

    def _release(self, stream: Connection, host: str) -> None:
        """Stop counting a handshake. Idempotent."""
        streams = self._half_open.get(host)
        if streams is None or stream not in streams:
            return
        self._half_open_count -= 1
        del streams[stream]
        if not streams:
            del self._half_open[host]


def utc_now() -> datetime:
    """Return the machine's current time, which OpenSSL also uses."""
    return datetime.now(UTC)


def _check_resumed(secured: TlsConnection) -> None:
    """Refuse a client that resumes a session with a certificate that has expired since.

    OpenSSL does not check the certificate again on resumption.

    Raises:
        TlsError: the certificate has expired.
    """
    if not secured.is_resumed:
        return
    certificate = secured.peer_certificate
    if certificate is not None and has_ended(certificate, utc_now()):
        raise TlsError(
            "the certificate of the client is not accepted: it has expired since the session began"
            " that the client takes up"
        )
