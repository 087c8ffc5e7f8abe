"""The dirty part of a compacted log, its dirty ratio, and whether a pass is due.

The rules are Kafka's. The log is clean below the end offset of the last pass. The cleanable part
ends before the active segment, the high watermark, the first offset of an open transaction, and the
first segment younger than ``min.compaction.lag.ms``. It always ends at the start of a segment. The
high watermark and the open transactions together give Kafka's last stable offset. A pass is due
above ``min.cleanable.dirty.ratio``, or if a dirty record is older than ``max.compaction.lag.ms``.
This module does not know passes.
"""

from dataclasses import dataclass
from typing import Protocol

from log_service.config.views import FOREVER_MS, LogConfig
from log_service.storage.producer_state import ProducerState
from log_service.storage.segment import Segment
from log_service.storage.segments import Segments


class CompactedLog(Protocol):
    """The attributes of a log that the selection needs."""

    config: LogConfig
    segments: Segments
    log_start_offset: int
    log_end_offset: int
    cleaned_offset: int | None
    producer_state: ProducerState


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """The part of a log that a pass would clean.

    Offsets [first_dirty_offset, first_uncleanable_offset) are dirty and may be cleaned.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The dirty share of the bytes below ``first_uncleanable_offset``, 0.0 to 1.0."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0


def look_at(log: CompactedLog, now_ms: int, high_watermark: int) -> Cleanable:
    """Return the dirty part of ``log``. This may read the first batch of a segment."""
    first_dirty = log.cleaned_offset if log.cleaned_offset is not None else log.log_start_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    segments = list(log.segments)
    uncleanable = _first_uncleanable(log, segments, first_dirty, now_ms, high_watermark)
    dirty_from = min(first_dirty, uncleanable)
    dirty = [
        segment
        for segment in log.segments.from_offset(dirty_from)
        if segment.base_offset < uncleanable
    ]
    return Cleanable(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=uncleanable,
        clean_bytes=sum(
            segment.size_bytes for segment in segments if segment.base_offset < first_dirty
        ),
        cleanable_bytes=sum(segment.size_bytes for segment in dirty),
        is_overdue=_is_overdue(
            log.config, [segment for segment in dirty if segment.size_bytes], now_ms
        ),
    )


def is_due(cleanable: Cleanable, config: LogConfig) -> bool:
    """Return whether a pass should run now."""
    if cleanable.cleanable_bytes == 0:
        return False
    return cleanable.is_overdue or cleanable.dirty_ratio > config.min_cleanable_dirty_ratio


def _first_uncleanable(
    log: CompactedLog, segments: list[Segment], first_dirty: int, now_ms: int, high_watermark: int
) -> int:
    """Return the base offset of the first segment that may not be cleaned."""
    limit = min(
        log.producer_state.last_stable_offset(high_watermark), log.segments.active.base_offset
    )
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in log.segments.from_offset(first_dirty):
            if segment.base_offset >= limit:
                break
            if segment.max_timestamp > now_ms - lag_ms:
                limit = segment.base_offset
    bounded = max(first_dirty, limit)
    if bounded >= log.segments.active.base_offset:
        return log.segments.active.base_offset
    return segments[max(log.segments.index_of(bounded), 0)].base_offset


def _is_overdue(config: LogConfig, dirty: list[Segment], now_ms: int) -> bool:
    """Return whether a dirty segment began more than ``max.compaction.lag.ms`` ago."""
    lag_ms = config.max_compaction_lag_ms
    if lag_ms >= FOREVER_MS:
        return False
    return any(0 < segment.first_timestamp < now_ms - lag_ms for segment in dirty)
