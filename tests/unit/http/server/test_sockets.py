"""The server over real sockets, with another client's library, with TLS, and with raw bytes."""

import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from log_service.common.clock import SystemClock
from log_service.http.server.limits import HttpLimits
from log_service.http.server.routes import Route, Router
from log_service.http.server.server import HttpServer
from log_service.http.server.service import HttpService
from log_service.http.server.tls import HttpTls
from log_service.http.server.values import HttpRequest, HttpResponse
from log_service.network.sockets import SocketNetwork
from tests.helpers.authority import Authority, Issued, fill
from tests.helpers.tls_network import client_side, tls_config_of
from tests.unit.http.server.harness import GET, Sample

LOCAL_GET = GET.replace(b"registry", b"localhost")


async def principal(request: HttpRequest) -> HttpResponse:
    return HttpResponse(body=request.principal.encode())


@asynccontextmanager
async def serving(
    limits: HttpLimits | None,
    tls: HttpTls | None,
) -> AsyncIterator[tuple[HttpServer, Sample]]:
    sample = Sample()
    router = Router([*sample.routes(), Route(method="GET", path="/principal", handler=principal)])
    server = HttpServer(
        listener=await SocketNetwork().listen("127.0.0.1", 0),
        clock=SystemClock(),
        service=HttpService(router=router),
        limits=limits,
        secure=None if tls is None else tls.secure,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server, sample
        nursery.cancel_scope.cancel()


def play(
    scene: Callable[[HttpServer, Sample], Awaitable[None]],
    limits: HttpLimits | None = None,
    tls: HttpTls | None = None,
) -> None:
    async def main() -> None:
        with trio.fail_after(60):
            async with serving(limits, tls) as (server, sample):
                await scene(server, sample)
        assert (server.connection_count, server.open_request_count) == (0, 0)

    trio.run(main)


def test_another_library_gets_its_responses() -> None:
    """httpx sends bodies of both kinds, and reads whole and streamed responses."""

    async def scene(server: HttpServer, sample: Sample) -> None:
        async def body() -> AsyncIterator[bytes]:
            for number in range(100):
                yield b"%d," % number

        url = f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/hello")).text == "hello"
            assert (await client.head("/hello")).headers["content-length"] == "5"
            assert (await client.post("/large", content=b"x" * 300_000)).content == b"x" * 300_000
            assert (await client.post("/stream", content=body())).text.endswith("98,99,")
            assert (await client.get("/pieces")).text == "one two three"
            assert len((await client.get("/big")).content) == 3 << 20
            assert (await client.post("/hello", content=b"x" * 500_000)).status_code == 413
            response = await client.get("/names/a%2Fb/versions/1?x=y")
            assert response.status_code == 200
            assert sample.requests[-1].path_values == {"name": "a/b", "version": "1"}

    play(scene)


def test_many_connections_at_once() -> None:
    """Two hundred clients are served side by side."""

    async def scene(server: HttpServer, sample: Sample) -> None:
        async def ask() -> None:
            stream = await trio.open_tcp_stream("127.0.0.1", server.port)
            async with stream:
                for _ in range(3):
                    await stream.send_all(LOCAL_GET)
                    received = b""
                    while not received.endswith(b"hello"):
                        received += await stream.receive_some()

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(ask)
        assert len(sample.requests) == 600

    play(scene)


def test_a_half_closed_client_gets_its_response() -> None:
    """A client that has sent all it will ever send may still read."""

    async def scene(server: HttpServer, _sample: Sample) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        await stream.send_all(LOCAL_GET + LOCAL_GET)
        await stream.send_eof()
        async with stream:
            received = b"".join([part async for part in stream])
        assert received.count(b"HTTP/1.1 200 OK") == 2

    play(scene)


def test_a_client_that_vanishes_in_the_middle_of_a_response() -> None:
    """A reset ends the iterator of the response, and nothing else."""

    async def scene(server: HttpServer, sample: Sample) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        await stream.send_all(LOCAL_GET.replace(b"/hello", b"/endless"))
        await stream.receive_some(10)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await stream.aclose()
        await sample.ended.wait()
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{server.port}/hello")).text == "hello"

    play(scene)


def test_a_refused_upload_can_read_its_refusal() -> None:
    """The connection is not reset while its client still sends."""

    async def scene(server: HttpServer, _sample: Sample) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        head = b"POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n"
        await stream.send_all(head)
        with contextlib.suppress(trio.BrokenResourceError):
            for _ in range(20):
                await stream.send_all(bytes(50_000))
        async with stream:
            received = await stream.receive_some()
        assert received.startswith(b"HTTP/1.1 413 ")

    play(scene)


def test_tls_names_clients_by_their_certificates(tmp_path: Path) -> None:
    """The rules of the key map the name in a certificate to a user."""
    authority = Authority(tmp_path)
    node, alice = authority.issue("node"), authority.issue("alice", ())
    tls = tls_of(
        node,
        {
            "ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
        },
    )

    async def scene(server: HttpServer, _sample: Sample) -> None:
        for certificate, expected in ((None, "User:ANONYMOUS"), (alice, "User:alice")):
            assert await principal_at(server, authority, certificate) == expected

    play(scene, tls=tls)


def test_tls_may_require_a_certificate(tmp_path: Path) -> None:
    """Clients without one, of a stranger, or without TLS are turned away. The server goes on."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path / "stranger")
    node, alice = authority.issue("node"), authority.issue("alice", ())
    tls = tls_of(node, {"ssl.client.auth": "required"})

    async def scene(server: HttpServer, _sample: Sample) -> None:
        for certificate in (None, stranger.issue("alice", ())):
            with pytest.raises(httpx.HTTPError):
                await principal_at(server, authority, certificate)
        with pytest.raises(httpx.HTTPError):
            async with httpx.AsyncClient() as client:
                await client.get(f"http://127.0.0.1:{server.port}/principal")
        assert await principal_at(server, authority, alice) == "User:CN=alice"

    play(scene, tls=tls)


def test_changed_files_give_new_certificates(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A renewed certificate is shown to new connections, and told. A damaged file, or another name,
    changes nothing.
    """
    authority = Authority(tmp_path)
    first, second = authority.issue("node"), authority.issue("node")
    keystore = tmp_path / "served.pem"
    fill(keystore, first.keystore)
    told = list[str]()

    async def tell() -> None:
        told.append("changed")

    config = tls_config_of({**first.properties(), "ssl.keystore.location": str(keystore)})
    tls = HttpTls(config, on_change=tell)
    monkeypatch.setattr("log_service.http.server.tls.FILE_CHECK_INTERVAL_S", 0.01)

    async def shown(server: HttpServer) -> bytes | None:
        context = client_side(authority.truststore)
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", server.port, ssl_context=context)
        await stream.do_handshake()
        certificate = stream.getpeercert(binary_form=True)
        await stream.transport_stream.aclose()
        assert isinstance(certificate, bytes)
        return certificate

    async def scene(server: HttpServer, _sample: Sample) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tls.run)
            before = await shown(server)
            keystore.write_bytes(b"damaged")
            await trio.sleep(0.1)
            assert await shown(server) == before
            fill(keystore, authority.issue("another").keystore)
            await trio.sleep(0.1)
            assert await shown(server) == before
            assert told == []
            fill(keystore, second.keystore)
            for _ in range(1_000):
                await trio.sleep(0.01)
                if await shown(server) != before:
                    break
            else:
                pytest.fail("the old certificate is still shown")
            assert told == ["changed"]
            nursery.cancel_scope.cancel()

    play(scene, tls=tls)


def tls_of(issued: Issued, texts: dict[str, str]) -> HttpTls:
    return HttpTls(tls_config_of({**issued.properties(), **texts}))


async def principal_at(server: HttpServer, authority: Authority, issued: Issued | None) -> str:
    context = client_side(authority.truststore, issued)
    async with httpx.AsyncClient(verify=context) as client:
        return (await client.get(f"https://127.0.0.1:{server.port}/principal")).text
