"""Passes a client's bytes from the task that receives them to the task that reads requests.

Invariant: at most ``MAX_RECEIVED_BYTES`` and the bytes of one receive are kept. Beyond that the
receiving task pauses.
"""

from collections.abc import Callable
from typing import Final

import trio

from log_service.common.env import Connection

IDLE_BYTES: Final = 4 << 10
"""The receive buffer of a connection that receives little."""
MAX_RECEIVED_BYTES: Final = 32 << 10


class ReceivedBytes:
    """The received bytes of one connection. ``is_ended`` tells that the client sends no more."""

    def __init__(self) -> None:
        self.is_ended = False
        self._waiting = bytearray()
        self._arrival = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<ReceivedBytes waiting={len(self._waiting)} ended={self.is_ended}>"

    @property
    def has_any(self) -> bool:
        """Whether there are bytes to take, or the stream has ended."""
        return bool(self._waiting) or self.is_ended

    async def receive_all(self, stream: Connection, on_end: Callable[[], None]) -> None:
        """Receive until the end of the stream, and call ``on_end`` then.

        Raises:
            OSError: the connection is lost.
        """
        buffer = bytearray(IDLE_BYTES)
        try:
            while count := await stream.receive_into(buffer):
                self._waiting += memoryview(buffer)[:count]
                self._arrival.unpark()
                if count == len(buffer) < MAX_RECEIVED_BYTES:
                    buffer = bytearray(MAX_RECEIVED_BYTES)
                while len(self._waiting) >= MAX_RECEIVED_BYTES:
                    await self._room.park()
        except OSError:
            self._end()
            raise
        self._end()
        on_end()

    def _end(self) -> None:
        self.is_ended = True
        self._arrival.unpark_all()

    async def wait(self) -> None:
        """Wait until there are bytes to take, or the stream has ended."""
        while not self._waiting and not self.is_ended:
            await self._arrival.park()

    def take(self) -> bytes:
        """Return and forget all received bytes. The result may be empty."""
        taken = bytes(self._waiting)
        self._waiting.clear()
        if self._room:
            self._room.unpark()
        return taken
