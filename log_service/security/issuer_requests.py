"""One blocking HTTP exchange with a token issuer or a schema registry.

Run it in a thread.

This module decides how long an exchange may take, from the connection to the last byte, how many
bytes a response may have, which authorities TLS trusts, and which failures may be temporary. It
follows no redirects and uses no proxies, because both lead to hosts that the configuration does not
name.

Invariants: errors name the URL without user and options, and the authorities that were trusted.
Requests and responses are secrets and appear in no error.
"""

import http.client
import io
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from log_service.common.errors import ConfigError
from log_service.common.urls import shown_url
from log_service.config.security import TlsConfig
from log_service.config.tls import tls_config
from log_service.security.issuer_errors import IssuerError
from log_service.security.sasl.jaas import JaasEntry

if TYPE_CHECKING:
    import ssl

MAX_DOCUMENT_BYTES: Final = 1 << 20
MAX_HEAD_BYTES: Final = 1 << 16
"""The most bytes of a response beside its document: status line, headers, chunk framing."""
EXCHANGE_TIMEOUT_S: Final = 10.0
SYSTEM: Final = "the system's authorities"
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
NO_HEADERS: Final[Mapping[str, str]] = {}
PASSING_STATUSES: Final = frozenset({408, 425, 429})
"""The statuses below 500 after which a later request may succeed."""
NOT_OF_TRUST: Final = frozenset({9, 10, 62, 63, 64})
"""OpenSSL's errors of certificates that are bad under any signer.

The certificate is not yet valid, has expired, or is for another host.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerTls:
    """The TLS settings of an exchange.

    Error texts contain ``trusted``, the source of the trusted certificates, and ``advice`` on how
    to configure others.
    """

    config: TlsConfig = field(default_factory=lambda: tls_config({}))
    trusted: str = SYSTEM
    advice: str = (
        "name its authority as ssl.truststore.location, with ssl.truststore.type=PEM, among the"
        " options of sasl.jaas.config"
    )

    def context(self) -> "ssl.SSLContext":
        """Return the context of one connection, from the current content of the files.

        Raises:
            ConfigError: a store cannot be read, or cannot be used.
        """
        from log_service.security.tls.contexts import (  # noqa: PLC0415 - exchanges in the clear have no use for it
            client_context,
        )

        return client_context(self.config, Path.read_bytes).context


def issuer_tls(entry: JaasEntry | None) -> IssuerTls:
    """Return the TLS settings from the ``ssl.*`` options of a JAAS text.

    Kafka takes them from there, and not from the other keys.

    Raises:
        ConfigError: the options contradict each other.
    """
    options = (
        {}
        if entry is None
        else {
            name: value.reveal() for name, value in entry.options.items() if name.startswith("ssl.")
        }
    )
    try:
        config = tls_config(options)
    except ConfigError as error:
        raise ConfigError(f"the options of sasl.jaas.config: {error}") from None
    if config.truststore_location is not None:
        return IssuerTls(
            config=config,
            trusted=f"ssl.truststore.location={config.truststore_location} of sasl.jaas.config",
        )
    if config.truststore_certificates is not None:
        return IssuerTls(config=config, trusted="ssl.truststore.certificates of sasl.jaas.config")
    return IssuerTls(config=config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response to a request. The body may hold a token."""

    status: int
    body: bytes = field(repr=False)

    @property
    def may_pass(self) -> bool:
        """Whether a later request may succeed after a failure with this status."""
        return self.status >= 500 or self.status in PASSING_STATUSES


def exchange(
    url: str,
    tls: IssuerTls,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
    timeout_s: float = EXCHANGE_TIMEOUT_S,
) -> Response:
    """Send one request and return the response.

    The method is POST with a body, else GET.

    Raises:
        IssuerError: the issuer cannot be reached or is not trusted, does not speak HTTP, takes too
            long, or sends too much.
    """
    shown = shown_url(url)
    try:
        return _exchanged(urlsplit(url), tls, body, headers, time.monotonic() + timeout_s)
    except IssuerError:
        raise
    except ConfigError as error:
        raise IssuerError(f"TLS with {shown}: {error}", may_pass=True) from error
    except TimeoutError as error:
        raise IssuerError(
            f"{shown} did not send its whole response within {timeout_s:g} s", may_pass=True
        ) from error
    except _TooLargeError as error:
        raise IssuerError(
            f"{shown} sent more than {MAX_DOCUMENT_BYTES} bytes", may_pass=False
        ) from error
    except OSError as error:
        raise _lost(error, shown, tls) from error
    except (http.client.HTTPException, ValueError) as error:
        raise IssuerError(
            f"{shown} did not respond in HTTP: {type(error).__name__}", may_pass=True
        ) from error


class _TooLargeError(Exception):
    """The response is larger than the limit."""


def _lost(error: OSError, shown: str, tls: IssuerTls) -> IssuerError:
    fault, reason = getattr(error, "verify_message", ""), getattr(error, "reason", None)
    if fault and getattr(error, "verify_code", 0) in NOT_OF_TRUST:
        return IssuerError(
            f"the certificate of {shown} cannot be accepted: {fault.rstrip('.')}",
            may_pass=False,
        )
    if fault:
        text = f"the certificate of {shown} is not trusted ({fault}); trusted are {tls.trusted}"
        return IssuerError(f"{text}; {tls.advice}", may_pass=False)
    if reason:
        return IssuerError(f"the TLS handshake with {shown} failed ({reason})", may_pass=True)
    return IssuerError(f"{shown} cannot be reached: {error.strerror or error}", may_pass=True)


def _exchanged(
    parts: SplitResult,
    tls: IssuerTls,
    body: bytes | None,
    headers: Mapping[str, str],
    deadline: float,
) -> Response:
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with closing(
        _secured(
            _connected(host, port, deadline),
            host,
            tls if parts.scheme == "https" else None,
            deadline,
        )
    ) as stream:
        connection = http.client.HTTPConnection(host, port)
        connection.default_port = DEFAULT_PORTS[parts.scheme]  # the Host header omits this port
        connection.sock = _Bounded(stream, deadline)  # it needs only these parts of a socket
        connection.request(
            "GET" if body is None else "POST", target, body, {**headers, "Connection": "close"}
        )
        response = connection.getresponse()
        content = response.read(MAX_DOCUMENT_BYTES + 1)
        if len(content) > MAX_DOCUMENT_BYTES:
            raise _TooLargeError
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return Response(status=response.status, body=content)


def _connected(host: str, port: int, deadline: float) -> socket.socket:
    """Return a connection to the first address of a host that accepts one.

    Each remaining address gets an equal share of the remaining time.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure = OSError(f"{host} has no address")
    try:
        for tried_count, (family, kind, protocol, _, address) in enumerate(found):
            stream = socket.socket(family, kind, protocol)
            try:
                stream.settimeout(_left(deadline) / (len(found) - tried_count))
                stream.connect(address)
            except OSError as error:
                stream.close()
                failure = error
            else:
                return stream
        raise failure
    finally:
        del failure  # its traceback holds this frame


def _secured(
    stream: socket.socket, host: str, tls: IssuerTls | None, deadline: float
) -> socket.socket:
    """Return the stream to use: with ``tls`` an encrypted one.

    A failed handshake closes the given stream.
    """
    if tls is None:
        return stream
    try:
        stream.settimeout(_left(deadline))  # limits the whole handshake
        return tls.context().wrap_socket(stream, server_hostname=host)
    except BaseException:
        stream.close()
        raise


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Bounded:
    """The part of a socket that ``http.client`` needs, with one deadline for all reads and writes.

    The maker of the socket closes it.
    """

    def __init__(self, stream: socket.socket, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def sendall(self, content: Any) -> None:
        """Send bytes."""
        self._stream.settimeout(_left(self._deadline))
        self._stream.sendall(content)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a reader of the received bytes."""
        return io.BufferedReader(_BoundedBytes(self._stream, self._deadline))

    def close(self) -> None:
        """Do nothing, because the code that made the socket closes it."""


class _BoundedBytes(io.RawIOBase):
    """The received bytes of a connection, up to the size limits of a document and its head."""

    def __init__(self, stream: socket.socket, deadline: float) -> None:
        super().__init__()
        self._stream = stream
        self._deadline = deadline
        self._left_count = MAX_DOCUMENT_BYTES + MAX_HEAD_BYTES

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read available bytes, waiting until the deadline."""
        if self._left_count <= 0:
            raise _TooLargeError
        self._stream.settimeout(_left(self._deadline))
        count = self._stream.recv_into(buffer)
        self._left_count -= count
        return count
