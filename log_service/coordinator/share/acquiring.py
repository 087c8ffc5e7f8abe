"""Decide which of the fetched records a member acquires (KIP-932, KIP-1206).

Whole batches are preferred, because they are cheap to track and to acknowledge:

- New records are acquired in batches of the log. ``max_records`` is then a soft limit, because the
  batch that reaches it is acquired whole. With ``AcquireMode.RECORD_LIMIT`` the rest of that batch
  stays available.
- Records that are available again are acquired with their previous batch, or individually if that
  batch is tracked by offset.
- A record that fails repeatedly may make other records fail too. From half of the delivery count
  limit on, but not before the second delivery, its batch is delivered alone. Each further delivery
  holds only half as many records of the batch. A record on its last delivery is delivered alone.

This file reads no records. It treats a batch of the log as a range of offsets, and the consumer
reports the gaps in this range.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from log_service.coordinator.share.in_flight import Delivery, InFlightBatch, Run
from log_service.coordinator.share.record_states import AcquireMode, RecordState
from log_service.coordinator.share.window import DeliveryWindow

MIN_THROTTLED_COUNT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """The settings of a group for the delivery of its records.

    ``has_dead_letters`` means that an archived record must first be written to a dead letter topic.
    """

    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    record_lock_duration_ms: int = 30_000
    is_renew_enabled: bool = True
    has_dead_letters: bool = False

    @property
    def throttled_from_count(self) -> int:
        """The delivery count at which a record's batch begins to be delivered alone."""
        return max(MIN_THROTTLED_COUNT, (self.delivery_count_limit + 1) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquiredRange:
    """Acquired offsets from ``first_offset`` to ``last_offset`` (inclusive).

    All of them have the same delivery count.
    """

    first_offset: int
    last_offset: int
    delivery_count: int

    @property
    def count(self) -> int:
        """The number of acquired offsets."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """The batches that the leader has read from ``fetch_offset`` on, as first and last offsets.

    ``aborted`` holds the batches of aborted transactions.
    """

    fetch_offset: int
    batches: Sequence[tuple[int, int]]
    aborted: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireRequest:
    """A member's request to acquire records.

    About ``batch_size`` new records are tracked together.
    """

    member_id: str
    max_records: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


@dataclass(slots=True)
class _Bounds:
    """The number of records that may still be acquired, and the last offset (inclusive)."""

    last: int
    remaining: int


@dataclass(slots=True)
class Acquisition:
    """One attempt to acquire records. ``run`` may be called only once."""

    window: DeliveryWindow
    settings: ShareSettings
    request: AcquireRequest
    fetched: FetchedRecords
    lock_deadline_ms: int
    acquired: list[AcquiredRange] = field(default_factory=list)
    _count: int = 0

    def run(self) -> list[AcquiredRange]:
        """Acquire records and return their ranges in offset order."""
        if self.request.max_records <= 0 or not self.fetched.batches:
            return []
        bounds = self._bounds()
        if bounds.remaining <= 0:
            return []
        base = self.fetched.batches[0][0]
        if self.fetched.fetch_offset < base:
            self.window.note_missing(self.fetched.fetch_offset, base)
        self._acquire(base, bounds)
        if self.acquired:
            self.window.narrow_gap(self.acquired[-1].last_offset + 1)
        if self.fetched.aborted:
            self._leave_out_aborted()
        self.window.move_start()
        return self.acquired

    def _bounds(self) -> _Bounds:
        """Return the bounds of this acquisition, within the limit of records in flight.

        If the limit is reached, only available records among those in flight are acquired.
        """
        window, wanted = self.window, self.request.max_records
        last = self.fetched.batches[-1][1]
        remaining = min(wanted, self.settings.max_record_locks - window.record_count)
        if remaining <= 0 and self.fetched.fetch_offset < window.end_offset:
            return _Bounds(
                min(last, window.end_offset - 1),
                min(wanted, window.end_offset - self.fetched.fetch_offset),
            )
        return _Bounds(last, remaining)

    def _acquire(self, base: int, bounds: _Bounds) -> None:
        floor = self.window.batches.floor(base)
        begin = (
            floor.first
            if floor is not None and floor.last >= base
            else max(base, self.window.start_offset)
        )
        in_flight = self.window.batches.overlapping(begin, bounds.last)
        next_offset = begin
        for batch in in_flight:
            if self._count >= bounds.remaining:
                return
            if self.window.gap_start is not None and next_offset < batch.first:
                self._acquire_new(next_offset, batch.first - 1, bounds.remaining - self._count)
                if self._count >= bounds.remaining:
                    return
            next_offset = batch.last + 1
            if not self._acquire_again(batch, base, bounds):
                return
        if self._count < bounds.remaining and next_offset <= bounds.last:
            self._acquire_new(next_offset, bounds.last, bounds.remaining - self._count)

    # Records that were in flight before

    def _acquire_again(self, batch: InFlightBatch, base: int, bounds: _Bounds) -> bool:
        """Acquire the available records of a batch that lie between ``base`` and the bounds.

        Return False if this acquisition must not take records of later batches.
        """
        acquirable = [
            run
            for run in batch.runs_in(max(base, self.window.start_offset), bounds.last)
            if run.is_acquirable
        ]
        if not acquirable:
            return True
        is_throttled = (
            max(run.delivery.delivery_count for run in acquirable)
            >= self.settings.throttled_from_count
        )
        if is_throttled and self._count:
            return False
        remaining = bounds.remaining - self._count
        is_strict = self.request.mode is AcquireMode.RECORD_LIMIT
        is_whole = (
            batch.is_within(base, bounds.last)
            and batch.first >= self.window.start_offset
            and not batch.is_tracked_by_offset
        )
        if is_whole and not is_throttled and not (is_strict and batch.count > remaining):
            delivery = self._take(batch, batch.first, batch.last, acquirable[0])
            self._note(batch.first, batch.last, delivery.delivery_count)
            return True
        batch.is_tracked_by_offset = True
        count_before = self._count
        self._acquire_offsets(batch, acquirable, remaining if is_strict else batch.count)
        return not (is_throttled and self._count > count_before)

    def _acquire_offsets(self, batch: InFlightBatch, acquirable: Sequence[Run], most: int) -> None:
        """Acquire at most ``most`` records individually.

        The first record whose delivery count has reached ``throttled_from_count`` reduces the
        number further. A record on its last delivery is acquired alone.
        """
        limit = self.settings.delivery_count_limit
        throttled_from = self.settings.throttled_from_count
        count_before = self._count
        is_throttled = False
        for run in acquirable:
            delivered = run.delivery.delivery_count
            is_last_delivery = limit > MIN_THROTTLED_COUNT and delivered == limit - 1
            taken = self._count - count_before
            if taken >= most or (is_last_delivery and taken):
                return
            if delivered >= throttled_from and not is_throttled:
                is_throttled = True
                part = max(1, batch.count >> (delivered - throttled_from + 1))
                if taken < part:  # otherwise, as in Kafka, the whole rest is delivered
                    most = min(most, part)
            last = run.first if is_last_delivery else min(run.last, run.first + most - taken - 1)
            delivery = self._take(batch, run.first, last, run)
            self._note(run.first, last, delivery.delivery_count)
            if is_last_delivery:
                return

    def _take(self, batch: InFlightBatch, first: int, last: int, run: Run) -> Delivery:
        delivery = self.locked_delivery(run.delivery.delivery_count + 1)
        batch.change(first, last, lambda each: each.changed(delivery))
        return delivery

    # New records

    def _acquire_new(self, first: int, last: int, remaining: int) -> None:
        window = self.window
        first = max(first, window.start_offset)
        if not len(window.batches):
            first = max(first, window.end_offset)
        if remaining < last - first + 1:
            last = min(last, self._end_of_batch_with(first + remaining - 1))
        if first > last:
            return
        if self.request.mode is AcquireMode.RECORD_LIMIT:
            acquired_last = self.add_strictly(first, last, remaining)
        else:
            acquired_last = self._add_in_batches(first, last)
        window.begin_with_records()
        window.end_offset = max(window.end_offset, last + 1)
        window.narrow_gap(acquired_last + 1)

    def _end_of_batch_with(self, offset: int) -> int:
        return next((last for base, last in self.fetched.batches if base <= offset <= last), offset)

    def _add_in_batches(self, first: int, last: int) -> int:
        """Acquire new records in groups of about ``batch_size`` records, and return ``last``.

        Each group ends at the end of a batch of the log.
        """
        size = self.request.batch_size
        for base, _ in self.fetched.batches if last - first + 1 > size else ():
            if base > last:
                break
            if base - first >= size:
                self._add(first, base - 1)
                first = base
        self._add(first, last)
        return last

    def _add(self, first: int, last: int) -> None:
        delivery = self.locked_delivery(1)
        self.window.batches.add(InFlightBatch(first, last, delivery))
        self._note(first, last, 1)

    def add_strictly(self, first: int, last: int, remaining: int) -> int:
        """Add a batch, and acquire at most its first ``remaining`` records.

        Return the offset of the last acquired record.
        """
        acquired_last = min(last, first + remaining - 1)
        delivery = self.locked_delivery(1)
        batch = InFlightBatch(first, last, Delivery(state=RecordState.AVAILABLE, delivery_count=0))
        batch.change(first, acquired_last, lambda run: run.changed(delivery))
        self.window.batches.add(batch)
        self._note(first, acquired_last, 1)
        return acquired_last

    def locked_delivery(self, delivery_count: int) -> Delivery:
        """Return the delivery of records that the member of this request acquires."""
        return Delivery(
            state=RecordState.ACQUIRED,
            delivery_count=delivery_count,
            member_id=self.request.member_id,
            lock_deadline_ms=self.lock_deadline_ms,
        )

    def _note(self, first: int, last: int, delivery_count: int) -> None:
        self.acquired.append(
            AcquiredRange(first_offset=first, last_offset=last, delivery_count=delivery_count)
        )
        self._count += last - first + 1

    # Records of aborted transactions

    def _leave_out_aborted(self) -> None:
        for first, last in self.fetched.aborted:
            self.window.archive_acquired(first, last)
        self.acquired = [
            part for acquired in self.acquired for part in _without(acquired, self.fetched.aborted)
        ]


def _without(acquired: AcquiredRange, left_out: Sequence[tuple[int, int]]) -> list[AcquiredRange]:
    """Return the parts of a range outside of ``left_out``, which is in offset order."""
    parts = []
    first = acquired.first_offset
    for left_first, left_last in left_out:
        if left_last < first or left_first > acquired.last_offset:
            continue
        if left_first > first:
            parts.append(
                AcquiredRange(
                    first_offset=first,
                    last_offset=left_first - 1,
                    delivery_count=acquired.delivery_count,
                )
            )
        first = left_last + 1
    if first <= acquired.last_offset:
        parts.append(
            AcquiredRange(
                first_offset=first,
                last_offset=acquired.last_offset,
                delivery_count=acquired.delivery_count,
            )
        )
    return parts
