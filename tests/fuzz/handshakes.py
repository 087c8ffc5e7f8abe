"""A listener with TLS reads these bytes before it knows its client.

They are hellos, the names in certificates, and stores of keys. Draws a hello of OpenSSL's own and
damages it; reads it as a listener does, over a stream that ends behind it. A refusal is a
``ProtocolError`` here, as of every other decoder; anything else that is raised is a finding.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import trio

from log_service.common.env import FileSlice
from log_service.common.errors import ConfigError, ProtocolError
from log_service.common.secrets import SecretText
from log_service.common.types import Buffer
from log_service.config.tls import tls_config
from log_service.network.responses import ConnectionContext
from log_service.rpc.hello import client_hello
from log_service.security.tls.distinguished_names import subject_text
from log_service.security.tls.java_key_store import read_java_key_store
from log_service.security.tls.listener import TlsListener
from tests.fuzz.mutations import mutate
from tests.helpers.authority import Authority

KEY_STORE = Path(__file__).resolve().parents[1] / "unit" / "security" / "tls" / "facts" / "key.jks"


class _Ending:
    """A client that sends some bytes, a few at a time, and leaves."""

    peer_host, peer_port, local_host, bytes_sent = "client", 1, "node", 0

    def __init__(self, content: bytes) -> None:
        self._rest = memoryview(content)

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        taken = min(len(buffer), len(self._rest), 1 + len(self._rest) // 2)
        buffer[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken

    async def send_gathered(self, buffers: Sequence[Buffer]) -> None:
        """Take the listener's flights, and read none."""

    async def send_file(self, header: Sequence[Buffer], file_slice: FileSlice) -> None:
        """Take nothing: no handshake sends files."""

    def close(self) -> None:
        """Leave."""


@cache
def _listener() -> TlsListener:
    with TemporaryDirectory() as directory:
        texts = Authority(Path(directory)).issue("node").properties() | {
            "ssl.client.auth": "required"
        }
        return TlsListener(tls_config(texts), Path.read_bytes)


@cache
def _certificate() -> bytes:
    key = _listener().contexts.key
    assert key is not None
    return key.chain[0]


def draw_hello(rng: Random) -> bytes:
    """Return a damaged hello, or a handshake's first bytes and anything behind them."""
    return mutate(
        rng,
        client_hello("node")
        if rng.random() < 0.8
        else bytes([22, 3, rng.randrange(5)]) + rng.randbytes(rng.randrange(400)),
    )


def read_hello(content: bytes) -> None:
    """Shake hands with a client that sends this."""
    listener = _listener()
    try:
        trio.run(listener.secure, _Ending(content), ConnectionContext(1, "client", "node", "SSL"))
    except OSError as error:
        raise ProtocolError(str(error)) from error
    finally:
        assert listener.half_open_count == 0, "a handshake is counted that has ended"


def draw_certificate(rng: Random) -> bytes:
    """Return a damaged certificate."""
    return mutate(rng, _certificate())


def read_certificate(content: bytes) -> None:
    """Read the name in a certificate."""
    try:
        subject_text(content)
    except ValueError as error:
        raise ProtocolError(str(error)) from error


def draw_key_store(rng: Random) -> bytes:
    """Return a damaged key store in JKS."""
    return mutate(rng, KEY_STORE.read_bytes())


def read_key_store(content: bytes) -> None:
    """Read a key store whose integrity is not checked, and its key."""
    try:
        for entry in read_java_key_store(content, None).keys:
            entry.key(SecretText("changeit2"))
    except ConfigError as error:
        raise ProtocolError(str(error)) from error
