"""A listener keeps the order of answers in any weather, and leaves nothing behind.

Bytes are sent, cut, reset and completed in whatever order.
"""

import struct
from pathlib import Path
from random import Random

import pytest
import trio

from log_service.common.errors import ProtocolError
from log_service.config.views import ListenerConfig, NetworkLimits
from log_service.network.server import (
    PUT_OFF,
    Chunk,
    ConnectionContext,
    PendingResponse,
    Response,
    Server,
    ServerBudget,
)
from tests.sim import MemoryFiles, Weather, World, sim_run
from tests.unit.network.harness import Peer, framed

LIMITS = NetworkLimits(
    max_frame_bytes=50_000,
    receive_buffer_bytes=1_024,
    max_requests_in_flight_per_connection=5,
    max_request_bytes_in_flight=60_000,
    frame_deadline_ms=20_000,
    idle_timeout_ms=60_000,
)


class MoodyHandler:
    """The handler answers with the request's number, in bytes or slices of a file.

    It does so at once, later, after a pause, from a held frame, or never.
    """

    def __init__(self, rng: Random, nursery: trio.Nursery) -> None:
        self.rng = rng
        self.files = MemoryFiles()
        self.open_contexts: set[int] = set()
        self._nursery = nursery
        self._file = self.files.open(Path("/segment"))
        self._file.append_gathered([bytes(200_000)])

    def handle_frame(self, context: ConnectionContext, frame: memoryview) -> Response:
        self.open_contexts.add(context.connection_id)
        number, mood = struct.unpack_from(">ic", frame)
        if mood == b"x":
            raise ProtocolError("gibberish")
        if mood == b"n":
            return None
        if mood == b"o" and self.rng.random() < 0.5:
            context.mute(self.rng.choice([1, 100, 2_000]))
            return PUT_OFF
        if mood == b"h":
            answer = PendingResponse(holds_frame=True)
            self._nursery.start_soon(self._complete_from_frame, answer, frame)
            return answer
        if mood == b"l":
            answer = PendingResponse()
            self._nursery.start_soon(self._complete_later, answer, number)
            return answer
        return self._answer(number)

    def connection_closed(self, context: ConnectionContext) -> None:
        self.open_contexts.discard(context.connection_id)

    async def _complete_later(self, answer: PendingResponse, number: int) -> None:
        await trio.sleep(self.rng.choice([0, 0.001, 0.1, 2]))
        answer.complete_encoded(self._answer(number))

    async def _complete_from_frame(self, answer: PendingResponse, frame: memoryview) -> None:
        await trio.sleep(self.rng.choice([0, 0.001, 0.1, 2]))
        if not answer.is_discarded:
            answer.complete_encoded(self._answer(struct.unpack_from(">i", frame)[0]))

    def _answer(self, number: int) -> list[Chunk]:
        size = self.rng.choice([0, 10, 3_000, 150_000])
        if not size or self.rng.random() < 0.5:
            return [struct.pack(">ii", 4 + size, number), bytes(size)]
        return [struct.pack(">ii", 4 + size, number), self._file.slice(0, size)]


async def client(world: World, rng: Random, port: int, is_honest: bool) -> None:
    """Send numbered requests while reading answers.

    An honest client checks that it gets what it asked for, in order.
    """
    peer = Peer(await world.network.host("client").connect("server", port))
    moods = [rng.choice([b"r", b"r", b"l", b"n", b"h", b"o"]) for _ in range(30)]
    expected = [number for number, mood in enumerate(moods) if mood != b"n"]

    async def send() -> None:
        for number, mood in enumerate(moods):
            size = rng.choice([0, 20, 900, 1_100, 40_000])
            await peer.send_raw(framed(struct.pack(">ic", number, mood) + bytes(size)))
            if rng.random() < 0.2:
                await trio.sleep(rng.uniform(0, 1))
            if not is_honest and rng.random() < 0.1:
                ending = rng.choice(
                    [
                        framed(b"\0\0\0\0x"),
                        b"\xff" * 9,
                        struct.pack(">i", 2**30),
                        framed(b"\0"),
                        b"\0\0\1",
                    ]
                )
                await peer.send_raw(ending)
                return

    async def receive() -> None:
        for number in expected:
            answer = await peer.receive()
            if answer is None:
                assert not is_honest
                return
            assert struct.unpack_from(">i", answer)[0] == number
        world.log("served", port)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(receive)
    except* OSError:
        assert not is_honest
    if is_honest or rng.random() < 0.7:
        peer.connection.close()  # else it is left to idle


async def scene(world: World) -> int:
    world.network.weather = Weather(
        max_latency=world.rng.choice([0, 0.01, 0.3]),
        max_chunk_bytes=world.rng.choice([0, 1_000, 20_000]),
        window_bytes=world.rng.choice([2_000, 100_000]),
    )
    budget = ServerBudget(LIMITS)
    listener = ListenerConfig(
        name="PLAINTEXT", host="", port=9092, advertised_host="", advertised_port=0
    )
    async with trio.open_nursery() as nursery:
        handler = MoodyHandler(world.rng, nursery)
        server = Server(
            env=world.client_env("server"),
            listener=listener,
            limits=LIMITS,
            handler=handler,
            shared=budget,
        )
        await nursery.start(server.run)
        with trio.fail_after(3_000):
            async with trio.open_nursery() as clients:
                for number in range(6):
                    clients.start_soon(
                        client,
                        world,
                        Random(f"{world.seed} {number}"),
                        server.bound_port,
                        number % 2 == 0,
                    )
            await trio.sleep(100)  # those who only sit there are closed by now
            assert server.connection_count == 0
            await server.drain(1_000)
    assert (budget.used_bytes, budget.connection_count) == (0, 0)
    assert handler.files.lease_count == 0
    assert handler.open_contexts == set()
    return sum("served" in line for line in world.trace)


@pytest.mark.parametrize("seed", range(20))
def test_answers_keep_their_order_and_nothing_is_left_behind(seed: int) -> None:
    assert sim_run(seed, scene) >= 3
