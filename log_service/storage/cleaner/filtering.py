"""Filter one batch in a pass. All, some or none of its records are retained.

The rules are Kafka's:

- A record is removed if a later record of its key is known, if it has no key, or if its transaction
  was aborted.
- A tombstone that is the latest record of its key is retained until the delete horizon of its
  batch. The first pass that finds the tombstone sets this horizon to ``delete.retention.ms`` later
  (KIP-534).
- A transaction's marker is retained while a batch of its transaction exists (``transactions``).
  When the last one is gone, the marker gets a delete horizon and is removed at that time. Other
  control records are retained.
- A batch whose records cannot be read is retained unchanged. Its keys are unknown, and a later
  version may be able to read it. So later tombstones are retained too, whatever their horizon. The
  batch may hold older values of their keys, which would reappear without the tombstones.
- A batch without records is retained as a header if it holds the last sequence of an active
  producer, or the last offset of the pass.

This module does not know files and segments.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from log_service.common.errors import KafkaError
from log_service.common.types import Buffer
from log_service.records.batch import BatchHeader, plain_records
from log_service.records.control import ControlType, parse_control_key
from log_service.records.outline import Outline, outline_records
from log_service.records.rewrite import empty_batch, retain_records
from log_service.storage.cleaner.offset_map import OffsetMap
from log_service.storage.cleaner.transactions import PassTransactions


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWrite:
    """The epoch and the last offset of an active producer's last write.

    ``last_offset`` is the last offset of its last batch of records, or None if a marker followed.
    """

    producer_epoch: int
    last_offset: int | None


@dataclass(slots=True)
class FilterCounts:
    """The numbers of records that a filter has processed so far."""

    records_read: int = 0
    records_kept: int = 0
    tombstones_kept: int = 0
    tombstones_removed: int = 0
    keyless_removed: int = 0


@dataclass(slots=True, kw_only=True)
class BatchFilter:
    """Decides which records of each batch are retained in one compaction pass.

    ``end_offset`` is the first offset that no pass may clean now. ``on_unreadable`` is called with
    each batch whose records cannot be read, and the error.
    """

    offsets: OffsetMap
    now_ms: int
    delete_retention_ms: int
    end_offset: int
    last_writes: Mapping[int, LastWrite]
    on_unreadable: Callable[[BatchHeader, KafkaError], None]
    transactions: PassTransactions = field(default_factory=PassTransactions)
    counts: FilterCounts = field(default_factory=FilterCounts)
    has_unreadable: bool = False
    """Whether an earlier batch has unknown keys. Batches arrive in the order of their offsets."""

    def apply(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """Return the replacement of a batch, or None if it is removed.

        The replacement may be the batch itself.
        """
        if not header.is_control:
            self.transactions.note_batch(header)
        if header.record_count == 0:
            return batch if self._is_header_needed(header) else None
        self.counts.records_read += header.record_count
        if self.transactions.is_aborted(header):
            return empty_batch(header) if self._is_header_needed(header) else None
        try:
            _, plain = plain_records(batch)
            outline = outline_records(header, plain)
            control_type = parse_control_key(outline.keys[0]) if header.is_control else None
        except KafkaError as error:
            self._note_unreadable(header, error)
            return batch
        kept: Sequence[int]
        if header.is_control:
            kept, is_horizon_due = self._marker(header, control_type)
        else:
            kept = self._retained(header, outline)
            is_horizon_due = bool(outline.tombstones) and not set(outline.tombstones).isdisjoint(
                kept
            )
        if not kept:
            return empty_batch(header) if self._is_header_needed(header) else None
        self.counts.records_kept += len(kept)
        is_horizon_set = is_horizon_due and header.delete_horizon_ms is None
        if len(kept) == header.record_count and not is_horizon_set:
            return batch
        horizon_ms = self.now_ms + self.delete_retention_ms if is_horizon_set else None
        return retain_records(header, plain, outline, kept, delete_horizon_ms=horizon_ms)

    def _note_unreadable(self, header: BatchHeader, error: KafkaError) -> None:
        self.counts.records_kept += header.record_count
        if header.is_control:
            self.transactions.note_unreadable_control(header)
        else:
            self.has_unreadable = True
        self.on_unreadable(header, error)

    def _retained(self, header: BatchHeader, outline: Outline) -> Sequence[int]:
        """Return the indexes of the retained records."""
        keys, offsets, latest_offset = outline.keys, outline.offsets, self.offsets.latest_offset
        known_count = (
            len(offsets)
            if header.last_offset <= latest_offset
            else bisect_right(offsets, latest_offset)
        )
        known = keys[:known_count]  # the map does not know later records
        gone = self._superseded(known, offsets)
        if self._is_past_horizon(header) and not self.has_unreadable:
            gone.update(index for index in outline.tombstones if index < known_count)
        removed = sum(index in gone for index in outline.tombstones) if gone else 0
        self.counts.tombstones_removed += removed
        self.counts.tombstones_kept += len(outline.tombstones) - removed
        return (
            [index for index in range(len(keys)) if index not in gone] if gone else range(len(keys))
        )

    def _superseded(self, keys: list[bytes | None], offsets: list[int]) -> set[int]:
        """Return the indexes of records without a key, or with a later record of their key."""
        if None not in keys:
            return set(self.offsets.superseded(cast("list[bytes]", keys), offsets))
        keyed = [index for index, key in enumerate(keys) if key is not None]
        superseded = self.offsets.superseded(
            [key for key in keys if key is not None], [offsets[index] for index in keyed]
        )
        self.counts.keyless_removed += len(keys) - len(keyed)
        return {keyed[index] for index in superseded} | {
            index for index, key in enumerate(keys) if key is None
        }

    def _marker(
        self, header: BatchHeader, control_type: ControlType | None
    ) -> tuple[Sequence[int], bool]:
        """Return the retained indexes of a control batch, and whether it needs a delete horizon."""
        is_needless = self.transactions.note_control(header, control_type)
        if is_needless and self._is_past_horizon(header):
            return [], False
        return range(header.record_count), is_needless

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return header.delete_horizon_ms is not None and header.delete_horizon_ms <= self.now_ms

    def _is_header_needed(self, header: BatchHeader) -> bool:
        if header.next_offset == self.end_offset:
            return True
        last = self.last_writes.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.last_offset is None:
            return header.is_control and header.producer_epoch == last.producer_epoch
        return header.last_offset == last.last_offset
