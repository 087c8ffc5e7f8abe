"""Cleaner tests write a compacted log and run passes over it.

A model keeps a history by Kafka's rules.
"""

from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import trio

from log_service.client.consumer.aborted import AbortedFilter
from log_service.protocol.messages.fetch import AbortedTransaction as ToldTransaction
from log_service.records.batch import BatchHeader, iterate_headers, iterate_records
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.control import ControlType, build_end_transaction_marker
from log_service.records.record import NewRecord
from log_service.storage.aborted_transactions import AbortedTransaction
from log_service.storage.cleaner.compaction import Compaction, PassOutcome
from log_service.storage.cleaner.selection import look_at
from log_service.storage.cleaner.unreadable import UnreadableBatches
from tests.unit.storage.context import PARTITION, LogContext

Row = tuple[int, bytes | None, bytes | None]
"""(offset, key, value)."""
Pair = tuple[bytes | None, bytes | None]
"""(key, value)."""


async def no_pause(_size_bytes: int) -> None:
    await trio.lowlevel.checkpoint()


class CompactedLog(LogContext):
    """A log whose topic is compacted."""

    def __init__(self, *arguments: Any, **config: Any) -> None:
        super().__init__(
            *arguments,
            **{"is_compacted": True, "is_deleted": False, "file_delete_delay_ms": 0, **config},
        )
        self.unreadable = UnreadableBatches(topic_partition=PARTITION)

    def write(self, *records: Pair, codec: Codec = Codec.NONE, **options: Any) -> None:
        """Append one batch of (key, value) records."""
        new = [NewRecord(self.clock.now_ms, key, value) for key, value in records]
        self.append(bytearray(build_batch(new, codec=codec, **options)))

    def write_segment(self, *records: Pair, **options: Any) -> None:
        """Append one batch and begin a new segment after it."""
        self.write(*records, **options)
        self.log.roll()

    def clean(
        self,
        *,
        map_bytes: int = 1 << 20,
        slice_bytes: int = 1 << 20,
        high_watermark: int | None = None,
    ) -> PassOutcome:
        """Run one pass and note how far it came, as the cleaner does."""
        return trio.run(self.clean_async, map_bytes, slice_bytes, high_watermark)

    async def clean_async(
        self,
        map_bytes: int = 1 << 20,
        slice_bytes: int = 1 << 20,
        high_watermark: int | None = None,
    ) -> PassOutcome:
        log = self.log
        cleanable = look_at(
            log, self.clock.now_ms, log.log_end_offset if high_watermark is None else high_watermark
        )
        bounds = {"map_bytes": map_bytes, "slice_bytes": slice_bytes}
        compaction = Compaction(
            log,
            cleanable,
            **bounds,
            now_ms=self.clock.now_ms,
            pace=no_pause,
            unreadable=self.unreadable,
        )
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

    # What Apache Kafka left

    def write_in_transaction(
        self, producer_id: int, *records: Pair, sequence: int = 0, codec: Codec = Codec.NONE
    ) -> None:
        """Append one batch of a transaction, as it is in Kafka's files; it is open from its first
        batch on.
        """
        offset, new = (
            self.log.log_end_offset,
            [NewRecord(self.clock.now_ms, key, value) for key, value in records],
        )
        header: dict[str, Any] = {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": sequence,
            "base_offset": offset,
        }
        self.log.append_as_follower(build_batch(new, codec=codec, is_transactional=True, **header))

    def end_transaction(self, producer_id: int, marker: ControlType) -> None:
        """Append a marker, and make durable what the log notes of it."""
        header = {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "coordinator_epoch": 0,
            "base_offset": self.log.log_end_offset,
        }
        self.log.append_as_follower(
            build_end_transaction_marker(marker, timestamp_ms=self.clock.now_ms, **header)
        )
        if marker is ControlType.ABORT:
            self.log.segments.active.sync_indexes()
            self.files.sync_directory(self.directory)

    @property
    def open_transactions(self) -> dict[int, int]:
        """First offsets by producer."""
        entries = [
            entry for entry in self.log.producer_state if entry.current_txn_first_offset >= 0
        ]
        return {entry.producer_id: entry.current_txn_first_offset for entry in entries}

    def committed_rows(self, *, max_bytes: int = 1 << 20) -> list[Row]:
        """Return what a client gets that reads committed records from the beginning."""
        return SlowReader(self).read_on(max_bytes=max_bytes)


class SlowReader:
    """A client that reads committed records, from the beginning, with as many fetches as it likes."""

    def __init__(self, log: CompactedLog) -> None:
        self._log = log
        self._offset = log.log.log_start_offset
        self._aborted = AbortedFilter()

    def read_on(self, *, max_bytes: int = 1, up_to: int | None = None) -> list[Row]:
        """Return the rows of the batches below ``up_to``, or of all, up to the first open
        transaction.
        """
        rows: list[Row] = []
        last_stable_offset = self._log.log.producer_state.last_stable_offset(
            self._log.log.log_end_offset
        )
        end_offset = last_stable_offset if up_to is None else up_to
        while self._offset < end_offset:
            found = self._log.log.read(
                self._offset,
                max_bytes=max_bytes,
                upper_offset=last_stable_offset,
                is_one_batch_guaranteed=True,
            )
            if found.file_slice is None:
                return rows
            told = self._log.log.aborted_in(self._offset, found)
            self._aborted.add(
                [
                    ToldTransaction(producer_id=producer_id, first_offset=first)
                    for producer_id, first in told
                ]
            )
            content = found.file_slice.read()
            found.file_slice.release()
            for position, header in iterate_headers(content, is_torn_tail_ok=True):
                flags = {
                    "is_transactional": header.is_transactional,
                    "is_control": header.is_control,
                }
                if self._aborted.is_visible(header.last_offset, header.producer_id, **flags):
                    rows += [
                        (record.offset, record.key, record.value)
                        for record in iterate_records(content, position)
                    ]
                self._offset = header.next_offset
        return rows


@dataclass(slots=True, eq=False)
class ModelTransaction:
    """A transaction; ``marker`` is None while it is open."""

    marker: ControlType | None = None


@dataclass(slots=True, eq=False)
class ModelBatch:
    """A batch as the rules see it; a marker has one row."""

    rows: list[Row]
    next_offset: int
    producer_id: int = -1
    transaction: ModelTransaction | None = None
    entry: AbortedTransaction | None = None
    """What the marker of an aborted transaction has in the index."""
    is_marker: bool = False
    is_there: bool = True
    horizon_ms: int | None = None

    @property
    def is_aborted(self) -> bool:
        return self.transaction is not None and self.transaction.marker is ControlType.ABORT

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction.marker is None

    @property
    def is_committed(self) -> bool:
        return not self.is_marker and (
            self.transaction is None or self.transaction.marker is ControlType.COMMIT
        )


@dataclass(slots=True)
class Model:
    """The content of a compacted log by Kafka's rules, whatever the files are."""

    delete_retention_ms: int
    batches: list[ModelBatch] = field(default_factory=list)

    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch.rows]

    def committed_rows(self) -> list[Row]:
        stable = takewhile(lambda batch: not batch.is_open, self.batches)
        return [row for batch in stable if batch.is_committed for row in batch.rows]

    def entries(self) -> list[AbortedTransaction]:
        return [batch.entry for batch in self.batches if batch.entry is not None]

    def clean(
        self, end_offset: int, touched_end: int, uncleanable_offset: int, now_ms: int
    ) -> None:
        """A pass knows every key below ``end_offset`` and reads the batches below ``touched_end``."""
        values = [batch for batch in self.batches if not batch.is_marker and not batch.is_aborted]
        latest = {
            key: offset
            for batch in values
            for offset, key, _ in batch.rows
            if key is not None and offset < end_offset
        }
        newest = {batch.producer_id: batch for batch in self.batches if not batch.is_marker}
        met: set[ModelTransaction] = set()
        for batch in self.batches:
            if batch.next_offset > touched_end or not batch.is_there:
                continue
            is_expired = batch.horizon_ms is not None and batch.horizon_ms <= now_ms
            if batch.is_marker:
                self._clean_marker(batch, met, now_ms, is_expired=is_expired)
                continue
            if batch.transaction is not None:
                met.add(batch.transaction)
            kept = [] if batch.is_aborted else batch.rows
            batch.rows = [
                row for row in kept if self._stays(row, latest, end_offset, is_expired=is_expired)
            ]
            is_newest = batch.producer_id >= 0 and newest[batch.producer_id] is batch
            batch.is_there = (
                bool(batch.rows) or is_newest or batch.next_offset == uncleanable_offset
            )
            if batch.horizon_ms is None and any(value is None for _, _, value in batch.rows):
                batch.horizon_ms = now_ms + self.delete_retention_ms

    def _clean_marker(
        self, batch: ModelBatch, met: set[ModelTransaction], now_ms: int, *, is_expired: bool
    ) -> None:
        assert batch.transaction is not None
        if batch.transaction in met:
            return
        batch.entry = None
        if is_expired:
            batch.rows, batch.is_there = [], False
        elif batch.horizon_ms is None:
            batch.horizon_ms = now_ms + self.delete_retention_ms

    def _stays(
        self, row: Row, latest: dict[bytes, int], end_offset: int, *, is_expired: bool
    ) -> bool:
        offset, key, value = row
        if offset >= end_offset:
            return True
        return key is not None and latest[key] == offset and not (value is None and is_expired)
