"""The checkpoints of the log directories: recovery points, log start offsets, high watermarks.

Decides which logs belong into which file, and that a file is written only when it would change. Knows nothing of when.
"""

from collections.abc import Mapping
from pathlib import Path

from log_service.common.env import Files
from log_service.common.types import TopicPartition
from log_service.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    write_offsets,
)
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory


class CheckpointWriter:
    """Writes the checkpoints of the logs in ``logs``, which others fill."""

    def __init__(self, files: Files, logs: Mapping[TopicPartition, Log]) -> None:
        self._files = files
        self._logs = logs
        self._written: dict[Path, dict[TopicPartition, int]] = {}

    def write_recovery_points(self, directory: LogDirectory) -> bool:
        """Write the recovery points of one directory; blocks, durable on return. Says whether they had changed."""
        return self._maybe_write(directory.path / RECOVERY_POINT_CHECKPOINT, self.recovery_points(directory))

    def write_start_offsets(self, directory: LogDirectory) -> bool:
        """Write the log start offsets that are not those of the first segment; blocks. Says whether they had changed."""
        return self._maybe_write(directory.path / LOG_START_OFFSET_CHECKPOINT, self.start_offsets(directory))

    def recovery_points(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        """Return the recovery point of each log of one directory."""
        return {key: log.recovery_point for key, log in self._logs.items() if log.home is directory}

    def start_offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        """Return the log start offset of each log that begins inside its first segment."""
        return {
            key: log.log_start_offset
            for key, log in self._logs.items()
            if log.home is directory and log.log_start_offset > log.segments[0].base_offset
        }

    async def save_recovery_points(self, directory: LogDirectory) -> None:
        """Write them in the pool. Raises KafkaError: KAFKA_STORAGE_ERROR."""
        await self._save(directory, RECOVERY_POINT_CHECKPOINT, self.recovery_points(directory))

    async def save_start_offsets(self, directory: LogDirectory) -> None:
        """Write them in the pool. Raises KafkaError: KAFKA_STORAGE_ERROR."""
        await self._save(directory, LOG_START_OFFSET_CHECKPOINT, self.start_offsets(directory))

    async def save_high_watermarks(self, directory: LogDirectory, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write those of one directory's logs in the pool. Raises KafkaError: KAFKA_STORAGE_ERROR."""
        offsets = {
            key: offset for key, offset in high_watermarks.items() if (log := self._logs.get(key)) is not None and log.home is directory
        }
        await self._save(directory, REPLICATION_OFFSET_CHECKPOINT, offsets)

    async def _save(self, directory: LogDirectory, name: str, offsets: dict[TopicPartition, int]) -> None:
        path = directory.path / name
        if self._written.get(path) == offsets:
            return
        try:
            await self._files.run_in_pool(lambda: self._maybe_write(path, offsets))
        except OSError as error:
            raise directory.failed_write(error) from error

    def _maybe_write(self, path: Path, offsets: dict[TopicPartition, int]) -> bool:
        if self._written.get(path) == offsets:
            return False
        write_offsets(self._files, path, offsets)
        self._written[path] = offsets
        return True
