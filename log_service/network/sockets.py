"""The real network: non-blocking TCP sockets under trio, as ``common.env`` describes them.

The module moves bytes to and from the kernel with the fewest calls. A receive waits first and then
reads once, straight into the caller's buffer. A send tries at once and waits only while the
kernel's buffer is full. File slices are sent with ``sendfile`` if the system has it. The module
knows nothing of frames, limits or deadlines.

Invariants:

- One task receives and one task sends at a time. The callers ensure this.
- Every failure is an ``OSError``. After ``close`` every waiting call gets one.
- A send that need not wait is not a checkpoint, so a loop that only sends must not be endless.
"""

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Sequence
from typing import Protocol, TypeGuard

import trio
from trio.lowlevel import notify_closing, wait_readable, wait_writable

from log_service.common.addresses import plain_address
from log_service.common.env import FileSlice
from log_service.common.types import Buffer

SYSTEM_DEFAULT = -1
MAX_GATHERED_BUFFER_COUNT = min(os.sysconf("SC_IOV_MAX"), 1024)
MSG_MORE: int = getattr(socket, "MSG_MORE", 0)  # without it the header goes out in its own packet
HAS_SENDFILE = sys.platform == "linux"  # other systems differ, so slices are read and sent there


class DescriptorSlice(Protocol):
    """A slice of a real file, which the kernel can send by itself."""

    @property
    def position(self) -> int:
        """Start of the slice in the file, in bytes."""

    def fileno(self) -> int:
        """Return the file's descriptor."""

    def __len__(self) -> int: ...


def has_descriptor(file_slice: FileSlice) -> TypeGuard[DescriptorSlice]:
    """Return whether a slice belongs to a real file.

    It tests one attribute, because ``isinstance`` with a protocol takes 14 us.
    """
    return hasattr(file_slice, "fileno")


class SocketConnection:
    """One connected TCP socket."""

    __slots__ = ("_descriptor", "_socket", "bytes_sent", "local_host", "peer_host", "peer_port")

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        peer = connected.getpeername()
        self.peer_host, self.peer_port = _host_of(peer), _port_of(peer)
        self.local_host = _host_of(connected.getsockname())
        self.bytes_sent = 0
        self._socket = connected
        self._descriptor = connected.fileno()

    def __repr__(self) -> str:
        return (
            f"<SocketConnection {self.local_host} ->"
            f" {self.peer_host}{' closed' if self._descriptor < 0 else ''}>"
        )

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        """Wait for bytes, write them to the front of ``buffer``, and return how many they are.

        0 is the end of the stream.
        """
        while True:
            if self._descriptor < 0:
                raise _closed()
            try:
                await wait_readable(self._descriptor)
                return self._socket.recv_into(buffer)
            except BlockingIOError:
                continue  # readiness was a false alarm
            except trio.ClosedResourceError as error:
                raise _closed() from error

    async def send_gathered(self, buffers: Sequence[Buffer]) -> None:
        """Send all buffers, in order, with as few system calls as possible."""
        if len(buffers) == 1:  # by far the most common: a response, or several that were joined
            try:
                sent = self._socket.send(buffers[0])
            except BlockingIOError:
                sent = 0
            self.bytes_sent += sent
            if sent == len(buffers[0]):
                return
            buffers = _unsent(buffers, sent)
        await self._send_all(buffers, 0)

    async def send_file(self, header: Sequence[Buffer], file_slice: FileSlice) -> None:
        """Send ``header`` and then a file slice, within the kernel if the slice allows it.

        Raises:
            OSError: the peer is gone, or the file is shorter than the slice. The connection must
                then be closed.
        """
        if not (HAS_SENDFILE and has_descriptor(file_slice)):
            await self._send_all([*header, file_slice.read()], 0)
            return
        await self._send_all(header, MSG_MORE)
        position = file_slice.position
        end = position + len(file_slice)
        while position < end:
            position += await self._send_file_part(file_slice.fileno(), position, end - position)

    def send_nowait(self, content: Buffer) -> None:
        """Send the bytes that the kernel takes at once, and drop the rest.

        Used for a last response before ``close``.
        """
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self.bytes_sent += self._socket.send(content)

    def close(self) -> None:
        """Close at once. A task that waits on the connection gets OSError. Idempotent."""
        if self._descriptor >= 0:
            notify_closing(self._descriptor)
            self._descriptor = -1
            self._socket.close()

    async def _send_all(self, buffers: Sequence[Buffer], flags: int) -> None:
        while buffers:
            try:
                sent = self._send_once(buffers, flags)
            except BlockingIOError:
                await self._wait_writable()
                continue
            self.bytes_sent += sent
            buffers = _unsent(buffers, sent)

    def _send_once(self, buffers: Sequence[Buffer], flags: int) -> int:
        if len(buffers) == 1:
            return self._socket.send(buffers[0], flags)
        return self._socket.sendmsg(buffers[:MAX_GATHERED_BUFFER_COUNT], (), flags)

    async def _send_file_part(self, file_descriptor: int, position: int, size_bytes: int) -> int:
        while True:
            try:
                sent = os.sendfile(
                    self._require_descriptor(), file_descriptor, position, size_bytes
                )
            except BlockingIOError:
                await self._wait_writable()
                continue
            if sent == 0:
                raise OSError(
                    errno.EIO,
                    f"the file ended {size_bytes} bytes before the end of the leased range, at"
                    f" position {position}",
                )
            self.bytes_sent += sent
            return sent

    async def _wait_writable(self) -> None:
        try:
            await wait_writable(self._require_descriptor())
        except trio.ClosedResourceError as error:
            raise _closed() from error

    def _require_descriptor(self) -> int:
        if self._descriptor < 0:
            raise _closed()
        return self._descriptor


class SocketListener:
    """One listening TCP socket. Connections aborted before they are accepted are skipped."""

    __slots__ = ("_descriptor", "_socket", "host", "port")

    def __init__(self, listening: socket.socket) -> None:
        listening.setblocking(False)
        address = listening.getsockname()
        self.host: str = address[0]
        self.port: int = address[1]
        self._socket = listening
        self._descriptor = listening.fileno()

    def __repr__(self) -> str:
        return (
            f"<SocketListener {self.host}:{self.port}{' closed' if self._descriptor < 0 else ''}>"
        )

    async def accept(self) -> SocketConnection:
        """Wait for the next connection.

        Raises:
            OSError: the listener was closed, or the system is out of descriptors or memory. Then a
                later call may succeed.
        """
        while True:
            if self._descriptor < 0:
                raise _closed()
            try:
                await wait_readable(self._descriptor)
            except trio.ClosedResourceError as error:
                raise _closed() from error
            connection = self._accept_nowait()
            if connection is not None:
                return connection

    def close(self) -> None:
        """Stop listening; a waiting ``accept`` raises OSError. Idempotent."""
        if self._descriptor >= 0:
            notify_closing(self._descriptor)
            self._descriptor = -1
            self._socket.close()

    def _accept_nowait(self) -> SocketConnection | None:
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        try:
            return SocketConnection(accepted)
        except OSError:  # reset between the handshake and here
            accepted.close()
            return None


class SocketNetwork:
    """TCP over IPv4 and IPv6.

    The buffer sizes are the kernel's (SO_SNDBUF, SO_RCVBUF). A size of -1 leaves the system's own
    tuning on.
    """

    __slots__ = ("_receive_buffer_bytes", "_send_buffer_bytes")

    def __init__(
        self, *, send_buffer_bytes: int = SYSTEM_DEFAULT, receive_buffer_bytes: int = SYSTEM_DEFAULT
    ) -> None:
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes

    async def listen(self, host: str, port: int, *, backlog: int = 128) -> SocketListener:
        """Bind and listen.

        An empty host or ``::`` binds every IPv4 and IPv6 address of this machine. ``0.0.0.0`` binds
        IPv4 only.

        Raises:
            OSError: the address is in use or not ours.
        """
        if host in {"", "::"} and socket.has_dualstack_ipv6():
            listening = socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True
            )
        else:
            listening = await _bind(host, port, backlog)
        self._size_buffers(listening)  # inherited by what is accepted
        return SocketListener(listening)

    async def connect(self, host: str, port: int) -> SocketConnection:
        """Connect to the first address of ``host`` that responds (RFC 8305).

        The caller sets the deadline.

        Raises:
            OSError: refused, unreachable, unknown host.
        """
        try:
            stream = await trio.open_tcp_stream(host, port)
        except ValueError as error:  # a name that cannot be encoded, a port out of range
            raise OSError(errno.EINVAL, f"cannot connect to {host}:{port}: {error}") from error
        except OSError as error:
            raise _plain_error(error, f"{host}:{port}") from error
        connected = socket.socket(fileno=stream.socket.detach())
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # Trio's streams lower this limit. 0 restores the system's value.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)
        try:
            self._size_buffers(connected)
            return SocketConnection(connected)
        except OSError:  # reset already
            connected.close()
            raise

    def _size_buffers(self, target: socket.socket) -> None:
        if self._send_buffer_bytes != SYSTEM_DEFAULT:
            target.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        if self._receive_buffer_bytes != SYSTEM_DEFAULT:
            target.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)


async def _bind(host: str, port: int, backlog: int) -> socket.socket:
    try:
        addresses = await trio.socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:  # its number is not an errno
        raise OSError(
            errno.EADDRNOTAVAIL,
            f"{error.strerror} (while attempting to bind on address {(host, port)})",
        ) from error
    family, _, _, _, address = addresses[0]
    return socket.create_server(address[:2], family=family, backlog=backlog)


def _plain_error(error: OSError, where: str) -> OSError:
    """Return the error of one of the tried addresses, as the system would have reported it.

    An error other than "connection refused" is preferred, because a process may listen at that
    address. Hence a name is refused only if all of its addresses refuse.
    """
    tried = error.__cause__
    if not isinstance(tried, BaseExceptionGroup):
        return error
    others = (each for each in tried.exceptions if not isinstance(each, ConnectionRefusedError))
    first = next(others, tried.exceptions[0])
    return (
        OSError(first.errno, f"{where}: {first.strerror}") if isinstance(first, OSError) else error
    )


def _unsent(buffers: Sequence[Buffer], sent: int) -> Sequence[Buffer]:
    """Return the rest of ``buffers`` after their first ``sent`` bytes."""
    for index, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[index + 1 :]]
        sent -= len(buffer)
    return ()


def _host_of(address: object) -> str:
    """Return the host of a socket address, with its zone. An IPv4-mapped address becomes IPv4."""
    host = str(address[0]) if isinstance(address, tuple) else ""
    return host if "%" in host else plain_address(host)


def _port_of(address: object) -> int:
    return int(address[1]) if isinstance(address, tuple) else 0


def _closed() -> OSError:
    return OSError(errno.EBADF, "the connection or listener was closed on our side")
