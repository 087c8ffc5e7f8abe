"""Readers that streams share: when they begin and end. Integration tests read topics with them."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace

import trio

from log_service.client.connections.env import real_env
from log_service.http.cluster_clients.pool import ClusterClients
from log_service.http.rest_proxy.settings import read_rest_settings
from log_service.http.rest_proxy.streams import Streams
from log_service.http.rest_proxy.v1.endings import OUT_OF_RANGE, STOPPING, Ending
from log_service.http.rest_proxy.v1.shared_readers import (
    TOTAL_BYTES,
    WINDOW_BYTES,
    Followed,
    SharedReaders,
)
from tests.helpers.ports import free_port

PLAIN = Followed(
    credentials=None,
    topic="t",
    topic_id=None,
    partitions=(),
    comparisons=(),
    encoding="auto",
    is_committed_only=True,
)
OTHER = replace(PLAIN, partitions=(0,))


def tell(story: Callable[[SharedReaders], Awaitable[None]], *, has_clients: bool = True) -> None:
    """Run a story with readers of a cluster that does not respond."""

    async def main() -> None:
        env, streams = real_env(), Streams(1)
        clients = ClusterClients(f"127.0.0.1:{free_port()}", {}, env)
        readers = SharedReaders(clients, read_rest_settings("", "a file"), streams)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                if has_clients:
                    await nursery.start(clients.run)
                await nursery.start(streams.run)
                await story(readers)
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_streams_share_a_reader_whose_window_they_can_join() -> None:
    async def story(readers: SharedReaders) -> None:
        await trio.lowlevel.checkpoint()
        with ExitStack() as stack:
            for positions in ({0: 7}, {0: 7}, {0: 9}):
                stack.enter_context(readers.cursor(PLAIN, positions))
            assert len(readers) == 1
            stack.enter_context(readers.cursor(OTHER, {0: 7}))
            assert len(readers) == 2
            stack.enter_context(readers.cursor(PLAIN, {0: 6}))
            assert len(readers) == 3
        assert len(readers) == 0
        assert readers.joinable(PLAIN, {0: 7}) is None

    tell(story)


def test_windows_of_many_readers_are_smaller() -> None:
    async def story(readers: SharedReaders) -> None:
        await trio.lowlevel.checkpoint()
        assert readers.window_bytes == WINDOW_BYTES
        with ExitStack() as stack:
            for number in range(100, 0, -1):
                stack.enter_context(readers.cursor(PLAIN, {0: number}))
            assert readers.window_bytes == TOTAL_BYTES // 100

    tell(story)


def test_a_proxy_that_stops_ends_its_readers() -> None:
    async def story(readers: SharedReaders) -> None:
        with readers.cursor(PLAIN, {0: 0}) as one, readers.cursor(PLAIN, {0: 0}) as other:
            with trio.move_on_after(0.1):
                await one.wait()
            assert not one.is_over
            readers.streams.stopping.set()
            for each in (one, other):
                await each.wait()
                assert each.is_over
                assert each.ending_at({0: 0}) is STOPPING

    tell(story)


def test_streams_learn_why_their_reader_cannot_read() -> None:
    async def story(readers: SharedReaders) -> None:
        with readers.cursor(PLAIN, {0: 0}) as cursor:
            await cursor.wait()
            assert cursor.is_over
            ending = cursor.ending_at({0: 0})
            assert ending is not None
            assert (ending.reason, "stopping" in ending.message) == ("error", True)

    tell(story, has_clients=False)


def test_offsets_that_are_gone_end_only_the_streams_that_need_them() -> None:
    """A slow stream began a reader at deleted offsets, and another stream had joined it."""

    async def story(readers: SharedReaders) -> None:
        await trio.lowlevel.checkpoint()
        with readers.cursor(PLAIN, {0: 0}) as behind, readers.cursor(PLAIN, {0: 9}) as ahead:
            reader = readers.joinable(PLAIN, {0: 0})
            assert reader is not None
            ending = Ending(reason=OUT_OF_RANGE, message="They were deleted.")
            reader.end(ending)
            assert behind.is_over
            assert ahead.is_over
            assert behind.ending_at({0: 0}) is ending
            assert ahead.ending_at({0: 9}) is None

    tell(story)
