"""The seams between the log service and the world: protocols only, nothing here acts.

Everything a node needs from outside is one injected ``NodeEnv``: two clocks, randomness, files and
a network; a client's ``Env`` has no files. The real ones are put together by the composition roots
(broker, client); the simulated one in the tests has virtual time, memory streams and a disk that
loses what was not synced. The seams are as high as the fast path: a connection sends gathered
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
    """Wall time for timestamps, monotonic time for deadlines and durations. No method waits."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed point; never goes back."""

    def monotonic_ns(self) -> int:
        """The same time in nanoseconds, for spans of less than a millisecond."""


class FileSlice(Protocol):
    """A leased range of bytes of a file.

    The file stays open and in place until every lease is released.
    """

    def __len__(self) -> int:
        """Size in bytes."""

    def read(self) -> bytes:
        """Return the whole range as bytes. It serves TLS, memory networks and systems without
        sendfile.

        Raises:
            OSError: the file is shorter than the range, or cannot be read.
        """

    def release(self) -> None:
        """Give the lease back; idempotent."""


class File(Protocol):
    """One open file: appended at its end, read anywhere.

    Calls without ``await`` reach only the page cache.
    """

    @property
    def path(self) -> Path:
        """The file's present path. It follows renames made through ``Files.rename``."""

    @property
    def size_bytes(self) -> int:
        """Bytes appended so far, synced or not."""

    def append_gathered(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers with one gathered write and return the position where they begin.

        A short or failed write is undone (the file is cut back) before OSError is raised.
        """

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        """Fill ``buffer`` from ``position`` and return how many bytes there were."""

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return at most ``size_bytes`` from ``position``."""

    def write_at(self, position: int, buffer: Buffer) -> None:
        """Overwrite bytes that exist already."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to ``size_bytes``."""

    async def sync(self) -> None:
        """Make the bytes durable (fdatasync) in the pool. A cancelled caller waits for it. A file
        has at most one sync at a time.

        Raises:
            OSError: final; the directory must be taken offline, never retried. The system reports
                it once: a sync beside this one may end as if all were well.
        """

    def sync_nowait(self) -> None:
        """Make the bytes durable as ``sync`` does, but block. It serves opening and closing."""

    def slice(self, position: int, size_bytes: int) -> FileSlice:
        """Lease a range.

        ``close`` returns at once, but the descriptor stays open until the lease is released.
        """

    def close(self) -> None:
        """Close once the last lease is released; idempotent."""


class DirectoryLock(Protocol):
    """An exclusive lock on a directory, held until released or until the process ends."""

    @property
    def can_sync_file_system(self) -> bool:
        """Whether ``sync_file_system`` promises as much as a sync of every file and directory.

        The call may wait for the disk.
        """

    def sync_file_system(self) -> None:
        """Make everything durable that was written on the directory's file system; blocks.

        Raises:
            OSError: something was not written since the lock was taken; final, as a file's sync is.
        """

    def release(self) -> None:
        """Give it back; idempotent."""


class Files(Protocol):
    """A file system. Every change of names is durable only after ``sync_directory``."""

    def open(self, path: Path, *, create: bool = True) -> File:
        """Open a file for appending and reading.

        Raises:
            FileNotFoundError: the file does not exist and ``create`` is false.
        """

    def exists(self, path: Path) -> bool:
        """Whether a file or directory has that name."""

    def is_directory(self, path: Path) -> bool:
        """Whether the name is a directory."""

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory. A missing directory is empty."""

    def size_bytes(self, path: Path) -> int:
        """Size of a file."""

    def modified_ms(self, path: Path) -> int:
        """Last modification, milliseconds since the Unix epoch."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents. An existing one is not an error."""

    def rename(self, source: Path, target: Path) -> None:
        """Atomically replace ``target``; works on files (open ones too) and directories."""

    def remove(self, path: Path) -> None:
        """Unlink a file; a missing one is fine."""

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and all in it; a missing one is fine."""

    def sync_directory(self, path: Path) -> None:
        """Make renames, creations and removals in a directory durable."""

    def read_bytes(self, path: Path) -> bytes:
        """Return a small file's content.

        Raises:
            FileNotFoundError: there is none.
        """

    def write_atomically(self, path: Path, content: bytes, *, is_synced: bool = True) -> None:
        """Replace a small file: write it beside the old one, sync it, rename it, sync the
        directory.

        ``is_synced=False`` leaves both syncs to the caller.
        """

    def free_bytes(self, path: Path) -> int:
        """Bytes that may still be written on the file system of ``path``."""

    def total_bytes(self, path: Path) -> int:
        """Size of the file system of ``path``."""

    def page_cache_id(self, path: Path) -> str | None:
        """Identity of the memory that keeps unsynced writes to a directory. It stays the same as
        long as none of them is lost.

        The end of a process does not change it. A restart of the kernel, or another directory at
        this path, does. None if the system does not say, or may keep writes elsewhere.

        Raises:
            OSError: there is no such directory.
        """

    def lock_directory(self, path: Path) -> DirectoryLock:
        """Take the exclusive lock ``.lock`` of a directory.

        Raises:
            BlockingIOError: another process holds it.
        """

    async def run_in_pool(self, function: Callable[[], T]) -> T:
        """Run a function that may wait for the disk off the event loop (cold reads, unlinks,
        scans).

        A cancelled caller does not cancel it.
        """

    def set_pool_threads(self, count: int) -> None:
        """Let at most ``count`` calls wait for the disk at once from now on."""


class RunInPool(Protocol):
    """``Files.run_in_pool`` alone, for code that touches no file by itself."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Run ``function`` in the pool."""


class Connection(Protocol):
    """One ordered byte stream. Every method but ``close`` raises OSError when the peer is gone."""

    @property
    def peer_host(self) -> str:
        """The peer's address without its port, for limits per address and log lines."""

    @property
    def peer_port(self) -> int:
        """The peer's port, 0 if it has none."""

    @property
    def local_host(self) -> str:
        """The address on our side."""

    @property
    def bytes_sent(self) -> int:
        """Bytes that the transport took so far, also while a send is under way.

        A peer that stopped reading shows here.
        """

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        """Wait for bytes and put them at the front of ``buffer``.

        A result of 0 is the end of the stream.
        """

    async def send_gathered(self, buffers: Sequence[Buffer]) -> None:
        """Send all buffers, in order, with as few system calls as possible."""

    async def send_file(self, header: Sequence[Buffer], file_slice: FileSlice) -> None:
        """Send ``header`` and then a leased range (sendfile if it can). The caller releases the
        lease.

        Raises:
            OSError: the peer is gone, or the file was shorter than the lease; the connection must
                then be closed.
        """

    def close(self) -> None:
        """Close at once, even while another task waits on it.

        That task gets OSError. Idempotent.
        """


class Listener(Protocol):
    """A bound, listening address."""

    @property
    def host(self) -> str:
        """The bound host."""

    @property
    def port(self) -> int:
        """The bound port, the real one when 0 was asked for."""

    async def accept(self) -> Connection:
        """Wait for the next connection."""

    def close(self) -> None:
        """Stop listening; a waiting ``accept`` raises OSError."""


class Network(Protocol):
    """A network: listens and connects."""

    async def listen(self, host: str, port: int, *, backlog: int = 128) -> Listener:
        """Bind and listen.

        Raises:
            OSError: the address is in use or not ours.
        """

    async def connect(self, host: str, port: int) -> Connection:
        """Connect; the caller sets the deadline.

        Raises:
            OSError: refused, unreachable, unknown host.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """The clock, random numbers and network of a client."""

    clock: Clock
    rng: Random
    network: Network


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEnv(Env):
    """The world of a node: that of a client, and a file system."""

    files: Files
