"""One accepted connection, which passes frames on and sends responses in request order.

The connection decides when to read, when to send and when to wait. It knows neither what a
frame means nor how long things may take. The server's sweeper looks at the counters here.

One task reads, and usually sends too. Each wake-up handles every complete frame in the buffer and
sends the ready responses with one call. The first response that must wait starts a second task,
which sends responses that become complete later. A frame larger than the buffer is received
straight into its own memory once the buffer is full. While a response still needs the bytes of its
frame (``holds_frame``), no other frame is handled. The task continues to receive, so that the work
ends if the peer leaves.

Invariants:

- At most one task is sending (``is_sending``).
- ``_ready`` is empty whenever the reading task waits for anything but that sending.
- Nothing is read while the unanswered requests reach the limit in count or in bytes. This bounds
  how much data of one client may wait for replicas before the data of other clients.
"""

import enum
import errno
import logging
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress

import trio

from log_service.common.env import Connection
from log_service.common.errors import ProtocolError
from log_service.common.types import Buffer
from log_service.config.views import NetworkLimits
from log_service.network.budget import ServerBudget
from log_service.network.responses import (
    BUFFER_TYPES,
    Chunk,
    ConnectionContext,
    FrameHandler,
    PendingResponse,
    PutOff,
    ResponseQueue,
    release_slices,
)

SIZE_BYTES = 4
JOIN_BYTES = 256 << 10  # send at this size, so that one wake-up cannot pile up more
# Up to this size, reading a slice and sending it with its neighbours is cheaper than sendfile.
SMALL_SLICE_BYTES = 128 << 10
# Up to this size, copying responses into one buffer is cheaper than a gathered send.
COPY_BYTES = 8 << 10
# First three bytes of a TLS handshake: record type and version.
TLS_HELLOS = range(0x160300, 0x160305)
# Grows once a frame does not fit, because ten thousand idle connections must stay cheap.
INITIAL_BUFFER_BYTES = 4 << 10

logger = logging.getLogger(__name__)
_read_size = struct.Struct(">i").unpack_from


class _Next(enum.Enum):
    """The reason why handling of buffered frames stopped, which decides what the task does next."""

    RECEIVE = enum.auto()  # the rest of a frame has not arrived
    # The rest of a frame has not arrived and will not fit into the buffer.
    RECEIVE_LARGE = enum.auto()
    SEND = enum.auto()  # enough responses are ready
    WAIT = enum.auto()  # enough requests are unanswered
    PAUSE = enum.auto()  # the handler muted the connection
    PUT_OFF = enum.auto()  # the handler muted the connection and gets the frame again
    HOLD = enum.auto()  # the handler still reads the frame


RECEIVE, RECEIVE_LARGE, SEND, WAIT, PAUSE, PUT_OFF, HOLD = (
    _Next  # module names are cheaper to look up than enum members
)


class ServerConnection:
    """A connection that a listener accepted, from its first byte until it is closed."""

    __slots__ = (
        "_budget",
        "_buffer",
        "_end",
        "_handle_frame",
        "_has_slices",
        "_has_writer",
        "_held_scope",
        "_holding",
        "_is_held",
        "_is_stopping",
        "_max_buffer_bytes",
        "_max_frame_bytes",
        "_max_unanswered_bytes",
        "_max_unanswered_count",
        "_memory_scope",
        "_mute_scope",
        "_queue",
        "_reader_lot",
        "_ready",
        "_ready_bytes",
        "_responses",
        "_start_task",
        "_stream",
        "_view",
        "_writer_lot",
        "bytes_received",
        "context",
        "is_closed",
        "is_mid_frame",
        "is_sending",
        "request_count",
    )

    def __init__(
        self,
        *,
        stream: Connection,
        context: ConnectionContext,
        handler: FrameHandler,
        limits: NetworkLimits,
        budget: ServerBudget,
        start_task: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self.context = context
        self.request_count = 0
        self.bytes_received = 0
        self.is_mid_frame = False
        self.is_sending = False
        self.is_closed = False
        self._stream = stream
        self._handle_frame = handler.handle_frame
        self._budget = budget
        self._start_task = start_task
        self._max_frame_bytes = limits.max_frame_bytes
        self._max_buffer_bytes = limits.receive_buffer_bytes
        self._max_unanswered_count = limits.max_requests_in_flight_per_connection
        self._max_unanswered_bytes = limits.max_unanswered_bytes_per_connection
        self._buffer = bytearray(min(INITIAL_BUFFER_BYTES, limits.receive_buffer_bytes))
        self._view = memoryview(self._buffer)
        self._end = 0  # end of the bytes that were received and not handled yet
        self._ready: list[Chunk] = []
        self._ready_bytes = 0
        self._has_slices = False  # whether _ready contains file slices
        self._queue = ResponseQueue(budget, self._note_completed)
        self._responses = self._queue.responses
        self._has_writer = False
        self._is_held = False  # the reading task waits for room among the unanswered requests
        self._is_stopping = False
        self._memory_scope: trio.CancelScope | None = None  # wait for memory; close() cancels it
        self._mute_scope: trio.CancelScope | None = None  # pause; close() and stop() cancel it
        self._holding: PendingResponse | None = None  # the response that holds its frame
        self._held_scope: trio.CancelScope | None = (
            None  # receiving while a frame is held; cancelled on completion and by close()
        )
        self._writer_lot = trio.lowlevel.ParkingLot()
        self._reader_lot = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "sending" if self.is_sending else "open"
        return (
            f"<ServerConnection {self.context.connection_id} {self.context.peer_host} {state}"
            f" queued={len(self._responses)}>"
        )

    @property
    def bytes_sent(self) -> int:
        """Number of bytes that the transport has accepted so far."""
        return self._stream.bytes_sent

    @property
    def is_muted(self) -> bool:
        """Whether the handler has muted the connection, because a quota is used up."""
        return self._mute_scope is not None

    @property
    def is_response_ready(self) -> bool:
        """Whether the oldest response is complete, so that it can be sent."""
        return self._queue.is_head_ready

    @property
    def queued_response_count(self) -> int:
        """Requests that are not answered yet."""
        return len(self._responses)

    async def secure(
        self, secure: Callable[[Connection, ConnectionContext], Awaitable[Connection]]
    ) -> None:
        """Replace the accepted stream with the one that ``secure`` makes of it (TLS).

        Call before ``serve``.

        Raises:
            OSError: securing failed, the peer is gone, or ``close`` was called meanwhile.
        """
        self._stream = await secure(self._stream, self.context)
        if self.is_closed:
            self._stream.close()
            raise _closed()

    async def serve(self) -> None:
        """Read and handle frames until the peer leaves, or the connection is closed or stopped.

        Raises:
            OSError: the peer is gone, or ``close`` was called.
            ProtocolError: raised by the handler, or a frame's size is out of bounds. Ready
                responses to earlier frames are sent first, as before any other exception of the
                handler.
        """
        receive_into = self._stream.receive_into
        while not self._is_stopping:
            received = await receive_into(self._view[self._end :] if self._end else self._view)
            if not received:
                return
            self.bytes_received += received
            self._end += received
            if not self._is_stopping:
                try:
                    await self._handle_received()
                except OSError:
                    raise
                except Exception:
                    await self._send_rest()
                    raise
        await self._wait_until_drained()

    def stop(self) -> None:
        """Stop reading, and close once every request that was received is answered."""
        self._is_stopping = True
        if self._mute_scope is not None:
            self._mute_scope.cancel()
        self._close_if_drained()

    def close(self) -> None:
        """Close at once; the tasks of this connection get OSError. Idempotent."""
        if not self.is_closed:
            self.is_closed = True
            self._stream.close()
            for scope in (self._memory_scope, self._mute_scope, self._held_scope):
                if scope is not None:
                    scope.cancel()
            self._writer_lot.unpark_all()
            self._reader_lot.unpark_all()

    def discard(self) -> None:
        """Close, and release everything that is still held.

        Call it after the reading task has ended.
        """
        self.close()
        release_slices(self._ready)
        self._ready = []
        self._queue.discard()

    async def _handle_received(self) -> None:
        while True:
            if self.context.muted_until_s:
                await self._stay_muted()
            following = self._handle_buffered()
            if self._ready:
                await self._send_ready()
            if following is RECEIVE:
                self.is_mid_frame = self._end > 0
                return
            if following is RECEIVE_LARGE:
                await self._receive_large()
            elif following is WAIT:
                await self._wait_for_room()
            elif following is HOLD:
                await self._stay_held()
            elif following is PUT_OFF:
                await self._stay_put_off()

    def _handle_buffered(self) -> _Next:
        """Pass complete frames to the handler until none is left or the connection must wait."""
        buffer, view, start, end = self._buffer, self._view, 0, self._end
        context = self.context
        max_frame_bytes = context.max_frame_bytes or self._max_frame_bytes
        following, needed_bytes = RECEIVE, 0
        self.is_mid_frame = False
        while end - start >= SIZE_BYTES:
            size = _read_size(buffer, start)[0]
            if not 0 <= size <= max_frame_bytes:
                raise ProtocolError(self._absurd(size, max_frame_bytes))
            frame_end = start + SIZE_BYTES + size
            if frame_end > end:
                needed_bytes = SIZE_BYTES + size
                break
            if self._responses and self._is_full():
                following = WAIT
                break
            following = self._handle(view[start + SIZE_BYTES : frame_end])
            if following is PUT_OFF:
                break
            start = frame_end
            if following is HOLD:
                self._leave_buffer(start, end)
                return HOLD
            if context.muted_until_s:
                following = PAUSE
            if following is not RECEIVE:
                break
        if needed_bytes > self._max_buffer_bytes:
            following = RECEIVE_LARGE
        if start == end < len(buffer):
            self._end = 0
        else:
            self._keep_rest(start, end, needed_bytes)
        return following

    def _handle(self, frame: memoryview) -> _Next:
        """Pass one frame to the handler and keep its response.

        Return RECEIVE unless something must be done before the next frame.
        """
        response = self._handle_frame(self.context, frame)
        if isinstance(response, PutOff):
            return PUT_OFF
        self.request_count += 1
        if response is None:
            return RECEIVE
        if isinstance(response, PendingResponse):
            if self._responses or self.is_sending or not response.is_done:
                self._queue.append(response, len(frame))
                self._start_writer()
                return self._following(response)
            response = response.take()
        elif self._responses or self.is_sending:
            self._queue.append_ready(response)
            return RECEIVE
        for chunk in response:
            if isinstance(chunk, BUFFER_TYPES):
                self._ready_bytes += len(chunk)
            else:
                self._has_slices = True
        self._ready += response
        return SEND if self._ready_bytes >= JOIN_BYTES else RECEIVE

    def _following(self, response: PendingResponse) -> _Next:
        if response.is_done or not response.holds_frame:
            return RECEIVE
        self._holding = response
        return HOLD

    def _keep_rest(self, start: int, end: int, needed_bytes: int) -> None:
        """Move the unhandled bytes to the front of the buffer, or to a larger buffer if needed."""
        rest = end - start
        if len(self._buffer) < self._max_buffer_bytes and max(needed_bytes, end + 1) > len(
            self._buffer
        ):
            grown = bytearray(self._max_buffer_bytes)
            grown[:rest] = self._view[start:end]
            self._buffer, self._view = grown, memoryview(grown)
        elif start and rest:
            self._view[:rest] = self._view[start:end]
        self._end = rest

    def _leave_buffer(self, start: int, end: int) -> None:
        """Continue in a new buffer, because a frame in this one is still being read."""
        rest = self._view[start:end]
        self._buffer = bytearray(len(self._buffer))
        self._view = memoryview(self._buffer)
        self._view[: len(rest)] = rest
        self._end = len(rest)

    async def _receive_large(self) -> None:
        """Receive and handle the frame at the front of the buffer, which is too large for it."""
        await self._wait_for_room()
        await self._fill_buffer()
        size = _read_size(self._buffer, 0)[0]
        with self._budget.login_frame() if self.context.max_frame_bytes else nullcontext():
            await self._receive_in_memory(size)

    async def _receive_in_memory(self, size: int) -> None:
        """Receive the rest of the frame into its own memory, and pass the frame to the handler."""
        if not self._budget.acquire_frame_nowait(size):
            await self._wait_for_memory(size)
        memory = self._budget.frame_memory.take(size)
        try:
            frame = memoryview(memory)[:size]
            received = self._end - SIZE_BYTES
            frame[:received] = self._view[SIZE_BYTES : self._end]
            self._end = 0
            self.is_mid_frame = True
            await self._fill(frame[received:])
            self.is_mid_frame = False
            self.context.has_own_memory = True
            following = self._handle(frame)
            while following is PUT_OFF:
                await self._stay_put_off()
                following = self._handle(frame)
            if following is HOLD:
                await self._stay_held()
        finally:
            self.context.has_own_memory = False
            if self._holding is None and not self.context.is_frame_kept:
                self._budget.frame_memory.give_back(memory)
            self.context.is_frame_kept = False
            self._budget.release_frame(size)

    async def _fill_buffer(self) -> None:
        """Receive until the buffer is full.

        Frame memory is taken only after that. So a client that announces a large frame and does not
        send it takes none.
        """
        self.is_mid_frame = True
        await self._fill(self._view[self._end :])
        self.is_mid_frame = False
        self._end = len(self._buffer)

    async def _wait_for_memory(self, size_bytes: int) -> None:
        with trio.CancelScope() as self._memory_scope:
            await self._budget.acquire_frame(size_bytes)
            return
        raise _closed()

    async def _fill(self, rest: memoryview) -> None:
        while rest:
            received = await self._stream.receive_into(rest)
            if not received:
                raise OSError(errno.ECONNRESET, "the peer left in the middle of a frame")
            self.bytes_received += received
            rest = rest[received:]

    async def _stay_muted(self) -> None:
        """Send ready responses, then wait until the connection is no longer muted or is closed."""
        self.is_mid_frame = False
        if self._ready:
            await self._send_ready()
        if self.context.is_finished:
            await self._wait_until_drained()
            raise _closed()
        while (
            trio.current_time() < self.context.muted_until_s
            and not self._is_stopping
            and not self.is_closed
        ):
            with trio.CancelScope(deadline=self.context.muted_until_s) as self._mute_scope:
                await trio.sleep_forever()
        self._mute_scope = None
        self.context.muted_until_s = 0.0
        if self.is_closed:
            raise _closed()

    async def _stay_put_off(self) -> None:
        """Wait until the pause of the quota is over, so that the same frame can be handled again.

        If the connection is being stopped, wait for its responses and raise OSError instead.
        """
        await self._stay_muted()
        if self._is_stopping:
            await self._wait_until_drained()
            raise _closed()

    async def _stay_held(self) -> None:
        """Receive bytes, but handle no frame, until the pending response has released its frame.

        Raises:
            OSError: the peer has left, or the connection was closed. The frame's memory must not be
                used again.
        """
        response = self._holding
        while response is not None and not response.is_done:
            received = 0
            with trio.CancelScope() as self._held_scope:
                if self._end == len(self._buffer):
                    await trio.sleep_forever()
                received = await self._stream.receive_into(self._view[self._end :])
            is_interrupted = self._held_scope.cancelled_caught
            self._held_scope = None
            if self.is_closed:
                raise _closed()
            if not received and not is_interrupted:
                raise OSError(errno.ECONNRESET, "the peer left before its response")
            self.bytes_received += received
            self._end += received
        self._holding = None

    def _absurd(self, size: int, max_frame_bytes: int) -> str:
        """Return the error text for a frame size out of bounds.

        If the connection begins with the bytes of a TLS handshake, the text says so.
        """
        if size >> 8 in TLS_HELLOS and not self.request_count:
            return (
                "the client speaks TLS, and this listener does not; connect to a listener with SSL,"
                " or set security.protocol to PLAINTEXT"
            )
        return f"a frame announced {size} bytes; allowed are 0 to {max_frame_bytes}"

    def _is_full(self) -> bool:
        is_much = (
            len(self._responses) >= self._max_unanswered_count
            or self._queue.request_bytes >= self._max_unanswered_bytes
        )
        return is_much or self._budget.is_exhausted

    async def _wait_for_room(self) -> None:
        while self._responses and self._is_full():
            await self._hold()

    async def _wait_until_drained(self) -> None:
        while self._responses or self.is_sending:
            await self._hold()

    async def _hold(self) -> None:
        self._is_held = True
        try:
            await self._reader_lot.park()
        finally:
            self._is_held = False
        if self.is_closed:
            raise _closed()

    def _start_writer(self) -> None:
        if not self._has_writer:
            self._has_writer = True
            self._start_task(self._write_completed)

    def _note_completed(self, response: PendingResponse) -> None:
        """Wake the tasks that wait for a queued response.

        These are the task that sends, and the task that reads while the response holds its frame.
        """
        if response is self._holding and self._held_scope is not None:
            self._held_scope.cancel()
        if self._queue.is_head_ready:
            self.wake_writer()

    def wake_writer(self) -> None:
        """Wake the task that sends responses, unless it is sending."""
        if not self.is_sending:
            self._writer_lot.unpark()

    async def _write_completed(self) -> None:
        """Send responses that become complete while the reading task waits for something else."""
        try:
            while not self.is_closed:
                if self._queue.is_head_ready and not self.is_sending:
                    await self._send_ready()
                    self._close_if_drained()
                else:
                    await self._writer_lot.park()
        except OSError:
            self.close()
        except Exception:  # our bug: only this connection is closed
            logger.exception(
                "Closing the connection from %s: sending its responses failed",
                self.context.peer_host,
            )
            self.close()

    def _close_if_drained(self) -> None:
        is_reader_idle = not self._is_held and self._mute_scope is None and self._holding is None
        if (
            (self._is_stopping or self.context.is_finished)
            and is_reader_idle
            and not self._responses
            and not self.is_sending
        ):
            self.close()

    async def _send_ready(self) -> None:
        """Send the ready responses, and then those that became ready meanwhile."""
        chunks, has_slices = self._ready, self._has_slices
        if not has_slices and len(chunks) > 1 and self._ready_bytes <= COPY_BYTES:
            chunks = [b"".join(chunks)]  # type: ignore[arg-type]  # there is no slice among them
        self._ready, self._ready_bytes, self._has_slices = [], 0, False
        self.is_sending = True
        try:
            while True:
                if has_slices:
                    await self._send_mixed(chunks)
                elif chunks:
                    await self._stream.send_gathered(chunks)  # type: ignore[arg-type]
                if self._is_held:
                    self._reader_lot.unpark_all()
                if not self._responses or not self._queue.is_head_ready:
                    break
                chunks, has_slices = self._queue.take_ready(JOIN_BYTES), True
        finally:
            self.is_sending = False
            if self._is_held:
                self._reader_lot.unpark_all()

    async def _send_rest(self) -> None:
        """Send the responses that are ready, because the connection is about to fail."""
        with suppress(OSError):
            if self._ready:
                await self._send_ready()
            while self.is_sending or self._queue.is_head_ready:
                await self._hold()

    async def _send_mixed(self, chunks: Sequence[Chunk]) -> None:
        """Send a response's bytes and file slices in their order, and release every slice.

        Raises:
            OSError: the peer is gone, or a chunk cannot be read. The chunks before it were sent.
        """
        unsent: list[Buffer] = []
        read_bytes = 0
        try:
            for chunk in chunks:
                if isinstance(chunk, BUFFER_TYPES):
                    unsent.append(chunk)
                elif len(chunk) > SMALL_SLICE_BYTES:
                    await self._stream.send_file(unsent, chunk)
                    unsent = []
                else:
                    try:
                        content = chunk.read()
                    except OSError:
                        if unsent:
                            await self._stream.send_gathered(unsent)
                        raise
                    unsent.append(content)
                    read_bytes += len(content)
                if read_bytes >= JOIN_BYTES:
                    await self._stream.send_gathered(unsent)
                    unsent, read_bytes = [], 0
            if unsent:
                await self._stream.send_gathered(unsent)
        finally:
            release_slices(chunks)


def _closed() -> OSError:
    return OSError(errno.EBADF, "the connection was closed on our side")
