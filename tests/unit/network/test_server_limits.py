"""A listener refuses connections, waits for bounded times, and says so."""

import errno
import logging
import struct

import pytest
import trio

from log_service.config.views import ConnectionLimits
from log_service.network.budget import MAX_LOGIN_FRAMES
from log_service.network.server import MAX_LINES_PER_WINDOW
from tests.sim import MemoryNetwork, Weather
from tests.unit.network.harness import Peer, Stage, framed, play

Log = pytest.LogCaptureFixture
LISTENER = "PLAINTEXT"


@pytest.fixture
def log(caplog: Log) -> Log:
    caplog.set_level(logging.INFO, logger="log_service.network")
    return caplog


@pytest.mark.parametrize("size", [-1, -(2**31), 1_001, 2**31 - 1])
@pytest.mark.parametrize("receive_buffer_bytes", [256, 8_192])
def test_size_out_of_bounds_closes_the_connection_with_one_line(
    log: Log, size: int, receive_buffer_bytes: int
) -> None:
    async def scene(stage: Stage) -> None:
        peer, other = await stage.connect(), await stage.connect()
        await peer.send_raw(framed(b"good") + struct.pack(">i", size) + bytes(2_000))
        assert await peer.receive() == b"good"
        assert await peer.is_closed()
        await other.send(b"unharmed")
        assert await other.receive() == b"unharmed"

    play(scene, max_frame_bytes=1_000, receive_buffer_bytes=receive_buffer_bytes)
    assert len(log.messages) == 1
    assert f"announced {size} bytes" in log.messages[0]


def test_frame_that_makes_no_sense_closes_the_connection_after_the_answers_before_it(
    log: Log,
) -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"good", b"bad", b"never handled")
        assert await peer.receive() == b"good"
        assert await peer.is_closed()
        assert stage.handler.frames == [b"good", b"bad"]
        assert len(stage.handler.closed) == 1

    play(scene)
    assert log.messages == ["Closing the connection from client: this is not the protocol"]


def test_bug_of_the_handler_costs_one_connection_and_leaves_a_traceback(log: Log) -> None:
    async def scene(stage: Stage) -> None:
        peer, other = await stage.connect(), await stage.connect()
        await peer.send(b"bug")
        assert await peer.is_closed()
        await other.send(b"unharmed")
        assert await other.receive() == b"unharmed"

    play(scene)
    assert len(log.records) == 1
    assert "KeyError" in (log.records[0].exc_text or "")


def test_connections_beyond_the_limit_are_closed_at_once(log: Log) -> None:
    async def scene(stage: Stage) -> None:
        peers = [await stage.connect() for _ in range(2)]
        refused = await stage.connect()
        assert await refused.is_closed()
        peers[0].connection.close()
        await trio.sleep(0.001)
        admitted = await stage.connect()
        await admitted.send(b"hello")
        assert await admitted.receive() == b"hello"
        assert (stage.server.accepted_count, stage.server.refused_count) == (3, 1)

    play(scene, connections=ConnectionLimits(max_count=2))
    assert len(log.messages) == 1
    assert "the limit is 2" in log.messages[0]


def test_limit_per_address_and_its_exceptions(log: Log) -> None:
    async def scene(stage: Stage) -> None:
        assert not await (await stage.connect("many")).is_closed()
        assert not await (await stage.connect("many")).is_closed()
        assert await (await stage.connect("many")).is_closed()
        assert not await (await stage.connect("few")).is_closed()
        assert await (await stage.connect("few")).is_closed()

    play(
        scene, connections=ConnectionLimits(max_count_per_host=1, max_count_of_host=(("many", 2),))
    )
    assert len(log.messages) == 2


def test_connections_leave_descriptors_for_logs(log: Log) -> None:
    async def scene(stage: Stage) -> None:
        stage.budget.most_connections = 1
        assert not await (await stage.connect()).is_closed()
        assert await (await stage.connect()).is_closed()

    play(scene, connections=ConnectionLimits(max_count=5))
    assert (
        "there are 1 connections already, and the descriptors that are left are for logs: raise ulimit -n"
        in log.messages[0]
    )


def test_limit_of_one_listener_is_its_own(log: Log) -> None:
    async def scene(stage: Stage) -> None:
        assert not await (await stage.connect()).is_closed()
        assert await (await stage.connect()).is_closed()

    play(scene, connections=ConnectionLimits(max_count_of_listener=((LISTENER, 1), ("OTHER", 0))))
    assert "this listener has 1 connections already, its limit is 1" in log.messages[0]


def test_limits_change_while_connections_are_open() -> None:
    async def scene(stage: Stage) -> None:
        first = await stage.connect()
        stage.budget.set_connection_limits(ConnectionLimits(max_count=1))
        assert await (await stage.connect()).is_closed()
        await first.send(b"still")
        assert await first.receive() == b"still"
        stage.budget.set_connection_limits(ConnectionLimits(max_count=2))
        assert not await (await stage.connect()).is_closed()

    play(scene)


@pytest.mark.parametrize(
    "limits",
    [ConnectionLimits(max_rate=10), ConnectionLimits(max_rate_of_listener=((LISTENER, 10),))],
)
def test_connections_above_the_rate_wait_and_are_served_later(limits: ConnectionLimits) -> None:
    async def scene(stage: Stage) -> None:
        peers = [await stage.connect() for _ in range(30)]
        for peer in peers:
            await peer.send(b"hello")
        begun = trio.current_time()
        for peer in peers:
            assert await peer.receive() == b"hello"
        assert 1.8 <= trio.current_time() - begun <= 2.2  # ten at once, then ten a second

    play(scene, connections=limits)


def test_lines_about_refusals_are_bounded(log: Log) -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(100):
            await stage.connect()
        await trio.sleep(100)
        await stage.connect()
        await trio.sleep(0.001)

    play(scene, connections=ConnectionLimits(max_count=0))
    assert len(log.messages) == MAX_LINES_PER_WINDOW + 1
    assert "(and 80 times more before)" in log.messages[-1]


@pytest.mark.parametrize(
    "started",
    [b"\0\0\x10", struct.pack(">i", 1_000) + bytes(50), struct.pack(">i", 100_000) + bytes(50)],
)
def test_half_a_frame_must_not_take_longer_than_the_deadline(log: Log, started: bytes) -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send_raw(started)
        begun = trio.current_time()
        with pytest.raises(OSError, match="closed"):  # a byte now and then buys no time
            await peer.send_slowly(bytes(300), pause_s=0.1)
        assert 8 <= trio.current_time() - begun <= 10.1

    play(scene, frame_deadline_ms=8_000)
    assert len(log.messages) == 1
    assert "a frame was not complete after 8000 ms" in log.messages[0]


def test_whole_frames_are_not_subject_to_the_frame_deadline() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        stream = framed(b"x" * 10) * 40
        for position in range(0, len(stream), 7):  # always in the middle of some frame
            await peer.send_raw(stream[position : position + 7])
            await trio.sleep(0.5)
        assert len(stage.handler.frames) == 40

    play(scene, frame_deadline_ms=8_000)


def test_idle_connection_is_closed_and_a_busy_or_waiting_one_is_not(log: Log) -> None:
    async def scene(stage: Stage) -> None:
        idle, busy, waiting = [await stage.connect() for _ in range(3)]
        await waiting.send(b"wait")
        for _ in range(40):
            await trio.sleep(1)
            await busy.send(b"still here")
            assert await busy.receive() == b"still here"
        assert await idle.is_closed()
        stage.handler.pending[0].complete_encoded([framed(b"done")])
        assert await waiting.receive() == b"done"

    play(scene, idle_timeout_ms=30_000)
    assert len(log.messages) == 1
    assert "idle for 30000 ms" in log.messages[0]


def test_peer_that_does_not_read_its_answers_is_closed(log: Log) -> None:
    network = MemoryNetwork(weather=Weather(window_bytes=10_000))

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        with pytest.raises(OSError, match="closed"):
            await peer.send_slowly(framed(bytes(3_000)) * 100, pause_s=0, chunk_bytes=3_004)
        assert 8 <= trio.current_time() <= 10.1
        assert len(stage.handler.frames) < 20

    play(scene, network=network, frame_deadline_ms=8_000)
    assert len(log.messages) == 1
    assert "the peer read nothing of its responses for 8000 ms" in log.messages[0]


def test_peer_that_does_not_read_late_answers_is_closed_and_its_slices_released() -> None:
    network = MemoryNetwork(weather=Weather(window_bytes=10_000))

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"wait", b"wait")
        await trio.sleep(0.001)
        for answer in stage.handler.pending:
            answer.complete_encoded([framed(bytes(20_000))])
        await trio.sleep(11)
        assert stage.handler.closed
        assert stage.budget.used_bytes == 0

    play(scene, network=network, frame_deadline_ms=8_000)


def test_peer_that_reads_slowly_but_reads_is_served() -> None:
    network = MemoryNetwork(weather=Weather(window_bytes=1_000))

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"wait")
        await trio.sleep(0.001)
        stage.handler.pending[0].complete_encoded([framed(bytes(20_000))])
        received = 0
        while received < 20_004:
            await trio.sleep(2)
            received += await peer.connection.receive_into(bytearray(1_000))
        assert not stage.handler.closed

    play(scene, network=network, frame_deadline_ms=8_000)


def test_exhausted_memory_delays_large_frames_and_admits_them_in_order() -> None:
    async def scene(stage: Stage) -> None:
        first, second, third, small = [await stage.connect() for _ in range(4)]
        frames = [framed(bytes([number]) * 600_000) for number in range(3)]
        for peer, frame in zip((first, second, third), frames, strict=True):
            await peer.send_raw(frame[:70_000])
            await trio.sleep(0.001)
        assert stage.budget.used_bytes == 600_000
        await small.send(b"small frames need no memory")
        assert await small.receive() == b"small frames need no memory"
        await trio.sleep(3)  # waiting for memory is not the peer's fault: no deadline

        async with trio.open_nursery() as nursery:
            nursery.start_soon(third.send_raw, frames[2][70_000:])
            nursery.start_soon(second.send_raw, frames[1][70_000:])
            await trio.sleep(0.5)
            assert len(stage.handler.frames) == 1
            nursery.start_soon(first.send_raw, frames[0][70_000:])
            for peer in (first, second, third):
                nursery.start_soon(peer.receive)
        assert [frame[0] for frame in stage.handler.frames[1:]] == [0, 1, 2]
        assert stage.budget.used_bytes == 0

    play(scene, max_request_bytes_in_flight=1_000_000, frame_deadline_ms=4_000)


def test_connection_may_wait_for_memory_again_and_again() -> None:
    async def scene(stage: Stage) -> None:
        peers = [await stage.connect() for _ in range(3)]

        async def exchange(peer: Peer) -> None:
            for _ in range(4):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(peer.send, bytes(600_000))
                    assert await peer.receive() == bytes(600_000)

        async with trio.open_nursery() as nursery:
            for peer in peers:
                nursery.start_soon(exchange, peer)

    stage = play(scene, max_request_bytes_in_flight=1_000_000)
    assert len(stage.handler.frames) == 12


def test_frames_that_are_only_announced_take_no_memory_and_are_given_up() -> None:
    async def scene(stage: Stage) -> None:
        announcers = [await stage.connect() for _ in range(20)]
        for peer in announcers:
            await peer.send_raw(struct.pack(">i", 90_000_000) + bytes(1_000))
        await trio.sleep(0.001)
        assert stage.budget.used_bytes == 0
        honest = await stage.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(honest.send, bytes(900_000))
            assert await honest.receive() == bytes(900_000)
        await trio.sleep(5)
        assert [await peer.is_closed() for peer in announcers] == [True] * 20

    play(scene, max_request_bytes_in_flight=1_000_000, frame_deadline_ms=4_000)


@pytest.mark.parametrize("size_bytes", [65_532, 65_533, 1 << 20, (1 << 20) + 1, 3_000_001])
def test_frames_of_every_size_arrive_whole_and_may_be_written_to(size_bytes: int) -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        content = bytes(number % 251 for number in range(1_000)) * (size_bytes // 1_000 + 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.send, content[:size_bytes])
            assert await peer.receive() == content[:size_bytes]

    stage = play(scene)
    assert stage.budget.used_bytes == 0


def test_frame_larger_than_all_memory_is_admitted_alone() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.send, bytes(500_000))
            assert await peer.receive() == bytes(500_000)

    play(scene, max_request_bytes_in_flight=1_000)


def test_memory_of_peers_that_leave_is_given_back() -> None:
    async def scene(stage: Stage) -> None:
        holder, leaver, waiter = [await stage.connect() for _ in range(3)]
        for peer in (holder, leaver, waiter):
            await peer.send_raw(struct.pack(">i", 600_000) + bytes(70_000))
            await trio.sleep(0.001)
        leaver.connection.close()
        holder.connection.close()
        await trio.sleep(0.001)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiter.send_raw, bytes(530_000))
            assert await waiter.receive() == bytes(600_000)
        assert stage.budget.used_bytes == 0

    play(scene, max_request_bytes_in_flight=1_000_000)


def test_accepting_goes_on_after_the_system_ran_out_of_descriptors(log: Log) -> None:
    network = MemoryNetwork()
    network.accept_failures.extend(OSError(errno.EMFILE, "too many open files") for _ in range(5))

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"at last")
        assert await peer.receive() == b"at last"
        assert 1 < trio.current_time() < 4

    play(scene, network=network)
    assert "too many open files" in log.messages[0]


def test_counters_cover_open_and_closed_connections() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(2):
            peer = await stage.connect()
            await peer.send(b"12345678")
            await peer.receive()
        peer.connection.close()
        await trio.sleep(0.001)
        server = stage.server
        assert (
            server.connection_count,
            server.request_count,
            server.bytes_received,
            server.bytes_sent,
        ) == (1, 2, 24, 24)

    play(scene)


def test_connection_that_waits_for_memory_can_be_closed() -> None:
    async def scene(stage: Stage) -> None:
        holder, waiter = await stage.connect(), await stage.connect()
        for peer in (holder, waiter):
            await peer.send_raw(struct.pack(">i", 600_000) + bytes(70_000))
            await trio.sleep(0.001)
        await stage.server.drain(1_000)
        assert stage.server.connection_count == 0
        assert stage.budget.used_bytes == 0

    play(scene, max_request_bytes_in_flight=1_000_000)


def test_clients_that_have_not_logged_in_leave_memory_to_those_that_have() -> None:
    async def scene(stage: Stage) -> None:
        strangers = [await stage.connect() for _ in range(MAX_LOGIN_FRAMES + 1)]
        await trio.sleep(0.001)
        for context in (connection.context for connection in stage.server.connections):
            context.max_frame_bytes = 600_000
        for peer in strangers:
            await peer.send_raw(struct.pack(">i", 500_000) + bytes(70_000))
        await trio.sleep(0.001)
        assert stage.budget.used_bytes == MAX_LOGIN_FRAMES * 500_000
        assert stage.server.connection_count == MAX_LOGIN_FRAMES
        client = await stage.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, bytes(900_000))
            assert await client.receive() == bytes(900_000)
        for peer in strangers:
            peer.connection.close()
        await trio.sleep(0.001)
        client.connection.close()
        late = await stage.connect()
        await trio.sleep(0.001)
        (connection,) = stage.server.connections
        connection.context.max_frame_bytes = 600_000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(late.send, bytes(500_000))
            assert await late.receive() == bytes(500_000)

    play(scene, max_request_bytes_in_flight=(MAX_LOGIN_FRAMES + 1) * 500_000 + 500_000)
