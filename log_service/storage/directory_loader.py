"""Open all logs of one log directory at a start.

The loader decides what each name in the directory is, and matches checkpoint entries with logs. It
opens several logs in one call of the thread pool. It does not know other directories. A damaged log
does not stop the loading of others. It is listed in ``LoadedDirectory.damaged``.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.common.types import CLUSTER_METADATA_TOPIC, TopicId, TopicPartition
from log_service.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offsets,
)
from log_service.storage.clean_shutdown import UNKNOWN_BROKER_EPOCH, read_marker, remove_marker
from log_service.storage.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    is_set_aside,
    parse_directory_name,
)
from log_service.storage.log import Log
from log_service.storage.partition_metadata import read_topic_id
from log_service.storage.recovery import OpenedFrom
from log_service.storage.running_files import read_running_epoch, write_running_epoch
from log_service.storage.running_logs import ListedLogs, read_running_logs

logger = logging.getLogger(__name__)
_LOGS_PER_CALL = 64
_SET_ASIDE_SUFFIXES = (STRAY_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX)

OpenLog = Callable[[Path, TopicPartition, OpenedFrom], Log]
Work = tuple[Path, TopicPartition, OpenedFrom]


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedLog:
    """A log that was not opened because recovery refuses it.

    Its files are unchanged. ``topic_id`` is None if the directory does not name it.
    """

    topic_partition: TopicPartition
    directory: Path
    error: StorageError
    topic_id: TopicId | None = None


@dataclass(slots=True, kw_only=True)
class LoadedDirectory:
    """The logs and checkpoints that a start found in one log directory.

    - ``broker_epoch`` is the epoch of the last clean stop, or None after any other stop.
    - ``kept_epoch`` is the epoch of the last run if everything that it wrote still exists, synced
      or not. This is true after a clean stop, or if only the process ended (``running_files``).
    - ``listed`` holds the logs of the run with ``kept_epoch``, or None without a list of that run.
    - ``missing_checkpoints`` are files that the list names but that do not exist.
    """

    directory: Path

    logs: list[Log] = field(default_factory=list)
    damaged: list[DamagedLog] = field(default_factory=list)
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    listed: ListedLogs | None = None
    missing_checkpoints: list[str] = field(default_factory=list)
    broker_epoch: int | None = None
    kept_epoch: int | None = None


class DirectoryLoader:
    """Loads one log directory. It is used once."""

    def __init__(
        self, files: Files, directory: Path, open_one: OpenLog, *, thread_count: int
    ) -> None:
        self._files = files
        self._directory = directory
        self._open_one = open_one
        self._thread_count = thread_count
        self._loaded = LoadedDirectory(directory=directory)
        self._work: deque[Work] = deque()
        self._error: OSError | None = None

    async def load(self) -> LoadedDirectory:
        """Open every log, and return the logs with the directory's checkpoints.

        Raises:
            OSError: the directory cannot be read.
        """
        partitions = await self._files.run_in_pool(self._survey)
        recovery_points = self._loaded.recovery_points = self._read_checkpoint(
            RECOVERY_POINT_CHECKPOINT
        )
        start_offsets = self._read_checkpoint(LOG_START_OFFSET_CHECKPOINT)
        cleaned_offsets = self._read_where_whole(
            CLEANER_OFFSET_CHECKPOINT, "compaction begins at the start of each log"
        )
        self._loaded.high_watermarks = self._read_where_whole(
            REPLICATION_OFFSET_CHECKPOINT, "high watermarks begin at the start of each log"
        )
        is_clean = self._loaded.broker_epoch is not None
        work = [
            (
                self._directory / name,
                topic_partition,
                OpenedFrom(
                    is_clean=is_clean,
                    recovery_point=recovery_points.get(topic_partition, 0),
                    log_start_offset=start_offsets.get(topic_partition, 0),
                    cleaned_offset=cleaned_offsets.get(topic_partition),
                ),
            )
            for name, topic_partition in partitions
        ]
        self._work.extend(work)
        async with trio.open_nursery() as nursery:
            for _ in range(self._thread_count):
                nursery.start_soon(self._open_in_turns)
        if self._error is not None:
            raise self._error
        return self._loaded

    async def _open_in_turns(self) -> None:
        """Open groups of logs until none is left.

        Groups are large at first. At the end logs are opened one by one, so that few logs wait for
        a large one in their group.
        """
        while self._work and self._error is None:
            count = max(1, min(_LOGS_PER_CALL, len(self._work) // (4 * self._thread_count)))
            some = [self._work.popleft() for _ in range(count)]
            await self._files.run_in_pool(partial(self._open_all, some))

    def _open_all(self, work: list[Work]) -> None:
        for path, topic_partition, known in work:
            if self._error is not None:
                return
            try:
                self._loaded.logs.append(self._open_one(path, topic_partition, known))
            except StorageError as error:
                logger.error("%s stays offline: %s", topic_partition, error)
                topic_id = self._topic_id_of(path)
                self._loaded.damaged.append(
                    DamagedLog(
                        topic_partition=topic_partition,
                        directory=path,
                        error=error,
                        topic_id=topic_id,
                    )
                )
            except OSError as error:
                self._error = error

    def _topic_id_of(self, path: Path) -> TopicId | None:
        try:
            return read_topic_id(self._files, path)
        except (StorageError, OSError):
            return None

    def _survey(self) -> list[tuple[str, TopicPartition]]:
        """Read the clean-shutdown marker, remove deleted logs and return partition directories."""
        partitions = []
        self._take_epochs()
        self._take_list()
        for name in self._files.list_directory(self._directory):
            topic_partition = parse_directory_name(name)
            if topic_partition is not None and topic_partition.topic != CLUSTER_METADATA_TOPIC:
                if self._files.is_directory(self._directory / name):
                    partitions.append((name, topic_partition))
            elif is_set_aside(name, DELETE_DIRECTORY_SUFFIX):
                self._files.remove_tree(self._directory / name)
            elif (
                not name.endswith(_SET_ASIDE_SUFFIXES)
                and topic_partition is None
                and self._files.is_directory(self._directory / name)
            ):
                logger.warning(
                    "%s is not a partition's directory and is left alone", self._directory / name
                )
        return partitions

    def _take_epochs(self) -> None:
        """Read the clean-shutdown marker and replace it by ``tidelog-running``.

        This file has the marker's broker epoch (``running_files``). It remains if the start fails
        before the broker is registered.
        """
        marked = read_marker(self._files, self._directory)
        if marked is None:
            self._loaded.kept_epoch = read_running_epoch(self._files, self._directory)
            return
        self._loaded.broker_epoch = self._loaded.kept_epoch = marked
        if marked != UNKNOWN_BROKER_EPOCH:
            write_running_epoch(self._files, self._directory, marked)
        remove_marker(self._files, self._directory)

    def _take_list(self) -> None:
        """Read the list of the last run's logs, if it is from the run with ``kept_epoch``."""
        loaded, listed = self._loaded, read_running_logs(self._files, self._directory)
        if listed is not None and listed.broker_epoch == loaded.kept_epoch:
            loaded.listed = listed
            loaded.missing_checkpoints = [
                name
                for name in sorted(listed.checkpoints)
                if not self._files.exists(self._directory / name)
            ]

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._files, self._directory / name)
        except StorageError as error:
            logger.warning("%s; everything in the directory is verified", error)
            self._loaded.broker_epoch = self._loaded.kept_epoch = None
            return {}

    def _read_where_whole(self, name: str, otherwise: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._files, self._directory / name)
        except StorageError as error:
            logger.warning("%s; %s", error, otherwise)
            return {}
