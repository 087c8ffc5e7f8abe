"""The syncs of one log, and its recovery point.

A sync makes the active segment's batches durable. If a segment was begun since the last sync, the
sync also covers the older segments with their indexes, producer snapshots, leader epochs and names.
This module does not know appends and reads. ``syncs`` of the replication package decides when a
sync is due.

Invariants:

- ``recovery_point`` never passes the offset up to which the log, with the indexes of all older
  segments, is synced, because recovery reads no segment below it.
- ``recovery_point`` is lowered, also on disk, before the bytes above it are removed.
- One sync runs at a time. If the log is truncated during a sync, the sync does not raise the
  recovery point.
"""

from collections.abc import Callable

import trio

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.storage.leader_epochs import LeaderEpochs
from log_service.storage.log_directory import LogDirectory
from log_service.storage.partition_metadata import sync_topic_id
from log_service.storage.producer_snapshots import ProducerSnapshots
from log_service.storage.segment import Segment
from log_service.storage.segments import Segments
from log_service.storage.sync_failures import note_failed_sync


def closed(topic_partition: TopicPartition) -> KafkaError:
    """Return the error for clients of a closed log, which was deleted or moves to another node."""
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {topic_partition} is closed")


class LogSyncs:
    """The syncs of one log.

    ``is_directory_dirty`` means that new names in the log's directory are not durable yet.
    ``synced_ms`` is the time when the last sync ended, in monotonic ms.
    """

    __slots__ = (
        "_clock",
        "_home",
        "_is_ended",
        "_leader_epochs",
        "_producer_snapshots",
        "_segments",
        "_sync_ended",
        "_topic_partition",
        "_truncation_count",
        "is_directory_dirty",
        "recovery_point",
        "synced_ms",
    )

    def __init__(
        self,
        *,
        clock: Clock,
        home: LogDirectory,
        topic_partition: TopicPartition,
        segments: Segments,
        leader_epochs: LeaderEpochs,
        producer_snapshots: ProducerSnapshots,
        recovery_point: int,
        is_directory_dirty: bool,
    ) -> None:
        self._clock = clock
        self._home = home
        self._topic_partition = topic_partition
        self._segments = segments
        self._leader_epochs = leader_epochs
        self._producer_snapshots = producer_snapshots
        self.recovery_point = recovery_point
        self.is_directory_dirty = is_directory_dirty
        self.synced_ms = clock.monotonic_ms()
        self._is_ended = False
        self._truncation_count = 0
        self._sync_ended: trio.Event | None = None

    def __repr__(self) -> str:
        return (
            f"<LogSyncs {self._topic_partition}"
            f" recovery_point={self.recovery_point}{' dirty' if self.is_directory_dirty else ''}>"
        )

    async def sync_up_to(self, current_target: Callable[[], int]) -> int:
        """Make everything below ``current_target()`` durable, and return the recovery point.

        Only one sync runs at a time, because the operating system reports a failed write only once.
        A second sync at the same time could succeed although the first one failed. It could also
        succeed before the running sync has written the pages, which are marked as clean by then.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the directory is then offline; NOT_LEADER_OR_FOLLOWER,
                the log is closed.
        """
        target = current_target()
        while target > self.recovery_point or self.is_directory_dirty:
            if self._is_ended:
                raise closed(self._topic_partition)
            if self._home.is_offline:
                raise self._home.refused()
            if self._sync_ended is None:
                return await self._sync_alone(current_target())
            await self._sync_ended.wait()
        return self.recovery_point

    async def _sync_alone(self, target: int) -> int:
        segments = self._segments
        truncation_count, active = self._truncation_count, segments.active
        ended = self._sync_ended = trio.Event()
        try:
            await self._sync_older(
                [
                    segment
                    for segment in segments.from_offset(self.recovery_point)
                    if segment is not active
                ]
            )
            size_bytes = active.size_bytes
            if (
                target > active.base_offset
                and active.synced_bytes < size_bytes
                and not active.is_removed
            ):
                await active.file.sync()
                if truncation_count == self._truncation_count:
                    active.note_synced(size_bytes)
            if active is not segments.active:
                # A new segment was begun meanwhile, so this one is an older one. It must be durable
                # as a whole, because recovery reads no segment below the recovery point.
                await self._sync_older([active])
        except OSError as error:
            raise self.note_error(error) from error
        finally:
            self._sync_ended = None
            ended.set()
        if truncation_count == self._truncation_count:
            self.recovery_point = max(self.recovery_point, target)
            self.synced_ms = self._clock.monotonic_ms()
        return self.recovery_point

    async def _sync_older(self, segments: list[Segment]) -> None:
        """Make everything before the active segment durable, in the thread pool.

        This covers older segments with their indexes, snapshots, leader epochs and names.
        """
        if not segments and not self.is_directory_dirty and not self._leader_epochs.is_dirty:
            return
        epochs, self.is_directory_dirty = self._leader_epochs.take_changes(), False
        files, directory = self._segments.active.files, self._segments.active.directory

        def sync() -> None:
            for segment in segments:
                segment.sync()
            self._producer_snapshots.sync()
            if epochs is not None:
                self._home.replace_file(files, self._leader_epochs.path, epochs)
            sync_topic_id(files, directory)
            files.sync_directory(directory)
            files.sync_directory(directory.parent)

        is_synced = False
        try:
            await files.run_in_pool(sync)
            is_synced = True
        finally:
            if not is_synced:  # it failed, or the caller was cancelled
                self.is_directory_dirty = True
                self._leader_epochs.note_unwritten()

    def note_error(self, error: OSError) -> KafkaError:
        """Return the error for the client after a failed sync.

        If the directory went offline, write the marker ``sync-failed``.
        """
        refusal = self._home.note_sync_error(error)
        if self._home.is_offline:
            note_failed_sync(self._segments.active.files, self._segments.active.directory)
        return refusal

    # Events of the log

    def note_new_names(self) -> None:
        """Mark the directory as dirty. The next sync makes its new names durable."""
        self.is_directory_dirty = True

    def note_truncation(self, offset: int) -> None:
        """Prepare for the removal of everything at and above ``offset``.

        A recovery point above ``offset`` is lowered first, also on disk.
        """
        self._truncation_count += 1
        if self.recovery_point > offset:
            self.recovery_point = offset
            self._home.save_recovery_points()

    def note_restart(self, offset: int) -> None:
        """Set the recovery point to ``offset``, at which the durably emptied log begins again."""
        self.recovery_point = offset

    def note_synced(self, end_offset: int) -> None:
        """Set the recovery point to ``end_offset``, up to which the file system was synced."""
        self.recovery_point = end_offset

    def end(self) -> None:
        """Refuse syncs from now on, because the files are closed."""
        self._is_ended = True
