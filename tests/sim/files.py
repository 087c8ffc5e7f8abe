"""``MemoryFiles`` is the file system of ``common.env`` over a ``Disk``.

It runs in virtual time and without threads.

Faults: ``crash`` loses and tears unsynced writes; ``disk.space_bytes`` runs out; ``disk.failed`` is
where every operation fails; ``fail_next`` raises OSError from the next calls of an operation.
Delays are virtual: ``sync_seconds`` and ``pool_seconds`` give the range from which each is drawn.
"""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import trio

from log_service.common.env import Clock
from log_service.common.types import Buffer
from tests.sim.clock import EPOCH_MS
from tests.sim.disk import Crashed, Directory, Disk, Inode, TornWrite, files_below, path_of

T = TypeVar("T")
LOCK_NAME = ".lock"


class MemoryFiles:
    """A mounted disk. After a crash of the disk a mount is dead (``Crashed``); ``crash`` here
    mounts anew.
    """

    def __init__(
        self, disk: Disk | None = None, *, rng: Random | None = None, clock: Clock | None = None
    ) -> None:
        self.disk = disk or Disk()
        self.rng = rng or Random(0)
        self.sync_seconds = (0.0, 0.0)
        self.pool_seconds = (0.0, 0.0)
        self.pool_threads = 0
        self.sync_count = 0
        self.lease_count = 0
        self.open_count = 0
        self.on_operation: Callable[[str, Path], None] = lambda _operation, _path: None
        """Called before each operation takes effect; may raise."""
        self._clock = clock
        self._generation = self.disk.generation
        self._faults: list[_Fault] = []

    @property
    def space(self) -> int:
        """Bytes that may still be written."""
        return self.disk.space_bytes

    @space.setter
    def space(self, size_bytes: int) -> None:
        self.disk.space_bytes = size_bytes

    def crash(self, rng: Random | None = None) -> None:
        """Lose what was not synced, kill what is open, and mount the disk anew."""
        self.disk.crash(rng or self.rng)
        self._generation = self.disk.generation
        self.open_count = self.lease_count = 0

    def fail_next(
        self, operation: str, *, error: int = errno.EIO, containing: str = "", count: int = 1
    ) -> None:
        """Let the next calls of ``operation`` on paths that contain a text raise OSError.

        Operations: ``append``, ``write``, ``read``, ``sync``, ``truncate``, ``open``, ``rename``,
        ``remove``, ``sync_directory``.
        """
        self._faults.append(_Fault(operation, error, containing, count))

    def open(self, path: Path, *, create: bool = True) -> "MemoryFile":
        self.check("open", path)
        node = self.disk.find(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", str(path))
        if node is None:
            if not create:
                raise _missing(path)
            node = self._create(path)
        self.open_count += 1
        return MemoryFile(self, node)

    def exists(self, path: Path) -> bool:
        self.check("stat", path)
        return self.disk.find(path) is not None

    def is_directory(self, path: Path) -> bool:
        self.check("stat", path)
        return isinstance(self.disk.find(path), Directory)

    def list_directory(self, path: Path) -> list[str]:
        self.check("stat", path)
        node = self.disk.find(path)
        return [] if node is None else sorted(self.disk.directory(path).children)

    def size_bytes(self, path: Path) -> int:
        return len(self._file(path).content)

    def modified_ms(self, path: Path) -> int:
        return self._file(path).modified_ms

    def make_directory(self, path: Path) -> None:
        self.check("make_directory", path)
        for directory in [*reversed(path.parents), path]:
            node = self.disk.find(directory)
            if node is None:
                parent = self.disk.directory(directory.parent)
                self.disk.rename_nodes(
                    [(parent, directory.name, Directory(directory.name, parent))]
                )
            elif isinstance(node, Inode):
                raise FileExistsError(errno.EEXIST, "is a file", str(directory))

    def rename(self, source: Path, target: Path) -> None:
        self.check("rename", source)
        node = self.disk.find(source)
        if node is None or node.parent is None:
            raise _missing(source)
        replaced, into = self.disk.find(target), self.disk.directory(target.parent)
        if replaced is node:
            return
        _require_replaceable(node, replaced, target)
        if isinstance(replaced, Inode):
            self.disk.space_bytes += len(replaced.content)
        self.disk.rename_nodes([(node.parent, source.name, None), (into, target.name, node)])

    def remove(self, path: Path) -> None:
        self.check("remove", path)
        node = self.disk.find(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", str(path))
        if node is not None and node.parent is not None:
            self.disk.space_bytes += len(node.content)
            self.disk.rename_nodes([(node.parent, node.name, None)])

    def remove_tree(self, path: Path) -> None:
        self.check("remove", path)
        node = self.disk.find(path)
        if node is None or node.parent is None:
            return
        self.disk.space_bytes += sum(len(file.content) for file in files_below(node))
        self.disk.rename_nodes([(node.parent, node.name, None)])

    def sync_directory(self, path: Path) -> None:
        self.check("sync_directory", path)
        self.disk.sync_directory(self.disk.directory(path))

    def read_bytes(self, path: Path) -> bytes:
        self.check("read", path)
        return bytes(self._file(path).content)

    def write_atomically(self, path: Path, content: bytes, *, is_synced: bool = True) -> None:
        temporary = path.with_name(path.name + ".tmp")
        self.remove(temporary)
        file = self.open(temporary)
        try:
            file.append_gathered([content])
            if is_synced:
                file.sync_nowait()
        except OSError:
            self.remove(temporary)
            raise
        finally:
            file.close()
        self.rename(temporary, path)
        if is_synced:
            self.sync_directory(path.parent)

    def free_bytes(self, path: Path) -> int:
        self.check("stat", path)
        return self.disk.space_bytes

    def total_bytes(self, path: Path) -> int:
        self.check("stat", path)
        return self.disk.space_bytes

    def page_cache_id(self, path: Path) -> str | None:
        self.disk.directory(path)
        return f"boot {self.disk.boot_count}"

    def lock_directory(self, path: Path) -> "MemoryDirectoryLock":
        self.check("open", path)
        if path in self.disk.locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process holds the lock", str(path))
        self.open(path / LOCK_NAME).close()
        self.disk.locks.add(path)
        return MemoryDirectoryLock(self, path)

    async def run_in_pool(self, function: Callable[[], T]) -> T:
        await self.delay(self.pool_seconds)
        self.check("pool", Path())
        return function()

    def set_pool_threads(self, count: int) -> None:
        """Nothing runs in threads here; the count is kept for who looks."""
        self.pool_threads = count

    async def delay(self, seconds: tuple[float, float]) -> None:
        """Take virtual time that cancellation does not shorten, as a thread in the pool would."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if seconds[1] > 0:
            with trio.CancelScope(
                deadline=trio.current_time() + self.rng.uniform(*seconds), shield=True
            ):
                await trio.sleep_forever()
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def check(self, operation: str, path: Path) -> None:
        """Die if the disk crashed; fail if a fault was asked for."""
        if self._generation != self.disk.generation:
            raise Crashed
        self.on_operation(operation, path)
        if self.disk.failed is not None and self.disk.has_failed_at(path):
            raise OSError(errno.EIO, f"injected failure of {operation}", str(path))
        for fault in self._faults:
            if fault.operation == operation and fault.containing in str(path):
                fault.count -= 1
                if fault.count <= 0:
                    self._faults.remove(fault)
                raise OSError(fault.error, f"injected failure of {operation}", str(path))

    def touch(self, inode: Inode) -> None:
        inode.modified_ms = self._clock.wall_ms() if self._clock is not None else EPOCH_MS

    def _create(self, path: Path) -> Inode:
        parent = self.disk.directory(path.parent)
        inode = Inode(path.name, parent)
        self.touch(inode)
        self.disk.rename_nodes([(parent, path.name, inode)])
        return inode

    def _file(self, path: Path) -> Inode:
        self.check("stat", path)
        node = self.disk.find(path)
        if not isinstance(node, Inode):
            raise _missing(path)
        return node


class MemoryFile:
    """An open file of the memory disk."""

    def __init__(self, files: MemoryFiles, inode: Inode) -> None:
        self._files = files
        self._inode = inode
        self._generation = files.disk.generation
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<MemoryFile {self.path} {self.size_bytes} bytes{' closed' if self._is_closed else ''}>"

    @property
    def path(self) -> Path:
        return path_of(self._inode)

    @property
    def size_bytes(self) -> int:
        return len(self._inode.content)

    def append_gathered(self, buffers: Sequence[Buffer]) -> int:
        content = b"".join(buffers)
        try:
            self._check("append")
        except TornWrite as torn:
            self._inode.write(self.size_bytes, content[: int(len(content) * torn.fraction)])
            raise
        self._files.disk.reserve(len(content), self.path)
        position = len(self._inode.content)
        self._inode.write(position, content)
        self._files.touch(self._inode)
        return position

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        content = self.read(position, len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def read(self, position: int, size_bytes: int) -> bytes:
        self._check("read")
        return bytes(self._inode.content[position : position + size_bytes])

    def write_at(self, position: int, buffer: Buffer) -> None:
        self._check("write")
        if position + len(buffer) > self.size_bytes:
            raise ValueError(
                f"{self.path} has {self.size_bytes} bytes; only bytes that exist can be overwritten"
            )
        self._inode.write(position, bytes(buffer))
        self._files.touch(self._inode)

    def truncate(self, size_bytes: int) -> None:
        self._check("truncate")
        if size_bytes >= self.size_bytes:
            return
        self._files.disk.space_bytes += self.size_bytes - size_bytes
        self._inode.truncate(size_bytes)
        self._files.touch(self._inode)

    async def sync(self) -> None:
        self._check("stat")
        mark = self._inode.mark
        await self._files.delay(self._files.sync_seconds)
        self._sync(mark)

    def sync_nowait(self) -> None:
        self._sync(self._inode.mark)

    def slice(self, position: int, size_bytes: int) -> "MemoryFileSlice":
        self._check("stat")
        return MemoryFileSlice(self._files, self._inode, position, size_bytes)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if self._generation == self._files.disk.generation:
                self._files.open_count -= 1

    def _sync(self, mark: int) -> None:
        try:
            self._check("sync")
        except OSError:
            self._inode.lose(mark)
            raise
        self._inode.sync(mark)
        self._files.sync_count += 1

    def _check(self, operation: str) -> None:
        if self._generation != self._files.disk.generation:
            raise Crashed
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", str(self.path))
        self._files.check(operation, self.path)


class MemoryFileSlice:
    """A leased range of a file in memory."""

    def __init__(self, files: MemoryFiles, inode: Inode, position: int, size_bytes: int) -> None:
        self._files = files
        self._inode = inode
        self._position = position
        self._size_bytes = size_bytes
        self._generation = files.disk.generation
        self._is_released = False
        self._kept: bytes | None = None
        inode.on_truncate.append(self._keep)
        files.lease_count += 1

    def __len__(self) -> int:
        return self._size_bytes

    def read(self) -> bytes:
        if self._generation != self._files.disk.generation:
            raise Crashed
        if self._is_released:
            raise OSError(errno.EBADF, "the lease was released")
        self._files.check("read", path_of(self._inode))
        content = self._content() if self._kept is None else self._kept
        if len(content) < self._size_bytes:
            raise OSError(
                errno.EIO,
                f"{path_of(self._inode)} ended {self._size_bytes - len(content)} bytes early",
            )
        return content

    def release(self) -> None:
        if not self._is_released:
            self._is_released = True
            self._inode.on_truncate.remove(self._keep)
            if self._generation == self._files.disk.generation:
                self._files.lease_count -= 1

    def _content(self) -> bytes:
        return bytes(self._inode.content[self._position : self._position + self._size_bytes])

    def _keep(self, size_bytes: int) -> None:
        """The file is being cut: what was leased stays readable."""
        if self._kept is None and self._position + self._size_bytes > size_bytes:
            self._kept = self._content()


class MemoryDirectoryLock:
    """A lock that lives until it is released or the disk crashes."""

    def __init__(self, files: MemoryFiles, path: Path) -> None:
        self._files = files
        self._disk = files.disk
        self._path = path
        self._generation = files.disk.generation
        self._is_released = False

    @property
    def can_sync_file_system(self) -> bool:
        return True

    def sync_file_system(self) -> None:
        """Make the whole disk durable (``sync_file_system``).

        A failure loses the unsynced bytes of every file on the same device.
        """
        try:
            self._files.check("sync_file_system", self._path)
        except OSError:
            device = (
                self._disk.directory(self._path)
                if self._disk.has_failed_at(self._path)
                else self._disk.root
            )
            for inode in files_below(device):
                inode.lose(inode.mark)
            raise
        self._disk.sync_all()

    def release(self) -> None:
        if not self._is_released and self._generation == self._disk.generation:
            self._disk.locks.discard(self._path)
        self._is_released = True


class _Fault:
    def __init__(self, operation: str, error: int, containing: str, count: int) -> None:
        self.operation = operation
        self.error = error
        self.containing = containing
        self.count = count


def _require_replaceable(
    node: Inode | Directory, replaced: Inode | Directory | None, target: Path
) -> None:
    if isinstance(replaced, Directory):
        if isinstance(node, Inode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", str(target))
        if replaced.children:
            raise OSError(errno.ENOTEMPTY, "directory is not empty", str(target))
    elif isinstance(replaced, Inode) and isinstance(node, Directory):
        raise NotADirectoryError(errno.ENOTDIR, "is a file", str(target))


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or directory", str(path))
