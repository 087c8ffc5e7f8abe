"""A server runs over a memory network in virtual time.

Its handler is scripted by the sent bytes, and a peer counts.
"""

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import trio
from trio.testing import MockClock

from log_service.common.env import Connection, Env, FileSlice
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
from tests.sim import MemoryNetwork, VirtualClock

PAUSE_MS = 60_000


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


class ScriptedHandler:
    """The handler echoes, with exceptions.

    ``wait...`` is answered when the test says so, ``none...`` never, ``bad...`` is not the
    protocol, ``bug...`` raises. ``pause...`` also has the connection pause. ``hold...`` is answered
    from its frame when the test says so, and ``off...`` is put off as often as ``put_off_count``
    says.
    """

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.pending: list[PendingResponse] = []
        self.discarded_count = 0
        self.closed: list[ConnectionContext] = []
        self.slices: dict[bytes, FileSlice] = {}
        self.pending_is_complete = False
        self.held: list[tuple[PendingResponse, memoryview]] = []
        self.put_off_count = 0

    def handle_frame(self, context: ConnectionContext, frame: memoryview) -> Response:
        content = bytes(frame)
        if content.startswith(b"off") and self.put_off_count:
            self.put_off_count -= 1
            context.mute(PAUSE_MS)
            return PUT_OFF
        self.frames.append(content)
        if content.startswith(b"hold"):
            answer = PendingResponse(holds_frame=True)
            answer.on_discard(self._discarded)
            self.held.append((answer, frame))
            return answer
        frame[:] = bytes(len(frame))  # the frame is writable, and nothing of it is read later
        if content.startswith(b"wait"):
            answer = PendingResponse()
            answer.on_discard(self._discarded)
            self.pending.append(answer)
            if self.pending_is_complete:
                answer.complete_encoded([framed(b"done")])
            return answer
        if content.startswith(b"pause"):
            context.mute(PAUSE_MS)
        if content.startswith(b"none"):
            return None
        if content.startswith(b"bad"):
            raise ProtocolError("this is not the protocol")
        if content.startswith(b"bug"):
            raise KeyError("a bug of ours")
        return self.answer_to(content)

    def complete_held(self, index: int) -> None:
        """Answer a frame that was held with what is in it by now."""
        answer, frame = self.held[index]
        answer.complete_encoded([framed(bytes(frame))])

    def answer_to(self, content: bytes) -> list[Chunk]:
        file_slice = self.slices.get(content)
        if file_slice is not None:
            return [struct.pack(">i", len(content) + len(file_slice)) + content, file_slice]
        return [struct.pack(">i", len(content)), content]

    def connection_closed(self, context: ConnectionContext) -> None:
        self.closed.append(context)

    def _discarded(self) -> None:
        self.discarded_count += 1


@dataclass(slots=True)
class Peer:
    """A client's end."""

    connection: Connection
    buffer: bytearray = field(default_factory=bytearray)

    async def send(self, *contents: bytes) -> None:
        await self.connection.send_gathered([b"".join(framed(content) for content in contents)])

    async def send_raw(self, content: bytes) -> None:
        await self.connection.send_gathered([content])

    async def send_slowly(self, content: bytes, *, pause_s: float, chunk_bytes: int = 1) -> None:
        for position in range(0, len(content), chunk_bytes):
            await trio.sleep(pause_s)
            await self.send_raw(content[position : position + chunk_bytes])

    async def receive(self) -> bytes | None:
        """Return the next answer, or None at the end of the stream."""
        while True:
            if len(self.buffer) >= 4:
                (size,) = struct.unpack_from(">i", self.buffer)
                if len(self.buffer) >= 4 + size:
                    content = bytes(self.buffer[4 : 4 + size])
                    del self.buffer[: 4 + size]
                    return content
            part = bytearray(64 << 10)
            received = await self.connection.receive_into(part)
            if not received:
                return None
            self.buffer += part[:received]

    async def receive_nowait(self) -> bytes | None:
        """Return an answer that is there once everybody had their turn, or None."""
        with trio.move_on_after(0.001):
            return await self.receive()
        return None

    async def is_closed(self) -> bool:
        """Whether the server closes or has closed the connection, within two (virtual)
        milliseconds.
        """
        with trio.move_on_after(0.002):
            try:
                return await self.receive() is None
            except OSError:
                return True
        return False


@dataclass(slots=True)
class Stage:
    """A running server and what is around it."""

    server: Server
    handler: ScriptedHandler
    network: MemoryNetwork
    budget: ServerBudget
    clock: VirtualClock

    async def connect(self, client: str = "client") -> Peer:
        return Peer(await self.network.host(client).connect("server", self.server.bound_port))


@asynccontextmanager
async def running(
    limits: NetworkLimits, network: MemoryNetwork | None = None
) -> AsyncIterator[Stage]:
    network = network or MemoryNetwork()
    clock = VirtualClock()
    handler = ScriptedHandler()
    budget = ServerBudget(limits)
    config = ListenerConfig(
        name="PLAINTEXT", host="", port=0, advertised_host="127.0.0.1", advertised_port=0
    )
    env = Env(clock=clock, rng=Random(0), network=network.host("server"))
    server = Server(env=env, listener=config, limits=limits, handler=handler, shared=budget)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield Stage(server, handler, network, budget, clock)
        nursery.cancel_scope.cancel()


def play(
    scene: Callable[[Stage], Awaitable[None]],
    *,
    network: MemoryNetwork | None = None,
    **limits: Any,
) -> Stage:
    """Run a scene against a server with those ``NetworkLimits``, in virtual time.

    Return the stage as it was left.
    """
    left: list[Stage] = []

    async def main() -> None:
        async with running(NetworkLimits(**limits), network) as stage:
            left.append(stage)
            with trio.fail_after(10_000):
                await scene(stage)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return left[0]
