"""One partition's log, as its readers see it.

This file refuses reads outside the log, in a failed directory, or across a missing segment. It
turns errors of the disk into errors of the protocol. ``log_reader`` finds batches and records.
``log`` changes the log.

``read`` leases a range of a file, and the caller releases the lease. Ranges that may not be in the
page cache can be read in the thread pool.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.config.views import LogConfig
from log_service.storage import log_reader
from log_service.storage.aborted_transactions import AbortedTransactions
from log_service.storage.leader_epochs import LeaderEpochs
from log_service.storage.log_directory import LogDirectory
from log_service.storage.log_reader import LogSlice, TimestampOffset
from log_service.storage.log_syncs import closed
from log_service.storage.segment import Segment
from log_service.storage.segments import Segments

logger = logging.getLogger(__name__)


class ReadableLog:
    """The segments of a log, which are read up to a bound that the caller supplies."""

    def __init__(
        self,
        *,
        home: LogDirectory,
        directory: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: Segments,
        leader_epochs: LeaderEpochs,
        log_end_offset: int,
        cleaned_offset: int | None,
        aborted_transactions: AbortedTransactions,
    ) -> None:
        self.home = home
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.log_start_offset = 0
        self.log_end_offset = log_end_offset
        self.cleaned_offset = cleaned_offset
        """The offset below which the log is compacted, or None if no pass has run."""
        self.aborted_transactions = aborted_transactions
        self.is_closed = False
        self._logged_hole = -1

    @property
    def size_bytes(self) -> int:
        """The size of all segments in bytes."""
        return self.segments.size_bytes

    @property
    def latest_leader_epoch(self) -> int:
        """The epoch of the last batch, or -1 if there is none."""
        return self.leader_epochs.latest

    def read(
        self, start_offset: int, *, max_bytes: int, upper_offset: int, is_one_batch_guaranteed: bool
    ) -> LogSlice:
        """Return batches as a leased range, from the one that holds ``start_offset`` on.

        The range ends below ``upper_offset``. The caller releases its ``file_slice``, if any.
        At most ``max_bytes`` are leased, so the last batch may be cut off. A larger first batch is
        leased whole if ``is_one_batch_guaranteed``, else not at all. Nothing is leased while
        indexes are rebuilt.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        log_end_offset = self.log_end_offset
        if (
            not self.log_start_offset <= start_offset <= log_end_offset
            or self.home.is_offline
            or self.is_closed
        ):
            self._check_readable()
            text = (
                f"{self.topic_partition} holds offsets {self.log_start_offset} to {log_end_offset},"
                f" {start_offset} was asked for"
            )
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if start_offset >= upper_offset or start_offset == log_end_offset:
            return log_reader.NOTHING
        try:
            if start_offset < self.segments.active.base_offset and self.is_waiting_for(
                next(self.segments.from_offset(start_offset))
            ):
                return log_reader.NOTHING
            found = log_reader.read(
                self.segments,
                start_offset,
                max_bytes=max_bytes,
                upper_offset=upper_offset if upper_offset < log_end_offset else None,
                is_one_batch_guaranteed=is_one_batch_guaranteed,
            )
            if found.segment_base_offset > start_offset:
                self._check_hole(start_offset, found)
        except OSError as error:
            raise self.home.note_error(error) from error
        else:
            return found

    def is_waiting_for(self, segment: Segment) -> bool:
        """Return whether a read must wait until the indexes of ``segment`` are rebuilt.

        If so, this starts the rebuild in the thread pool.
        """
        if not segment.is_rebuild_due:
            return False
        self.home.on_doubt(segment)
        return True

    def aborted_in(self, start_offset: int, found: LogSlice) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of aborted transactions that may overlap a read.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if not self.aborted_transactions:
            return []
        try:
            return self.aborted_transactions.within(
                start_offset, log_reader.end_offset(self.segments, found)
            )
        except OSError as error:
            raise self.home.note_error(error) from error

    def read_batches(
        self, start_offset: int, end_offset: int | None = None, *, chunk_bytes: int = 1 << 20
    ) -> Iterator[bytes]:
        """Yield [start_offset, end_offset) in chunks of whole batches. May run in the thread pool.

        Raises:
            KafkaError: as ``read``.
        """
        self._check_readable()
        upper_offset = self.log_end_offset
        end_offset = upper_offset if end_offset is None else min(end_offset, upper_offset)
        start_offset = max(start_offset, self.log_start_offset)
        try:
            yield from log_reader.read_batches(
                self.segments, start_offset, end_offset, chunk_bytes, upper_offset=upper_offset
            )
        except OSError as error:
            raise self.home.note_error(error) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record at or after ``timestamp`` (ms), or None.

        This reads a batch from the disk, so call it in the thread pool.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, or the error of a damaged batch.
        """
        self._check_readable()
        try:
            return log_reader.offset_for_timestamp(self.segments, timestamp, self.log_start_offset)
        except OSError as error:
            raise self.home.note_error(error) from error

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp, even below the log start, or None.

        This reads a batch from the disk, so call it in the thread pool.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, or the error of a damaged batch.
        """
        self._check_readable()
        try:
            return log_reader.offset_of_max_timestamp(self.segments)
        except OSError as error:
            raise self.home.note_error(error) from error

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Return the largest epoch at or below ``leader_epoch`` and its end offset, or (-1, -1)."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def _check_hole(self, offset: int, found: LogSlice) -> None:
        """Refuse a read that would skip a missing segment, and release the lease of ``found``.

        Only compaction may leave such holes.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if (
            self.config.is_compacted
            or self.cleaned_offset is not None
            or not log_reader.is_segment_missing(self.segments, offset)
        ):
            return
        if found.file_slice is not None:
            found.file_slice.release()
        last_offset = found.segment_base_offset - 1
        text = (
            f"{self.directory} has no segment for offsets {offset} to {last_offset}: restore it, or"
            " continue to read after them"
        )
        if self._logged_hole != offset:
            self._logged_hole = offset
            logger.error("%s", text)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    def _check_readable(self) -> None:
        if self.home.is_offline or self.is_closed:
            raise self._refused()

    def _refused(self) -> KafkaError:
        if self.is_closed:
            return closed(self.topic_partition)
        return self.home.refused()
