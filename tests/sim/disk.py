"""A disk in memory loses its unsynced bytes, and a crash keeps only some operations.

A file has content (what reads see) and durable content (what survives); between them lie the writes
since the last sync. At a crash a random number of them is kept, and of the next one a part: a torn
write. Directories have names and durable names in the same way; a name becomes durable by
``sync_directory`` alone, not by syncing the file.

Each crash begins a new generation: whatever was opened before raises ``Crashed``, so that a dead
node cannot write.
"""

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

Write = tuple[int, bytes | None]  # position and bytes; None cuts the file there


class Crashed(BaseException):
    """The node is dead: nothing of it may reach the disk any more, not even from a ``finally``."""


class TornWrite(Crashed):
    """The process dies in the middle of a write: ``fraction`` of it is there."""

    def __init__(self, fraction: float) -> None:
        super().__init__()
        self.fraction = fraction


@dataclass(slots=True, eq=False)
class Inode:
    """One file: its bytes, and what of them a crash would leave."""

    name: str
    parent: "Directory | None"
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write] = field(default_factory=list)
    forgotten_count: int = 0  # pending operations that were synced so far; marks stay valid
    modified_ms: int = 0
    # Of leases, which keep what they were given.
    on_truncate: list[Callable[[int], None]] = field(default_factory=list)

    def write(self, position: int, content: bytes) -> None:
        _apply(self.content, (position, content))
        self.pending.append((position, content))

    def truncate(self, size_bytes: int) -> None:
        for keep in list(self.on_truncate):
            keep(size_bytes)
        _apply(self.content, (size_bytes, None))
        self.pending.append((size_bytes, None))

    @property
    def mark(self) -> int:
        """The bytes that a sync makes durable if it begins now."""
        return self.forgotten_count + len(self.pending)

    def sync(self, mark: int) -> None:
        """Make everything before ``mark`` durable."""
        for operation in self._forget(mark):
            _apply(self.durable, operation)

    def lose(self, mark: int) -> None:
        """A sync failed: the kernel marks the pages clean, so what was before ``mark`` will never
        be written.
        """
        self._forget(mark)

    def crash(self, rng: Random, *, is_reordering: bool = False) -> None:
        """Keep the durable bytes, some of the pending writes and a part of the next.

        ``is_reordering``: any of the pending writes may be kept, as pages reach the disk in any
        order; what lies between is zeros, and so is what a torn write did not fill.
        """
        if is_reordering:
            self._crash_in_any_order(rng)
            return
        kept_count = rng.randint(0, len(self.pending))
        for operation in self.pending[:kept_count]:
            _apply(self.durable, operation)
        for position, content in self.pending[kept_count : kept_count + 1]:
            if content is not None:
                _apply(self.durable, (position, content[: rng.randint(0, len(content))]))
        self.pending.clear()
        self.content = bytearray(self.durable)

    def _crash_in_any_order(self, rng: Random) -> None:
        """Keep cuts in their place, since the size of a file is changed in order."""
        kept = [
            (position, content)
            for position, content in self.pending
            if content is None or rng.random() < 0.7
        ]
        for position, content in kept[: rng.randint(0, len(kept))]:
            if content is not None and rng.random() < 0.2:
                filled = rng.randint(0, len(content))
                content = content[:filled] + bytes(len(content) - filled)  # noqa: PLW2901 - a torn write
            _apply(self.durable, (position, content))
        self.pending.clear()
        self.content = bytearray(self.durable)

    def _forget(self, mark: int) -> list[Write]:
        count = max(0, mark - self.forgotten_count)
        operations = self.pending[:count]
        del self.pending[:count]
        self.forgotten_count += len(operations)
        return operations


@dataclass(slots=True, eq=False)
class Directory:
    """Names, and the changes of names that a crash may undo."""

    name: str
    parent: "Directory | None"
    children: dict[str, "Inode | Directory"] = field(default_factory=dict)
    durable: dict[str, "Inode | Directory"] = field(default_factory=dict)
    pending: list["Naming"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Naming:
    """One atomic change of names: created, removed or renamed. A rename between directories is
    pending in both.
    """

    edits: list[tuple[Directory, str, Inode | Directory | None]]

    @property
    def directories(self) -> list[Directory]:
        return list(dict.fromkeys(directory for directory, _, _ in self.edits))

    @property
    def is_next(self) -> bool:
        """Whether nothing that was done before it is pending in its directories."""
        return all(directory.pending[0] is self for directory in self.directories)

    def apply_durably(self) -> None:
        for directory, name, node in self.edits:
            _set_name(directory.durable, name, node)
        for directory in self.directories:
            directory.pending.remove(self)


class Disk:
    """The tree of one machine's disk.

    ``space_bytes`` is what may still be written; ``are_names_durable`` makes names survive
    unsynced; ``is_reordering`` lets a crash keep any of the writes that were not synced, not only
    the first.
    """

    def __init__(
        self,
        *,
        space_bytes: int = 1 << 40,
        are_names_durable: bool = False,
        is_reordering: bool = False,
    ) -> None:
        self.root = Directory("/", None)
        self.space_bytes = space_bytes
        self.are_names_durable = are_names_durable
        self.is_reordering = is_reordering
        self.generation = 0
        self.boot_count = 1
        """Which start of the machine's kernel this is: losses of power, and of a disk, are counted.
        """
        self.locks: set[Path] = set()
        self.failed: Path | None = None
        """The directory whose device does nothing any more, where there is one."""

    def find(self, path: Path) -> Inode | Directory | None:
        node: Inode | Directory | None = self.root
        for part in path.parts[1:] if path.is_absolute() else path.parts:
            if not isinstance(node, Directory):
                return None
            node = node.children.get(part)
        return node

    def directory(self, path: Path) -> Directory:
        node = self.find(path)
        if not isinstance(node, Directory):
            reason = errno.ENOENT if node is None else errno.ENOTDIR
            raise OSError(reason, "no such directory", str(path))
        return node

    def rename_nodes(self, edits: list[tuple[Directory, str, Inode | Directory | None]]) -> None:
        """Change names, all at once; durable after a sync of the directories, or now."""
        naming = Naming(edits)
        for directory, name, node in edits:
            _set_name(directory.children, name, node)
            if node is not None:
                node.name, node.parent = name, directory
        for directory in naming.directories:
            directory.pending.append(naming)
        if self.are_names_durable:
            naming.apply_durably()

    def sync_directory(self, directory: Directory) -> None:
        """Make its names durable, and with a rename between directories those that it depends on."""
        while directory.pending:
            naming = directory.pending[0]
            for other in naming.directories:
                while other.pending[0] is not naming:
                    other.pending[0].apply_durably()
            naming.apply_durably()

    def sync_all(self) -> None:
        """Make everything durable, contents and names."""
        for inode in files_below(self.root):
            inode.sync(inode.mark)
        for directory in _directories_below(self.root):
            self.sync_directory(directory)

    def kill(self) -> None:
        """End the process while the machine lives.

        Written bytes stay, synced or not, and everything opened before is dead.
        """
        self.generation += 1
        self.locks.clear()

    def crash(self, rng: Random) -> None:
        """Lose what was not durable, as ``rng`` decides; everything opened before is dead."""
        self.generation += 1
        self.boot_count += 1
        self.locks.clear()
        for directory in _directories_below(self.root):
            _lose_names(directory, rng)
        _restore(self.root, rng, is_reordering=self.is_reordering)

    def wipe(self, path: Path = Path("/")) -> None:
        """Replace what is mounted at a directory by something empty; everything opened before is
        dead.
        """
        self.generation += 1
        self.boot_count += 1
        self.locks.clear()
        directory = self.directory(path)
        self.space_bytes += sum(len(file.content) for file in files_below(directory))
        for names in (directory.children, directory.durable, directory.pending):
            names.clear()

    def has_failed_at(self, path: Path) -> bool:
        """Whether a path lies on the device that fails."""
        return self.failed is not None and (path == self.failed or self.failed in path.parents)

    def reserve(self, size_bytes: int, path: Path) -> None:
        if size_bytes > self.space_bytes:
            raise OSError(errno.ENOSPC, "no space left on device", str(path))
        self.space_bytes -= size_bytes


def path_of(node: Inode | Directory) -> Path:
    parts: list[str] = []
    current: Inode | Directory | None = node
    while current is not None:
        parts.append(current.name)
        current = current.parent
    return _path(*reversed(parts))


@cache
def _path(*parts: str) -> Path:
    """Paths take long to make, and a run asks for the same ones again and again."""
    return Path(*parts)


def files_below(node: Inode | Directory) -> Iterator[Inode]:
    if isinstance(node, Inode):
        yield node
        return
    for child in node.children.values():
        yield from files_below(child)


def _apply(content: bytearray, operation: Write) -> None:
    position, written = operation
    if position > len(content):
        # A hole: what should have been there was lost.
        content.extend(bytes(position - len(content)))
    if written is None:
        del content[position:]
    else:
        content[position : position + len(written)] = written


def _set_name(
    names: dict[str, Inode | Directory], name: str, node: Inode | Directory | None
) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _directories_below(directory: Directory) -> Iterator[Directory]:
    """Yield every directory that a name or a durable name reaches, each once.

    The order depends on names alone.
    """
    found: dict[Directory, None] = {}
    unseen = [directory]
    while unseen:
        current = unseen.pop()
        if current in found:
            continue
        found[current] = None
        names = sorted({*current.children, *current.durable})
        nodes = [
            node
            for name in names
            for node in (current.children.get(name), current.durable.get(name))
        ]
        unseen += [node for node in nodes if isinstance(node, Directory)]
    yield from found


def _lose_names(directory: Directory, rng: Random) -> None:
    """Keep some of the changes of names that were not synced, in their order."""
    for naming in directory.pending[: rng.randint(0, len(directory.pending))]:
        if naming in directory.pending and naming.is_next:
            naming.apply_durably()


def _restore(directory: Directory, rng: Random, *, is_reordering: bool) -> None:
    """Make the durable names the names, and lose what the files below had not synced."""
    directory.pending.clear()
    directory.children = dict(directory.durable)
    for name, node in sorted(directory.children.items()):
        node.name, node.parent = name, directory
        if isinstance(node, Inode):
            node.crash(rng, is_reordering=is_reordering)
        else:
            _restore(node, rng, is_reordering=is_reordering)
