"""No record of a share partition is lost, and none is done with twice.

Members, clocks, failed writes and new leaders are random. The model knows what the log holds and
what members were told; of the share partition it knows only what every caller sees. Half of its
groups have dead letters: then no record may be given up before its letter is written.
``test_share_bugs`` plants bugs for it to find. Source: KIP-932.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.share.acknowledging import AcknowledgedRange
from log_service.coordinator.share.acquiring import (
    MIN_THROTTLED_COUNT,
    AcquireRequest,
    FetchedRecords,
    ShareSettings,
)
from log_service.coordinator.share.in_flight import DeadLetterRange
from log_service.coordinator.share.record_states import AcknowledgeType, AcquireMode, RecordState
from log_service.coordinator.share.share_partition import SharePartition, StateWrite
from log_service.coordinator.share.window import StateBatch

MEMBERS = ("a", "b", "c")
LOCK_MS = 100
MAX_RECORD_LOCKS = 20
FINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
ENDS = [each for each in AcknowledgeType if each is not AcknowledgeType.RENEW]
MAX_DRAIN_ROUNDS = 2_000


@dataclass
class Held:
    """A record that a member was told it may work on."""

    member_id: str
    deadline_ms: int


class ShareGroupModel(RuleBasedStateMachine):
    """The model holds the view of members and of the share coordinator of one share partition."""

    @initialize(
        sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
        holes=st.sets(st.integers(1, 11), max_size=3),
        limit=st.integers(2, 5),
        has_dead_letters=st.booleans(),
    )
    def begin(self, sizes: list[int], holes: set[int], limit: int, has_dead_letters: bool) -> None:
        self.log: list[tuple[int, int]] = []
        offset = 0
        for index, size in enumerate(sizes):
            if index not in holes:
                self.log.append((offset, offset + size - 1))
            offset += size
        self.limit = limit
        self.settings = ShareSettings(
            delivery_count_limit=limit,
            max_record_locks=MAX_RECORD_LOCKS,
            record_lock_duration_ms=LOCK_MS,
            has_dead_letters=has_dead_letters,
        )
        self.letters: set[int] = set()
        self.accepted: set[int] = set()
        self.accepting: dict[int, set[int]] = {}
        self.needs_no_letter: set[int] = set()
        self.partition = SharePartition(self.settings, 0)
        self.now_ms = 0
        self.log_start = 0
        self.held: dict[int, Held] = {}
        self.counts: dict[int, int] = {}
        self.done: dict[int, RecordState] = {}
        self.stored: dict[int, tuple[int, int]] = {}
        self.stored_start = 0
        self.writes: list[tuple[StateWrite, dict[int, Held]]] = []
        self.last_start = 0

    # What happens

    @rule(
        member=st.sampled_from(MEMBERS),
        most=st.integers(1, 15),
        size=st.integers(1, 10),
        mode=st.sampled_from(AcquireMode),
        batch_count=st.integers(1, 4),
    )
    def acquire(
        self, member: str, most: int, size: int, mode: AcquireMode, batch_count: int
    ) -> None:
        offset = self.partition.next_fetch_offset
        read = [each for each in self.log if each[1] >= offset][:batch_count]
        request = AcquireRequest(member_id=member, max_records=most, batch_size=size, mode=mode)
        acquired = self.partition.acquire(
            request, FetchedRecords(fetch_offset=offset, batches=read), self.now_ms
        )
        count = 0
        for each in acquired:
            for number in range(each.first_offset, each.last_offset + 1):
                assert number not in self.held, "two members hold a record"
                assert number not in self.done, "a record is delivered after it was done with"
                assert number not in self.accepted, (
                    "a record is delivered after a member heard that it is acknowledged"
                )
                assert self.log_start <= number <= read[-1][1]
                assert each.delivery_count == self.counts.get(number, 0) + 1
                assert each.delivery_count <= self.limit
                self.counts[number] = each.delivery_count
                self.held[number] = Held(member, self.now_ms + LOCK_MS)
            count += each.count
        if mode is AcquireMode.RECORD_LIMIT:
            assert count <= most
        if self.limit > MIN_THROTTLED_COUNT and any(
            each.delivery_count == self.limit for each in acquired
        ):
            assert count == 1, "a record on its last delivery has company"

    @precondition(lambda self: self.held)
    @rule(chosen=st.data())
    def acknowledge(self, chosen: st.DataObject) -> None:
        first = chosen.draw(st.sampled_from(sorted(self.held)))
        member = self.held[first].member_id
        last = first
        most = first + chosen.draw(st.integers(0, 5))
        while last < most and last + 1 in self.held and self.held[last + 1].member_id == member:
            last += 1
        types = chosen.draw(
            st.lists(
                st.sampled_from(AcknowledgeType),
                min_size=last - first + 1,
                max_size=last - first + 1,
            )
        )
        write = self.partition.acknowledge(
            member,
            [AcknowledgedRange(first_offset=first, last_offset=last, types=types)],
            self.now_ms,
        )
        taken: dict[int, Held] = {}
        for number, kind in zip(range(first, last + 1), types, strict=True):
            if number < self.partition.start_offset:
                continue
            if kind is AcknowledgeType.RENEW:
                self.held[number].deadline_ms = self.now_ms + LOCK_MS
            else:
                taken[number] = self.held.pop(number)
        assert (write is None) == (not taken)
        if write is None:
            return
        assert {
            number
            for each in write.batches
            for number in range(each.first_offset, each.last_offset + 1)
        } == set(taken)
        said = dict(zip(range(first, last + 1), types, strict=True))
        self.accepting[write.write_id] = {
            number for number in taken if said[number] is AcknowledgeType.ACCEPT
        }
        self.needs_no_letter |= {number for number in taken if said[number] is AcknowledgeType.GAP}
        given_up = {
            number
            for number in taken
            if said[number] is AcknowledgeType.REJECT
            or (said[number] is AcknowledgeType.RELEASE and self.counts[number] >= self.limit)
        }
        assert numbers_of(write.dead_letters) == (
            given_up if self.settings.has_dead_letters else set()
        )
        self._note_write(write, taken)

    @precondition(lambda self: self.held)
    @rule(chosen=st.data(), kind=st.sampled_from(ENDS))
    def acknowledge_partly_wrong(self, chosen: st.DataObject, kind: AcknowledgeType) -> None:
        """One range that the member holds, and one behind it that it does not: nothing changes."""
        first = chosen.draw(st.sampled_from(sorted(self.held)))
        member = self.held[first].member_id
        end = max(self.partition.end_offset, first + 1) + chosen.draw(st.integers(0, 3))
        ranges = [
            AcknowledgedRange(first_offset=each, last_offset=each, types=[kind])
            for each in (first, end)
        ]
        before = list(self.partition.runs())
        with pytest.raises(KafkaError):
            self.partition.acknowledge(member, ranges, self.now_ms)
        assert list(self.partition.runs()) == before

    @precondition(lambda self: self.held)
    @rule(chosen=st.data(), kind=st.sampled_from(ENDS))
    def acknowledge_what_another_holds(self, chosen: st.DataObject, kind: AcknowledgeType) -> None:
        offset = chosen.draw(st.sampled_from(sorted(self.held)))
        if offset < self.partition.start_offset:
            return
        other = next(member for member in MEMBERS if member != self.held[offset].member_id)
        with pytest.raises(KafkaError) as caught:
            self.partition.acknowledge(
                other,
                [AcknowledgedRange(first_offset=offset, last_offset=offset, types=[kind])],
                self.now_ms,
            )
        assert caught.value.code is ErrorCode.INVALID_RECORD_STATE

    @rule(offset=st.integers(0, 72), member=st.sampled_from(MEMBERS), kind=st.sampled_from(ENDS))
    def acknowledge_what_is_not_held(self, offset: int, member: str, kind: AcknowledgeType) -> None:
        held = self.held.get(offset)
        if offset < self.partition.start_offset or (held is not None and held.member_id == member):
            return
        before = list(self.partition.runs())
        if offset in self.counts or offset in self.done:
            with pytest.raises(KafkaError) as caught:
                self.partition.acknowledge(
                    member,
                    [AcknowledgedRange(first_offset=offset, last_offset=offset, types=[kind])],
                    self.now_ms,
                )
            assert caught.value.code in (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
        assert list(self.partition.runs()) == before

    @precondition(lambda self: self.writes)
    @rule(chosen=st.data(), is_written=st.booleans())
    def complete_write(self, chosen: st.DataObject, is_written: bool) -> None:
        """The last write completes as likely as the first."""
        self._complete(chosen.draw(st.integers(0, len(self.writes) - 1)), is_written=is_written)

    @rule(after_ms=st.integers(0, 60))
    def wait(self, after_ms: int) -> None:
        self.now_ms += after_ms
        self._expire()

    @rule(member=st.sampled_from(MEMBERS), most=st.integers(1, 15), times=st.integers(1, 4))
    def fail_again(self, member: str, most: int, times: int) -> None:
        """A member takes records and is never heard of again: they come near to their last
        delivery.
        """
        for _ in range(times):
            self.acquire(member, most, 10, AcquireMode.BATCH_OPTIMIZED, 3)
            self.now_ms += LOCK_MS
            self._expire()

    @rule(member=st.sampled_from(MEMBERS))
    def release(self, member: str) -> None:
        mine = {number: held for number, held in self.held.items() if held.member_id == member}
        last_held = {number for number in mine if self._needs_dead_letter(number)}
        for number in last_held:
            self.held[number].deadline_ms = -1
        mine = {number: held for number, held in mine.items() if number not in last_held}
        write = self.partition.release(member)
        assert (write is None) == (not mine)
        if write is not None:
            for number in mine:
                del self.held[number]
            self._note_write(write, mine)
        self._expire()

    @rule(step=st.integers(1, 8))
    def delete_records(self, step: int) -> None:
        self.log_start = min(self.log_start + step, self.log[-1][1] + 1)
        self.log = [
            (max(first, self.log_start), last) for first, last in self.log if last >= self.log_start
        ] or self.log[-1:]
        self.partition.follow_log_start(self.log_start)
        for write, taken in self.writes:
            for each in write.batches:
                if each.delivery_state == RecordState.AVAILABLE:
                    for number in range(
                        each.first_offset, min(each.last_offset + 1, self.log_start)
                    ):
                        taken.pop(number, None)

    @rule()
    def elect_a_new_leader(self) -> None:
        """Elect a new leader.

        State that was not stored is forgotten, and its records are delivered again.
        """
        kept = {
            number: state
            for number, state in sorted(self.stored.items())
            if number >= self.stored_start
        }
        batches = [
            StateBatch(
                first_offset=number, last_offset=number, delivery_state=state, delivery_count=count
            )
            for number, (state, count) in kept.items()
        ]
        self.partition = SharePartition(self.settings, self.stored_start, batches)
        self.partition.follow_log_start(self.log_start)
        self.held, self.writes, self.accepting = {}, [], {}
        self.counts = {number: count for number, (_, count) in kept.items()}
        self.done = {
            number: state for number, state in self.done.items() if number < self.stored_start
        }
        self.done |= {
            number: RecordState(state) for number, (state, _) in kept.items() if state in FINAL
        }
        self.last_start = 0

    # What must hold

    @invariant()
    def nothing_below_the_start_is_open(self) -> None:
        start = self.partition.start_offset
        assert start >= self.last_start, "the start offset went back"
        self.last_start = start
        for first, last in self.log:
            for number in range(first, min(last + 1, start)):
                assert number in self.done or number < self.log_start, "a record was lost"

    @invariant()
    def members_hold_what_the_partition_says(self) -> None:
        acquired = {
            number: (run.delivery.member_id, run.delivery.lock_deadline_ms)
            for run in self.partition.runs()
            if run.delivery.state is RecordState.ACQUIRED
            for number in range(run.first, run.last + 1)
        }
        assert acquired == {
            number: (held.member_id, held.deadline_ms) for number, held in self.held.items()
        }

    @invariant()
    def runs_neither_overlap_nor_leave_the_window(self) -> None:
        reached = -1
        for run in self.partition.runs():
            assert reached < run.first <= run.last < self.partition.end_offset
            reached = run.last

    def teardown(self) -> None:
        """Whatever happened: members that go on acquiring and acknowledging reach the end of the
        log.
        """
        for _ in range(MAX_DRAIN_ROUNDS):
            while self.writes:
                self._complete(0, is_written=True)
            if self.partition.start_offset > self.log[-1][1]:
                break
            self.now_ms += LOCK_MS
            self._expire()
            self.acquire("a", 15, 10, AcquireMode.BATCH_OPTIMIZED, 4)
            ranges = [
                AcknowledgedRange(
                    first_offset=each, last_offset=each, types=[AcknowledgeType.ACCEPT]
                )
                for each in sorted(self.held)
            ]
            write = self.partition.acknowledge("a", ranges, self.now_ms)
            taken, self.held = (
                {
                    number: each
                    for number, each in self.held.items()
                    if number >= self.partition.start_offset
                },
                {
                    number: each
                    for number, each in self.held.items()
                    if number < self.partition.start_offset
                },
            )
            if write is not None:
                self.writes.append((write, taken))
        assert self.partition.start_offset > self.log[-1][1], "the window stands still"
        self.nothing_below_the_start_is_open()

    def _needs_dead_letter(self, number: int) -> bool:
        return self.settings.has_dead_letters and self.counts[number] >= self.limit

    def _note_write(self, write: StateWrite, taken: dict[int, Held]) -> None:
        for each in write.batches:
            for number in range(each.first_offset, each.last_offset + 1):
                assert each.delivery_count == self.counts[number], (
                    "what is stored is not how often the record was delivered"
                )
        self.writes.append((write, taken))

    def _complete(self, index: int, *, is_written: bool) -> None:
        write, taken = self.writes.pop(index)
        accepting = self.accepting.pop(write.write_id, set())
        if is_written:
            self.letters |= numbers_of(write.dead_letters)
        self.partition.complete_write(write.write_id, is_written=is_written)
        if is_written:
            assert not accepting & self.accepted, "a record is acknowledged twice"
            self.accepted |= accepting
            self.stored_start = max(self.stored_start, write.start_offset)
            for each in write.batches:
                for number in range(each.first_offset, each.last_offset + 1):
                    self._store(number, each.delivery_state, each.delivery_count)
        else:
            self.held |= taken
            self._expire()

    def _store(self, number: int, state: int, count: int) -> None:
        self.stored[number] = max(
            self.stored.get(number, (0, 0)), (state, count), key=lambda each: (each[1], each[0])
        )
        if state in FINAL:
            self._end(number, RecordState(state))

    def _end(self, number: int, state: RecordState) -> None:
        self.done[number] = state
        if self.settings.has_dead_letters and state is RecordState.ARCHIVED:
            is_excused = number in self.needs_no_letter or number < self.log_start
            assert is_excused or number in self.letters, (
                "a record is given up, and has no dead letter"
            )

    def _expire(self) -> None:
        late = {
            number: held for number, held in self.held.items() if held.deadline_ms <= self.now_ms
        }
        last_held = {
            number: held for number, held in late.items() if self._needs_dead_letter(number)
        }
        others = late.keys() - last_held.keys()
        write = self.partition.expire_locks(self.now_ms)
        assert (write is None) == (not others), "a lock did not expire in its time"
        if write is not None:
            for number in others:
                del self.held[number]
            for each in write.batches:
                if each.delivery_state in FINAL:
                    for number in range(each.first_offset, each.last_offset + 1):
                        self._end(number, RecordState(each.delivery_state))
            self._note_write(write, {})
        archived = self.partition.archive_expired(self.now_ms)
        assert (archived is None) == (not last_held), (
            "a record that is given up did not expire in its time"
        )
        if archived is not None:
            for number in last_held:
                del self.held[number]
            self._note_write(archived, last_held)


def numbers_of(dead: Sequence[DeadLetterRange]) -> set[int]:
    return {number for each in dead for number in range(each.first_offset, each.last_offset + 1)}
