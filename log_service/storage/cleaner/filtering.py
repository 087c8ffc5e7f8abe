"""What becomes of one batch in a pass: kept as it is, with fewer records, as a header alone, or not at all.

Decides Kafka's rules:

* a record goes where a later record of its key is known, where it has no key, or where its transaction was aborted;
* a tombstone that is the latest of its key stays until the delete horizon of its batch has come; the first pass that meets it sets that
  horizon, ``delete.retention.ms`` from then (KIP-534);
* a transaction's marker stays while a batch of its transaction does (``transactions``); then it gets a delete horizon and goes when that
  has come. Other control records stay;
* a batch whose records cannot be read stays as it is: its keys are unknown, and a later reader may know more. So tombstones behind
  it stay, too, whatever their horizon: it may hold older values of their keys, which would be the latest ones for such a reader;
* a batch without records stays as a header where it holds the last sequence of an active producer, or the last offset of the pass.

Knows nothing of files and segments.
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
    """What an active producer wrote last: its epoch, and the last offset of its last batch of records, None where a marker came since."""

    producer_epoch: int
    last_offset: int | None


@dataclass(slots=True)
class FilterCounts:
    """What a filter has met and let through so far."""

    records_read: int = 0
    records_kept: int = 0
    tombstones_kept: int = 0
    tombstones_removed: int = 0
    keyless_removed: int = 0


@dataclass(slots=True, kw_only=True)
class BatchFilter:
    """The filter of one pass. ``end_offset`` is the first offset that no pass may touch now.

    ``on_unreadable`` is called with each batch whose records cannot be read, and why.
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
    """Whether a batch whose keys are unknown came before: batches come in the order of their offsets."""

    def apply(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """Return what to write in place of a batch, the batch itself where it stays as it is, None where nothing stays of it."""
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
            is_horizon_due = bool(outline.tombstones) and not set(outline.tombstones).isdisjoint(kept)
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
        """Return the indexes of the records that stay."""
        keys, offsets, latest_offset = outline.keys, outline.offsets, self.offsets.latest_offset
        known_count = len(offsets) if header.last_offset <= latest_offset else bisect_right(offsets, latest_offset)
        known = keys[:known_count]  # the map knows nothing of what is later
        gone = self._superseded(known, offsets)
        if self._is_past_horizon(header) and not self.has_unreadable:
            gone.update(index for index in outline.tombstones if index < known_count)
        removed = sum(index in gone for index in outline.tombstones) if gone else 0
        self.counts.tombstones_removed += removed
        self.counts.tombstones_kept += len(outline.tombstones) - removed
        return [index for index in range(len(keys)) if index not in gone] if gone else range(len(keys))

    def _superseded(self, keys: list[bytes | None], offsets: list[int]) -> set[int]:
        """Return the indexes of records that have no key, or one that a later record has."""
        if None not in keys:
            return set(self.offsets.superseded(cast("list[bytes]", keys), offsets))
        keyed = [index for index, key in enumerate(keys) if key is not None]
        superseded = self.offsets.superseded([key for key in keys if key is not None], [offsets[index] for index in keyed])
        self.counts.keyless_removed += len(keys) - len(keyed)
        return {keyed[index] for index in superseded} | {index for index, key in enumerate(keys) if key is None}

    def _marker(self, header: BatchHeader, control_type: ControlType | None) -> tuple[Sequence[int], bool]:
        """Return the indexes that stay of a control batch, and whether it is to get a delete horizon."""
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
