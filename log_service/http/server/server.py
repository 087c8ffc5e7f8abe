"""Serves one HTTP service on a listener: accepts connections, and drains them at the end.

A client's mistake ends at most its own connection. Connections over the limit get a 503 if there
is no TLS, and are closed. TLS and its deadline are those of the broker's listeners.
"""

import logging
from typing import Final

import trio

from log_service.common.access import ANONYMOUS
from log_service.common.env import Clock, Connection, Listener
from log_service.config.views import ConnectionLimits, NetworkLimits
from log_service.http.server.connection import HttpConnection
from log_service.http.server.limits import HttpLimits
from log_service.http.server.service import HttpService
from log_service.http.server.state import ServerState
from log_service.network.budget import ServerBudget
from log_service.network.responses import ConnectionContext
from log_service.network.server import Secure

REFUSED: Final = "Listener %s refused %s: %s"
ACCEPT_PAUSE_S: Final = 0.5
SWEEP_INTERVAL_S: Final = 0.25
"""How late an overdue connection ends at most."""
FULL: Final = b"\r\n".join(
    [
        b"HTTP/1.1 503 Service Unavailable",
        b"Retry-After: 1",
        b"Content-Length: 0",
        b"Connection: close",
        b"\r\n",
    ]
)

logger = logging.getLogger(__name__)


class HttpServer:
    """One listener of one service. ``run`` serves until it is drained or cancelled.

    ``secure`` performs the TLS handshake, and sets the client's principal from its certificate.
    """

    def __init__(
        self,
        *,
        listener: Listener,
        clock: Clock,
        service: HttpService,
        limits: HttpLimits | None = None,
        secure: Secure | None = None,
        name: str = "HTTP",
    ) -> None:
        limits = limits or HttpLimits()
        self.host, self.port = listener.host, listener.port
        self._listener = listener
        self._secure = secure
        self._name = name
        self._state = ServerState(clock, service, limits, listener.host)
        self._log = self._state.log
        bounds = ConnectionLimits(
            max_count=limits.max_connection_count,
            max_count_per_host=limits.max_connection_count_per_host,
        )
        self._budget = ServerBudget(NetworkLimits(connections=bounds))
        self._connections: dict[HttpConnection, None] = {}
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    def __repr__(self) -> str:
        where = f"{self._name} {self.host}:{self.port}"
        return f"<HttpServer {where} connections={self.connection_count}>"

    @property
    def connection_count(self) -> int:
        """The number of open connections, including those whose handshake is not complete."""
        return self._budget.connection_count

    @property
    def open_request_count(self) -> int:
        """The number of requests whose response is not complete."""
        return self._state.open_request_count

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until drained or cancelled, then close the listener."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._sweep_forever)
                    task_status.started()
                    async with trio.open_nursery() as connections:
                        while not self._state.is_stopping:
                            await self._accept_one(connections)
                    nursery.cancel_scope.cancel()
        finally:
            self._listener.close()
            self._ended.set()

    async def drain(self, deadline_ms: int) -> None:
        """Stop accepting connections, finish the open requests, and close all connections.

        Requests that are not finished after ``deadline_ms`` are aborted. This method returns once
        ``run`` has closed everything.
        """
        self._state.is_stopping = True
        self._listener.close()
        for connection in list(self._connections):
            connection.stop()
        with trio.move_on_after(deadline_ms / 1_000):
            await self._ended.wait()
        self._scope.cancel()
        await self._ended.wait()

    async def _sweep_forever(self) -> None:
        while True:
            await trio.sleep(SWEEP_INTERVAL_S)
            now_s = trio.current_time()
            for connection in self._connections:
                connection.expire(now_s)

    async def _accept_one(self, nursery: trio.Nursery) -> None:
        try:
            stream = await self._listener.accept()
        except OSError as error:
            if not self._state.is_stopping:
                text = "Listener %s cannot accept: %s; trying again"
                self._log.error("accept", text, self._name, error)
                await trio.sleep(ACCEPT_PAUSE_S)
            return
        refusal = self._budget.add_connection(stream.peer_host, self._name)
        if refusal is None:
            nursery.start_soon(self._serve, stream)
            return
        self._log.warning("refused", REFUSED, self._name, stream.peer_host, refusal)
        send_nowait = getattr(stream, "send_nowait", None)
        if send_nowait is not None and self._secure is None:
            send_nowait(FULL)
        stream.close()

    async def _serve(self, stream: Connection) -> None:
        host = stream.peer_host
        try:
            secured, principal = await self._secured(stream)
            stream = secured
            connection = HttpConnection(stream, self._state, principal)
            self._connections[connection] = None
            try:
                await connection.serve()
            finally:
                del self._connections[connection]
        except ConnectionError as error:
            logger.debug("%s left while its connection was secured: %s", host, error)
        except OSError as error:
            self._log.warning("unsecured", REFUSED, self._name, host, error.strerror or error)
        except Exception as error:  # noqa: BLE001 - a bug of ours costs one connection
            self._log.error("bug", "A connection of %s failed", host, error=error)
        finally:
            stream.close()
            self._budget.remove_connection(host, self._name)

    async def _secured(self, stream: Connection) -> tuple[Connection, str]:
        """Perform the TLS handshake. Return the stream and the client's principal.

        Without TLS the stream is returned unchanged, and the principal is anonymous.
        """
        if self._secure is None:
            return stream, str(ANONYMOUS)
        context = ConnectionContext(
            self._budget.next_connection_id(),
            stream.peer_host,
            stream.local_host,
            self._name,
            peer_port=stream.peer_port,
        )
        secured = await self._secure(stream, context)
        return secured, str(context.principal)
