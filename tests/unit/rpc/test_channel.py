"""Requests over one outbound connection keep order, deadlines and bounds.

Every waiting task gets an error when it breaks.
"""

import contextlib
import struct
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from log_service.common.env import Connection, Env
from log_service.common.errors import ProtocolError
from log_service.rpc.channel import MAX_UNSENT_BYTES, Channel, open_channel
from tests.sim import MemoryNetwork, VirtualClock, Weather
from tests.unit.network.harness import Peer, framed

HEADER = struct.Struct(">hhi")


def request_of(content: bytes) -> list[bytes]:
    return [struct.pack(">i", HEADER.size + len(content)) + HEADER.pack(3, 9, 0), content]


def response_of(correlation_id: int, content: bytes) -> bytes:
    return framed(struct.pack(">i", correlation_id) + content)


class Broker:
    """The other end: receives requests, responses when told."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._peer = Peer(connection)

    async def receive(self) -> tuple[int, bytes]:
        """Return (correlation id, content) of the next request."""
        frame = await self._peer.receive()
        assert frame is not None
        return HEADER.unpack_from(frame)[2], frame[HEADER.size :]

    async def send(self, *frames: bytes) -> None:
        await self.connection.send_gathered([b"".join(frames)])

    async def serve(self) -> None:
        """Echo until the channel closes."""
        while True:
            try:
                correlation_id, content = await self.receive()
                await self.send(response_of(correlation_id, content))
            except (OSError, AssertionError):
                return


def play(
    scene: Callable[[Channel, Broker], Awaitable[None]],
    *,
    weather: Weather | None = None,
    **bounds: Any,
) -> None:
    async def main() -> None:
        network = MemoryNetwork(Random(1), weather)
        env = Env(clock=VirtualClock(), rng=Random(1), network=network)
        listener = await network.listen("", 9092)
        with trio.fail_after(100_000):
            async with open_channel(env, "localhost", 9092, **bounds) as channel:
                await scene(channel, Broker(await listener.accept()))

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("size", "max_chunk_bytes"),
    [
        (0, 1),
        (0, 0),
        (50, 1),
        (65_528, 0),
        (65_528, 1_000),
        (65_536, 0),
        (65_536, 1_000),
        (200_000, 0),
        (200_000, 5_000),
    ],
)
def test_response_comes_back_whole_however_it_is_cut(size: int, max_chunk_bytes: int) -> None:
    content = Random(size).randbytes(size)

    async def scene(channel: Channel, broker: Broker) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.serve)
            for expected_id in (1, 2):
                frame = await channel.request(request_of(content), timeout_ms=1_000)
                assert frame == struct.pack(">i", expected_id) + content
                assert isinstance(frame, bytearray)
            channel.close()

    play(scene, weather=Weather(max_chunk_bytes=max_chunk_bytes))


def test_responses_that_arrive_together_reach_their_requests() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        responses: dict[int, bytes] = {}

        async def ask(number: int) -> None:
            responses[number] = bytes(
                (await channel.request(request_of(b"%d" % number), timeout_ms=1_000))[4:]
            )

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, number)
            requests = [await broker.receive() for _ in range(20)]
            assert [correlation_id for correlation_id, _ in requests] == list(range(1, 21))
            await broker.send(*(response_of(*request) for request in requests))
        assert responses == {number: b"%d" % number for number in range(20)}

    play(scene)


def test_request_is_sent_with_an_id_of_the_channel_also_from_immutable_chunks() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        chunks: list[bytes | bytearray | memoryview] = [bytearray(b"".join(request_of(b"abc")))]
        await channel.send(chunks)
        await channel.send([bytes(chunks[0])])
        assert [await broker.receive() for _ in range(2)] == [(1, b"abc"), (2, b"abc")]

    play(scene)


def test_late_response_closes_the_channel_and_only_its_request_timed_out() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        async def ask(timeout_ms: int, expected: type[OSError]) -> None:
            with pytest.raises(OSError, match="localhost:9092") as raised:
                await channel.request(request_of(b"?"), timeout_ms=timeout_ms)
            assert type(raised.value) is expected
            assert trio.current_time() == 2

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 5_000, ConnectionAbortedError)
            nursery.start_soon(ask, 2_000, TimeoutError)
        assert channel.is_closed
        await channel.wait_closed()
        with pytest.raises(ConnectionAbortedError):
            await channel.request(request_of(b"?"), timeout_ms=1)
        with pytest.raises(ConnectionAbortedError):
            await channel.send(request_of(b"?"))

    play(scene)


def test_deadline_of_a_request_with_a_response_means_nothing() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.serve)
            for _ in range(5):
                await channel.request(request_of(b"quick"), timeout_ms=100)
                await trio.sleep(1)
            assert not channel.is_closed
            channel.close()

    play(scene)


def test_cancelled_request_leaves_the_channel_in_order() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        with trio.move_on_after(1):
            await channel.request(request_of(b"nobody waits"), timeout_ms=5_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.serve)
            frame = await channel.request(request_of(b"next"), timeout_ms=5_000)
            assert frame[4:] == b"next"
            channel.close()

    play(scene)


def test_idle_channel_is_closed() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.serve)
            await trio.sleep(6)
            await channel.request(request_of(b"used"), timeout_ms=1_000)
            await trio.sleep(9)
            assert not channel.is_closed
            await channel.wait_closed()
            assert trio.current_time() == 16

    play(scene, idle_timeout_ms=10_000)


@pytest.mark.parametrize(
    ("response", "complaint"),
    [
        (struct.pack(">i", -5), "announced a response of -5 bytes"),
        (struct.pack(">i", 2), "announced a response of 2 bytes"),
        (struct.pack(">i", 1_001), "announced a response of 1001 bytes"),
        (response_of(7, b""), "responded to request 7 before request 1"),
    ],
)
def test_responses_that_make_no_sense_close_the_channel(response: bytes, complaint: str) -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        async def reply() -> None:
            await broker.receive()
            await broker.send(response)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reply)
            with pytest.raises(ProtocolError, match=complaint):
                await channel.request(request_of(b"?"), timeout_ms=1_000)
        await channel.wait_closed()

    play(scene, max_frame_bytes=1_000)


def test_response_to_nothing_closes_the_channel() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        async def reply() -> None:
            await broker.receive()
            await broker.send(response_of(1, b"asked for"), response_of(2, b"not asked for"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reply)
            assert (await channel.request(request_of(b"?"), timeout_ms=1_000))[4:] == b"asked for"
        with trio.fail_after(0.1):
            await channel.wait_closed()

    play(scene)


def test_every_waiting_task_hears_that_the_peer_left() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        async def ask() -> None:
            with pytest.raises(ConnectionAbortedError, match="closed the connection"):
                await channel.request(request_of(b"?"), timeout_ms=60_000)

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(ask)
            await trio.sleep(1)
            broker.connection.close()
        assert trio.current_time() < 1.1

    play(scene, max_requests_in_flight=3)


def test_requests_wait_for_room_and_are_not_overtaken() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        async def ask(number: int) -> None:
            await channel.request(request_of(b"%d" % number), timeout_ms=60_000)

        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(ask, number)
                await trio.sleep(0.001)
            assert channel.in_flight_count == 3
            order = []
            for number in range(12):
                correlation_id, content = await broker.receive()
                order.append(int(content))
                await broker.send(response_of(correlation_id, content))
                if number == 5:
                    nursery.start_soon(ask, 12)
            order.append(int((await broker.receive())[1]))
            assert order == list(range(13))
            nursery.cancel_scope.cancel()

    play(scene, max_requests_in_flight=3)


def test_requests_without_responses_wait_for_a_peer_that_does_not_read() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        sent_count = 0

        async def send_many() -> None:
            nonlocal sent_count
            with contextlib.suppress(ConnectionAbortedError):
                while True:
                    await channel.send(request_of(bytes(100_000)))
                    sent_count += 1

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(send_many)
            await trio.sleep(1)
            assert sent_count * 100_000 <= MAX_UNSENT_BYTES + 200_000
            channel.close()  # ends also the send that cannot be cancelled

    play(scene, weather=Weather(window_bytes=1_000))


def test_cancelling_never_cuts_a_frame_short() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        async def read_slowly() -> None:
            for expected in (b"first" + bytes(9_000), b"second"):
                await trio.sleep(1)
                assert (await broker.receive())[1] == expected

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_slowly)
            with trio.move_on_after(0.5):
                await channel.request(request_of(b"first" + bytes(9_000)), timeout_ms=60_000)
            await channel.send(request_of(b"second"))

    play(scene, weather=Weather(window_bytes=1_000))


def test_refused_and_silent_connections_are_os_errors() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        env = Env(clock=VirtualClock(), rng=Random(1), network=network.host("client"))
        with pytest.raises(ConnectionRefusedError):
            async with open_channel(env, "nobody", 9092):
                pass
        network.cut("client", "nobody")
        with pytest.raises(
            TimeoutError, match="nobody:9092 did not accept a connection within 3000 ms"
        ):
            async with open_channel(env, "nobody", 9092, connect_timeout_ms=3_000):
                pass
        assert trio.current_time() == 3

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_exceptions_of_the_block_come_out_as_they_are() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        play(scene)


def test_room_offered_to_a_task_that_was_just_cancelled_goes_to_the_next() -> None:
    async def scene(channel: Channel, broker: Broker) -> None:
        async def ask(content: bytes) -> None:
            await channel.request(request_of(content), timeout_ms=1_000)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, b"first")
            correlation_id, _ = await broker.receive()
            with trio.CancelScope() as given_up:
                async with trio.open_nursery() as waiting:
                    waiting.start_soon(ask, b"never sent")
                    await trio.testing.wait_all_tasks_blocked()
                    given_up.cancel()  # the task that waits for room has yet to notice
                    channel.settle(bytearray(struct.pack(">i", correlation_id)))
            nursery.start_soon(broker.serve)
            nursery.start_soon(ask, b"second")
            nursery.start_soon(ask, b"third")

    play(scene, max_requests_in_flight=1)
