"""One partition's log: batches appended at its end, read anywhere, cut at both ends.

Decides offsets, rolling, what a write error means, how far the log is durable. Knows nothing of high watermarks, replicas and requests: the
bounds of reads, retention and truncation are handed in. Reading lies in ``log_reader``, opening in ``recovery``, the choice of segments to
delete in ``retention``.

Invariants: ``log_start_offset <= log_end_offset``; an append is all in the log or not at all, in memory as on disk; ``recovery_point``
never passes what was synced, with the indexes of all older segments; an offset that was handed out is never handed out again, but for
truncation. Everything but ``sync`` and ``close`` runs to its end without waiting, on one thread; reads of a past range may run in the pool.
"""

from collections.abc import Callable
from typing import NamedTuple

import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TIMESTAMP, Buffer
from log_service.config.views import LogConfig
from log_service.records.batch import is_crc_valid, iterate_headers, stamp, stamp_append_time
from log_service.records.validator import ValidatedBatches
from log_service.storage import log_reader
from log_service.storage.log_directory import SPACE_CHECK_BYTES
from log_service.storage.partition_metadata import sync_topic_id
from log_service.storage.readable_log import ReadableLog
from log_service.storage.retention import RetentionOutcome, count_deletable
from log_service.storage.segment import MAX_RELATIVE_OFFSET, Segment
from log_service.storage.sync_failures import note_failed_sync

_new = tuple.__new__  # a named tuple's own is a function of Python's


class AppendResult(NamedTuple):
    """Where batches went.

    ``last_offset`` is inclusive; ``append_time_ms`` is -1 unless the log stamps its own time, or the latest timestamp of a batch that was
    repeated; ``must_sync`` asks for a ``sync`` before the append is acknowledged (``flush.messages``).
    """

    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    is_duplicate: bool
    must_sync: bool


class Log(ReadableLog):
    """An open log; made by ``recovery.open_log``."""

    # Appending

    def append_as_leader(self, validated: ValidatedBatches, *, leader_epoch: int, now_ms: int) -> AppendResult:
        """Stamp offsets and epoch into the batches, in place, and append them with one write.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, RECORD_LIST_TOO_LARGE; KAFKA_STORAGE_ERROR, nothing was
                appended.
        """
        if self.home.append_refusal is not None or self.is_closed:
            raise self._refused()
        buffer, batches, size_bytes, _, max_timestamp, _ = validated
        for _, header in batches:
            if header.producer_id >= 0 and (repeated := self.producer_state.check(header)) is not None:
                return AppendResult(
                    repeated.first_offset, repeated.last_offset, repeated.timestamp, self.log_start_offset, True, self._must_sync()
                )
        append_time_ms = now_ms if self.config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
        if append_time_ms != NO_TIMESTAMP:
            max_timestamp = now_ms
            for batch_position, _ in batches:
                stamp_append_time(buffer, batch_position, now_ms)
        base_offset = next_offset = self.log_end_offset
        for batch_position, header in batches:
            stamp(buffer, batch_position, next_offset, leader_epoch)
            next_offset += header.last_offset_delta + 1
        segment, position = self._write(buffer, size_bytes, max_timestamp, next_offset - 1, now_ms)
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.lead(leader_epoch, base_offset)
        batch_offset = base_offset
        for batch_position, header in batches:
            if append_time_ms != NO_TIMESTAMP:
                header = header._replace(max_timestamp=now_ms)  # noqa: PLW2901 - the header as it is now in the buffer
            last_offset = batch_offset + header.last_offset_delta
            segment.note_batch(position + batch_position, batch_offset, last_offset, header.max_timestamp)
            if header.producer_id >= 0:
                self.producer_state.update(header, batch_offset, now_ms)
            batch_offset = last_offset + 1
        self.log_end_offset = self.producer_state.end_offset = next_offset
        must_sync = next_offset - self.recovery_point >= self.config.flush_messages
        return _new(AppendResult, (base_offset, next_offset - 1, append_time_ms, self.log_start_offset, False, must_sync))

    def append_as_follower(self, buffer: Buffer) -> AppendResult:
        """Append batches that carry their offsets and epochs, as a leader stamped them.

        Raises:
            KafkaError: CORRUPT_MESSAGE, no whole batches or a checksum that does not hold; OFFSET_OUT_OF_RANGE, they do not begin at or
                after the log's end, or are not in order; KAFKA_STORAGE_ERROR. Nothing was appended.
        """
        if self.home.append_refusal is not None or self.is_closed:
            raise self._refused()
        batches = list(iterate_headers(buffer))
        next_offset, max_timestamp = self.log_end_offset, NO_TIMESTAMP
        view = memoryview(buffer)
        for position, header in batches:
            if header.base_offset < next_offset:
                text = f"{self.topic_partition}: a batch of base offset {header.base_offset} cannot follow offset {next_offset - 1}"
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
            if not is_crc_valid(view[position : position + header.size_bytes]):
                text = f"{self.topic_partition}: the checksum of the batch of base offset {header.base_offset} does not hold"
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
            next_offset = header.next_offset
            max_timestamp = max(max_timestamp, header.max_timestamp)
        if not batches:
            return AppendResult(next_offset, next_offset - 1, NO_TIMESTAMP, self.log_start_offset, False, False)
        now_ms = self.clock.wall_ms()
        base_offset = batches[0][1].base_offset
        segment, start = self._write(buffer, len(view), max_timestamp, next_offset - 1, now_ms)
        for position, header in batches:
            segment.note_batch(start + position, header.base_offset, header.last_offset, header.max_timestamp)
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self.producer_state.update(header, header.base_offset, now_ms)
        self.log_end_offset = self.producer_state.end_offset = next_offset
        return AppendResult(base_offset, next_offset - 1, NO_TIMESTAMP, self.log_start_offset, False, self._must_sync())

    def _must_sync(self) -> bool:
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    def _write(self, buffer: Buffer, size_bytes: int, max_timestamp: int, last_offset: int, now_ms: int) -> tuple[Segment, int]:
        """Write to the active segment, a new one where that is due; return it and the position."""
        segment, config = self.segments.active, self.config
        if size_bytes > config.segment_bytes:
            text = f"{size_bytes} bytes do not fit into a segment of {self.topic_partition} ({config.segment_bytes} bytes)"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
        try:
            if segment.must_roll_for(size_bytes, max_timestamp, last_offset, now_ms, config):
                segment = self._roll(max(self.log_end_offset, last_offset - MAX_RELATIVE_OFFSET), now_ms)
            position = segment.append([buffer])
            home = self.home
            home.unchecked_bytes += size_bytes
            if home.unchecked_bytes > SPACE_CHECK_BYTES:
                home.check_space()
        except OSError as error:
            raise self.home.answer_to(error) from error
        return segment, position

    def roll(self) -> bool:
        """Begin a new segment; an empty active segment stays. Says whether it rolled.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if self.segments.active.size_bytes == 0:
            return False
        try:
            self._roll(self.log_end_offset, self.clock.wall_ms())
        except OSError as error:
            raise self.home.answer_to(error) from error
        return True

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        old = self.segments.active
        if old.size_bytes == 0:  # too far from its base for the next offset: replaced
            self._set_aside([old])
            segment = Segment(self.files, self.directory, base_offset, self.config, created_ms=now_ms)
            self.segments.replace([*list(self.segments)[:-1], segment])
        else:
            old.finish_indexes()
            if self.recovery_point >= self.log_end_offset:
                old.sync_indexes()  # recovery will not look at a segment below the recovery point
            self.producer_snapshots.take(base_offset, self.producer_state)
            segment = Segment(self.files, self.directory, base_offset, self.config, created_ms=now_ms)
            self.segments.add(segment)
            self.home.on_rolled(self.topic_partition)
        self.is_directory_dirty, self._clean_end_offset = True, None  # whoever closes has a name to make durable
        return segment

    # Durability

    async def sync(self) -> int:
        """Make everything that was appended before the call durable and return the recovery point.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; the directory is offline from then on.
        """
        return await self._sync_up_to(lambda: self.log_end_offset)

    async def sync_rolled(self) -> int:
        """Make the segments before the active one durable and return the recovery point. Raises as ``sync``."""
        return await self._sync_up_to(lambda: self.segments.active.base_offset)

    async def _sync_up_to(self, current_target: Callable[[], int]) -> int:
        """Sync once no other sync of this log runs, unless that one made durable what is asked for.

        One at a time, for the system tells of a failed write once: a second sync beside the one that fails may end as if all were well.
        And what is taken to be clean may be on its way in the other, and is not durable before that has ended.
        """
        target = current_target()
        while target > self.recovery_point or self.is_directory_dirty:
            if self.home.is_offline or self._are_files_closed:
                raise self._refused()
            if self._sync_ended is None:
                return await self._sync_alone(current_target())
            await self._sync_ended.wait()
        return self.recovery_point

    async def _sync_alone(self, target: int) -> int:
        truncation_count, active = self._truncation_count, self.segments.active
        ended = self._sync_ended = trio.Event()
        try:
            await self._sync_older([segment for segment in self.segments.from_offset(self.recovery_point) if segment is not active])
            size_bytes = active.size_bytes
            if target > active.base_offset and active.synced_bytes < size_bytes and not active.is_removed:
                await active.file.sync()
                if truncation_count == self._truncation_count:
                    active.synced_bytes = max(active.synced_bytes, size_bytes)
            if active is not self.segments.active:
                await self._sync_older([active])  # it rolled meanwhile, and recovery looks at no segment below the recovery point
        except OSError as error:
            raise self._answer_to_sync(error) from error
        finally:
            self._sync_ended = None
            ended.set()
        if truncation_count == self._truncation_count:
            self.recovery_point = max(self.recovery_point, target)
            self.synced_ms = self.clock.monotonic_ms()
        return self.recovery_point

    async def _sync_older(self, segments: list[Segment]) -> None:
        """Make durable in the pool what stands before the active segment: older ones with indexes, snapshots, leader epochs, names."""
        if not segments and not self.is_directory_dirty and not self.leader_epochs.is_dirty:
            return
        epochs, self.is_directory_dirty = self.leader_epochs.take_changes(), False

        def sync() -> None:
            for segment in segments:
                segment.sync()
            self.producer_snapshots.sync()
            if epochs is not None:
                self.home.replace_file(self.files, self.leader_epochs.path, epochs)
            sync_topic_id(self.files, self.directory)
            self.files.sync_directory(self.directory)
            self.files.sync_directory(self.directory.parent)

        is_synced = False
        try:
            await self.files.run_in_pool(sync)
            is_synced = True
        finally:
            if not is_synced:  # it failed, or nobody waits any more to see how it ends
                self.is_directory_dirty = self.leader_epochs.is_dirty = True

    def _answer_to_sync(self, error: OSError) -> KafkaError:
        answer = self.home.answer_to_sync(error)
        if self.home.is_offline:
            note_failed_sync(self.files, self.directory)
        return answer

    # Cutting

    def advance_log_start_offset(self, offset: int) -> bool:
        """Hide records below ``offset`` (DeleteRecords); retention deletes the segments. Says whether it moved.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, the log ends before.
        """
        if offset > self.log_end_offset:
            text = f"{self.topic_partition} ends at {self.log_end_offset}; its start cannot move to {offset}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        return True

    def apply_retention(self, now_ms: int, high_watermark: int) -> RetentionOutcome:
        """Delete the oldest segments that age, size or the log start offset no longer keep.

        None goes that has records at or above ``high_watermark``.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        self._check_readable()
        try:
            count = count_deletable(self, now_ms, high_watermark)
            if count == 0:
                return RetentionOutcome(0, 0, self.log_start_offset)
            if count == len(self.segments):
                self._roll(self.log_end_offset, now_ms)
            doomed = list(self.segments)[:count]
            self.advance_log_start_offset(self.segments[count].base_offset)
            self.segments.replace(list(self.segments)[count:])
            size_bytes = sum(segment.size_bytes for segment in doomed)
            self._set_aside(doomed)
            self.producer_snapshots.remove_needless(segment.base_offset for segment in self.segments)
        except OSError as error:
            raise self.home.answer_to(error) from error
        return RetentionOutcome(count, size_bytes, self.log_start_offset)

    def _set_aside(self, segments: list[Segment]) -> None:
        paths = [path for segment in segments for path in segment.set_aside()]
        self.removals.schedule(paths, self.clock.monotonic_ms() + self.config.file_delete_delay_ms)

    def truncate_to(self, offset: int) -> bool:
        """Cut everything at or above ``offset``; a batch that holds it goes whole. Says whether something was cut.

        An offset below the log's start empties it, and the log begins there. The cut is durable on return, later segments first, so that
        nothing that is appended after it can ever stand beside what was cut.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if offset >= self.log_end_offset:
            return False
        self._check_readable()
        self._truncation_count += 1
        self._clean_end_offset = None
        try:
            self.cleaned_offset = None if self.cleaned_offset is None else min(self.cleaned_offset, offset)
            if self.recovery_point > offset:
                self.recovery_point = offset
                self.home.save_recovery_points()
            self.producer_snapshots.remove_above(offset)
            self._truncate_segments(offset)
        except OSError as error:
            raise self.home.answer_to(error) from error
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.leader_epochs.truncate_from_end(offset)
        log_reader.reload_producers(self.producer_state, self.producer_snapshots, self.segments, self.log_start_offset, offset)
        return True

    def _truncate_segments(self, offset: int) -> None:
        keep = self.segments.index_of(offset) + 1
        kept, doomed = list(self.segments)[:keep], list(self.segments)[keep:]
        self._set_aside(doomed)
        if not kept:
            kept.append(Segment(self.files, self.directory, offset, self.config, created_ms=self.clock.wall_ms()))
        self.files.sync_directory(self.directory)
        self.segments.replace(kept)
        place = kept[-1].locate(offset)
        if place is not None:
            kept[-1].truncate_to_position(place.position)

    # Ending

    def reconfigure(self, config: LogConfig) -> None:
        """Go by ``config`` from now on."""
        self.config = config

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that wrote longer ago than ``producer.id.expiration.ms``."""
        return self.producer_state.expire(now_ms)

    def unload_idle(self) -> int:
        """Give back the descriptors and indexes of segments that nobody used since the last call; returns how many were open."""
        return sum(segment.maybe_unload() for segment in self.segments)

    async def close(self) -> None:
        """Make the log durable, write what lets the next start read nothing, and close the files.

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
            await self.files.run_in_pool(self._write_for_next_start)
        except OSError as error:
            raise self._answer_to_sync(error) from error
        finally:
            self.close_files()

    @property
    def has_changes(self) -> bool:
        """Whether closing has anything to write: what changed since the log was opened after a clean stop."""
        return self._clean_end_offset != self.log_end_offset or self.leader_epochs.is_dirty

    def _write_for_next_start(self) -> None:
        self.segments.active.finish_indexes()
        self.segments.active.sync_indexes()
        self.leader_epochs.maybe_write()
        if self.log_end_offset > 0:
            self.producer_snapshots.take(self.log_end_offset, self.producer_state)
            self.producer_snapshots.remove_needless(segment.base_offset for segment in self.segments)
        self.producer_snapshots.sync()

    def close_files(self) -> None:
        """Close every descriptor and write nothing; for logs that were deleted, and for directories that failed."""
        self.is_closed = self._are_files_closed = True
        for segment in self.segments:
            segment.close_file()
