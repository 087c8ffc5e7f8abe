"""Operations on one open file descriptor: leases, atomic writes and syncs.

A lease keeps a descriptor open for a reader. This module decides when a descriptor is closed, and
which system call each platform uses. It knows neither paths nor logs. Only ``files`` uses it.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from log_service.common.types import Buffer

_MAX_BUFFER_COUNT = 1024
_COPY_BYTES = 1 << 20
# macOS only, because fsync leaves bytes in the disk's cache there.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


class Descriptor:
    """An open file descriptor. It is closed when its owner has closed it and no lease is left.

    Any thread may take and release leases.
    """

    __slots__ = ("_guard", "is_closing", "lease_count", "number")

    def __init__(self, number: int) -> None:
        self._guard = Lock()
        self.number = number
        self.lease_count = 0
        self.is_closing = False

    def lease(self) -> None:
        """Keep the descriptor open until ``release``.

        Raises:
            OSError: EBADF, the descriptor is closed.
        """
        with self._guard:
            if self.is_closing and not self.lease_count:
                raise OSError(errno.EBADF, "the file is closed")
            self.lease_count += 1

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return at most ``size_bytes`` from ``position``."""
        chunk = os.pread(self.number, size_bytes, position)
        if len(chunk) in {0, size_bytes}:
            return chunk
        chunks = [chunk]
        size_bytes -= len(chunk)
        while size_bytes and (
            chunk := os.pread(self.number, size_bytes, position := position + len(chunk))
        ):
            chunks.append(chunk)
            size_bytes -= len(chunk)
        return b"".join(chunks)

    def sync(self) -> None:
        """Make the bytes durable. Blocks."""
        sync_descriptor(self.number)

    def release(self) -> None:
        """Release one lease."""
        with self._guard:
            self.lease_count -= 1
            is_last = self.is_closing and not self.lease_count
        if is_last:
            os.close(self.number)

    def close(self) -> None:
        """Close the descriptor now, or when the last lease is released.

        Must be called only once.
        """
        with self._guard:
            self.is_closing = True
            is_free = not self.lease_count
        if is_free:
            os.close(self.number)


class RealFileSlice:
    """A leased range of a file on disk. ``fileno`` and ``position`` are for sendfile."""

    __slots__ = ("_descriptor", "_is_released", "_size_bytes", "position")

    def __init__(self, descriptor: Descriptor, position: int, size_bytes: int) -> None:
        descriptor.lease()
        self._descriptor = descriptor
        self._is_released = False
        self._size_bytes = size_bytes
        self.position = position

    def __len__(self) -> int:
        return self._size_bytes

    def __repr__(self) -> str:
        state = "released" if self._is_released else f"fd={self._descriptor.number}"
        return f"<RealFileSlice {self.position}+{self._size_bytes} {state}>"

    def fileno(self) -> int:
        """Return the descriptor's number, which is valid until ``release``."""
        assert not self._is_released, "a released slice has no descriptor"
        return self._descriptor.number

    def read(self) -> bytes:
        """Return the whole range.

        Raises:
            OSError: the file is shorter than the range, or cannot be read.
        """
        content = self._descriptor.read(self.position, self._size_bytes)
        if len(content) < self._size_bytes:
            text = (
                f"the file ends after {len(content)} of {self._size_bytes} bytes at position"
                f" {self.position}"
            )
            raise OSError(text)
        return content

    def release(self) -> None:
        """Release the lease. A second call has no effect."""
        if not self._is_released:
            self._is_released = True
            self._descriptor.release()


def write_all(number: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write all buffers at ``position``, the end of the file, and return their size in bytes.

    This takes one system call unless the disk is almost full.

    Raises:
        OSError: not all buffers could be written. The file is truncated back to ``position``.
    """
    if len(buffers) > _MAX_BUFFER_COUNT:
        buffers = [b"".join(buffers)]
    size_bytes = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
    try:
        written = os.pwritev(number, buffers, position)
        if written < size_bytes:
            _write_rest(number, b"".join(buffers), written, position)
    except OSError:
        with contextlib.suppress(OSError):  # the first error is the one to report
            os.ftruncate(number, position)
        raise
    return size_bytes


def _write_rest(number: int, content: bytes, written: int, position: int) -> None:
    """Continue after a short write. If the disk is full, the next write raises the error."""
    while written < len(content):
        count = os.pwrite(number, memoryview(content)[written:], position + written)
        if count == 0:
            text = f"nothing more can be written after {written} of {len(content)} bytes"
            raise OSError(text)
        written += count


def sync_descriptor(number: int) -> None:
    """Make the bytes and the size of a file durable."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(number, _FULL_SYNC)
    else:
        os.fdatasync(number)


def copy_prefix(source: int, target: Path, size_bytes: int) -> int:
    """Copy the first ``size_bytes`` to a new file durably, and return its descriptor."""
    number = os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        position = 0
        while position < size_bytes and (
            chunk := os.pread(source, min(_COPY_BYTES, size_bytes - position), position)
        ):
            position += write_all(number, [chunk], position)
        sync_descriptor(number)
    except OSError:
        os.close(number)
        target.unlink(missing_ok=True)
        raise
    return number
