"""The window of a share partition: from its start offset to its end offset, and the records in flight between them.

Decides where the window begins and ends, from which offset the leader fetches next, and how many records of the window are done with. What
becomes of a record is decided elsewhere.

A share coordinator knows only records whose state was stored. After a new leader has loaded them, records between them were acquired and
never acknowledged: such a *gap* is fetched and acquired again. A gap that the log itself has, because it was compacted, is none of these.

Invariants: the start offset never goes back; every batch in flight ends below the end offset; a record at or above the start offset is
final only when its last write is complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.share.in_flight import BatchState, Delivery, InFlightBatch, InFlightBatches, Run
from log_service.coordinator.share.record_states import RecordState


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """Records as the share coordinator stores them: from ``first_offset`` to ``last_offset`` (inclusive)."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


WindowState = tuple[int, int, tuple[int, int] | None, list[BatchState]]
"""Where a window began and ended, its gap, and its batches."""


@dataclass(slots=True)
class _Gap:
    """What is to be fetched again: from ``start`` on, as long as the window still ends where it did at loading."""

    start: int
    window_end: int


class DeliveryWindow:
    """The records that a group has been given and is not done with; ``end_offset`` (exclusive) is where new records begin."""

    __slots__ = ("_gap", "batches", "end_offset", "start_offset")

    def __init__(self, start_offset: int, stored: Sequence[StateBatch] = ()) -> None:
        """Take over what is stored.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, what is stored makes no sense.
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
        """Return what ``restore`` makes the window again."""
        gap = None if self._gap is None else (self._gap.start, self._gap.window_end)
        return self.start_offset, self.end_offset, gap, self.batches.states()

    def restore(self, state: WindowState) -> None:
        """Be again what the window was: what happened since did not."""
        self.start_offset, self.end_offset, gap, batches = state
        self._gap = None if gap is None else _Gap(*gap)
        self.batches.restore(batches)

    @property
    def record_count(self) -> int:
        """How many offsets are in flight."""
        return self.end_offset - self.start_offset if len(self.batches) else 0

    @property
    def gap_start(self) -> int | None:
        """From where on records between stored ones are acquired again, or None."""
        gap = self._gap
        return max(gap.start, self.start_offset) if gap is not None and gap.window_end == self.end_offset else None

    @property
    def next_fetch_offset(self) -> int:
        """From where the leader fetches next: the first record that is available, or the end."""
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
        """How many records of the window are done with, those whose write is under way included (KIP-1226)."""
        start = self.start_offset
        return sum(run.last - max(run.first, start) + 1 for run in self.batches.runs() if run.delivery.is_final and run.last >= start)

    def narrow_gap(self, start: int) -> None:
        """Fetch again only from an offset on; nothing once the window has grown, or the gap is past."""
        gap = self._gap
        if gap is not None and gap.window_end == self.end_offset and start < gap.window_end:
            gap.start = start
        else:
            self._gap = None

    def begin_with_records(self) -> None:
        """Begin where the first batch in flight does: the log holds nothing between the start and it."""
        self.start_offset = max(self.start_offset, next(iter(self.batches)).first)

    def note_missing(self, first: int, end: int) -> None:
        """Take note that the log holds no record from ``first`` below ``end`` any more: none of them is acquired again."""
        self.batches.change(first, end - 1, _archived_if_available)
        gap_start = self.gap_start
        if gap_start is not None and first <= gap_start < end:
            self.narrow_gap(end)

    # Records that leave the window

    def move_start(self) -> bool:
        """Move the start to the first record that something can still happen to, and forget what lies below."""
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
        """Begin no earlier than the log: what is available below is archived, what is acquired is archived once it is given back.

        The start moves on over records behind it that are done with already. A new leader may have loaded such records.
        """
        if log_start_offset <= self.start_offset:
            return False
        self.batches.change(self.start_offset, log_start_offset - 1, _archived_if_available)
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        self.move_start()
        return True

    def archive_acquired(self, first: int, last: int) -> None:
        """Archive what has just been acquired of a range: it belongs to an aborted transaction."""
        self.batches.change(first, last, _archived_if_acquired)


def _archived_if_available(run: Run) -> Run:
    delivery = run.delivery
    is_available = delivery.state is RecordState.AVAILABLE
    return run.changed(delivery.followed_by(RecordState.ARCHIVED, delivery.delivery_count)) if is_available else run


def _archived_if_acquired(run: Run) -> Run:
    delivery = run.delivery
    is_acquired = delivery.state is RecordState.ACQUIRED
    return run.changed(delivery.followed_by(RecordState.ARCHIVED, delivery.delivery_count)) if is_acquired else run


_STORED_STATES = {state.value: state for state in RecordState if state is not RecordState.ACQUIRED}


def _loaded(stored: StateBatch, expected: int) -> InFlightBatch:
    state = _STORED_STATES.get(stored.delivery_state)
    if state is None or stored.first_offset < expected or stored.last_offset < stored.first_offset:
        text = f"the stored state of offsets {stored.first_offset} to {stored.last_offset} makes no sense: state {stored.delivery_state}, "
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{text}where a batch from {expected} on was expected")
    return InFlightBatch(stored.first_offset, stored.last_offset, Delivery(state=state, delivery_count=stored.delivery_count))
