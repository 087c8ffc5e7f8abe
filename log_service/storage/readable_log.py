"""The reading half of an open log, and what the log is made of.

Decides which reads are refused. Where the bytes lie is ``log_reader``'s; everything that changes the log is ``log``'s. Invariants: nothing
here changes the log, but that a read error takes the directory offline; a lease that was handed out is the caller's to release.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import trio

from log_service.common.env import Clock, Files
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId, TopicPartition
from log_service.config.views import LogConfig
from log_service.storage import log_reader
from log_service.storage.aborted_transactions import NO_TRANSACTIONS, AbortedTransactions
from log_service.storage.leader_epochs import LeaderEpochs
from log_service.storage.log_directory import LogDirectory
from log_service.storage.log_reader import LogSlice, TimestampOffset
from log_service.storage.producer_snapshots import ProducerSnapshots
from log_service.storage.producer_state import ProducerState
from log_service.storage.removals import PendingRemovals
from log_service.storage.segment import Segment
from log_service.storage.segments import Segments

_log = logging.getLogger(__name__)


class ReadableLog:
    """An open log as its readers see it."""

    def __init__(
        self,
        *,
        files: Files,
        clock: Clock,
        home: LogDirectory,
        removals: PendingRemovals,
        directory: Path,
        topic_partition: TopicPartition,
        topic_id: TopicId | None,
        config: LogConfig,
        segments: Segments,
        leader_epochs: LeaderEpochs,
        producer_state: ProducerState,
        producer_snapshots: ProducerSnapshots,
        log_start_offset: int,
        recovery_point: int,
        clean_end_offset: int | None,
        cleaned_offset: int | None = None,
        aborted_transactions: AbortedTransactions = NO_TRANSACTIONS,
    ) -> None:
        self.files = files
        self.clock = clock
        self.home = home
        self.removals = removals
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.producer_state = producer_state
        self.producer_snapshots = producer_snapshots
        self.log_start_offset = log_start_offset
        self.log_end_offset = producer_state.end_offset
        self.recovery_point = recovery_point
        self.cleaned_offset = cleaned_offset
        """Below it the log is compacted; None where no pass ever was."""
        self.aborted_transactions = aborted_transactions
        self.synced_ms = clock.monotonic_ms()
        self.is_closed = False
        self._are_files_closed = False
        self.is_directory_dirty = clean_end_offset in {None, 0}
        self._truncation_count = 0
        self._sync_ended: trio.Event | None = None
        self._clean_end_offset = clean_end_offset
        self._told_hole = -1

    def __repr__(self) -> str:
        return (
            f"<Log {self.topic_partition} [{self.log_start_offset}, {self.log_end_offset}) recovery_point={self.recovery_point} "
            f"segments={len(self.segments)}>"
        )

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return self.segments.size_bytes

    @property
    def latest_leader_epoch(self) -> int:
        """The epoch of the last batch, -1 where there is none."""
        return self.leader_epochs.latest

    # Reading

    def read(self, start_offset: int, *, max_bytes: int, upper_offset: int, is_one_batch_guaranteed: bool) -> LogSlice:
        """Lease whole batches from the one that holds ``start_offset``, below ``upper_offset`` and of at most ``max_bytes``.

        The last batch may be cut off by ``max_bytes``, as clients expect; the first never is: it comes whole, where it is too large only if
        ``is_one_batch_guaranteed``. The caller releases the lease. Nothing is found while indexes are built again.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        log_end_offset = self.log_end_offset
        if not self.log_start_offset <= start_offset <= log_end_offset or self.home.is_offline or self.is_closed:
            self._check_readable()
            text = f"{self.topic_partition} holds offsets {self.log_start_offset} to {log_end_offset}, {start_offset} was asked for"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if start_offset >= upper_offset or start_offset == log_end_offset:
            return log_reader.NOTHING
        try:
            if start_offset < self.segments.active.base_offset and self.is_waiting_for(next(self.segments.from_offset(start_offset))):
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
            raise self.home.answer_to(error) from error
        else:
            return found

    def is_waiting_for(self, segment: Segment) -> bool:
        """Whether the indexes of a segment have to be built again first; has that begun, for the event loop must not do it."""
        if not segment.is_rebuild_due:
            return False
        self.home.on_doubt(segment)
        return True

    def aborted_in(self, start_offset: int, found: LogSlice) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions that may have records in what was read from ``start_offset``.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if not self.aborted_transactions:
            return []
        try:
            return self.aborted_transactions.within(start_offset, log_reader.end_offset(self.segments, found))
        except OSError as error:
            raise self.home.answer_to(error) from error

    def read_batches(self, start_offset: int, end_offset: int | None = None, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Yield chunks of whole batches that hold [start_offset, end_offset); the first and last batch may hold more. May run in the pool.

        Raises:
            KafkaError: as ``read``.
        """
        self._check_readable()
        end_offset = self.log_end_offset if end_offset is None else min(end_offset, self.log_end_offset)
        try:
            yield from log_reader.read_batches(self.segments, max(start_offset, self.log_start_offset), end_offset, chunk_bytes)
        except OSError as error:
            raise self.home.answer_to(error) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record whose timestamp is at or above ``timestamp`` (ms); opens one batch, so it belongs into the pool.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, or what a damaged batch raises.
        """
        self._check_readable()
        try:
            return log_reader.offset_for_timestamp(self.segments, timestamp, self.log_start_offset)
        except OSError as error:
            raise self.home.answer_to(error) from error

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Return the first record that has the largest timestamp of all segments, also below the log's start.

        Opens one batch, so it belongs into the pool.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, or what a damaged batch raises.
        """
        self._check_readable()
        try:
            return log_reader.offset_of_max_timestamp(self.segments)
        except OSError as error:
            raise self.home.answer_to(error) from error

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Return (largest epoch at or below ``leader_epoch``, the offset where it ends); (-1, -1) where that cannot be said."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def _check_hole(self, offset: int, found: LogSlice) -> None:
        """Refuse to skip offsets that nothing of ours removed: only compaction leaves room between two segments."""
        if self.config.is_compacted or self.cleaned_offset is not None or not log_reader.is_segment_missing(self.segments, offset):
            return
        if found.file_slice is not None:
            found.file_slice.release()
        last_offset = found.segment_base_offset - 1
        text = f"{self.directory} has no segment for offsets {offset} to {last_offset}: restore it; who can do without reads on behind them"
        if self._told_hole != offset:
            self._told_hole = offset
            _log.error("%s", text)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    def _check_readable(self) -> None:
        if self.home.is_offline or self.is_closed:
            raise self._refused()

    def _refused(self) -> KafkaError:
        if self.is_closed:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {self.topic_partition} is closed")
        return self.home.refused()
