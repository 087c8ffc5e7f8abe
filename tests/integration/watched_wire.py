"""A proxy before each port of a cluster reads along.

It checks that the bytes are TLS, record by record, and nothing else.

A TLS record has five bytes before it: a type of 20 to 23, a version that begins with 3, and the
length of what follows. A stream that is not made of such records has bytes in the clear;
``WatchedWire.clear`` names it. Bytes pass on as they came.
"""

import asyncio
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

RECORD_TYPES = range(20, 24)
HEADER_BYTES, MAX_RECORD_BYTES = 5, (1 << 14) + 2_048
CHUNK_BYTES = 1 << 16


class RecordReader:
    """One direction of one connection; ``is_clear`` from the first byte that is in no TLS record."""

    def __init__(self) -> None:
        self.is_clear = False
        self._pending = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what has passed."""
        self._pending += data
        while not self.is_clear and len(self._pending) >= HEADER_BYTES:
            kind, major = self._pending[0], self._pending[1]
            length = int.from_bytes(self._pending[3:HEADER_BYTES])
            if kind not in RECORD_TYPES or major != 3 or length > MAX_RECORD_BYTES:
                self.is_clear = True
            elif len(self._pending) < HEADER_BYTES + length:
                return
            else:
                del self._pending[: HEADER_BYTES + length]


class WatchedWire:
    """The network between the nodes of ``ClusterNodes`` and all that connect to them.

    It runs in a thread of its own.
    """

    def __init__(self) -> None:
        self.clear: list[str] = []
        self.passed_bytes = 0
        self.connection_count = 0
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def address_of(self, node_id: int, port: int) -> int:
        """Return the port that others are told instead of a node's own."""
        return asyncio.run_coroutine_threadsafe(self._listen(node_id, port), self._loop).result()

    def open(self, node_id: int, process_id: int) -> None:
        """Nothing to do."""

    def close(self, node_id: int) -> None:
        """Nothing to do: connections end with the process."""

    async def _listen(self, node_id: int, port: int) -> int:
        async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connection_count += 1
            try:
                beyond = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.close()
                return
            await asyncio.gather(
                self._pass(f"to node {node_id}", reader, beyond[1]),
                self._pass(f"from node {node_id}", beyond[0], writer),
            )

        server = await asyncio.start_server(join, "127.0.0.1", 0, family=socket.AF_INET)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _pass(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        records = RecordReader()
        try:
            with suppress(OSError):
                while data := await reader.read(CHUNK_BYTES):
                    records.feed(data)
                    self.passed_bytes += len(data)
                    if records.is_clear:
                        self.clear.append(f"{name}: {data[:80]!r}")
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
