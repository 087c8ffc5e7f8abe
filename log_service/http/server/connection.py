"""One accepted connection: its requests in order, their deadlines, and how it ends.

h11 holds the state of HTTP/1.1 and decides what may be sent and read. One task receives. Another
task reads h11's events, runs handlers and sends. So a handler is cancelled as soon as its client
leaves. Each phase of a request has a deadline. The server looks for overdue connections from time
to time, which costs less than a cancel scope for each phase.

Invariants: a request is handled once the response before it was sent. Each request that counts as
open is discounted at its end.
"""

import contextlib
import errno
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from enum import Enum, auto
from math import inf
from typing import Final, Self

import h11
import trio

from log_service.common.env import Connection
from log_service.http.server.exchange import MAX_DISCARDED_BYTES, Exchange
from log_service.http.server.heads import (
    WITHOUT_BODY,
    ResponseHead,
    head_of,
    refuse_foreign_page,
    require_known_host,
)
from log_service.http.server.received import ReceivedBytes
from log_service.http.server.state import ServerState
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse, plain_error

PIECE_BYTES: Final = 64 << 10
"""The most bytes that are sent within one deadline."""
COPY_BYTES: Final = 8 << 10
"""Up to this size, joining a response is cheaper than a gathered send."""
LINGER_MS: Final = 1_000
"""How long we read and drop bytes after a refusal, so that the client reads it before a reset."""
MAX_DROPPED_BYTES: Final = 4 << 20
HALF_CLOSED_MS: Final = 1_000
"""How long a request is still handled after its client closed its sending side.

The client has left, or reads the response.
"""
REFUSAL_DEADLINE_MS: Final = 1_000
CONTINUE: Final = h11.InformationalResponse(status_code=100, headers=[])


class Phase(Enum):
    """The phases of a connection. Each has its deadline."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    HANDLER = auto()
    WRITE = auto()
    STREAM = auto()
    """The next piece of a response."""
    LINGER = auto()


OVERDUE: Final = {
    Phase.HEAD: (408, "the head of the request came too slowly"),
    Phase.BODY: (408, "the body of the request came too slowly"),
    Phase.HANDLER: (503, "the request took too long"),
}
"""The refusals of overdue requests. In other phases no response can be sent."""


class HttpConnection:
    """One connection. ``serve`` returns once it has ended, and the caller closes the stream."""

    def __init__(self, stream: Connection, state: ServerState, principal: str) -> None:
        self._stream = stream
        self._state = state
        self._limits = state.limits
        self._log = state.log
        self._principal = principal
        self._http = h11.Connection(h11.SERVER, state.limits.max_head_bytes)
        self._received = ReceivedBytes()
        self._scope = trio.CancelScope()
        self._phase = Phase.IDLE
        self._due_s = inf  # in trio's time
        self._is_lost = False  # nothing can be sent any more
        self._has_waited = True
        self._known_host: str | None = None
        """The last Host that was compared with the names of this machine."""
        self._exchange = Exchange()

    def __repr__(self) -> str:
        return f"<HttpConnection {self._stream.peer_host} {self._phase.name}>"

    async def serve(self) -> None:
        """Handle requests until the client leaves, is refused, or is too slow."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._receive)
                    await self._respond_in_turn()
                    nursery.cancel_scope.cancel()
            if self._scope.cancelled_caught:
                await self._refuse_overdue()
        finally:
            self._end_request()

    def expire(self, now_s: float) -> None:
        """End the connection if the current phase is overdue."""
        if now_s > self._due_s:
            self._scope.cancel()

    def stop(self) -> None:
        """End the connection after the current request, or at once if there is none."""
        if self._phase is Phase.IDLE and not self._received.has_any:
            self.abort()

    def abort(self) -> None:
        """End the connection now, even in the middle of a response."""
        self._is_lost = True
        self._scope.cancel()

    async def _receive(self) -> None:
        try:
            await self._received.receive_all(self._stream, self._note_end)
        except OSError:
            self.abort()

    def _note_end(self) -> None:
        self._due_s = min(self._due_s, trio.current_time() + HALF_CLOSED_MS / 1_000)

    async def _respond_in_turn(self) -> None:
        with contextlib.suppress(OSError):
            while await self._serve_one():
                self._end_request()
                self._http.start_next_cycle()
                self._exchange = Exchange()

    async def _serve_one(self) -> bool:
        """Receive one request and send its response. Return whether another one may follow."""
        self._enter(Phase.IDLE, self._limits.idle_deadline_ms)
        if not self._has_waited:  # let other connections run between requests that came at once
            await trio.lowlevel.checkpoint()
        self._has_waited = False
        if self._state.is_stopping and not self._has_next():
            return False
        response = await self._response()
        if response is None:
            return False
        await self._send(response)
        return await self._may_go_on()

    def _has_next(self) -> bool:
        return self._received.has_any or bool(self._http.trailing_data[0])

    async def _response(self) -> HttpResponse | None:
        """Return the response to the next request, None if the client leaves before one."""
        try:
            event = await self._next_event()
            if not isinstance(event, h11.Request):
                return None
            self._exchange.began_ns = self._state.clock.monotonic_ns()
            self._exchange.method = event.method
            return await self._handle(event)
        except HttpError as error:
            return self._refusal(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours costs one request
            return self._failed(error)

    async def _handle(self, event: h11.Request) -> HttpResponse:
        state, service, exchange = self._state, self._state.service, self._exchange
        head = exchange.head = head_of(event, self._limits)
        is_checked = state.is_loopback or service.is_host_checked
        if is_checked and head.headers.get("host") != self._known_host:
            require_known_host(head.headers, service.host_names, is_loopback=state.is_loopback)
            self._known_host = head.headers["host"]
        refuse_foreign_page(head, service.host_names, is_loopback=state.is_loopback)
        route, path_values = service.router.find(head.method, head.path)
        exchange.route = route
        self.enter_handler()
        request = HttpRequest(
            method=head.method,
            path=head.path,
            query=head.query,
            headers=head.headers,
            path_values=path_values,
            principal=self._principal,
            peer=self._stream.peer_host,
        )
        if service.authenticate is not None and not route.is_public:
            request = replace(request, principal=await service.authenticate(request))
        if route.is_streamed:
            request = replace(request, pieces=_Pieces(self), hold_bytes=self.hold_bytes)
        elif body := await self._whole_body():
            request = replace(request, body=body)
        state.open_request(self._stream.peer_host)  # slow bodies are bounded by their connections
        exchange.is_open = True
        return await route.handler(request)

    async def _whole_body(self) -> bytes:
        pieces = []
        while piece := await self.next_piece():
            self._state.hold_body(self._stream.peer_host, len(piece))
            self._exchange.held_bytes += len(piece)
            pieces.append(piece)
        if pieces:
            self.enter_handler()
        return b"".join(pieces)

    def hold_bytes(self, size_bytes: int) -> None:
        """Set the number of bytes of the request's body that count as in memory.

        Raises:
            HttpError: too many bytes are in memory, in total or for this host.
        """
        exchange, host = self._exchange, self._stream.peer_host
        more_bytes = size_bytes - exchange.held_bytes
        if more_bytes > 0:
            self._state.hold_body(host, more_bytes)
        else:
            self._state.drop_body(host, -more_bytes)
        exchange.held_bytes = size_bytes

    async def next_piece(self) -> bytes:
        """Return the next piece of the request's body, empty at the end.

        Raises:
            HttpError: the body is too long, or is not valid HTTP.
        """
        exchange = self._exchange
        limit = exchange.max_body_bytes(self._limits)
        exchange.check_declared(limit)
        if self._http.they_are_waiting_for_100_continue:
            await self._invite_body()
        event = await self._next_event()
        if not isinstance(event, h11.Data):
            return b""
        exchange.add_piece(len(event.data), limit, is_chunk_start=event.chunk_start)
        return bytes(event.data)

    async def _invite_body(self) -> None:
        try:
            await self._stream.send_gathered([self._http.send(CONTINUE) or b""])
        except OSError:
            self.abort()
            await trio.lowlevel.checkpoint()  # cancelled

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return h11's next event, as soon as its bytes have arrived.

        Raises:
            HttpError: the bytes are not valid HTTP.
        """
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise self._broken(error) from error
            if event is not h11.NEED_DATA:
                return event
            if not self._received.has_any:
                await self._wait_for_bytes()
            self._http.receive_data(self._received.take())

    async def _wait_for_bytes(self) -> None:
        if self._exchange.route is not None and self._phase is not Phase.BODY:
            self._enter(Phase.BODY, self._limits.body_deadline_ms)
        elif self._phase is Phase.IDLE and self._http.trailing_data[0]:
            self._enter(Phase.HEAD, self._limits.head_deadline_ms)
        self._has_waited = True
        await self._received.wait()

    def _broken(self, error: h11.RemoteProtocolError) -> HttpError:
        """Return the refusal of bytes that are not valid HTTP."""
        status = error.error_status_hint
        if self._exchange.head is not None:
            status = 400
        elif status == 431 and b"\n" not in self._http.trailing_data[0]:
            status = 414
        return HttpError(status, f"this is not a request of HTTP/1.1: {error}")

    async def _send(self, response: HttpResponse) -> None:
        """Send a response.

        Raises:
            OSError: the client is gone, or the response broke off.
        """
        if self._exchange.began_ns is None:
            self._exchange.began_ns = self._state.clock.monotonic_ns()
        start, response = self._start_of(response)
        self._exchange.status = response.status
        buffers = [self._http.send(start) or b""]
        body = response.body
        is_empty = self._exchange.is_head or response.status in WITHOUT_BODY
        if isinstance(body, bytes):
            await self._send_whole(buffers, b"" if is_empty else body)
            return
        try:
            if is_empty:
                await self._send_whole(buffers, b"")
            else:
                await self._send_pieces(buffers, body)
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                await close()

    def _start_of(self, response: HttpResponse) -> tuple[h11.Response, HttpResponse]:
        """Return the head of a response, and the response.

        If the handler's response is invalid, return an error response instead.
        """
        try:
            return self._state.response_event(self._head_of(response)), response
        except (h11.LocalProtocolError, TypeError) as error:  # TypeError: a list of headers
            failed = self._failed(error)
            return self._state.response_event(self._head_of(failed)), failed

    def _head_of(self, response: HttpResponse) -> ResponseHead:
        body = response.body
        return ResponseHead(
            response.status,
            response.content_type,
            len(body) if isinstance(body, bytes) else None,
            response.headers,
            self._state.date(),
            self._is_last(is_streaming=not isinstance(body, bytes)),
        )

    def _is_last(self, *, is_streaming: bool) -> bool:
        """Return whether it is known before the response that the connection ends after it."""
        http = self._http
        if self._state.is_stopping or self._scope.cancelled_caught or http.their_state is h11.ERROR:
            return True
        if http.they_are_waiting_for_100_continue:
            return True  # its body may follow or not
        if http.their_state is not h11.SEND_BODY or (self._exchange.is_streamed and is_streaming):
            return False  # the body was read, or the pieces of the response read it
        return self._exchange.is_rest_long

    async def _send_whole(self, buffers: list[bytes], body: bytes) -> None:
        for start in range(0, len(body), PIECE_BYTES):
            if start:
                await self._write(buffers)
                buffers = []
            buffers.append(self._http.send(_piece(body, start)) or b"")
        buffers.append(self._http.send(h11.EndOfMessage()) or b"")
        await self._write(buffers)

    async def _send_pieces(self, buffers: list[bytes], pieces: AsyncIterator[bytes]) -> None:
        await self._write(buffers)
        while True:
            self._enter(Phase.STREAM, inf)
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                break
            except Exception as error:
                if not isinstance(error, HttpError):  # the client's fault
                    self._log_failure(error)
                raise OSError(errno.EIO, "the response broke off") from error
            for start in range(0, len(piece), PIECE_BYTES):
                await self._write(self._http.send_with_data_passthrough(_piece(piece, start)) or ())
        await self._write([self._http.send(h11.EndOfMessage()) or b""])

    async def _write(self, buffers: Sequence[bytes]) -> None:
        self._enter(Phase.WRITE, self._limits.write_deadline_ms)
        is_long = sum(map(len, buffers)) > COPY_BYTES
        await self._stream.send_gathered(buffers if is_long else [b"".join(buffers)])

    async def _may_go_on(self) -> bool:
        """Drop the rest of the request's body, and return whether another request may follow."""
        http = self._http
        is_last, dropped_bytes = http.our_state is not h11.DONE, 0
        try:
            while http.their_state is h11.SEND_BODY and not is_last:
                event = await self._next_event()
                dropped_bytes += len(event.data) if isinstance(event, h11.Data) else 0
                is_last = dropped_bytes > MAX_DISCARDED_BYTES
        except HttpError:
            is_last = True
        if is_last and http.their_state in {h11.SEND_BODY, h11.ERROR}:
            await self._linger()
        return not is_last

    async def _linger(self) -> None:
        """Read and drop bytes for a while, because closing at once would reset the connection."""
        self._enter(Phase.LINGER, LINGER_MS)
        dropped_bytes = 0
        while not self._received.is_ended and dropped_bytes < MAX_DROPPED_BYTES:
            dropped_bytes += len(self._received.take())
            await self._received.wait()

    async def _refuse_overdue(self) -> None:
        """Send an error response that says which deadline was missed, if no response has begun."""
        refusal = OVERDUE.get(self._phase)
        if refusal is None or self._received.is_ended or self._is_lost:
            return
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            status, text = refusal
            error = self._state.busy(text) if status == 503 else HttpError(status, text)
            with contextlib.suppress(OSError), trio.move_on_after(REFUSAL_DEADLINE_MS / 1_000):
                await self._send(self._refusal(error))

    def _refusal(self, error: HttpError) -> HttpResponse:
        try:
            return self._state.service.error_response(error)
        except Exception as failure:  # noqa: BLE001 - a bug of the service
            self._log_failure(failure)
            return plain_error(error)

    def _failed(self, error: Exception) -> HttpResponse:
        self._log_failure(error)
        return self._refusal(HttpError(500, "the server failed, and its log says why"))

    def _log_failure(self, error: Exception) -> None:
        route = self._exchange.route
        where = "a request" if route is None else f"{route.method} {route.path}"
        self._log.error(where, "%s of %s failed", where, self._stream.peer_host, error=error)

    def _enter(self, phase: Phase, deadline_ms: float) -> None:
        self._phase = phase
        rest_ms = min(deadline_ms, HALF_CLOSED_MS) if self._received.is_ended else deadline_ms
        self._due_s = trio.current_time() + rest_ms / 1_000

    def enter_handler(self) -> None:
        """Begin the phase of the handler, with its whole deadline."""
        route = self._exchange.route
        own_ms = None if route is None else route.deadline_ms
        self._enter(Phase.HANDLER, self._limits.handler_deadline_ms if own_ms is None else own_ms)

    def _end_request(self) -> None:
        """Count the response in the metrics, and discount the open request. Idempotent."""
        exchange, host = self._exchange, self._stream.peer_host
        if exchange.held_bytes:
            self._state.drop_body(host, exchange.held_bytes)
            exchange.held_bytes = 0
        if exchange.is_open:
            exchange.is_open = False
            self._state.close_request(host)
        if exchange.began_ns is not None:
            duration_ns = self._state.clock.monotonic_ns() - exchange.began_ns
            exchange.began_ns = None
            route = exchange.route
            method, path = ("", "") if route is None else (route.method, route.path)
            self._state.service.note_response(method, path, exchange.status, duration_ns)


class _Pieces:
    """Iterates over the pieces of a request's body as they arrive, for a handler that streams."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._connection.next_piece()
        self._connection.enter_handler()
        if not piece:
            raise StopAsyncIteration
        return piece


def _piece(body: bytes, start: int) -> h11.Data:
    """Return at most ``PIECE_BYTES`` of a body, without copying it if it is short."""
    is_whole = len(body) <= PIECE_BYTES
    return h11.Data(data=body if is_whole else body[start : start + PIECE_BYTES])
