"""Runs the metadata log of a quorum of one: opens it in a new epoch, appends, syncs in groups, hands out what is committed.

Decides when bytes are written and synced; what the records mean is for its listeners, what an epoch may be is ``raft.core``'s. Waits only
in ``open``, ``run``, ``wait_for``, ``write_snapshot`` and ``close``; ``append`` reaches the page cache and returns.

Invariants: the epoch is durable before its first record; a batch is handed to listeners once, in order, and only after it is durable; an
error of the disk is final: ``run`` raises, and the node cancels every caller that waits for an append (a full disk is none: it costs the
append, or puts a snapshot off). A wait belongs to an epoch and ends with it: a record of another leader never ends the wait for a record of
this node. Records that were appended and never committed die with the process: the next start finds them or not, and no caller was told
either way.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol
from uuid import UUID

import trio

from log_service.common.env import DirectoryLock, NodeEnv
from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.types import CLUSTER_METADATA_TOPIC, LeaderEpoch, NodeId, TopicId, TopicPartition
from log_service.config.views import LogConfig, MetadataLogConfig
from log_service.protocol.stored.control_records import VotersRecord
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.raft.batches import (
    ControlValue,
    MetadataBatch,
    Voter,
    decode_batches,
    encode_control,
    encode_records,
    kraft_version,
    leader_change,
    voters_of,
    voters_record,
)
from log_service.raft.core import NO_LEADER, LogPosition, QuorumState, committed_offset, elect_self
from log_service.raft.quorum_store import read_quorum_state, write_quorum_state
from log_service.raft.snapshots import Snapshot, SnapshotId, encode_snapshot, list_snapshots, read_snapshot, unfinished_snapshots
from log_service.raft.waits import CommitWaits, not_controller
from log_service.records.control import ControlType
from log_service.storage.checkpoints import read_offsets, write_offsets
from log_service.storage.durable_directory import make_durable_directory
from log_service.storage.log import Log
from log_service.storage.log_directory import is_full_disk
from log_service.storage.recovery import OpenedFrom, open_log

METADATA_TOPIC_ID = TopicId(UUID(int=1))
METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
SYNCED_CHECKPOINT = "synced-offset-checkpoint"
KEPT_SNAPSHOT_COUNT = 2

logger = logging.getLogger(__name__)


class MetadataListener(Protocol):
    """Whoever replays the metadata log; called on the event loop, must not wait."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Forget everything and begin with a snapshot."""

    def on_batches(self, batches: Sequence[MetadataBatch]) -> None:
        """Take the next committed batches."""

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        """Learn who leads the quorum, -1 while no one does, and in which epoch."""


class RaftDriver:
    """The metadata log of this node. ``directory`` is the log directory that holds ``__cluster_metadata-0``."""

    def __init__(self, env: NodeEnv, directory: Path, *, node_id: NodeId, config: MetadataLogConfig | None = None) -> None:
        self.epoch = LeaderEpoch(0)
        self.leader_id = NO_LEADER
        self.high_watermark = 0
        self.voters: tuple[Voter, ...] = ()
        self._env = env
        self._directory = directory
        self._path = directory / str(METADATA_PARTITION)
        self._lock: DirectoryLock | None = None
        self._node_id = node_id
        self._config = config or MetadataLogConfig()
        self._log: Log | None = None
        self._listeners: list[MetadataListener] = []
        self._uncommitted: deque[MetadataBatch] = deque()
        self._waits = CommitWaits()
        self._appended = trio.Event()
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = 0

    def __repr__(self) -> str:
        return f"<RaftDriver node={self._node_id} epoch={self.epoch} hw={self.high_watermark} end={self.log_end_offset}>"

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset if self._log else 0

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the quorum, so that it may append."""
        return self.leader_id == self._node_id

    @property
    def end_position(self) -> LogPosition:
        """The end of the log as this node sees it in its present epoch."""
        return LogPosition(epoch=self.epoch, end_offset=self.log_end_offset)

    def subscribe(self, listener: MetadataListener) -> None:
        """Hand committed batches to ``listener``; before ``open``, so that it sees all of them."""
        assert self._log is None, "a listener that comes after open would miss what is committed"
        self._listeners.append(listener)

    async def open(self) -> None:
        """Open the log, begin a new epoch durably, and replay everything that is committed.

        Raises:
            StorageError: the directory is damaged, or its disk failed.
        """
        files = self._env.files
        try:
            snapshot, log = await files.run_in_pool(self._load)
            self._log = log
            start_offset = snapshot.id.end_offset if snapshot else log.log_start_offset
            self._append_epoch(log)
            await self._sync(log)
            await files.run_in_pool(lambda: self._note_synced(log))
            batches = await files.run_in_pool(lambda: self._read_committed(log, start_offset))
        except (OSError, KafkaError) as error:
            raise StorageError(f"the metadata log in {self._path} cannot be used: {error}") from error
        self.voters = self.voters or _last_voters(batches)
        self._bytes_since_snapshot = sum(batch.size_bytes for batch in batches)
        self._last_snapshot_ms = self._env.clock.monotonic_ms()
        for listener in self._listeners:
            if snapshot is not None and snapshot.id.end_offset > 0:
                listener.on_snapshot(snapshot)
            listener.on_batches(batches)
        self._change_leader(self._node_id)

    def append(self, records: Sequence[MetadataRecord]) -> LogPosition:
        """Append one decision's records as one batch and return the position behind them; they are committed later.

        Raises:
            KafkaError: NOT_CONTROLLER, this node does not lead the quorum; RECORD_LIST_TOO_LARGE, they do not fit into one batch;
                KAFKA_STORAGE_ERROR. Nothing was appended.
        """
        if not self.is_leader:
            raise not_controller()
        log = self._opened()
        base_offset = log.log_end_offset
        now_ms = self._env.clock.wall_ms()
        buffer = encode_records(records, base_offset=base_offset, epoch=self.epoch, timestamp_ms=now_ms)
        if len(buffer) > self._config.max_batch_bytes:
            text = f"{len(records)} metadata records take {len(buffer)} bytes, above {self._config.max_batch_bytes}; ask for less at once"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
        try:
            log.append_as_follower(buffer)
        except KafkaError:
            if log.home.is_offline:
                self._appended.set()  # ``run`` finds out, and ends
            raise
        batch = MetadataBatch(
            base_offset=base_offset,
            last_offset=log.log_end_offset - 1,
            epoch=self.epoch,
            timestamp_ms=now_ms,
            size_bytes=len(buffer),
            records=tuple(records),
        )
        self._uncommitted.append(batch)
        self._appended.set()
        return self.end_position

    async def run(
        self,
        snapshot_source: Callable[[], Iterable[MetadataRecord]] | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Make appends durable, one sync for all that wait, and hand them out; ends only by cancellation or an error.

        ``snapshot_source`` returns all metadata up to the high watermark as records; without it no snapshots are written.

        Raises:
            StorageError: the disk failed; nothing may be acknowledged any more.
        """
        task_status.started()
        log = self._opened()
        while True:
            await self._appended.wait()
            self._appended = trio.Event()
            if log.home.is_offline:
                raise StorageError(f"the metadata log in {self._path} could not be appended to: {log.home.refused()}")
            try:
                await self._sync(log)
            except KafkaError as error:
                raise StorageError(f"the metadata log in {self._path} could not be made durable: {error}") from error
            self._hand_out()
            if snapshot_source is not None and self._is_snapshot_due():
                await self._write_due_snapshot(snapshot_source())

    async def wait_for(self, position: LogPosition) -> None:
        """Wait until everything below ``position`` is committed and handed to the listeners.

        Raises:
            KafkaError: NOT_CONTROLLER, this node no longer leads in the epoch of ``position``. What was appended there may still be
                committed, or another leader's records may have replaced it.
        """
        if not self.is_leader or position.epoch != self.epoch:
            raise not_controller()
        if position.end_offset <= self.high_watermark:
            return
        await self._waits.wait_for(position)

    async def write_snapshot(self, records: Iterable[MetadataRecord]) -> SnapshotId:
        """Write all metadata below the high watermark as a snapshot, and drop the log and the snapshots that it replaces.

        Raises:
            StorageError: the disk failed.
        """
        log = self._opened()
        snapshot_id = SnapshotId(self.high_watermark, self.epoch)
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = self._env.clock.monotonic_ms()
        try:
            await self._env.files.run_in_pool(lambda: self._write_snapshot(snapshot_id, records))
            kept = await self._env.files.run_in_pool(self._remove_old_snapshots)
            log.roll()
            log.advance_log_start_offset(kept[0].end_offset)
            log.apply_retention(self._env.clock.wall_ms(), self.high_watermark)
            await self._env.files.run_in_pool(lambda: self._note_synced(log))
        except (OSError, KafkaError) as error:
            raise StorageError(f"the snapshot {snapshot_id.file_name} could not be written to {self._path}: {error}") from error
        return snapshot_id

    async def close(self) -> None:
        """Make the log durable and close its files.

        Raises:
            StorageError: the disk failed.
        """
        self._change_leader(NO_LEADER)
        log, self._log = self._log, None
        if log is None:
            return
        try:
            await log.close()
            await self._env.files.run_in_pool(lambda: self._note_synced(log))
        except (OSError, KafkaError) as error:
            raise StorageError(f"the metadata log in {self._path} could not be closed in order: {error}") from error
        finally:
            self.release()

    def release(self) -> None:
        """Close the files and give the lock back, writing nothing: how a start that failed and a cancelled node end. Idempotent."""
        self._change_leader(NO_LEADER)
        log, self._log = self._log, None
        if log is not None:
            log.close_files()
        if self._lock is not None:
            self._lock.release()

    # Opening

    def _take_lock(self) -> None:
        make_durable_directory(self._env.files, self._directory)
        try:
            self._lock = self._env.files.lock_directory(self._directory)
        except BlockingIOError as error:
            raise StorageError(f"{self._directory} is in use by another process; stop it, or set another metadata.log.dir") from error

    def _load(self) -> tuple[Snapshot | None, Log]:
        files = self._env.files
        if self._config.is_directory_apart:
            self._take_lock()
        make_durable_directory(files, self._path)
        snapshots = list_snapshots(files, self._path)
        newest = snapshots[-1] if snapshots else None
        snapshot = read_snapshot(files, self._path / newest.file_name, newest) if newest else None
        synced = read_offsets(files, self._path / SYNCED_CHECKPOINT).get(METADATA_PARTITION, 0)
        log = open_log(
            files,
            self._env.clock,
            self._path,
            METADATA_PARTITION,
            log_config(self._config),
            topic_id=METADATA_TOPIC_ID,
            known=OpenedFrom(recovery_point=synced, log_start_offset=snapshots[0].end_offset if snapshots else 0),
        )
        state = elect_self(read_quorum_state(files, self._path), log.latest_leader_epoch, self._node_id)
        if newest is not None and state.leader_epoch <= newest.epoch:
            state = QuorumState(leader_id=self._node_id, leader_epoch=LeaderEpoch(newest.epoch + 1))
        write_quorum_state(files, self._path, state)
        self.epoch = state.leader_epoch
        self.voters = snapshot.voters if snapshot else ()
        return snapshot, log

    def _append_epoch(self, log: Log) -> None:
        """Open the epoch in the log; an empty log also gets the voters, as the first record of everything."""
        values: list[tuple[ControlType, ControlValue]] = [leader_change(self._node_id, self.voters)]
        if log.log_end_offset == 0 and self.voters:
            values += [kraft_version(), voters_record(self.voters)]
        now_ms = self._env.clock.wall_ms()
        log.append_as_follower(encode_control(values, base_offset=log.log_end_offset, epoch=self.epoch, timestamp_ms=now_ms))

    def _read_committed(self, log: Log, start_offset: int) -> list[MetadataBatch]:
        batches: list[MetadataBatch] = []
        for chunk in log.read_batches(start_offset, self.high_watermark):
            batches += (batch for batch in decode_batches(chunk, str(self._path)) if batch.last_offset >= start_offset)
        return batches

    def _note_synced(self, log: Log) -> None:
        write_offsets(self._env.files, self._path / SYNCED_CHECKPOINT, {METADATA_PARTITION: log.recovery_point})

    # Committing

    def _opened(self) -> Log:
        assert self._log is not None, "the log is not open"
        return self._log

    async def _sync(self, log: Log) -> None:
        self.high_watermark = committed_offset(self.high_watermark, await log.sync())

    def _hand_out(self) -> None:
        committed: list[MetadataBatch] = []
        while self._uncommitted and self._uncommitted[0].last_offset < self.high_watermark:
            committed.append(self._uncommitted.popleft())
        if not committed:
            return
        self._bytes_since_snapshot += sum(batch.size_bytes for batch in committed)
        for listener in self._listeners:
            listener.on_batches(committed)
        self._waits.end_by_commit(self.high_watermark)

    def _change_leader(self, leader_id: NodeId) -> None:
        """Note who leads, end every wait of an epoch that this node led, and tell the listeners."""
        if leader_id == self.leader_id:
            return
        self.leader_id = leader_id
        self._waits.end_by_epoch()
        for listener in self._listeners:
            listener.on_leader_change(leader_id, self.epoch)

    # Snapshots

    async def _write_due_snapshot(self, records: Iterable[MetadataRecord]) -> None:
        """Write a snapshot; a full disk puts it off until the next one is due, for the log still holds everything."""
        try:
            await self.write_snapshot(records)
        except StorageError as error:
            if not is_full_disk(error):
                raise
            logger.warning("%s; the next one is tried when it is due", error)

    def _is_snapshot_due(self) -> bool:
        interval_ms = self._config.max_snapshot_interval_ms
        age_ms = self._env.clock.monotonic_ms() - self._last_snapshot_ms
        return self._bytes_since_snapshot >= self._config.max_record_bytes_between_snapshots or 0 < interval_ms <= age_ms

    def _write_snapshot(self, snapshot_id: SnapshotId, records: Iterable[MetadataRecord]) -> None:
        now_ms = self._env.clock.wall_ms()
        content = b"".join(
            encode_snapshot(records, epoch=snapshot_id.epoch, timestamp_ms=now_ms, last_contained_timestamp_ms=now_ms, voters=self.voters)
        )
        self._env.files.write_atomically(self._path / snapshot_id.file_name, content)

    def _remove_old_snapshots(self) -> list[SnapshotId]:
        snapshots = list_snapshots(self._env.files, self._path)
        for name in [old.file_name for old in snapshots[:-KEPT_SNAPSHOT_COUNT]] + unfinished_snapshots(self._env.files, self._path):
            self._env.files.remove(self._path / name)
        return snapshots[-KEPT_SNAPSHOT_COUNT:]


def log_config(config: MetadataLogConfig) -> LogConfig:
    """Return how the metadata log behaves as a log: only snapshots let go of its records."""
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        retention_ms=-1,
        retention_bytes=-1,
        max_message_bytes=config.max_batch_bytes,
    )


def _last_voters(batches: Sequence[MetadataBatch]) -> tuple[Voter, ...]:
    named = [value for batch in batches for value in batch.control if isinstance(value, VotersRecord)]
    return voters_of(named[-1]) if named else ()
