"""The contract of every ``Network``, as tests.

Inherit ``NetworkContract`` and give it the fixture ``network``.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio

from log_service.common.env import Connection, FileSlice, Network
from tests.sim import MemoryFiles


@asynccontextmanager
async def connected(network: Network) -> AsyncIterator[tuple[Connection, Connection]]:
    """Return two ends of one connection: (the connecting end, the accepting end)."""
    listener = await network.listen("127.0.0.1", 0)
    ours = await network.connect("127.0.0.1", listener.port)
    theirs = await listener.accept()
    listener.close()
    try:
        settle = getattr(network, "settle", None)  # handshakes, which need both ends
        if settle is not None:
            await settle(ours, theirs)
        yield ours, theirs
    finally:
        ours.close()
        theirs.close()


async def receive_exactly(connection: Connection, size_bytes: int) -> bytes:
    received = bytearray(size_bytes)
    view = memoryview(received)
    while view:
        count = await connection.receive_into(view)
        if not count:
            break
        view = view[count:]
    return bytes(received[: size_bytes - len(view)])


async def send_for_a_while(connection: Connection) -> None:
    for _ in range(100):
        await connection.send_gathered([b"hello?"])
        await trio.sleep(0.001)


def play(network: Network, scene: Callable[[Connection, Connection], Awaitable[None]]) -> None:
    async def main() -> None:
        with trio.fail_after(20):
            async with connected(network) as (ours, theirs):
                await scene(ours, theirs)

    trio.run(main)


class NetworkContract:
    """Tests for streams, slices, closing and refusals.

    With ``is_encrypted`` more bytes are sent than are given.
    """

    is_encrypted = False

    def has_sent(self, connection: Connection, size_bytes: int) -> bool:
        return (
            connection.bytes_sent > size_bytes
            if self.is_encrypted
            else connection.bytes_sent == size_bytes
        )

    def test_bytes_arrive_in_order_both_ways(self, network: Network) -> None:
        async def scene(ours: Connection, theirs: Connection) -> None:
            await ours.send_gathered([b"ab", bytearray(b"cd"), memoryview(b"xefx")[1:3]])
            assert await receive_exactly(theirs, 6) == b"abcdef"
            await theirs.send_gathered([b"back"])
            assert await receive_exactly(ours, 4) == b"back"
            assert self.has_sent(ours, 6)
            assert self.has_sent(theirs, 4)

        play(network, scene)

    def test_gathered_send_of_more_than_a_system_call_takes(self, network: Network) -> None:
        buffers = [Random(number).randbytes(number % 700) for number in range(5_000)]
        content = b"".join(buffers)

        async def scene(ours: Connection, theirs: Connection) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.send_gathered, buffers)
                assert await receive_exactly(theirs, len(content)) == content
            assert self.has_sent(ours, len(content))

        play(network, scene)

    def test_sending_nothing_sends_nothing(self, network: Network) -> None:
        async def scene(ours: Connection, theirs: Connection) -> None:
            await ours.send_gathered([])
            await ours.send_gathered([b"", b""])
            await ours.send_gathered([b"x"])
            assert await receive_exactly(theirs, 1) == b"x"
            assert self.has_sent(ours, 1)

        play(network, scene)

    def test_sender_waits_for_a_reader(self, network: Network) -> None:
        content = bytes(30_000_000)

        async def scene(ours: Connection, theirs: Connection) -> None:
            with trio.move_on_after(0.05) as waiting:
                await ours.send_gathered([content])
            assert waiting.cancelled_caught
            assert 0 < ours.bytes_sent < len(content)

        play(network, scene)

    @pytest.mark.parametrize("size", [1, 100_000, 5_000_000])
    def test_slice_of_a_file_follows_its_header(self, network: Network, size: int) -> None:
        content = Random(size).randbytes(size)

        async def scene(ours: Connection, theirs: Connection) -> None:
            file_slice = self.slice_of(b"before" + content + b"after", 6, size)

            async def send() -> None:
                await ours.send_file([b"head", b"er"], file_slice)
                await ours.send_file([], file_slice)
                file_slice.release()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                assert await receive_exactly(theirs, 6 + 2 * size) == b"header" + content + content
            assert self.has_sent(ours, 6 + 2 * size)

        play(network, scene)

    def test_slice_of_a_file_that_is_too_short_is_an_error(self, network: Network) -> None:
        async def scene(ours: Connection, theirs: Connection) -> None:
            file_slice = self.slice_of(b"short", 0, 10)
            with pytest.raises(OSError, match="ended 5 bytes"):
                await ours.send_file([b"header"], file_slice)
            file_slice.release()

        play(network, scene)

    def slice_of(self, content: bytes, position: int, size_bytes: int) -> FileSlice:
        """Return a slice of a file with that content. The file may be shorter than the slice."""
        file = MemoryFiles().open(Path("/segment"))
        file.append_gathered([content])
        return file.slice(position, size_bytes)

    def test_peer_that_closes_is_the_end_of_the_stream(self, network: Network) -> None:
        async def scene(ours: Connection, theirs: Connection) -> None:
            await ours.send_gathered([b"last words"])
            ours.close()
            ours.close()
            assert await receive_exactly(theirs, 100) == b"last words"
            assert await theirs.receive_into(bytearray(1)) == 0

        play(network, scene)

    def test_sending_to_a_peer_that_has_gone_fails_before_long(self, network: Network) -> None:
        async def scene(ours: Connection, theirs: Connection) -> None:
            theirs.close()
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                await send_for_a_while(ours)

        play(network, scene)

    def test_closing_wakes_all_that_wait(self, network: Network) -> None:
        async def scene(ours: Connection, theirs: Connection) -> None:
            async def receive() -> None:
                with pytest.raises(OSError, match="closed on our side"):
                    await ours.receive_into(bytearray(1))

            async def send() -> None:
                with pytest.raises(
                    OSError, match=r"closed on our side|Bad file descriptor|was cut short"
                ):
                    await ours.send_gathered([bytes(30_000_000)])

            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                nursery.start_soon(send)
                await trio.sleep(0.01)
                ours.close()
            with pytest.raises(
                OSError, match=r"closed on our side|Bad file descriptor|was cut short"
            ):
                await ours.send_gathered([b"x"])
            with pytest.raises(OSError, match="closed on our side"):
                await ours.receive_into(bytearray(1))

        play(network, scene)

    def test_cancelled_receive_loses_nothing(self, network: Network) -> None:
        async def scene(ours: Connection, theirs: Connection) -> None:
            with trio.move_on_after(0.01) as waiting:
                await theirs.receive_into(bytearray(10))
            assert waiting.cancelled_caught
            await ours.send_gathered([b"abc"])
            assert await receive_exactly(theirs, 3) == b"abc"

        play(network, scene)

    def test_listener_has_its_real_port_and_closing_it_wakes_accept(self, network: Network) -> None:
        async def main() -> None:
            listener = await network.listen("127.0.0.1", 0)
            assert listener.port > 0
            assert listener.host == "127.0.0.1"
            with pytest.raises(OSError, match="in use"):
                await network.listen("127.0.0.1", listener.port)

            async def accept() -> None:
                with pytest.raises(OSError, match="closed"):
                    await listener.accept()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(accept)
                await trio.sleep(0.01)
                listener.close()
                listener.close()
            with pytest.raises(ConnectionRefusedError):
                await network.connect("127.0.0.1", listener.port)
            with pytest.raises(OSError, match="closed"):
                await listener.accept()

        trio.run(main)
