"""A small TCP proxy stands before each listener of a cluster.

It can cut, hold and slow down. A node is told to everybody by the ports of its proxies, so that
each connection to it passes here. Who connects is found by the process that owns the other end of
the connection (``/proc``): a cut between nodes 1 and 2 leaves both their clients and node 3 alone.

Two kinds of cut. A *held* direction loses nothing: bytes wait, as they do on a network that loses
packets and sends them again, and arrive once it is healed; a connection that begins meanwhile
waits, too. A *reset* ends connections at once. While a node's process does not run, its ports
refuse connections, as the system does for a process that is gone.

One thread runs everything here; its methods may be called from any other one.
"""

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

HOST = "127.0.0.1"
CLIENTS = 0
"""Whoever is no node."""
CHUNK_BYTES = 65_536
ABORTED = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing sends a reset."""
Pair = tuple[int, int]
"""From which node to which node."""
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class _Connection:
    """Both ends of one connection: ``source`` has connected, to ``target``."""

    def __init__(self, source: int, target: int, near: trio.SocketStream) -> None:
        self.source = source
        self.target = target
        self.near = near
        self.far: trio.SocketStream | None = None
        self.scope = trio.CancelScope()

    def reset(self) -> None:
        """End it at once, with a reset to both ends."""
        for stream in (self.near, self.far):
            if stream is not None:
                with suppress(OSError):
                    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORTED)
        self.scope.cancel()


class Network:
    """The network has all proxies of a cluster.

    ``with Network() as network`` runs them, ``ClusterNodes(..., ways=network)`` uses them.
    """

    def __init__(self) -> None:
        self._ports: dict[int, dict[int, int]] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._processes: dict[int, int] = {}
        self._connections: set[_Connection] = set()
        self._held = Counter[Pair]()
        self._delays: Mapping[int, float] = {}
        self._changed = trio.Event()
        self._is_over = trio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)
        self.connection_count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._call(self._is_over.set)
        self._thread.join()
        for bound in self._sockets.values():
            bound.close()

    # What ``ClusterNodes`` asks for

    def address_of(self, node_id: int, port: int) -> int:
        """Return the port of a proxy before a port of a node."""
        bound = _bound()
        told = int(bound.getsockname()[1])
        self._sockets[told] = bound
        self._ports.setdefault(node_id, {})[told] = port
        return told

    def open(self, node_id: int, process_id: int) -> None:
        """Take connections for a node, whose process has started."""
        self._call(partial(self._open, node_id, process_id))

    def close(self, node_id: int) -> None:
        """Refuse connections to a node, whose process has ended."""
        self._call(partial(self._close, node_id))

    # What happens to the network

    def hold(self, pairs: Iterable[Pair]) -> None:
        """Hold back the bytes from one node to another, for each of these pairs.

        A pair that is held twice is to be released twice.
        """
        self._call(partial(self._set, held=self._held + Counter(pairs)))

    def release(self, pairs: Iterable[Pair]) -> None:
        """Let pass again what was held back."""
        self._call(partial(self._set, held=self._held - Counter(pairs)))

    def delay(self, node_id: int, seconds: float) -> None:
        """Let everything to and from a node take so much longer."""
        self._call(partial(self._set, delays={**self._delays, node_id: seconds}))

    def heal(self) -> None:
        """Let everything pass again, at once."""
        self._call(partial(self._set, held=Counter(), delays={}))

    def reset(self, node_id: int) -> None:
        """End each connection to and from a node."""
        self._call(partial(self._reset, node_id))

    # In the thread

    def _call(self, act: Callable[[], None]) -> None:
        with suppress(trio.RunFinishedError):
            trio.from_thread.run_sync(act, trio_token=self._token)

    def _run(self) -> None:
        trio.run(self._main)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self._nursery:
            self._started.set()
            await self._is_over.wait()
            self._nursery.cancel_scope.cancel()

    def _set(
        self, *, held: Counter[Pair] | None = None, delays: Mapping[int, float] | None = None
    ) -> None:
        self._held = self._held if held is None else held
        self._delays = self._delays if delays is None else delays
        self._changed.set()
        self._changed = trio.Event()

    def _reset(self, node_id: int) -> None:
        for connection in self._connections:
            if node_id in {connection.source, connection.target}:
                connection.reset()

    def _open(self, node_id: int, process_id: int) -> None:
        self._processes[node_id] = process_id
        for told, port in self._ports.get(node_id, {}).items():
            listening = self._sockets[told]
            listening.listen(128)
            self._nursery.start_soon(
                self._listen,
                node_id,
                trio.SocketListener(trio.socket.from_stdlib_socket(listening)),
                port,
            )

    def _close(self, node_id: int) -> None:
        self._processes.pop(node_id, None)
        for told in self._ports.get(node_id, {}):
            trio.lowlevel.notify_closing(self._sockets[told])
            self._sockets[told].close()
            self._sockets[told] = _bound(told)

    async def _listen(self, node_id: int, listener: trio.SocketListener, port: int) -> None:
        with suppress(*BROKEN):
            while True:
                self._nursery.start_soon(self._serve, node_id, await listener.accept(), port)

    async def _serve(self, target: int, near: trio.SocketStream, port: int) -> None:
        connection = _Connection(self._owner_of(near), target, near)
        self._connections.add(connection)
        self.connection_count += 1
        try:
            with connection.scope:
                await self._pass(connection, port)
        finally:
            self._connections.discard(connection)
            for stream in (near, connection.far):
                if stream is not None:
                    stream.socket.close()

    async def _pass(self, connection: _Connection, port: int) -> None:
        there, back = (connection.source, connection.target), (connection.target, connection.source)
        await self._until_passable(there)
        await self._until_passable(back)
        try:
            connection.far = await trio.open_tcp_stream(HOST, port)
        except OSError:
            connection.reset()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pump, connection, there, connection.near, connection.far)
            nursery.start_soon(self._pump, connection, back, connection.far, connection.near)

    async def _pump(
        self,
        connection: _Connection,
        pair: Pair,
        source: trio.SocketStream,
        sink: trio.SocketStream,
    ) -> None:
        try:
            while chunk := await source.receive_some(CHUNK_BYTES):
                await self._until_passable(pair)
                seconds = max(self._delays.get(node_id, 0) for node_id in pair)
                if seconds:
                    await trio.sleep(seconds)
                await sink.send_all(chunk)
            await self._until_passable(pair)
            await sink.send_eof()
        except BROKEN:
            await self._until_passable(pair)
            connection.reset()

    async def _until_passable(self, pair: Pair) -> None:
        while pair in self._held:
            await self._changed.wait()

    def _owner_of(self, near: trio.SocketStream) -> int:
        """The node whose process has the other end of a connection, else ``CLIENTS``."""
        try:
            inode = _inode(near.socket.getpeername()[1], near.socket.getsockname()[1])
        except OSError:
            return CLIENTS  # it is gone already
        return next(
            (
                node_id
                for node_id, process_id in self._processes.items()
                if _has_socket(process_id, inode)
            ),
            CLIENTS,
        )


def _bound(port: int = 0) -> socket.socket:
    """A port that is taken, and refuses connections until it listens."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    bound.setblocking(False)
    return bound


def _inode(local_port: int, remote_port: int) -> str:
    """Return the system's number of the socket at one end of a connection within this machine.

    It is empty where it is gone already.
    """
    ends = (f":{local_port:04X}", f":{remote_port:04X}")
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[1].endswith(ends[0]) and words[2].endswith(ends[1]):
            return words[9]
    return ""


def _has_socket(process_id: int, inode: str) -> bool:
    with suppress(OSError):
        for descriptor in Path(f"/proc/{process_id}/fd").iterdir():
            with suppress(OSError):
                if descriptor.readlink().name == f"socket:[{inode}]":
                    return True
    return False
