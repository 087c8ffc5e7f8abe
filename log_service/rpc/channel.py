"""One outbound byte stream that carries requests. Requests are sent one after the other, and
responses arrive in the same order.

Decides the correlation ids, how many requests may be in flight, and when the peer has taken too
long. There is one deadline at a time. It is the earliest of the requests in flight, or the end of
the idle timeout when there is none. The channel knows no APIs. It gets each request as a frame from
``protocol.frames``, and writes the correlation id into the frame's header.

Invariants: responses are matched by order, and the correlation id must agree. A request that gets
no response in time closes the channel, because every later response would be late as well. Once
the channel is closed, every waiting task gets an error and no request is accepted.
"""

import errno
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from log_service.common.env import Connection, Env
from log_service.common.errors import ProtocolError, kept
from log_service.common.types import Buffer

SIZE_BYTES = 4
CORRELATION_ID_POSITION = 8  # in a request frame: size, API key, API version, correlation id
BUFFER_BYTES = 64 << 10
# A task waits before it sends if the transport has more unsent bytes than this.
MAX_UNSENT_BYTES = 1 << 20
MAX_CORRELATION_ID = 2**31 - 1
TLS_BEGINNINGS = (b"\x15\x03", b"\x16\x03")
"""The first bytes of a TLS alert and of a TLS handshake.

No response begins so, because its size would be above 350 MB.
"""

_INT32 = struct.Struct(">i")


class SpeaksTlsError(ProtocolError):
    """The peer speaks TLS, and we do not."""


class _InFlight:
    """A request that has no response yet.

    ``error`` is raised in the task that waits for the response, if there still is one.
    """

    __slots__ = ("correlation_id", "deadline", "error", "frame", "settled")

    def __init__(self, correlation_id: int, deadline: float) -> None:
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.settled = trio.Event()
        self.frame: bytearray | None = None
        self.error: Exception | None = None

    def take_error(self) -> Exception | None:
        """Return the error, and drop it.

        Its traceback will hold the frame that raises it, and the frame holds this object.
        """
        error, self.error = self.error, None
        return error


class Channel:
    """A connection that carries requests. ``open_channel`` makes it and also runs it."""

    def __init__(
        self,
        stream: Connection,
        *,
        name: str,
        max_frame_bytes: int,
        idle_timeout_ms: int,
        max_requests_in_flight: int,
    ) -> None:
        self.name = name
        self.bytes_received = 0
        self._stream = stream
        self._max_frame_bytes = max_frame_bytes
        self._idle_timeout_s = idle_timeout_ms / 1000
        self._max_requests_in_flight = max_requests_in_flight
        self._correlation_id = 0
        self._in_flight: deque[_InFlight] = deque()
        self._unsent: list[Buffer] = []
        self._unsent_bytes = 0
        self._is_sending = False
        # Tasks park here until there are fewer requests in flight, or fewer unsent bytes.
        self._lot = trio.lowlevel.ParkingLot()
        self._is_waking = False  # a task was offered room and has yet to take it
        self._used_at = trio.current_time()
        self._watch = trio.CancelScope(deadline=self._next_deadline())
        self._error: Exception | None = None
        self._is_closed_by_us = False
        self._closed = trio.Event()
        self.response_count = 0
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._end = 0
        self._large: memoryview | None = (
            None  # a response that is being received into a buffer of its own
        )
        self._large_end = 0

    def __repr__(self) -> str:
        return (
            f"<Channel {self.name} {'closed' if self.is_closed else 'open'}"
            f" in_flight={len(self._in_flight)}>"
        )

    @property
    def is_closed(self) -> bool:
        """Whether requests can no longer be sent."""
        return self._error is not None

    @property
    def failure(self) -> Exception | None:
        """The reason why the channel is closed.

        None while it is open, and after ``close`` or the idle timeout.
        """
        return None if self._is_closed_by_us else self._error

    @property
    def is_closed_unheard(self) -> bool:
        """Whether the peer closed the connection before it sent a single response."""
        return (
            isinstance(self.failure, ConnectionResetError | BrokenPipeError)
            and not self.response_count
        )

    @property
    def bytes_sent(self) -> int:
        """Number of bytes that the transport has accepted so far."""
        return self._stream.bytes_sent

    @property
    def in_flight_count(self) -> int:
        """Requests without a response yet, also those whose task was cancelled."""
        return len(self._in_flight)

    async def request(self, chunks: Sequence[Buffer], *, timeout_ms: float) -> bytearray:
        """Send a request frame and return its response's frame, without the size but with the
        correlation id.

        ``chunks`` begin with the four bytes of size and must not change until the response has
        arrived. Cancelling the wait does not cancel the request. While too many requests are in
        flight, the call first waits for its turn.

        Raises:
            TimeoutError: no response within ``timeout_ms``; the channel is closed.
            OSError: the connection is gone.
            ProtocolError: the peer sent something other than a response to this request; the
                channel is closed.
        """
        sent = await self._send_request(chunks, timeout_ms)
        await sent.settled.wait()
        if sent.frame is None:
            raise sent.take_error() or AssertionError("a settled request has a frame or an error")
        return sent.frame

    async def send(self, chunks: Sequence[Buffer]) -> None:
        """Send a request that has no response (Produce with acks=0).

        ``chunks`` must not change after the call, because another task may send them.

        Raises:
            OSError: the connection is gone.
        """
        await self._wait_for_room()
        await self._transmit(self._addressed(chunks, self._next_correlation_id()))

    def close(self) -> None:
        """Close at once; waiting tasks get OSError. Idempotent."""
        self._is_closed_by_us = self._is_closed_by_us or self._error is None
        self._fail(OSError(errno.EBADF, "it was closed on our side"))

    async def wait_closed(self) -> None:
        """Wait until the channel is closed by this side or the peer."""
        await self._closed.wait()

    async def run(self) -> None:
        """Receive responses until the channel is closed.

        Errors are raised in the tasks that wait for a response, not here.
        """
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

    async def _send_request(self, chunks: Sequence[Buffer], timeout_ms: float) -> _InFlight:
        await self._wait_for_room()
        deadline = trio.current_time() + timeout_ms / 1000
        sent = _InFlight(self._next_correlation_id(), deadline)
        self._in_flight.append(sent)
        self._watch.deadline = min(self._watch.deadline, deadline)
        await self._transmit(self._addressed(chunks, sent.correlation_id))
        return sent

    async def _wait_for_room(self) -> None:
        """Wait until another request may be sent. Tasks continue in the order of their arrival.

        The order matters, because batches of an idempotent producer must not overtake each other.

        Raises:
            OSError, ProtocolError: the channel is closed.
        """
        if self._lot or self._is_waking or self._is_full():
            await self._lot.park()
            self._is_waking = False
        if self._error is not None:
            raise _lost(self.name, self._error)

    def _is_full(self) -> bool:
        return (
            len(self._in_flight) >= self._max_requests_in_flight
            or self._unsent_bytes >= MAX_UNSENT_BYTES
        )

    def _offer_room(self) -> None:
        """Wake the first task that waits to send. It wakes the next one if there is room."""
        if self._lot and not self._is_waking and not self._is_full():
            self._is_waking = True
            self._lot.unpark()

    async def _transmit(self, chunks: Sequence[Buffer]) -> None:
        """Send the chunks of a frame. If another task is already sending, leave them to that task.

        Cancellation never interrupts a frame. Only closing the connection ends a blocked send.
        """
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
        """Deliver every complete response in the buffer to its waiting task.

        An incomplete response moves to a buffer of its own.

        Raises:
            ProtocolError: the size of a response is out of bounds.
        """
        buffer, start, end = self._buffer, 0, self._end
        while end - start >= SIZE_BYTES:
            (size,) = _INT32.unpack_from(buffer, start)
            if not SIZE_BYTES <= size <= self._max_frame_bytes:
                if not self.response_count and buffer[start : start + 2] in TLS_BEGINNINGS:
                    raise SpeaksTlsError(
                        f"{self.name} speaks TLS: set security_protocol to SSL or SASL_SSL"
                    )
                raise ProtocolError(
                    f"{self.name} announced a response of {size} bytes; the bounds are {SIZE_BYTES}"
                    f" and {self._max_frame_bytes}"
                )
            start += SIZE_BYTES
            if start + size > end:
                self._large = memoryview(bytearray(size))
                self._large_end = end - start
                self._large[: end - start] = self._view[start:end]
                self._end = 0
                return
            self.settle(buffer[start : start + size])
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
            self.settle(frame)

    def settle(self, frame: bytearray) -> None:
        """Deliver a response to the earliest request in flight.

        Raises:
            ProtocolError: the response is not for that request.
        """
        (correlation_id,) = _INT32.unpack_from(frame)
        if not self._in_flight:
            raise ProtocolError(
                f"{self.name} responded to a request {correlation_id} that is not in flight"
            )
        sent = self._in_flight[0]
        if correlation_id != sent.correlation_id:
            raise ProtocolError(
                f"{self.name} responded to request {correlation_id} before request"
                f" {sent.correlation_id}"
            )
        self._in_flight.popleft()
        self.response_count += 1
        sent.frame = frame
        sent.settled.set()
        self._used_at = trio.current_time()
        self._offer_room()

    def _next_deadline(self) -> float:
        if self._in_flight:
            return min(sent.deadline for sent in self._in_flight)
        return self._used_at + self._idle_timeout_s

    def _close_if_overdue(self) -> None:
        """Close the channel if its deadline has passed.

        If the awaited response has arrived meanwhile, the deadline is later by now.
        """
        now = trio.current_time()
        if self._next_deadline() > now:
            return
        for sent in self._in_flight:
            if sent.deadline <= now:
                sent.error = TimeoutError(errno.ETIMEDOUT, f"{self.name} did not respond in time")
        self._is_closed_by_us = not self._in_flight
        why = "did not respond to another request in time" if self._in_flight else "was left idle"
        self._fail(ConnectionAbortedError(errno.ECONNABORTED, f"closed, because the peer {why}"))

    def _fail(self, error: Exception) -> None:
        if self._error is not None:
            return
        self._error = kept(error)
        self._stream.close()
        self._watch.cancel()
        self._closed.set()
        self._lot.unpark_all()
        for sent in self._in_flight:
            sent.error = sent.error or _lost(self.name, error)
            sent.settled.set()
        self._in_flight.clear()

    def _next_correlation_id(self) -> int:
        self._correlation_id = (
            self._correlation_id + 1 if self._correlation_id < MAX_CORRELATION_ID else 0
        )
        return self._correlation_id

    @staticmethod
    def _addressed(chunks: Sequence[Buffer], correlation_id: int) -> Sequence[Buffer]:
        """Return the chunks with the correlation id in the header, which is in the first chunk."""
        first = chunks[0]
        if isinstance(first, bytes):
            first = bytearray(first)
            chunks = [first, *chunks[1:]]
        _INT32.pack_into(first, CORRELATION_ID_POSITION, correlation_id)
        return chunks


Secure = Callable[[Connection], Awaitable[Connection]]


@asynccontextmanager
async def open_channel(
    env: Env,
    host: str,
    port: int,
    *,
    secure: Secure | None = None,
    connect_timeout_ms: int = 10_000,
    max_frame_bytes: int = 100 << 20,
    idle_timeout_ms: int = 540_000,
    max_requests_in_flight: int = 64,
) -> AsyncIterator[Channel]:
    """Connect, and keep the channel open for the length of the block.

    Exceptions of the block are raised without an exception group around them. ``secure`` returns
    the stream that is used instead of the plain one (TLS), within ``connect_timeout_ms`` in all.

    Raises:
        TimeoutError: the peer did not accept the connection within ``connect_timeout_ms``.
        OSError: refused, unreachable, unknown host.
    """
    name = f"{host}:{port}"
    with trio.move_on_after(connect_timeout_ms / 1000) as connecting:
        stream = await _connect(env, host, port, secure)
    if connecting.cancelled_caught:
        raise TimeoutError(
            errno.ETIMEDOUT, f"{name} did not accept a connection within {connect_timeout_ms} ms"
        )
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
        try:
            raise failure
        finally:
            del failure  # its traceback holds this frame


async def _connect(env: Env, host: str, port: int, secure: Secure | None) -> Connection:
    stream = await env.network.connect(host, port)
    if secure is None:
        return stream
    try:
        return await secure(stream)
    except BaseException:
        stream.close()
        raise


def _lost(name: str, cause: Exception) -> Exception:
    """Return a new exception about a lost connection, from its cause.

    Each waiting task gets one of its own, because tasks should not raise the same object.
    """
    if isinstance(cause, ProtocolError):
        return type(cause)(str(cause))
    reason = cause.strerror if isinstance(cause, OSError) else None
    return ConnectionAbortedError(
        errno.ECONNABORTED, f"the connection to {name} is gone: {reason or cause}"
    )
