"""Reads of a log by offset, by timestamp and by range.

This module decides which bytes a read returns. It changes nothing and does not know clients. No
function checks the bounds of a read, because the log has already checked them.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from log_service.common.env import FileSlice
from log_service.records.batch import CONTROL_FLAG, BatchHeader, CorruptBatch, iterate_headers
from log_service.records.control import read_marker
from log_service.records.times import first_record_at, latest_record
from log_service.storage.producer_snapshots import ProducerSnapshots
from log_service.storage.producer_state import ProducerState
from log_service.storage.segment import BatchPlace, Segment
from log_service.storage.segments import Segments
from log_service.storage.unstable_transactions import EndedTransaction

_new = tuple.__new__  # faster than a named tuple's own __new__, which is a Python function


class LogSlice(NamedTuple):
    """A leased range: ``size_bytes`` from ``position`` of the segment at ``segment_base_offset``.

    ``file_slice`` is None if there is nothing to send.
    """

    file_slice: FileSlice | None
    position: int
    size_bytes: int
    segment_base_offset: int


class TimestampOffset(NamedTuple):
    """The offset and timestamp of a found record, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


NOTHING = LogSlice(None, 0, 0, -1)


def read(
    segments: Segments,
    start_offset: int,
    *,
    max_bytes: int,
    upper_offset: int | None,
    is_one_batch_guaranteed: bool,
) -> LogSlice:
    """Return a leased range of a segment file, from the batch that holds ``start_offset`` on.

    The caller releases ``file_slice``. ``upper_offset`` is None for the log's end.
    ``ReadableLog.read`` explains the other arguments.
    """
    segment = segments.active
    if start_offset >= segment.base_offset:
        place, next_segment = segment.locate(start_offset), None
    else:
        place, segment, next_segment = _locate_older(segments, start_offset)
    if place is None:
        return NOTHING
    position, batch_bytes = place
    if batch_bytes > max_bytes:
        if not is_one_batch_guaranteed:
            return NOTHING
        max_bytes = batch_bytes
    end = segment.size_bytes
    if end - position > max_bytes:
        end = position + max_bytes
    if upper_offset is not None and (
        next_segment is None or upper_offset < next_segment.base_offset
    ):
        upper_place = segment.locate(upper_offset)
        if upper_place is not None and upper_place.position < end:
            end = upper_place.position
    if end <= position:
        return NOTHING
    size_bytes = end - position
    return _new(
        LogSlice, (segment.slice(position, size_bytes), position, size_bytes, segment.base_offset)
    )


def end_offset(segments: Segments, found: LogSlice) -> int:
    """Return the offset after the last batch of a leased range, even if the batch is incomplete."""
    segment = next(segments.from_offset(found.segment_base_offset))
    end = found.segment_base_offset
    for position, header in segment.headers(found.position):
        if position >= found.position + found.size_bytes:
            break
        end = header.next_offset
    return end


def _locate_older(
    segments: Segments, offset: int
) -> tuple[BatchPlace | None, Segment, Segment | None]:
    """Find the first batch whose last offset is at or above ``offset``, in any segment.

    Return its place, its segment and the next segment.
    """
    following = segments.from_offset(offset)
    segment = next(following)
    while (place := segment.locate(offset)) is None and (
        next_segment := next(following, None)
    ) is not None:
        segment = next_segment
    return place, segment, next(following, None)


def read_batches(
    segments: Segments, start_offset: int, end_offset: int, chunk_bytes: int, *, upper_offset: int
) -> Iterator[bytes]:
    """Yield chunks of whole batches until ``end_offset`` is reached. Each has at least one batch.

    The log ends at ``upper_offset``. The last batch may extend beyond ``end_offset``.
    """
    offset = start_offset
    while offset < end_offset:
        leased = read(
            segments,
            offset,
            max_bytes=chunk_bytes,
            upper_offset=upper_offset,
            is_one_batch_guaranteed=True,
        )
        if leased.file_slice is None:
            return
        try:
            content = leased.file_slice.read()
        finally:
            leased.file_slice.release()
        end, next_offset = 0, offset
        for position, header in iterate_headers(content, is_torn_tail_ok=True):
            end, next_offset = position + header.size_bytes, header.next_offset
            if next_offset >= end_offset:
                break
        yield content if end == len(content) else content[:end]
        offset = next_offset


def offset_for_timestamp(
    segments: Segments, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """Return the first record from ``start_offset`` on that is not older than ``timestamp``."""
    for segment in segments.from_offset(start_offset):
        if segment.max_timestamp < timestamp:
            continue
        floor_offset = max(segment.time_index.lookup(timestamp), start_offset)
        for position, header in segment.headers(segment.offset_index.lookup(floor_offset)):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                found = _first_record(segment, position, header, timestamp, start_offset)
                if found is not None:
                    return found
    return None


def offset_of_max_timestamp(segments: Segments) -> TimestampOffset | None:
    """Return the first record with the largest timestamp of all segments.

    The record may lie below the log start. Its timestamp may be -1, which means no timestamp.
    """
    timestamp, segment = max(
        ((segment.max_timestamp, segment) for segment in segments), key=lambda pair: pair[0]
    )
    for position, header in segment.headers(
        segment.offset_index.lookup(segment.max_timestamp_offset)
    ):
        if header.max_timestamp >= timestamp:
            return _latest_record(segment, position, header)
    return None


def _latest_record(segment: Segment, position: int, header: BatchHeader) -> TimestampOffset | None:
    """Open one batch and return its first record with the largest timestamp.

    The timestamp in the batch header is not used.
    """
    found = latest_record(segment.batch(position, header.size_bytes))
    return None if found is None else TimestampOffset(*found, header.partition_leader_epoch)


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """Open one batch and return its first record that satisfies both bounds."""
    found = first_record_at(segment.batch(position, header.size_bytes), timestamp, start_offset)
    return None if found is None else TimestampOffset(*found, header.partition_leader_epoch)


def has_holes(segment: Segment) -> bool:
    """Return whether a segment lacks offsets between or inside its batches, as after compaction."""
    expected_offset = segment.base_offset
    with suppress(CorruptBatch):
        for _, header in segment.headers(0):
            if (
                header.base_offset != expected_offset
                or header.record_count != header.last_offset_delta + 1
            ):
                return True
            expected_offset = header.next_offset
    return False


def is_segment_missing(segments: Segments, offset: int) -> bool:
    """Return whether a segment is missing at ``offset``, which lies between two segments.

    No segment is missing if one of the two has the holes of compaction.
    """
    index = segments.index_of(offset)
    return not any(has_holes(segments[each]) for each in (index, index + 1))


def reload_producers(
    producers: ProducerState,
    snapshots: ProducerSnapshots,
    segments: Segments,
    log_start_offset: int,
    *,
    end_offset: int,
    from_offset: int,
) -> list[EndedTransaction]:
    """Set ``producers`` to their state at ``end_offset``, and return aborted transactions.

    The state comes from the newest snapshot up to ``from_offset``, and from later batch headers and
    markers. The returned transactions were aborted at ``from_offset`` or later.

    Raises:
        KafkaError: a marker is damaged.
    """
    snapshot = snapshots.latest(from_offset)
    offset, entries = snapshot if snapshot is not None else (log_start_offset, [])
    producers.reset(entries)
    aborted: list[EndedTransaction] = []
    for segment in segments.from_offset(offset):
        if segment.size_bytes == 0 or offset >= end_offset:
            continue
        place = segment.locate(offset)
        if place is None:
            continue
        for position, header in segment.headers(place.position):
            if header.producer_id < 0 or header.base_offset < offset:
                continue
            marker = (
                read_marker(segment.batch(position, header.size_bytes))
                if header.attributes & CONTROL_FLAG
                else None
            )
            if marker is None:
                producers.update(header, header.base_offset)
                continue
            ended = producers.end_transaction(header, marker.coordinator_epoch)
            if ended is not None and marker.is_abort and ended.last_offset >= from_offset:
                aborted.append(ended)
    return aborted
