"""Real sockets keep the contract of ``Network``.

They alone have sendfile, addresses and buffers.
"""

import socket
from pathlib import Path
from random import Random

import pytest
import trio

from log_service.common.env import Connection, FileSlice, Network
from log_service.network import sockets
from log_service.network.sockets import SocketNetwork
from tests.helpers.network_contract import NetworkContract, play, receive_exactly
from tests.unit.network.slices import DescriptorSlice


class TestSocketNetwork(NetworkContract):
    @pytest.fixture
    def network(self) -> Network:
        return SocketNetwork()


class TestSocketNetworkWithSmallBuffers(NetworkContract):
    @pytest.fixture
    def network(self) -> Network:
        return SocketNetwork(send_buffer_bytes=8_192, receive_buffer_bytes=8_192)


class TestSocketNetworkWithDescriptors(NetworkContract):
    """Slices go through sendfile where the system has it."""

    @pytest.fixture
    def network(self) -> Network:
        return SocketNetwork()

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def slice_of(self, content: bytes, position: int, size_bytes: int) -> FileSlice:
        path = self.directory / "segment"
        path.write_bytes(content)
        return DescriptorSlice(path, position, size_bytes)


class TestSocketNetworkWithoutSendfile(TestSocketNetworkWithDescriptors):
    """As on systems whose sendfile has other semantics."""

    @pytest.fixture(autouse=True)
    def _system(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sockets, "HAS_SENDFILE", False)
        monkeypatch.setattr(sockets, "MSG_MORE", 0)


@pytest.mark.skipif(not sockets.HAS_SENDFILE, reason="this system's sendfile has other semantics")
def test_kernel_reads_the_slice_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(100_000))
    file_slice = DescriptorSlice(path, 0, 100_000)

    async def scene(ours: Connection, theirs: Connection) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_file, [b"header"], file_slice)
            await receive_exactly(theirs, 100_006)

    play(SocketNetwork(), scene)
    file_slice.release()
    assert file_slice.read_count == 0


def test_small_sends_are_not_delayed_and_dead_peers_are_noticed() -> None:
    async def scene(ours: Connection, theirs: Connection) -> None:
        for end in (ours, theirs):
            real: socket.socket = end._socket  # type: ignore[attr-defined]
            assert real.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert real.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert (ours.peer_host, theirs.local_host) == ("127.0.0.1", "127.0.0.1")

    play(SocketNetwork(), scene)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize(
    ("host", "target", "peer"),
    [("::1", "::1", "::1"), ("", "::1", "::1"), ("", "127.0.0.1", "127.0.0.1")],
)
def test_ipv6_and_every_address_of_the_machine(host: str, target: str, peer: str) -> None:
    async def main() -> None:
        network = SocketNetwork()
        listener = await network.listen(host, 0)
        ours = await network.connect(target, listener.port)
        theirs = await listener.accept()
        assert theirs.peer_host == peer
        await ours.send_gathered([b"hello"])
        assert await receive_exactly(theirs, 5) == b"hello"
        for closing in (ours, theirs, listener):
            closing.close()

    trio.run(main)


def test_addresses_that_are_none_are_os_errors() -> None:
    async def main() -> None:
        network = SocketNetwork()
        for host, port in (("127.0.0.1", 70_000), ("x" * 300, 9092)):
            with pytest.raises(OSError, match=r".+"):
                await network.connect(host, port)
        with pytest.raises(OSError, match=r".+"):
            await network.listen("192.0.2.1", 0)

    trio.run(main)


def test_connection_reset_before_it_was_accepted_does_no_harm() -> None:
    async def main() -> None:
        network = SocketNetwork()
        listener = await network.listen("127.0.0.1", 0)
        hasty = socket.create_connection(("127.0.0.1", listener.port))
        hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        hasty.close()
        ours = await network.connect("127.0.0.1", listener.port)
        await ours.send_gathered([b"hello"])
        with trio.fail_after(10):
            while True:
                theirs = await listener.accept()
                try:
                    assert await receive_exactly(theirs, 5) == b"hello"
                except OSError:
                    theirs.close()
                    continue
                break
        for closing in (ours, theirs, listener):
            closing.close()

    trio.run(main)


def test_big_exchange_over_small_buffers_arrives_whole() -> None:
    content = Random(1).randbytes(3_000_000)

    async def scene(ours: Connection, theirs: Connection) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_gathered, [content[:1_000_000], content[1_000_000:]])
            assert await receive_exactly(theirs, len(content)) == content

    play(SocketNetwork(send_buffer_bytes=4_096, receive_buffer_bytes=4_096), scene)
