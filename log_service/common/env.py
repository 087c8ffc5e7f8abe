"""The interfaces between the log service and its environment. This module implements nothing.

Everything a node needs from outside is one injected ``NodeEnv``: two clocks, randomness, files and
a network. A client's ``Env`` has no files. The broker and the client each build the real
environment. The simulated one in the tests has virtual time, memory streams and a disk that loses
unsynced writes. The interfaces offer the operations of the fast path: a connection sends gathered
buffers and slices of files, and no descriptor leaves a file. Waiting is trio's own (``trio.sleep``,
``trio.move_on_after``), whose clock the simulation replaces.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from log_service.common.types import Buffer

T = TypeVar("T")


class Clock(Protocol):
    """Clock for timestamps (wall time), and for deadlines and durations (monotonic time).

    No method waits.
    """

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed point. They never decrease."""

    def monotonic_ns(self) -> int:
        """The monotonic time in nanoseconds, for durations of less than a millisecond."""


class FileSlice(Protocol):
    """A leased range of bytes of a file.

    Until every lease is released, the file stays open and the bytes do not move.
    """

    def __len__(self) -> int:
        """Size in bytes."""

    def read(self) -> bytes:
        """Return the whole range as bytes.

        It is used for TLS, memory networks and systems without sendfile.

        Raises:
            OSError: the file is shorter than the range, or cannot be read.
        """

    def release(self) -> None:
        """Release the lease. A second call has no effect."""


class File(Protocol):
    """One open file, which is appended at its end and read anywhere.

    Except for ``sync_nowait``, methods that are not ``async`` only reach the page cache.
    """

    @property
    def path(self) -> Path:
        """The file's present path. It follows renames made through ``Files.rename``."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes in the file, synced or not."""

    def append_gathered(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers with one gathered write and return the position where they begin.

        A short or failed write is undone before OSError is raised: the file is truncated.
        """

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        """Fill ``buffer`` from ``position`` and return the number of bytes read."""

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return at most ``size_bytes`` from ``position``."""

    def write_at(self, position: int, buffer: Buffer) -> None:
        """Overwrite bytes that exist already."""

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file to ``size_bytes``."""

    async def sync(self) -> None:
        """Make the bytes durable (fdatasync) in the thread pool.

        A cancelled caller waits for the sync. A file has at most one sync at a time, because the
        system reports a failure only once, so that a second sync could seem to succeed.

        Raises:
            OSError: the sync failed. It must not be retried, and the directory must be taken
                offline.
        """

    def sync_nowait(self) -> None:
        """Make the bytes durable as ``sync`` does, but block.

        It is used while a log is opened or closed.
        """

    def slice(self, position: int, size_bytes: int) -> FileSlice:
        """Return a range of the file, which the caller releases.

        ``close`` returns at once, but the descriptor stays open until the range is released.
        """

    def close(self) -> None:
        """Close the file when its last lease is released. A second call has no effect."""


class DirectoryLock(Protocol):
    """An exclusive lock on a directory, held until released or until the process ends."""

    @property
    def can_sync_file_system(self) -> bool:
        """Whether ``sync_file_system`` guarantees as much as a sync of every file and directory.

        Reading this property may wait for the disk.
        """

    def sync_file_system(self) -> None:
        """Make everything durable that was written on the directory's file system. Blocks.

        Raises:
            OSError: a write has failed since the lock was taken. As with a sync of a file, this
                must not be retried.
        """

    def release(self) -> None:
        """Release the lock. A second call has no effect."""


class Files(Protocol):
    """A file system. Changes of names are durable only after ``sync_directory``."""

    def open(self, path: Path, *, create: bool = True) -> File:
        """Open a file for appending and reading.

        Raises:
            FileNotFoundError: the file does not exist and ``create`` is false.
        """

    def exists(self, path: Path) -> bool:
        """Return whether a file or directory exists at this path."""

    def is_directory(self, path: Path) -> bool:
        """Return whether the path is a directory."""

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory. A missing directory is empty."""

    def size_bytes(self, path: Path) -> int:
        """Return the size of a file in bytes."""

    def modified_ms(self, path: Path) -> int:
        """Return the time of the last modification, in milliseconds since the Unix epoch."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents. An existing one is not an error."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename ``source`` to ``target`` atomically. An existing ``target`` is replaced.

        This works on files, also open ones, and on directories.
        """

    def remove(self, path: Path) -> None:
        """Remove a file, unless it is missing."""

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and its content, unless it is missing."""

    def sync_directory(self, path: Path) -> None:
        """Make renames, creations and removals in a directory durable."""

    def read_bytes(self, path: Path) -> bytes:
        """Return a small file's content.

        Raises:
            FileNotFoundError: the file does not exist.
        """

    def write_atomically(self, path: Path, content: bytes, *, is_synced: bool = True) -> None:
        """Replace a small file atomically.

        The content is written to a temporary file, synced and renamed, and the directory is synced.
        With ``is_synced=False``, the caller does both syncs later.
        """

    def free_bytes(self, path: Path) -> int:
        """Return the number of bytes that may still be written on the file system of ``path``."""

    def total_bytes(self, path: Path) -> int:
        """Return the size of the file system of ``path`` in bytes."""

    def page_cache_id(self, path: Path) -> str | None:
        """Return an identity of the memory that holds unsynced writes to a directory.

        It is unchanged as long as none of these writes is lost. The end of a process does not
        change it. A restart of the kernel, or another directory at this path, does. Return None if
        the system does not tell, or may keep writes elsewhere.

        Raises:
            OSError: there is no such directory.
        """

    def lock_directory(self, path: Path) -> DirectoryLock:
        """Take the exclusive lock ``.lock`` of a directory.

        Raises:
            BlockingIOError: another process has the lock.
        """

    async def run_in_pool(self, function: Callable[[], T]) -> T:
        """Run a function that may wait for the disk in a thread, and return its result.

        Such functions are cold reads, removals and scans. A cancelled caller does not cancel it.
        """

    def set_pool_threads(self, count: int) -> None:
        """Let at most ``count`` calls of ``run_in_pool`` run at once from now on."""


class RunInPool(Protocol):
    """The method ``Files.run_in_pool``, for code that needs no other method of ``Files``."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Run ``function`` in the thread pool, and return its result."""


class Connection(Protocol):
    """One ordered byte stream. Every method except ``close`` raises OSError if the peer is gone."""

    @property
    def peer_host(self) -> str:
        """The peer's address without its port, for limits per address and log lines."""

    @property
    def peer_port(self) -> int:
        """The peer's port, or 0 if it has none."""

    @property
    def local_host(self) -> str:
        """The local address of the connection, without its port."""

    @property
    def bytes_sent(self) -> int:
        """The number of bytes that the transport has accepted so far, also during a send.

        It shows whether the peer has stopped reading.
        """

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        """Wait for bytes, write them to the beginning of ``buffer``, and return their number.

        A result of 0 is the end of the stream.
        """

    async def send_gathered(self, buffers: Sequence[Buffer]) -> None:
        """Send all buffers, in order, with as few system calls as possible."""

    async def send_file(self, header: Sequence[Buffer], file_slice: FileSlice) -> None:
        """Send ``header`` and then a leased range, by sendfile if possible.

        The caller releases the lease.

        Raises:
            OSError: the peer is gone, or the file was shorter than the lease. The connection must
                then be closed.
        """

    def close(self) -> None:
        """Close at once, even while another task waits for the connection.

        That task gets OSError. A second call has no effect.
        """


class Listener(Protocol):
    """A bound address that accepts connections."""

    @property
    def host(self) -> str:
        """The bound host."""

    @property
    def port(self) -> int:
        """The bound port. If port 0 was requested, it is the port that the system chose."""

    async def accept(self) -> Connection:
        """Wait for the next connection."""

    def close(self) -> None:
        """Stop listening. A waiting ``accept`` raises OSError."""


class Network(Protocol):
    """A network, on which addresses can be bound and connected to."""

    async def listen(self, host: str, port: int, *, backlog: int = 128) -> Listener:
        """Bind an address and listen on it.

        Raises:
            OSError: the address is in use, or is not one of this machine.
        """

    async def connect(self, host: str, port: int) -> Connection:
        """Connect to an address. The caller sets the deadline.

        Raises:
            OSError: the connection is refused, or the host is unreachable or unknown.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """The clock, random numbers and network of a client."""

    clock: Clock
    rng: Random
    network: Network


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEnv(Env):
    """The environment of a node: that of a client, and a file system."""

    files: Files
