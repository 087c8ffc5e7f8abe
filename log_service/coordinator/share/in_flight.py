"""Records in flight: the batches that a share partition has acquired, as lists of runs.

A run is a range of records in the same state. This file decides how runs are cut and joined when
the state of some records changes. Its callers decide on the new states.

A change that must be stored first is tentative. The run has its new delivery already, and keeps the
previous one until the write is complete. ``settled`` then confirms or reverts the change.

Invariants: The runs of a batch cover it without gap or overlap. Adjacent runs differ. A delivery
follows the previous one by ``record_states.NEXT_STATES``.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from log_service.coordinator.share.record_states import (
    FINAL_STATES,
    NEXT_STATES,
    ArchiveReason,
    RecordState,
)

NO_MEMBER = ""
_FIRST = attrgetter("first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The state of a record and its delivery count.

    ``member_id`` is the member that has acquired the record. Its lock expires at
    ``lock_deadline_ms`` (monotonic).
    """

    state: RecordState
    delivery_count: int
    member_id: str = NO_MEMBER
    lock_deadline_ms: int = -1

    @property
    def is_final(self) -> bool:
        """Whether the record is never delivered again."""
        return self.state in FINAL_STATES

    def followed_by(self, state: RecordState, delivery_count: int) -> "Delivery":
        """Return the delivery in ``state`` that replaces this one. No member holds the record."""
        assert state in NEXT_STATES[self.state], f"{self.state.name} cannot become {state.name}"
        return Delivery(state=state, delivery_count=delivery_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Records from ``first`` to ``last`` (inclusive) that share one delivery.

    While a write is in progress, ``write_id`` identifies the write and ``before`` is the previous
    delivery.
    """

    first: int
    last: int
    delivery: Delivery
    before: Delivery | None = None
    write_id: int = 0

    @property
    def count(self) -> int:
        """The number of offsets in the run."""
        return self.last - self.first + 1

    @property
    def is_acquirable(self) -> bool:
        """Whether a member may acquire these records now."""
        return self.delivery.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_settled_final(self) -> bool:
        """Whether these records can no longer change."""
        return self.delivery.is_final and self.before is None

    def changed(self, delivery: Delivery) -> "Run":
        """Return the run with a new delivery that takes effect at once, without a write."""
        return replace(self, delivery=delivery, before=None, write_id=0)

    def tentatively(self, delivery: Delivery, write_id: int) -> "Run":
        """Return the run with a new delivery that takes effect when the write is complete."""
        return replace(self, delivery=delivery, before=self.delivery, write_id=write_id)

    def settled(self, *, is_written: bool) -> "Run":
        """Return the run after its write, with the new delivery or with the previous one."""
        assert self.before is not None
        return self.changed(self.delivery if is_written else self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRange:
    """Archived records from ``first_offset`` to ``last_offset`` (inclusive).

    ``delivery_count`` is the number of their deliveries. ``reason`` is the reason for archiving
    them.
    """

    first_offset: int
    last_offset: int
    delivery_count: int
    reason: ArchiveReason


BatchState = tuple["InFlightBatch", tuple[Run, ...], bool]
"""A snapshot of a batch: the batch, its runs, and whether it was tracked by offset."""


class InFlightBatch:
    """The records that were first acquired together, from ``first`` to ``last`` (inclusive).

    ``is_tracked_by_offset`` becomes true when records of the batch have different states. The
    records are then acquired individually.
    """

    __slots__ = ("first", "is_tracked_by_offset", "last", "runs")

    def __init__(self, first: int, last: int, delivery: Delivery) -> None:
        self.first = first
        self.last = last
        self.is_tracked_by_offset = False
        self.runs: tuple[Run, ...] = (Run(first=first, last=last, delivery=delivery),)

    def __repr__(self) -> str:
        runs = ", ".join(
            f"{run.first}-{run.last} {run.delivery.state.name} x{run.delivery.delivery_count}"
            for run in self.runs
        )
        return f"<InFlightBatch {self.first}-{self.last}: {runs}>"

    @property
    def count(self) -> int:
        """The number of offsets in the batch."""
        return self.last - self.first + 1

    @property
    def state(self) -> BatchState:
        """A snapshot for ``restore``."""
        return self, self.runs, self.is_tracked_by_offset

    def restore(self, state: BatchState) -> None:
        """Restore the batch from a snapshot."""
        _, self.runs, self.is_tracked_by_offset = state

    @property
    def is_complete(self) -> bool:
        """Whether no record of the batch can change any more."""
        return all(run.is_settled_final for run in self.runs)

    def is_within(self, first: int, last: int) -> bool:
        """Whether the whole batch lies in a range."""
        return first <= self.first and self.last <= last

    def runs_in(self, first: int, last: int) -> list[Run]:
        """Return the runs that overlap a range, cut to the range."""
        begin, end = self._places(first, last)
        return [_cut(run, first, last) for run in self.runs[begin:end]]

    def change(self, first: int, last: int, change: Callable[[Run], Run]) -> None:
        """Replace each run of a range by ``change(run)``.

        Runs are cut at the borders of the range. Only the runs of the range and their neighbours
        are visited, because a member that acknowledges one record at a time has thousands of runs.
        """
        begin, end = self._places(first, last)
        if begin >= end:
            return
        runs = self.runs
        changed: list[Run] = []
        for run in runs[begin:end]:
            if run.first < first:
                changed.append(replace(run, last=first - 1))
            changed.append(change(_cut(run, first, last)))
            if run.last > last:
                changed.append(replace(run, first=last + 1))
        low, high = max(begin - 1, 0), end + 1
        self.runs = (
            *runs[:low],
            *_joined([*runs[low:begin], *changed, *runs[end:high]]),
            *runs[high:],
        )
        self.is_tracked_by_offset |= len(self.runs) > 1

    def _places(self, first: int, last: int) -> tuple[int, int]:
        """Return the index range (end exclusive) of the runs that overlap a range of offsets."""
        runs = self.runs
        begin = max(bisect_right(runs, first, key=_FIRST) - 1, 0)
        if runs[begin].last < first:
            begin += 1
        return begin, bisect_right(runs, last, key=_FIRST)


def _cut(run: Run, first: int, last: int) -> Run:
    return (
        run
        if first <= run.first and run.last <= last
        else replace(run, first=max(run.first, first), last=min(run.last, last))
    )


def _joined(runs: Sequence[Run]) -> Iterator[Run]:
    current = runs[0]
    for run in runs[1:]:
        if (run.delivery, run.before, run.write_id) == (
            current.delivery,
            current.before,
            current.write_id,
        ):
            current = replace(current, last=run.last)
        else:
            yield current
            current = run
    yield current


class InFlightBatches:
    """All batches of a share partition in offset order.

    Batches never overlap. ``new_counts`` holds the offset count of each batch that was added since
    a reader last cleared the list.
    """

    __slots__ = ("_batches", "new_counts")

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []
        self.new_counts: list[int] = []

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def last_offset(self) -> int:
        """The last offset in flight. There must be at least one batch."""
        return self._batches[-1].last

    def states(self) -> list[BatchState]:
        """Return snapshots for ``restore``."""
        return [batch.state for batch in self._batches]

    def restore(self, states: Sequence[BatchState]) -> None:
        """Restore the batches from snapshots. Batches that were added later are dropped."""
        self._batches = [state[0] for state in states]
        self.new_counts.clear()
        for state in states:
            state[0].restore(state)

    def runs(self) -> Iterator[Run]:
        """Iterate over all runs."""
        for batch in self._batches:
            yield from batch.runs

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or below an offset."""
        index = bisect_right(self._batches, offset, key=_FIRST)
        return self._batches[index - 1] if index else None

    def overlapping(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that overlap a range."""
        start = bisect_right(self._batches, first, key=_FIRST)
        if start and self._batches[start - 1].last >= first:
            start -= 1
        return self._batches[start : bisect_right(self._batches, last, key=_FIRST)]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch in offset order. It must not overlap another batch."""
        index = bisect_right(self._batches, batch.first, key=_FIRST)
        assert not self.overlapping(batch.first, batch.last), f"{batch} is in flight already"
        self._batches.insert(index, batch)
        self.new_counts.append(batch.count)

    def drop_complete_below(self, offset: int) -> None:
        """Drop the batches that end below an offset and whose records can no longer change."""
        end = bisect_right(self._batches, offset, key=_FIRST)
        self._batches[:end] = [
            batch for batch in self._batches[:end] if batch.last >= offset or not batch.is_complete
        ]

    def change(self, first: int, last: int, change: Callable[[Run], Run]) -> None:
        """Replace each run of a range by ``change(run)``."""
        for batch in self.overlapping(first, last):
            batch.change(first, last, change)
