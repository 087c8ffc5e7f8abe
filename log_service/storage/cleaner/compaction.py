"""One compaction pass over one log.

The pass first reads the latest offsets of the keys in the dirty part. Then it rewrites the segments
without superseded records. This file decides the order of reading and writing. ``filtering``
chooses the records and ``swap`` exchanges segments. The pass runs in the thread pool in slices of
``slice_bytes``. Between two slices other tasks run, and the log may change. A pass that finds the
log changed is aborted.

Invariants:

- A record is removed only if the log has a later record of its key below the end offset of the
  pass, or if its transaction was aborted. A record of an aborted transaction supersedes nothing.
- A batch whose records cannot be read supersedes nothing and is retained.
- Segments that a pass has exchanged stay valid if it is aborted later.
"""

import errno
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from log_service.common.errors import KafkaError
from log_service.common.types import Buffer
from log_service.records.batch import BatchHeader, parse_header, plain_records
from log_service.records.outline import outline_records
from log_service.storage.cleaner.filtering import BatchFilter, FilterCounts, LastWrite
from log_service.storage.cleaner.grouping import group_segments
from log_service.storage.cleaner.offset_map import OffsetMap
from log_service.storage.cleaner.selection import Cleanable
from log_service.storage.cleaner.swap import check_untouched, discard, exchange, new_cleaned_segment
from log_service.storage.cleaner.transactions import PassTransactions
from log_service.storage.cleaner.unreadable import UnreadableBatches
from log_service.storage.log import Log
from log_service.storage.segment import Segment

T = TypeVar("T")

Pace = Callable[[int], Awaitable[None]]
"""Called after each slice with the slice's size in bytes.

It returns when the next slice may begin.
"""

Batches = Iterator[tuple[int, BatchHeader, memoryview]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOutcome:
    """The result of a pass.

    The log is now compacted below ``end_offset``. The counts of bytes and segments cover the
    segments that the pass replaced.
    """

    end_offset: int
    bytes_before: int
    bytes_after: int
    segments_before: int
    segments_after: int
    counts: FilterCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOutcome:
    """The result of all passes over one log in sequence.

    Records and bytes are those of the rewritten segments. Ratios are 0.0 to 1.0. ``reason`` is the
    reason why no pass finished, or None. For an unchanged log, the counts are 0.
    """

    pass_count: int = 0
    segments_before: int = 0
    segments_after: int = 0
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    tombstones_kept: int = 0
    tombstones_removed: int = 0
    dirty_ratio_before: float = 0.0
    dirty_ratio_after: float = 0.0
    duration_ms: int = 0
    cleaned_offset: int = -1
    reason: str | None = None

    def after(self, done: PassOutcome, duration_ms: int) -> "CompactionOutcome":
        """Return the outcome after one more pass.

        Data that an earlier pass wrote and this pass has read again is counted once.
        """
        return replace(
            self,
            pass_count=self.pass_count + 1,
            segments_before=self.segments_before + done.segments_before - self.segments_after,
            segments_after=done.segments_after,
            records_before=self.records_before + done.counts.records_read - self.records_after,
            records_after=done.counts.records_kept,
            bytes_before=self.bytes_before + done.bytes_before - self.bytes_after,
            bytes_after=done.bytes_after,
            tombstones_kept=done.counts.tombstones_kept,
            tombstones_removed=self.tombstones_removed + done.counts.tombstones_removed,
            duration_ms=self.duration_ms + duration_ms,
            cleaned_offset=done.end_offset,
        )


class Compaction:
    """One pass over a log. ``run`` may be called only once."""

    def __init__(
        self,
        log: Log,
        cleanable: Cleanable,
        *,
        map_bytes: int,
        slice_bytes: int,
        now_ms: int,
        pace: Pace,
        unreadable: UnreadableBatches,
    ) -> None:
        self._log = log
        self._cleanable = cleanable
        self._slice_bytes = max(slice_bytes, 1)
        self._pace = pace
        self._unreadable = unreadable
        self._offsets = OffsetMap(map_bytes)
        self._transactions = PassTransactions(log.aborted_transactions.ended)
        self._filter = BatchFilter(
            offsets=self._offsets,
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            end_offset=cleanable.first_uncleanable_offset,
            last_writes=last_writes(log),
            on_unreadable=unreadable.log_skipped,
            transactions=self._transactions,
        )
        self._bytes_before = self._bytes_after = 0
        self._segments_before = self._segments_after = 0

    async def run(self) -> PassOutcome:
        """Run the pass, and return its result.

        Raises:
            PassAborted: the log changed.
            KafkaError: a batch does not match its checksum; or KAFKA_STORAGE_ERROR, the disk failed
                and its directory is offline.
            OSError: another disk error. The log is unchanged.
        """
        log, cleanable = self._log, self._cleanable
        await log.sync_rolled()
        try:
            await self._learn(cleanable.first_dirty_offset, cleanable.first_uncleanable_offset)
            end_offset = self._offsets.latest_offset + 1
            segments = [segment for segment in log.segments if segment.base_offset < end_offset]
            groups = await log.files.run_in_pool(
                lambda: group_segments(segments, cleanable.first_uncleanable_offset, log.config)
            )
            for group in groups:
                await self._clean(group)
        finally:
            await log.files.run_in_pool(self._offsets.forget)
        return PassOutcome(
            end_offset=end_offset,
            bytes_before=self._bytes_before,
            bytes_after=self._bytes_after,
            segments_before=self._segments_before,
            segments_after=self._segments_after,
            counts=self._filter.counts,
        )

    # Learning the latest offsets

    async def _learn(self, start_offset: int, end_offset: int) -> None:
        segments = [
            segment
            for segment in self._log.segments.from_offset(start_offset)
            if segment.base_offset < end_offset
        ]
        ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
        for segment, end in zip(segments, ends, strict=True):
            if not await self._learn_segment(segment, start_offset):
                return
            self._offsets.advance(end - 1)

    async def _learn_segment(self, segment: Segment, start_offset: int) -> bool:
        """Add a segment's keys from ``start_offset`` on to the offset map.

        Return whether all keys fit.
        """
        position = await self._in_pool(lambda: segment.offset_index.lookup(start_offset), [segment])
        batches = segment.batches(position)
        while True:
            before = position
            position, is_full, is_end = await self._in_pool(
                partial(self._learn_some, batches, before, start_offset), [segment]
            )
            await self._pace(position - before)
            if is_full or is_end:
                return not is_full

    def _learn_some(
        self, batches: Batches, position: int, start_offset: int
    ) -> tuple[int, bool, bool]:
        """Add the keys of one slice to the offset map.

        Return the position after the last batch, whether the map is full, and whether the segment
        ended.
        """
        target = position + self._slice_bytes
        for start, header, batch in batches:
            position = start + header.size_bytes
            if header.last_offset >= start_offset:
                has_keys = (
                    header.record_count
                    and not header.is_control
                    and not self._transactions.is_aborted(header)
                )
                if has_keys and not self._learn_batch(header, batch, start_offset):
                    return position, True, False
                self._offsets.advance(header.last_offset)
            if position >= target:
                return position, False, False
        return position, False, True

    def _learn_batch(self, header: BatchHeader, batch: memoryview, start_offset: int) -> bool:
        try:
            _, plain = plain_records(batch)
            outline = outline_records(header, plain)
        except KafkaError as error:
            self._unreadable.log_skipped(header, error)
            return True
        if header.base_offset >= start_offset and None not in outline.keys:
            return self._offsets.add(outline.keys, outline.offsets)  # type: ignore[arg-type]  # there is no None among them
        keyed = [
            (key, offset)
            for key, offset in zip(outline.keys, outline.offsets, strict=True)
            if key is not None and offset >= start_offset
        ]
        return self._offsets.add([key for key, _ in keyed], [offset for _, offset in keyed])

    # Writing

    async def _clean(self, group: list[Segment]) -> None:
        """Replace a group of adjacent segments with one segment."""
        check_untouched(self._log, group)
        self._filter.last_writes = last_writes(self._log)
        cleaned = await self._log.files.run_in_pool(
            lambda: new_cleaned_segment(self._log, group[0].base_offset)
        )
        is_exchanged = False
        try:
            for segment in group:
                await self._copy(segment, cleaned, group)
            await exchange(self._log, group, cleaned, self._transactions.take_kept())
            is_exchanged = True
        finally:
            if not is_exchanged and cleaned.tail:
                discard(cleaned)
        self._bytes_before += sum(segment.size_bytes for segment in group)
        self._bytes_after += cleaned.size_bytes
        self._segments_before += len(group)
        self._segments_after += 1

    async def _copy(self, segment: Segment, cleaned: Segment, group: list[Segment]) -> None:
        batches, position, is_end = segment.batches(0), 0, segment.size_bytes == 0
        while not is_end:
            before, written_bytes = position, cleaned.size_bytes
            position, is_end = await self._in_pool(
                partial(self._copy_some, batches, before, cleaned), group
            )
            self._note_written(cleaned.size_bytes - written_bytes)
            await self._pace(position - before)

    def _note_written(self, size_bytes: int) -> None:
        """Count written bytes, and abort the pass if the disk is nearly full.

        Appends need the remaining space more than the pass does.
        """
        home = self._log.home
        if home.note_written(size_bytes):
            raise OSError(errno.ENOSPC, home.append_refusal)

    def _copy_some(self, batches: Batches, position: int, cleaned: Segment) -> tuple[int, bool]:
        """Filter batches and write the retained ones.

        Return the position after the last batch, and whether the segment ended.
        """
        target, is_end = position + self._slice_bytes, True
        headers: list[BatchHeader] = []
        buffers: list[Buffer] = []
        for start, header, batch in batches:
            position = start + header.size_bytes
            kept = self._filter.apply(header, batch)
            if kept is not None:
                headers.append(header if kept is batch else parse_header(kept))
                buffers.append(kept)
            if position >= target:
                is_end = False
                break
        if buffers:
            end = cleaned.append(buffers)
            for header in headers:
                cleaned.note_batch(
                    end, header.base_offset, header.last_offset, header.max_timestamp
                )
                end += header.size_bytes
        return position, is_end

    async def _in_pool(self, function: Callable[[], T], segments: list[Segment]) -> T:
        """Run a slice over ``segments`` in the thread pool, and return its result.

        If the log no longer has all of these segments, PassAborted is raised instead of another
        error.
        """
        check_untouched(self._log, segments)
        try:
            return await self._log.files.run_in_pool(function)
        except (KafkaError, OSError):
            check_untouched(self._log, segments)
            raise


def last_writes(log: Log) -> Mapping[int, LastWrite]:
    """Return the last write of each producer whose state the log holds."""
    return {
        entry.producer_id: LastWrite(
            producer_epoch=entry.epoch,
            last_offset=entry.batches[-1].last_offset if entry.batches else None,
        )
        for entry in log.producer_state
    }
