"""Frames in, answers out: however the bytes are cut, in whatever order the answers become complete."""

import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from log_service.common.types import Buffer
from log_service.network.connection import JOIN_BYTES, SMALL_SLICE_BYTES
from log_service.network.responses import Chunk
from tests.sim import MemoryFiles, MemoryNetwork, Weather
from tests.sim.network import MemoryConnection
from tests.unit.network.harness import Stage, framed, play


def watch_sends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which the size of every send of the server will be added."""
    sizes: list[int] = []
    send_gathered = MemoryConnection.send_gathered

    async def watched(connection: MemoryConnection, buffers: Sequence[Buffer]) -> None:
        if connection.local_host == "server":
            sizes.append(sum(map(len, buffers)))
        await send_gathered(connection, buffers)

    monkeypatch.setattr(MemoryConnection, "send_gathered", watched)
    return sizes


@pytest.mark.parametrize("max_chunk_bytes", [1, 3, 50, 0])
def test_frames_are_handled_however_the_stream_is_cut(max_chunk_bytes: int) -> None:
    contents = [b"", b"a", b"bc", b"x" * 100, b"y" * 5_000, b"z" * 3]

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(*contents)
        assert [await peer.receive() for _ in contents] == contents

    stage = play(scene, network=MemoryNetwork(Random(1), Weather(max_chunk_bytes=max_chunk_bytes)))
    assert stage.handler.frames == contents


def test_many_frames_in_one_chunk_are_answered_with_one_send() -> None:
    contents = [b"%d" % number for number in range(50)]

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(*contents)
        part = bytearray(64 << 10)
        received = await peer.connection.receive_into(part)
        assert part[:received] == b"".join(map(framed, contents))

    play(scene)


@pytest.mark.parametrize("size", [60, 61, 1_020, 1_021, 1_024, 70_000])
def test_frame_around_and_beyond_the_buffer_size_arrives_whole(size: int) -> None:
    content = Random(size).randbytes(size)

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"before", content, b"after")
        assert [await peer.receive() for _ in range(3)] == [b"before", content, b"after"]
        assert stage.budget.used_bytes == 0

    play(
        scene,
        network=MemoryNetwork(Random(1), Weather(max_chunk_bytes=700)),
        receive_buffer_bytes=1_024,
    )


def test_answers_leave_in_the_order_of_their_requests() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"one", b"wait two", b"three", b"wait four", b"five")
        assert await peer.receive() == b"one"
        assert await peer.receive_nowait() is None
        second, fourth = stage.handler.pending
        fourth.complete_encoded([framed(b"4")])
        assert await peer.receive_nowait() is None
        second.complete_encoded([framed(b"2")])
        assert [await peer.receive() for _ in range(4)] == [b"2", b"three", b"4", b"five"]
        assert stage.budget.used_bytes == 0

    play(scene)


def test_waiting_answer_does_not_stop_the_frames_behind_it() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"wait")
        await peer.send(b"next")
        await trio.sleep(0.001)
        assert stage.handler.frames == [b"wait", b"next"]

    play(scene)


def test_requests_without_an_answer_leave_no_gap() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"none", b"one", b"wait", b"none", b"two")
        assert await peer.receive() == b"one"
        stage.handler.pending[0].complete_encoded(None)
        assert await peer.receive() == b"two"

    play(scene)


def test_answers_that_were_complete_at_once_are_sent() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        stage.handler.pending_is_complete = True
        for _ in range(3):
            await peer.send(b"wait")
            assert await peer.receive_nowait() == b"done"
        stage.handler.pending_is_complete = False
        await peer.send(b"wait")
        await trio.sleep(0.001)
        stage.handler.pending_is_complete = True
        await peer.send(b"wait", b"next")
        await trio.sleep(0.001)
        stage.handler.pending[3].complete_encoded([framed(b"late")])
        assert [await peer.receive_nowait() for _ in range(3)] == [b"late", b"done", b"next"]

    play(scene)


def test_at_most_one_send_is_under_way_also_when_a_frame_makes_no_sense(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sending: list[MemoryConnection] = []
    overlaps: list[MemoryConnection] = []
    send_gathered = MemoryConnection.send_gathered

    async def watched(connection: MemoryConnection, buffers: Sequence[Buffer]) -> None:
        overlaps.extend(other for other in sending if other is connection)
        sending.append(connection)
        try:
            await send_gathered(connection, buffers)
        finally:
            sending.remove(connection)

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"wait")
        await trio.sleep(0.001)
        stage.handler.pending[0].complete_encoded([framed(bytes(5_000))])
        await trio.sleep(0.001)
        assert len(sending) == 1
        await peer.send(b"next", b"bad")
        await trio.sleep(0.001)
        assert stage.handler.frames == [b"wait", b"next", b"bad"]
        assert [await peer.receive() for _ in range(3)] == [bytes(5_000), b"next", None]
        assert stage.handler.closed

    monkeypatch.setattr(MemoryConnection, "send_gathered", watched)
    play(scene, network=MemoryNetwork(weather=Weather(window_bytes=1_000)))
    assert overlaps == []


@pytest.mark.parametrize(
    "last",
    [b"bad", b"bug", b"bad" + bytes(5_000)],
    ids=["not the protocol", "a bug", "in memory of its own"],
)
def test_answers_that_are_ready_are_sent_before_a_frame_that_ends_the_connection(
    last: bytes,
) -> None:
    """A producer of acks=0 whose records were refused took the answers to the requests before it
    along.
    """

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"wait", b"ready", b"ready too", b"wait on")
        await trio.sleep(0.001)
        stage.handler.pending[0].complete_encoded([framed(bytes(5_000))])
        await trio.sleep(0.001)
        await peer.send(last)
        await trio.sleep(0.001)
        assert [await peer.receive() for _ in range(4)] == [
            bytes(5_000),
            b"ready",
            b"ready too",
            None,
        ]

    play(
        scene,
        network=MemoryNetwork(weather=Weather(window_bytes=1_000)),
        receive_buffer_bytes=1_024,
    )


def test_answers_are_sent_before_one_that_cannot_be_read() -> None:
    """A request that fails late has no response, and its place in the queue closes the connection."""
    files = MemoryFiles()

    async def scene(stage: Stage) -> None:
        file = files.open(Path("/segment"))
        file.append_gathered([bytes(9)])
        peer = await stage.connect()
        await peer.send(b"wait", b"ready", b"wait for nothing", b"never sent")
        await trio.sleep(0.001)
        stage.handler.pending[1].complete_encoded([file.slice(0, 10)])
        stage.handler.pending[0].complete_encoded([framed(b"done")])
        assert [await peer.receive() for _ in range(3)] == [b"done", b"ready", None]
        assert files.lease_count == 0
        assert stage.budget.used_bytes == 0

    play(scene)


def test_full_queue_stops_reading_until_an_answer_leaves() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(*(b"wait %d" % number for number in range(10)))
        await trio.sleep(0.001)
        assert len(stage.handler.frames) == 4
        stage.handler.pending[1].complete_encoded([framed(b"1")])
        await trio.sleep(0.001)
        assert len(stage.handler.frames) == 4
        stage.handler.pending[0].complete_encoded([framed(b"0")])
        assert [await peer.receive() for _ in range(2)] == [b"0", b"1"]
        await trio.sleep(0.001)
        assert len(stage.handler.frames) == 6

    play(scene, max_requests_in_flight_per_connection=4)


def handled_after(sizes: list[int], **limits: Any) -> int:
    """Return how many requests of those sizes a connection hands over while none is answered.

    All are once they are, one by one.
    """
    counts = []

    async def scene(stage: Stage) -> None:
        peer, handler = await stage.connect(), stage.handler
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.send, *(b"wait" + bytes(size - 4) for size in sizes))
            await trio.sleep(0.01)
            counts.append(len(handler.frames))
            for number in range(len(sizes)):
                handler.pending[number].complete_encoded([framed(b"done")])
                assert await peer.receive() == b"done"
                await trio.sleep(0.001)
        assert [len(frame) for frame in handler.frames] == sizes

    play(scene, **limits)
    return counts[0]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([400] * 10, 3), ([996, 4, 4], 2), ([1_000, 4], 1), ([50_000, 50_000], 1), ([4] * 20, 20)],
)
def test_a_client_has_a_bounded_number_of_bytes_unanswered_and_one_request_of_any_size(
    sizes: list[int], expected: int
) -> None:
    """A client that floods a partition would have others wait until all that it ever sent is
    replicated.
    """
    assert (
        handled_after(sizes, max_unanswered_bytes_per_connection=1_000, receive_buffer_bytes=4_096)
        == expected
    )


def test_full_queue_leaves_bytes_with_the_sender() -> None:
    network = MemoryNetwork(weather=Weather(window_bytes=2_000))

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        with trio.move_on_after(1) as sending:
            await peer.send(*(b"wait" + bytes(100) for _ in range(1_000)))
        assert sending.cancelled_caught
        assert peer.connection.bytes_sent < 2_000 + 4_096
        assert len(stage.handler.frames) == 4

    play(
        scene, network=network, max_requests_in_flight_per_connection=4, receive_buffer_bytes=4_096
    )


def test_answers_held_behind_an_unfinished_one_count_as_memory_and_stop_reading() -> None:
    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        await peer.send(b"wait", *(bytes(400) for _ in range(20)))
        await trio.sleep(0.001)
        assert len(stage.handler.frames) == 4  # 3 x 404 bytes are held: more than 1,000
        assert stage.budget.used_bytes == 3 * 404
        stage.handler.pending[0].complete_encoded([framed(b"done")])
        assert await peer.receive() == b"done"
        assert [await peer.receive() for _ in range(20)] == [bytes(400)] * 20
        assert stage.budget.used_bytes == 0

    play(scene, max_request_bytes_in_flight=1_000)


@pytest.mark.parametrize("size", [10, SMALL_SLICE_BYTES, SMALL_SLICE_BYTES + 1])
@pytest.mark.parametrize("is_waiting", [False, True])
def test_slices_of_files_are_sent_and_released(size: int, is_waiting: bool) -> None:
    files = MemoryFiles()
    content = Random(size).randbytes(size)

    async def scene(stage: Stage) -> None:
        file = files.open(Path("/segment"))
        file.append_gathered([b"skipped", content])
        stage.handler.slices = {b"fetch": file.slice(7, size), b"wait": file.slice(7, size)}
        peer = await stage.connect()
        await peer.send(b"wait" if is_waiting else b"fetch", b"next")
        await trio.sleep(0.001)
        if is_waiting:
            stage.handler.pending[0].complete_encoded(stage.handler.answer_to(b"wait"))
        assert await peer.receive() == (b"wait" if is_waiting else b"fetch") + content
        assert await peer.receive() == b"next"
        assert files.lease_count == 1  # the one that was not asked for

    play(scene)


def test_answer_of_many_slices_is_sent_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    sizes = watch_sends(monkeypatch)
    content = Random(1).randbytes(100_000)

    async def scene(stage: Stage) -> None:
        file = files.open(Path("/segment"))
        file.append_gathered([content])
        peer = await stage.connect()
        await peer.send(b"wait")
        await trio.sleep(0.001)
        slices: list[Chunk] = [file.slice(0, len(content)) for _ in range(10)]
        stage.handler.pending[0].complete_encoded([struct.pack(">i", 10 * len(content)), *slices])
        assert await peer.receive() == content * 10
        assert files.lease_count == 0

    play(scene)
    assert len(sizes) == 4
    assert max(sizes) < JOIN_BYTES + SMALL_SLICE_BYTES


def test_slices_are_released_when_the_file_is_too_short_and_the_connection_closes() -> None:
    files = MemoryFiles()

    async def scene(stage: Stage) -> None:
        file = files.open(Path("/segment"))
        file.append_gathered([bytes(49_999)])
        stage.handler.slices = {b"fetch": file.slice(0, 50_000)}
        peer = await stage.connect()
        await peer.send(b"fetch")
        assert await peer.receive() is None
        assert files.lease_count == 0

    play(scene)


def test_slices_of_queued_and_of_late_answers_are_released_when_the_peer_leaves() -> None:
    files = MemoryFiles()

    async def scene(stage: Stage) -> None:
        file = files.open(Path("/segment"))
        file.append_gathered([bytes(50_000)])
        stage.handler.slices = {b"fetch": file.slice(0, 50_000), b"late": file.slice(0, 50_000)}
        peer = await stage.connect()
        await peer.send(b"wait", b"fetch")
        await trio.sleep(0.001)
        peer.connection.close()
        await trio.sleep(0.001)
        assert stage.handler.discarded_count == 1
        assert files.lease_count == 1
        stage.handler.pending[0].complete_encoded(stage.handler.answer_to(b"late"))
        assert files.lease_count == 0
        assert stage.budget.used_bytes == 0

    play(scene)


def test_one_wake_up_sends_before_it_piles_up_more_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = watch_sends(monkeypatch)

    async def scene(stage: Stage) -> None:
        peer = await stage.connect()
        contents = [bytes(30_000)] * 100
        await peer.send(*contents)
        assert [await peer.receive() for _ in contents] == contents

    play(
        scene,
        network=MemoryNetwork(weather=Weather(window_bytes=10_000_000)),
        receive_buffer_bytes=8 << 20,
    )
    assert len(sizes) > 10
    assert max(sizes) < JOIN_BYTES + 30_004
