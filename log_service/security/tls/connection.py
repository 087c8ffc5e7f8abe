"""A TLS byte stream over another byte stream, with OpenSSL between two memory buffers.

OpenSSL is given no socket, so the same code runs over sockets and over the simulated network.
OpenSSL's memory buffers never shrink after a large write. Writes are therefore at most
``CHUNK_BYTES``, and an idle connection holds a receive buffer of ``IDLE_BYTES``.

A file slice is read and encrypted chunk by chunk, and the bytes before it are sent with the first
chunk. Kernel TLS is not used. Python cannot tell whether it is on, and a sendfile without it would
put the records in the clear on the wire.

A connection that is closed between two sends sends ``close_notify``, if the stream below takes it
at once. It does not wait for the peer, and the peer need not respond.

Invariants: one task receives and one task sends at a time (the callers ensure that). OpenSSL may
itself have bytes to send while one task receives and another sends. They are sent in order, because
only one task at a time empties the outgoing buffer. A cancelled or failed send closes the
connection, because part of a record may have been sent. Every failure is an ``OSError``.
"""

import contextlib
import errno
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

import trio

from log_service.common.env import Connection, FileSlice, RunInPool
from log_service.common.types import Buffer
from log_service.network.sockets import has_descriptor
from log_service.security.tls.failures import TlsError, named

CHUNK_BYTES: Final = 128 << 10
JOIN_BYTES: Final = 16 << 10
"""Smaller buffers are joined, because each write becomes a record, of at most 16 KiB."""
IDLE_BYTES: Final = 4 << 10
BUSY_BYTES: Final = 64 << 10
MAX_HANDSHAKE_BYTES: Final = 256 << 10
"""The most bytes from a peer before the handshake is complete.

A certificate chain has some thousands.
"""
RECORD_TYPES: Final = (21, 22)
"""The possible types of a peer's first record: alert or handshake."""
MAX_UNASKED_BYTES: Final = 64 << 10
"""The most pending bytes that OpenSSL wrote by itself.

A peer may keep asking for new keys, and read none of the responses.
"""
READ_NOW: Final[int] = getattr(os, "RWF_NOWAIT", 0)
"""A flag that limits reads to the page cache. It is 0 if the system has no such flag."""


class TlsConnection:
    """One TLS stream.

    Call ``handshake`` first. ``run_in_pool`` reads files that are not in memory.
    """

    __slots__ = (
        "_encrypted",
        "_incoming",
        "_inner",
        "_is_broken",
        "_is_closed",
        "_is_ended",
        "_is_flushing",
        "_is_secured",
        "_is_server",
        "_is_tls",
        "_lot",
        "_outgoing",
        "_read_bytes",
        "_read_into",
        "_run_in_pool",
        "_tls",
    )

    def __init__(
        self,
        inner: Connection,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        run_in_pool: RunInPool | None = None,
    ) -> None:
        self._inner = inner
        self._is_server = context.protocol is ssl.PROTOCOL_TLS_SERVER
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=self._is_server,
            server_hostname=server_hostname,
        )
        # ``read`` with a buffer returns the number of bytes. Its type stub does not say so.
        self._read_into: Callable[[int, memoryview], int] = cast("Any", self._tls.read)
        self._run_in_pool = run_in_pool
        self._read_bytes = IDLE_BYTES
        self._encrypted = bytearray(IDLE_BYTES)
        self._is_flushing = False
        self._is_broken = False
        self._is_secured = False  # the handshake is complete
        self._is_closed = False
        self._is_tls = False  # the first received byte began a TLS record
        self._is_ended = False  # the stream below has ended
        self._lot = trio.lowlevel.ParkingLot()

    @property
    def ssl_object(self) -> ssl.SSLObject:
        """The state of the TLS connection in the standard library."""
        return self._tls

    def __repr__(self) -> str:
        return (
            f"<TlsConnection {self._tls.version() or 'before its handshake'} over {self._inner!r}>"
        )

    @property
    def peer_host(self) -> str:
        """The peer's address."""
        return self._inner.peer_host

    @property
    def peer_port(self) -> int:
        """The peer's port."""
        return self._inner.peer_port

    @property
    def local_host(self) -> str:
        """The local address."""
        return self._inner.local_host

    @property
    def bytes_sent(self) -> int:
        """The number of encrypted bytes that the stream below has accepted."""
        return self._inner.bytes_sent

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate in DER, or None if the peer has shown none."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def is_resumed(self) -> bool:
        """Whether the handshake resumed an earlier session (TLS 1.2).

        The peer showed its certificate in that session, and not now.
        """
        return bool(self._tls.session_reused)

    @property
    def version(self) -> str | None:
        """The negotiated protocol, such as TLSv1.3."""
        return self._tls.version()

    async def handshake(self) -> None:
        """Perform the handshake.

        The caller sets the deadline, and closes the stream on failure.

        Raises:
            TlsError: the handshake failed; the text says why.
            ConnectionAbortedError: the peer left before it sent anything, as a probe of an open
                port does.
            OSError: the peer is gone.
        """
        received = 0
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                received += await self._receive_encrypted()
                if received > MAX_HANDSHAKE_BYTES:
                    raise TlsError(
                        f"the peer sent {received} bytes and no end of a handshake"
                    ) from None
                continue
            except ssl.SSLError as error:
                if self._is_ended and not received:
                    raise ConnectionAbortedError(
                        errno.ECONNABORTED, "the peer left before it sent any TLS record"
                    ) from error
                await self._flush()  # send the alert that says why
                raise named(error, is_server=self._is_server, is_tls=self._is_tls) from error
            await self._flush()
            self._is_secured = True
            return

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        """Wait for bytes and put them at the front of ``buffer``. 0 is the end of the stream."""
        while True:
            received = self._decrypt_into(buffer)
            if self._outgoing.pending and not self._is_ended:
                await self._flush_unasked()
            if received is not None:
                return received
            await self._receive_encrypted()

    async def send_gathered(self, buffers: Sequence[Buffer]) -> None:
        """Send all buffers, in order."""
        for chunk in _chunks(buffers):
            await self._send(chunk)

    async def send_file(self, header: Sequence[Buffer], file_slice: FileSlice) -> None:
        """Send ``header`` and then the bytes of a file slice, chunk by chunk.

        Raises:
            OSError: the peer is gone, or the file was shorter than the slice; the connection must
                then be closed.
        """
        if not has_descriptor(file_slice):
            await self.send_gathered([*header, file_slice.read()])
            return
        start = b"".join(header)
        if len(start) > JOIN_BYTES:
            await self.send_gathered([start])
            start = b""
        chunk = memoryview(bytearray(min(CHUNK_BYTES, len(start) + len(file_slice))))
        chunk[: len(start)] = start
        filled = len(start)
        position, end = file_slice.position, file_slice.position + len(file_slice)
        while position < end:
            rest = chunk[filled : filled + end - position]
            count = await self._read_into_chunk(file_slice.fileno(), position, rest)
            if not count:
                raise OSError(
                    errno.EIO,
                    f"the file ended {end - position} bytes before the end of the leased range, at"
                    f" position {position}",
                )
            position += count
            await self._send(chunk[: filled + count])
            filled = 0

    def close(self) -> None:
        """Close at once. Idempotent. A task that waits on the connection gets OSError."""
        if not self._is_closed:
            self._is_closed = True
            self._notify_peer()
        self._inner.close()
        self._lot.unpark_all()

    def _notify_peer(self) -> None:
        """Send ``close_notify`` (RFC 8446, 6.1), unless a record was cut or the peer is gone.

        A stream below that cannot send without waiting does not send it.
        """
        if not self._is_secured or self._is_broken or self._is_flushing or self._is_ended:
            return
        send_nowait: Callable[[Buffer], None] | None = getattr(self._inner, "send_nowait", None)
        with contextlib.suppress(ssl.SSLError):  # raised until the peer's close_notify arrives
            self._tls.unwrap()
        if send_nowait is not None and self._outgoing.pending:
            send_nowait(self._outgoing.read())

    def _decrypt_into(self, buffer: bytearray | memoryview) -> int | None:
        """Put decrypted bytes into ``buffer``.

        Return their number, 0 at the end, or None if more must come.
        """
        read_into, incoming, view, received = self._read_into, self._incoming, memoryview(buffer), 0
        size = len(view)
        try:
            while received < size:
                # Loop over records, because clients make small ones (under 1 KiB).
                count = read_into(size - received, view[received:] if received else view)
                if not count:
                    return received
                received += count
                if not incoming.pending and not self._tls.pending():
                    break
        except ssl.SSLWantReadError:
            return received or None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return received  # closed with or without close_notify; frames show truncation
        except ssl.SSLError as error:
            if not received:
                raise named(error, is_server=self._is_server) from error
        return received

    async def _receive_encrypted(self) -> int:
        """Wait for encrypted bytes and pass them to OpenSSL. Return their number, 0 at the end."""
        encrypted = self._encrypted
        if len(encrypted) != self._read_bytes:
            encrypted = self._encrypted = bytearray(self._read_bytes)
        received = await self._inner.receive_into(encrypted)
        if not received:
            self._is_ended = True
            self._incoming.write_eof()
            return 0
        self._is_tls = self._is_tls or encrypted[0] in RECORD_TYPES
        self._incoming.write(memoryview(encrypted)[:received])
        self._read_bytes = (
            BUSY_BYTES
            if received == len(encrypted)
            else IDLE_BYTES
            if received < IDLE_BYTES
            else self._read_bytes
        )
        return received

    async def _send(self, chunk: Buffer) -> None:
        """Encrypt at most ``CHUNK_BYTES`` and send them."""
        if self._is_broken:
            raise _broken()
        view, sent = memoryview(chunk), 0
        try:
            while sent < len(view):
                sent += self._tls.write(view[sent:])
        except ssl.SSLError as error:
            raise named(error, is_server=self._is_server) from error
        await self._flush()

    async def _flush(self) -> None:
        """Send the pending bytes of OpenSSL, after the bytes that another task is sending."""
        while self._is_flushing:
            await self._lot.park()
        if self._is_broken:
            raise _broken()
        self._is_flushing = True
        try:
            while self._outgoing.pending:
                await self._inner.send_gathered([self._outgoing.read()])
        except BaseException:
            self._is_broken = True
            self.close()
            raise
        finally:
            self._is_flushing = False
            self._lot.unpark()

    async def _flush_unasked(self) -> None:
        """Send the bytes that OpenSSL produced during a receive, unless another task is sending.

        Raises:
            TlsError: too many of these bytes are pending, because the peer does not read.
        """
        if not self._is_flushing:
            await self._flush()
        elif self._outgoing.pending > MAX_UNASKED_BYTES + CHUNK_BYTES:
            self.close()
            raise TlsError("the peer asks for new keys and reads nothing")

    async def _read_into_chunk(self, descriptor: int, position: int, chunk: memoryview) -> int:
        """Read from the page cache at once, or from the disk in the pool.

        Return the number of bytes.
        """
        if READ_NOW:
            try:
                return os.preadv(descriptor, [chunk], position, READ_NOW)
            except OSError as error:
                if error.errno not in {errno.EAGAIN, errno.EOPNOTSUPP}:
                    raise
        read = partial(os.preadv, descriptor, [chunk], position)
        return read() if self._run_in_pool is None else await self._run_in_pool(read)


def _chunks(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the bytes of all buffers in order, in chunks of limited size. Join small buffers."""
    small: list[Buffer] = []
    small_bytes = 0
    for buffer in buffers:
        size = len(buffer)
        if size < JOIN_BYTES:
            small.append(buffer)
            small_bytes += size
            if small_bytes < JOIN_BYTES:
                continue
        if small:
            yield b"".join(small)
            small, small_bytes = [], 0
        if size >= JOIN_BYTES:
            yield from (
                memoryview(buffer)[start : start + CHUNK_BYTES]
                for start in range(0, size, CHUNK_BYTES)
            )
    if small_bytes:
        yield b"".join(small)


def _broken() -> OSError:
    return OSError(errno.EPIPE, "an earlier send on this connection was cut short")
