"""How a listener ends: drained, or cut short."""

import logging

import pytest
import trio

from tests.sim import MemoryNetwork, Weather
from tests.unit.network.harness import Stage, framed, play


def test_drain_answers_what_was_received_and_closes() -> None:
    async def scene(stage: Stage) -> None:
        idle, waiting = await stage.connect(), await stage.connect()
        await waiting.send(b"wait", b"behind it")
        await trio.sleep(0.001)

        async def finish() -> None:
            await trio.sleep(2)
            await waiting.send(b"too late to be read")
            stage.handler.pending[0].complete_encoded([framed(b"done")])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish)
            await stage.server.drain(10_000)
        assert 2 <= trio.current_time() < 3
        assert [await waiting.receive() for _ in range(3)] == [b"done", b"behind it", None]
        assert await idle.receive() is None
        assert stage.handler.frames == [b"wait", b"behind it"]
        assert len(stage.handler.closed) == 2
        with pytest.raises(OSError, match="refused"):
            await stage.connect()

    play(scene)


def test_drain_handles_frames_that_wait_for_their_turn() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(*(b"wait %d" % number for number in range(5)))
        await trio.sleep(0.001)
        assert len(stage.handler.frames) == 2

        async def finish() -> None:
            for number in range(5):
                await trio.sleep(0.1)
                stage.handler.pending[number].complete_encoded([framed(b"%d" % number)])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish)
            await stage.server.drain(10_000)
        assert [await peer.receive() for _ in range(6)] == [b"0", b"1", b"2", b"3", b"4", None]

    play(scene, max_requests_in_flight_per_connection=2)


def test_drain_ends_a_pause_and_handles_the_frames_behind_it() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"pause", b"behind it")
        assert await peer.receive() == b"pause"
        assert stage.handler.frames == [b"pause"]
        await stage.server.drain(10_000)
        assert trio.current_time() < 1
        assert [await peer.receive() for _ in range(2)] == [b"behind it", None]

    play(scene)


def test_drain_ends_at_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"wait")
        await trio.sleep(0.001)
        await stage.server.drain(3_000)
        assert 3 <= trio.current_time() < 3.1
        assert await peer.is_closed()
        assert stage.handler.discarded_count == 1

    with caplog.at_level(logging.WARNING):
        play(scene)
    assert caplog.messages == ["Listener PLAINTEXT: 1 connections were not drained after 3000 ms"]


def test_drain_lets_a_send_under_way_finish() -> None:
    network = MemoryNetwork(weather=Weather(window_bytes=1_000))

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.send, bytes(3_000))
            await trio.sleep(0.001)
            nursery.start_soon(stage.server.drain, 5_000)
            await trio.sleep(0.001)
            assert await peer.receive() == bytes(3_000)
            assert await peer.receive() is None

    play(scene, network=network)


def test_run_ends_when_it_was_drained() -> None:
    async def scene(stage: Stage) -> None:
        await stage.server.drain(1_000)
        assert stage.server.connection_count == 0

    play(scene)


def test_cancelled_server_discards_what_waits_and_tells_the_handler() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"wait", b"behind it")
        await trio.sleep(0.001)

    stage = play(scene)
    assert stage.handler.discarded_count == 1
    assert len(stage.handler.closed) == 1
    assert stage.budget.connection_count == 0
    assert stage.budget.used_bytes == 0


def test_address_in_use_is_told_to_whoever_starts_the_server() -> None:
    network = MemoryNetwork()

    async def scene(stage: Stage) -> None:
        await network.listen("127.0.0.1", 9_999)
        with pytest.raises(OSError, match="in use"):
            await network.listen("127.0.0.1", 9_999)

    play(scene, network=network)
