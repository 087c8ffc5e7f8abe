"""One share group on one partition, at the partition's leader (KIP-932).

This file decides which records a member acquires, the effect of an acknowledgement, when a lock has
expired, and what must be stored. It reads no log, stores nothing and has no clock. It gets batches
of the log as ranges of offsets, and the time as an argument. It returns writes as ``StateWrite``.

A change that a member requests is tentative until it is stored. ``complete_write`` confirms or
reverts the change. An expired lock is released even if this cannot be stored. Acquiring stores
nothing, because a new leader delivers unacknowledged records again.

If a group has dead letters, an archived record must be written to a dead letter topic before it is
final. ``StateWrite.dead_letters`` lists these records. The last lock of a record is that of its
last permitted delivery. When it has expired, the record stays with its member until
``archive_expired`` archives it. If archiving fails, it is retried.

Invariants: A record is held by at most one member. A final record is never delivered again. A
delivery count increases only with an acquisition, and never beyond the limit. The start offset
never decreases. A write is completed once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from log_service.coordinator.share.acknowledging import (
    AcknowledgedRange,
    Acknowledging,
    dead_letter_range,
    given_back,
)
from log_service.coordinator.share.acquiring import (
    AcquiredRange,
    AcquireRequest,
    Acquisition,
    FetchedRecords,
    ShareSettings,
)
from log_service.coordinator.share.in_flight import DeadLetterRange, Delivery, Run
from log_service.coordinator.share.record_states import ArchiveReason, RecordState
from log_service.coordinator.share.window import DeliveryWindow, StateBatch, WindowState

_EXPIRED_MS = -1
"""A lock deadline that is always in the past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWrite:
    """A write for the share coordinator.

    Call ``complete_write`` when the write is stored or has failed. ``dead_letters`` holds the
    records that must first be written to a dead letter topic.
    """

    write_id: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    dead_letters: tuple[DeadLetterRange, ...] = ()


class SharePartition:
    """The records of one group on one partition.

    ``settings`` may be replaced at any time. New settings take effect at the next call.
    """

    def __init__(
        self, settings: ShareSettings, start_offset: int, stored: Sequence[StateBatch] = ()
    ) -> None:
        """Begin with the state that the share coordinator has stored.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, the stored state is invalid.
        """
        self.settings = settings
        self._window = DeliveryWindow(start_offset, stored)
        self._last_write_id = 0
        self._pending: dict[int, tuple[int, int]] = {}
        self.lock_timeout_count = 0
        """The number of expired locks. A record counts once for each delivery."""

    def __repr__(self) -> str:
        return (
            f"<SharePartition {self._window.start_offset}-{self._window.end_offset}"
            f" writes={len(self._pending)}>"
        )

    @property
    def start_offset(self) -> int:
        """The first offset whose record can still change (start offset, SPSO)."""
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last record that was ever acquired (end offset, SPEO)."""
        return self._window.end_offset

    @property
    def next_fetch_offset(self) -> int:
        """The offset from which to read the log for the next acquisition."""
        return self._window.next_fetch_offset

    @property
    def delivery_complete_count(self) -> int:
        """The number of final records at or above the start offset (KIP-1226)."""
        return self._window.delivery_complete_count

    @property
    def record_count(self) -> int:
        """The number of offsets in flight."""
        return self._window.record_count

    @property
    def batch_count(self) -> int:
        """The number of batches in flight."""
        return len(self._window.batches)

    def take_new_batch_counts(self) -> list[int]:
        """Return the offset count of each batch added since the last call, in order."""
        new_counts = self._window.batches.new_counts
        taken = new_counts.copy()
        new_counts.clear()
        return taken

    @property
    def can_acquire(self) -> bool:
        """Whether a member may acquire records.

        This is so if records are available again, if stored batches left a gap (see ``window``),
        or if the limit of records in flight is not reached.
        """
        window = self._window
        return (
            window.next_fetch_offset != window.end_offset
            or window.record_count < self.settings.max_record_locks
        )

    @property
    def next_lock_deadline_ms(self) -> int | None:
        """The earliest lock deadline (monotonic), or None while no record is acquired."""
        return min(
            (
                run.delivery.lock_deadline_ms
                for run in self.runs()
                if run.delivery.state is RecordState.ACQUIRED
            ),
            default=None,
        )

    def runs(self) -> Iterable[Run]:
        """Return the records in flight. The caller must not change them."""
        return self._window.batches.runs()

    # Requests of members

    def state(self) -> WindowState:
        """Return a snapshot for ``undo_acquisition``."""
        return self._window.state()

    def undo_acquisition(self, state: WindowState) -> None:
        """Revert the last acquisition. It then does not count as a delivery.

        No member may have received the records, and nothing else may have happened since.
        """
        self._window.restore(state)

    def acquire(
        self, request: AcquireRequest, fetched: FetchedRecords, now_ms: int
    ) -> list[AcquiredRange]:
        """Let a member acquire fetched records, and return the acquired ranges in offset order."""
        deadline_ms = now_ms + self.settings.record_lock_duration_ms
        return Acquisition(self._window, self.settings, request, fetched, deadline_ms).run()

    def acknowledge(
        self, member_id: str, ranges: Sequence[AcknowledgedRange], now_ms: int
    ) -> StateWrite | None:
        """Acknowledge records that a member holds.

        Return the write that stores the changes, or None if nothing must be stored.

        Raises:
            KafkaError: INVALID_REQUEST or INVALID_RECORD_STATE. Nothing was changed.
        """
        write_id = self._last_write_id + 1
        acknowledging = Acknowledging(
            window=self._window,
            settings=self.settings,
            member_id=member_id,
            now_ms=now_ms,
            write_id=write_id,
        )
        return self.state_write(acknowledging.run(ranges), acknowledging.dead_letters)

    def release(self, member_id: str) -> StateWrite | None:
        """Release all records of a member whose session has ended.

        Return the write that stores this, or None if nothing must be stored. If a record must
        become a dead letter, its lock expires at once, and ``archive_expired`` archives it later.
        """
        write_id = self._last_write_id + 1
        held = [
            run
            for run in self.runs()
            if run.delivery.state is RecordState.ACQUIRED and run.delivery.member_id == member_id
        ]
        for run in held:
            if self.needs_dead_letter(run):
                self._window.batches.change(run.first, run.last, _unlocked)
        others = [run for run in held if not self.needs_dead_letter(run)]
        return self.state_write(self.give_back(others, partial(Run.tentatively, write_id=write_id)))

    # Time and the log

    def expire_locks(self, now_ms: int) -> StateWrite | None:
        """Release records whose lock has expired, except those that must become dead letters.

        Return the write that stores this, or None if nothing must be stored.
        """
        expired = [run for run in self._expired(now_ms) if not self.needs_dead_letter(run)]
        self._count_timeouts(expired)
        return self.state_write(self.give_back(expired, Run.changed))

    def archive_expired(self, now_ms: int) -> StateWrite | None:
        """Tentatively archive records whose last lock has expired, and return the write.

        Return None if there are none. Groups without dead letters never have such records.
        """
        write_id = self._last_write_id + 1
        last_held = [run for run in self._expired(now_ms) if self.needs_dead_letter(run)]
        self._count_timeouts(last_held)
        for run in last_held:
            # Unlock the run, so that a retry of the write does not count its timeout twice.
            self._window.batches.change(run.first, run.last, _unlocked)
        archived = self.give_back(last_held, partial(Run.tentatively, write_id=write_id))
        start = self._window.start_offset
        return self.state_write(
            archived,
            [
                dead_letter_range(run, ArchiveReason.DELIVERED_TOO_OFTEN)
                for run in archived
                if run.first >= start
            ],
        )

    def _expired(self, now_ms: int) -> list[Run]:
        return [
            run
            for run in self.runs()
            if run.delivery.state is RecordState.ACQUIRED
            and run.delivery.lock_deadline_ms <= now_ms
        ]

    def _count_timeouts(self, expired: Iterable[Run]) -> None:
        self.lock_timeout_count += sum(
            run.count for run in expired if run.delivery.lock_deadline_ms != _EXPIRED_MS
        )

    def needs_dead_letter(self, run: Run) -> bool:
        """Whether the record becomes a dead letter when its member gives it back."""
        settings = self.settings
        return (
            settings.has_dead_letters
            and run.delivery.delivery_count >= settings.delivery_count_limit
        )

    def follow_log_start(self, log_start_offset: int) -> bool:
        """Drop records that the log has deleted.

        Return whether the start offset moved. The new start offset is stored with the next write.
        """
        return self._window.follow_log_start(log_start_offset)

    def complete_write(self, write_id: int, *, is_written: bool) -> bool:
        """Confirm or revert the tentative changes of a write.

        Return whether records became available or the start offset moved. If the write has failed,
        the records of these changes are held again by their member. ``expire_locks`` finds the
        records whose lock has expired meanwhile.
        """
        first, last = self._pending.pop(write_id)
        self._window.batches.change(
            first, last, partial(_settled, write_id=write_id, is_written=is_written)
        )
        is_moved = self._window.move_start()
        settled = (
            run
            for batch in self._window.batches.overlapping(first, last)
            for run in batch.runs_in(first, last)
        )
        return is_moved or any(run.is_acquirable for run in settled)

    # Changes of runs

    def give_back(self, runs: Iterable[Run], change: Callable[[Run, Delivery], Run]) -> list[Run]:
        """Change the state of records that their member gives back, and return the runs to store.

        Records below the start offset are archived, whatever their delivery count is.
        """
        start, limit = self._window.start_offset, self.settings.delivery_count_limit
        to_store: list[Run] = []
        for run in runs:
            if run.first < start:
                archived = run.delivery.followed_by(
                    RecordState.ARCHIVED, run.delivery.delivery_count
                )
                to_store.append(
                    Run(first=run.first, last=min(run.last, start - 1), delivery=archived)
                )
            if run.last >= start:
                to_store.append(
                    Run(
                        first=max(run.first, start),
                        last=run.last,
                        delivery=given_back(run.delivery, limit),
                    )
                )
        for new in to_store:
            self._window.batches.change(
                new.first, new.last, partial(_applied, change=change, delivery=new.delivery)
            )
        return to_store

    def state_write(
        self, runs: Sequence[Run], dead_letters: Sequence[DeadLetterRange] = ()
    ) -> StateWrite | None:
        """Return the write that stores the state of ``runs``, or None without runs."""
        if not runs:
            return None
        self._last_write_id += 1
        self._pending[self._last_write_id] = (
            min(run.first for run in runs),
            max(run.last for run in runs),
        )
        return StateWrite(
            write_id=self._last_write_id,
            start_offset=self._window.start_offset,
            delivery_complete_count=self._window.delivery_complete_count,
            batches=tuple(state_batches(runs)),
            dead_letters=tuple(dead_letters),
        )


def _unlocked(run: Run) -> Run:
    return run.changed(replace(run.delivery, lock_deadline_ms=_EXPIRED_MS))


def _applied(run: Run, *, change: Callable[[Run, Delivery], Run], delivery: Delivery) -> Run:
    return change(run, delivery)


def _settled(run: Run, *, write_id: int, is_written: bool) -> Run:
    return run.settled(is_written=is_written) if run.write_id == write_id else run


def state_batches(runs: Iterable[Run]) -> Iterator[StateBatch]:
    """Yield runs as batches to store. Adjacent runs with equal state and count are joined."""
    batch: StateBatch | None = None
    for run in sorted(runs, key=attrgetter("first")):
        state, count = run.delivery.state, run.delivery.delivery_count
        new = StateBatch(
            first_offset=run.first, last_offset=run.last, delivery_state=state, delivery_count=count
        )
        if batch is None:
            batch = new
        elif batch.last_offset + 1 == run.first and (
            batch.delivery_state,
            batch.delivery_count,
        ) == (state, count):
            batch = replace(batch, last_offset=run.last)
        else:
            yield batch
            batch = new
    if batch is not None:
        yield batch
