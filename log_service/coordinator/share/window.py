"""The window of a share partition: the records in flight between its start and end offsets.

This file decides where the window begins and ends, which offset the leader fetches next, and how
many records of the window are final. It does not decide on the states of records.

A share coordinator stores only the states of some records. When a new leader loads the states, some
offsets may lie between two stored batches. The records at these offsets were acquired but never
acknowledged. The offsets are the *gap*. The leader fetches and acquires their records again.
Offsets that compaction removed from the log do not belong to the gap.

Invariants: The start offset never decreases. Every batch in flight ends below the end offset. A
record at or above the start offset is final only when its last write is complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.share.in_flight import (
    BatchState,
    Delivery,
    InFlightBatch,
    InFlightBatches,
    Run,
)
from log_service.coordinator.share.record_states import RecordState


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """Stored records from ``first_offset`` to ``last_offset`` (inclusive) with the same state."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


WindowState = tuple[int, int, tuple[int, int] | None, list[BatchState]]
"""A snapshot of a window: start offset, end offset, gap, and batches."""


@dataclass(slots=True)
class _Gap:
    """The offsets between stored batches whose records must be acquired again.

    ``start`` is the first of them. ``window_end`` is the end offset at loading. The gap is valid
    until the window's end offset changes.
    """

    start: int
    window_end: int


class DeliveryWindow:
    """The records of a share partition that were acquired and are not yet all final.

    New records begin at ``end_offset``.
    """

    __slots__ = ("_gap", "batches", "end_offset", "start_offset")

    def __init__(self, start_offset: int, stored: Sequence[StateBatch] = ()) -> None:
        """Load the stored batches.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, the stored state is invalid.
        """
        self.start_offset = start_offset
        self.batches = InFlightBatches()
        self._gap: _Gap | None = None
        expected = start_offset
        gap_start = None
        for batch in stored:
            if gap_start is None and batch.first_offset > expected:
                gap_start = expected
            self.batches.add(_loaded(batch, expected))
            expected = batch.last_offset + 1
        self.end_offset = expected
        if gap_start is not None:
            self._gap = _Gap(gap_start, expected)
        self.move_start()

    def __repr__(self) -> str:
        return f"<DeliveryWindow {self.start_offset}-{self.end_offset} batches={len(self.batches)}>"

    def state(self) -> WindowState:
        """Return a snapshot for ``restore``."""
        gap = None if self._gap is None else (self._gap.start, self._gap.window_end)
        return self.start_offset, self.end_offset, gap, self.batches.states()

    def restore(self, state: WindowState) -> None:
        """Restore the window from a snapshot."""
        self.start_offset, self.end_offset, gap, batches = state
        self._gap = None if gap is None else _Gap(*gap)
        self.batches.restore(batches)

    @property
    def record_count(self) -> int:
        """The number of offsets in flight."""
        return self.end_offset - self.start_offset if len(self.batches) else 0

    @property
    def gap_start(self) -> int | None:
        """The first offset of the gap between stored batches, or None if there is no gap."""
        gap = self._gap
        return (
            max(gap.start, self.start_offset)
            if gap is not None and gap.window_end == self.end_offset
            else None
        )

    @property
    def next_fetch_offset(self) -> int:
        """The next offset to fetch.

        This is the start of the gap or the first record that may be acquired again, whichever is
        lower. Without both, it is the end offset.
        """
        gap_start = self.gap_start
        for batch in self.batches:
            if gap_start is not None:
                if batch.first > gap_start:
                    return gap_start
                gap_start = max(gap_start, batch.last + 1)
            for run in batch.runs:
                if run.is_acquirable and run.last >= self.start_offset:
                    return max(run.first, self.start_offset)
        return self.end_offset

    @property
    def delivery_complete_count(self) -> int:
        """The number of final records in the window (KIP-1226).

        Records whose final state is still being written count too.
        """
        start = self.start_offset
        return sum(
            run.last - max(run.first, start) + 1
            for run in self.batches.runs()
            if run.delivery.is_final and run.last >= start
        )

    def narrow_gap(self, start: int) -> None:
        """Move the start of the gap to ``start``.

        Drop the gap if ``start`` is not below its end, or if the window's end offset has changed
        since loading.
        """
        gap = self._gap
        if gap is not None and gap.window_end == self.end_offset and start < gap.window_end:
            gap.start = start
        else:
            self._gap = None

    def begin_with_records(self) -> None:
        """Move the start offset to the first batch, because the log has no records before it."""
        self.start_offset = max(self.start_offset, next(iter(self.batches)).first)

    def note_missing(self, first: int, end: int) -> None:
        """Archive available records from ``first`` to ``end`` (exclusive).

        The log no longer has them, so a gap that begins among them now begins at ``end``.
        """
        self.batches.change(first, end - 1, _archived_if_available)
        gap_start = self.gap_start
        if gap_start is not None and first <= gap_start < end:
            self.narrow_gap(end)

    # Records that leave the window

    def move_start(self) -> bool:
        """Move the start offset to the first record that can still change.

        Return whether it moved.

        Batches below the start offset are dropped.
        """
        if self.start_offset < self.end_offset:
            reached = min(self._first_open(), self.end_offset)
            is_moved = reached > self.start_offset
            self.start_offset = max(reached, self.start_offset)
        else:
            is_moved = False
        self.batches.drop_complete_below(self.start_offset)
        return is_moved

    def _first_open(self) -> int:
        gap_start = self.gap_start
        reached = self.start_offset
        for batch in self.batches:
            if batch.last < self.start_offset:
                continue
            if gap_start is not None and batch.first > gap_start:
                return max(gap_start, reached)
            for run in batch.runs:
                if run.last >= self.start_offset and not run.is_settled_final:
                    return max(run.first, self.start_offset)
            reached = batch.last + 1
            if gap_start is not None:
                gap_start = max(gap_start, reached)
        return reached

    def follow_log_start(self, log_start_offset: int) -> bool:
        """Move the start offset to the log start offset. Return whether it moved.

        Available records below it are archived now. Acquired records are archived when they are
        given back. The start offset then also skips final records, which a new leader may have
        loaded.
        """
        if log_start_offset <= self.start_offset:
            return False
        self.batches.change(self.start_offset, log_start_offset - 1, _archived_if_available)
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        self.move_start()
        return True

    def archive_acquired(self, first: int, last: int) -> None:
        """Archive the acquired records of a range, because their transaction was aborted."""
        self.batches.change(first, last, _archived_if_acquired)


def _archived_if_available(run: Run) -> Run:
    delivery = run.delivery
    is_available = delivery.state is RecordState.AVAILABLE
    return (
        run.changed(delivery.followed_by(RecordState.ARCHIVED, delivery.delivery_count))
        if is_available
        else run
    )


def _archived_if_acquired(run: Run) -> Run:
    delivery = run.delivery
    is_acquired = delivery.state is RecordState.ACQUIRED
    return (
        run.changed(delivery.followed_by(RecordState.ARCHIVED, delivery.delivery_count))
        if is_acquired
        else run
    )


_STORED_STATES = {state.value: state for state in RecordState if state is not RecordState.ACQUIRED}


def _loaded(stored: StateBatch, expected: int) -> InFlightBatch:
    state = _STORED_STATES.get(stored.delivery_state)
    if state is None or stored.first_offset < expected or stored.last_offset < stored.first_offset:
        text = (
            f"the stored state of offsets {stored.first_offset} to {stored.last_offset} is invalid:"
            f" state {stored.delivery_state}, "
        )
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{text}where a batch from {expected} on was expected"
        )
    return InFlightBatch(
        stored.first_offset,
        stored.last_offset,
        Delivery(state=state, delivery_count=stored.delivery_count),
    )
