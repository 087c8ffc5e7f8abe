"""An outbound connection: requests go out one behind the other, answers come back in the same order.

Decides the correlation ids, how many requests may be unanswered, and when the peer has taken too long; one deadline, that of the
earliest unanswered request (or of idleness, when there is none), watches over all. Knows no APIs: a request is a frame as
``protocol.frames`` encodes it, into whose header the correlation id is written here.

Invariants: answers are matched by order, and the correlation id must agree; a request that was not answered in time closes the channel,
because every answer behind it would be late as well; once closed, everybody who waits has an error and no request gets in.
"""

import errno
import struct
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from log_service.common.env import Connection, Env
from log_service.common.errors import ProtocolError
from log_service.common.types import Buffer

SIZE_BYTES = 4
CORRELATION_ID_POSITION = 8  # in a request frame: size, API key, API version, correlation id
BUFFER_BYTES = 64 << 10
MAX_UNSENT_BYTES = 1 << 20  # who would send more waits until the transport has taken what is there
MAX_CORRELATION_ID = 2**31 - 1

_INT32 = struct.Struct(">i")


class _Unanswered:
    """A request whose answer has not come. ``error`` is raised where it is waited for; if nobody waits any more, nobody cares."""

    __slots__ = ("correlation_id", "deadline", "error", "frame", "settled")

    def __init__(self, correlation_id: int, deadline: float) -> None:
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.settled = trio.Event()
        self.frame: bytearray | None = None
        self.error: Exception | None = None


class Channel:
    """A connection for requests. Made by ``open_channel``, which also runs it."""

    def __init__(self, stream: Connection, *, name: str, max_frame_bytes: int, idle_timeout_ms: int, max_requests_in_flight: int) -> None:
        self.name = name
        self.bytes_received = 0
        self._stream = stream
        self._max_frame_bytes = max_frame_bytes
        self._idle_timeout_s = idle_timeout_ms / 1000
        self._max_requests_in_flight = max_requests_in_flight
        self._correlation_id = 0
        self._unanswered: deque[_Unanswered] = deque()
        self._unsent: list[Buffer] = []
        self._unsent_bytes = 0
        self._is_sending = False
        self._lot = trio.lowlevel.ParkingLot()  # for room: fewer unanswered requests, or fewer unsent bytes
        self._waiting_count = 0
        self._is_waking = False
        self._used_at = trio.current_time()
        self._watch = trio.CancelScope(deadline=self._next_deadline())
        self._error: Exception | None = None
        self._is_closed_by_us = False
        self._closed = trio.Event()
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._end = 0
        self._large: memoryview | None = None  # an answer that is being received into a buffer of its own
        self._large_end = 0

    def __repr__(self) -> str:
        return f"<Channel {self.name} {'closed' if self.is_closed else 'open'} unanswered={len(self._unanswered)}>"

    @property
    def is_closed(self) -> bool:
        """Whether requests can no longer be sent."""
        return self._error is not None

    @property
    def failure(self) -> Exception | None:
        """Why the channel is closed; None while it is open, and after ``close`` or a long idleness."""
        return None if self._is_closed_by_us else self._error

    @property
    def bytes_sent(self) -> int:
        """Bytes that the transport took."""
        return self._stream.bytes_sent

    @property
    def in_flight_count(self) -> int:
        """Requests that were not answered yet, also those that nobody waits for any more."""
        return len(self._unanswered)

    async def request(self, chunks: Sequence[Buffer], *, timeout_ms: float) -> bytearray:
        """Send a request frame and return the frame of its answer, without its size but with the correlation id.

        ``chunks`` begin with the four bytes of size and must not change until the answer is there. Cancelling the wait does not take
        the request back. Waits for its turn while too many requests are unanswered.

        Raises:
            TimeoutError: no answer within ``timeout_ms``; the channel is closed.
            OSError: the connection is gone.
            ProtocolError: the peer answered something else; the channel is closed.
        """
        unanswered = await self._send_request(chunks, timeout_ms)
        await unanswered.settled.wait()
        if unanswered.error is not None:
            raise unanswered.error
        assert unanswered.frame is not None
        return unanswered.frame

    async def send(self, chunks: Sequence[Buffer]) -> None:
        """Send a request that is never answered (Produce with acks=0); ``chunks`` must not change any more.

        Raises:
            OSError: the connection is gone.
        """
        await self._wait_for_room()
        await self._transmit(self._addressed(chunks, self._next_correlation_id()))

    def close(self) -> None:
        """Close at once; whoever waits gets OSError. Idempotent."""
        self._is_closed_by_us = self._is_closed_by_us or self._error is None
        self._fail(OSError(errno.EBADF, "it was closed on our side"))

    async def wait_closed(self) -> None:
        """Wait until the connection is gone, for whatever reason."""
        await self._closed.wait()

    async def run(self) -> None:
        """Receive answers until the channel is closed; what went wrong is told to whoever waits for an answer."""
        try:
            while not self.is_closed:
                with self._watch:
                    await self._receive()
                self._watch = trio.CancelScope()
                self._close_if_overdue()
                self._watch.deadline = self._next_deadline()
        except (OSError, ProtocolError) as error:
            self._fail(error)
        finally:
            self.close()

    async def _send_request(self, chunks: Sequence[Buffer], timeout_ms: float) -> _Unanswered:
        await self._wait_for_room()
        deadline = trio.current_time() + timeout_ms / 1000
        unanswered = _Unanswered(self._next_correlation_id(), deadline)
        self._unanswered.append(unanswered)
        self._watch.deadline = min(self._watch.deadline, deadline)
        await self._transmit(self._addressed(chunks, unanswered.correlation_id))
        return unanswered

    async def _wait_for_room(self) -> None:
        """Wait in order of arrival: whoever sends sequences (an idempotent producer) must not be overtaken."""
        if self._waiting_count or self._is_full():
            self._waiting_count += 1
            try:
                await self._lot.park()
            finally:
                self._waiting_count -= 1
            self._is_waking = False
        if self._error is not None:
            raise _lost(self.name, self._error)

    def _is_full(self) -> bool:
        return len(self._unanswered) >= self._max_requests_in_flight or self._unsent_bytes >= MAX_UNSENT_BYTES

    def _offer_room(self) -> None:
        """Wake the first who waits for room; it offers what is left to the next."""
        if self._waiting_count and not self._is_waking and not self._is_full():
            self._is_waking = True
            self._lot.unpark()

    async def _transmit(self, chunks: Sequence[Buffer]) -> None:
        """Send, or leave it to whoever is sending. A frame is never cut short by a cancellation: deadlines close the connection."""
        self._used_at = trio.current_time()
        self._unsent += chunks
        self._unsent_bytes += sum(map(len, chunks))
        self._offer_room()
        if self._is_sending:
            return
        self._is_sending = True
        try:
            with trio.CancelScope(shield=True):
                while self._unsent:
                    unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
                    await self._stream.send_gathered(unsent)
                    self._offer_room()
        except OSError as error:
            self._fail(error)
            raise _lost(self.name, error) from error
        finally:
            self._is_sending = False

    async def _receive(self) -> None:
        while True:
            if self._large is None:
                received = await self._stream.receive_into(self._view[self._end :])
                self._end += received
                self._settle_buffered()
            else:
                received = await self._stream.receive_into(self._large[self._large_end :])
                self._large_end += received
                self._settle_large()
            self.bytes_received += received
            if not received:
                raise ConnectionResetError(errno.ECONNRESET, "the peer closed the connection")

    def _settle_buffered(self) -> None:
        """Hand out every complete answer in the buffer; begin a buffer for one that is not complete."""
        buffer, start, end = self._buffer, 0, self._end
        while end - start >= SIZE_BYTES:
            (size,) = _INT32.unpack_from(buffer, start)
            if not SIZE_BYTES <= size <= self._max_frame_bytes:
                raise ProtocolError(f"{self.name} announced an answer of {size} bytes; allowed are {SIZE_BYTES} to {self._max_frame_bytes}")
            start += SIZE_BYTES
            if start + size > end:
                self._large = memoryview(bytearray(size))
                self._large_end = end - start
                self._large[: end - start] = self._view[start:end]
                self._end = 0
                return
            self._settle(buffer[start : start + size])
            start += size
        self._view[: end - start] = self._view[start:end]
        self._end = end - start

    def _settle_large(self) -> None:
        large = self._large
        if large is not None and self._large_end == len(large):
            self._large = None
            frame = large.obj
            assert isinstance(frame, bytearray)
            large.release()
            self._settle(frame)

    def _settle(self, frame: bytearray) -> None:
        """Give an answer to the earliest unanswered request."""
        (correlation_id,) = _INT32.unpack_from(frame)
        if not self._unanswered:
            raise ProtocolError(f"{self.name} answered a request {correlation_id} that was never sent")
        unanswered = self._unanswered[0]
        if correlation_id != unanswered.correlation_id:
            raise ProtocolError(f"{self.name} answered request {correlation_id} before request {unanswered.correlation_id}")
        self._unanswered.popleft()
        unanswered.frame = frame
        unanswered.settled.set()
        self._used_at = trio.current_time()
        self._offer_room()

    def _next_deadline(self) -> float:
        if self._unanswered:
            return min(unanswered.deadline for unanswered in self._unanswered)
        return self._used_at + self._idle_timeout_s

    def _close_if_overdue(self) -> None:
        """The watched deadline has come; close, unless what it stood for was answered meanwhile."""
        now = trio.current_time()
        if self._next_deadline() > now:
            return
        for unanswered in self._unanswered:
            if unanswered.deadline <= now:
                unanswered.error = TimeoutError(errno.ETIMEDOUT, f"{self.name} did not answer in time")
        self._is_closed_by_us = not self._unanswered
        why = "did not answer another request in time" if self._unanswered else "was left idle"
        self._fail(ConnectionAbortedError(errno.ECONNABORTED, f"closed, because the peer {why}"))

    def _fail(self, error: Exception) -> None:
        if self._error is not None:
            return
        self._error = error
        self._stream.close()
        self._watch.cancel()
        self._closed.set()
        self._lot.unpark_all()
        for unanswered in self._unanswered:
            unanswered.error = unanswered.error or _lost(self.name, error)
            unanswered.settled.set()
        self._unanswered.clear()

    def _next_correlation_id(self) -> int:
        self._correlation_id = self._correlation_id + 1 if self._correlation_id < MAX_CORRELATION_ID else 0
        return self._correlation_id

    @staticmethod
    def _addressed(chunks: Sequence[Buffer], correlation_id: int) -> Sequence[Buffer]:
        """Write the correlation id into the header, which lies in the first chunk."""
        first = chunks[0]
        if isinstance(first, bytes):
            first = bytearray(first)
            chunks = [first, *chunks[1:]]
        _INT32.pack_into(first, CORRELATION_ID_POSITION, correlation_id)
        return chunks


@asynccontextmanager
async def open_channel(
    env: Env,
    host: str,
    port: int,
    *,
    connect_timeout_ms: int = 10_000,
    max_frame_bytes: int = 100 << 20,
    idle_timeout_ms: int = 540_000,
    max_requests_in_flight: int = 64,
) -> AsyncIterator[Channel]:
    """Connect, and keep the channel open for the length of the block. Exceptions of the block come out as they are.

    Raises:
        TimeoutError: nobody answered within ``connect_timeout_ms``.
        OSError: refused, unreachable, unknown host.
    """
    name = f"{host}:{port}"
    with trio.move_on_after(connect_timeout_ms / 1000) as connecting:
        stream = await env.network.connect(host, port)
    if connecting.cancelled_caught:
        raise TimeoutError(errno.ETIMEDOUT, f"{name} did not accept a connection within {connect_timeout_ms} ms")
    channel = Channel(
        stream,
        name=name,
        max_frame_bytes=max_frame_bytes,
        idle_timeout_ms=idle_timeout_ms,
        max_requests_in_flight=max_requests_in_flight,
    )
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        try:
            yield channel
        except Exception as error:  # noqa: BLE001 - raised again below, outside of the nursery, which would wrap it
            failure = error
        finally:
            channel.close()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _lost(name: str, cause: Exception) -> Exception:
    """Return a fresh exception for one of many who wait."""
    if isinstance(cause, ProtocolError):
        return ProtocolError(str(cause))
    reason = cause.strerror if isinstance(cause, OSError) else None
    return ConnectionAbortedError(errno.ECONNABORTED, f"the connection to {name} is gone: {reason or cause}")
