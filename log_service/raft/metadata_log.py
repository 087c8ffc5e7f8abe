"""The metadata log on disk: its segments, snapshots and durable end.

This file decides how a start reads the directory, which of a leader's bytes are appended, and how a
fetched snapshot replaces the log. ``raft.core`` decides what may be appended or truncated.
Appending and truncating run on the event loop, as for any log. Every other method may wait for the
disk and must run in the thread pool.

Invariants: A snapshot gets its name only after it is complete and durable. A log that ends before
the end of its newest snapshot is emptied and begins again there. A batch is appended whole or not
at all. The stored durable end is lowered before the log is truncated.
"""

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from log_service.common.env import Clock, DirectoryLock, File, Files
from log_service.common.errors import KafkaError, StorageError
from log_service.common.features import DYNAMIC_QUORUM
from log_service.common.types import CLUSTER_METADATA_TOPIC, TopicId, TopicPartition
from log_service.config.views import LogConfig, MetadataLogConfig
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.raft.batches import (
    ControlValue,
    MetadataBatch,
    decode_batches,
    encode_control,
    kraft_version,
    leader_change,
    voters_record,
)
from log_service.raft.events import AppendControl, AppendFetched, StoreSlice
from log_service.raft.log_view import EpochEnd, SnapshotId
from log_service.raft.snapshots import (
    Snapshot,
    encode_snapshot,
    list_snapshots,
    read_snapshot,
    unfinished_snapshots,
)
from log_service.raft.voters import ReplicaKey, VoterChange, VoterEntry, VoterHistory, VoterSet
from log_service.records.batch import CorruptBatch, is_crc_valid, iterate_headers
from log_service.records.control import ControlType
from log_service.storage.checkpoints import read_offsets, write_offsets
from log_service.storage.durable_directory import make_durable_directory
from log_service.storage.file_names import (
    OFFSET_INDEX_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
)
from log_service.storage.log import Log
from log_service.storage.recovery import OpenedFrom, open_log
from log_service.storage.refused_access import own_name

METADATA_TOPIC_ID = TopicId(UUID(int=1))
METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
SYNCED_CHECKPOINT = "synced-offset-checkpoint"
_UNUSABLE = frozenset({errno.EISDIR, errno.ENXIO, errno.ELOOP, errno.EACCES, errno.EPERM})
KEPT_SNAPSHOT_COUNT = 2


class MetadataLog:
    """The directory ``__cluster_metadata-0``. ``snapshots`` are its snapshots, oldest first."""

    def __init__(
        self, files: Files, clock: Clock, directory: Path, config: MetadataLogConfig
    ) -> None:
        self.path = directory / str(METADATA_PARTITION)
        self.snapshots: list[SnapshotId] = []
        self._files = files
        self._clock = clock
        self._config = config
        self._log: Log | None = None
        self._slices: tuple[SnapshotId, File] | None = None

    def __repr__(self) -> str:
        return f"<MetadataLog {self._log!r} snapshots={self.snapshots}>"

    # Opening

    def open(self) -> Snapshot | None:
        """Open the log, and return its newest snapshot.

        Raises:
            StorageError: the log is damaged.
            OSError: the disk failed.
        """
        make_durable_directory(self._files, self.path)
        self.snapshots = list_snapshots(self._files, self.path)
        newest = self.latest_snapshot
        snapshot = (
            read_snapshot(self._files, self.path / newest.file_name, newest) if newest else None
        )
        synced = read_offsets(self._files, self.path / SYNCED_CHECKPOINT).get(METADATA_PARTITION, 0)
        self._log = self._open_log(
            recovery_point=synced,
            start_offset=self.snapshots[0].end_offset if self.snapshots else 0,
        )
        self._check_indexes()
        if newest is not None and self._is_behind(newest):
            self._restart_at(newest)
        return snapshot

    def _check_indexes(self) -> None:
        """Check that the index files can be written, because they are opened only later.

        Raises:
            StorageError: one of them is not a file, or belongs to another user.
            OSError: the disk failed.
        """
        for name in self._files.list_directory(self.path):
            if not name.endswith((OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
                continue
            try:
                self._files.open(self.path / name, create=False).close()
            except OSError as error:
                if error.errno not in _UNUSABLE:
                    raise
                raise StorageError(
                    f"an index of the metadata log cannot be opened as user {own_name()}: {error};"
                    " move it away or give it to that user, then start again: an index that is"
                    " missing is built anew"
                ) from error

    def _open_log(self, *, recovery_point: int, start_offset: int) -> Log:
        log = open_log(
            self._files,
            self._clock,
            self.path,
            METADATA_PARTITION,
            log_config(self._config),
            topic_id=METADATA_TOPIC_ID,
            known=OpenedFrom(recovery_point=recovery_point, log_start_offset=start_offset),
        )
        log.home.save_recovery_points = self.note_synced
        return log

    def _is_behind(self, newest: SnapshotId) -> bool:
        """Whether the log ends before a snapshot, because of a crash before the log began again."""
        epoch = max(self.log.latest_leader_epoch, 0)
        return newest.epoch > epoch or (
            newest.epoch == epoch and newest.end_offset > self.log.log_end_offset
        )

    def _restart_at(self, snapshot_id: SnapshotId) -> None:
        """Empty the log, and begin it again at the end of a snapshot. Remove all other snapshots.

        Recovery point 0 is written first, because nothing in the log counts as durable any more.
        """
        write_offsets(self._files, self.path / SYNCED_CHECKPOINT, {METADATA_PARTITION: 0})
        self.log.truncate_to(0)
        self.log.leader_epochs.clear_durably()
        self.log.close_files()
        self._log = self._open_log(recovery_point=0, start_offset=snapshot_id.end_offset)
        for old in self.snapshots:
            if old != snapshot_id:
                self._files.remove(self.path / old.file_name)
        self.snapshots = [snapshot_id]

    def read_batches(self, start_offset: int) -> list[MetadataBatch]:
        """Return all batches from the one that holds ``start_offset`` on.

        Raises:
            StorageError, KafkaError: the batches are damaged, or the disk failed.
        """
        batches: list[MetadataBatch] = []
        for chunk in self.log.read_batches(start_offset):
            batches += (
                batch
                for batch in decode_batches(chunk, str(self.path))
                if batch.last_offset >= start_offset
            )
        return batches

    def close_files(self) -> None:
        """Close all files without writing. A second call has no effect."""
        log, self._log = self._log, None
        if log is not None:
            log.close_files()
        self._forget_slices()

    # What the rules read

    @property
    def log(self) -> Log:
        """The open log."""
        assert self._log is not None, "the log is not open"
        return self._log

    @property
    def is_open(self) -> bool:
        """Whether the log is open."""
        return self._log is not None

    @property
    def start_offset(self) -> int:
        """The first offset in the log."""
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record, synced or not."""
        return self.log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, else of the newest snapshot, else 0."""
        epoch = self.log.latest_leader_epoch
        return epoch if epoch >= 0 else self.snapshots[-1].epoch if self.snapshots else 0

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        """The oldest snapshot, or None if there is none."""
        return self.snapshots[0] if self.snapshots else None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot, or None if there is none."""
        return self.snapshots[-1] if self.snapshots else None

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """Return the largest epoch at or below ``epoch`` and its end.

        If all epochs are larger, return ``epoch`` with the start of the first one. Return None if
        ``epoch`` is above all epochs, or if the log has none.
        """
        found, end_offset = self.log.leader_epochs.end_offset_for(epoch, self.end_offset)
        return EpochEnd(found, end_offset) if found >= 0 else None

    def snapshot_size_bytes(self, snapshot_id: SnapshotId) -> int | None:
        """Return the size of a snapshot, or None if it does not exist."""
        return (
            self._files.size_bytes(self.path / snapshot_id.file_name)
            if snapshot_id in self.snapshots
            else None
        )

    # Reading for others

    def read(self, start_offset: int, max_bytes: int) -> bytes:
        """Return batches from ``start_offset`` on. At least the first one is whole.

        The last one may be incomplete.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        lease = self.log.read(
            start_offset,
            max_bytes=max_bytes,
            upper_offset=self.end_offset,
            is_one_batch_guaranteed=True,
        ).file_slice
        if lease is None:
            return b""
        try:
            return lease.read()
        finally:
            lease.release()

    def read_snapshot_slice(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Return bytes of a snapshot.

        Raises:
            OSError: the snapshot was removed, or the disk failed.
        """
        file = self._files.open(self.path / snapshot_id.file_name, create=False)
        try:
            return file.read(position, max_bytes)
        finally:
            file.close()

    # Changing

    def append_control(self, change: AppendControl, own: ReplicaKey) -> MetadataBatch:
        """Append the control batch that the rules request, and return it.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        values: list[tuple[ControlType, ControlValue]] = []
        if change.granting_ids is not None:
            values.append(leader_change(own.node_id, change.voter_ids, change.granting_ids))
        if change.kraft_version is not None:
            values.append(kraft_version(change.kraft_version))
        if change.voters is not None:
            values.append(voters_record(change.voters))
        now_ms, base_offset = self._clock.wall_ms(), self.end_offset
        buffer = encode_control(
            values, base_offset=base_offset, epoch=change.epoch, timestamp_ms=now_ms
        )
        self.log.append_as_follower(buffer)
        return MetadataBatch(
            base_offset=base_offset,
            last_offset=self.end_offset - 1,
            epoch=change.epoch,
            timestamp_ms=now_ms,
            size_bytes=len(buffer),
            control=tuple(value for _, value in values),
        )

    def append_fetched(self, change: AppendFetched) -> list[MetadataBatch]:
        """Append a leader's bytes and return the appended batches.

        Only whole batches that follow the log are appended, up to ``max_epoch`` of ``change``. The
        replica fetches the others again.

        Raises:
            StorageError: this version does not know a record.
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        buffer = memoryview(change.records)  # type: ignore[arg-type]  # bytes here
        size_bytes = _usable_bytes(buffer, self.end_offset, change.max_epoch)
        if size_bytes == 0:
            return []
        usable = bytes(buffer[:size_bytes])
        batches = list(decode_batches(usable, "what the leader of the metadata quorum sent"))
        self.log.append_as_follower(usable)
        return batches

    def truncate_to(self, offset: int) -> None:
        """Truncate the log. The truncation is durable on return.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        self.log.truncate_to(offset)

    def store_slice(self, change: StoreSlice) -> Snapshot | None:
        """Write a slice of a fetched snapshot.

        After the last slice, the snapshot replaces the log, and its content is returned.

        Raises:
            StorageError: the snapshot is damaged.
            KafkaError, OSError: the disk failed.
        """
        file = self._slice_file(change)
        file.append_gathered([change.content])  # type: ignore[list-item]  # bytes here
        if not change.is_last:
            return None
        file.sync_nowait()
        self._forget_slices()
        path = self.path / change.snapshot_id.file_name
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        snapshot = read_snapshot(self._files, temporary, change.snapshot_id)
        self._files.rename(temporary, path)
        self._files.sync_directory(self.path)
        self.snapshots = sorted({*self.snapshots, change.snapshot_id})
        self._restart_at(change.snapshot_id)
        return snapshot

    def _slice_file(self, change: StoreSlice) -> File:
        if self._slices is None or self._slices[0] != change.snapshot_id or change.position == 0:
            self._forget_slices()
            path = self.path / (change.snapshot_id.file_name + TEMPORARY_SUFFIX)
            self._files.remove(path)
            self._slices = change.snapshot_id, self._files.open(path)
        return self._slices[1]

    def _forget_slices(self) -> None:
        slices, self._slices = self._slices, None
        if slices is not None:
            slices[1].close()

    # Snapshots

    def write_snapshot(
        self, end_offset: int, records: Iterable[MetadataRecord], entry: VoterEntry
    ) -> SnapshotId:
        """Write everything below ``end_offset`` as a snapshot, and return its id.

        If voters are records, the snapshot has those of ``entry``.

        Raises:
            OSError: the disk failed.
        """
        epoch = self.log.leader_epochs.epoch_of(end_offset - 1)
        snapshot_id = SnapshotId(end_offset, epoch if epoch >= 0 else self.last_epoch)
        now_ms = self._clock.wall_ms()
        voters = entry.voters if entry.kraft_version >= DYNAMIC_QUORUM else ()
        content = encode_snapshot(
            records,
            epoch=snapshot_id.epoch,
            timestamp_ms=now_ms,
            last_contained_timestamp_ms=now_ms,
            voters=tuple(voters),
        )
        self._files.write_atomically(self.path / snapshot_id.file_name, b"".join(content))
        return snapshot_id

    def remove_old_snapshots(self) -> None:
        """Remove unfinished snapshots. Keep the newest ``KEPT_SNAPSHOT_COUNT`` complete ones.

        Raises:
            OSError: the disk failed.
        """
        snapshots = list_snapshots(self._files, self.path)
        for name in [
            old.file_name for old in snapshots[:-KEPT_SNAPSHOT_COUNT]
        ] + unfinished_snapshots(self._files, self.path):
            self._files.remove(self.path / name)
        self.snapshots = snapshots[-KEPT_SNAPSHOT_COUNT:]

    def trim(self, high_watermark: int) -> None:
        """Remove the records that the oldest snapshot covers.

        No segment with records at or above ``high_watermark`` is deleted.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        self.log.roll()
        self.log.advance_log_start_offset(self.snapshots[0].end_offset)
        self.log.apply_retention(self._clock.wall_ms(), high_watermark)

    def note_synced(self) -> None:
        """Write the offset up to which the log is durable.

        Raises:
            OSError: the disk failed.
        """
        write_offsets(
            self._files,
            self.path / SYNCED_CHECKPOINT,
            {METADATA_PARTITION: self.log.recovery_point},
        )


def read_history(
    static_voters: VoterSet, snapshot: Snapshot | None, changes: Sequence[VoterChange]
) -> VoterHistory:
    """Return the voters of a log, from the configuration, its snapshot and its records."""
    history = VoterHistory(static_voters)
    change = snapshot_voters(snapshot) if snapshot is not None else None
    for each in [*([change] if change is not None else []), *changes]:
        history.note(each)
    return history


def snapshot_voters(snapshot: Snapshot) -> VoterChange | None:
    """Return the voters in a snapshot, or None if it has none."""
    if not snapshot.voters:
        return None
    voters = VoterSet(tuple(sorted(snapshot.voters, key=lambda voter: voter.node_id)))
    return VoterChange(
        offset=snapshot.id.end_offset - 1, kraft_version=DYNAMIC_QUORUM, voters=voters
    )


def log_config(config: MetadataLogConfig) -> LogConfig:
    """Return the configuration of the metadata log. Retention removes no records."""
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        retention_ms=-1,
        retention_bytes=-1,
        max_message_bytes=config.max_batch_bytes,
    )


def _usable_bytes(buffer: memoryview, next_offset: int, max_epoch: int) -> int:
    """Return how many of a leader's bytes may be appended.

    These are whole batches that follow the log, of epochs up to ``max_epoch``.
    """
    end = 0
    try:
        for position, header in iterate_headers(buffer, is_torn_tail_ok=True):
            is_next = (
                header.base_offset == next_offset and header.partition_leader_epoch <= max_epoch
            )
            if not is_next or not is_crc_valid(buffer[position : position + header.size_bytes]):
                break
            next_offset, end = header.next_offset, position + header.size_bytes
    except CorruptBatch:
        pass
    return end


def lock_log_directory(files: Files, directory: Path) -> DirectoryLock:
    """Create and lock the directory of the metadata log, which no other process may use.

    Raises:
        StorageError: another process uses the directory.
    """
    make_durable_directory(files, directory)
    try:
        return files.lock_directory(directory)
    except BlockingIOError as error:
        raise StorageError(
            f"{directory} is in use by another process; stop it, or set another metadata.log.dir"
        ) from error


@contextmanager
def failing(text: str) -> Iterator[None]:
    """Raise errors of the disk as StorageError with ``text``, which names the failed action."""
    try:
        yield
    except (OSError, KafkaError) as error:
        raise StorageError(f"{text}: {error}") from error
