"""What cleaner tests are written with: a compacted log, passes over it, and what Kafka's rules leave of a history."""

from dataclasses import dataclass, field
from typing import Any

import trio

from log_service.records.batch import BatchHeader, iterate_headers, iterate_records
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.record import NewRecord
from log_service.storage.cleaner.compaction import Compaction, PassOutcome
from log_service.storage.cleaner.selection import look_at
from tests.unit.storage.context import LogContext

Row = tuple[int, bytes | None, bytes | None]
"""(offset, key, value)."""


async def no_pause(_size_bytes: int) -> None:
    await trio.lowlevel.checkpoint()


class CompactedLog(LogContext):
    """A log whose topic is compacted."""

    def __init__(self, *arguments: Any, **config: Any) -> None:
        super().__init__(*arguments, **{"is_compacted": True, "is_deleted": False, "file_delete_delay_ms": 0, **config})

    def write(self, *records: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE, **options: Any) -> None:
        """Append one batch of (key, value) records."""
        new = [NewRecord(self.clock.now_ms, key, value) for key, value in records]
        self.append(bytearray(build_batch(new, codec=codec, **options)))

    def write_segment(self, *records: tuple[bytes | None, bytes | None], **options: Any) -> None:
        """Append one batch and begin a new segment after it."""
        self.write(*records, **options)
        self.log.roll()

    def clean(self, *, map_bytes: int = 1 << 20, slice_bytes: int = 1 << 20, high_watermark: int | None = None) -> PassOutcome:
        """Run one pass and note how far it came, as the cleaner does."""
        return trio.run(self.clean_async, map_bytes, slice_bytes, high_watermark)

    async def clean_async(self, map_bytes: int = 1 << 20, slice_bytes: int = 1 << 20, high_watermark: int | None = None) -> PassOutcome:
        log = self.log
        cleanable = look_at(log, self.clock.now_ms, log.log_end_offset if high_watermark is None else high_watermark)
        compaction = Compaction(log, cleanable, map_bytes=map_bytes, slice_bytes=slice_bytes, now_ms=self.clock.now_ms, pace=no_pause)
        outcome = await compaction.run()
        log.cleaned_offset = outcome.end_offset
        return outcome

    def rows(self) -> list[Row]:
        return [
            (record.offset, record.key, record.value)
            for chunk in self.log.read_batches(0)
            for position, _ in iterate_headers(chunk)
            for record in iterate_records(chunk, position)
        ]

    def headers(self) -> list[BatchHeader]:
        return [header for segment in self.log.segments for _, header in segment.headers(0)]


@dataclass(slots=True)
class ModelBatch:
    """A batch as the rules see it."""

    rows: list[Row]
    next_offset: int
    producer_id: int = -1
    horizon_ms: int | None = None


@dataclass(slots=True)
class Model:
    """What is in a compacted log by Kafka's rules, whatever the files are."""

    delete_retention_ms: int
    batches: list[ModelBatch] = field(default_factory=list)

    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch.rows]

    def clean(self, end_offset: int, touched_end: int, now_ms: int) -> None:
        """A pass knows every key below ``end_offset`` and reads the batches below ``touched_end``."""
        latest: dict[bytes | None, int] = {key: offset for offset, key, _ in self.rows() if key is not None and offset < end_offset}
        for batch in self.batches:
            if batch.next_offset > touched_end:
                continue
            is_expired = batch.horizon_ms is not None and batch.horizon_ms <= now_ms
            batch.rows = [row for row in batch.rows if row[0] >= end_offset or self._stays(row, latest, is_expired=is_expired)]
            if batch.horizon_ms is None and any(value is None for _, _, value in batch.rows):
                batch.horizon_ms = now_ms + self.delete_retention_ms

    def _stays(self, row: Row, latest: dict[bytes | None, int], *, is_expired: bool) -> bool:
        offset, key, value = row
        return key is not None and latest[key] == offset and not (value is None and is_expired)
