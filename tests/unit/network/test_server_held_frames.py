"""A handler may still read frames, or put them off.

Nothing is handled behind them, and nothing of them is lost.
"""

import pytest
import trio

from tests.sim import MemoryNetwork, Weather
from tests.unit.network.harness import PAUSE_MS, Stage, framed, play

BUFFER_BYTES = 1_024
SIZES = (8, 500, BUFFER_BYTES - 4, BUFFER_BYTES, 50_000)
"""Below, at and beyond the buffer of a connection."""


def content_of(word: bytes, size: int) -> bytes:
    return word + bytes(index % 251 for index in range(size - len(word)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("max_chunk_bytes", [0, 7])
def test_a_held_frame_stays_as_it_is_and_nothing_is_handled_behind_it(
    size: int, max_chunk_bytes: int
) -> None:
    held = content_of(b"hold", size)
    behind = [b"next %d" % number + bytes(300) for number in range(20)]

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"first", held, *behind)
        assert await peer.receive() == b"first"
        await trio.sleep(1)
        assert stage.handler.frames == [b"first", held]
        stage.handler.complete_held(0)
        assert [await peer.receive() for _ in range(21)] == [held, *behind]
        assert stage.budget.used_bytes == 0

    play(
        scene,
        network=MemoryNetwork(weather=Weather(max_chunk_bytes=max_chunk_bytes)),
        receive_buffer_bytes=BUFFER_BYTES,
    )


def test_a_held_frame_waits_for_the_responses_before_it_and_frees_the_frames_behind_it_at_once() -> (
    None
):
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"wait", b"hold", b"hold again", b"last")
        await trio.sleep(0.001)
        stage.handler.complete_held(0)
        await trio.sleep(0.001)
        assert stage.handler.frames == [b"wait", b"hold", b"hold again"]
        stage.handler.complete_held(1)
        await trio.sleep(0.001)
        assert stage.handler.frames == [b"wait", b"hold", b"hold again", b"last"]
        stage.handler.pending[0].complete_encoded([framed(b"done")])
        assert [await peer.receive() for _ in range(4)] == [
            b"done",
            b"hold",
            b"hold again",
            b"last",
        ]

    play(scene)


@pytest.mark.parametrize("size", SIZES)
def test_a_peer_that_leaves_ends_the_work_for_a_held_frame(size: int) -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(content_of(b"hold", size), b"next")
        await trio.sleep(0.001)
        peer.connection.close()
        await trio.sleep(0.001)
        assert stage.handler.discarded_count == 1
        assert len(stage.handler.frames) == 1
        _, frame = stage.handler.held[0]
        other = await stage.connect()
        await other.send(b"none" + bytes(size))
        await trio.sleep(0.001)
        assert bytes(frame) == content_of(b"hold", size), (
            "memory that may still be read was given to another frame"
        )
        assert stage.budget.used_bytes == 0

    play(scene, receive_buffer_bytes=BUFFER_BYTES)


def test_a_held_frame_keeps_the_memory_that_it_was_granted() -> None:
    async def scene(stage: Stage) -> None:
        peer, other = await stage.connect(), await stage.connect()
        await peer.send(content_of(b"hold", 50_000))
        await trio.sleep(0.001)
        await other.send(bytes(50_000))
        assert await other.receive_nowait() is None
        stage.handler.complete_held(0)
        assert await other.receive() == bytes(50_000)

    play(scene, receive_buffer_bytes=BUFFER_BYTES, max_request_bytes_in_flight=60_000)


def test_drain_waits_for_a_held_frame_and_handles_those_behind_it() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"hold", b"next")
        await trio.sleep(0.001)

        async def complete() -> None:
            await trio.sleep(1)
            stage.handler.complete_held(0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(complete)
            await stage.server.drain(10_000)
        assert 1 <= trio.current_time() < 1.1
        assert [await peer.receive() for _ in range(3)] == [b"hold", b"next", None]

    play(scene)


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_that_was_put_off_comes_again_until_it_is_taken(size: int) -> None:
    put_off = content_of(b"off", size)

    async def scene(stage: Stage) -> None:
        stage.handler.put_off_count = 3
        peer = await stage.connect()
        await peer.send(b"first", put_off, b"next")
        assert await peer.receive() == b"first"
        await trio.sleep(2.5 * PAUSE_MS / 1000)
        assert stage.handler.frames == [b"first"]
        assert [await peer.receive() for _ in range(2)] == [put_off, b"next"]
        assert 3 * PAUSE_MS / 1000 <= trio.current_time() < 3.1 * PAUSE_MS / 1000
        assert stage.server.request_count == 3

    play(scene, receive_buffer_bytes=BUFFER_BYTES)


@pytest.mark.parametrize("size", SIZES)
def test_drain_gives_up_what_is_put_off_and_sends_what_was_promised(size: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.handler.put_off_count = 1_000
        peer = await stage.connect()
        await peer.send(b"wait", content_of(b"off", size), b"next")
        await trio.sleep(0.001)

        async def complete() -> None:
            await trio.sleep(1)
            stage.handler.pending[0].complete_encoded([framed(b"done")])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(complete)
            await stage.server.drain(10_000)
        assert 1 <= trio.current_time() < 1.1
        assert stage.handler.put_off_count >= 997, "the frame was asked for again and again"
        assert [await peer.receive() for _ in range(2)] == [b"done", None]

    play(scene, receive_buffer_bytes=BUFFER_BYTES)


def test_a_connection_that_is_closed_leaves_a_held_frame_and_one_that_is_put_off() -> None:
    async def close(stage: Stage, content: bytes) -> None:
        peer = await stage.connect()
        await peer.send(content, *(bytes(100) for _ in range(50)))
        await trio.sleep(0.001)
        await stage.server.drain(0)
        assert await peer.is_closed()
        assert stage.server.connection_count == 0

    async def held(stage: Stage) -> None:
        await close(stage, b"hold")
        assert stage.handler.discarded_count == 1

    async def put_off(stage: Stage) -> None:
        stage.handler.put_off_count = 1_000
        await close(stage, b"off")

    play(held, receive_buffer_bytes=BUFFER_BYTES)
    play(put_off, receive_buffer_bytes=BUFFER_BYTES)
