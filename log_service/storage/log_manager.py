"""All logs of a node: which there are, in which log directory each lives, opening and closing them in order.

Decides where a new log goes, whose directories these are, and what becomes of a log that is deleted or of another topic id. Knows nothing
of leaders and high watermarks (they are handed in). Periodic work is ``upkeep``'s.

Invariants: a log directory is used by one process, of the node and cluster that formatted it. A log that is damaged, or in a directory
that failed, is never replaced by an empty one. A log is in ``logs`` exactly while it is open. Retention touches only logs that were
claimed with their topic's configuration.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from uuid import UUID

import trio

from log_service.common.env import DirectoryLock, NodeEnv
from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.types import TopicId, TopicPartition
from log_service.config.views import LogConfig, LogManagerConfig
from log_service.storage.checkpoint_writer import CheckpointWriter
from log_service.storage.clean_shutdown import UNKNOWN_BROKER_EPOCH
from log_service.storage.cleaner.cleaner import Cleaner
from log_service.storage.closing import close_logs
from log_service.storage.directory_loader import DamagedLog, DirectoryLoader, LoadedDirectory
from log_service.storage.durable_directory import make_durable_directory
from log_service.storage.file_names import DELETE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX, set_aside_name
from log_service.storage.future_logs import FutureLogs
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory, directory_named
from log_service.storage.meta_properties import claim_directory
from log_service.storage.partition_metadata import sync_topic_id, write_topic_id
from log_service.storage.rebuilt_indexes import RebuiltIndexes
from log_service.storage.recovery import OpenedFrom, open_log
from log_service.storage.removals import PendingRemovals
from log_service.storage.retention import RetentionOutcome
from log_service.storage.upkeep import Upkeep

_log = logging.getLogger(__name__)
_LOGS_PER_TURN = 64


class LogManager:
    """The logs of one node.

    ``node_id`` and ``cluster_id`` are checked against, and written to, each log directory where they are given. Appends are refused while
    less than ``reserve_bytes`` are free.
    """

    def __init__(
        self,
        env: NodeEnv,
        config: LogManagerConfig,
        default_log_config: LogConfig,
        *,
        node_id: int | None = None,
        cluster_id: str | None = None,
        reserve_bytes: int = 64 << 20,
    ) -> None:
        self.env = env
        self.config = config
        self.default_log_config = default_log_config
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.reserve_bytes = reserve_bytes
        self.logs: dict[TopicPartition, Log] = {}
        self.damaged: dict[TopicPartition, DamagedLog] = {}
        self.directories: list[LogDirectory] = []
        self.directory_ids: dict[Path, UUID] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """What ``replication-offset-checkpoint`` said at the start."""
        self.had_clean_shutdown = False
        self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH
        self.on_directory_failed: Callable[[Path, OSError], None] = lambda _path, _error: None
        self.high_watermark_of: Callable[[Log], int] = lambda log: log.log_end_offset
        """How far retention may delete; whoever leads and follows partitions replaces it."""
        self.removals = PendingRemovals(env.files)
        self.checkpoint_writer = CheckpointWriter(env.files, self.logs)
        self.futures = FutureLogs(self)
        self._claimed: set[TopicPartition] = set()
        self._renamed_in: set[LogDirectory] = set()
        self._unread: list[LogDirectory] = []
        self._locks: list[DirectoryLock] = []
        self._upkeep = Upkeep(self)
        self.cleaner = Cleaner(env, config.cleaner, self.logs, self._claimed, self.checkpoint_writer)
        self.cleaner.on_removals = self._upkeep.wake
        self.cleaner.high_watermark_of = lambda log: self.high_watermark_of(log)  # noqa: PLW0108 - it is replaced later
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<LogManager logs={len(self.logs)} directories={len(self.directories)}>"

    # Start

    async def load(self) -> None:
        """Lock the log directories and open every log in them, recovering those that were not closed in order.

        Raises:
            StorageError: a directory is in use, of another node or cluster, or none can be used; a partition is in two directories.
                What was locked and opened is given back.
        """
        try:
            await self._load()
        except BaseException:
            self.release()
            raise

    async def _load(self) -> None:
        for path in self.config.log_dirs:
            self._take(path)
        loaded: list[LoadedDirectory] = []
        for directory, lock in zip(self.directories, self._locks, strict=True):
            if (found := await self._load_directory(directory, lock)) is not None:
                loaded.append(found)
        self._unread = [directory for directory in self.directories if directory.is_offline]
        if not loaded:
            text = f"none of the log directories can be used: {', '.join(str(each.append_refusal) for each in self.directories)}"
            raise StorageError(text)
        await self.futures.look_for_unfinished()
        epochs = [found.broker_epoch for found in loaded if found.logs or found.damaged]
        self.had_clean_shutdown = None not in epochs
        if self.had_clean_shutdown:
            self.previous_broker_epoch = max((epoch or UNKNOWN_BROKER_EPOCH for epoch in epochs), default=UNKNOWN_BROKER_EPOCH)

    def _take(self, path: Path) -> None:
        """Lock one directory, and see whose it is."""
        files = self.env.files
        with directory_named(path):
            make_durable_directory(files, path)
            try:
                self._locks.append(files.lock_directory(path))
            except BlockingIOError as error:
                raise StorageError(f"log directory {path} is in use by another process: stop that one, or use another") from error
            properties = claim_directory(files, path, node_id=self.node_id, cluster_id=self.cluster_id, new_id=self.new_id)
        if properties is not None and properties.directory_id is not None:
            self.directory_ids[path] = properties.directory_id
        directory = LogDirectory(path, free_bytes=files.free_bytes, reserve_bytes=self.reserve_bytes)
        directory.on_full, directory.on_doubt = self._upkeep.wake, self._upkeep.rebuild_soon
        directory.on_failed = self._directory_failed
        directory.on_rolled = self._upkeep.sync_soon
        directory.save_recovery_points = partial(self.checkpoint_writer.write_before_cut, directory)
        self.directories.append(directory)

    def new_id(self) -> UUID:
        """Return a random id."""
        return UUID(int=self.env.rng.getrandbits(128), version=4)

    async def _load_directory(self, directory: LogDirectory, lock: DirectoryLock) -> LoadedDirectory | None:
        """Open the logs of one directory; None where the disk fails."""
        files = self.env.files
        rebuilt = RebuiltIndexes(files)

        def open_one(path: Path, topic_partition: TopicPartition, known: OpenedFrom) -> Log:
            return self.open_at(directory, path, topic_partition, self.default_log_config, known=known, rebuilt=rebuilt)

        loader = DirectoryLoader(files, directory.path, open_one, thread_count=self.config.recovery_threads_per_data_dir)
        try:
            found = await loader.load()
            await files.run_in_pool(partial(rebuilt.put_in_place, lock))
        except OSError as error:
            directory.fail(error)
            return None
        for log in found.logs:
            known = self.logs.get(log.topic_partition)
            self.logs[log.topic_partition] = log if known is None else self.futures.settle(log, known)
        self.damaged.update({damaged.topic_partition: damaged for damaged in found.damaged})
        self.high_watermarks.update(found.high_watermarks)
        return found

    def open_at(
        self,
        directory: LogDirectory,
        path: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        known: OpenedFrom,
        topic_id: TopicId | None = None,
        rebuilt: RebuiltIndexes | None = None,
    ) -> Log:
        """Open, or begin, a log in ``path``; blocks, and raises as ``open_log``. It is nobody's yet."""
        return open_log(
            self.env.files,
            self.env.clock,
            path,
            topic_partition,
            config,
            topic_id=topic_id,
            known=known,
            home=directory,
            removals=self.removals,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
            rebuilt=rebuilt,
        )

    # Logs

    def get_log(self, topic_partition: TopicPartition) -> Log | None:
        """Return the open log of a partition, None where there is none.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, there is one that is damaged.
        """
        log = self.logs.get(topic_partition)
        if log is None and topic_partition in self.damaged:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.damaged[topic_partition].error))
        return log

    def create_log(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig, *, is_new: bool = True) -> Log:
        """Return the partition's log with ``config``, beginning it where there is none. A log of another topic id is set aside as stray.

        Without ``is_new`` the partition was there before this start: what it holds may lie where nothing could be read.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, no directory takes it, or its log is damaged, or perhaps in a directory that failed.
        """
        log = self.get_log(topic_partition)
        if log is not None and log.topic_id is not None and log.topic_id != topic_id:
            self._set_aside(log, STRAY_DIRECTORY_SUFFIX)
            log = None
        if log is None:
            if self._unread and not is_new:
                raise self._unread[0].refused()
            log = self._begin_log(topic_partition, topic_id, config)
        elif log.topic_id is None:
            self._adopt(log, topic_id)
        log.reconfigure(config)
        self._claimed.add(topic_partition)
        return log

    def _adopt(self, log: Log, topic_id: TopicId) -> None:
        """Write the topic id into a directory that names none: of a time before topic ids, or a crash took it."""
        try:
            write_topic_id(self.env.files, log.directory, topic_id)
            sync_topic_id(self.env.files, log.directory)
        except OSError as error:
            raise log.home.answer_to(error) from error
        log.topic_id = topic_id

    def _begin_log(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        directory = self._emptiest_directory()
        path = directory.path / str(topic_partition)
        self._sync_renames(directory)
        try:
            self.checkpoint_writer.forget(directory, topic_partition)
            log = self.open_at(directory, path, topic_partition, config, known=OpenedFrom(is_clean=True), topic_id=topic_id)
        except OSError as error:
            if self.env.files.exists(path):
                self.removals.schedule([self._rename(topic_partition, path, directory, DELETE_DIRECTORY_SUFFIX)], 0)
            raise directory.answer_to(error) from error
        except StorageError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self.logs[topic_partition] = log
        return log

    def _sync_renames(self, but: LogDirectory) -> None:
        """Make durable what was renamed in other directories: a loss of power must not leave a partition's name in two of them."""
        for home in [one for one in self._renamed_in if one is not but and not one.is_offline]:
            self._renamed_in.discard(home)
            try:
                self.env.files.sync_directory(home.path)
            except OSError as error:
                raise home.answer_to_sync(error) from error

    def _emptiest_directory(self) -> LogDirectory:
        online = [directory for directory in self.directories if not directory.is_offline]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory is online; look at the disks and restart")
        counts = dict.fromkeys([directory for directory in online if directory.path not in self.config.cordoned_log_dirs] or online, 0)
        if len(counts) > 1:
            for log in self.logs.values():
                if log.home in counts:
                    counts[log.home] += 1
        return min(counts, key=lambda directory: counts[directory])

    def delete_log(self, topic_partition: TopicPartition) -> bool:
        """Drop a partition's log, a damaged one too; its files go ``file.delete.delay.ms`` later. Says whether there was one.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        log = self.logs.get(topic_partition)
        damaged = self.damaged.get(topic_partition)
        if log is not None:
            target = self._set_aside(log, DELETE_DIRECTORY_SUFFIX)
            delay_ms = log.config.file_delete_delay_ms
        elif damaged is not None:
            home = next(directory for directory in self.directories if directory.path == damaged.directory.parent)
            target = self._rename(topic_partition, damaged.directory, home, DELETE_DIRECTORY_SUFFIX)
            delay_ms = self.default_log_config.file_delete_delay_ms
            del self.damaged[topic_partition]
        else:
            return False
        self.removals.schedule([target], self.env.clock.monotonic_ms() + delay_ms)
        self._upkeep.wake()
        return True

    def replace_log(self, old: Log, log: Log) -> None:
        """Put ``log`` in the place of an old one of the same partition, whose files go ``file.delete.delay.ms`` later."""
        self.logs[log.topic_partition] = log
        old.close_files()
        target = self._rename(old.topic_partition, old.directory, old.home, DELETE_DIRECTORY_SUFFIX)
        self.removals.schedule([target], self.env.clock.monotonic_ms() + old.config.file_delete_delay_ms)
        self._upkeep.wake()

    def set_aside_strays(self, is_known: Callable[[Log], bool]) -> list[Path]:
        """Rename the directories of logs that ``is_known`` does not know to ``-stray``, and return where they are; nothing is removed.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        return [self._set_aside(log, STRAY_DIRECTORY_SUFFIX) for log in list(self.logs.values()) if not is_known(log)]

    def _set_aside(self, log: Log, suffix: str) -> Path:
        target = self._rename(log.topic_partition, log.directory, log.home, suffix)
        log.close_files()
        del self.logs[log.topic_partition]
        self._claimed.discard(log.topic_partition)
        if suffix == STRAY_DIRECTORY_SUFFIX:
            _log.warning("%s: the log there is of no topic of this cluster; it was moved to %s", log.topic_partition, target)
        return target

    def _rename(self, topic_partition: TopicPartition, path: Path, home: LogDirectory, suffix: str) -> Path:
        target = home.path / set_aside_name(topic_partition, suffix, self.new_id())
        try:
            self.env.files.rename(path, target)
        except OSError as error:
            raise home.answer_to(error) from error
        if len(self.directories) > 1:
            self._renamed_in.add(home)
        return target

    # Upkeep

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do the periodic work, compaction too, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.cleaner.run)
            await self._upkeep.run(task_status)

    async def apply_retention(self, topics: Collection[str] | None = None) -> dict[TopicPartition, RetentionOutcome]:
        """Apply retention now to every claimed log, or those of ``topics``, and return what went. A log whose disk fails is left out."""
        outcomes: dict[TopicPartition, RetentionOutcome] = {}
        now_ms = self.env.clock.wall_ms()
        for turn, log in enumerate(list(self.logs.values())):
            if turn % _LOGS_PER_TURN == _LOGS_PER_TURN - 1:
                await trio.lowlevel.checkpoint()
            if log.topic_partition in self._claimed and not log.is_closed and (topics is None or log.topic_partition.topic in topics):
                try:
                    outcomes[log.topic_partition] = log.apply_retention(now_ms, self.high_watermark_of(log))
                except KafkaError as error:
                    _log.warning("retention of %s: %s", log.topic_partition, error)
        self._upkeep.wake()
        return outcomes

    async def save_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write ``replication-offset-checkpoint`` of each directory where something changed; in the pool.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        await self.checkpoint_writer.save_high_watermarks(self.directories, high_watermarks)

    def _directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        _log.error("log directory %s failed and is offline: %s", directory.path, error)
        self.on_directory_failed(directory.path, error)

    # End

    async def close(self, *, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Close every log in order and leave the clean-shutdown marker in each directory where all went well. Idempotent.

        ``broker_epoch`` goes into the marker (KIP-966).
        """
        if self._is_closed:
            return
        self._is_closed = True
        await self._upkeep.restore_vanished()
        for directory, lock in zip(self.directories, self._locks, strict=True):
            changed = [log for log in self.logs.values() if log.home is directory and log.has_changes]
            if not directory.is_offline and not await close_logs(self.env.files, lock, changed):
                await self._close_directory(directory, broker_epoch)
        self.release()

    async def _close_directory(self, directory: LogDirectory, broker_epoch: int) -> None:
        try:
            await self.env.files.run_in_pool(partial(self.checkpoint_writer.write_at_end, directory, broker_epoch))
        except OSError as error:
            _log.error("log directory %s could not be closed in order: %s", directory.path, error)

    def release(self) -> None:
        """Close every file and give the locks back, writing nothing: how a start that failed ends."""
        self.removals.release_all()
        self.futures.release()
        for log in self.logs.values():
            log.close_files()
        while self._locks:
            self._locks.pop().release()
