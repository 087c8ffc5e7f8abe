"""The real file system that implements ``common.env.Files``.

It offers gathered writes, leases of file ranges, and syncs in a small pool of threads. An append is
one ``pwritev`` that writes all of its bytes or none. ``descriptors`` decides when a descriptor is
closed. This module does not know logs.

Invariants:

- During a lease or a sync, a descriptor stays open and its bytes do not move.
- A failed sync is final. After it, the file accepts neither appends nor syncs.
- Only syncs, directory syncs and work in the thread pool wait for the disk.
"""

import contextlib
import errno
import fcntl
import os
import resource
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio

from log_service.common.env import File
from log_service.common.types import Buffer
from log_service.storage.descriptors import (
    Descriptor,
    RealFileSlice,
    copy_prefix,
    sync_descriptor,
    write_all,
)
from log_service.storage.file_names import temporary_path
from log_service.storage.file_system_sync import can_sync_file_system, sync_file_system
from log_service.storage.page_cache import page_cache_id
from log_service.storage.refused_access import rights_named

T = TypeVar("T")

LOCK_FILE = ".lock"
_SMALL_FILE_BYTES = 64 << 10


def _raise_with_path(_function: object, path: str, failure: Any) -> None:
    """Raise the error of a failed ``rmtree`` with the path of the file that could not be removed.

    Python 3.13 calls this again for each parent directory, with the path of that directory.
    """
    error = failure[1]
    if isinstance(error, OSError):
        error.filename = vars(error).setdefault("removed", path)
    raise error


async def _run_in_thread(function: Callable[[], T]) -> T:
    """Run ``function`` in a trio thread and return its result. Cancelling does not end the wait.

    ``trio.to_thread`` would need one more turn of the event loop. It would also prepare calls back
    from the thread, which are not needed here.
    """
    run_in_trio = trio.lowlevel.current_trio_token().run_sync_soon
    trio.lowlevel.start_thread_soon(
        function, partial(run_in_trio, trio.lowlevel.reschedule, trio.lowlevel.current_task())
    )
    result: T = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
    return result


class RealFile:
    """One open file on disk. ``common.env.File`` documents the guarantees of each method."""

    __slots__ = (
        "__weakref__",
        "_descriptor",
        "_files",
        "_is_closed",
        "_sync_error",
        "path",
        "size_bytes",
    )

    def __init__(self, files: "RealFiles", path: Path, number: int) -> None:
        self._files = files
        self._descriptor = Descriptor(number)
        self._is_closed = False
        self._sync_error: OSError | None = None
        self.path = path
        self.size_bytes = os.fstat(number).st_size

    def __repr__(self) -> str:
        return (
            f"<RealFile {self.path} size={self.size_bytes} leases={self._descriptor.lease_count}>"
        )

    def append_gathered(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers and return their position. After an OSError, nothing was appended."""
        if self._sync_error is not None:
            raise self._failed()
        position = self.size_bytes
        self.size_bytes = position + write_all(self._descriptor.number, buffers, position)
        return position

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        """Fill ``buffer`` from ``position`` and return the number of bytes read."""
        view = memoryview(buffer)
        filled = 0
        while filled < len(view):
            count = os.preadv(self._descriptor.number, [view[filled:]], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return at most ``size_bytes`` from ``position``."""
        descriptor = self._descriptor
        descriptor.lease()
        try:
            return descriptor.read(position, size_bytes)
        finally:
            descriptor.release()

    def write_at(self, position: int, buffer: Buffer) -> None:
        """Overwrite existing bytes."""
        view = memoryview(buffer)
        assert position + len(view) <= self.size_bytes, "overwrites only what is there"
        while view:
            written = os.pwrite(self._descriptor.number, view, position)
            view = view[written:]
            position += written

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file.

        Leased bytes must not change. If a lease is held, the remaining bytes are therefore copied
        to a new file, which gets the name of this file.
        """
        if size_bytes >= self.size_bytes:
            return
        if self._descriptor.lease_count:
            replacement = temporary_path(self.path)
            old, self._descriptor = (
                self._descriptor,
                Descriptor(copy_prefix(self._descriptor.number, replacement, size_bytes)),
            )
            with rights_named("rename", is_in_directory=True):
                replacement.rename(self.path)
            self._files.sync_directory(self.path.parent)
            old.close()
        else:
            os.ftruncate(self._descriptor.number, size_bytes)
        self.size_bytes = size_bytes

    async def sync(self) -> None:
        """Make the bytes durable with fdatasync in the thread pool.

        A cancelled caller waits for the sync.
        """
        descriptor = self._descriptor
        descriptor.lease()
        try:
            await self._files.run_in_pool(lambda: self._sync(descriptor))
        finally:
            descriptor.release()

    def sync_nowait(self) -> None:
        """Make the bytes durable, blocking the caller."""
        self._sync(self._descriptor)

    def _sync(self, descriptor: Descriptor) -> None:
        if self._sync_error is not None:
            raise self._failed()
        try:
            descriptor.sync()
        except OSError as error:
            self._sync_error = error
            raise self._failed() from error

    def _failed(self) -> OSError:
        error = self._sync_error
        assert error is not None
        return OSError(
            error.errno or errno.EIO,
            f"a sync failed ({error.strerror}); bytes may be lost",
            str(self.path),
        )

    def slice(self, position: int, size_bytes: int) -> RealFileSlice:
        """Return a range of the file, which the caller releases."""
        return RealFileSlice(self._descriptor, position, size_bytes)

    def close(self) -> None:
        """Close the descriptor when its last lease is released. A second call has no effect."""
        if not self._is_closed:
            self._is_closed = True
            self._files.forget(self)
            self._descriptor.close()


@contextlib.contextmanager
def _held_elsewhere(path: Path) -> Iterator[None]:
    """Replace the error of a refused lock (EACCES or EAGAIN) by ``BlockingIOError``."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EAGAIN}:
            raise BlockingIOError(
                errno.EAGAIN, "another process holds the lock", str(path / LOCK_FILE)
            ) from error
        raise


class _RealDirectoryLock:
    """The two locks of a log directory.

    A ``flock`` of the directory excludes other nodes of this process. A record lock of the lock
    file excludes a Java broker. The locks are on different files, because a process loses a record
    lock when it closes any descriptor of that file.
    """

    def __init__(self, path: Path) -> None:
        self._numbers: list[int] = []
        try:
            with rights_named("read"):
                self._numbers.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            with _held_elsewhere(path):
                fcntl.flock(self._numbers[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            with rights_named("write"):
                # Not before, because closing the file of a lock of this process would end that
                # lock.
                self._numbers.append(
                    os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                )
            with _held_elsewhere(path):
                fcntl.lockf(self._numbers[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise

    @property
    def can_sync_file_system(self) -> bool:
        """Whether one call makes all files durable. See ``file_system_sync``."""
        return bool(self._numbers) and can_sync_file_system(self._numbers[0])

    def sync_file_system(self) -> None:
        """Make everything on the directory's file system durable.

        Raises:
            OSError: a write has failed since the lock was taken or since the last call.
        """
        sync_file_system(self._numbers[0])

    def release(self) -> None:
        """Release both locks. A second call has no effect."""
        while self._numbers:
            os.close(self._numbers.pop())


def connection_descriptors() -> tuple[int, int]:
    """Raise this process's limit of descriptors as far as possible, and return it.

    The second result is how many of them connections may use. The others are for logs.
    """
    _raise_descriptor_limit()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit = sys.maxsize if limit == resource.RLIM_INFINITY else limit
    return limit, limit - min(limit // 2, MOST_RESERVED_DESCRIPTORS)


def _raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            # Some systems name a hard limit that they do not grant.
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


MOST_RESERVED_DESCRIPTORS = 10_000
"""The largest number of descriptors reserved for logs. Otherwise half of the limit is reserved."""


class RealFiles:
    """The disk, and the pool of threads that wait for it.

    ``pool_threads`` bounds how many calls run at once. The constructor raises the process's soft
    limit of descriptors to its hard limit, because every log in use and every connection needs a
    descriptor.
    """

    def __init__(self, pool_threads: int = 4) -> None:
        _raise_descriptor_limit()
        self._pool_threads = pool_threads
        self._limiter: trio.CapacityLimiter | None = None
        self._open_files: dict[str, dict[str, list[RealFile]]] = {}
        """Open files by directory and name. Renaming a directory then moves only its own files."""
        self._guard = threading.Lock()

    def open(self, path: Path, *, create: bool = True) -> File:
        """Open a file for appending and reading."""
        with rights_named("write"):
            number = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        file = RealFile(self, path, number)
        with self._guard:
            self._follow([file], path)
        return file

    def forget(self, file: RealFile) -> None:
        """Stop tracking the path of a file that closes."""
        with self._guard:
            others = [other for other in self._take(file.path) if other is not file]
            self._follow(others, file.path)

    def exists(self, path: Path) -> bool:
        """Return whether a file or directory exists at this path."""
        return path.exists()

    def is_directory(self, path: Path) -> bool:
        """Return whether the path is a directory."""
        return path.is_dir()

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory, or nothing if the directory is missing."""
        try:
            with rights_named("list"):
                return sorted(os.listdir(path))  # noqa: PTH208 - names are wanted, ten thousand Path objects are not
        except FileNotFoundError:
            return []

    def size_bytes(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        """Return the time of the last modification, in ms since the Unix epoch."""
        return path.stat().st_mtime_ns // 1_000_000

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, unless it exists."""
        with rights_named("make"):
            path.mkdir(parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        """Rename ``source`` to ``target`` atomically. An existing ``target`` is replaced.

        The paths of open files are updated, including files in a renamed directory.
        """
        with rights_named("rename", is_in_directory=True):
            source.replace(target)
        with self._guard:
            self._follow(self._take(source), target)
            for name, files in self._open_files.pop(str(source), {}).items():
                self._follow(files, target / name)

    def _take(self, path: Path) -> list[RealFile]:
        """Return the open files of a path, and stop tracking them."""
        directory, name = os.path.split(path)
        names = self._open_files.get(directory, {})
        files = names.pop(name, [])
        if not names:
            self._open_files.pop(directory, None)
        return files

    def _follow(self, files: list[RealFile], path: Path) -> None:
        directory, name = os.path.split(path)
        for file in files:
            file.path = path
            self._open_files.setdefault(directory, {}).setdefault(name, []).append(file)

    def remove(self, path: Path) -> None:
        """Remove a file, unless it is missing."""
        with rights_named("remove", is_in_directory=True):
            path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and its content, unless it is missing."""
        try:
            with rights_named("remove", is_in_directory=True):
                shutil.rmtree(path, onerror=_raise_with_path)
        except FileNotFoundError:
            return

    def sync_directory(self, path: Path) -> None:
        """Make renames, creations and removals in a directory durable."""
        with rights_named("sync"):
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def read_bytes(self, path: Path) -> bytes:
        """Return a small file's content.

        Raises:
            OSError: the path is not a regular file, such as a device or pipe. Reading it might
                never end.
        """
        with rights_named("read"):
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", str(path))
            return b"".join(iter(lambda: os.read(number, _SMALL_FILE_BYTES), b""))
        finally:
            os.close(number)

    def write_atomically(self, path: Path, content: bytes, *, is_synced: bool = True) -> None:
        """Replace a small file atomically.

        The new content is written to a temporary file, synced, and renamed, and the directory is
        synced. Without ``is_synced``, the caller syncs later.
        """
        temporary = temporary_path(path)
        with rights_named("write"):
            number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_all(number, [content], 0)
            if is_synced:
                sync_descriptor(number)
        except OSError:
            temporary.unlink(missing_ok=True)  # on a full disk it would take room from other files
            raise
        finally:
            os.close(number)
        with rights_named("rename", is_in_directory=True):
            temporary.replace(path)
        if is_synced:
            self.sync_directory(path.parent)

    def free_bytes(self, path: Path) -> int:
        """Return the bytes that a process without root's rights can write on a file system."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: Path) -> int:
        """Return the size of the file system of ``path`` in bytes."""
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def page_cache_id(self, path: Path) -> str | None:
        """Return the identity of the page cache of a directory. See ``page_cache``."""
        return page_cache_id(path)

    def lock_directory(self, path: Path) -> _RealDirectoryLock:
        """Take the exclusive lock of a directory, and return it.

        Raises:
            BlockingIOError: another node or process has the lock.
        """
        return _RealDirectoryLock(path)

    def set_pool_threads(self, count: int) -> None:
        """Let at most ``count`` calls run at once from now on. Running calls continue."""
        self._pool_threads = count
        if self._limiter is not None:
            self._limiter.total_tokens = count

    async def run_in_pool(self, function: Callable[[], T]) -> T:
        """Run ``function`` in a thread. At most ``pool_threads`` calls run at once.

        A cancelled caller waits until the function returns, so that no work is left half done.
        """
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(self._pool_threads)
        limiter, borrower = self._limiter, object()
        try:
            limiter.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            with trio.CancelScope(shield=True):
                await limiter.acquire_on_behalf_of(borrower)
        try:
            return await _run_in_thread(function)
        finally:
            limiter.release_on_behalf_of(borrower)
