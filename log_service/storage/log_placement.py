"""The choice of the log directory in which a new or moved log is placed.

Invariant: while a directory is offline, a log that may be in it does not begin again in another
directory.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory


class LogPlacement:
    """The log directories of a node, as places for logs. ``cordoned`` names those to leave out."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        logs: Mapping[TopicPartition, Log],
        *,
        cordoned: Callable[[], Collection[Path]],
    ) -> None:
        self._directories = directories
        self._logs = logs
        self._cordoned = cordoned
        self.directory_ids: dict[Path, UUID] = {}

    def directory_at(self, path: Path) -> LogDirectory:
        """Return the log directory at ``path``."""
        return next(directory for directory in self._directories if directory.path == path)

    def may_be_offline(self, directory_id: UUID | None) -> bool:
        """Return whether a log's assigned directory may be one that has failed."""
        is_named = directory_id is not None and self._online_directory(directory_id) is None
        return is_named and any(directory.is_offline for directory in self._directories)

    def _online_directory(self, directory_id: UUID) -> LogDirectory | None:
        online = (directory for directory in self._directories if not directory.is_offline)
        return next(
            (
                directory
                for directory in online
                if self.directory_ids.get(directory.path) == directory_id
            ),
            None,
        )

    def home_of_new(self, directory_id: UUID | None) -> LogDirectory:
        """Return the directory in which a new log begins.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the assigned directory may be offline, or all are.
        """
        if self.may_be_offline(directory_id):
            raise next(
                directory for directory in self._directories if directory.is_offline
            ).refused()
        named = None if directory_id is None else self._online_directory(directory_id)
        return named or self._emptiest_directory()

    def _emptiest_directory(self) -> LogDirectory:
        online = [directory for directory in self._directories if not directory.is_offline]
        if not online:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "no log directory is online; look at the disks and restart",
            )
        counts = dict.fromkeys(
            [directory for directory in online if directory.path not in self._cordoned()] or online,
            0,
        )
        if len(counts) > 1:
            for log in self._logs.values():
                if log.home in counts:
                    counts[log.home] += 1
        return min(counts, key=lambda directory: counts[directory])

    def find_directory(self, path: str) -> LogDirectory:
        """Return the target directory of a move. ``path`` is written as in the configuration.

        Raises:
            KafkaError: LOG_DIR_NOT_FOUND; INVALID_REPLICA_ASSIGNMENT, it is cordoned;
                KAFKA_STORAGE_ERROR, it is offline.
        """
        directory = next(
            (directory for directory in self._directories if str(directory.path) == path), None
        )
        if directory is None:
            raise KafkaError(
                ErrorCode.LOG_DIR_NOT_FOUND, f"{path!r} is not a log directory of this node"
            )
        if directory.path in self._cordoned():
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{path} is cordoned: it takes no new replicas",
            )
        if directory.is_offline:
            raise directory.refused()
        return directory
