"""An HTTP server over a memory network in virtual time, and a client that sends raw bytes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
from trio.testing import MockClock

from log_service.common.env import Connection
from log_service.http.server.limits import HttpLimits
from log_service.http.server.routes import Route, Router
from log_service.http.server.server import HttpServer
from log_service.http.server.service import Authenticate, HttpService
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse
from log_service.network.server import Secure
from tests.sim import MemoryNetwork, VirtualClock

GET = b"GET /hello HTTP/1.1\r\nHost: registry\r\n\r\n"
LONG_S = 100_000.0


@dataclass(slots=True)
class Answer:
    """A parsed response. A chunked body is joined."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class RawClient:
    """A client's end of a connection."""

    connection: Connection
    buffer: bytearray = field(default_factory=bytearray)

    async def send(self, content: bytes) -> None:
        await self.connection.send_gathered([content])

    async def ask(self, content: bytes, *, is_head: bool = False) -> Answer:
        await self.send(content)
        return await self.answer(is_head=is_head)

    async def answer(self, *, is_head: bool = False) -> Answer:
        """Return the next response."""
        head = (await self.receive_until(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        pairs = [line.partition(": ") for line in lines if line]
        headers = {name.lower(): value for name, _, value in pairs}
        status = int(first.split(" ")[1])
        if is_head or status in {100, 204, 304}:
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, await self._chunks())
        if "content-length" not in headers:
            return Answer(status, headers, await self.rest())
        return Answer(status, headers, await self.receive_exactly(int(headers["content-length"])))

    async def rest(self) -> bytes:
        """Return everything until the server closes the connection."""
        while await self._receive():
            pass
        taken, self.buffer = bytes(self.buffer), bytearray()
        return taken

    async def is_closed(self) -> bool:
        """Return whether the server closes the connection and sends nothing more."""
        try:
            return await self.rest() == b""
        except OSError:
            return True

    async def _chunks(self) -> bytes:
        body = b""
        while size := int((await self.receive_until(b"\r\n"))[:-2], 16):
            body += (await self.receive_exactly(size + 2))[:-2]
        assert await self.receive_exactly(2) == b"\r\n"
        return body

    async def receive_until(self, end: bytes) -> bytes:
        while end not in self.buffer:
            assert await self._receive(), f"the connection ended after {bytes(self.buffer)!r}"
        return self._taken(self.buffer.index(end) + len(end))

    async def receive_exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            assert await self._receive(), f"the connection ended after {bytes(self.buffer)!r}"
        return self._taken(count)

    async def _receive(self) -> int:
        part = bytearray(64 << 10)
        count = await self.connection.receive_into(part)
        self.buffer += part[:count]
        return count

    def _taken(self, count: int) -> bytes:
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken


class Sample:
    """Handlers that note what they see."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.cancelled_count = 0
        self.let_go = trio.Event()
        self.ended = trio.Event()
        """Set when an endless response has ended."""
        self.piece_count = 0

    def routes(self) -> list[Route]:
        return [
            Route(method="GET", path="/hello", handler=self.hello),
            Route(method="POST", path="/hello", handler=self.echo, max_body_bytes=100),
            Route(method="POST", path="/large", handler=self.echo),
            Route(method="GET", path="/names/{name}/versions/{version}", handler=self.echo),
            Route(method="GET", path="/wait", handler=self.wait),
            Route(method="GET", path="/bug", handler=self.bug),
            Route(method="GET", path="/wrong", handler=self.wrong),
            Route(method="GET", path="/refused", handler=self.refused),
            Route(method="GET", path="/pieces", handler=self.pieces),
            Route(method="GET", path="/endless", handler=self.endless),
            Route(method="GET", path="/broken", handler=self.broken),
            Route(method="GET", path="/big", handler=self.big),
            Route(method="POST", path="/stream", handler=self.stream, is_streamed=True),
            Route(method="POST", path="/held", handler=self.held, is_streamed=True),
            Route(method="POST", path="/unread", handler=self.hello, is_streamed=True),
            Route(method="DELETE", path="/hello", handler=self.nothing),
        ]

    async def hello(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        return HttpResponse(body=b"hello", content_type="text/plain")

    async def nothing(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(status=204)

    async def echo(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        return HttpResponse(body=request.body)

    async def wait(self, request: HttpRequest) -> HttpResponse:
        try:
            await self.let_go.wait()
        except trio.Cancelled:
            self.cancelled_count += 1
            raise
        return HttpResponse(body=b"done")

    async def bug(self, request: HttpRequest) -> HttpResponse:
        raise KeyError("a bug of ours")

    async def wrong(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(headers=(("x-evil", "a\r\nSet-Cookie: b"),))

    async def refused(self, request: HttpRequest) -> HttpResponse:
        raise HttpError(409, "there is one already", (("x-why", "order"),))

    async def pieces(self, request: HttpRequest) -> HttpResponse:
        async def make() -> AsyncIterator[bytes]:
            for piece in (b"one ", b"", b"two ", b"three"):
                yield piece

        return HttpResponse(body=make())

    async def endless(self, request: HttpRequest) -> HttpResponse:
        async def make() -> AsyncIterator[bytes]:
            try:
                while True:
                    self.piece_count += 1
                    yield bytes(1_000)
            finally:
                self.cancelled_count += 1
                self.ended.set()

        return HttpResponse(body=make())

    async def broken(self, request: HttpRequest) -> HttpResponse:
        async def make() -> AsyncIterator[bytes]:
            yield b"begin"
            raise KeyError("a bug of ours")

        return HttpResponse(body=make())

    async def big(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(body=bytes(3 << 20))

    async def stream(self, request: HttpRequest) -> HttpResponse:
        async def make() -> AsyncIterator[bytes]:
            assert request.pieces is not None
            async for piece in request.pieces:
                yield piece.upper()

        return HttpResponse(body=make())

    async def held(self, request: HttpRequest) -> HttpResponse:
        """Keep the whole stream, and give it back at its end."""
        kept = b""
        assert request.pieces is not None
        async for piece in request.pieces:
            kept += piece
            request.hold_bytes(len(kept))
        request.hold_bytes(0)
        return HttpResponse(body=kept)


@dataclass(slots=True)
class Stage:
    """A running server and what is around it."""

    server: HttpServer
    sample: Sample
    network: MemoryNetwork
    responses: list[tuple[str, str, int]]

    async def connect(self, client: str = "client") -> RawClient:
        return RawClient(await self.network.host(client).connect("server", self.server.port))


@asynccontextmanager
async def running(
    limits: HttpLimits,
    *,
    network: MemoryNetwork | None = None,
    routes: Sequence[Route] = (),
    host: str = "server",
    authenticate: Authenticate | None = None,
    secure: Secure | None = None,
) -> AsyncIterator[Stage]:
    network = network or MemoryNetwork()
    sample = Sample()
    responses: list[tuple[str, str, int]] = []
    listener = await network.host("server").listen("", 0)
    listener.host = host
    service = HttpService(
        router=Router([*sample.routes(), *routes]),
        authenticate=authenticate,
        note_response=lambda *response: responses.append(response[:3]),
    )
    server = HttpServer(
        listener=listener,
        clock=VirtualClock(),
        service=service,
        limits=limits,
        secure=secure,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield Stage(server, sample, network, responses)
        nursery.cancel_scope.cancel()


def play(
    scene: Callable[[Stage], Awaitable[None]],
    *,
    limits: HttpLimits | None = None,
    network: MemoryNetwork | None = None,
    routes: Sequence[Route] = (),
    host: str = "server",
    authenticate: Authenticate | None = None,
    secure: Secure | None = None,
) -> None:
    """Run a scene against a server, in virtual time. Nothing is counted as open afterwards."""

    async def main() -> None:
        limited = limits or HttpLimits()
        async with running(
            limited,
            network=network,
            routes=routes,
            host=host,
            authenticate=authenticate,
            secure=secure,
        ) as stage:
            with trio.fail_after(LONG_S):
                await scene(stage)
        assert stage.server.open_request_count == 0
        assert stage.server.connection_count == 0

    trio.run(main, clock=MockClock(autojump_threshold=0))
