"""One share group on one partition that this node leads: records in flight, and their locks.

Decides when changes are stored, and in which order. One write is in progress at a time.
Everything that has to be stored meanwhile goes into the next write. Dead letters are written before
the write that makes their records final. ``coordinator.share.share_partition`` decides the state of
each record. ``shares`` knows which fetches wait.

The object is used during one leadership of this node. It is lost once the partition is led
elsewhere, or another leader has fenced this one at the share coordinator. Then every caller gets an
error, and the next fetch loads the state again.

Invariants: an acknowledgement has one response, when it is stored or given up. While records are
acquired, a timer waits for the first lock that expires. A record of a group with dead letters is
final only when its letter is written.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from log_service.broker.share.counts import FetchTimes, ShareCounts, Spread
from log_service.broker.share.group_settings import GroupShareSettings
from log_service.broker.share.log_reads import ReadBatches
from log_service.broker.share.state_protocol import SharePersister, member_error
from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError, kept
from log_service.common.timers import Timer, TimerQueue
from log_service.coordinator.share.acknowledging import AcknowledgedRange
from log_service.coordinator.share.acquiring import AcquiredRange, AcquireRequest
from log_service.coordinator.share.in_flight import DeadLetterRange
from log_service.coordinator.share.share_coordinator import ShareStateWrite
from log_service.coordinator.share.share_partition import SharePartition, StateWrite
from log_service.coordinator.share.share_state import UNKNOWN_START_OFFSET, ShareKey, ShareState
from log_service.coordinator.share.window import WindowState
from log_service.replication.partition import Partition

RETRY_MS = 1_000
"""The pause before locks are checked again after records or dead letters could not be stored."""
MAX_RETRY_MS = 60_000
"""The longest pause before failed dead letters are tried again. Pauses double from ``RETRY_MS``."""

logger = logging.getLogger(__name__)

OnDone = Callable[[KafkaError | None], None]
OnSafe = Callable[[DeadLetterRange], None]

_FATAL = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Codes for a member if the state at the share coordinator differs from the state here."""


class DeadLetters(Protocol):
    """The writer of dead letters."""

    def write(  # noqa: PLR0917 - whose records, the target, and the receiver of the outcome
        self,
        key: ShareKey,
        partition: Partition,
        topic: str,
        dead: Sequence[DeadLetterRange],
        on_safe: OnSafe,
        on_done: OnDone,
    ) -> None:
        """Write dead letters for records of ``partition`` to a topic.

        ``on_safe`` is called for each range whose letters are replicated. ``on_done`` is called
        once at the end, with an error if some could not be written now.
        """


FindStart = Callable[[Partition, GroupShareSettings, Callable[[int | KafkaError], None]], None]
"""Finds the start of a group in a partition without stored state. Calls back once, now or later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareWorld:
    """The parts of the node that share partitions use.

    ``on_change`` is called when waiting fetches may have something to acquire.
    """

    clock: Clock
    timers: TimerQueue
    persister: SharePersister
    settings: Callable[[str], GroupShareSettings]
    find_start: FindStart
    dead_letters: DeadLetters
    on_change: Callable[[ShareKey], None]
    on_lost: "Callable[[LedSharePartition], None]"
    counts: ShareCounts


class LedSharePartition:
    """One group's records of one partition.

    ``error`` is set once the partition is lost, or its state could not be loaded.
    """

    def __init__(self, key: ShareKey, partition: Partition, world: ShareWorld) -> None:
        self.key = key
        self.partition = partition
        self.error: KafkaError | None = None
        self.is_lost = False
        self._world = world
        self._leader_epoch = partition.leader_epoch
        self._state_epoch = -1
        self._core: SharePartition | None = None
        self._next_fetch_offset: int | None = None
        self._timer: Timer | None = None
        self._queue: list[tuple[StateWrite, OnDone]] = []
        self._safe_letters: set[DeadLetterRange] = set()
        """Ranges whose letters are safe, but whose records are not final.

        Retries skip these letters.
        """
        self._is_writing = False
        self._is_start_stored = False
        self._open_count = 0
        self._give_up_at_ms = 0
        self._give_up_pause_ms = RETRY_MS
        self.fetch_times = FetchTimes()
        self._batch_counts = Spread()
        self._began_ms = world.clock.monotonic_ms()

    def __repr__(self) -> str:
        state = (
            f"lost {self.error}"
            if self.error is not None
            else "loading"
            if self._core is None
            else repr(self._core)
        )
        return f"<LedSharePartition {self.key.group_id}/{self.partition.topic_partition} {state}>"

    @property
    def core(self) -> SharePartition | None:
        """The records in flight, which callers must not change. None until they are loaded."""
        return self._core

    @property
    def lock_timeout_count(self) -> int:
        """Number of records whose lock expired."""
        return 0 if self._core is None else self._core.lock_timeout_count

    @property
    def batch_counts(self) -> Spread:
        """The numbers of records in the batches that came in flight.

        A batch whose acquisition was undone does not count.
        """
        if self._core is not None:
            self._count_batches(self._core)
        return self._batch_counts

    def _count_batches(self, core: SharePartition) -> None:
        for count in core.take_new_batch_counts():
            self._batch_counts.note(count)

    def now_ns(self) -> int:
        """Return the present time, as ``fetch_times`` needs it."""
        return self._world.clock.monotonic_ns()

    @property
    def settings(self) -> GroupShareSettings:
        """The present settings of the group."""
        return self._world.settings(self.key.group_id)

    @property
    def is_idle(self) -> bool:
        """Whether everything is loaded and stored, and no work is in progress."""
        return self._core is not None and not self._open_count and not self._is_writing

    # Loading

    def load(self) -> None:
        """Begin to read the stored state. Records can be acquired once it is loaded."""
        self._world.persister.read(self.key, leader_epoch=self._leader_epoch, on_done=self._on_read)

    def _on_read(self, state: ShareState | KafkaError) -> None:
        if self.is_lost:
            return
        if isinstance(state, KafkaError):
            self._fail(KafkaError(member_error(state), str(state)))
        elif state.start_offset == UNKNOWN_START_OFFSET:
            self._world.find_start(
                self.partition, self.settings, partial(self._on_start_found, state)
            )
        else:
            self._begin(state, state.start_offset)

    def _on_start_found(self, state: ShareState, found: int | KafkaError) -> None:
        if self.is_lost:
            return
        if isinstance(found, KafkaError):
            self._fail(found)
        else:
            self._begin(state, found)

    def _begin(self, state: ShareState, start_offset: int) -> None:
        counts = self._world.counts
        try:
            self._core = SharePartition(self.settings.records, start_offset, state.batches)
        except KafkaError as error:
            self._fail(error)
            return
        self._state_epoch = state.state_epoch
        self._is_start_stored = state.start_offset != UNKNOWN_START_OFFSET
        counts.loads += 1
        counts.load_ms += self._world.clock.monotonic_ms() - self._began_ms
        self._world.on_change(self.key)

    # Acquiring

    @property
    def next_fetch_offset(self) -> int | None:
        """The offset at which the next acquisition reads. None if it can acquire nothing now."""
        core = self._core
        if core is None or self.error is not None:
            return None
        if self._next_fetch_offset is None:
            self._next_fetch_offset = core.next_fetch_offset if core.can_acquire else -1
        return None if self._next_fetch_offset < 0 else self._next_fetch_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last record that was ever acquired."""
        return 0 if self._core is None else self._core.end_offset

    def acquire(self, request: AcquireRequest, batches: ReadBatches) -> list[AcquiredRange]:
        """Acquire records for a member, from batches that were read at ``next_fetch_offset``."""
        core = self._fresh_core()
        self._count_batches(core)
        now_ms = self._world.clock.monotonic_ms()
        acquired = core.acquire(request, batches.fetched, now_ms)
        self._next_fetch_offset = None
        if acquired:
            self._expect_expiry(now_ms + core.settings.record_lock_duration_ms)
        return acquired

    def state(self) -> WindowState:
        """Return the state that ``undo_acquisition`` needs."""
        return self._fresh_core().state()

    def undo_acquisition(self, state: WindowState) -> None:
        """Restore the state before the last acquisition, whose records are not sent."""
        self._fresh_core().undo_acquisition(state)
        self._next_fetch_offset = None

    def follow_log_start(self) -> None:
        """Move the group's start offset up to the log start offset."""
        self._fresh_core().follow_log_start(self.partition.log_start_offset)
        self._next_fetch_offset = None

    def _fresh_core(self) -> SharePartition:
        """Return the records in flight, after the group's present settings were applied to them."""
        assert self._core is not None, "what is not loaded gives nothing"
        settings = self.settings
        records = settings.records
        if settings.dead_letter_topic == self.partition.topic_partition.topic:
            # It is a dead letter already.
            records = replace(records, has_dead_letters=False)
        self._core.settings = records
        return self._core

    # Acknowledging

    def acknowledge(
        self, member_id: str, ranges: Sequence[AcknowledgedRange], on_done: OnDone
    ) -> None:
        """Apply a member's acknowledgements to records that it holds.

        ``on_done`` is called once they are stored, or with the reason why they are not.
        """
        if self.error is not None:
            on_done(self.error)
        elif self._core is None:
            on_done(
                KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"{self.partition.topic_partition} is being loaded: nothing is acquired",
                )
            )
        else:
            core, now_ms = self._fresh_core(), self._world.clock.monotonic_ms()
            try:
                write = core.acknowledge(member_id, ranges, now_ms)
            except KafkaError as error:
                on_done(error)
                return
            self._next_fetch_offset = None
            self._expect_expiry(now_ms + core.settings.record_lock_duration_ms)  # of renewed locks
            self.store(write, on_done)

    def release(self, member_id: str) -> None:
        """Make all records that a member holds available again, because its session has ended."""
        if self._core is None or self.error is not None:
            return
        write = self._fresh_core().release(member_id)
        self._next_fetch_offset = None
        self.store(write, _ignored)
        self._look_at_locks()

    # Locks

    def _expect_expiry(self, deadline_ms: int) -> None:
        """Schedule a check of the locks at ``deadline_ms``, unless an earlier one is pending."""
        timer = self._timer
        if timer is not None and timer.is_pending:
            if timer.deadline_ms <= deadline_ms:
                return
            timer.cancel()
        self._timer = self._world.timers.schedule(deadline_ms, self._look_at_locks)

    def _look_at_locks(self) -> None:
        """Release records whose lock expired. Give up those that were delivered too often."""
        if self._core is None or self.error is not None:
            return
        core = self._fresh_core()
        now_ms = self._world.clock.monotonic_ms()
        counted = core.lock_timeout_count
        write = core.expire_locks(now_ms)
        if write is not None:
            self._next_fetch_offset = None
            self.store(write, _ignored)
        archived = core.archive_expired(now_ms) if now_ms >= self._give_up_at_ms else None
        if archived is not None:
            self._next_fetch_offset = None
            self.store(archived, self._on_given_up)
        self._world.counts.lock_timeouts += core.lock_timeout_count - counted
        deadline_ms = core.next_lock_deadline_ms
        if deadline_ms is not None:
            self._expect_expiry(deadline_ms if deadline_ms > now_ms else now_ms + RETRY_MS)
        if write is not None:
            self._world.on_change(self.key)

    def _on_given_up(self, error: KafkaError | None) -> None:
        """Note whether records were given up.

        If their dead letters failed, double the pause before the next attempt, and check that the
        state still exists.
        """
        if error is None:
            self._give_up_at_ms, self._give_up_pause_ms = 0, RETRY_MS
        elif not self.is_lost:
            self._give_up_at_ms = self._world.clock.monotonic_ms() + self._give_up_pause_ms
            self._give_up_pause_ms = min(2 * self._give_up_pause_ms, MAX_RETRY_MS)
            self._world.persister.read(
                self.key, leader_epoch=self._leader_epoch, on_done=self._on_asked
            )

    def _on_asked(self, state: ShareState | KafkaError) -> None:
        """Stop serving if the group was deleted, or its state was initialized again."""
        if isinstance(state, KafkaError):
            is_over, error = (
                state.code is ErrorCode.INVALID_REQUEST,
                KafkaError(member_error(state), str(state)),
            )
        else:
            is_over = state.state_epoch != self._state_epoch
            error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the state was initialized anew")
        if is_over and not self.is_lost:
            text = (
                "the state of group %s for %s is gone (%s): dead letters that could not be written"
                " are given up"
            )
            logger.warning(text, self.key.group_id, self.partition.topic_partition, error)
            self._fail(error)

    # Storing

    def store(self, write: StateWrite | None, on_done: OnDone) -> None:
        """Send a write to the share coordinator, after its dead letters are written.

        ``on_done`` is called with the outcome.
        """
        if write is None:
            on_done(None)
            return
        self._open_count += 1
        if write.dead_letters:
            topic = self.settings.dead_letter_topic
            due = [each for each in write.dead_letters if each not in self._safe_letters]
            on_written = partial(self._on_dead_letters_written, write, on_done)
            self._world.dead_letters.write(
                self.key, self.partition, topic, due, self._note_safe_letters, on_written
            )
        else:
            self._queue.append((write, on_done))
            self._write_next()

    def _note_safe_letters(self, dead: DeadLetterRange) -> None:
        self._safe_letters.add(dead)

    def _on_dead_letters_written(
        self, write: StateWrite, on_done: OnDone, error: KafkaError | None
    ) -> None:
        if self.is_lost:
            self._settle([(write, on_done)], self.error)
        elif error is not None:
            self._settle([(write, on_done)], error)
        else:
            self._world.counts.dead_letters += sum(
                each.last_offset - each.first_offset + 1 for each in write.dead_letters
            )
            self._queue.append((write, on_done))
            self._write_next()

    def _write_next(self) -> None:
        """Store all queued changes in one write, unless a write is in progress."""
        core = self._core
        if self._is_writing or not self._queue or core is None or self.is_lost:
            return
        writes, self._queue = self._queue, []
        self._write(core, writes)

    def store_start(self) -> bool:
        """Store the start offset, if no state was stored for the group yet.

        Return False if it is stored, or was tried already. Otherwise the next leader would choose
        the start offset again, and would skip the records that were written meanwhile.
        """
        core = self._core
        if core is None or self._is_start_stored:
            return False
        self._write(core, [])
        return True

    def _write(self, core: SharePartition, writes: list[tuple[StateWrite, OnDone]]) -> None:
        self._is_writing = self._is_start_stored = True
        request = ShareStateWrite(
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            start_offset=core.start_offset,
            delivery_complete_count=core.delivery_complete_count,
            batches=tuple(batch for write, _ in writes for batch in write.batches),
        )
        self._world.persister.write(self.key, request, on_done=partial(self._on_written, writes))

    def _on_written(
        self, writes: list[tuple[StateWrite, OnDone]], error: KafkaError | None
    ) -> None:
        self._is_writing = False
        if self.is_lost:
            self._settle(writes, self.error)
            return
        refusal = None if error is None else KafkaError(member_error(error), str(error))
        self._settle(writes, refusal)
        if refusal is not None and refusal.code in _FATAL:
            self._fail(refusal)
        else:
            self._write_next()
            self._world.on_change(self.key)

    def _settle(
        self, writes: Sequence[tuple[StateWrite, OnDone]], error: KafkaError | None
    ) -> None:
        """Complete writes, or take them back after an error, and call their ``on_done``."""
        core = self._core
        assert core is not None, "what is not loaded writes nothing"
        self._open_count -= len(writes)
        for write, _ in writes:
            core.complete_write(write.write_id, is_written=error is None)
            if error is None:
                self._safe_letters.difference_update(write.dead_letters)
        if self._safe_letters:
            self._safe_letters = {
                each for each in self._safe_letters if each.last_offset >= core.start_offset
            }
        self._next_fetch_offset = None
        if error is not None and not self.is_lost:
            self._expect_expiry(self._world.clock.monotonic_ms() + RETRY_MS)
        for _, on_done in writes:
            on_done(error)

    # The end

    def lose(self, error: KafkaError) -> None:
        """Stop serving. Queued writes are taken back and get ``error``."""
        if self.is_lost:
            return
        self.is_lost, self.error = True, kept(error)
        if self._timer is not None:
            self._timer.cancel()
        writes, self._queue = self._queue, []
        if writes:
            self._settle(writes, error)

    def _fail(self, error: KafkaError) -> None:
        self.lose(error)
        self._world.on_lost(self)


def _ignored(_error: KafkaError | None) -> None:
    """Ignore the outcome, because no member waits for it. The lock timer tries again."""
