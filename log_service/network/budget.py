"""Limits shared by all listeners of a node, on connections and on request memory.

``ServerBudget`` decides whether a connection may enter and when a large frame may be received. It
never looks into a frame. It counts only memory that a connection cannot bound by itself: frames
larger than its buffer, and responses that are complete but must wait for an earlier one.

Invariants:

- Connections that wait for memory get it in the order of their arrival.
- One large frame is always allowed, so an exhausted budget delays requests and never fails them.
- Every granted byte is given back exactly once.
"""

import sys
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Protocol

import trio

from log_service.common.addresses import plain_address
from log_service.common.errors import ProtocolError
from log_service.config.views import ConnectionLimits, NetworkLimits
from log_service.network.frame_memory import FrameMemory

ALL_LISTENERS = ""
UNLIMITED_RATE = 2**31 - 1
MAX_HELD_COUNT = 1_000
"""Connections held before they are closed. Connections beyond this count are closed at once."""
MAX_LOGIN_FRAMES = 32
"""Large frames in progress at once from clients that have not logged in.

The limit keeps them from taking the memory of clients that have logged in.
"""
BURST_MS = 1_000
"""A rate allows a burst of this length after a period without connections."""


class _Waiter:
    __slots__ = ("granted", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.granted = trio.Event()


class AddressRates(Protocol):
    """Limits on how often addresses may connect (KIP-612)."""

    def refusal_delay_ms(self, host: str, now_ms: int) -> int:
        """Count a new connection, and return for how many ms to keep it open before it is closed.

        0 accepts the connection.
        """


class ServerBudget:
    """The connections and the request memory of one node, with their limits.

    ``address_rates`` is set while addresses have quotas. ``most_connections`` is the number of
    connections for which the process has descriptors. It caps the configured limits.
    """

    def __init__(self, limits: NetworkLimits, *, most_connections: int = sys.maxsize) -> None:
        self.most_connections = most_connections
        self.address_rates: AddressRates | None = None
        self.held_count = 0
        self.frame_memory = FrameMemory()
        self._limit_bytes = limits.max_request_bytes_in_flight
        self._count_of_host: Counter[str] = Counter()
        self._count_of_listener: Counter[str] = Counter()
        self._next_ms: dict[str, float] = {}
        self.set_connection_limits(limits.connections)
        self._held_bytes = 0
        self._frame_bytes = 0
        self._waiters: deque[_Waiter] = deque()
        self._login_frame_count = 0
        self.connection_count = 0
        self._last_connection_id = 0

    def __repr__(self) -> str:
        return (
            f"<ServerBudget connections={self.connection_count}"
            f" used={self.used_bytes}/{self._limit_bytes} waiting={len(self._waiters)}>"
        )

    @property
    def used_bytes(self) -> int:
        """Bytes of the large frames in progress, and of the responses that must wait."""
        return self._frame_bytes + self._held_bytes

    @property
    def is_exhausted(self) -> bool:
        """Whether the memory budget is used up.

        Connections with unanswered requests then stop reading. All others read on.
        """
        return self.used_bytes >= self._limit_bytes

    def next_connection_id(self) -> int:
        """Return a number that no other connection of the node has had."""
        self._last_connection_id += 1
        return self._last_connection_id

    def set_connection_limits(self, limits: ConnectionLimits) -> None:
        """Apply these limits from now on. Connections that are open stay open."""
        self._limits = limits
        self._max_count_of_host = dict(limits.max_count_of_host)
        self._max_count_of_listener = dict(limits.max_count_of_listener)
        self._max_rate_of_listener = dict(limits.max_rate_of_listener)

    def pace(self, listener_name: str, now_ms: int) -> float:
        """Count a new connection against the rates, and return by how many ms to delay it."""
        rates = {
            ALL_LISTENERS: self._limits.max_rate,
            listener_name: self._max_rate_of_listener.get(listener_name, UNLIMITED_RATE),
        }
        delay_ms = 0.0
        for name, rate in rates.items():
            if rate < UNLIMITED_RATE:
                due_ms = max(self._next_ms.get(name, -inf), now_ms - BURST_MS)
                self._next_ms[name] = due_ms + 1000 / max(rate, 1)
                delay_ms = max(delay_ms, due_ms - now_ms)
        return delay_ms

    def refusal_delay_ms(self, host: str, now_ms: int) -> int:
        """Count a new connection. Return for how many ms to keep it open before it is closed.

        This holds off addresses that connect too often. 0 accepts the connection.
        """
        return (
            0 if self.address_rates is None else self.address_rates.refusal_delay_ms(host, now_ms)
        )

    def add_connection(self, host: str, listener_name: str) -> str | None:
        """Count a new connection. Return None, or the reason why it must be closed.

        A refused connection is not counted.
        """
        limits = self._limits
        if self.connection_count >= limits.max_count:
            return (
                f"there are {self.connection_count} connections already, the limit is"
                f" {limits.max_count}"
            )
        if self.connection_count >= self.most_connections:
            return (
                f"there are {self.connection_count} connections already, and the descriptors that"
                " are left are for logs: raise ulimit -n"
            )
        count, limit = (
            self._count_of_listener[listener_name],
            self._max_count_of_listener.get(listener_name),
        )
        if limit is not None and count >= limit:
            return f"this listener has {count} connections already, its limit is {limit}"
        limit = self._max_count_of_host.get(plain_address(host), limits.max_count_per_host)
        if self._count_of_host[host] >= limit:
            return (
                f"this address has {self._count_of_host[host]} connections already, its limit is"
                f" {limit}"
            )
        self.connection_count += 1
        self._count_of_host[host] += 1
        self._count_of_listener[listener_name] += 1
        return None

    def remove_connection(self, host: str, listener_name: str) -> None:
        """Remove a counted connection."""
        self.connection_count -= 1
        self._count_of_listener[listener_name] -= 1
        self._count_of_host[host] -= 1
        if self._count_of_host[host] <= 0:
            del self._count_of_host[host]

    def acquire_frame_nowait(self, size_bytes: int) -> bool:
        """Take memory for a frame, and return whether that succeeded.

        No memory is taken while another connection waits for it.
        """
        if self._waiters or not self._has_room_for(size_bytes):
            return False
        self._frame_bytes += size_bytes
        return True

    async def acquire_frame(self, size_bytes: int) -> None:
        """Wait until a frame of this size may be received. ``release_frame`` returns the memory."""
        if self.acquire_frame_nowait(size_bytes):
            return
        waiter = _Waiter(size_bytes)
        self._waiters.append(waiter)
        try:
            await waiter.granted.wait()
        except BaseException:
            self._forget(waiter)
            raise

    def release_frame(self, size_bytes: int) -> None:
        """Give a frame's memory back."""
        self._frame_bytes -= size_bytes
        self._grant()

    @contextmanager
    def login_frame(self) -> Iterator[None]:
        """Count a large frame of a client that has not logged in, while it is received.

        Raises:
            ProtocolError: there are too many such frames. The connection must be closed.
        """
        if self._login_frame_count >= MAX_LOGIN_FRAMES:
            raise ProtocolError(
                f"clients that have not logged in send {self._login_frame_count} large frames"
                " already, the limit of a node"
            )
        self._login_frame_count += 1
        try:
            yield
        finally:
            self._login_frame_count -= 1

    def hold_response(self, size_bytes: int) -> None:
        """Count a ready response that cannot be sent yet.

        Never waits, but may exhaust the budget.
        """
        self._held_bytes += size_bytes

    def release_response(self, size_bytes: int) -> None:
        """Give back the memory of a held response that is being sent or was dropped."""
        self._held_bytes -= size_bytes
        self._grant()

    def _has_room_for(self, size_bytes: int) -> bool:
        return not self._frame_bytes or self.used_bytes + size_bytes <= self._limit_bytes

    def _grant(self) -> None:
        while self._waiters and self._has_room_for(self._waiters[0].size_bytes):
            waiter = self._waiters.popleft()
            self._frame_bytes += waiter.size_bytes
            waiter.granted.set()

    def _forget(self, waiter: _Waiter) -> None:
        if waiter.granted.is_set():
            self.release_frame(waiter.size_bytes)
        else:
            self._waiters.remove(waiter)
            self._grant()
