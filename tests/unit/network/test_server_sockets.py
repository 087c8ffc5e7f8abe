"""The listener and the channel over real sockets: the same story once more with a kernel in
between.
"""

import struct
from pathlib import Path
from random import Random

import trio

from log_service.common.clock import SystemClock
from log_service.common.env import Env
from log_service.config.views import ListenerConfig, NetworkLimits
from log_service.network.server import (
    Chunk,
    ConnectionContext,
    PendingResponse,
    Response,
    Server,
    ServerBudget,
)
from log_service.network.sockets import SocketNetwork
from log_service.rpc.channel import open_channel
from log_service.storage.files import RealFiles

CONTENT = Random(5).randbytes(1_500_000)


class FileHandler:
    """The handler answers a request for n bytes with a slice of a file.

    A request with key 1 is answered a little later.
    """

    def __init__(self, path: Path, nursery: trio.Nursery) -> None:
        self.file = RealFiles(pool_threads=1).open(path)
        self.file.append_gathered([CONTENT])
        self._nursery = nursery
        self.closed_count = 0

    def handle_frame(self, context: ConnectionContext, frame: memoryview) -> Response:
        key, _, correlation_id, size = struct.unpack_from(">hhii", frame)
        if key == 0:
            return self._answer(correlation_id, size)
        answer = PendingResponse()
        self._nursery.start_soon(self._complete, answer, correlation_id, size)
        return answer

    def connection_closed(self, context: ConnectionContext) -> None:
        self.closed_count += 1

    async def _complete(self, answer: PendingResponse, correlation_id: int, size: int) -> None:
        await trio.lowlevel.checkpoint()
        answer.complete_encoded(self._answer(correlation_id, size))

    def _answer(self, correlation_id: int, size: int) -> list[Chunk]:
        return [struct.pack(">ii", 4 + size, correlation_id), self.file.slice(0, size)]


def request_of(key: int, size: int, padding: int = 0) -> list[bytes | bytearray | memoryview]:
    return [struct.pack(">ihhii", 12 + padding, key, 0, 0, size), bytes(padding)]


def test_requests_and_files_over_real_sockets(tmp_path: Path) -> None:
    async def main() -> None:
        limits = NetworkLimits()
        env = Env(clock=SystemClock(), rng=Random(1), network=SocketNetwork())
        listener = ListenerConfig(
            name="PLAINTEXT", host="127.0.0.1", port=0, advertised_host="", advertised_port=0
        )
        async with trio.open_nursery() as nursery:
            handler = FileHandler(tmp_path / "0.log", nursery)
            server = Server(
                env=env,
                listener=listener,
                limits=limits,
                handler=handler,
                shared=ServerBudget(limits),
            )
            await nursery.start(server.run)

            async def ask(number: int) -> None:
                size, padding = [
                    (10, 0),
                    (100_000, 10),
                    (1_500_000, 300_000),
                    (0, 70_000),
                    (200_000, 0),
                ][number % 5]
                frame = await channel.request(
                    request_of(number % 2, size, padding), timeout_ms=20_000
                )
                assert frame[4:] == CONTENT[:size]

            async with (
                open_channel(env, "localhost", server.bound_port) as channel,
                trio.open_nursery() as asking,
            ):
                for number in range(40):
                    asking.start_soon(ask, number)
            async with open_channel(env, "127.0.0.1", server.bound_port) as channel:
                await ask(0)
                await server.drain(5_000)
                with trio.fail_after(5):
                    await channel.wait_closed()
        handler.file.close()
        assert handler.closed_count == 2
        assert server.request_count == 41

    trio.run(main)
