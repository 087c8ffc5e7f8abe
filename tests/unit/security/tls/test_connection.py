"""TLS over any byte stream keeps every network's promises. A peer that misbehaves gets nowhere."""

import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from log_service.common.env import Connection, FileSlice, Network
from log_service.network.sockets import SocketNetwork
from log_service.security.tls import connection as tls_connection
from log_service.security.tls.connection import BUSY_BYTES, CHUNK_BYTES, TlsConnection
from log_service.security.tls.failures import TlsError
from tests.helpers.authority import Authority
from tests.helpers.network_contract import NetworkContract, receive_exactly
from tests.helpers.tls_network import TlsNetwork, client_side, server_side
from tests.sim import MemoryNetwork, Weather
from tests.unit.network.slices import DescriptorSlice


class TestTlsOverMemory(NetworkContract):
    is_encrypted = True

    @pytest.fixture
    def network(self, tmp_path: Path) -> Network:
        return TlsNetwork(MemoryNetwork(), tmp_path)


class TestTlsOverSmallChunks(NetworkContract):
    is_encrypted = True

    @pytest.fixture
    def network(self, tmp_path: Path) -> Network:
        return TlsNetwork(
            MemoryNetwork(
                Random(1),
                Weather(max_latency=0.000_01, max_chunk_bytes=100_000, window_bytes=70_000),
            ),
            tmp_path,
        )


class TestTlsOverSockets(NetworkContract):
    is_encrypted = True

    @pytest.fixture
    def network(self, tmp_path: Path) -> Network:
        return TlsNetwork(SocketNetwork(), tmp_path)


class TestTlsWithFilesOnDisk(NetworkContract):
    is_encrypted = True

    @pytest.fixture
    def network(self, tmp_path: Path) -> Network:
        self.directory = tmp_path
        return TlsNetwork(SocketNetwork(), tmp_path)

    def slice_of(self, content: bytes, position: int, size_bytes: int) -> FileSlice:
        path = self.directory / "segment"
        path.write_bytes(content)
        return DescriptorSlice(path, position, size_bytes)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def play(
    authority: Authority,
    scene: Callable[[TlsConnection, Connection], Awaitable[None]],
    weather: Weather | None = None,
) -> None:
    """Run a scene with a server's end that speaks TLS and the raw other end, in virtual time."""

    async def main() -> None:
        network = MemoryNetwork(Random(1), weather)
        listener = await network.listen("", 1)
        raw = await network.connect("localhost", 1)
        with trio.fail_after(1_000):
            await scene(
                TlsConnection(await listener.accept(), server_side(authority.issue("server"))), raw
            )

    trio.run(main, clock=MockClock(autojump_threshold=0))


def secured(raw: Connection, authority: Authority) -> TlsConnection:
    return TlsConnection(raw, client_side(authority.truststore), server_hostname="localhost")


async def both(first: TlsConnection, second: TlsConnection) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.handshake)
        nursery.start_soon(second.handshake)


def test_a_handshake_that_arrives_byte_by_byte_succeeds(authority: Authority) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        client = secured(raw, authority)
        await both(server, client)
        assert server.version == "TLSv1.3"
        await client.send_gathered([b"x" * 5_000])
        assert await receive_exactly(server, 5_000) == b"x" * 5_000

    play(authority, scene, Weather(max_chunk_bytes=1))


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x00\x00\x1a\x00\x12\x00\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x80\x2e\x01\x00\x02" + bytes(60),
    ],
)
def test_a_client_without_tls_is_told_apart(authority: Authority, content: bytes) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        await raw.send_gathered([content])
        with pytest.raises(TlsError, match="does not speak TLS"):
            await server.handshake()

    play(authority, scene)


@pytest.mark.parametrize("seed", range(20))
def test_garbage_in_place_of_a_handshake_is_an_error_and_nothing_else(
    authority: Authority, seed: int
) -> None:
    rng = Random(seed)
    content = bytes([22, 3, rng.randrange(5)]) + rng.randbytes(rng.randrange(2_000))

    async def scene(server: TlsConnection, raw: Connection) -> None:
        await raw.send_gathered([content])
        raw.close()
        with pytest.raises((TlsError, ConnectionError)):
            await server.handshake()

    play(authority, scene)


def test_a_hello_that_is_cut_anywhere_is_the_end(authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_side(authority.truststore).wrap_bio(
            incoming, outgoing, server_hostname="localhost"
        ).do_handshake()
    hello = outgoing.read()
    for cut in range(0, len(hello), 23):

        async def scene(server: TlsConnection, raw: Connection, cut: int = cut) -> None:
            await raw.send_gathered([hello[:cut]])
            raw.close()
            with pytest.raises((TlsError, ConnectionError)):
                await server.handshake()

        play(authority, scene)


def test_a_handshake_without_end_is_cut_short(authority: Authority) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        async def flood() -> None:
            record = bytes([22, 3, 1, 0x40, 0, 1, 0x3F, 0xFF, 0xFF]) + bytes(0x4000 - 4)
            while True:
                await raw.send_gathered([record])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood)
            with pytest.raises(TlsError):
                await server.handshake()
            nursery.cancel_scope.cancel()

    play(authority, scene)


def test_a_client_that_does_not_trust_the_server_is_named(
    authority: Authority, tmp_path: Path
) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        client = secured(raw, Authority(tmp_path / "other"))

        async def handshake() -> None:
            with pytest.raises(TlsError, match="certificate of the server is not accepted"):
                await client.handshake()
            raw.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(handshake)
            with pytest.raises(
                TlsError, match="does not trust the authority that signed our certificate"
            ):
                await server.handshake()

    play(authority, scene)


def test_a_server_that_does_not_speak_tls_is_named(authority: Authority) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        network = MemoryNetwork()
        listener = await network.listen("", 2)
        client = secured(await network.connect("localhost", 2), authority)
        plain = await listener.accept()
        await plain.send_gathered([b"\x00\x00\x00\x05hello"])
        with pytest.raises(TlsError, match="the server does not speak TLS at this address"):
            await client.handshake()

    play(authority, scene)


def test_a_cancelled_send_closes_the_connection(authority: Authority) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        client = secured(raw, authority)
        await both(server, client)
        with trio.move_on_after(1) as scope:
            await server.send_gathered([bytes(1 << 20)])
        assert scope.cancelled_caught
        with pytest.raises(OSError, match="cut short"):
            await server.send_gathered([b"x"])

    play(authority, scene, Weather(window_bytes=30_000))


def test_closing_tells_the_peer_that_nothing_follows(authority: Authority) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        client = secured(raw, authority)
        await both(server, client)
        await server.send_gathered([b"last"])
        server.close()
        server.close()
        assert await receive_exactly(client, 4) == b"last"
        assert await client.receive_into(bytearray(10)) == 0
        assert client.ssl_object.read(1) == b"", "an end without a word would be an SSLEOFError"

    play(authority, scene)


def test_closing_tells_the_peer_over_sockets(tmp_path: Path) -> None:
    async def main() -> None:
        network = TlsNetwork(SocketNetwork(), tmp_path)
        listener = await network.listen("127.0.0.1", 0)
        client = await network.connect("127.0.0.1", listener.port)
        server = await listener.accept()
        with trio.fail_after(20):
            await network.settle(client, server)
            server.close()
            assert await client.receive_into(bytearray(10)) == 0
        assert client.ssl_object.read(1) == b"", "an end without a word would be an SSLEOFError"
        client.close()
        listener.close()

    trio.run(main)


def test_closing_in_the_middle_of_a_send_says_nothing_more(authority: Authority) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        client = secured(raw, authority)
        await both(server, client)
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                with pytest.raises(OSError, match="closed on our side"):
                    await server.send_gathered([bytes(1 << 20)])

            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            server.close()
        while await client.receive_into(bytearray(1 << 16)):
            pass
        with pytest.raises(ssl.SSLEOFError):
            client.ssl_object.read(1)

    play(authority, scene, Weather(window_bytes=30_000))


def test_closing_waits_for_no_peer(authority: Authority) -> None:
    """The peer's window is full: what it cannot take at once is left out."""

    async def scene(server: TlsConnection, raw: Connection) -> None:
        client = secured(raw, authority)
        await both(server, client)
        taken = server._inner.bytes_sent
        while server._inner._outgoing.room_bytes > 0:  # type: ignore[attr-defined]
            server._inner.send_nowait(bytes(1_000))  # type: ignore[attr-defined]
        server.close()
        assert server._inner.bytes_sent <= taken + 30_000

    play(authority, scene, Weather(window_bytes=30_000))


def test_closing_before_the_handshake_says_nothing(authority: Authority) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        server.close()
        assert await raw.receive_into(bytearray(10)) == 0

    play(authority, scene)


def test_bytes_changed_on_the_way_are_an_error(authority: Authority) -> None:
    async def scene(server: TlsConnection, raw: Connection) -> None:
        client = secured(raw, authority)
        await both(server, client)
        await raw.send_gathered([b"\x17\x03\x03\x00\x20" + bytes(32)])
        with pytest.raises(TlsError):
            await server.receive_into(bytearray(100))

    play(authority, scene)


def test_nothing_is_written_to_openssl_in_larger_pieces_than_its_buffer_may_keep(
    authority: Authority,
) -> None:
    sent: list[int] = []

    async def scene(server: TlsConnection, raw: Connection) -> None:
        client = secured(raw, authority)
        await both(server, client)
        server._inner = Counting(server._inner, sent)  # type: ignore[assignment]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.send_gathered, [bytes(3_000_000), b"end"])
            await receive_exactly(client, 3_000_003)

    play(authority, scene)
    assert max(sent) <= CHUNK_BYTES + 64 * 64
    assert BUSY_BYTES <= CHUNK_BYTES


class Counting:
    """A stream that notes how much it is given at once."""

    def __init__(self, inner: Connection, sent: list[int]) -> None:
        self._inner = inner
        self._sent = sent

    async def send_gathered(self, buffers: list[bytes]) -> None:
        self._sent.append(sum(map(len, buffers)))
        await self._inner.send_gathered(buffers)


def test_a_read_that_has_to_wait_for_the_disk_goes_to_the_pool(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = Random(1).randbytes(300_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    pooled: list[int] = []

    async def in_pool(read: Callable[[], int]) -> int:
        count = read()
        pooled.append(count)
        return count

    read_at = os.preadv

    def cold(descriptor: int, buffers: list[memoryview], position: int, flags: int = 0) -> int:
        if flags:
            raise BlockingIOError(11, "not in memory")
        return read_at(descriptor, buffers, position)

    monkeypatch.setattr(os, "preadv", cold)
    monkeypatch.setattr(tls_connection, "READ_NOW", 8)

    async def scene(server: TlsConnection, raw: Connection) -> None:
        server._run_in_pool = in_pool  # type: ignore[assignment]
        client = secured(raw, authority)
        await both(server, client)
        file_slice = DescriptorSlice(path, 0, len(content))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.send_file, [b"head"], file_slice)
            assert await receive_exactly(client, 300_004) == b"head" + content
        file_slice.release()

    play(authority, scene)
    assert sum(pooled) == len(content)
