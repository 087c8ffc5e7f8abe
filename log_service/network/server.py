"""A listener that accepts connections, watches their deadlines and drains them.

The server decides who may connect and when a connection has taken too long. ``connection`` handles
the traffic between those two events, and the handler interprets frames. One task accepts and one
sweeps all connections. Each connection has one or two tasks of its own.

Invariants:

- Nothing that a peer does ends ``run``.
- Every connection counted in the shared budget is removed from it again, and its handler is
  notified of the close once.
- Nothing is left open after ``drain`` or cancellation.
"""

import logging
from collections.abc import Awaitable, Callable

import trio

from log_service.common.env import Connection, Env, Listener
from log_service.common.errors import ProtocolError
from log_service.common.quiet_log import QuietLogger
from log_service.config.views import ListenerConfig, NetworkLimits
from log_service.metrics.failure_counts import TLS, FailureCounts
from log_service.network.budget import MAX_HELD_COUNT, ServerBudget
from log_service.network.connection import ServerConnection
from log_service.network.deadlines import ConnectionWatch, sweep_interval_ms
from log_service.network.responses import (
    PUT_OFF,
    Chunk,
    ConnectionContext,
    FrameHandler,
    PendingResponse,
    PutOff,
    Response,
)

__all__ = [
    "PUT_OFF",
    "Chunk",
    "ConnectionContext",
    "FrameHandler",
    "PendingResponse",
    "PutOff",
    "Response",
    "Secure",
    "Server",
    "ServerBudget",
]

Secure = Callable[[Connection, ConnectionContext], Awaitable[Connection]]
"""Makes the stream of a connection from the accepted one (TLS), and may name the peer.

The function limits its own duration, and how many calls run at once. It raises OSError to close the
connection, and the error's text is logged.
"""

MIN_ACCEPT_PAUSE_S = 0.05
MAX_ACCEPT_PAUSE_S = 1.0
LOG_WINDOW_MS = 60_000
MAX_LINES_PER_WINDOW = 20
"""The most log lines in ``LOG_WINDOW_MS`` of each kind that peers can provoke."""

logger = logging.getLogger(__name__)


class Server:
    """One listener of a node.

    ``run`` serves until it is drained or cancelled.

    ``bound`` is a socket that is already listening, or None. A broker has to tell the controller
    its ports before it serves them. Meanwhile the operating system queues connections up to the
    backlog.
    """

    def __init__(
        self,
        *,
        env: Env,
        listener: ListenerConfig,
        limits: NetworkLimits,
        handler: FrameHandler,
        shared: ServerBudget,
        bound: Listener | None = None,
        secure: Secure | None = None,
    ) -> None:
        self.name = listener.name
        self.bound_host = listener.host
        self.bound_port = listener.port
        self.accepted_count = 0
        self.refused_count = 0
        self.failed_handshake_count = 0
        """Connections that could not be secured, without those whose peer left."""
        self.handshake_failures = FailureCounts()
        """Failed handshakes by address."""
        self._env = env
        self._config = listener
        self._limits = limits
        self.handler = handler
        self._secure = secure
        self._budget = shared
        self._log = QuietLogger(logger, env.clock.monotonic_ms, LOG_WINDOW_MS, MAX_LINES_PER_WINDOW)
        self.connections: dict[ServerConnection, ConnectionWatch] = {}
        self._closed_request_count = 0
        self._closed_bytes_received = 0
        self._closed_bytes_sent = 0
        self._listener = bound
        self._is_draining = False
        self._emptied = trio.Event()

    def __repr__(self) -> str:
        state = (
            "draining" if self._is_draining else "listening" if self._listener else "not started"
        )
        return (
            f"<Server {self._config.name} {self.bound_host}:{self.bound_port} {state}"
            f" connections={len(self.connections)}>"
        )

    @property
    def connection_count(self) -> int:
        """Connections open now."""
        return len(self.connections)

    @property
    def request_count(self) -> int:
        """Frames handled since the start."""
        return self._closed_request_count + sum(
            connection.request_count for connection in self.connections
        )

    @property
    def bytes_received(self) -> int:
        """Bytes received since the start."""
        return self._closed_bytes_received + sum(
            connection.bytes_received for connection in self.connections
        )

    @property
    def bytes_sent(self) -> int:
        """Bytes sent since the start."""
        return self._closed_bytes_sent + sum(
            connection.bytes_sent for connection in self.connections
        )

    async def run(
        self, *, task_status: trio.TaskStatus["Server"] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Bind, call ``task_status.started``, and serve until drained or cancelled.

        Raises:
            OSError: the address cannot be bound.
        """
        if self._listener is None:
            self._listener = await self._env.network.listen(
                self._config.host, self._config.port, backlog=self._limits.backlog
            )
        self.bound_host, self.bound_port = self._listener.host, self._listener.port
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._sweep_forever)
                task_status.started(self)
                async with trio.open_nursery() as connections:
                    await self._accept_until_closed(self._listener, connections)
                nursery.cancel_scope.cancel()
        finally:
            self._listener.close()

    async def drain(self, deadline_ms: int) -> None:
        """Stop accepting connections, respond to all received requests, and close the connections.

        After ``deadline_ms`` close the remaining ones at once.
        """
        self._is_draining = True
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.stop()
        with trio.move_on_after(deadline_ms / 1000):
            await self._wait_until_empty()
        left_count = len(self.connections)
        if left_count:
            logger.warning(
                "Listener %s: %d connections were not drained after %d ms",
                self._config.name,
                left_count,
                deadline_ms,
            )
        for connection in list(self.connections):
            connection.close()
        await self._wait_until_empty()

    async def _wait_until_empty(self) -> None:
        while self.connections:
            await self._emptied.wait()

    async def _accept_until_closed(self, listener: Listener, nursery: trio.Nursery) -> None:
        pause_s = MIN_ACCEPT_PAUSE_S
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if self._is_draining:
                    return
                self._log.error(
                    "accept",
                    "Listener %s cannot accept: %s; trying again",
                    self._config.name,
                    error,
                )
                await trio.sleep(pause_s)
                pause_s = min(pause_s * 2, MAX_ACCEPT_PAUSE_S)
                continue
            pause_s = MIN_ACCEPT_PAUSE_S
            await self._pace(stream)
            delay_ms = self._budget.refusal_delay_ms(
                stream.peer_host, self._env.clock.monotonic_ms()
            )
            if delay_ms > 0:
                self._refuse_later(stream, delay_ms, nursery)
            else:
                self._admit(stream, nursery)

    async def _pace(self, stream: Connection) -> None:
        """Delay a connection that came too soon after others.

        Later connections wait in the backlog meanwhile.
        """
        delay_ms = self._budget.pace(self._config.name, self._env.clock.monotonic_ms())
        if delay_ms > 0:
            try:
                await trio.sleep(delay_ms / 1000)
            except trio.Cancelled:
                stream.close()
                raise

    def _refuse_later(self, stream: Connection, delay_ms: int, nursery: trio.Nursery) -> None:
        """Keep a connection open for a while, then close it: its address connects too often.

        Its client does not connect again before that. The connection is closed at once if too many
        are held back, or if the listener is draining.
        """
        self.refused_count += 1
        self._log.warning(
            "held",
            "Listener %s holds %s back: its quota of connections is used up",
            self._config.name,
            stream.peer_host,
        )
        if self._is_draining or self._budget.held_count >= MAX_HELD_COUNT:
            stream.close()
            return
        self._budget.held_count += 1
        nursery.start_soon(self._close_later, stream, delay_ms)

    async def _close_later(self, stream: Connection, delay_ms: int) -> None:
        try:
            await trio.sleep(delay_ms / 1_000)
        finally:
            self._budget.held_count -= 1
            stream.close()

    def _admit(self, stream: Connection, nursery: trio.Nursery) -> None:
        refusal = (
            "it is stopping"
            if self._is_draining
            else self._budget.add_connection(stream.peer_host, self._config.name)
        )
        if refusal is not None:
            self.refused_count += 1
            self._log.warning(
                "refused",
                "Listener %s refused %s: %s",
                self._config.name,
                stream.peer_host,
                refusal,
            )
            stream.close()
            return
        self.accepted_count += 1
        context = ConnectionContext(
            self._budget.next_connection_id(),
            stream.peer_host,
            stream.local_host,
            self._config.name,
            peer_port=stream.peer_port,
        )
        sasl = self._config.security.sasl
        if sasl is not None:
            context.max_frame_bytes = min(sasl.max_receive_bytes, self._limits.max_frame_bytes)
            context.must_log_in_by_ms = (
                self._env.clock.monotonic_ms() + self._limits.login_deadline_ms
            )
        connection = ServerConnection(
            stream=stream,
            context=context,
            handler=self.handler,
            limits=self._limits,
            budget=self._budget,
            start_task=nursery.start_soon,
        )
        self.connections[connection] = ConnectionWatch(
            limits=self._limits, active_ms=self._env.clock.monotonic_ms()
        )
        nursery.start_soon(self._serve, connection)

    async def _serve(self, connection: ServerConnection) -> None:
        try:
            if self._secure is None or await self._is_secured(connection, self._secure):
                await connection.serve()
        except OSError as error:
            logger.debug("%r ended: %s", connection, error)
        except ProtocolError as error:
            self._log.warning(
                "protocol",
                "Closing the connection from %s: %s",
                connection.context.peer_host,
                error,
            )
        except Exception as error:  # noqa: BLE001 - one peer's request found a bug of ours: the others go on
            self._log.error(
                "bug",
                "Closing the connection from %s: its request failed",
                connection.context.peer_host,
                error=error,
            )
        finally:
            self._forget(connection)

    async def _is_secured(self, connection: ServerConnection, secure: Secure) -> bool:
        """Secure a connection (TLS) and return whether that succeeded.

        Log failures unless the peer left.
        """
        try:
            await connection.secure(secure)
        except ConnectionError as error:
            logger.debug("%r left while it was secured: %s", connection, error)
        except OSError as error:
            if connection.is_closed:
                logger.debug("%r was closed while it was secured: %s", connection, error)
            else:
                self.failed_handshake_count += 1
                self.handshake_failures.add(TLS, connection.context.peer_host)
                reason = error.strerror or error
                self._log.warning(
                    "unsecured",
                    "Listener %s refused %s: %s",
                    self._config.name,
                    connection.context.peer_host,
                    reason,
                )
        else:
            return True
        self.refused_count += 1
        return False

    def _forget(self, connection: ServerConnection) -> None:
        connection.discard()
        del self.connections[connection]
        self._closed_request_count += connection.request_count
        self._closed_bytes_received += connection.bytes_received
        self._closed_bytes_sent += connection.bytes_sent
        self._budget.remove_connection(connection.context.peer_host, self._config.name)
        if not self.connections:
            self._emptied.set()
            self._emptied = trio.Event()
        try:
            self.handler.connection_closed(connection.context)
        except Exception as error:  # noqa: BLE001 - as above
            self._log.error(
                "bug",
                "Closing the connection from %s failed",
                connection.context.peer_host,
                error=error,
            )

    async def _sweep_forever(self) -> None:
        interval_s = sweep_interval_ms(self._limits) / 1000
        while True:
            await trio.sleep(interval_s)
            self._sweep(self._env.clock.monotonic_ms())

    def _sweep(self, now_ms: int) -> None:
        for connection, watch in list(self.connections.items()):
            reason = watch.overdue(connection, now_ms) or self._overdue_login(
                connection.context, now_ms
            )
            if reason is not None:
                self._log.info(
                    "overdue",
                    "Closing the connection from %s: %s",
                    connection.context.peer_host,
                    reason,
                )
                connection.close()

    def _overdue_login(self, context: ConnectionContext, now_ms: int) -> str | None:
        if context.must_log_in_by_ms is None or now_ms < context.must_log_in_by_ms:
            return None
        return f"its client did not log in within {self._limits.login_deadline_ms} ms"
