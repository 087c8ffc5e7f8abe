"""The metrics page's server on virtual time: what slow, silent and greedy clients get."""

from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
import trio.testing

from log_service.broker.metrics.endpoint import (
    MAX_CONNECTION_COUNT,
    REQUEST_DEADLINE_S,
    RESPONSE_DEADLINE_S,
    MetricsEndpoint,
)
from tests.sim.network import MemoryConnection, MemoryNetwork, Weather

PORT = 9404
ASK = b"GET /metrics HTTP/1.1\r\nHost: localhost:9404\r\n\r\n"
Story = Callable[[MemoryNetwork], Awaitable[None]]


def small_page() -> Iterator[bytes]:
    yield from (b"a 1\n", b"", b"b 2\n")


def play(
    story: Story, make_page: Callable[[], Iterator[bytes]] = small_page, host: str = "127.0.0.1"
) -> None:
    """Run a story beside an endpoint."""

    async def main() -> None:
        network = MemoryNetwork(weather=Weather(window_bytes=4_096))
        listener = await network.listen("127.0.0.1", PORT)
        listener.host = host
        async with trio.open_nursery() as nursery:
            await nursery.start(MetricsEndpoint(listener, make_page).run)
            await story(network)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def connect(network: MemoryNetwork) -> MemoryConnection:
    return await network.connect("127.0.0.1", PORT)


async def everything(connection: MemoryConnection) -> bytes:
    received, buffer = b"", bytearray(1_000)
    while count := await connection.receive_into(buffer):
        received += buffer[:count]
    return received


async def ask(network: MemoryNetwork, asked: bytes = ASK) -> bytes:
    connection = await connect(network)
    await connection.send_gathered([asked])
    return await everything(connection)


def test_the_page_comes_in_chunks_and_the_connection_ends() -> None:
    async def story(network: MemoryNetwork) -> None:
        head, _, body = (await ask(network)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert body == b"4\r\na 1\n\r\n4\r\nb 2\n\r\n0\r\n\r\n", "an empty chunk would end the page"

    play(story)


@pytest.mark.parametrize(
    "host",
    [
        b"rebound.example:9404",
        b"127.0.0.1.rebound.example",
        b"localhost.example",
        b"",
        b"localhost\r\nHost: evil",
    ],
)
def test_a_name_that_somebody_s_dns_points_here_is_refused(host: bytes) -> None:
    async def story(network: MemoryNetwork) -> None:
        told = await ask(network, ASK.replace(b"localhost:9404", host))
        assert told.startswith(b"HTTP/1.1 421 ")
        assert b"a 1" not in told

    play(story)


@pytest.mark.parametrize("host", [b"127.0.0.1:9404", b"[::1]:9404", b"LOCALHOST", b"10.0.0.1"])
def test_addresses_of_this_host_are_served(host: bytes) -> None:
    async def story(network: MemoryNetwork) -> None:
        assert (await ask(network, ASK.replace(b"localhost:9404", host))).startswith(
            b"HTTP/1.1 200 "
        )

    play(story)


def test_a_page_for_others_is_served_by_their_names() -> None:
    async def story(network: MemoryNetwork) -> None:
        assert (await ask(network, ASK.replace(b"localhost", b"node1.example"))).startswith(
            b"HTTP/1.1 200 "
        )

    play(story, host="10.0.0.1")


def test_who_does_not_finish_asking_is_dropped() -> None:
    async def story(network: MemoryNetwork) -> None:
        silent, slow = await connect(network), await connect(network)
        began = trio.current_time()
        await slow.send_gathered([ASK[:9]])
        assert await everything(slow) == await everything(silent) == b""
        assert trio.current_time() - began == REQUEST_DEADLINE_S
        assert b"200 OK" in await ask(network)

    play(story)


def test_who_does_not_read_is_dropped_and_no_page_is_made_ahead_of_it() -> None:
    made = 0

    def endless() -> Iterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 999 + b"\n"

    async def story(network: MemoryNetwork) -> None:
        connection = await connect(network)
        await connection.send_gathered([ASK])
        await trio.sleep(RESPONSE_DEADLINE_S - 1)
        assert 0 < made < 20, "no more than the window takes"
        await trio.sleep(2)
        received = await everything(connection)
        assert not received.endswith(b"0\r\n\r\n"), "a page that is cut off does not look whole"

    play(story, endless)


def test_a_crowd_is_bounded_and_room_comes_back() -> None:
    async def story(network: MemoryNetwork) -> None:
        crowd = [await connect(network) for _ in range(MAX_CONNECTION_COUNT)]
        await trio.testing.wait_all_tasks_blocked()
        assert await ask(network) == b""
        crowd[0].close()
        await trio.testing.wait_all_tasks_blocked()
        assert b"200 OK" in await ask(network)

    play(story)


def test_a_page_that_cannot_be_made_costs_only_who_asked() -> None:
    answers = iter([False, True])

    def make_page() -> Iterator[bytes]:
        yield b"a 1\n"
        if not next(answers):
            raise RuntimeError("a bug")

    async def story(network: MemoryNetwork) -> None:
        assert not (await ask(network)).endswith(b"0\r\n\r\n")
        assert (await ask(network)).endswith(b"0\r\n\r\n")

    play(story, make_page)


def test_a_listener_that_cannot_accept_tries_again() -> None:
    async def story(network: MemoryNetwork) -> None:
        network.accept_failures.append(OSError(24, "Too many open files"))
        assert b"200 OK" in await ask(network)

    play(story)
