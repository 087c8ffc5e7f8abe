"""The sparse indexes of a segment, from offset to position and from timestamp to offset.

The entry formats are Kafka's. ``.index`` has the relative offset i32 and the position i32.
``.timeindex`` has the timestamp i64 and the relative offset i32. This module finds entries and
decides which files are trusted. It does not know batches. A segment that gets ``IndexInDoubt``
rebuilds its indexes.

Invariants:

- Entries are in strictly increasing order, one index by offset and the other by timestamp.
- Entries are bytes in memory, without a Python object for each entry. They are read from the file
  at first use. They are written when the segment rolls, syncs as a whole or closes.
- A file may be older than memory. Recovery does not trust the index files of segments that were not
  synced.
- No file is preallocated.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

from log_service.common.env import Files
from log_service.common.types import NO_TIMESTAMP, Buffer

OFFSET_INDEX_ENTRY = Struct(">ii")
TIME_INDEX_ENTRY = Struct(">qi")


class IndexInDoubt(Exception):  # noqa: N818 - it says what is the case
    """The content of an index file cannot be correct. The text gives the reason."""


class _Index:
    """An index: entries of a fixed size in memory, and the file that holds them."""

    __slots__ = ("_entries", "_written_bytes", "base_offset", "files", "max_bytes", "path")
    entry = OFFSET_INDEX_ENTRY

    def __init__(self, files: Files, path: Path, base_offset: int, max_bytes: int) -> None:
        self.files = files
        self.path = path
        self.base_offset = base_offset
        self.max_bytes = max_bytes
        self._entries: bytearray | None = None
        self._written_bytes = 0

    def __len__(self) -> int:
        return len(self.entries) // self.entry.size

    def __repr__(self) -> str:
        count = "?" if self._entries is None else len(self)
        return f"<{type(self).__name__} {self.path.name} entries={count}>"

    @property
    def entries(self) -> bytearray:
        """The entries, as in the file.

        Raises:
            IndexInDoubt: the file is missing or damaged.
        """
        if self._entries is None:
            self._load()
            assert self._entries is not None
        return self._entries

    def _load(self) -> None:
        try:
            content = bytearray(self.files.read_bytes(self.path))
        except FileNotFoundError:
            raise IndexInDoubt("the file is missing") from None
        if len(content) % self.entry.size:
            text = f"{len(content)} bytes are not a whole number of entries"
            raise IndexInDoubt(text)
        self.check(content)
        self._entries = content
        self._written_bytes = len(content)

    def check(self, content: bytearray) -> None:
        """Raise IndexInDoubt if the entries cannot be correct.

        Only the first and last are checked.
        """

    @property
    def size_bytes(self) -> int:
        """The size of the entries in bytes."""
        return len(self.entries)

    @property
    def is_dirty(self) -> bool:
        """Whether memory has entries that are not in the file."""
        return self._entries is not None and self._written_bytes != len(self._entries)

    @property
    def is_full(self) -> bool:
        """Whether another entry would exceed ``segment.index.bytes``."""
        return len(self.entries) + self.entry.size > self.max_bytes

    def reset(self) -> None:
        """Drop every entry. The next ``flush`` replaces the file."""
        self._entries = bytearray()
        self._written_bytes = -1

    def cut(self, count: int) -> None:
        """Keep the first ``count`` entries."""
        entries = self.entries
        del entries[count * self.entry.size :]
        if self._written_bytes > len(entries):
            self._written_bytes = -1

    def flush(self, *, is_synced: bool = False) -> None:
        """Write new entries to the file, durably with ``is_synced``. Blocks."""
        entries = self._entries
        if entries is None or not (is_synced or self.is_dirty or not self.files.exists(self.path)):
            return
        file = self.files.open(self.path)
        try:
            kept_bytes = max(self._written_bytes, 0)
            if file.size_bytes != kept_bytes:
                kept_bytes = 0
                file.truncate(0)
            if len(entries) > kept_bytes:
                file.append_gathered([memoryview(entries)[kept_bytes:]])
            if is_synced:
                file.sync_nowait()
        finally:
            file.close()
        self._written_bytes = len(entries)

    def replace_file(self, write: Callable[[Path, Buffer], None]) -> None:
        """Replace the file by calling ``write`` with its path and these entries."""
        write(self.path, self.entries)
        self._written_bytes = len(self.entries)

    def unload(self) -> None:
        """Free the memory.

        A later read loads the entries from the file, so all of them must be in it.
        """
        assert not self.is_dirty, "unwritten entries would be lost"
        self._entries = None


class OffsetIndex(_Index):
    """Entries of (last offset of a batch, position at which this batch begins)."""

    __slots__ = ()
    entry = OFFSET_INDEX_ENTRY

    def check(self, content: bytearray) -> None:
        """Raise IndexInDoubt if the last entry does not come after the first.

        A file whose end was never written has such entries.
        """
        if not content:
            return
        first_offset, first_position = OFFSET_INDEX_ENTRY.unpack_from(content, 0)
        offset, position = OFFSET_INDEX_ENTRY.unpack_from(content, len(content) - 8)
        is_ordered = (
            (offset > first_offset and position > first_position) if len(content) > 8 else True
        )
        if first_offset < 0 or first_position < 0 or not is_ordered:
            text = (
                f"its last entry is offset {offset} at position {position}, its first is offset"
                f" {first_offset} at {first_position}"
            )
            raise IndexInDoubt(text)

    def append(self, offset: int, position: int) -> None:
        """Add an entry. ``offset`` must be above all others."""
        self.entries.extend(OFFSET_INDEX_ENTRY.pack(offset - self.base_offset, position))

    @property
    def last_entry(self) -> tuple[int, int]:
        """(offset, position) of the last entry, or (base_offset, 0) without entries."""
        entries = self.entries
        if not entries:
            return self.base_offset, 0
        offset, position = OFFSET_INDEX_ENTRY.unpack_from(entries, len(entries) - 8)
        return self.base_offset + offset, position

    def last_position(self, size_bytes: int) -> int:
        """Return the position of the last entry, which must lie below ``size_bytes``.

        Raises:
            IndexInDoubt: the position is at or above ``size_bytes``.
        """
        _, position = self.last_entry
        if position >= size_bytes:
            text = f"its last entry points to position {position} of {size_bytes}"
            raise IndexInDoubt(text)
        return position

    def lookup(self, offset: int) -> int:
        """Return the position of the last entry at or below ``offset``, or 0 if there is none."""
        count = self._count_up_to(offset)
        return (
            0
            if count == 0
            else int(OFFSET_INDEX_ENTRY.unpack_from(self.entries, (count - 1) * 8)[1])
        )

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above ``offset``."""
        self.cut(self._count_up_to(offset - 1))

    def _count_up_to(self, offset: int) -> int:
        entries, wanted = self.entries, offset - self.base_offset
        unpack = OFFSET_INDEX_ENTRY.unpack_from
        low, high = 0, len(entries) // 8
        while low < high:
            middle = (low + high) // 2
            if unpack(entries, middle * 8)[0] <= wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for offset, position in OFFSET_INDEX_ENTRY.iter_unpack(self.entries):
            yield self.base_offset + offset, position


class TimeIndex(_Index):
    """Entries of (largest timestamp so far, last offset of its batch)."""

    __slots__ = ()
    entry = TIME_INDEX_ENTRY

    def check(self, content: bytearray) -> None:
        """Raise IndexInDoubt if the last entry does not come after the first.

        A file whose end was never written has such entries.
        """
        if not content:
            return
        first_timestamp, first_offset = TIME_INDEX_ENTRY.unpack_from(content, 0)
        timestamp, offset = TIME_INDEX_ENTRY.unpack_from(content, len(content) - 12)
        is_ordered = (
            (timestamp > first_timestamp and offset >= first_offset) if len(content) > 12 else True
        )
        if first_offset < 0 or first_timestamp < 0 or not is_ordered:
            text = (
                f"its last entry is {timestamp} ms at offset {offset}, its first is"
                f" {first_timestamp} ms at {first_offset}"
            )
            raise IndexInDoubt(text)

    def maybe_append(self, timestamp: int, offset: int) -> bool:
        """Add an entry if ``timestamp`` is above all others, and return whether it was added."""
        entries = self.entries
        if timestamp <= (
            TIME_INDEX_ENTRY.unpack_from(entries, len(entries) - 12)[0] if entries else NO_TIMESTAMP
        ):
            return False
        entries.extend(TIME_INDEX_ENTRY.pack(timestamp, offset - self.base_offset))
        return True

    @property
    def is_full(self) -> bool:
        """Whether at most one more entry fits. The segment needs this entry when it rolls."""
        return len(self.entries) + 2 * 12 > self.max_bytes

    @property
    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry, or (-1, base_offset) without entries."""
        entries = self.entries
        if not entries:
            return NO_TIMESTAMP, self.base_offset
        timestamp, offset = TIME_INDEX_ENTRY.unpack_from(entries, len(entries) - 12)
        return timestamp, self.base_offset + offset

    def lookup(self, timestamp: int) -> int:
        """Return the offset of the last entry at or below ``timestamp``, or base_offset if none."""
        entries = self.entries
        unpack = TIME_INDEX_ENTRY.unpack_from
        low, high = 0, len(entries) // 12
        while low < high:
            middle = (low + high) // 2
            if unpack(entries, middle * 12)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self.base_offset + (unpack(entries, (low - 1) * 12)[1] if low else 0)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above ``offset``."""
        count = len(self)
        while (
            count
            and TIME_INDEX_ENTRY.unpack_from(self.entries, (count - 1) * 12)[1]
            >= offset - self.base_offset
        ):
            count -= 1
        self.cut(count)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for timestamp, offset in TIME_INDEX_ENTRY.iter_unpack(self.entries):
            yield timestamp, self.base_offset + offset
