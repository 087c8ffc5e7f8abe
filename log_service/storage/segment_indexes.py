"""The two indexes of one segment, which always change together.

This module decides when an entry is due: when more than ``index.interval.bytes`` lie between a
batch and the last entry. It also decides how rebuilt files become durable. Many files, as at a
start with missing indexes, share one sync of the file system. A few files are synced one by one.
The module does not know the file of batches. On ``IndexInDoubt`` the segment resets the indexes and
adds every batch again.

Invariants:

- Either both indexes are loaded or none.
- Adding batch by batch gives the same entries as a rebuild.
- The largest timestamp remains known after ``unload``.
- A rebuilt index gets its name only after all of it is durable.
"""

from copy import copy
from pathlib import Path
from typing import Self

from log_service.common.env import DirectoryLock, Files
from log_service.common.types import NO_TIMESTAMP, Buffer
from log_service.config.views import LogConfig
from log_service.storage.file_names import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_name,
    temporary_path,
)
from log_service.storage.indexes import IndexInDoubt, OffsetIndex, TimeIndex

LEAST_TOGETHER = 64
"""The least number of files that are synced together.

A file system sync waits for other processes, so a few files are synced one by one.
"""


class RebuiltIndexes:
    """Rebuilt index files of one segment or of a whole log directory, before they get their names.

    The files are written under temporary names, made durable together, and only then renamed,
    because recovery trusts the index files below the recovery point. The new names need not be
    durable. If an index is lost with the power, it is rebuilt. If it still has its temporary name,
    the next start removes it. Several threads may open logs and add indexes.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._paths: list[Path] = []

    def write(self, path: Path, content: Buffer) -> None:
        """Write the content of ``path`` to a temporary file, unsynced."""
        file = self._files.open(temporary_path(path))
        try:
            file.truncate(0)
            file.append_gathered([content])
        finally:
            file.close()
        self._paths.append(path)

    def put_in_place(self, lock: DirectoryLock | None = None) -> None:
        """Make the written files durable and give them their names. Blocks.

        ``lock`` is the lock of the log directory that holds all of them.

        Raises:
            OSError: a sync failed, which is final, or a file could not be renamed.
        """
        paths, self._paths = self._paths, []
        if lock is not None and len(paths) >= LEAST_TOGETHER and lock.can_sync_file_system:
            lock.sync_file_system()
        else:
            for path in paths:
                self._sync(temporary_path(path))
        for path in paths:
            self._files.rename(temporary_path(path), path)

    def _sync(self, path: Path) -> None:
        file = self._files.open(path, create=False)
        try:
            file.sync_nowait()
        finally:
            file.close()


class SegmentIndexes:
    """The indexes of the segment at ``base_offset``. They are empty until ``reset`` or ``load``."""

    __slots__ = (
        "_files",
        "_last_position",
        "_max_bytes",
        "base_offset",
        "directory",
        "interval_bytes",
        "is_full",
        "is_loaded",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "owes_last_time",
        "tail",
        "time_index",
    )

    def __init__(
        self, files: Files, directory: Path, base_offset: int, config: LogConfig, tail: str = ""
    ) -> None:
        self._files = files
        self.tail = tail
        self._max_bytes = config.segment_index_bytes
        self.interval_bytes = config.index_interval_bytes
        self._last_position = 0
        self.directory = directory
        self.base_offset = base_offset
        self.is_full = False
        self.is_loaded = False
        self.max_timestamp: int | None = None
        self.max_timestamp_offset = base_offset
        self.owes_last_time = False
        """Whether the time index had no entry of the largest timestamp when it was unloaded.

        Only ``finish`` adds this entry.
        """
        self.offset_index: OffsetIndex
        self.time_index: TimeIndex

    def __repr__(self) -> str:
        return (
            f"<SegmentIndexes {self.base_offset} {'loaded' if self.is_loaded else 'not loaded'}"
            f" max_timestamp={self.max_timestamp}>"
        )

    def open(self) -> tuple[OffsetIndex, TimeIndex]:
        """Return the offset index and the time index of the files, without entries yet."""
        offset_path = self.directory / file_name(self.base_offset, OFFSET_INDEX_SUFFIX + self.tail)
        time_path = self.directory / file_name(self.base_offset, TIME_INDEX_SUFFIX + self.tail)
        return (
            OffsetIndex(self._files, offset_path, self.base_offset, self._max_bytes // 8 * 8),
            TimeIndex(self._files, time_path, self.base_offset, self._max_bytes // 12 * 12),
        )

    def load(self, size_bytes: int) -> None:
        """Read both files, which index ``size_bytes`` of batches.

        Raises:
            IndexInDoubt: a file is missing or damaged.
        """
        offset_index, time_index = self.open()
        position = offset_index.last_position(size_bytes)
        if size_bytes > self.interval_bytes and not offset_index.entries:  # it was never written
            raise IndexInDoubt(f"the file has no entry for {size_bytes} bytes of batches")
        max_timestamp, max_timestamp_offset = time_index.last_entry
        self.offset_index, self.time_index = offset_index, time_index
        self.is_loaded, self.owes_last_time = True, False
        self.is_full = offset_index.is_full or time_index.is_full
        self._last_position = position
        if self.max_timestamp is None:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, max_timestamp_offset

    def try_load(self, size_bytes: int) -> bool:
        """Read both files as ``load`` does, and return whether they could be trusted."""
        try:
            self.load(size_bytes)
        except IndexInDoubt:
            return False
        return True

    def reset(self) -> None:
        """Begin without entries, whatever the files contain. The next flush replaces the files."""
        self.offset_index, self.time_index = self.open()
        self.offset_index.reset()
        self.time_index.reset()
        self.is_loaded, self.owes_last_time = True, False
        self.is_full = False
        self._last_position = 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset

    def anew(self) -> Self:
        """Return empty indexes of the same segment, and leave these unchanged."""
        fresh = copy(self)
        fresh.reset()
        return fresh

    def note(self, position: int, last_offset: int, max_timestamp: int) -> None:
        """Add the next batch. The indexes must be loaded."""
        assert self.max_timestamp is not None, "indexes are loaded before they take a batch"
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if position - self._last_position > self.interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self._last_position = position
            self.is_full = self.offset_index.is_full or self.time_index.is_full

    def truncate_to(self, offset: int) -> int:
        """Drop batches at or above ``offset``.

        Return the position from which the caller must search for the largest timestamp.
        """
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.is_full = self.offset_index.is_full or self.time_index.is_full
        _, self._last_position = self.offset_index.last_entry
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last_entry
        return self._last_position

    def raise_max_timestamp(self, max_timestamp: int, last_offset: int) -> None:
        """Raise the largest timestamp to that of a batch without an index entry.

        This is needed after ``truncate_to``.
        """
        if self.max_timestamp is None or max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset

    def finish(self) -> None:
        """Add the time index's last entry and write both files when a segment rolls or closes."""
        if self.is_loaded:
            self._append_last_time()
            self.flush()

    def replace_files(self, rebuilt: RebuiltIndexes) -> None:
        """Complete the indexes as ``finish`` does, but write them as new files of ``rebuilt``.

        ``rebuilt`` makes the files durable and puts them in place.
        """
        self._append_last_time()
        self.offset_index.replace_file(rebuilt.write)
        self.time_index.replace_file(rebuilt.write)

    def _append_last_time(self) -> None:
        if self.max_timestamp is not None and self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)

    def flush(self, *, is_synced: bool = False) -> None:
        """Write new entries to the files, durably with ``is_synced``. Blocks."""
        if self.is_loaded:
            self.offset_index.flush(is_synced=is_synced)
            self.time_index.flush(is_synced=is_synced)

    def rename(self, tail: str) -> None:
        """Use file names that end in ``tail`` from now on. The segment renames the files."""
        self.tail = tail
        if self.is_loaded:
            self.offset_index.path = self.directory / file_name(
                self.base_offset, OFFSET_INDEX_SUFFIX + tail
            )
            self.time_index.path = self.directory / file_name(
                self.base_offset, TIME_INDEX_SUFFIX + tail
            )

    def unload(self) -> None:
        """Free the memory if the files have all entries."""
        if self.is_loaded and not self.offset_index.is_dirty and not self.time_index.is_dirty:
            self.is_loaded = False
            self.owes_last_time = (
                self.max_timestamp is not None
                and self.max_timestamp > self.time_index.last_entry[0]
            )
            self.offset_index.unload()
            self.time_index.unload()
