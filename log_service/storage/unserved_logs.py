"""The logs of a node that it does not serve: damaged logs, lost logs, and rivals of served logs.

This file decides when such a log begins again, becomes a stray log, or is served after all.

Invariant: a log that is damaged, or in a failed directory, is never replaced by an empty one.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from uuid import UUID

from log_service.common.errors import KafkaError
from log_service.common.types import TopicId, TopicPartition
from log_service.storage.directory_loader import DamagedLog
from log_service.storage.file_names import STRAY_DIRECTORY_SUFFIX
from log_service.storage.held_logs import OF_NO_TOPIC, HeldLogs
from log_service.storage.last_run import LostLog
from log_service.storage.log import Log
from log_service.storage.log_placement import LogPlacement
from log_service.storage.rivals import FoundLog, one_that_counts

logger = logging.getLogger(__name__)


class UnservedLogs:
    """The logs of one node that are damaged, lost, or rivals of another log."""

    def __init__(self, held: HeldLogs, placement: LogPlacement) -> None:
        self._held = held
        self._placement = placement
        self.damaged: dict[TopicPartition, DamagedLog] = {}
        """Damaged logs of partitions that have no log in ``logs``."""
        self.lost: dict[TopicPartition, LostLog] = {}
        """Logs of the last run that are missing or incomplete, until they begin again."""
        self.rivals: list[FoundLog] = []
        """Other logs of the same partitions, until ``settle_rivals`` chooses one for each."""

    def add_damaged(self, found: Iterable[DamagedLog]) -> None:
        """Add the damaged logs of a directory. Each is a rival if its partition has another log."""
        for damaged in found:
            if (
                damaged.topic_partition in self._held.logs
                or damaged.topic_partition in self.damaged
            ):
                self.rivals.append(damaged)
            else:
                self.damaged[damaged.topic_partition] = damaged

    def add_rival(self, log: Log) -> None:
        """Add an open log whose partition has another log, too."""
        self.rivals.append(log)

    def note_served(self, topic_partition: TopicPartition) -> None:
        """Make the damaged log of a partition a rival of the log that is served now."""
        if topic_partition in self.damaged:
            self.rivals.append(self.damaged.pop(topic_partition))

    def unopened(self) -> list[DamagedLog]:
        """Return all damaged logs. Rivals of a served log may be among them."""
        return [
            log for log in (*self.damaged.values(), *self.rivals) if isinstance(log, DamagedLog)
        ]

    def opened_rivals(self) -> list[Log]:
        """Return the rivals that are open."""
        return [log for log in self.rivals if isinstance(log, Log)]

    def lost_of(self, topic_partition: TopicPartition, topic_id: TopicId) -> LostLog | None:
        """Return the partition's log of the last run that was lost, or None.

        A lost log of another topic with the same name is forgotten, because this topic never had
        it.
        """
        lost = self.lost.get(topic_partition)
        if lost is not None and lost.topic_id not in (None, topic_id):
            self.accept_lost(topic_partition)
            return None
        return lost

    def accept_lost(self, topic_partition: TopicPartition) -> None:
        """Stop reporting a log as lost, because it begins again or has no replica here any more."""
        lost = self.lost.pop(topic_partition, None)
        log = self._held.logs.get(topic_partition)
        if lost is not None and (log is None or log.directory.parent != lost.directory):
            self._placement.directory_at(lost.directory).on_going(topic_partition)

    def begin_anew(self, topic_partition: TopicPartition) -> None:
        """Clear the way for a partition's records to be fetched again, after damage or loss.

        The directory of a damaged log, or of a log with a gap, is renamed to ``-stray``. A log that
        only lacks its last records is kept, and is continued from its end.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        lost, log = self.lost.get(topic_partition), self._held.logs.get(topic_partition)
        if lost is not None and lost.has_gap and log is not None:
            self._held.set_aside(
                log, STRAY_DIRECTORY_SUFFIX, why=f"{lost.fault}; it is fetched anew"
            )
        self.accept_lost(topic_partition)
        damaged = self.damaged.get(topic_partition)
        if damaged is None:
            return
        target = self.rename_damaged(damaged, STRAY_DIRECTORY_SUFFIX)
        logger.warning(
            "%s: its log was damaged and is kept in %s; it is fetched anew: %s",
            topic_partition,
            target,
            damaged.error,
        )

    def rename_damaged(self, damaged: DamagedLog, suffix: str) -> Path:
        """Rename the directory of a damaged log, and return its new path."""
        target = self._held.rename(
            damaged.topic_partition,
            damaged.directory,
            self._placement.directory_at(damaged.directory.parent),
            suffix,
        )
        if self.damaged.get(damaged.topic_partition) is damaged:
            del self.damaged[damaged.topic_partition]
        return target

    def _online_of(self, logs: Sequence[FoundLog]) -> Sequence[FoundLog]:
        """Return the logs that are not in a failed directory, or all logs if there are none."""
        return [
            log for log in logs if not self._placement.directory_at(log.directory.parent).is_offline
        ] or logs

    def settle_rivals(
        self, is_known: Callable[[FoundLog], bool], assigned: Callable[[FoundLog], UUID | None]
    ) -> None:
        """Serve one log of each partition with several logs. The metadata decides which one.

        The others become stray logs. ``assigned`` returns the directory to which the controller
        assigned a log's partition. If this directory may be offline, nothing changes.

        Raises:
            StorageError: the metadata does not decide. No log was changed.
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        found: dict[TopicPartition, list[FoundLog]] = {}
        for rival in self.rivals:
            if rival.topic_partition not in found:
                log = self._held.logs.get(rival.topic_partition)
                found[rival.topic_partition] = [
                    self.damaged[rival.topic_partition] if log is None else log
                ]
            found[rival.topic_partition].append(rival)

        def is_named(log: FoundLog) -> bool:
            directory_id = assigned(log)
            return (
                directory_id is not None
                and self._placement.directory_ids.get(log.directory.parent) == directory_id
            )

        found = {
            key: logs
            for key, logs in found.items()
            if not any(
                is_known(log) and self._placement.may_be_offline(assigned(log)) for log in logs
            )
        }
        settled = [
            (logs, one_that_counts(self._online_of(logs), is_known, is_named))
            for logs in found.values()
        ]
        for logs, stays in settled:
            why = (
                f"another one, in {stays.directory}, counts by the metadata"
                if is_known(stays)
                else OF_NO_TOPIC
            )
            for goes in logs:
                if goes is not stays:
                    self._set_aside(goes, why)
            if isinstance(stays, Log):
                self._held.put(stays)
            else:
                self.damaged[stays.topic_partition] = stays
        self.rivals[:] = [rival for rival in self.rivals if rival.topic_partition not in found]

    def set_aside_strays(self, is_known: Callable[[FoundLog | LostLog], bool]) -> list[Path]:
        """Rename the directories of logs for which ``is_known`` is false to ``-stray``.

        Return their new paths. Nothing is removed. Lost logs for which it is false are no longer
        reported.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        for lost in [lost for lost in self.lost.values() if not is_known(lost)]:
            self.accept_lost(lost.topic_partition)
        held: list[FoundLog] = [*self._held.logs.values(), *self.damaged.values()]
        return [
            target
            for log in held
            if not is_known(log) and (target := self._set_aside(log, OF_NO_TOPIC)) is not None
        ]

    def _set_aside(self, log: FoundLog, why: str) -> Path | None:
        """Make a log a stray log and return its path.

        Return None if its directory is offline. The log then stays in place and is no longer
        served.
        """
        home = self._placement.directory_at(log.directory.parent)
        try:
            if not home.is_offline:
                return self._rename_stray(log, why)
        except KafkaError:
            if not home.is_offline:
                raise
        if isinstance(log, Log):
            self._held.drop(log)
        elif self.damaged.get(log.topic_partition) is log:
            del self.damaged[log.topic_partition]
        return None

    def _rename_stray(self, log: FoundLog, why: str) -> Path:
        if isinstance(log, Log):
            return self._held.set_aside(log, STRAY_DIRECTORY_SUFFIX, why=why)
        target = self.rename_damaged(log, STRAY_DIRECTORY_SUFFIX)
        logger.warning(
            "%s: the damaged log in %s was moved to %s: %s",
            log.topic_partition,
            log.directory,
            target,
            why,
        )
        return target
