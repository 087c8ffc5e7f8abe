"""Responses of handlers, and the queue in which they wait for their turn.

Responses are sent in the order of their requests. A response never enters the queue if it is ready
and no other response waits to be sent. A response that must wait is a ``PendingResponse``, and
later responses queue after it.

Invariants:

- A pending response is completed once. Completing it after it was discarded only releases its file
  slices.
- The bytes of ready responses in the queue are counted in the shared budget until they are taken or
  dropped.
- A response that holds its frame is the last in its queue until it is complete.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol, final

import trio

from log_service.common.access import ANONYMOUS, Principal
from log_service.common.env import FileSlice
from log_service.common.types import Buffer
from log_service.network.budget import ServerBudget

logger = logging.getLogger(__name__)

Chunk = Buffer | FileSlice
# A tuple, because a union would be built anew for every chunk.
BUFFER_TYPES: Final = (
    bytes,
    bytearray,
    memoryview,
)


@dataclass(slots=True)
class ConnectionContext:
    """The connection that a frame came from, as its handler sees it."""

    connection_id: int
    peer_host: str
    local_host: str
    listener_name: str
    principal: Principal = ANONYMOUS
    is_token_authenticated: bool = False
    """Whether the principal was authenticated by a delegation token (KIP-48)."""
    peer_port: int = 0
    client_software: tuple[str, str] | None = None
    """Name and version of the client, or None until it sends them."""
    muted_until_s: float = 0.0
    """Time at which frames are handled again, in trio's time; 0 is now."""
    put_off_since_ms: int | None = None
    """When the next frame was put off for the first time, in monotonic ms, or None."""
    is_finished: bool = False
    """Whether no further frame is handled. The connection closes once all responses are sent."""
    max_frame_bytes: int | None = None
    """The largest frame that is accepted; None means the listener's bound."""
    must_log_in_by_ms: int | None = None
    """Deadline for logging in, in monotonic ms; None if the client has logged in or need not."""
    has_own_memory: bool = False
    """Whether the current frame lies in its own memory.

    Its handler may keep the frame then, and sets ``is_frame_kept``.
    """
    is_frame_kept: bool = False
    on_closed: dict[Hashable, Callable[[], None]] = field(default_factory=dict)
    """Callbacks that run once when the connection has ended, for whatever reason.

    The key is the owner of a callback, so that a later callback of the same owner replaces it.
    """

    def finish(self) -> None:
        """Handle no further frame, and close the connection once all pending responses are sent."""
        self.is_finished = True
        self.muted_until_s = inf

    def mute(self, pause_ms: int) -> None:
        """Handle no frame for ``pause_ms``. Responses are still sent (KIP-219)."""
        self.muted_until_s = max(self.muted_until_s, trio.current_time() + pause_ms / 1000)


class PendingResponse:
    """A response that must wait for something: records, replicas, a group's members, the disk.

    While a response ``holds_frame``, its request's bytes are still being read. The connection keeps
    them, and handles no other frame until the response is done.
    """

    __slots__ = (
        "_chunks",
        "_on_discard",
        "_on_done",
        "held_bytes",
        "holds_frame",
        "is_discarded",
        "is_done",
        "request_bytes",
        "size_bytes",
    )

    def __init__(self, *, holds_frame: bool = False) -> None:
        self.holds_frame = holds_frame
        self.is_done = False
        self.is_discarded = False
        self.request_bytes = 0
        self.size_bytes = 0
        self.held_bytes = 0
        """Bytes of the request that are kept until the response, counted in the shared budget.

        A handler sets this before it returns the pending response.
        """
        self._chunks: list[Chunk] = []
        self._on_discard: Callable[[], None] | None = None
        self._on_done: Callable[[PendingResponse], None] | None = None

    def __repr__(self) -> str:
        state = "discarded" if self.is_discarded else "done" if self.is_done else "waiting"
        return f"<{type(self).__name__} {state}>"

    def on_discard(self, callback: Callable[[], None]) -> None:
        """Set a callback that is called if the connection ends before the response is complete.

        It is called at once if the connection has ended already, because nothing else would stop
        the work on the response.
        """
        if self.is_discarded:
            callback()
        else:
            self._on_discard = callback

    @property
    def has_discard_callback(self) -> bool:
        """Whether the work on the response ends with the connection (``on_discard``)."""
        return self._on_discard is not None

    def complete_encoded(self, chunks: list[Chunk] | None) -> None:
        """Complete the response with ``chunks``. None completes it without sending anything.

        Never blocks. Call it once, from any task of the trio run. If the connection has ended, the
        call only releases the slices.
        """
        if self.is_discarded:
            release_slices(chunks or ())
            return
        assert not self.is_done, "a response was completed twice"
        self.is_done = True
        # breaks a reference cycle, so that requests need not wait for the garbage collector
        self._on_discard = None
        self._chunks = chunks or []
        self.size_bytes = memory_bytes(self._chunks)
        if self._on_done is not None:
            self._on_done(self)

    def discard(self) -> None:
        """Release the held slices because the connection has gone.

        Call the callback of ``on_discard`` unless the response was complete.
        """
        was_done = self.is_done
        self.is_done = self.is_discarded = True
        release_slices(self._chunks)
        self._chunks = []
        if not was_done:
            try:
                self.note_discarded()
            except Exception:
                logger.exception("discarding a response failed")

    def note_discarded(self) -> None:
        """Call the callback of ``on_discard``."""
        on_discard, self._on_discard = self._on_discard, None
        if on_discard is not None:
            on_discard()

    def watch(self, on_done: Callable[["PendingResponse"], None]) -> None:
        """Call ``on_done`` once the response is complete. Used by the queue of the response."""
        self._on_done = on_done

    def take(self) -> list[Chunk]:
        """Return the chunks to the connection, which sends them and releases their slices."""
        chunks, self._chunks = self._chunks, []
        return chunks


@final
class PutOff:
    """Response to a frame that was not handled because its handler muted the connection.

    The handler gets the same frame again after the pause.
    """

    __slots__ = ()


PUT_OFF: Final = PutOff()

Response = list[Chunk] | PendingResponse | PutOff | None


class FrameHandler(Protocol):
    """Responds to frames, and is notified of the ends of connections.

    The layer above the network implements it.
    """

    def handle_frame(self, context: ConnectionContext, frame: memoryview) -> Response:
        """Respond to one frame, given without its size prefix.

        The view is writable. It is valid during the call, or until a response with ``holds_frame``
        is done. After ``PUT_OFF`` the handler gets the same frame again, unless the connection is
        being stopped.

        Raises:
            ProtocolError: the frame cannot be understood. The connection is closed with one log
                line.
        """

    def connection_closed(self, context: ConnectionContext) -> None:
        """Handle the end of a connection.

        Called once, after its pending responses were discarded.
        """


class ResponseQueue:
    """The responses of a connection that must wait, in the order of their requests.

    A queue begins with a response that is not ready. The connection limits the length of its
    queue. ``responses`` is public for inspection only. ``request_bytes`` counts the bytes of the
    requests of queued responses, except those whose responses were ready when they were queued.
    """

    __slots__ = ("_budget", "_on_completed", "request_bytes", "responses")

    def __init__(
        self, budget: ServerBudget, on_completed: Callable[[PendingResponse], None]
    ) -> None:
        self.responses: deque[PendingResponse] = deque()
        self.request_bytes = 0
        self._budget = budget
        self._on_completed = on_completed

    @property
    def is_head_ready(self) -> bool:
        """Whether the first response in the queue can be sent."""
        return bool(self.responses) and self.responses[0].is_done

    def append_ready(self, chunks: list[Chunk]) -> None:
        """Queue a ready response that only waits for the responses before it."""
        response = PendingResponse()
        response.complete_encoded(chunks)
        self.append(response)

    def append(self, response: PendingResponse, request_bytes: int = 0) -> None:
        """Queue a response, complete or not, to a request of ``request_bytes``."""
        self.responses.append(response)
        response.request_bytes = request_bytes
        self.request_bytes += request_bytes
        if response.is_done:
            self._budget.hold_response(response.size_bytes)
        else:
            self._budget.hold_response(response.held_bytes)
            response.watch(self._completed)

    def take_ready(self, max_bytes: int) -> list[Chunk]:
        """Take complete responses from the head, in order, up to ``max_bytes`` of memory."""
        chunks: list[Chunk] = []
        size_bytes = 0
        while self.responses and self.responses[0].is_done and size_bytes < max_bytes:
            response = self.responses.popleft()
            size_bytes += response.size_bytes
            self.request_bytes -= response.request_bytes
            chunks += response.take()
        if size_bytes:
            self._budget.release_response(size_bytes)
        return chunks

    def discard(self) -> None:
        """Drop every response, complete or not.

        ``on_completed`` is dropped too, because it refers back to the connection.
        """
        self._on_completed = lambda _: None
        while self.responses:
            response = self.responses.popleft()
            self._budget.release_response(
                response.size_bytes if response.is_done else response.held_bytes
            )
            response.discard()

    def _completed(self, response: PendingResponse) -> None:
        self._budget.hold_response(response.size_bytes)
        if response.held_bytes:
            self._budget.release_response(response.held_bytes)
        self._on_completed(response)


def memory_bytes(chunks: Sequence[Chunk]) -> int:
    """Return the memory that chunks take, in bytes. File slices take none."""
    size_bytes = 0
    for chunk in chunks:
        if isinstance(chunk, BUFFER_TYPES):
            size_bytes += len(chunk)
    return size_bytes


def release_slices(chunks: Sequence[Chunk]) -> None:
    """Release every file slice among ``chunks``."""
    for chunk in chunks:
        if not isinstance(chunk, BUFFER_TYPES):
            chunk.release()
