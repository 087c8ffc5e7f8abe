"""What compaction did to one log, in numbers.

Decides nothing. Records and bytes are those of the segments that were written anew; a log that was left as it is has none.
"""

from dataclasses import dataclass, replace

from log_service.storage.cleaner.compaction import PassOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOutcome:
    """The figures of all passes of one call. Ratios are 0.0 to 1.0; ``reason`` says why nothing could be done, None where it could."""

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
        """Return the figures with one more pass; what an earlier one wrote and this one read again is counted once."""
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
