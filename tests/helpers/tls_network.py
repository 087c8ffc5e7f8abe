"""A network whose every connection speaks TLS, over sockets or over memory.

It also makes the contexts of both sides for tests.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path

import trio

from log_service.common.env import Connection, Listener, Network, RunInPool
from log_service.config.security import TlsConfig
from log_service.config.server import parse_server_properties
from log_service.security.tls.connection import TlsConnection
from tests.helpers.authority import Authority, Issued


def server_side(issued: Issued, *, client_auth: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.keystore)
    context.load_verify_locations(issued.truststore)
    context.verify_mode = client_auth
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    return context


def client_side(trusted: Path, issued: Issued | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(trusted)
    if issued is not None:
        context.load_cert_chain(issued.keystore)
    return context


def tls_config_of(texts: Mapping[str, str]) -> TlsConfig:
    """Return the TLS settings of a node's one listener."""
    node = {
        "node.id": "1",
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
    }
    tls = parse_server_properties(node | dict(texts))[0].listeners[0].security.tls
    assert tls is not None
    return tls


class TlsNetwork:
    """TLS over ``network``.

    ``settle`` shakes hands on both ends of a connection, before any other use.
    """

    def __init__(
        self, network: Network, directory: Path, run_in_pool: RunInPool | None = None
    ) -> None:
        authority = Authority(directory)
        self._network = network
        self._server = server_side(authority.issue("node"))
        self._client = client_side(authority.truststore)
        self._run_in_pool = run_in_pool

    async def listen(self, host: str, port: int, *, backlog: int = 128) -> "TlsListening":
        return TlsListening(
            await self._network.listen(host, port, backlog=backlog), self._server, self._run_in_pool
        )

    async def connect(self, host: str, port: int) -> TlsConnection:
        return TlsConnection(
            await self._network.connect(host, port), self._client, server_hostname="localhost"
        )

    async def settle(self, *ends: Connection) -> None:
        async with trio.open_nursery() as nursery:
            for end in ends:
                assert isinstance(end, TlsConnection)
                nursery.start_soon(end.handshake)


class TlsListening:
    """A listener whose connections speak TLS."""

    def __init__(
        self, inner: Listener, context: ssl.SSLContext, run_in_pool: RunInPool | None
    ) -> None:
        self._inner = inner
        self._context = context
        self._run_in_pool = run_in_pool
        self.host, self.port = inner.host, inner.port

    async def accept(self) -> TlsConnection:
        return TlsConnection(
            await self._inner.accept(), self._context, run_in_pool=self._run_in_pool
        )

    def close(self) -> None:
        self._inner.close()
