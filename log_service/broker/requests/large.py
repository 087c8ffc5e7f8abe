"""Requests of many list elements: decoded in the pool, handled in pieces, encoded in the pool.

Decides when a piece has its turn. In one turn the event loop handles at most one piece of all large
requests of a pipeline together, so that other requests are handled in between. A user has only a
few large requests in progress at a time. Further requests wait undecoded. A request that cannot be
cut is handled in one turn, as small requests are. The work ends when the client leaves.

Invariants: pieces are handled in the order of the request, each after the response to the previous
piece. The request's frame is held until its whole response is complete.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from log_service.broker.node import QuorumNode
from log_service.broker.requests.call import NO_RESPONSE, Call, Deferred, Nothing, PieceCall, Reply
from log_service.broker.requests.pieces import (
    Levels,
    Piece,
    join,
    levels_of,
    require_names_once,
    split,
)
from log_service.common.errors import KafkaError
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import decode
from log_service.protocol.schema import Message

FEW_ELEMENTS = 500
"""A request with at most this many list elements is handled at once."""
PIECE_ELEMENTS = 250
MAX_ITEM_ELEMENTS = 5_000
"""Bound for one item of a request that is cut between items.

An item is handled in one turn of the loop.
"""
MAX_UNDER_WAY = 4
"""Large requests of one user that are decoded at once.

Each takes some tens of megabytes at most.
"""

Read = Callable[[], tuple[Levels, Sequence[Piece]]]


class _FailedError(Exception):
    """A piece of a request has failed without a response, so the connection closes.

    The cause is in the log already.
    """


class LargeRequests:
    """Handles the requests of one pipeline that have many list elements.

    ``answer`` is the pipeline's function that authorizes and handles a call.
    """

    def __init__(self, answer: Callable[[Call], Reply], node: QuorumNode) -> None:
        self._answer = answer
        self._node = node
        self._turn = trio.Lock()
        self._places: dict[
            tuple[str, ApiKey], trio.Semaphore
        ] = {}  # by API: a follower's fetch waits behind no produce

    def __repr__(self) -> str:
        return f"<LargeRequests users={len(self._places)}>"

    def begin(self, call: Call, frame: memoryview, body: int) -> Deferred:
        """Begin to handle a call whose request is not decoded. Return its deferred response.

        The request begins at ``body`` of its frame.
        """
        work = _Work(call)
        call.route.start_task(self._run, work, partial(_read, call, frame, body))
        return work.deferred

    async def _run(self, work: "_Work", read: Read) -> None:
        with work.scope:
            try:
                async with self._place_of(
                    (work.call.connection.principal.name, work.call.route.api.key)
                ):
                    await self._respond(work, read)
            except _FailedError:
                work.call.charge(None)
                work.deferred.complete_encoded([NO_RESPONSE])
            except Exception as error:  # noqa: BLE001 - an invalid message, or a bug of ours: its own connection pays
                work.deferred.fail(error)

    @asynccontextmanager
    async def _place_of(self, user: tuple[str, ApiKey]) -> AsyncIterator[None]:
        places = self._places.setdefault(user, trio.Semaphore(MAX_UNDER_WAY))
        try:
            async with places:
                yield
        finally:
            if places.value == MAX_UNDER_WAY and not places.statistics().tasks_waiting:
                self._places.pop(user, None)

    async def _respond(self, work: "_Work", read: Read) -> None:
        call = work.call
        try:
            with work.call.counted():
                levels, pieces = await self._node.run_in_pool(read)
        except KafkaError as error:
            with call.counted():
                refusal = await self._node.run_in_pool(partial(call.refusal, error))
            await self._encode(work, refusal)
            return
        if not levels:
            await self._respond_whole(work)
            return
        answered = [
            (piece, response)
            for piece in pieces
            if (response := await self._response_of(work, piece)) is not None
        ]
        if answered:
            with call.counted():
                response = join(answered, levels)
            await self._encode(work, response)
        else:
            work.deferred.complete_without_response()

    async def _response_of(self, work: "_Work", piece: Piece) -> Message | None:
        """Handle one piece. Return its response, or None if the request has none."""
        whole = work.call
        call = PieceCall(
            whole.route,
            whole.version,
            whole.correlation_id,
            whole.client_id,
            whole.connection,
            piece.request,
            None,
            whole,
        )
        async with self._turn:
            with work.call.counted():
                reply = self._answer(call)
        if isinstance(reply, Deferred):
            await _completed(reply)
        elif not isinstance(reply, Nothing):
            assert not isinstance(reply, list), "pieces are answered with messages"
            call.respond(reply)
        return call.response

    async def _respond_whole(self, work: "_Work") -> None:
        """Handle a request that cannot be cut, in the same way as a small request."""
        async with self._turn:
            with work.call.counted():
                reply = self._answer(work.call)
        if isinstance(reply, Deferred):
            reply.pass_on_to(work.deferred)
        elif isinstance(reply, Nothing):
            work.deferred.complete_without_response()
        elif isinstance(reply, list):
            work.deferred.complete_encoded(reply)
        else:
            with trio.CancelScope(shield=True):
                # The response may hold slices of files, which are released once it is complete.
                await self._encode(work, reply)

    async def _encode(self, work: "_Work", response: Message) -> None:
        work.deferred.complete_encoded(
            await work.call.respond_in_pool(response, self._node.run_in_pool)
        )


class _Work:
    """A large request in progress."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.scope = trio.CancelScope()
        self.deferred = Deferred(call, holds_frame=True)
        self.deferred.on_discard(self.scope.cancel)


def _read(call: Call, frame: memoryview, body: int) -> tuple[Levels, Sequence[Piece]]:
    """Decode a request and cut it. Return its levels and its pieces.

    The levels are the lists at which the request is cut. There are none if it cannot be cut.

    Raises:
        ProtocolError: the bytes are not a request of this API, or it has too many elements.
        KafkaError: the request repeats a name that may appear only once.
    """
    api = call.route.api
    call.request, _ = decode(
        call.route.request_type, call.version, frame, body, max_elements=api.max_elements
    )
    levels = levels_of(call.request, api.pieces)
    if not levels:
        return levels, ()
    if api.is_each_named_once:
        require_names_once(call.request, levels)
    return levels, split(
        call.request,
        levels,
        max_weight=PIECE_ELEMENTS,
        item_weight=api.item_weight,
        max_item_weight=MAX_ITEM_ELEMENTS,
    )


async def _completed(reply: Deferred) -> None:
    """Wait until the response to a piece is complete. Discard it if the client leaves meanwhile.

    Raises:
        _FailedError: the piece has failed without a response.
    """
    done = trio.Event()
    reply.watch(lambda _: done.set())
    try:
        if not reply.is_done:
            await done.wait()
    except trio.Cancelled:
        reply.discard()
        raise
    if reply.take():
        raise _FailedError
