"""Fetches of more partitions than are read in one turn of the event loop.

Decides when a fetch has its turn. In one turn the loop does the work of at most one such fetch, so
that other requests are handled in between. Reading, waiting and the response all take several
turns, and the response is encoded in the pool. The work ends when the client leaves.

Invariants: partitions are read in the session's order, as for other fetches (``fetch``). No append
is missed between reading and waiting, because each partition is checked again once it is watched.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from log_service.broker.handlers.fetch.reads import DelayedFetch, PartitionReads, must_respond_now
from log_service.broker.handlers.fetch.response import add_results, paused_response
from log_service.broker.requests.call import Deferred
from log_service.common.types import TopicPartition
from log_service.protocol.messages.fetch import FetchResponse
from log_service.replication.purgatory import Watch

T = TypeVar("T")

PARTITIONS_PER_TURN = 1_000
"""Partitions that are named in a response, or looked at for a wait, in one turn."""


def fetch_in_turns(reads: PartitionReads, deadline_ms: int) -> Deferred:
    """Read the remaining partitions of a fetch in several turns. Return its deferred response."""
    deferred = reads.call.defer()
    reads.call.route.start_task(_Work(reads, deferred).run, deadline_ms)
    return deferred


def respond_in_turns(reads: PartitionReads, deferred: Deferred) -> None:
    """Complete a fetch after its wait. Its remaining partitions are read in several turns."""
    reads.call.route.start_task(_Work(reads, deferred).run, None)


class _Work:
    """A fetch whose remaining partitions are read, until it responds or begins to wait."""

    def __init__(self, reads: PartitionReads, deferred: Deferred) -> None:
        self._reads = reads
        self._deferred = deferred
        self._scope = trio.CancelScope()
        self._watch: Watch[TopicPartition] | None = None
        deferred.on_discard(self._leave)

    def _leave(self) -> None:
        """End the work, because the client has left."""
        self._scope.cancel()
        if self._watch is not None:
            self._watch.cancel()

    async def run(self, deadline_ms: int | None) -> None:
        """Read the remaining partitions, then respond, or wait until ``deadline_ms``.

        A fetch with ``deadline_ms`` None has waited already and responds.
        """
        with self._scope:
            try:
                await self._read()
                if deadline_ms is None or not await self._waits(deadline_ms):
                    await self._respond()
            except BaseException as error:
                self._reads.reading.release()
                if self._watch is not None:
                    self._watch.cancel()  # the client may have left just before it began
                if not isinstance(error, Exception):
                    raise
                self._deferred.fail(error)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._reads.node.fetch_turn:
            with self._reads.call.counted():
                yield

    async def _read(self) -> None:
        is_all, replica = False, self._reads.reading.replica
        while not is_all:
            async with self._turn():
                is_all = self._reads.read_some()
                if replica is not None:
                    replica.announce()

    async def _waits(self, deadline_ms: int) -> bool:
        """Begin to wait for records, unless there are enough. Return whether the fetch waits."""
        reads, reading = self._reads, self._reads.reading
        if must_respond_now(reads.request, reading):
            return False
        operation = DelayedFetch(reads, self._deferred, respond_in_turns)
        for some in _portions(reading.present):
            async with self._turn():
                if operation.expect_some(some):
                    return False
        keys = tuple(operation.keys)
        if not keys:
            return False
        async with self._turn():
            self._watch = watch = reads.node.replicas.delayed_fetches.watch(
                operation, keys, deadline_ms
            )
        reading.release()
        for some_keys in _portions(keys):
            async with self._turn():
                if watch.is_pending and any(map(operation.is_ready, some_keys)):
                    watch.cancel()
                    operation.on_ready()
        return True

    async def _respond(self) -> None:
        reads, reading = self._reads, self._reads.reading
        node, call, context = reads.node, reads.call, reads.context
        async with self._turn():
            response = paused_response(node, call, context, reading)
        if response is None:
            response = FetchResponse(session_id=context.session_id)
            for some in _portions(reading.results):
                async with self._turn():
                    add_results(node, call, context, reading, response, results=some)
            reading.count_sent()
        self._deferred.complete_encoded(await call.respond_in_pool(response, node.run_in_pool))
        response.responses.clear()
        while reading.results:  # to free all of them at once takes a turn that is too long
            async with self._turn():
                del reading.results[-PARTITIONS_PER_TURN:]


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), PARTITIONS_PER_TURN):
        yield items[start : start + PARTITIONS_PER_TURN]
