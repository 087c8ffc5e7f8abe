"""Sends requests to any node by its destination. Each destination has at most one connection. It is
opened when it is needed, and again after it broke.

Decides when to connect again to a node that failed. The pause doubles with each failure
(``retry.Backoff``), and there is one before each new connection to a node that closed the last.
Decides nothing about requests: a failed request is not sent again, because only its sender knows
whether that is allowed.

Invariants: all tasks that need a connection while it is being opened wait for the same attempt, and
get an error when that attempt fails; a closed connection is never returned. The connections run in
the nursery that was passed in, and end with it.
"""

import errno
import logging
import os
from collections.abc import Callable
from typing import TypeVar

import trio

from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError, kept
from log_service.common.quiet_log import QuietLogger
from log_service.protocol.schema import Message
from log_service.rpc.connection import (
    Destination,
    RpcConnection,
    RpcSettings,
    Security,
    open_connection,
)
from log_service.rpc.listener_checks import (
    ENDS_BEFORE_QUESTION,
    QUESTION_INTERVAL_MS,
    Question,
    question_after,
    question_to,
    require_tls,
)

R = TypeVar("R", bound=Message)

OnPeerClosed = Callable[[Destination], None]
"""Called with the destination of a connection that its peer has ended."""

logger = logging.getLogger(__name__)


class _Opening:
    """An attempt to connect, for which several tasks may wait.

    Once ``done`` is set there is a connection or an error.
    """

    def __init__(self) -> None:
        self.done = trio.Event()
        self.scope = trio.CancelScope()
        self.connection: RpcConnection | None = None
        self.error = KafkaError(ErrorCode.NETWORK_EXCEPTION, "it was closed on our side")


class NodeChannel:
    """The channel to one destination.

    ``opened_total`` and ``failed_total`` count attempts to connect. ``is_proven`` tells whether any
    node of the pool has already responded with the same security. ``is_refused`` tells whether the
    last attempt found no process that listens at the address.
    """

    def __init__(
        self,
        env: Env,
        destination: Destination,
        settings: RpcSettings,
        nursery: trio.Nursery,
        *,
        security: Security | None,
        on_peer_closed: OnPeerClosed | None = None,
        is_proven: Callable[[], bool] = lambda: False,
    ) -> None:
        self.destination = destination
        self._on_peer_closed = on_peer_closed
        self._is_proven = is_proven
        self.opened_total = 0
        self.failed_total = 0
        self.is_refused = False
        self._env = env
        self._settings = settings
        self._nursery = nursery
        self._security = security
        self._connection: RpcConnection | None = None
        self._opening: _Opening | None = None
        self._failed_count = 0  # since a connection was opened the last time
        self._not_before_ms = 0.0
        self._question: Question | None = None
        self._asked_again_at_ms = 0
        self._ended_count = 0
        self._closed_bytes_received = 0
        self._closed_bytes_sent = 0
        self._quiet = QuietLogger(logger, env.clock.monotonic_ms)

    def __repr__(self) -> str:
        state = (
            "open"
            if self.connection is not None
            else "opening"
            if self._opening is not None
            else "closed"
        )
        return f"<NodeChannel {self.destination} {state} failures={self._failed_count}>"

    @property
    def connection(self) -> RpcConnection | None:
        """The connection, if one is open."""
        connection = self._connection
        return connection if connection is not None and not connection.is_closed else None

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to connect failed.

        The next attempt may have to wait for the end of a pause.
        """
        return self._failed_count > 0

    @property
    def bytes_received(self) -> int:
        """Number of bytes received so far, on all connections."""
        return self._closed_bytes_received + (
            self._connection.bytes_received if self._connection is not None else 0
        )

    @property
    def bytes_sent(self) -> int:
        """Number of bytes sent so far, on all connections."""
        return self._closed_bytes_sent + (
            self._connection.bytes_sent if self._connection is not None else 0
        )

    async def connect(self) -> RpcConnection:
        """Return the connection. Open it if there is none, after the pause that follows a failure.

        Raises:
            KafkaError: NETWORK_EXCEPTION, the node cannot be reached, or does not speak the
                protocol; others, it refused us.
        """
        connection = self._connection
        if connection is not None and not connection.is_closed:
            return connection
        opening = self._opening
        if opening is None:
            opening = _Opening()
            self._nursery.start_soon(self._hold, opening)
            self._opening = opening
        await opening.done.wait()
        if opening.connection is None:
            raise KafkaError(opening.error.code, str(opening.error))
        return opening.connection

    async def request(
        self,
        request: Message,
        response_type: type[R],
        *,
        max_version: int | None = None,
        waits_ms: int = 0,
    ) -> R:
        """Send a request and return its response.

        Arguments and errors are those of ``RpcConnection.request`` and of ``connect``.
        """
        connection = await self.connect()
        return await connection.request(
            request, response_type, max_version=max_version, waits_ms=waits_ms
        )

    def close(self) -> None:
        """Close the connection, also one that is being opened. The next request opens another."""
        if self._connection is not None:
            self._connection.close()
        if self._opening is not None:
            self._opening.scope.cancel()

    async def _hold(self, opening: _Opening) -> None:
        """Open a connection and keep it until it closes."""
        try:
            with opening.scope:
                await self._pause()
                await self._ask_what_it_speaks()
                async with open_connection(
                    self._env, self.destination, self._settings, self._security
                ) as connection:
                    self._opened(opening, connection)
                    await connection.wait_closed()
        except (OSError, OverflowError, ProtocolError, KafkaError) as error:
            if opening.connection is None:
                self._failed(opening, error)
        finally:
            self._closed(opening)

    async def _ask_what_it_speaks(self) -> None:
        """Test which protocol the node speaks, if its last connections ended without a response.

        Does nothing unless a test is due (``is_asking``, ``listener_checks``).

        Raises:
            KafkaError: the listener speaks another protocol.
        """
        question, now_ms = self._question, self._env.clock.monotonic_ms()
        if (
            question is None
            or not self._settings.is_asking
            or self._ended_count < ENDS_BEFORE_QUESTION
        ):
            return
        if question is require_tls and self._is_proven():
            # a node that is gone ends handshakes, too, and nothing is to be sent in the clear for
            # it
            return
        if now_ms >= self._asked_again_at_ms:
            self._asked_again_at_ms = now_ms + QUESTION_INTERVAL_MS
            await question(self._env, self.destination, self._settings, self._security)

    def _note_end(self, question: Question | None) -> None:
        """Count how many connections in a row ended without giving a cause.

        ``question`` is the test that finds the cause of such an end. It is None for any other end.
        """
        self._ended_count = self._ended_count + 1 if question is not None else 0
        self._question = question

    def _opened(self, opening: _Opening, connection: RpcConnection) -> None:
        self.opened_total += 1
        self.is_refused = False
        self._failed_count = 0
        self._delay(0)
        opening.connection = self._connection = connection
        self._settle(opening)

    def _failed(self, opening: _Opening, error: Exception) -> None:
        self.failed_total += 1
        self.is_refused = isinstance(error, OSError) and error.errno == errno.ECONNREFUSED
        self._delay(self._failed_count)
        self._failed_count += 1
        self._note_end(question_after(error))
        text = f"cannot reach a broker at {self.destination}: {_reason(error)}"
        opening.error = (
            kept(error)
            if isinstance(error, KafkaError)
            else KafkaError(ErrorCode.NETWORK_EXCEPTION, text)
        )
        self._quiet.warning(self.destination, "%s", text)

    def _closed(self, opening: _Opening) -> None:
        """Keep the byte counts of a closed connection, and log why it ended unless we closed it."""
        connection = opening.connection
        if connection is None:
            self._settle(opening)
            return
        self._closed_bytes_received += connection.bytes_received
        self._closed_bytes_sent += connection.bytes_sent
        if self._connection is connection:
            self._connection = None
            self._note_end(question_to(connection))
        if connection.failure is not None:
            self._quiet.info(
                (self.destination, "gone"),
                "the connection to %s is gone: %s",
                self.destination,
                connection.failure,
            )
        if self._on_peer_closed is not None and isinstance(connection.failure, ConnectionError):
            self._on_peer_closed(self.destination)

    def _settle(self, opening: _Opening) -> None:
        if self._opening is opening:
            self._opening = None
        opening.done.set()

    def _delay(self, failed_count: int) -> None:
        self._not_before_ms = (
            self._env.clock.monotonic_ms()
            + self._settings.reconnect_backoff.delay_ms(failed_count, self._env.rng)
        )

    async def _pause(self) -> None:
        pause_ms = self._not_before_ms - self._env.clock.monotonic_ms()
        if pause_ms > 0:
            await trio.sleep(pause_ms / 1_000)


class ConnectionPool:
    """The channels to all destinations that were used.

    A channel is kept when its connection closes, because it remembers failures.
    """

    def __init__(
        self,
        env: Env,
        settings: RpcSettings,
        nursery: trio.Nursery,
        security: Security | None = None,
        *,
        on_peer_closed: OnPeerClosed | None = None,
    ) -> None:
        self._env = env
        self._settings = settings
        self._on_peer_closed = on_peer_closed
        self._nursery = nursery
        self._security = security
        self._channels: dict[Destination, NodeChannel] = {}
        # The summed counters of forgotten channels: opened, failed, received, sent.
        self._forgotten = [0, 0, 0, 0]

    def __repr__(self) -> str:
        return f"<ConnectionPool {list(self._channels.values())}>"

    @property
    def open_count(self) -> int:
        """Number of open connections."""
        return sum(channel.connection is not None for channel in self._channels.values())

    @property
    def opened_total(self) -> int:
        """Number of connections that were opened so far."""
        return self._forgotten[0] + sum(channel.opened_total for channel in self._channels.values())

    @property
    def failed_total(self) -> int:
        """Number of attempts to connect that failed so far."""
        return self._forgotten[1] + sum(channel.failed_total for channel in self._channels.values())

    @property
    def bytes_received(self) -> int:
        """Number of bytes received on all connections so far."""
        return self._forgotten[2] + sum(
            channel.bytes_received for channel in self._channels.values()
        )

    @property
    def bytes_sent(self) -> int:
        """Number of bytes sent on all connections so far."""
        return self._forgotten[3] + sum(channel.bytes_sent for channel in self._channels.values())

    def channel(self, destination: Destination) -> NodeChannel:
        """Return the channel to a destination. The connection opens with its first request."""
        channel = self._channels.get(destination)
        if channel is None:
            channel = NodeChannel(
                self._env,
                destination,
                self._settings,
                self._nursery,
                security=self._security,
                on_peer_closed=self._on_peer_closed,
                is_proven=lambda: self.opened_total > 0,
            )
            self._channels[destination] = channel
        return channel

    def connected(self, destination: Destination) -> RpcConnection | None:
        """Return the connection to a destination, or None if none is open."""
        channel = self._channels.get(destination)
        return None if channel is None else channel.connection

    async def connect(self, destination: Destination) -> RpcConnection:
        """Return the connection to a destination. Raises as ``NodeChannel.connect``."""
        return await self.channel(destination).connect()

    async def request(
        self,
        destination: Destination,
        request: Message,
        response_type: type[R],
        *,
        max_version: int | None = None,
        waits_ms: int = 0,
    ) -> R:
        """Send a request to a destination and return its response.

        Raises as ``NodeChannel.request``.
        """
        return await self.channel(destination).request(
            request, response_type, max_version=max_version, waits_ms=waits_ms
        )

    def is_failing(self, destination: Destination) -> bool:
        """Whether the last attempt to connect to a destination failed."""
        channel = self._channels.get(destination)
        return channel is not None and channel.is_failing

    def forget(self, destination: Destination) -> None:
        """Close the connection to a destination that is not used any more. Its counters stay.

        Requests that wait for a response from there get NETWORK_EXCEPTION at once.
        """
        channel = self._channels.pop(destination, None)
        if channel is not None:
            counts = (
                channel.opened_total,
                channel.failed_total,
                channel.bytes_received,
                channel.bytes_sent,
            )
            self._forgotten = [
                before + count for before, count in zip(self._forgotten, counts, strict=True)
            ]
            channel.close()

    def forget_address(self, host: str, port: int) -> None:
        """Close and drop the channels to an address, whatever the purpose of their connections."""
        for destination in [
            each for each in self._channels if (each.host, each.port) == (host, port)
        ]:
            self.forget(destination)


_OF_THE_NETWORK = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH})


def _reason(error: Exception) -> str:
    """Return why a connection failed, without the address, which the caller adds."""
    if isinstance(error, OSError) and error.errno in _OF_THE_NETWORK:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
