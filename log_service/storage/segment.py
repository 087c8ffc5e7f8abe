"""One segment: a file of consecutive batches, with its indexes.

The segment decides where an offset lies, when the segment is full, which part of a file is
complete, and which files belong together. It does not know other segments, retention and leaders.
The log decides which offsets come next.

Invariants:

- Files and indexes are opened at first use and may be unloaded at any time.
- ``size_bytes`` is the end of the last whole batch.
- The segment remembers the positions of its newest batches, without a gap, so that a read at the
  log's end needs no index.
"""

import errno
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from log_service.common.env import File, Files, FileSlice
from log_service.common.types import NO_TIMESTAMP, Buffer
from log_service.config.views import LogConfig
from log_service.records.batch import LOG_OVERHEAD, BatchHeader, CorruptBatch
from log_service.storage.file_names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TXN_INDEX_SUFFIX,
    file_name,
)
from log_service.storage.indexes import OffsetIndex, TimeIndex
from log_service.storage.scanning import (
    SMALL_BYTES,
    find_indexed,
    is_begun_batch,
    scan_batches,
    scan_headers,
    walker,
)
from log_service.storage.segment_indexes import RebuiltIndexes, SegmentIndexes

MAX_RELATIVE_OFFSET = 2**31 - 1
RECENT_COUNT = 128
SLOWLY_REBUILT_BYTES = 1 << 20
_new = tuple.__new__  # faster than a named tuple's own __new__, which is a Python function
_LOOKUP_CHUNK_BYTES = 8 << 10


class BatchPlace(NamedTuple):
    """The position and size of a batch in its segment."""

    position: int
    size_bytes: int


class _RecentPlaces:
    """The positions of the newest batches, from offset ``floor`` on.

    The lists only grow. From time to time the segment replaces the object by one with the newer
    half, because other threads read the object.
    """

    __slots__ = ("floor", "last_offsets", "positions")

    def __init__(self, floor: int, last_offsets: list[int], positions: list[int]) -> None:
        self.floor = floor
        self.last_offsets = last_offsets
        self.positions = positions

    def without_oldest(self) -> "_RecentPlaces":
        """Return a copy with only the newer half."""
        floor = self.last_offsets[RECENT_COUNT - 1] + 1
        return _RecentPlaces(floor, self.last_offsets[RECENT_COUNT:], self.positions[RECENT_COUNT:])


class Segment:
    """A segment of a log. Only the last one, the active segment, is appended to."""

    __slots__ = (
        "_first_timestamp",
        "_indexes",
        "_is_txn_index_synced",
        "_recent",
        "_were_indexes_doubted",
        "are_indexes_synced",
        "base_offset",
        "created_ms",
        "directory",
        "files",
        "is_removed",
        "open_file",
        "size_bytes",
        "synced_bytes",
        "tail",
        "was_used",
    )

    def __init__(
        self,
        files: Files,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        created_ms: int,
        size_bytes: int | None = None,
        tail: str = "",
    ) -> None:
        """Open a segment of ``size_bytes``, or create a new one if ``size_bytes`` is None.

        A new segment discards the content of existing files with its name. While a segment is not
        part of a log, its file names end in ``tail``.
        """
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.is_removed = False
        self.tail = tail
        self.was_used = True
        self.are_indexes_synced = size_bytes is not None
        self.size_bytes = self.synced_bytes = size_bytes or 0
        self.open_file: File | None = None
        self._indexes = SegmentIndexes(files, directory, base_offset, config, tail)
        self._first_timestamp: int | None = None
        self._recent: _RecentPlaces | None = None
        self._were_indexes_doubted = False
        self._is_txn_index_synced = True
        if size_bytes is None:
            self.open_file = files.open(self.path())
            self.open_file.truncate(0)
            self._indexes.reset()
            if not tail:
                self._indexes.offset_index.flush()  # an index alone shows that batches were lost

    def __repr__(self) -> str:
        return f"<Segment {self.base_offset} size={self.size_bytes}>"

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        """Return the path of one of the segment's files."""
        return self.directory / file_name(self.base_offset, suffix + self.tail)

    @property
    def file(self) -> File:
        """The file of the batches, opened at first use."""
        file = self.open_file
        if file is None:
            file = self.open_file = self.files.open(self.path(), create=False)
        return file

    def _read(self, position: int, size_bytes: int) -> bytes:
        """Return bytes of the file, even if another thread has just unloaded it."""
        try:
            return self.file.read(position, size_bytes)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            self.open_file = None
            return self.file.read(position, size_bytes)

    @property
    def indexes(self) -> SegmentIndexes:
        """The indexes, loaded at first use, or rebuilt if a file cannot be trusted."""
        if not self._indexes.is_loaded:
            if not self.size_bytes:
                self._indexes.reset()
            elif not self._indexes.try_load(self.size_bytes):
                self.rebuild_indexes()
        return self._indexes

    @property
    def indexes_in_memory(self) -> SegmentIndexes:
        """The indexes, without loading or rebuilding them."""
        return self._indexes

    @property
    def is_rebuild_due(self) -> bool:
        """Whether the indexes would be rebuilt before their use, which may take seconds.

        It is false after ``doubt_indexes`` has been called.
        """
        indexes = self._indexes
        is_settled = (
            indexes.is_loaded
            or self._were_indexes_doubted
            or self.size_bytes <= SLOWLY_REBUILT_BYTES
        )
        return not is_settled and not indexes.try_load(self.size_bytes)

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index."""
        return self.indexes.offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index."""
        return self.indexes.time_index

    # Appending

    def append(self, buffers: list[Buffer]) -> int:
        """Append with one gathered write and return the position.

        ``note_batch`` must follow for each batch.

        On OSError nothing was appended.
        """
        if not self._indexes.is_loaded:
            _ = self.indexes  # rebuilding them after the write would count these batches twice
        file = self.open_file or self.file
        self.was_used = True
        self.are_indexes_synced = False
        position = file.append_gathered(buffers)
        self.size_bytes = file.size_bytes
        return position

    def note_batch(
        self, position: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> None:
        """Add a batch that ``append`` wrote at ``position`` to the indexes and recent positions."""
        self._indexes.note(position, last_offset, max_timestamp)
        if position == 0:
            self._first_timestamp = max_timestamp
        recent = self._recent
        if recent is None:
            recent = self._recent = _RecentPlaces(base_offset, [], [])
        recent.positions.append(position)
        recent.last_offsets.append(last_offset)
        if len(recent.positions) > 2 * RECENT_COUNT:
            self._recent = recent.without_oldest()

    def must_roll_for(
        self, size_bytes: int, max_timestamp: int, last_offset: int, now_ms: int, config: LogConfig
    ) -> bool:
        """Return whether batches of this size, timestamp and last offset need a new segment."""
        if self.size_bytes == 0:
            return last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        first_timestamp = self._first_timestamp
        if first_timestamp is None:
            first_timestamp = self.first_timestamp
        return (
            self.size_bytes > config.segment_bytes - size_bytes
            or (
                max_timestamp - first_timestamp
                if first_timestamp >= 0
                else now_ms - self.created_ms
            )
            > (config.roll_ms_of(self) if config.segment_jitter_ms > 0 else config.roll_ms)
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            or (self._indexes if self._indexes.is_loaded else self.indexes).is_full
        )

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, or -1 without batches.

        ``segment.ms`` counts from it.
        """
        if self._first_timestamp is None:
            if self.size_bytes == 0:
                return NO_TIMESTAMP
            _, header = next(self.headers(0))
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of all batches, or -1 if there is none."""
        timestamp = self._indexes.max_timestamp
        if timestamp is None:
            timestamp = self.indexes.max_timestamp
        assert timestamp is not None, "indexes that are loaded know it"
        return timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with ``max_timestamp``, or base_offset if none."""
        return (
            self.indexes if self._indexes.max_timestamp is None else self._indexes
        ).max_timestamp_offset

    def append_aborted(self, content: bytes) -> None:
        """Append an entry to the index of aborted transactions. The next sync makes it durable."""
        self.are_indexes_synced = False
        self._is_txn_index_synced = False
        file = self.files.open(self.path(TXN_INDEX_SUFFIX))
        try:
            file.append_gathered([content])
        finally:
            file.close()

    def replace_aborted(self, content: bytes) -> None:
        """Rewrite the index of aborted transactions durably. Blocks.

        An empty index has no file.
        """
        if content:
            self.files.write_atomically(self.path(TXN_INDEX_SUFFIX), content)
        else:
            self.files.remove(self.path(TXN_INDEX_SUFFIX))
        self._is_txn_index_synced = True

    # Finding

    def headers(
        self, position: int, *, end: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of the batches from ``position`` to ``end``.

        A batch must begin at ``position``.
        """
        return scan_headers(
            self._read,
            position,
            self.size_bytes if end is None else end,
            first_chunk_bytes=_LOOKUP_CHUNK_BYTES,
        )

    def batches(self, position: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield (position, header, bytes) of the batches from ``position`` on.

        A batch must begin at ``position``. Checksums are verified.

        Raises:
            CorruptBatch: a batch is damaged.
        """
        return scan_batches(self._read, position, self.size_bytes)

    def locate(self, offset: int) -> BatchPlace | None:
        """Return the position of the first batch that ends at or above ``offset``, or None."""
        self.was_used = True
        recent = self._recent
        if recent is not None and offset >= recent.floor:
            index = bisect_left(recent.last_offsets, offset)
            if index == len(recent.last_offsets):
                return None
            positions = [*recent.positions[index : index + 2], self.size_bytes]
            return _new(BatchPlace, (positions[0], positions[1] - positions[0]))
        found = find_indexed(
            self._read,
            lambda: self.offset_index.lookup(offset),
            self.doubt_indexes,
            self.size_bytes,
            offset,
        )
        return None if found is None else BatchPlace(*found)

    def slice(self, position: int, size_bytes: int) -> FileSlice:
        """Return a range of the file, which the caller releases."""
        try:
            return (self.open_file or self.file).slice(position, size_bytes)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            self.open_file = None
            return self.file.slice(position, size_bytes)

    def batch(self, position: int, size_bytes: int) -> bytes:
        """Return the bytes of the batch at ``position``.

        Raises:
            CorruptBatch: the batch is incomplete.
        """
        content = self._read(position, size_bytes)
        if len(content) < size_bytes:
            raise CorruptBatch(f"the batch at position {position} of {self.path()} is cut off")
        return content

    def next_offset(self) -> int:
        """Return the offset after the last batch, read from the file."""
        next_offset = self.base_offset
        start = 0 if self.size_bytes <= SMALL_BYTES else self.offset_index.last_entry[1]
        for _, header in scan_headers(
            walker(self.files, self.path(), self._read, self.size_bytes), start, self.size_bytes
        ):
            next_offset = header.next_offset
        return next_offset

    # Checking and cutting

    def rebuild_indexes(self, rebuilt: RebuiltIndexes | None = None) -> None:
        """Rebuild both indexes from the headers and replace the files.

        With ``rebuilt``, this only adds the new files to it. ``rebuilt`` puts them in place later.

        Raises:
            CorruptBatch: a batch is damaged.
        """
        indexes = self._indexes.anew()
        try:
            for position, header in self.headers(0):
                indexes.note(position, header.last_offset, header.max_timestamp)
        except CorruptBatch:
            self._indexes = indexes  # they are right up to the damage
            raise
        self._indexes = indexes  # only once they are whole, because other threads use them
        own = RebuiltIndexes(self.files)
        indexes.replace_files(own if rebuilt is None else rebuilt)
        own.put_in_place()

    def doubt_indexes(self) -> None:
        """Rebuild the indexes, unless an earlier call has done so.

        If the batches are damaged, rebuilding again does not help.
        """
        if not self._were_indexes_doubted:
            try:
                self.rebuild_indexes()
            finally:
                self._were_indexes_doubted = True

    def recover(self, note_epoch: Callable[[int, int], object]) -> tuple[int, int, str | None]:
        """Verify every batch and rebuild the indexes.

        Return the number of valid bytes, the next offset, and the reason for an early end or None.
        ``note_epoch`` is called with the leader epoch and base offset of each valid batch.
        """
        self._start_over()
        self.are_indexes_synced = False
        self.synced_bytes = 0
        valid_bytes, next_offset = 0, self.base_offset
        try:
            for position, header, _ in scan_batches(
                walker(self.files, self.path(), self._read, self.size_bytes), 0, self.size_bytes
            ):
                base_offset, last_offset = header.base_offset, header.last_offset
                if (
                    base_offset < next_offset
                    or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
                ):
                    return (
                        valid_bytes,
                        next_offset,
                        (
                            f"the batch at position {position} has base offset {base_offset},"
                            f" {next_offset} is due"
                        ),
                    )
                self.note_batch(position, base_offset, last_offset, header.max_timestamp)
                note_epoch(header.partition_leader_epoch, base_offset)
                valid_bytes, next_offset = position + header.size_bytes, last_offset + 1
        except CorruptBatch as error:
            return valid_bytes, next_offset, str(error)
        return valid_bytes, next_offset, None

    def ends_within_batch(self, position: int) -> bool:
        """Return whether only an incomplete batch follows ``position`` in the file.

        An interrupted write leaves such a batch.
        """
        return is_begun_batch(self._read(position, LOG_OVERHEAD), self.size_bytes - position)

    def _start_over(self) -> None:
        self._indexes.reset()
        self._first_timestamp = None
        self._recent = None

    def truncate_to_position(self, size_bytes: int) -> None:
        """Truncate the file at the beginning of a batch, durably, and the indexes with it."""
        indexes = self.indexes
        _, header = next(self.headers(size_bytes))
        self._cut(size_bytes)
        if size_bytes == 0:
            self._start_over()
            return
        self._recent = None
        for _, kept in self.headers(indexes.truncate_to(header.base_offset)):
            indexes.raise_max_timestamp(kept.max_timestamp, kept.last_offset)

    def cut_torn_tail(self, size_bytes: int) -> None:
        """Truncate the file durably after the bytes that ``recover`` found valid.

        The indexes have no entries for the removed bytes.
        """
        self._cut(size_bytes)

    def _cut(self, size_bytes: int) -> None:
        """Truncate and sync at once.

        Otherwise the removed bytes could reappear after a crash, following the next append.
        """
        self.file.truncate(size_bytes)
        self.are_indexes_synced = False
        self.size_bytes = size_bytes
        self._sync_file()

    # Ending

    def finish_indexes(self) -> None:
        """Add the time index's last entry and write both files when the segment rolls or closes."""
        indexes = self.indexes if self._indexes.owes_last_time else self._indexes
        indexes.finish()

    def sync_indexes(self) -> None:
        """Make the index files durable. Blocks."""
        self.indexes.flush(is_synced=True)
        if not self._is_txn_index_synced:
            self._sync_txn_index()
        self.are_indexes_synced = True

    def _sync_txn_index(self) -> None:
        file = self.files.open(self.path(TXN_INDEX_SUFFIX), create=False)
        try:
            file.sync_nowait()
        finally:
            file.close()
        self._is_txn_index_synced = True

    def note_synced(self, size_bytes: int) -> None:
        """Record that a sync of the file made its first ``size_bytes`` durable."""
        self.synced_bytes = max(self.synced_bytes, size_bytes)

    def finish_durably(self) -> None:
        """Finish the indexes, and make them and the batches durable. Blocks."""
        self.finish_indexes()
        self._sync_file()
        self.sync_indexes()

    def write_again(self) -> None:
        """Overwrite every batch with itself and sync the file. Blocks.

        This makes bytes durable that are only in memory after a failed sync.
        """
        for position, _, batch in self.batches(0):
            self.file.write_at(position, batch)
        self._sync_file()

    def _sync_file(self) -> None:
        self.file.sync_nowait()
        self.synced_bytes = self.size_bytes

    def sync(self) -> None:
        """Make a rolled segment and its indexes durable. Blocks.

        A segment that was removed meanwhile needs no sync.
        """
        try:
            if self.synced_bytes < self.size_bytes and not self.is_removed:
                self._sync_file()
            if not self.are_indexes_synced and not self.is_removed:
                self.sync_indexes()
        except OSError as error:
            if not self.is_removed or error.errno not in {errno.EBADF, errno.ENOENT}:
                raise

    def pin(self) -> None:
        """Open the file and load the indexes, so that reads continue when the files are renamed."""
        self.was_used = True
        _ = self.indexes
        self.file.slice(0, 0).release()

    def unload(self) -> None:
        """Close the file, and free the indexes' memory if they are on disk.

        The next use opens them again.
        """
        self.close_file()
        self._indexes.unload()
        self._recent = None

    def maybe_unload(self) -> bool:
        """Unload the segment if it was not used since the last call.

        Return whether it had anything open and was unloaded.
        """
        was_used, self.was_used = self.was_used, False
        if was_used or (self.open_file is None and not self._indexes.is_loaded):
            return False
        self.unload()
        return True

    def close_file(self) -> None:
        """Close the descriptor when its last lease is released."""
        file, self.open_file = self.open_file, None
        if file is not None:
            file.close()

    def replace_file(self, file: File) -> None:
        """Use ``file`` from now on. It holds the same bytes under the same name.

        The old file is closed when its last lease is released.
        """
        old, self.open_file = self.open_file, file
        if old is not None:
            old.close()

    def rename(self, tail: str) -> list[Path]:
        """Append ``tail`` to the names of the files, and return the new paths.

        For ``.deleted``, the indexes are renamed before the batches, because a start treats an
        index without batches as a sign that the batches were lost.
        """
        renamed = []
        for suffix in reversed(SEGMENT_SUFFIXES) if tail == DELETED_SUFFIX else SEGMENT_SUFFIXES:
            source = self.path(suffix)
            if self.files.exists(source):
                renamed.append(self.directory / file_name(self.base_offset, suffix + tail))
                self.files.rename(source, renamed[-1])
        self.tail = tail
        self._indexes.rename(tail)
        return renamed

    def set_aside(self, *, is_kept_open: bool = False) -> list[Path]:
        """Rename the segment's files to ``.deleted`` and return the new paths."""
        self.is_removed = True
        if not is_kept_open:
            self.close_file()
        return self.rename(DELETED_SUFFIX)
