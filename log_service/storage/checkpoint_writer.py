"""Writer of the checkpoints of all log directories.

The checkpoints are recovery points, log start offsets, high watermarks and the offsets up to which
logs are compacted. The writer decides which log belongs to which file. It writes a file only if its
content changes. ``upkeep`` decides when to write.

Invariants:

- Writes of one node's checkpoints are serialized, and each write reads the offsets when its turn
  comes. So a write that was requested before a truncation cannot restore the old recovery point.
- No file contains an entry of an earlier log with the same name.
- Entries of logs that exist but are not served (``unserved_logs``) are retained. Without its
  recovery point, the next start would truncate a damaged log at the damage and serve the rest.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.common.types import TopicPartition
from log_service.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offsets,
    write_offsets,
)
from log_service.storage.clean_shutdown import write_marker
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory

ALL_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


class CheckpointWriter:
    """Writer of the checkpoints of the logs in ``logs``, which the log manager changes.

    ``unserved_in`` returns the partitions whose logs exist in a directory but are not in ``logs``.
    Their entries in the files are retained. ``on_written`` is called with the path of each written
    file.
    """

    def __init__(
        self,
        files: Files,
        logs: Mapping[TopicPartition, Log],
        unserved_in: Callable[[Path], Collection[TopicPartition]],
        *,
        on_written: Callable[[Path], object] = lambda _path: None,
    ) -> None:
        self._files = files
        self._on_written = on_written
        self._logs = logs
        self._unserved_in = unserved_in
        self._written: dict[Path, dict[TopicPartition, int]] = {}
        self._guard = Lock()

    def write_recovery_points(self, directory: LogDirectory) -> bool:
        """Write the recovery points of one directory. Return whether they had changed.

        Blocks. The file is durable on return.
        """
        return self._maybe_write(
            directory.path / RECOVERY_POINT_CHECKPOINT, lambda: self.recovery_points(directory)
        )

    def write_start_offsets(self, directory: LogDirectory) -> bool:
        """Write the log start offsets that are above the first offset of their log's first segment.

        Return whether they had changed. Any other log start offset follows from the name of the
        first segment.

        Blocks. The file is durable on return.
        """
        return self._maybe_write(
            directory.path / LOG_START_OFFSET_CHECKPOINT, lambda: self._start_offsets(directory)
        )

    def write_high_watermarks(
        self, directory: LogDirectory, high_watermarks: Mapping[TopicPartition, int]
    ) -> bool:
        """Write the high watermarks of the directory's logs. Return whether they had changed.

        Blocks. The file is durable on return.
        """
        offsets = {
            key: high_watermarks[key] for key in self._logs_of(directory) if key in high_watermarks
        }
        return self._maybe_write(directory.path / REPLICATION_OFFSET_CHECKPOINT, lambda: offsets)

    def write_cleaned_offsets(self, directory: LogDirectory) -> bool:
        """Write the offsets below which a directory's logs are compacted.

        Return whether they changed.

        Blocks. The file is durable on return.
        """
        return self._maybe_write(
            directory.path / CLEANER_OFFSET_CHECKPOINT, lambda: self._cleaned_offsets(directory)
        )

    def write_before_cut(self, directory: LogDirectory) -> None:
        """Write the recovery points and cleaned offsets, which a truncation lowers.

        Blocks. The files are durable on return.
        """
        self.write_recovery_points(directory)
        self.write_cleaned_offsets(directory)

    def forget(self, directory: LogDirectory, topic_partition: TopicPartition) -> None:
        """Remove the entries of an earlier log durably, before another log of that name begins.

        Blocks. Otherwise the next start would use the old log's recovery point for the new log, or
        begin the new log at the old log's start offset.
        """
        for name in ALL_CHECKPOINTS:
            self._change(directory.path / name, topic_partition, None)

    def lower_high_watermark(
        self, directory: LogDirectory, topic_partition: TopicPartition, offset: int
    ) -> None:
        """Lower a high watermark to ``offset`` before its log is truncated.

        Blocks. The file is durable on return. Such a truncation follows an unclean election.
        Without the lower value, the next start would report the truncated records as missing.
        """
        path = directory.path / REPLICATION_OFFSET_CHECKPOINT
        written = self._written.get(path)
        if (self._read(path) if written is None else written).get(topic_partition, 0) > offset:
            self._change(path, topic_partition, offset)

    def remember(self, log: Log) -> None:
        """Write the recovery point and start offset of a log that moved here.

        Blocks. The files are durable on return. Without them, the next start would treat an offset
        gap of compaction as a missing segment, and would undo DeleteRecords.
        """
        self._change(
            log.home.path / RECOVERY_POINT_CHECKPOINT, log.topic_partition, log.recovery_point
        )
        if log.log_start_offset > log.segments[0].base_offset:
            self._change(
                log.home.path / LOG_START_OFFSET_CHECKPOINT,
                log.topic_partition,
                log.log_start_offset,
            )

    def _change(self, path: Path, topic_partition: TopicPartition, offset: int | None) -> None:
        """Set a partition's entry in the file at ``path``, or remove it if ``offset`` is None."""
        with self._guard:
            written = self._written.get(path)
            offsets = self._read(path) if written is None else written
            # Content that was just read may not be durable, so it is written even if unchanged.
            is_doubtful = written is None and bool(offsets)
            if offsets.get(topic_partition) != offset or is_doubtful:
                offsets = offsets.copy()
                if offset is None:
                    offsets.pop(topic_partition, None)
                else:
                    offsets[topic_partition] = offset
                self._write(path, offsets)

    def _read(self, path: Path) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._files, path)
        except StorageError:
            return {}  # the next start does not trust a damaged file either

    def write_at_end(self, directory: LogDirectory, broker_epoch: int) -> None:
        """After all logs were closed, write the checkpoints and the marker of a clean stop.

        Blocks. The files are durable on return.
        """
        self.write_all(directory)
        write_marker(self._files, directory.path, broker_epoch)

    def write_all(self, directory: LogDirectory) -> None:
        """Write the files that the next start reads. Blocks. The files are durable on return."""
        self.write_recovery_points(directory)
        self.write_start_offsets(directory)
        self.write_cleaned_offsets(directory)

    async def save_high_watermarks(
        self, directories: Iterable[LogDirectory], high_watermarks: Mapping[TopicPartition, int]
    ) -> None:
        """Write the high watermarks of ``directories`` in the thread pool. Raises as ``save``."""
        for directory in directories:
            await self.save(
                directory, partial(self.write_high_watermarks, directory, high_watermarks)
            )

    async def save(self, directory: LogDirectory, write: Callable[[], bool]) -> bool:
        """Call one of the write methods in the thread pool, and return its result.

        Return false if the directory is offline.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if directory.is_offline:
            return False
        try:
            return await self._files.run_in_pool(write)
        except OSError as error:
            raise directory.note_error(error) from error

    def _logs_of(self, directory: LogDirectory) -> dict[TopicPartition, Log]:
        return {key: log for key, log in dict(self._logs).items() if log.home is directory}

    def recovery_points(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        """Return the recovery points of the logs in a directory."""
        return {key: log.recovery_point for key, log in self._logs_of(directory).items()}

    def _cleaned_offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {
            key: log.cleaned_offset
            for key, log in self._logs_of(directory).items()
            if log.cleaned_offset is not None
        }

    def _start_offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {
            key: log.log_start_offset
            for key, log in self._logs_of(directory).items()
            if log.log_start_offset > log.segments[0].base_offset
        }

    def _maybe_write(self, path: Path, current: Callable[[], dict[TopicPartition, int]]) -> bool:
        with self._guard:
            offsets, written = current(), self._written.get(path)
            if unserved := self._unserved_in(path.parent):
                before = self._read(path) if written is None else written
                offsets = {**{key: before[key] for key in unserved if key in before}, **offsets}
            if written == offsets or (
                written is None and not offsets and not self._files.exists(path)
            ):
                return False
            self._write(path, offsets)
            return True

    def _write(self, path: Path, offsets: dict[TopicPartition, int]) -> None:
        write_offsets(self._files, path, offsets)
        self._written[path] = offsets
        self._on_written(path)
