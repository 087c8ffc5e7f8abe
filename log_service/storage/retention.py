"""Selection of a log's oldest segments for deletion, by age, by size or by the log start offset.

This module only returns a count. The log deletes the segments.

Invariants:

- A segment is deleted only together with every older one.
- A segment that extends past the high watermark is not deleted.
- An empty active segment is not deleted.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from log_service.config.views import LogConfig
from log_service.storage.segment import Segment
from log_service.storage.segments import Segments


class RetentionOutcome(NamedTuple):
    """The result of a retention pass over one log, with its new log start offset."""

    segments_deleted: int
    bytes_deleted: int
    log_start_offset: int


class RetainedLog(Protocol):
    """The attributes of a log that retention needs."""

    config: LogConfig
    segments: Segments
    log_start_offset: int
    log_end_offset: int

    def is_waiting_for(self, segment: Segment) -> bool:
        """Return whether a segment's age is not known yet."""


IsDue = Callable[[Segment, int], bool]
"""Returns whether a segment may be deleted. Its arguments are the segment and its end offset."""


def count_deletable(log: RetainedLog, now_ms: int, high_watermark: int) -> int:
    """Return how many of the oldest segments are due for deletion."""
    rules: list[IsDue] = [lambda _segment, next_offset: next_offset <= log.log_start_offset]
    if log.config.is_deleted:
        if log.config.retention_ms >= 0:
            rules.append(_older_than(now_ms - log.config.retention_ms, log))
        if log.config.retention_bytes >= 0:
            rules.append(_over_size(log))
    return max(_count_while(log, rule, high_watermark) for rule in rules)


def _older_than(limit_ms: int, log: RetainedLog) -> IsDue:
    """Return the rule that deletes segments whose largest timestamp is too old.

    If the records of a segment have no timestamps, its file's modification time counts.
    """

    def is_due(segment: Segment, _next_offset: int) -> bool:
        if log.is_waiting_for(segment):
            return False
        timestamp = segment.max_timestamp
        return (
            timestamp if timestamp >= 0 else segment.files.modified_ms(segment.path())
        ) < limit_ms

    return is_due


def _over_size(log: RetainedLog) -> IsDue:
    """Return the rule that deletes segments while the rest has at least ``retention.bytes``."""
    excess_bytes = log.segments.size_bytes - log.config.retention_bytes

    def is_due(segment: Segment, _next_offset: int) -> bool:
        nonlocal excess_bytes
        excess_bytes -= segment.size_bytes
        return excess_bytes >= 0

    return is_due


def _count_while(log: RetainedLog, is_due: IsDue, high_watermark: int) -> int:
    segments = list(log.segments)
    for index, segment in enumerate(segments):
        is_active = index + 1 == len(segments)
        next_offset = log.log_end_offset if is_active else segments[index + 1].base_offset
        if (
            next_offset > high_watermark
            or (is_active and segment.size_bytes == 0)
            or not is_due(segment, next_offset)
        ):
            return index
    return len(segments)
