"""The logs of a node, in all of its log directories.

The manager decides whether a directory belongs to this node, and what happens to a log that is
deleted or has another topic id. It does not know leaders. Replication supplies the high watermarks.
``held_logs`` owns the open logs, ``unserved_logs`` the others, ``log_placement`` places new logs,
``future_logs`` copies logs, ``upkeep`` does the periodic work, and ``closing`` closes the logs.

Invariants:

- A log directory is used by one process, of the node and cluster that formatted it.
- A log that is damaged, or in a failed directory, is never replaced by an empty one.
- Retention changes only logs that were claimed with their topic's configuration.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

import trio

from log_service.common.disk_reserve import DISK_RESERVE_BYTES
from log_service.common.env import DirectoryLock, NodeEnv
from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.types import TopicId, TopicPartition
from log_service.config.views import CleanerConfig, LogConfig, LogManagerConfig
from log_service.storage.checkpoint_writer import CheckpointWriter
from log_service.storage.clean_shutdown import UNKNOWN_BROKER_EPOCH
from log_service.storage.cleaner.cleaner import Cleaner
from log_service.storage.closing import close_logs
from log_service.storage.directory_loader import DamagedLog, DirectoryLoader, LoadedDirectory
from log_service.storage.durable_directory import make_durable_directory
from log_service.storage.file_names import DELETE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX
from log_service.storage.future_logs import FutureLogs
from log_service.storage.held_logs import HeldLogs
from log_service.storage.last_run import LostLog, epoch_of_all, faults_text, file_faults, lost_logs
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory, directory_named, is_failing_device
from log_service.storage.log_placement import LogPlacement
from log_service.storage.meta_properties import claim_directory
from log_service.storage.recovery import OpenedFrom
from log_service.storage.removals import PendingRemovals
from log_service.storage.retention import RetentionOutcome
from log_service.storage.running_files import RunningFiles, remove_running_epoch
from log_service.storage.running_logs import Extent
from log_service.storage.segment_indexes import RebuiltIndexes
from log_service.storage.unserved_logs import UnservedLogs
from log_service.storage.upkeep import Upkeep

logger = logging.getLogger(__name__)
_LOGS_PER_TURN = 64


class LogManager:
    """The logs of one node.

    ``node_id`` and ``cluster_id``, if given, are checked against and written to each log directory.
    Appends are refused while less than ``reserve_bytes`` are free.
    """

    def __init__(
        self,
        env: NodeEnv,
        config: LogManagerConfig,
        default_log_config: LogConfig,
        *,
        node_id: int | None = None,
        cluster_id: str | None = None,
        reserve_bytes: int = DISK_RESERVE_BYTES,
    ) -> None:
        self.env = env
        self.config = config
        self.default_log_config = default_log_config
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.reserve_bytes = reserve_bytes
        self._high_watermarks_in: dict[Path, dict[TopicPartition, int]] = {}
        """The content of ``replication-offset-checkpoint`` of each directory at the start."""
        self.had_clean_shutdown = False
        self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH
        """The broker epoch of the last run, if everything that it wrote still exists.

        This is so after a clean stop, or if the broker was killed and the machine still runs.
        """
        self._on_directory_failed: list[Callable[[Path, OSError], None]] = []
        self._high_watermark_of: Callable[[Log], int] = lambda log: log.log_end_offset
        self.removals = PendingRemovals(env.files)
        self._held = HeldLogs(
            env, self.removals, producer_id_expiration_ms=config.producer_id_expiration_ms
        )
        self.logs: Mapping[TopicPartition, Log] = self._held.logs
        self.directories: Sequence[LogDirectory] = self._held.directories
        self.placement = LogPlacement(
            self.directories, self.logs, cordoned=lambda: self.config.cordoned_log_dirs
        )
        self.directory_ids = self.placement.directory_ids
        self.unserved = UnservedLogs(self._held, self.placement)
        self.damaged: Mapping[TopicPartition, DamagedLog] = self.unserved.damaged
        self.lost: Mapping[TopicPartition, LostLog] = self.unserved.lost
        self._running_files = RunningFiles(env.files, self.directories)
        self.checkpoint_writer = CheckpointWriter(
            env.files, self.logs, self._unserved_in, on_written=self._running_files.note_checkpoint
        )
        self._upkeep = Upkeep(
            env,
            config,
            self._held,
            self.removals,
            self.checkpoint_writer,
            apply_retention=self.apply_retention,
        )
        self.futures = FutureLogs(
            env, self._held, self.removals, self.checkpoint_writer, on_removals=self._upkeep.wake
        )
        self.cleaner = Cleaner(
            env,
            config.cleaner,
            self.logs,
            self._held.claimed,
            self.checkpoint_writer,
            high_watermark_of=lambda log: self._high_watermark_of(log),  # noqa: PLW0108 - it is replaced later
            on_removals=self._upkeep.wake,
        )
        self._unread: list[LogDirectory] = []
        self._locks: dict[LogDirectory, DirectoryLock] = {}
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<LogManager logs={len(self.logs)} directories={len(self.directories)}>"

    def watch_directories(self, on_failed: Callable[[Path, OSError], None]) -> None:
        """Call ``on_failed``, maybe in a pool thread, with each log directory that fails later."""
        self._on_directory_failed.append(on_failed)

    def use_high_watermarks(self, high_watermark_of: Callable[[Log], int]) -> None:
        """Limit retention and compaction of a log by ``high_watermark_of`` instead of its end."""
        self._high_watermark_of = high_watermark_of

    def reconfigure(
        self,
        *,
        cleaner: CleanerConfig,
        producer_id_expiration_ms: int,
        cordoned_log_dirs: Collection[Path],
    ) -> None:
        """Apply new values of the settings that can change while the node runs."""
        self.config = replace(
            self.config,
            cleaner=cleaner,
            producer_id_expiration_ms=producer_id_expiration_ms,
            cordoned_log_dirs=tuple(cordoned_log_dirs),
        )
        self.cleaner.reconfigure(cleaner)
        self._held.set_producer_expiration(producer_id_expiration_ms)

    # Start

    async def load(self) -> None:
        """Lock the log directories and open every log. Recover logs that were not closed in order.

        Raises:
            StorageError: a directory is in use, or belongs to another node or cluster, or none can
                be used. All locks and logs are released.
        """
        try:
            await self._load()
        except BaseException:
            self.release()
            raise

    async def _load(self) -> None:
        failures = [self._take(path) for path in self.config.log_dirs]
        for directory, error in zip(self.directories, failures, strict=True):
            if error is not None:
                # Failures are noted after all directories are taken, because ``on_failed`` asks
                # whether others are left.
                directory.fail(error)
        loaded: list[LoadedDirectory] = []
        for directory, lock in self._locks.items():
            if (
                not directory.is_offline
                and (found := await self._load_directory(directory, lock)) is not None
            ):
                loaded.append(found)
        self._unread = [directory for directory in self.directories if directory.is_offline]
        if not loaded:
            text = (
                "none of the log directories can be used:"
                f" {', '.join(str(each.append_refusal) for each in self.directories)}"
            )
            raise StorageError(text)
        await self.futures.look_for_unfinished()
        if len(self.directories) > 1 and not self._unread:
            await self.futures.unmark_finished(
                {rival.topic_partition for rival in self.unserved.rivals}
            )
        epochs = [found.broker_epoch for found in loaded if found.logs or found.damaged]
        self.had_clean_shutdown = None not in epochs
        await self._look_back(loaded)

    async def _look_back(self, loaded: Sequence[LoadedDirectory]) -> None:
        """Determine whether everything that the last run wrote still exists, in all directories.

        If so, ``previous_broker_epoch`` becomes the epoch of that run. Otherwise the files that
        claim it are removed (``running_files``).
        """
        has_damaged = any(found.damaged for found in loaded)
        has_lost = self.has_lost(loaded)
        is_doubtful = (
            self._unread
            or has_damaged
            or has_lost
            or any(directory.may_lack_records for directory in self.directories)
        )
        if not is_doubtful:
            self.previous_broker_epoch = epoch_of_all([found.kept_epoch for found in loaded])
        if self.previous_broker_epoch == UNKNOWN_BROKER_EPOCH:
            await self.env.files.run_in_pool(self._running_files.remove_durably)
            return
        if not all(found.listed for found in loaded):
            rewrite = partial(
                self._running_files.rewrite_lists, self.previous_broker_epoch, self._extents()
            )
            await self.env.files.run_in_pool(rewrite)
        if not self.had_clean_shutdown:
            logger.info(
                "the last run of this broker, with epoch %d, was killed and lost nothing",
                self.previous_broker_epoch,
            )

    def has_lost(self, loaded: Sequence[LoadedDirectory]) -> bool:
        """Report missing files and logs of the last run, and return whether there are any.

        Missing logs become ``unserved.lost``. Damaged logs were reported before. A log in an
        unreadable directory may still exist.
        """
        found: dict[TopicPartition, list[Log]] = {}
        for log in self._opened():
            found.setdefault(log.topic_partition, []).append(log)
        damaged = {log.topic_partition for each in loaded for log in each.damaged}
        lost = [
            log
            for each in loaded
            for log in lost_logs(each, found)
            if log.topic_partition not in damaged
        ]
        if self._unread:
            lost = [log for log in lost if log.topic_partition in found]
        self.unserved.lost.update({log.topic_partition: log for log in lost})
        faults = [
            *(log.fault for log in lost),
            *(fault for each in loaded for fault in file_faults(each)),
        ]
        if faults:
            logger.error("%s", faults_text(faults))
        return bool(faults)

    def _extents(self) -> dict[Path, dict[TopicPartition, Extent]]:
        """Return the offset range of each log by directory, for ``running_logs``.

        For lost and damaged logs it is the range that they had in the last run.
        """
        extents: dict[Path, dict[TopicPartition, Extent]] = {
            directory.path: {} for directory in self.directories
        }
        for lost in self.lost.values():
            extents[lost.directory][lost.topic_partition] = lost.extent
        for damaged in self.unserved.unopened():
            end_offset = self._high_watermarks_in.get(damaged.directory.parent, {}).get(
                damaged.topic_partition, 0
            )
            extent = Extent(
                topic_id=damaged.topic_id, start_offset=end_offset, end_offset=end_offset
            )
            extents[damaged.directory.parent].setdefault(damaged.topic_partition, extent)
        for log in self._opened():
            extents[log.directory.parent].setdefault(log.topic_partition, log.extent())
        return extents

    def _take(self, path: Path) -> OSError | None:
        """Lock one directory and check that it belongs to this node.

        Return the error of a failing device, or None if the device works.
        """
        directory = LogDirectory(
            path, free_bytes=self.env.files.free_bytes, reserve_bytes=self.reserve_bytes
        )
        directory.on_full, directory.on_doubt = self._upkeep.wake, self._upkeep.rebuild_soon
        directory.on_failed = self._directory_failed
        directory.on_rolled = self._upkeep.sync_soon
        directory.on_cut = partial(self.checkpoint_writer.lower_high_watermark, directory)
        directory.save_recovery_points = partial(self.checkpoint_writer.write_before_cut, directory)
        self._held.add_directory(directory)
        self._running_files.keep_list(directory)
        try:
            with directory_named(path):
                self._claim(directory)
        except StorageError as error:
            if not is_failing_device(error.__cause__):
                raise
            return error.__cause__
        return None

    def _claim(self, directory: LogDirectory) -> None:
        files, path = self.env.files, directory.path
        make_durable_directory(files, path)
        try:
            self._locks[directory] = files.lock_directory(path)
        except BlockingIOError as error:
            raise StorageError(
                f"log directory {path} is in use by another process: stop that one, or use another"
            ) from error
        properties = claim_directory(
            files, path, node_id=self.node_id, cluster_id=self.cluster_id, new_id=self._held.new_id
        )
        if properties is not None and properties.directory_id is not None:
            self.directory_ids[path] = properties.directory_id

    async def _load_directory(
        self, directory: LogDirectory, lock: DirectoryLock
    ) -> LoadedDirectory | None:
        """Open the logs of one directory. Return None if the disk fails."""
        files = self.env.files
        rebuilt = RebuiltIndexes(files)

        def open_one(path: Path, topic_partition: TopicPartition, known: OpenedFrom) -> Log:
            return self._held.open_at(
                directory,
                path,
                topic_partition,
                self.default_log_config,
                known=known,
                rebuilt=rebuilt,
            )

        loader = DirectoryLoader(
            files, directory.path, open_one, thread_count=self.config.recovery_threads_per_data_dir
        )
        try:
            found = await loader.load()
            await files.run_in_pool(partial(rebuilt.put_in_place, lock))
        except OSError as error:
            directory.fail(error)
            return None
        for log in found.logs:
            known = self.logs.get(log.topic_partition)
            stays = log if known is None else self.futures.settle(log, known)
            if stays is None:
                self.unserved.add_rival(log)
            else:
                self._held.put(stays)
            self.unserved.note_served(log.topic_partition)
        self.unserved.add_damaged(found.damaged)
        self._high_watermarks_in[directory.path] = found.high_watermarks
        return found

    def note_registered(self, broker_epoch: int) -> None:
        """Write the broker epoch of this run, so that a start after a kill can name it."""
        self._running_files.write(broker_epoch, self._extents())

    def note_disk_failed(self) -> None:
        """Record that a disk failure ends this node.

        The next start may lack writes, so it must not claim to have all records of this run.
        """
        self._running_files.note_disk_failed()

    # Logs

    def get_log(self, topic_partition: TopicPartition) -> Log | None:
        """Return the open log of a partition, or None.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the partition's log is damaged.
        """
        log = self.logs.get(topic_partition)
        if log is None and topic_partition in self.damaged:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, str(self.damaged[topic_partition].error)
            )
        return log

    def checkpointed_high_watermark(self, log: Log) -> int:
        """Return the high watermark of a log in its directory's checkpoint at this start, or 0."""
        return self._high_watermarks_in.get(log.home.path, {}).get(log.topic_partition, 0)

    def create_log(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        *,
        is_new: bool = True,
        is_alone: bool = False,
        directory_id: UUID | None = None,
    ) -> Log:
        """Return the partition's log with ``config``, and begin it if there is none.

        A log of another topic id is renamed as a stray log.

        If ``is_new``, the partition has had no log here. Otherwise the log may be in a directory
        that could not be read at the start, and no empty log replaces it. ``directory_id`` is the
        directory that the controller assigned, or None if the node may choose. If this directory
        may be one that failed, no log begins in another directory. A log that is in another
        directory is then not served, because it may be older.

        If ``is_alone``, the partition has no other replica. A lost log then begins after its last
        known offset, so that no offset is used for two records.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, no directory accepts the log, or the log is damaged or
                may be in a failed directory. Or the log was lost, and other replicas would be
                truncated to this replica's records.
        """
        lost = self.unserved.lost_of(topic_partition, topic_id)
        if lost is not None and not is_alone:
            text = (
                f"{lost.fault}. Another replica has to lead: this one would have it cut to what is"
                " here"
            )
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        log = self.get_log(topic_partition)
        if log is not None and log.topic_id is not None and log.topic_id != topic_id:
            self._held.set_aside(log, STRAY_DIRECTORY_SUFFIX)
            log = None
        if log is None:
            if self._unread and not is_new:
                raise self._unread[0].refused()
            log = self._begin_log(
                topic_partition, topic_id, config, self.placement.home_of_new(directory_id)
            )
            if lost is not None:
                log.restart_at(lost.extent.end_offset)
        elif not log.home.is_offline and self.placement.may_be_offline(directory_id):
            text = (
                f"the metadata has it in log directory {directory_id}, which is not online; the log"
                f" in {log.directory} is left as it is"
            )
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        elif log.topic_id is None:
            log.adopt_topic_id(topic_id)
        self._held.claim(log, config)
        self.unserved.accept_lost(topic_partition)
        return log

    def _begin_log(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        directory: LogDirectory,
    ) -> Log:
        path = directory.path / str(topic_partition)
        self._held.sync_renames(directory)
        try:
            self.checkpoint_writer.forget(directory, topic_partition)
            log = self._held.open_at(
                directory,
                path,
                topic_partition,
                config,
                known=OpenedFrom(is_clean=True),
                topic_id=topic_id,
            )
        except OSError as error:
            if self.env.files.exists(path):
                self.removals.schedule(
                    [self._held.rename(topic_partition, path, directory, DELETE_DIRECTORY_SUFFIX)],
                    0,
                )
            raise directory.note_error(error) from error
        except StorageError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._held.put(log)
        return log

    def delete_log(self, topic_partition: TopicPartition) -> bool:
        """Drop a partition's log, even a damaged one, and return whether there was one.

        Its files are removed ``file.delete.delay.ms`` later.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        self.unserved.accept_lost(topic_partition)
        log = self.logs.get(topic_partition)
        if log is not None:
            target = self._held.set_aside(log, DELETE_DIRECTORY_SUFFIX)
            delay_ms = log.config.file_delete_delay_ms
        elif topic_partition in self.damaged:
            target = self.unserved.rename_damaged(
                self.damaged[topic_partition], DELETE_DIRECTORY_SUFFIX
            )
            delay_ms = self.default_log_config.file_delete_delay_ms
        else:
            return False
        self.removals.schedule([target], self.env.clock.monotonic_ms() + delay_ms)
        self._upkeep.wake()
        return True

    def _unserved_in(self, path: Path) -> list[TopicPartition]:
        """Return the partitions of a directory whose logs are damaged or not served yet.

        May be called in the thread pool.
        """
        unclaimed = [
            log for log in list(self.logs.values()) if log.topic_partition not in self._held.claimed
        ]
        return [
            log.topic_partition
            for log in (*self.damaged.values(), *self.unserved.rivals, *unclaimed)
            if log.directory.parent == path
        ]

    # Upkeep

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do the periodic work, including compaction, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.cleaner.run)
            await self._upkeep.run(task_status)

    async def apply_retention(
        self, topics: Collection[str] | None = None
    ) -> dict[TopicPartition, RetentionOutcome]:
        """Apply retention to every claimed log, or to logs of ``topics``. Return the outcomes.

        A log whose disk fails is left out.
        """
        outcomes: dict[TopicPartition, RetentionOutcome] = {}
        now_ms = self.env.clock.wall_ms()
        for turn, log in enumerate(list(self.logs.values())):
            if turn % _LOGS_PER_TURN == _LOGS_PER_TURN - 1:
                await trio.lowlevel.checkpoint()
            if (
                log.topic_partition in self._held.claimed
                and not log.is_closed
                and (topics is None or log.topic_partition.topic in topics)
            ):
                try:
                    outcomes[log.topic_partition] = log.apply_retention(
                        now_ms, self._high_watermark_of(log)
                    )
                except KafkaError as error:
                    logger.warning("retention of %s: %s", log.topic_partition, error)
        self._upkeep.wake()
        return outcomes

    async def save_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write each changed ``replication-offset-checkpoint`` in the thread pool.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        await self.checkpoint_writer.save_high_watermarks(self.directories, high_watermarks)

    def _directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        logger.error("log directory %s failed and is offline: %s", directory.path, error)
        self._running_files.note_disk_failed()
        for on_failed in self._on_directory_failed:
            on_failed(directory.path, error)

    # End

    async def close(self, *, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Close every log in order, and write the clean-shutdown marker if this succeeds.

        ``broker_epoch`` is stored in the marker (KIP-966). A directory with a damaged log, or with
        the old log of a move, gets no marker, because a start after a clean stop verifies little.
        It might trust the damaged log, or treat the old log of a move as damaged. A second call has
        no effect.
        """
        if self._is_closed:
            return
        self._is_closed = True
        await self._upkeep.restore_vanished()
        for directory, lock in self._locks.items():
            changed = [log for log in self._opened() if log.home is directory and log.has_changes]
            if not directory.is_offline and not await close_logs(self.env.files, lock, changed):
                await self._close_directory(directory, broker_epoch)
        self.release()

    async def _close_directory(self, directory: LogDirectory, broker_epoch: int) -> None:
        try:
            if directory in self.futures.kept_in or any(
                log.directory.parent == directory.path for log in self.unserved.unopened()
            ):
                await self.env.files.run_in_pool(
                    partial(self.checkpoint_writer.write_all, directory)
                )
            else:
                await self.env.files.run_in_pool(
                    partial(self.checkpoint_writer.write_at_end, directory, broker_epoch)
                )
            remove_running_epoch(self.env.files, directory.path)
        except OSError as error:
            logger.error("log directory %s could not be closed in order: %s", directory.path, error)
            self._running_files.note_disk_failed()

    def _opened(self) -> list[Log]:
        """Return the logs that are served and the rivals that wait to be settled."""
        return [*self.logs.values(), *self.unserved.opened_rivals()]

    def release(self) -> None:
        """Close every file and release the locks without writing, also after a failed start."""
        self._running_files.end()
        self.removals.release_all()
        self.futures.release()
        for log in self._opened():
            log.close_files()
        while self._locks:
            self._locks.popitem()[1].release()
