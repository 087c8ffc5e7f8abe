"""The open logs of a node, and the log directories that hold them.

This module decides how a log is added, replaced, dropped and set aside. The directory of a log that
is set aside gets a name that shows what will happen to it. ``log_manager`` knows which logs must
exist, and ``future_logs`` knows copies.

Invariants:

- A log is in ``logs`` exactly while the node serves it.
- After a power loss, no two directories have the name of one partition. A rename in one log
  directory is durable before a log of the same name begins in another.
"""

import logging
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from log_service.common.env import NodeEnv
from log_service.common.types import TopicId, TopicPartition
from log_service.config.views import LogConfig
from log_service.storage.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    set_aside_name,
)
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory
from log_service.storage.recovery import OpenedFrom, open_log
from log_service.storage.removals import PendingRemovals
from log_service.storage.segment_indexes import RebuiltIndexes

logger = logging.getLogger(__name__)
OF_NO_TOPIC = "it is of no topic of this cluster"
"""The usual reason why a log is renamed as a stray log."""


class HeldLogs:
    """The logs of one node. Only this class changes ``logs``, ``directories`` and ``claimed``."""

    def __init__(
        self, env: NodeEnv, removals: PendingRemovals, *, producer_id_expiration_ms: int
    ) -> None:
        self._env = env
        self._removals = removals
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._logs: dict[TopicPartition, Log] = {}
        self._directories: list[LogDirectory] = []
        self._claimed: set[TopicPartition] = set()
        self._renamed_in: set[LogDirectory] = set()

    def __repr__(self) -> str:
        return f"<HeldLogs logs={len(self._logs)} directories={len(self._directories)}>"

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """The logs by partition, as a live view."""
        return self._logs

    @property
    def directories(self) -> Sequence[LogDirectory]:
        """The log directories in the order of the configuration, as a live view."""
        return self._directories

    @property
    def claimed(self) -> Container[TopicPartition]:
        """The partitions whose logs use their topic's configuration, as a live view.

        Other logs use the node's default configuration.
        """
        return self._claimed

    def new_id(self) -> UUID:
        """Return a random id."""
        return UUID(int=self._env.rng.getrandbits(128), version=4)

    def add_directory(self, directory: LogDirectory) -> None:
        """Add ``directory`` to the log directories."""
        self._directories.append(directory)

    def set_producer_expiration(self, expiration_ms: int) -> None:
        """Make logs forget producers ``expiration_ms`` after their last write, from now on."""
        self._producer_id_expiration_ms = expiration_ms
        for log in self._logs.values():
            log.remember_producers_for(expiration_ms)

    # Coming

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
        """Open or create a log in ``path``, and return it. ``put`` adds it to the logs.

        ``rebuilt`` collects the index files that were missing (``open_log``). Blocks, and raises as
        ``open_log``.
        """
        return open_log(
            self._env.files,
            self._env.clock,
            path,
            topic_partition,
            config,
            topic_id=topic_id,
            known=known,
            home=directory,
            removals=self._removals,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            rebuilt=rebuilt,
        )

    def put(self, log: Log) -> None:
        """Serve ``log`` as its partition's log."""
        self._logs[log.topic_partition] = log
        log.note_extent()

    def claim(self, log: Log, config: LogConfig) -> None:
        """Apply its topic's configuration to a log.

        Retention and compaction do not change a log before this.
        """
        log.reconfigure(config)
        self._claimed.add(log.topic_partition)

    def sync_renames(self, but: LogDirectory) -> None:
        """Make renames in all directories except ``but`` durable before a log begins in ``but``.

        Blocks.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        for home in [
            one
            for one in self._directories
            if one in self._renamed_in and one is not but and not one.is_offline
        ]:
            self._renamed_in.discard(home)
            try:
                self._env.files.sync_directory(home.path)
            except OSError as error:
                raise home.note_sync_error(error) from error

    # Going

    def replace(self, old: Log, log: Log) -> None:
        """Replace an old log of the same partition with ``log``.

        The old files are removed ``file.delete.delay.ms`` later.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the old directory could not be renamed. ``log`` has
                replaced the old log nevertheless.
        """
        self.put(log)
        old.close_files()
        target = self.rename(old.topic_partition, old.directory, old.home, DELETE_DIRECTORY_SUFFIX)
        self._removals.schedule(
            [target], self._env.clock.monotonic_ms() + old.config.file_delete_delay_ms
        )

    def set_aside(self, log: Log, suffix: str, *, why: str = OF_NO_TOPIC) -> Path:
        """Close a log, stop serving it, and rename its directory. Return the new path.

        The new name ends in ``suffix``. For a stray log, ``why`` is logged as the reason.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR. The log is still served.
        """
        target = self.rename(log.topic_partition, log.directory, log.home, suffix)
        self.drop(log)
        if suffix == STRAY_DIRECTORY_SUFFIX:
            logger.warning(
                "%s: the log in %s was moved to %s: %s",
                log.topic_partition,
                log.directory,
                target,
                why,
            )
        return target

    def drop(self, log: Log) -> None:
        """Close a log and stop serving it. Its directory is not changed."""
        log.close_files()
        if self._logs.get(log.topic_partition) is log:
            del self._logs[log.topic_partition]
            self._claimed.discard(log.topic_partition)

    def rename(
        self, topic_partition: TopicPartition, path: Path, home: LogDirectory, suffix: str
    ) -> Path:
        """Rename a partition's directory to a unique name with ``suffix``, and return its path.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        target = home.path / set_aside_name(topic_partition, suffix, self.new_id())
        home.on_going(topic_partition)
        try:
            self._env.files.rename(path, target)
        except OSError as error:
            raise home.note_error(error) from error
        if len(self._directories) > 1:
            self._renamed_in.add(home)
        return target
