"""One partition's log, which is appended to, truncated and closed. ``readable_log`` reads it.

The log assigns offsets, begins segments and reacts to disk errors. It does not know high
watermarks, replicas and requests. Callers supply the bounds of retention and truncation.
``segments`` changes the files, ``log_syncs`` makes them durable, ``recovery`` opens logs,
``retention`` chooses segments to delete, and the cleaner compacts.

Invariants: ``log_start_offset <= log_end_offset``. An append is atomic in memory and on disk. An
offset is reused only after a truncation. Only ``sync`` and ``close`` wait. The rest runs on one
thread.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from log_service.common.env import Clock, Files
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TIMESTAMP, Buffer, TopicId, TopicPartition
from log_service.config.views import LogConfig
from log_service.records.batch import BatchHeader, parse_header, stamp, stamp_append_time
from log_service.records.control import EndOfTransaction, TransactionMarker
from log_service.records.validator import ValidatedBatches
from log_service.storage import log_reader
from log_service.storage.aborted_transactions import (
    NO_TRANSACTIONS,
    AbortedTransaction,
    AbortedTransactions,
    pack_index,
)
from log_service.storage.append_result import AppendResult
from log_service.storage.leader_epochs import LeaderEpochs
from log_service.storage.log_directory import LogDirectory
from log_service.storage.log_syncs import LogSyncs
from log_service.storage.partition_metadata import sync_topic_id, write_topic_id
from log_service.storage.producer_snapshots import ProducerSnapshots
from log_service.storage.producer_state import ProducerState, RememberedBatch
from log_service.storage.readable_log import ReadableLog
from log_service.storage.removals import PendingRemovals
from log_service.storage.replicated_batches import check_replicated
from log_service.storage.retention import RetentionOutcome, count_deletable
from log_service.storage.running_logs import Extent
from log_service.storage.segment import MAX_RELATIVE_OFFSET, Segment
from log_service.storage.segments import Segments
from log_service.storage.transaction_checks import check_marker

_new = tuple.__new__  # a named tuple's own is a function of Python's

CheckBatch = Callable[[BatchHeader], RememberedBatch | None]
"""Returns the batch that a producer's batch repeats. Raises KafkaError to refuse the append."""


class Log(ReadableLog):
    """An open log, created by ``recovery.open_log``."""

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
        log_end_offset: int,
        recovery_point: int,
        clean_end_offset: int | None,
        cleaned_offset: int | None = None,
        aborted_transactions: AbortedTransactions = NO_TRANSACTIONS,
    ) -> None:
        super().__init__(
            home=home,
            directory=directory,
            topic_partition=topic_partition,
            config=config,
            segments=segments,
            leader_epochs=leader_epochs,
            log_end_offset=log_end_offset,
            cleaned_offset=cleaned_offset,
            aborted_transactions=aborted_transactions,
        )
        self.files = files
        self.clock = clock
        self.removals = removals
        self.topic_id = topic_id
        self.producer_state = producer_state
        self.producer_snapshots = producer_snapshots
        self.syncs = LogSyncs(
            clock=clock,
            home=home,
            topic_partition=topic_partition,
            segments=segments,
            leader_epochs=leader_epochs,
            producer_snapshots=producer_snapshots,
            recovery_point=recovery_point,
            is_directory_dirty=clean_end_offset in {None, 0},
        )
        self._start_at(log_start_offset)
        self._clean_end_offset = clean_end_offset
        self._sure_end_offset = log_end_offset
        """A lower bound of the end that recovery finds. A cut may leave no batch up to the end."""

    def __repr__(self) -> str:
        return (
            f"<Log {self.topic_partition} [{self.log_start_offset}, {self.log_end_offset})"
            f" recovery_point={self.recovery_point} segments={len(self.segments)}>"
        )

    @property
    def recovery_point(self) -> int:
        """The offset below which the log is durable."""
        return self.syncs.recovery_point

    @property
    def is_sync_due(self) -> bool:
        """Whether ``flush.messages`` requires a sync now."""
        return self.log_end_offset - self.syncs.recovery_point >= self.config.flush_messages

    # Appending

    def append_as_leader(
        self,
        validated: ValidatedBatches,
        *,
        leader_epoch: int,
        now_ms: int,
        check: CheckBatch | None = None,
    ) -> AppendResult:
        """Write offsets and epoch into the batches, and append the batches with one write.

        ``check`` checks transactional batches, more strictly than ``ProducerState.check``.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE,
                RECORD_LIST_TOO_LARGE, KAFKA_STORAGE_ERROR. Nothing was appended.
        """
        if self.home.append_refusal is not None or self.is_closed:
            raise self._refused()
        buffer, batches, size_bytes, max_timestamp = validated
        for _, header in batches:
            if (
                header.producer_id >= 0
                and (repeated := (check or self.producer_state.check)(header)) is not None
            ):
                return AppendResult(
                    repeated.first_offset,
                    repeated.last_offset,
                    repeated.timestamp,
                    self.log_start_offset,
                    True,
                    self.is_sync_due,
                )
        append_time_ms = (
            now_ms if self.config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
        )
        if append_time_ms != NO_TIMESTAMP:
            max_timestamp = now_ms
            for batch_position, _ in batches:
                stamp_append_time(buffer, batch_position, now_ms)
        base_offset = next_offset = self.log_end_offset
        for batch_position, header in batches:
            stamp(buffer, batch_position, next_offset, leader_epoch)
            next_offset += header.last_offset_delta + 1
        segment, position = self.write_content(
            buffer, size_bytes, max_timestamp, next_offset - 1, now_ms
        )
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.lead(leader_epoch, base_offset)
        batch_offset = base_offset
        for batch_position, header in batches:
            if append_time_ms != NO_TIMESTAMP:
                header = header._replace(max_timestamp=now_ms)  # noqa: PLW2901 - the header as it is now in the buffer
            last_offset = batch_offset + header.last_offset_delta
            segment.note_batch(
                position + batch_position, batch_offset, last_offset, header.max_timestamp
            )
            if header.producer_id >= 0:
                self.producer_state.update(header, batch_offset, now_ms)
            batch_offset = last_offset + 1
        self.log_end_offset = next_offset
        # The inlined ``is_sync_due``, because the call costs time on every append.
        must_sync = next_offset - self.syncs.recovery_point >= self.config.flush_messages
        return _new(
            AppendResult,
            (base_offset, next_offset - 1, append_time_ms, self.log_start_offset, False, must_sync),
        )

    def append_marker(
        self, marker: EndOfTransaction, *, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        """Append the end of a producer's transaction, even if none is open.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
        """
        if self.home.append_refusal is not None or self.is_closed:
            raise self._refused()
        check_marker(
            self.producer_state.get(marker.producer_id),
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        offset = self.log_end_offset
        batch = marker.build(base_offset=offset, leader_epoch=leader_epoch, timestamp_ms=now_ms)
        append_time_ms = NO_TIMESTAMP
        if self.config.message_timestamp_type == "LogAppendTime":
            append_time_ms = now_ms
            stamp_append_time(batch, 0, now_ms)
        header = parse_header(batch)
        segment, position = self.write_content(batch, len(batch), now_ms, offset, now_ms)
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.lead(leader_epoch, offset)
        segment.note_batch(position, offset, offset, now_ms)
        self._end_transaction(
            segment, header, TransactionMarker(marker.is_abort, marker.coordinator_epoch), now_ms
        )
        self.log_end_offset = offset + 1
        return AppendResult(
            offset, offset, append_time_ms, self.log_start_offset, False, self.is_sync_due
        )

    def append_as_follower(
        self, buffer: Buffer, *, leader_epoch: int | None = None
    ) -> AppendResult:
        """Append batches that already have their offsets and epochs from a leader.

        With ``leader_epoch``, the batches are a leader's response in this epoch. A truncated last
        batch is ignored. A batch with a later epoch and all batches after it are ignored, too.

        Raises:
            KafkaError: CORRUPT_MESSAGE, no whole batch or a wrong checksum; INVALID_RECORD, an
                invalid marker; OFFSET_OUT_OF_RANGE, the batches begin before the log's end or are
                not in order; KAFKA_STORAGE_ERROR. Nothing was appended.
        """
        if self.home.append_refusal is not None or self.is_closed:
            raise self._refused()
        try:
            content, batches, markers, max_timestamp = check_replicated(
                buffer, self.log_end_offset, leader_epoch
            )
        except KafkaError as error:
            raise KafkaError(error.code, f"{self.topic_partition}: {error}") from error
        if not batches:
            end_offset = self.log_end_offset
            return AppendResult(
                end_offset, end_offset - 1, NO_TIMESTAMP, self.log_start_offset, False, False
            )
        now_ms = self.clock.wall_ms()
        base_offset, next_offset = batches[0][1].base_offset, batches[-1][1].next_offset
        segment, start = self.write_content(
            content, len(content), max_timestamp, next_offset - 1, now_ms
        )
        for position, header in batches:
            segment.note_batch(
                start + position, header.base_offset, header.last_offset, header.max_timestamp
            )
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                if position in markers:
                    self._end_transaction(segment, header, markers[position], now_ms)
                else:
                    self.producer_state.update(header, header.base_offset, now_ms)
        self.log_end_offset = next_offset
        return AppendResult(
            base_offset,
            next_offset - 1,
            NO_TIMESTAMP,
            self.log_start_offset,
            False,
            self.is_sync_due,
        )

    def _end_transaction(
        self, segment: Segment, header: BatchHeader, marker: TransactionMarker, now_ms: int
    ) -> None:
        """Apply an appended marker.

        If the index of aborted transactions cannot be written, the directory goes offline.
        """
        ended = self.producer_state.end_transaction(header, marker.coordinator_epoch, now_ms)
        if ended is None or not marker.is_abort:
            return
        if self.aborted_transactions is NO_TRANSACTIONS:
            self.aborted_transactions = AbortedTransactions()
        self.aborted_transactions.add(ended)
        try:
            segment.append_aborted(pack_index([ended]))
        except OSError as error:
            raise self.home.fail(error) from error

    def write_content(
        self, buffer: Buffer, size_bytes: int, max_timestamp: int, last_offset: int, now_ms: int
    ) -> tuple[Segment, int]:
        """Write to the active segment, or a new one if due. Return the segment and position."""
        segment, config = self.segments.active, self.config
        if size_bytes > config.segment_bytes:
            text = (
                f"{size_bytes} bytes do not fit into a segment of {self.topic_partition}"
                f" ({config.segment_bytes} bytes)"
            )
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
        try:
            if segment.must_roll_for(size_bytes, max_timestamp, last_offset, now_ms, config):
                segment = self.begin_segment(
                    max(self.log_end_offset, last_offset - MAX_RELATIVE_OFFSET), now_ms
                )
            position = segment.append([buffer])
            self.home.note_written(size_bytes)
        except OSError as error:
            raise self.home.note_error(error) from error
        if position == 0:
            self._sure_end_offset = last_offset + 1
            self.note_extent()
        return segment, position

    def roll(self) -> bool:
        """Begin a new segment unless the active one is empty. Return whether one was begun.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if self.segments.active.size_bytes == 0:
            return False
        try:
            self.begin_segment(self.log_end_offset, self.clock.wall_ms())
        except OSError as error:
            raise self.home.note_error(error) from error
        return True

    def begin_segment(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new active segment at ``base_offset``, and return it. Finish the previous one."""
        old = self.segments.active
        if old.size_bytes:
            old.finish_indexes()
            if self.syncs.recovery_point >= self.log_end_offset:
                old.sync_indexes()  # recovery reads no segment below the recovery point
            self.producer_snapshots.take(base_offset, self.producer_state)
        replaced = self.segments.begin(base_offset, self.config, created_ms=now_ms)
        if replaced:
            self._remove_later(replaced)
        else:
            self.home.on_rolled(self.topic_partition)
        self._note_new_files()
        return self.segments.active

    def _note_new_files(self) -> None:
        self.syncs.note_new_names()
        self._clean_end_offset = None

    def _remove_later(self, paths: list[Path]) -> None:
        self.removals.schedule(paths, self.clock.monotonic_ms() + self.config.file_delete_delay_ms)

    # Durability

    async def sync(self) -> int:
        """Make everything appended before the call durable, and return the recovery point.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR. The directory is then offline.
        """
        return await self.syncs.sync_up_to(lambda: self.log_end_offset)

    async def sync_rolled(self) -> int:
        """Make the segments before the active one durable, and return the recovery point.

        Raises as ``sync``.
        """
        return await self.syncs.sync_up_to(lambda: self.segments.active.base_offset)

    # Cutting

    def advance_log_start_offset(self, offset: int) -> bool:
        """Hide records below ``offset`` (DeleteRecords). Return whether the log start moved.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, the log ends before ``offset``.
        """
        if offset > self.log_end_offset:
            text = (
                f"{self.topic_partition} ends at {self.log_end_offset}; its start cannot move to"
                f" {offset}"
            )
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if offset <= self.log_start_offset:
            return False
        self._start_at(offset)
        self.note_extent()
        self.leader_epochs.truncate_from_start(offset)
        return True

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        if self.producer_state.unstable is not None:
            self.producer_state.unstable.start_at(offset)

    def apply_retention(self, now_ms: int, high_watermark: int) -> RetentionOutcome:
        """Delete the oldest segments that age, size or the log start offset no longer protect.

        No segment with records at or above ``high_watermark`` is deleted.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        self._check_readable()
        try:
            count = count_deletable(self, now_ms, high_watermark)
            if count == 0:
                return RetentionOutcome(0, 0, self.log_start_offset)
            if count == len(self.segments):
                self.begin_segment(self.log_end_offset, now_ms)
            self.advance_log_start_offset(self.segments[count].base_offset)
            size_bytes = sum(segment.size_bytes for segment in list(self.segments)[:count])
            self._remove_later(self.segments.drop_oldest(count))
            self.aborted_transactions = self.aborted_transactions.from_offset(self.log_start_offset)
            self.producer_snapshots.remove_needless(
                segment.base_offset for segment in self.segments
            )
        except OSError as error:
            raise self.home.note_error(error) from error
        return RetentionOutcome(count, size_bytes, self.log_start_offset)

    def truncate_to(self, offset: int) -> bool:
        """Remove everything at or above ``offset``, and return whether something was removed.

        A batch that holds ``offset`` is removed whole. An offset below the start empties the log
        and becomes its start. The truncation is durable on return. Later segments are removed
        first, so that a crash leaves no hole.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if offset >= self.log_end_offset:
            # Remove the epoch of a leader that appended no record.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return False
        self._check_readable()
        self._clean_end_offset = None
        self._sure_end_offset = min(
            self._sure_end_offset, next(self.segments.from_offset(offset)).base_offset, offset
        )
        self.note_extent()
        try:
            self.home.on_cut(self.topic_partition, offset)
            self.cleaned_offset = (
                None if self.cleaned_offset is None else min(self.cleaned_offset, offset)
            )
            self.syncs.note_truncation(offset)
            self.producer_snapshots.remove_above(offset)
            self.aborted_transactions = self.aborted_transactions.cut(offset, self.segments)
            self._remove_later(
                self.segments.cut(offset, self.config, created_ms=self.clock.wall_ms())
            )
        except OSError as error:
            raise self.home.note_error(error) from error
        self.log_end_offset = offset
        self._start_at(min(self.log_start_offset, offset))
        self.leader_epochs.truncate_from_end(offset)
        producers, snapshots = self.producer_state, self.producer_snapshots
        log_reader.reload_producers(
            producers,
            snapshots,
            self.segments,
            self.log_start_offset,
            end_offset=offset,
            from_offset=offset,
        )
        return True

    def restart_at(self, offset: int) -> None:
        """Drop all records and begin again at any ``offset``. Durable on return.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        self.truncate_to(self.segments[0].base_offset)
        self._check_readable()
        self.note_extent(offset)
        try:
            self.producer_snapshots.remove_above(-1)
            self.leader_epochs.clear_durably()
            if self.segments.active.base_offset != offset:
                self.begin_segment(offset, self.clock.wall_ms())
                self.files.sync_directory(self.directory)
        except OSError as error:
            raise self.home.note_error(error) from error
        self.log_end_offset = offset
        self._start_at(offset)
        self.syncs.note_restart(offset)
        self.cleaned_offset = self._clean_end_offset = None
        self.producer_state.reset()

    def extent(self, least_offset: int = 0, but: Sequence[Segment] = ()) -> Extent:
        """Return the offset range and the segments that still exist if the process is killed now.

        The range begins at ``least_offset`` or later, and leaves out the segments in ``but``.
        """
        return Extent(
            topic_id=self.topic_id,
            start_offset=max(self.log_start_offset, self.segments[0].base_offset, least_offset),
            end_offset=self._sure_end_offset,
            base_offsets=tuple(
                segment.base_offset for segment in self.segments if segment not in but
            ),
        )

    def note_extent(self, least_offset: int = 0, but: Sequence[Segment] = ()) -> None:
        """Write this log's ``extent`` into the directory's list of logs (``running_logs``).

        The arguments are those of ``extent``. The log of an unfinished move is not listed.
        """
        if self.directory.name == str(self.topic_partition):
            self.home.on_extent(self.topic_partition, self.extent(least_offset, but))

    # Compaction

    def note_cleaned(self, end_offset: int) -> None:
        """Store that the log is compacted below ``end_offset``."""
        self.cleaned_offset = end_offset

    def exchange_segments(
        self, old: Sequence[Segment], new: Segment, aborted: Sequence[AbortedTransaction]
    ) -> None:
        """Replace the adjacent segments ``old`` by the cleaned segment ``new`` in one step.

        ``new`` holds the retained records. ``aborted`` is its index of aborted transactions, in the
        order of their markers. Readers keep the old segments, which are removed
        ``file.delete.delay.ms`` later.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the directory is offline. The next start finishes or
                undoes the exchange.
        """
        due_ms = self.clock.monotonic_ms() + self.config.file_delete_delay_ms
        self.note_extent(but=old)
        try:
            paths, end_offset = self.segments.exchange(old, new)
            self.note_extent()
            self.aborted_transactions = self.aborted_transactions.replaced(
                new.base_offset, end_offset, aborted
            )
            self.syncs.note_new_names()
            self.removals.schedule(paths, due_ms)
            for segment in old:
                self.removals.schedule_release(segment.close_file, due_ms)
            self.producer_snapshots.remove_needless(
                segment.base_offset for segment in self.segments
            )
        except OSError as error:
            raise self.home.fail(error) from error

    # Configuration

    def reconfigure(self, config: LogConfig) -> None:
        """Apply ``config`` from now on."""
        self.config = config

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that have not written for too long, and return their number.

        ``producer.id.expiration.ms`` is the limit.
        """
        return self.producer_state.expire(now_ms)

    def remember_producers_for(self, expiration_ms: int) -> None:
        """Apply another ``producer.id.expiration.ms`` from now on."""
        self.producer_state.remember_for(expiration_ms)

    def adopt_topic_id(self, topic_id: TopicId) -> None:
        """Write the topic id durably to a directory that an old version or a crash left without.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        try:
            write_topic_id(self.files, self.directory, topic_id)
            sync_topic_id(self.files, self.directory)
        except OSError as error:
            raise self.home.note_error(error) from error
        self.topic_id = topic_id

    def unload_idle(self) -> int:
        """Unload segments that were not used since the last call. Return how many were unloaded."""
        return sum(segment.maybe_unload() for segment in self.segments)

    # Closing

    async def close(self) -> None:
        """Make the log durable, write files that speed up the next start, and close the files.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if self.is_closed:
            return
        self.is_closed = True
        if self.home.is_offline or not self.has_changes:
            self.close_files()
            return
        try:
            await self.sync()
            await self.files.run_in_pool(partial(self._write_for_next_start, is_synced=True))
        except OSError as error:
            raise self.syncs.note_error(error) from error
        finally:
            self.close_files()

    @property
    def has_changes(self) -> bool:
        """Whether closing must write changes made since the log was opened after a clean stop."""
        return self._clean_end_offset != self.log_end_offset or self.leader_epochs.is_dirty

    def _write_for_next_start(self, *, is_synced: bool) -> None:
        """Write indexes, epochs and producers, so that the next start reads less. Blocks."""
        self.segments.active.finish_indexes()
        if is_synced:
            self.segments.active.sync_indexes()
        self.leader_epochs.maybe_write(is_synced=is_synced)
        if self.log_end_offset > 0:
            self.producer_snapshots.take(self.log_end_offset, self.producer_state)
            self.producer_snapshots.remove_needless(
                segment.base_offset for segment in self.segments
            )
        if is_synced:
            self.producer_snapshots.sync()

    def begin_close(self) -> None:
        """Refuse appends and write the files for the next start, unsynced. ``end_close`` follows.

        Raises:
            OSError: the disk failed.
        """
        self.is_closed = True
        self._write_for_next_start(is_synced=False)

    def end_close(self, error: OSError | None) -> KafkaError | None:
        """Close the files after a sync of the file system. Return the error for clients, or None.

        ``error`` is the failure of the sync. Without an error the whole log is now durable.
        """
        refusal = None if error is None else self.syncs.note_error(error)
        if error is None:
            self.syncs.note_synced(self.log_end_offset)
        self.close_files()
        return refusal

    def close_as_copy_of(self, original: "Log") -> None:
        """Close a copy durably with the log end, producer state and aborts of ``original``.

        Blocks.

        Raises:
            OSError: the disk failed.
        """
        original.aborted_transactions.write_indexes(self.files, self.directory, self.segments)
        # The original's state also has producers whose batches retention has deleted.
        self.producer_state = original.producer_state
        if self.log_end_offset < original.log_end_offset:
            # Compaction removed the last records, whose offsets are not reused.
            self.begin_segment(original.log_end_offset, self.clock.wall_ms())
            self.log_end_offset = original.log_end_offset
        for segment in self.segments.from_offset(self.syncs.recovery_point):
            segment.sync()
        self._write_for_next_start(is_synced=True)
        self.files.sync_directory(self.directory)
        self.close_files()

    def close_files(self) -> None:
        """Close every descriptor without writing, for a deleted log or a failed directory."""
        self.is_closed = True
        self.syncs.end()
        for segment in self.segments:
            segment.close_file()
