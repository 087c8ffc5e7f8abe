"""Any bytes of a client's get a response or an end, and cost no more memory than their bounds."""

import logging
from collections.abc import Iterator
from random import Random

import h11
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.http.server.limits import HttpLimits
from tests.sim import MemoryNetwork
from tests.sim.network import Weather
from tests.unit.http.server.harness import GET, RawClient, Stage, play

PARTS = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"OPTIONS ",
    b"/hello",
    b"/large",
    b"/stream",
    b"/pieces",
    b"/names/%2F/versions/%ff",
    b"?a=b&%",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b"Host: a\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: websocket\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"hello",
    GET,
]
FRAGMENTS = st.one_of(st.sampled_from(PARTS), st.binary(max_size=30))
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
POSTS = [
    b"POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /stream HTTP/1.1\r\nHost: a\r\n" + CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
    b"HEAD /pieces HTTP/1.1\r\nHost: a\r\n\r\n",
]


async def parsed(client: RawClient) -> list[int]:
    """Return the statuses of all responses until the end, which a strict client can read."""
    return [int(line.split()[1]) for line in _heads(await client.rest())]


def _heads(received: bytes) -> Iterator[bytes]:
    while received:
        head, end, received = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 "), head
        assert end, head
        _validate(head)
        yield head
        following = received.find(b"HTTP/1.1 ")
        received = received[following:] if following >= 0 else b""


def _validate(head: bytes) -> None:
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    reader.receive_data(head + b"\r\n\r\n")
    assert isinstance(reader.next_event(), h11.Response | h11.InformationalResponse)


def attack(contents: list[bytes], seed: int) -> None:
    """Send the contents over a network with odd chunks, and expect an end."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                try:
                    for content in contents:
                        await client.send(content)
                except OSError:
                    return

            nursery.start_soon(send)
            await parsed(client)
        client.connection.close()
        assert (await (await stage.connect("other")).ask(GET)).body == b"hello"
        await trio.sleep(100)
        assert stage.server.open_request_count == 0

    weather = Weather(0, 0.01, 1 + seed % 40, 4_096)
    play(scene, network=MemoryNetwork(Random(seed), weather))


@pytest.fixture(autouse=True)
def _no_bugs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No bytes of a client's lead to a line about a failure."""
    with caplog.at_level(logging.ERROR):
        yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []


@settings(max_examples=60)
@given(contents=st.lists(FRAGMENTS, max_size=30), seed=st.integers(0, 1_000))
def test_any_bytes_get_responses_or_an_end(contents: list[bytes], seed: int) -> None:
    """Fragments of requests in any order."""
    attack(contents, seed)


@settings(max_examples=60)
@given(data=st.data(), seed=st.integers(0, 1_000))
def test_damaged_requests_get_responses_or_an_end(data: st.DataObject, seed: int) -> None:
    """Valid requests in which bytes are cut, changed or added."""
    content = bytearray(b"".join(data.draw(st.lists(st.sampled_from([GET, *POSTS]), max_size=6))))
    for _ in range(data.draw(st.integers(0, 5))):
        position = data.draw(st.integers(0, max(len(content) - 1, 0)))
        length = data.draw(st.integers(0, 4))
        content[position : position + length] = data.draw(st.binary(max_size=4))
    attack([bytes(content)], seed)


@pytest.mark.parametrize(
    "flood",
    [
        b"G" * 1_000,
        b"GET /" + b"x" * 1_000,
        b"X: y\r\n" * 100,
        b"\r\n" * 500,
        b"POST /large HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 1_000,
    ],
)
def test_a_head_without_an_end_takes_bounded_memory(flood: bytes) -> None:
    """The server reads little more than the bound, and then refuses and ends."""
    network = MemoryNetwork(weather=Weather(window_bytes=4_096))

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        start = b"" if flood.startswith((b"G", b"P", b"\r")) else b"GET / HTTP/1.1\r\n"
        await client.send(start)
        with pytest.raises(OSError, match="closed"):
            await client.send(flood * 10_000)
        assert client.connection.bytes_sent < 5 << 20

    play(scene, network=network, limits=HttpLimits(max_head_bytes=16 << 10))


def test_pipelined_requests_that_wait_take_bounded_memory() -> None:
    """While a handler runs, the server reads no more than one buffer of further requests."""
    network = MemoryNetwork(weather=Weather(window_bytes=4_096))

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        await client.send(GET.replace(b"/hello", b"/wait"))
        with trio.move_on_after(30):
            await client.send(GET * 100_000)
        assert client.connection.bytes_sent < 128 << 10
        client.connection.close()
        await trio.sleep(100)

    play(scene, network=network)
