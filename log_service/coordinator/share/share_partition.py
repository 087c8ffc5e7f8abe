"""One share group on one partition, at the partition's leader (KIP-932): who holds which records, and what became of them.

It decides what a member acquires, what an acknowledgement does, when a lock has expired, and what has to be stored. It reads no log, stores
nothing and knows no clock: batches of the log are handed in as ranges of offsets, ``StateWrite`` tells what to store, and every method that
needs the time is given it.

A change that a member asks for is tentative until it is stored: ``complete_write`` ends it, for good or by taking it back. A lock that has
expired is gone whether that could be stored or not. Acquiring stores nothing: a new leader delivers again what was not acknowledged.

Where a group has dead letters, a record that is given up has to be written elsewhere before it is final: ``StateWrite.dead_letters``
says which ones. A record whose last lock has expired stays with its member, for ``archive_expired`` to give up; if that fails, it is
tried again.

Invariants: a record is held by one member at most; a final record is never delivered again; a delivery count grows with an acquisition
alone, and never beyond the limit; the start offset never goes back; a write is complete once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from log_service.coordinator.share.acknowledging import AcknowledgedRange, Acknowledging, dead_letter_range, given_back
from log_service.coordinator.share.acquiring import AcquiredRange, AcquireRequest, Acquisition, FetchedRecords, ShareSettings
from log_service.coordinator.share.in_flight import DeadLetterRange, Delivery, Run
from log_service.coordinator.share.record_states import ArchiveReason, RecordState
from log_service.coordinator.share.window import DeliveryWindow, StateBatch, WindowState

_EXPIRED_MS = -1
"""A deadline that has passed at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWrite:
    """What the share coordinator has to store; ``complete_write`` it once that is done, or given up.

    ``dead_letters`` are the records that have to be written elsewhere before, in groups that have dead letters.
    """

    write_id: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    dead_letters: tuple[DeadLetterRange, ...] = ()


class SharePartition:
    """The records of one group on one partition. ``settings`` may be replaced at any time, and count from the next call on."""

    def __init__(self, settings: ShareSettings, start_offset: int, stored: Sequence[StateBatch] = ()) -> None:
        """Begin with what the share coordinator has stored.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, what is stored makes no sense.
        """
        self.settings = settings
        self._window = DeliveryWindow(start_offset, stored)
        self._last_write_id = 0
        self._pending: dict[int, tuple[int, int]] = {}
        self.lock_timeout_count = 0
        """Records that a member has held for too long, each delivery once."""

    def __repr__(self) -> str:
        return f"<SharePartition {self._window.start_offset}-{self._window.end_offset} writes={len(self._pending)}>"

    @property
    def start_offset(self) -> int:
        """The first offset that something can still happen to (SPSO)."""
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        """The offset behind the last record that was ever acquired (SPEO, exclusive)."""
        return self._window.end_offset

    @property
    def next_fetch_offset(self) -> int:
        """From where to read the log for the next acquisition."""
        return self._window.next_fetch_offset

    @property
    def delivery_complete_count(self) -> int:
        """How many records from the start offset on are done with (KIP-1226)."""
        return self._window.delivery_complete_count

    @property
    def record_count(self) -> int:
        """How many offsets are in flight."""
        return self._window.record_count

    @property
    def batch_count(self) -> int:
        """In how many batches they are tracked."""
        return len(self._window.batches)

    def take_new_batch_counts(self) -> list[int]:
        """Return how many offsets each batch covers that came in flight since the last call, in the order in which they came."""
        new_counts = self._window.batches.new_counts
        taken = new_counts.copy()
        new_counts.clear()
        return taken

    @property
    def can_acquire(self) -> bool:
        """Whether a member may acquire anything: records that are available again, or new ones while not too many are in flight."""
        window = self._window
        return window.next_fetch_offset != window.end_offset or window.record_count < self.settings.max_record_locks

    @property
    def next_lock_deadline_ms(self) -> int | None:
        """When the next lock expires (monotonic), or None while nothing is held."""
        return min((run.delivery.lock_deadline_ms for run in self.runs() if run.delivery.state is RecordState.ACQUIRED), default=None)

    def runs(self) -> Iterable[Run]:
        """Return the records in flight, for reading."""
        return self._window.batches.runs()

    # What members ask for

    def state(self) -> WindowState:
        """Return what ``undo_acquisition`` needs."""
        return self._window.state()

    def undo_acquisition(self, state: WindowState) -> None:
        """Be as before the last acquisition: no member was told of it, so that it was no delivery. Nothing else may have happened since."""
        self._window.restore(state)

    def acquire(self, request: AcquireRequest, fetched: FetchedRecords, now_ms: int) -> list[AcquiredRange]:
        """Have a member acquire what it may of the records that were read, in the order of their offsets."""
        deadline_ms = now_ms + self.settings.record_lock_duration_ms
        return Acquisition(self._window, self.settings, request, fetched, deadline_ms).run()

    def acknowledge(self, member_id: str, ranges: Sequence[AcknowledgedRange], now_ms: int) -> StateWrite | None:
        """Take note of what became of records that a member holds; None if nothing has to be stored.

        Raises:
            KafkaError: nothing was changed; INVALID_REQUEST or INVALID_RECORD_STATE.
        """
        write_id = self._last_write_id + 1
        acknowledging = Acknowledging(window=self._window, settings=self.settings, member_id=member_id, now_ms=now_ms, write_id=write_id)
        return self._write(acknowledging.run(ranges), acknowledging.dead_letters)

    def release(self, member_id: str) -> StateWrite | None:
        """Take back all that a member holds, because its session has ended; None if nothing has to be stored.

        The locks of records that ``archive_expired`` has to give up expire at once.
        """
        write_id = self._last_write_id + 1
        held = [run for run in self.runs() if run.delivery.state is RecordState.ACQUIRED and run.delivery.member_id == member_id]
        for run in held:
            if self._needs_dead_letter(run):
                self._window.batches.change(run.first, run.last, _unlocked)
        others = [run for run in held if not self._needs_dead_letter(run)]
        return self._write(self._give_back(others, partial(Run.tentatively, write_id=write_id)))

    # What time and the log bring

    def expire_locks(self, now_ms: int) -> StateWrite | None:
        """Take back what was held for too long; None if nothing has to be stored."""
        expired = [run for run in self._expired(now_ms) if not self._needs_dead_letter(run)]
        self._count_timeouts(expired)
        return self._write(self._give_back(expired, Run.changed))

    def archive_expired(self, now_ms: int) -> StateWrite | None:
        """Give up what was held for too long by the last member that could have it, tentatively; only where there are dead letters."""
        write_id = self._last_write_id + 1
        last_held = [run for run in self._expired(now_ms) if self._needs_dead_letter(run)]
        self._count_timeouts(last_held)
        for run in last_held:
            self._window.batches.change(run.first, run.last, _unlocked)  # counted already, should this be tried again
        archived = self._give_back(last_held, partial(Run.tentatively, write_id=write_id))
        start = self._window.start_offset
        return self._write(archived, [dead_letter_range(run, ArchiveReason.DELIVERED_TOO_OFTEN) for run in archived if run.first >= start])

    def _expired(self, now_ms: int) -> list[Run]:
        return [run for run in self.runs() if run.delivery.state is RecordState.ACQUIRED and run.delivery.lock_deadline_ms <= now_ms]

    def _count_timeouts(self, expired: Iterable[Run]) -> None:
        self.lock_timeout_count += sum(run.count for run in expired if run.delivery.lock_deadline_ms != _EXPIRED_MS)

    def _needs_dead_letter(self, run: Run) -> bool:
        """Whether the record becomes a dead letter when its member gives it back."""
        settings = self.settings
        return settings.has_dead_letters and run.delivery.delivery_count >= settings.delivery_count_limit

    def follow_log_start(self, log_start_offset: int) -> bool:
        """Forget the records that the log has deleted. Whether the start offset moved; it is stored with the next write."""
        return self._window.follow_log_start(log_start_offset)

    def complete_write(self, write_id: int, *, is_written: bool) -> bool:
        """End a write: what was tentative counts now, or is as it was before. Whether records became available, or the start offset moved.

        What was acquired before is held again if the write has failed; a lock that has expired meanwhile is found by ``expire_locks``.
        """
        first, last = self._pending.pop(write_id)
        self._window.batches.change(first, last, partial(_settled, write_id=write_id, is_written=is_written))
        is_moved = self._window.move_start()
        settled = (run for batch in self._window.batches.overlapping(first, last) for run in batch.runs_in(first, last))
        return is_moved or any(run.is_acquirable for run in settled)

    # How runs change

    def _give_back(self, runs: Iterable[Run], change: Callable[[Run, Delivery], Run]) -> list[Run]:
        """Give records back and return the runs to store: those below the start offset are archived whatever their count."""
        start, limit = self._window.start_offset, self.settings.delivery_count_limit
        to_store: list[Run] = []
        for run in runs:
            if run.first < start:
                archived = run.delivery.followed_by(RecordState.ARCHIVED, run.delivery.delivery_count)
                to_store.append(Run(first=run.first, last=min(run.last, start - 1), delivery=archived))
            if run.last >= start:
                to_store.append(Run(first=max(run.first, start), last=run.last, delivery=given_back(run.delivery, limit)))
        for new in to_store:
            self._window.batches.change(new.first, new.last, partial(_applied, change=change, delivery=new.delivery))
        return to_store

    def _write(self, runs: Sequence[Run], dead_letters: Sequence[DeadLetterRange] = ()) -> StateWrite | None:
        if not runs:
            return None
        self._last_write_id += 1
        self._pending[self._last_write_id] = (min(run.first for run in runs), max(run.last for run in runs))
        return StateWrite(
            write_id=self._last_write_id,
            start_offset=self._window.start_offset,
            delivery_complete_count=self._window.delivery_complete_count,
            batches=tuple(_state_batches(runs)),
            dead_letters=tuple(dead_letters),
        )


def _unlocked(run: Run) -> Run:
    return run.changed(replace(run.delivery, lock_deadline_ms=_EXPIRED_MS))


def _applied(run: Run, *, change: Callable[[Run, Delivery], Run], delivery: Delivery) -> Run:
    return change(run, delivery)


def _settled(run: Run, *, write_id: int, is_written: bool) -> Run:
    return run.settled(is_written=is_written) if run.write_id == write_id else run


def _state_batches(runs: Iterable[Run]) -> Iterator[StateBatch]:
    """Yield what to store of runs; equal neighbours are one batch."""
    batch: StateBatch | None = None
    for run in sorted(runs, key=attrgetter("first")):
        state, count = run.delivery.state, run.delivery.delivery_count
        new = StateBatch(first_offset=run.first, last_offset=run.last, delivery_state=state, delivery_count=count)
        if batch is None:
            batch = new
        elif batch.last_offset + 1 == run.first and (batch.delivery_state, batch.delivery_count) == (state, count):
            batch = replace(batch, last_offset=run.last)
        else:
            yield batch
            batch = new
    if batch is not None:
        yield batch
