"""Open a log's directory, and recover it after a crash.

After a clean stop, only the end of the active segment is read. After any other stop, every batch
from the segment of the recovery point on is verified, an incomplete last batch is removed, and
indexes and producers are rebuilt. This module does not know other logs.

Invariants:

- Only bytes at or above the recovery point are ever removed. If there is damage below it, the log
  is refused with ``StorageError`` and its files are unchanged.
- Recovery always ends.
- A crash at any point of recovery leaves a directory that recovers in the same way. Files are
  changed only in ways that the next attempt would repeat.
- After a failed sync, readable data does not count as durable. It is written once more
  (``sync_failures``).
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from log_service.common.env import Clock, Files
from log_service.common.errors import KafkaError, StorageError
from log_service.common.types import TopicId, TopicPartition
from log_service.config.views import LogConfig
from log_service.storage.aborted_transactions import recover_aborted_transactions
from log_service.storage.cleaner.swap import finish_exchanges
from log_service.storage.file_names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    offsets_by_suffix,
)
from log_service.storage.leader_epochs import LEADER_EPOCH_CHECKPOINT, LeaderEpochs
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory
from log_service.storage.log_reader import has_holes, reload_producers
from log_service.storage.partition_metadata import (
    PARTITION_METADATA_FILE,
    read_topic_id,
    write_topic_id,
)
from log_service.storage.producer_snapshots import ProducerSnapshots
from log_service.storage.producer_state import ProducerState
from log_service.storage.removals import PendingRemovals
from log_service.storage.segment import Segment
from log_service.storage.segment_indexes import RebuiltIndexes
from log_service.storage.segments import Segments
from log_service.storage.sync_failures import forget_failed_sync, has_failed_sync

logger = logging.getLogger(__name__)
_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, TEMPORARY_SUFFIX)
_PRODUCER_ID_EXPIRATION_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFrom:
    """Facts about a log that are known before its directory is read.

    Every offset below ``recovery_point`` was made durable. ``is_clean`` means that the last owner
    closed the log in order. Below ``cleaned_offset`` the log was compacted, so that offsets may be
    missing. ``cleaned_offset`` is None if the log was never compacted.
    """

    is_clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int | None = None

    def recovery_point_of(self, log_end_offset: int) -> int:
        """Return the recovery point of the opened log, which ends at ``log_end_offset``."""
        return log_end_offset if self.is_clean else min(self.recovery_point, log_end_offset)


def _names_in(files: Files, directory: Path) -> list[str]:
    """Return the names in a log's directory, which is made if there is none."""
    names = files.list_directory(directory)
    if not names:
        files.make_directory(directory)
    return names


def _cut(
    epochs: LeaderEpochs, snapshots: ProducerSnapshots, bounds: tuple[int, int], recovered_from: int
) -> None:
    """Drop leader epochs outside the log, and producer snapshots above ``recovered_from``.

    The producers above this offset are read again from the batches. A snapshot there may contain
    producers whose records are no longer in the log.
    """
    log_start_offset, log_end_offset = bounds
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    snapshots.remove_above(recovered_from)


def _recovered_from(known: OpenedFrom, segments: Segments, log_end_offset: int) -> int:
    """Return the offset from which producers and aborted transactions are read again."""
    if known.is_clean:
        return log_end_offset
    return segments[max(segments.index_of(known.recovery_point), 0)].base_offset


def _clean_end_offset(
    known: OpenedFrom, snapshots: ProducerSnapshots, log_end_offset: int
) -> int | None:
    """Return the log end if nothing has to be written for the next start, or None."""
    has_producers = log_end_offset == 0 or log_end_offset in snapshots.offsets
    return log_end_offset if known.is_clean and has_producers else None


def open_log(
    files: Files,
    clock: Clock,
    directory: Path,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    topic_id: TopicId | None = None,
    known: OpenedFrom | None = None,
    home: LogDirectory | None = None,
    removals: PendingRemovals | None = None,
    producer_id_expiration_ms: int = _PRODUCER_ID_EXPIRATION_MS,
    rebuilt: RebuiltIndexes | None = None,
) -> Log:
    """Open or create the log in ``directory``, and recover it if needed. Blocks, so use the pool.

    If the directory has no topic id, ``topic_id`` is written. Missing indexes are added to
    ``rebuilt``, which must put them in place before the log is used.

    Raises:
        StorageError: damage below the recovery point, another topic, or files no clean stop leaves.
        OSError: the disk failed.
    """
    known, home = known or OpenedFrom(), home or LogDirectory(directory.parent)
    names = _names_in(files, directory)
    topic_id = _take_topic_id(files, directory, names, topic_id)
    names = finish_exchanges(files, directory, _remove_leftovers(files, directory, names), config)
    offsets = offsets_by_suffix(names)
    snapshots = ProducerSnapshots(files, directory, offsets.get(SNAPSHOT_SUFFIX, ()))
    epochs = _load_epochs(files, directory, names)
    loader = _Loader(
        files, clock.wall_ms(), directory, config, known=known, epochs=epochs, rebuilt=rebuilt
    )
    segments, log_end_offset = loader.load(offsets)
    if loader.has_found_loss or has_failed_sync(names) or _lacks_epochs(names, known, segments):
        home.may_lack_records = True
    log_start_offset = max(known.log_start_offset, segments[0].base_offset)
    if log_start_offset > log_end_offset:
        segments, log_end_offset = loader.start_over(segments, log_start_offset), log_start_offset
    recovered_from = _recovered_from(known, segments, log_end_offset)
    _cut(epochs, snapshots, (log_start_offset, log_end_offset), recovered_from)
    loader.maybe_write_again(segments, names)
    producers = ProducerState(producer_id_expiration_ms)
    bounds = {"end_offset": log_end_offset, "from_offset": recovered_from}
    with _damage_named(directory, segments):
        aborted = reload_producers(producers, snapshots, segments, log_start_offset, **bounds)
    for segment in segments:
        segment.unload()
    return Log(
        files=files,
        clock=clock,
        home=home,
        removals=PendingRemovals(files) if removals is None else removals,
        directory=directory,
        topic_partition=topic_partition,
        topic_id=topic_id,
        config=config,
        segments=segments,
        leader_epochs=epochs,
        producer_state=producers,
        producer_snapshots=snapshots,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        clean_end_offset=_clean_end_offset(known, snapshots, log_end_offset),
        recovery_point=known.recovery_point_of(log_end_offset),
        cleaned_offset=known.cleaned_offset,
        aborted_transactions=recover_aborted_transactions(
            files, segments, offsets.get(TXN_INDEX_SUFFIX, ()), aborted, recovered_from
        ),
    )


def _take_topic_id(
    files: Files, directory: Path, names: list[str], topic_id: TopicId | None
) -> TopicId | None:
    """Return the topic id in the directory. If there is none, write ``topic_id`` first."""
    found_id = read_topic_id(files, directory) if PARTITION_METADATA_FILE in names else None
    if topic_id is not None and found_id is None:
        write_topic_id(files, directory, topic_id)
    elif topic_id is not None and found_id != topic_id:
        text = (
            f"{directory} holds a log of topic id {found_id}, {topic_id} was asked for: move it"
            " away"
        )
        raise StorageError(text)
    return topic_id or found_id


def _load_epochs(files: Files, directory: Path, names: list[str]) -> LeaderEpochs:
    path = directory / LEADER_EPOCH_CHECKPOINT
    return (
        LeaderEpochs.load(files, path)
        if LEADER_EPOCH_CHECKPOINT in names
        else LeaderEpochs(files, path)
    )


def _lacks_epochs(names: list[str], known: OpenedFrom, segments: Segments) -> bool:
    """Return whether the file of leader epochs is missing, although the log has synced records.

    The file is written before the recovery point passes the first record.
    """
    is_lacking = LEADER_EPOCH_CHECKPOINT not in names and known.recovery_point > max(
        known.log_start_offset, segments[0].base_offset
    )
    if is_lacking:
        logger.error(
            "%s has no %s, which was written before",
            segments.active.directory,
            LEADER_EPOCH_CHECKPOINT,
        )
    return is_lacking


def _remove_leftovers(files: Files, directory: Path, names: list[str]) -> list[str]:
    """Remove files left by a crash or a delayed removal, and return the other names."""
    kept = []
    for name in names:
        if name.endswith(_LEFTOVER_SUFFIXES):
            files.remove(directory / name)
        else:
            kept.append(name)
    return kept


@contextmanager
def _damage_named(path: Path, segments: Iterable[Segment]) -> Iterator[None]:
    """Turn damage in synced batches into an error that names ``path``, and close the segments.

    Raises:
        StorageError: a batch is damaged.
    """
    try:
        yield
    except KafkaError as error:
        for segment in segments:
            segment.close_file()
        text = (
            f"{path} is damaged below the offset up to which it was synced: {error}; restore it, or"
            " move the directory away"
        )
        raise StorageError(text) from error


class _Loader:
    """Loads the segments of one directory. It is used once."""

    def __init__(
        self,
        files: Files,
        now_ms: int,
        directory: Path,
        config: LogConfig,
        *,
        known: OpenedFrom,
        epochs: LeaderEpochs,
        rebuilt: RebuiltIndexes | None,
    ) -> None:
        self._files = files
        self._now_ms = now_ms
        self._directory = directory
        self._config = config
        self._known = known
        self._epochs = epochs
        self._rebuilt = rebuilt
        self.has_found_loss = False
        """Whether recovery removed more than one incomplete write.

        The end of a process leaves only that.
        """

    def load(self, offsets: Mapping[str, list[int]]) -> tuple[Segments, int]:
        """Return the segments and the log end offset.

        ``offsets`` holds the offsets in the names of all files, by suffix.
        """
        base_offsets = offsets.get(LOG_SUFFIX, [])
        self._remove_orphans(offsets, base_offsets)
        if not base_offsets:
            if self._known.recovery_point > self._known.log_start_offset:
                text = (
                    f"{self._directory} holds no segment, but offsets up to"
                    f" {self._known.recovery_point} were synced there"
                )
                raise StorageError(text)
            return (
                Segments([self._new_segment(self._known.log_start_offset)]),
                self._known.log_start_offset,
            )
        segments = [self._existing_segment(base_offset) for base_offset in base_offsets]
        try:
            return self._verify(segments, offsets)
        except StorageError:
            for segment in segments:
                segment.close_file()
            raise

    def _verify(
        self, segments: list[Segment], offsets: Mapping[str, list[int]]
    ) -> tuple[Segments, int]:
        """Verify the segments after a crash, or find only the log end after a clean stop.

        Return the segments and the log end offset.
        """
        if self._known.is_clean:
            self._complete_indexes(segments, offsets)
            with _damage_named(segments[-1].path(), segments):
                log_end_offset = segments[-1].next_offset()
            self._check_synced(segments[-1], log_end_offset, None, is_last=True)
            return Segments(segments), log_end_offset
        return self._recover(segments, offsets)

    def start_over(self, segments: Segments, offset: int) -> Segments:
        """Remove segments that all lie below ``offset``, and return an empty one that begins there.

        ``offset`` is the log start offset.
        """
        for segment in segments:
            self._remove(segment)
        self._files.sync_directory(self._directory)
        return Segments([self._new_segment(offset)])

    def maybe_write_again(self, segments: Segments, names: list[str]) -> None:
        """Make everything above the recovery point durable, if the last sync failed."""
        if not has_failed_sync(names):
            return
        recovery_point = self._known.recovery_point
        logger.warning(
            "%s: a sync failed here before; everything above offset %d is written again",
            self._directory,
            recovery_point,
        )
        for segment in segments.from_offset(recovery_point):
            segment.write_again()
            if segment is not segments.active:  # the indexes of the active segment are not finished
                segment.sync_indexes()
        topic_id_path = self._directory / PARTITION_METADATA_FILE
        if self._files.exists(topic_id_path):
            self._files.write_atomically(topic_id_path, self._files.read_bytes(topic_id_path))
        self._files.sync_directory(self._directory.parent)
        forget_failed_sync(self._files, self._directory)

    def _remove_orphans(self, offsets: Mapping[str, list[int]], base_offsets: list[int]) -> None:
        """Remove indexes that retention left before the first segment.

        Raises:
            StorageError: an index lies after the first segment, so its segment is missing.
        """
        first_offset = min(base_offsets, default=-1)
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            for offset in sorted(set(offsets.get(suffix, ())).difference(base_offsets)):
                name = file_name(offset, suffix)
                if offset > first_offset and suffix != TXN_INDEX_SUFFIX:
                    text = (
                        f"{self._directory} holds {name} and not {file_name(offset, LOG_SUFFIX)},"
                        f" with the records from {offset} on"
                    )
                    raise StorageError(
                        f"{text}; restore it, or move the directory away to start without its"
                        " records"
                    )
                self._files.remove(self._directory / name)

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(
            self._files, self._directory, base_offset, self._config, created_ms=self._now_ms
        )

    def _existing_segment(self, base_offset: int) -> Segment:
        size_bytes = self._files.size_bytes(self._directory / file_name(base_offset, LOG_SUFFIX))
        return Segment(
            self._files,
            self._directory,
            base_offset,
            self._config,
            created_ms=self._now_ms,
            size_bytes=size_bytes,
        )

    def _complete_indexes(self, segments: list[Segment], offsets: Mapping[str, list[int]]) -> None:
        """Build missing index files now, in the thread pool, instead of during a read."""
        indexed = set(offsets.get(OFFSET_INDEX_SUFFIX, ())).intersection(
            offsets.get(TIME_INDEX_SUFFIX, ())
        )
        for segment in segments:
            if segment.size_bytes and segment.base_offset not in indexed:
                with _damage_named(segment.path(), segments):
                    segment.rebuild_indexes(self._rebuilt)

    def _recover(
        self, segments: list[Segment], offsets: Mapping[str, list[int]]
    ) -> tuple[Segments, int]:
        """Verify the segments from the recovery point on, and end the log at the first fault.

        Return the remaining segments and the log end offset.
        """
        first = max(Segments(segments).index_of(self._known.recovery_point), 0)
        self._complete_indexes(segments[:first], offsets)
        expected_offset = segments[first].base_offset
        for index in range(first, len(segments)):
            segment = segments[index]
            valid_bytes, fault = 0, self._boundary_fault(segments, index, expected_offset)
            if fault is None:
                valid_bytes, expected_offset, fault = segment.recover(self._epochs.assign)
            self._check_synced(segment, expected_offset, fault, is_last=index + 1 == len(segments))
            if fault is not None:
                return Segments(self._cut(segments, index, valid_bytes, fault)), expected_offset
            if index + 1 < len(segments):
                segment.finish_indexes()
            segment.unload()
        return Segments(segments), expected_offset

    def _boundary_fault(
        self, segments: list[Segment], index: int, expected_offset: int
    ) -> str | None:
        """Return the reason why a segment cannot follow one that ends at ``expected_offset``.

        Return None if it can. The log must not be truncated at holes of compaction. Compaction
        works from the beginning of a log and syncs its writes. Therefore a segment with holes of
        its own proves that all segments before it are complete.
        """
        known, base_offset = self._known, segments[index].base_offset
        is_hole = base_offset > max(
            expected_offset, known.recovery_point, known.cleaned_offset or 0
        )
        if (
            is_hole
            and not self._config.is_compacted
            and not any(has_holes(segment) for segment in segments[max(index - 1, 0) :])
        ):
            return f"the segment before it ends at {expected_offset}"
        return (
            f"the segment before it ends at {expected_offset}"
            if base_offset < expected_offset
            else None
        )

    def _check_synced(
        self, segment: Segment, valid_offset: int, fault: str | None, *, is_last: bool
    ) -> None:
        """Refuse a log that has lost durable records.

        Raises:
            StorageError: the log ends or is damaged below the recovery point.
        """
        if valid_offset < self._known.recovery_point and (fault is not None or is_last):
            text = (
                f"{segment.path()} is damaged below offset {self._known.recovery_point}, up to"
                f" which it was synced: {fault or f'it ends at {valid_offset}'}; restore it, or"
                f" move {self._directory} away to start without its records"
            )
            raise StorageError(text)

    def _cut(
        self, segments: list[Segment], index: int, valid_bytes: int, fault: str
    ) -> list[Segment]:
        """Truncate the log after ``valid_bytes`` of one segment, and return the remaining segments.

        The truncation is durable and begins at the end of the log, so that a crash leaves no hole.
        """
        segment = segments[index]
        if index + 1 < len(segments) or not segment.ends_within_batch(valid_bytes):
            self.has_found_loss = True
        logger.warning(
            "%s: cut %d bytes that were never synced: %s",
            segment.path(),
            segment.size_bytes - valid_bytes,
            fault,
        )
        is_removed = valid_bytes == 0 and index > 0
        for later in reversed(segments[index if is_removed else index + 1 :]):
            if later is not segment:
                logger.warning("%s: removed, it follows bytes that were cut", later.path())
            self._remove(later)
        self._files.sync_directory(self._directory)
        if is_removed:
            return segments[:index]
        segment.cut_torn_tail(valid_bytes)
        return segments[: index + 1]

    def _remove(self, segment: Segment) -> None:
        segment.close_file()
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX):
            self._files.remove(segment.path(suffix))
