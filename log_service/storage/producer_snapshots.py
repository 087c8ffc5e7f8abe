"""Producer state on disk. ``<offset>.snapshot`` is the state when the log ended at this offset.

This module defines Kafka's format (version i16 = 1, CRC-32C u32 of the rest, a count, 46 bytes per
entry) and decides which snapshots are retained. It does not know the rules of producers. If a
snapshot is damaged, it is removed and the next older one is used, because the log holds everything.

A producer has one entry per remembered batch, newest last. Apache Kafka writes only the newest, and
reads only a producer's last entry. A client with several batches in flight may repeat any of them
after a restart. With only the newest entry, a repeated older batch would seem to be out of order.
The client would then number it again and append it twice.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct

from log_service.common.crc32c import crc32c
from log_service.common.env import Files
from log_service.records.batch import SEQUENCE_COUNT
from log_service.storage.file_names import SNAPSHOT_SUFFIX, file_name
from log_service.storage.producer_state import NO_OFFSET, ProducerEntry, RememberedBatch

_VERSION = 1
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class DamagedSnapshot(Exception):  # noqa: N818 - it says what is the case
    """The bytes are not a producer snapshot. The text gives the reason."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the content of a snapshot file."""
    packed = [packed for entry in entries for packed in _encode_entries(entry)]
    body = b"".join([_COUNT.pack(len(packed)), *packed])
    return _PREFIX.pack(_VERSION, crc32c(body)) + body


def _encode_entries(entry: ProducerEntry) -> Iterator[bytes]:
    for batch in list(entry.batches)[:-1]:
        yield encode_entry(entry, batch, batch.timestamp, NO_OFFSET)
    newest = entry.batches[-1] if entry.batches else None
    yield encode_entry(entry, newest, entry.last_timestamp, entry.current_txn_first_offset)


def encode_entry(
    entry: ProducerEntry, batch: RememberedBatch | None, timestamp: int, txn_offset: int
) -> bytes:
    """Return a producer's state as one entry of a snapshot."""
    sequence, offset, offset_delta = -1, NO_OFFSET, 0
    if batch is not None:
        sequence, offset, offset_delta = (
            batch.last_sequence,
            batch.last_offset,
            batch.last_offset - batch.first_offset,
        )
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        sequence,
        offset,
        offset_delta,
        timestamp,
        entry.coordinator_epoch,
        txn_offset,
    )


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """Return the producers of a snapshot file, with their remembered batches.

    Raises:
        DamagedSnapshot: the checksum, the version or the size is wrong.
    """
    if len(content) < _PREFIX.size + _COUNT.size:
        text = f"{len(content)} bytes are too few"
        raise DamagedSnapshot(text)
    version, crc = _PREFIX.unpack_from(content)
    body = memoryview(content)[_PREFIX.size :]
    (count,) = _COUNT.unpack_from(body)
    if version != _VERSION or crc != crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
        text = f"version {version}, {count} entries in {len(content)} bytes, checksum {crc:#010x}"
        raise DamagedSnapshot(text)
    producers: dict[int, ProducerEntry] = {}
    for values in _ENTRY.iter_unpack(body[_COUNT.size :]):
        entry = _decode_entry(values)
        older = producers.pop(entry.producer_id, None)
        if older is not None and older.epoch == entry.epoch:
            entry.batches.extendleft(reversed(older.batches))
        producers[entry.producer_id] = entry
    return list(producers.values())


def _decode_entry(values: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, sequence, offset, offset_delta, timestamp, coordinator_epoch, txn_offset = (
        values
    )
    entry = ProducerEntry(producer_id, epoch, timestamp)
    entry.coordinator_epoch = coordinator_epoch
    entry.current_txn_first_offset = txn_offset
    if offset >= 0 and sequence >= 0:
        first_sequence = (sequence - offset_delta) % SEQUENCE_COUNT
        entry.batches.append(
            RememberedBatch(first_sequence, sequence, offset - offset_delta, offset, timestamp)
        )
    return entry


class ProducerSnapshots:
    """The snapshot files of one partition directory, by offset."""

    __slots__ = ("_offsets", "_unsynced", "directory", "files")

    def __init__(self, files: Files, directory: Path, offsets: Iterable[int]) -> None:
        self.files = files
        self.directory = directory
        self._offsets = sorted(offsets)
        self._unsynced: list[int] = []

    @property
    def offsets(self) -> list[int]:
        """The offsets of the snapshots, lowest first."""
        return list(self._offsets)

    def path(self, offset: int) -> Path:
        """Return the path of the snapshot at ``offset``."""
        return self.directory / file_name(offset, SNAPSHOT_SUFFIX)

    def take(self, offset: int, entries: Iterable[ProducerEntry]) -> None:
        """Write the snapshot at ``offset`` without syncing.

        If a crash truncates the snapshot, its checksum is wrong and the log is read instead.
        """
        if offset in self._offsets[-1:]:
            return
        file = self.files.open(self.path(offset))
        try:
            file.truncate(0)
            file.append_gathered([encode_snapshot(entries)])
        finally:
            file.close()
        self._offsets = sorted({*self._offsets, offset})
        self._unsynced.append(offset)

    def sync(self) -> None:
        """Make all unsynced snapshots durable. Blocks."""
        unsynced, self._unsynced = self._unsynced, []
        for offset in unsynced:
            try:
                file = self.files.open(self.path(offset), create=False)
            except FileNotFoundError:
                continue  # removed since
            try:
                file.sync_nowait()
            finally:
                file.close()

    def latest(self, up_to_offset: int) -> tuple[int, list[ProducerEntry]] | None:
        """Return the offset and producers of the newest intact snapshot up to ``up_to_offset``.

        Damaged snapshots are removed.
        """
        for offset in reversed(self._offsets.copy()):
            if offset <= up_to_offset:
                try:
                    return offset, decode_snapshot(self.files.read_bytes(self.path(offset)))
                except (DamagedSnapshot, FileNotFoundError):
                    self.remove(offset)
        return None

    def remove(self, offset: int) -> None:
        """Remove one snapshot."""
        self._offsets.remove(offset)
        self.files.remove(self.path(offset))

    def remove_above(self, offset: int) -> None:
        """Remove snapshots above ``offset``, because the log no longer has these offsets."""
        for above in [taken for taken in self._offsets if taken > offset]:
            self.remove(above)

    def remove_needless(self, base_offsets: Iterable[int]) -> None:
        """Remove snapshots that are not at a segment's base offset, except the newest.

        The next start reads the newest.
        """
        kept = {*base_offsets, *self._offsets[-1:]}
        for needless in [taken for taken in self._offsets if taken not in kept]:
            self.remove(needless)
