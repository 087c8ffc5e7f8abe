"""Deadlines, limits, clients that leave, and the stop of a server, in virtual time."""

from pathlib import Path
from random import Random

import pytest
import trio

from log_service.http.server.limits import HttpLimits
from log_service.http.server.routes import Route
from log_service.http.server.tls import HttpTls
from log_service.http.server.values import HttpRequest, HttpResponse
from tests.helpers.authority import Authority
from tests.helpers.tls_network import tls_config_of
from tests.sim import MemoryNetwork
from tests.sim.network import Weather
from tests.unit.http.server.harness import GET, Stage, play

WAIT = GET.replace(b"/hello", b"/wait")
POST = b"POST /large HTTP/1.1\r\nHost: registry\r\nContent-Length: 100\r\n\r\n"


def test_a_silent_connection_is_closed_without_a_word() -> None:
    """A connection without a request, and one between requests, ends after the idle deadline."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        assert await client.is_closed()
        assert 60 <= trio.current_time() < 61
        client = await stage.connect()
        await client.ask(GET)
        assert await client.is_closed()
        assert 120 <= trio.current_time() < 122

    play(scene)


@pytest.mark.parametrize(("sent", "deadline_s"), [(GET, 10), (POST + bytes(100), 30)])
def test_a_request_that_trickles_is_refused(sent: bytes, deadline_s: int) -> None:
    """A byte each second keeps neither a head nor a body alive beyond its deadline."""

    async def trickle(stage: Stage) -> None:
        client = await stage.connect()
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                for byte in sent[-100:]:
                    await client.send(bytes([byte]))
                    await trio.sleep(1)

            await client.send(sent[:-100])
            nursery.start_soon(send)
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (408, "close")
            assert deadline_s <= trio.current_time() < deadline_s + 2
            nursery.cancel_scope.cancel()
        assert await client.is_closed()

    play(trickle)


def test_a_slow_handler_is_cancelled_with_503() -> None:
    """A route's own deadline counts instead of the server's."""

    async def forever(_request: HttpRequest) -> HttpResponse:
        await trio.sleep_forever()
        raise AssertionError

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(WAIT)
        assert (answer.status, answer.headers["retry-after"], answer.headers["connection"]) == (
            503,
            "1",
            "close",
        )
        assert 60 <= trio.current_time() < 61
        assert stage.sample.cancelled_count == 1
        assert await client.is_closed()
        client = await stage.connect()
        assert (await client.ask(GET.replace(b"/hello", b"/own"))).status == 503
        assert 62 <= trio.current_time() < 63.5
        assert stage.responses == [("GET", "/wait", 503), ("GET", "/own", 503)]

    play(scene, routes=[Route(method="GET", path="/own", handler=forever, deadline_ms=2_000)])


def test_a_client_that_does_not_read_is_closed() -> None:
    """A response that makes no progress ends, and its pieces are not made in advance."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        await client.send(GET.replace(b"/hello", b"/endless"))
        await trio.sleep(29)
        made = stage.sample.piece_count
        assert 4 <= made <= 10, "the window has 4,096 bytes"
        await trio.sleep(20)
        assert stage.sample.piece_count == made
        assert (stage.server.connection_count, stage.sample.cancelled_count) == (0, 1)

    play(scene, network=MemoryNetwork(weather=Weather(window_bytes=4_096)))


def test_a_slow_reader_gets_all() -> None:
    """The deadline of a response counts for each piece of it."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        await client.send(GET.replace(b"/hello", b"/big"))
        size, part = 0, bytearray(32 << 10)
        while size < 3 << 20:
            await trio.sleep(5)
            size += await client.connection.receive_into(part)
        assert trio.current_time() > 400

    play(scene, network=MemoryNetwork(weather=Weather(window_bytes=32 << 10)))


@pytest.mark.parametrize("path", [b"/wait", b"/endless"])
def test_a_client_that_leaves_cancels_its_request(path: bytes) -> None:
    """The handler, or the iterator of the response, ends soon after its client."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        await client.send(GET.replace(b"/hello", path))
        await trio.sleep(1)
        assert stage.server.open_request_count == 1
        client.connection.close()
        await trio.sleep(2)
        assert (stage.server.open_request_count, stage.sample.cancelled_count) == (0, 1)

    play(scene, network=MemoryNetwork(weather=Weather(window_bytes=4_096)))


def test_a_reset_cancels_at_once() -> None:
    """A broken connection is no half-closed one, so nothing waits for it."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        await client.send(WAIT)
        await trio.sleep(1)
        stage.network.reset_connections("client")
        await trio.testing.wait_all_tasks_blocked()
        assert stage.sample.cancelled_count == 1
        assert stage.responses == [("GET", "/wait", 499)]

    play(scene)


def test_too_many_connections_get_503() -> None:
    """Neither one address nor all together have more connections than allowed."""

    async def scene(stage: Stage) -> None:
        clients = [await stage.connect("one") for _ in range(3)]
        assert [(await client.ask(GET)).status for client in clients[:2]] == [200, 200]
        refused = await clients[2].answer()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        others = [await stage.connect(name) for name in ("two", "three")]
        assert (await others[0].ask(GET)).status == 200
        assert (await others[1].answer()).status == 503
        clients[0].connection.close()
        await trio.sleep(2)
        assert (await (await stage.connect("three")).ask(GET)).status == 200

    play(scene, limits=HttpLimits(max_connection_count=3, max_connection_count_per_host=2))


def test_too_many_requests_get_503_and_may_come_again() -> None:
    """The connection of a refused request goes on."""

    async def scene(stage: Stage) -> None:
        clients = [await stage.connect() for _ in range(3)]
        for client in clients[:2]:
            await client.send(WAIT)
        await trio.sleep(1)
        answer = await clients[2].ask(GET)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        stage.sample.let_go.set()
        assert [(await client.answer()).body for client in clients[:2]] == [b"done", b"done"]
        assert (await clients[2].ask(GET)).body == b"hello"

    play(scene, limits=HttpLimits(max_open_request_count=2))


def test_bodies_in_memory_are_bounded_together() -> None:
    """A body that does not fit beside the others gets 503. Its bytes are given back."""

    async def scene(stage: Stage) -> None:
        clients = [await stage.connect() for _ in range(2)]
        await clients[0].send(POST + bytes(90))
        await trio.sleep(1)
        assert (await clients[1].ask(POST + bytes(100))).status == 503
        await clients[0].send(bytes(10))
        assert (await clients[0].answer()).status == 200
        assert (await (await stage.connect()).ask(POST + bytes(100))).status == 200

    play(scene, limits=HttpLimits(max_buffered_body_bytes=150))


def test_one_address_leaves_requests_to_others() -> None:
    """Slow handlers and slow readers of one host do not take all of them."""

    async def scene(stage: Stage) -> None:
        clients = [await stage.connect("one") for _ in range(3)]
        for client in clients[:2]:
            await client.send(WAIT)
        await trio.sleep(1)
        assert (await clients[2].ask(GET)).status == 503
        assert (await (await stage.connect("two")).ask(GET)).status == 200
        stage.sample.let_go.set()
        assert [(await client.answer()).status for client in clients[:2]] == [200, 200]
        assert (await clients[2].ask(GET)).status == 200

    play(scene, limits=HttpLimits(max_open_request_count_per_host=2))


def test_what_a_stream_keeps_counts_as_a_body() -> None:
    """Many streams with objects that never end took memory without a bound."""

    async def scene(stage: Stage) -> None:
        head = b"POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
        slow = await stage.connect("one")
        await slow.send(head + bytes(90))
        await trio.sleep(1)
        assert (await (await stage.connect("one")).ask(head + bytes(100))).status == 503
        assert (await slow.ask(bytes(10))).status == 200
        await trio.sleep(2)
        assert (await (await stage.connect("one")).ask(head + bytes(100))).status == 200

    play(scene, limits=HttpLimits(max_buffered_body_bytes_per_host=100))


def test_bodies_of_one_address_leave_memory_to_others() -> None:
    """A host that sends many bodies slowly keeps nobody else from sending one."""

    async def scene(stage: Stage) -> None:
        slow = await stage.connect("one")
        await slow.send(POST + bytes(90))
        await trio.sleep(1)
        assert (await (await stage.connect("one")).ask(POST + bytes(100))).status == 503
        assert (await (await stage.connect("two")).ask(POST + bytes(100))).status == 200
        slow.connection.close()
        await trio.sleep(2)
        assert (await (await stage.connect("one")).ask(POST + bytes(100))).status == 200

    play(scene, limits=HttpLimits(max_buffered_body_bytes_per_host=100))


def test_a_body_that_comes_slowly_is_no_open_request() -> None:
    """Strangers who send bodies byte by byte keep no request from its handler."""

    async def scene(stage: Stage) -> None:
        clients = [await stage.connect() for _ in range(4)]
        for client in clients[:3]:
            await client.send(POST + bytes(1))
        await trio.sleep(1)
        assert stage.server.open_request_count == 0
        assert (await clients[3].ask(GET)).status == 200
        await clients[0].send(bytes(99))
        assert (await clients[0].answer()).status == 200

    play(scene, limits=HttpLimits(max_open_request_count=2))


def test_a_stop_finishes_what_has_begun() -> None:
    """An idle connection ends at once, an open request is finished, and its connection ends."""

    async def scene(stage: Stage) -> None:
        idle, busy = await stage.connect(), await stage.connect()
        await idle.ask(GET)
        await busy.send(WAIT)
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.server.drain, 10_000)
            assert await idle.is_closed()
            with pytest.raises(OSError, match="refused"):
                await stage.connect()
            stage.sample.let_go.set()
            answer = await busy.answer()
            assert (answer.body, answer.headers["connection"]) == (b"done", "close")
        assert trio.current_time() < 2

    play(scene)


def test_a_stop_has_a_deadline() -> None:
    """A request that takes longer is cut off."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        await client.send(WAIT)
        await trio.sleep(1)
        await stage.server.drain(5_000)
        assert 6 <= trio.current_time() < 7
        assert stage.sample.cancelled_count == 1
        assert await client.is_closed()

    play(scene)


def test_a_handshake_has_a_deadline_and_delays_no_stop(tmp_path: Path) -> None:
    """A silent client of a TLS listener is closed after ten seconds, or with the server."""
    issued = Authority(tmp_path).issue("node")
    tls = HttpTls(tls_config_of(issued.properties()))

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        assert await client.is_closed()
        assert 10 <= trio.current_time() < 11
        client = await stage.connect()
        await trio.sleep(1)
        assert stage.server.connection_count == 1
        await stage.server.drain(2_000)
        assert trio.current_time() < 14
        assert await client.is_closed()

    play(scene, secure=tls.secure)


def test_a_listener_that_fails_goes_on() -> None:
    """A failed accept is tried again."""

    async def scene(stage: Stage) -> None:
        stage.network.accept_failures.extend(OSError(24, "Too many open files") for _ in range(3))
        assert (await (await stage.connect()).ask(GET)).status == 200

    play(scene)


def test_a_flood_of_pipelined_requests_lets_others_in() -> None:
    """Requests that came at once are not all handled before another connection has its turn."""

    async def scene(stage: Stage) -> None:
        flooding, other = await stage.connect(), await stage.connect()
        await flooding.send(GET * 800)
        await trio.testing.wait_all_tasks_blocked()
        seen = len(stage.sample.requests)
        assert seen == 800
        await flooding.send(GET * 800)
        await other.ask(GET)
        assert len(stage.sample.requests) < 1_600

    play(scene)


def test_any_weather_brings_the_same_responses() -> None:
    """Latency and odd chunks of the network change nothing."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        for _ in range(20):
            assert (await client.ask(GET)).body == b"hello"
            assert (await client.ask(POST + bytes(100))).body == bytes(100)
            assert (await client.ask(GET.replace(b"/hello", b"/pieces"))).body == b"one two three"

    play(scene, network=MemoryNetwork(Random(7), Weather(0.001, 0.05, 7, 4_096)))
