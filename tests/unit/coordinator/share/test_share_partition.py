"""A share partition delivers, takes acknowledgements, lets locks expire, and stores (KIP-932)."""

from collections.abc import Sequence

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.share.acknowledging import AcknowledgedRange
from log_service.coordinator.share.acquiring import (
    AcquiredRange,
    AcquireRequest,
    FetchedRecords,
    ShareSettings,
)
from log_service.coordinator.share.in_flight import Delivery
from log_service.coordinator.share.record_states import (
    NEXT_STATES,
    AcknowledgeType,
    AcquireMode,
    RecordState,
)
from log_service.coordinator.share.share_partition import SharePartition, StateWrite
from log_service.coordinator.share.window import StateBatch

LOCK_MS = 30_000
ACCEPT, RELEASE, REJECT, GAP, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
    AcknowledgeType.RENEW,
)
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState


class Story:
    """A share partition over a log, with the defaults of a test."""

    def __init__(
        self,
        *log: tuple[int, int],
        settings: ShareSettings | None = None,
        start: int = 0,
        stored: Sequence[tuple[int, int, int, int]] = (),
    ) -> None:
        self.log = list(log)
        self.now_ms = 0
        batches = [
            StateBatch(first_offset=a, last_offset=b, delivery_state=s, delivery_count=c)
            for a, b, s, c in stored
        ]
        self.partition = SharePartition(settings or ShareSettings(), start, batches)

    def acquire(
        self,
        member: str = "a",
        *,
        most: int = 500,
        size: int = 500,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        aborted: Sequence[tuple[int, int]] = (),
        until: int | None = None,
    ) -> list[tuple[int, int, int]]:
        """Acquire what the log holds from the next fetch offset on; ``until`` cuts the log."""
        offset = self.partition.next_fetch_offset
        read = [
            (first, last)
            for first, last in self.log
            if last >= offset and (until is None or first <= until)
        ]
        request = AcquireRequest(member_id=member, max_records=most, batch_size=size, mode=mode)
        fetched = FetchedRecords(fetch_offset=offset, batches=read, aborted=aborted)
        return [told(each) for each in self.partition.acquire(request, fetched, self.now_ms)]

    def acknowledge(
        self, first: int, last: int, *types: AcknowledgeType, member: str = "a"
    ) -> StateWrite | None:
        each = AcknowledgedRange(first_offset=first, last_offset=last, types=types)
        return self.partition.acknowledge(member, [each], self.now_ms)

    def end(self, write: StateWrite | None, *, is_written: bool = True) -> bool:
        assert write is not None
        return self.partition.complete_write(write.write_id, is_written=is_written)

    def acknowledged(
        self, first: int, last: int, *types: AcknowledgeType, member: str = "a"
    ) -> None:
        self.end(self.acknowledge(first, last, *types, member=member))

    def expire(self, after_ms: int = LOCK_MS) -> StateWrite | None:
        self.now_ms += after_ms
        return self.partition.expire_locks(self.now_ms)

    def states(self) -> list[tuple[int, int, RecordState, int]]:
        return [
            (run.first, run.last, run.delivery.state, run.delivery.delivery_count)
            for run in self.partition.runs()
        ]

    def can_acquire(self) -> bool:
        return self.partition.can_acquire

    def deadline_ms(self) -> int | None:
        return self.partition.next_lock_deadline_ms

    def error(self, first: int, last: int, *types: AcknowledgeType, member: str = "a") -> ErrorCode:
        before = self.states()
        with pytest.raises(KafkaError) as caught:
            self.acknowledge(first, last, *types, member=member)
        assert self.states() == before
        return caught.value.code


def told(acquired: AcquiredRange) -> tuple[int, int, int]:
    return acquired.first_offset, acquired.last_offset, acquired.delivery_count


def stored(write: StateWrite | None) -> list[tuple[int, int, int, int]]:
    assert write is not None
    return [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in write.batches
    ]


# The table of states

ALLOWED = {
    (AVAILABLE, ACQUIRED),
    (AVAILABLE, ARCHIVED),
    (ACQUIRED, AVAILABLE),
    (ACQUIRED, ACKNOWLEDGED),
    (ACQUIRED, ARCHIVED),
}


@pytest.mark.parametrize("before", RecordState)
@pytest.mark.parametrize("after", RecordState)
def test_a_record_moves_between_states_as_the_table_says(
    before: RecordState, after: RecordState
) -> None:
    assert (after in NEXT_STATES[before]) == ((before, after) in ALLOWED)
    delivery = Delivery(state=before, delivery_count=1)
    if (before, after) in ALLOWED:
        assert delivery.followed_by(after, 1).state is after
    else:
        with pytest.raises(AssertionError):
            delivery.followed_by(after, 1)


@pytest.mark.parametrize(
    ("kind", "state"),
    [(ACCEPT, ACKNOWLEDGED), (RELEASE, AVAILABLE), (REJECT, ARCHIVED), (GAP, ARCHIVED)],
    ids=lambda each: each.name,
)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("is_written", [True, False])
def test_what_an_acknowledgement_makes_of_an_acquired_record(
    kind: AcknowledgeType, state: RecordState, count: int, is_written: bool
) -> None:
    """Delivered as often as it may be, a released record is archived; what cannot be stored is
    taken back.
    """
    story = Story(
        (0, 9),
        settings=ShareSettings(delivery_count_limit=2),
        stored=[(0, 9, 0, count - 1)] if count > 1 else (),
    )
    story.acquire(most=1, mode=AcquireMode.RECORD_LIMIT)
    expected = ARCHIVED if count == 2 and kind is RELEASE else state
    write = story.acknowledge(0, 0, kind)
    assert stored(write) == [(0, 0, expected, count)]
    assert story.states()[0] == (0, 0, expected, count)
    story.end(write, is_written=is_written)
    if is_written and expected is not AVAILABLE:
        assert story.partition.start_offset == 1
    elif is_written:
        assert story.partition.next_fetch_offset == 0
    else:
        assert story.states()[0] == (0, 0, ACQUIRED, count)


@pytest.mark.parametrize("kind", AcknowledgeType, ids=lambda each: each.name)
@pytest.mark.parametrize("state", ["available", "pending", "acknowledged", "another member's"])
def test_only_what_a_member_holds_can_be_acknowledged(kind: AcknowledgeType, state: str) -> None:
    story = Story((0, 9), (10, 19))
    story.acquire("b" if state == "another member's" else "a")
    if state == "available":
        story.acknowledged(5, 5, RELEASE)
    elif state == "pending":
        story.acknowledge(5, 5, ACCEPT)
    elif state == "acknowledged":
        story.acknowledged(5, 5, ACCEPT)
    assert story.error(5, 5, kind) is ErrorCode.INVALID_RECORD_STATE


# Acquiring


def test_new_records_are_acquired_in_whole_batches_and_cut_near_the_batch_size() -> None:
    story = Story((0, 3), (4, 7), (8, 11), (12, 15))
    assert story.acquire(most=10, size=5) == [(0, 7, 1), (8, 11, 1)]
    assert story.partition.next_fetch_offset == 12
    assert story.acquire("b") == [(12, 15, 1)]
    assert story.acquire("b") == []


def test_a_record_limit_leaves_the_rest_of_a_batch_available() -> None:
    """KIP-1206."""
    story = Story((0, 9))
    assert story.acquire(most=4, mode=AcquireMode.RECORD_LIMIT) == [(0, 3, 1)]
    assert story.partition.next_fetch_offset == 4
    assert story.acquire("b", most=2, mode=AcquireMode.RECORD_LIMIT) == [(4, 5, 1)]
    assert story.acquire("c") == [(6, 9, 1)]


def test_a_whole_batch_that_was_released_is_acquired_whole_and_counts_the_delivery() -> None:
    story = Story((0, 9))
    story.acquire()
    story.acknowledged(0, 9, RELEASE)
    assert story.acquire("b") == [(0, 9, 2)]


def test_batches_that_were_released_are_acquired_together_as_far_as_they_were_read() -> None:
    story = Story((0, 4), (5, 9), (10, 14))
    assert story.acquire(until=5) == [(0, 9, 1)]
    assert story.acquire() == [(10, 14, 1)]
    story.acknowledged(0, 14, RELEASE)
    assert story.acquire("b", until=0) == [(0, 4, 2)]
    assert story.acquire("c") == [(5, 9, 2), (10, 14, 2)]


def test_a_limit_of_records_is_soft_for_a_batch_that_was_released() -> None:
    story = Story((0, 9))
    story.acquire()
    story.acknowledged(0, 9, RELEASE)
    assert story.acquire("b", most=4) == [(0, 9, 2)]


def test_a_member_that_has_enough_takes_no_new_records() -> None:
    """A new leader found the first half of a batch of the log stored."""
    story = Story((0, 9), stored=[(0, 4, 0, 1)])
    assert story.acquire(most=5) == [(0, 4, 2)]
    assert story.acquire("b") == [(5, 9, 1)]


def test_a_full_window_gives_no_more_than_is_asked_for() -> None:
    story = Story((0, 4), (5, 9), settings=ShareSettings(max_record_locks=10))
    assert story.acquire() == [(0, 9, 1)]
    story.acknowledged(2, 8, RELEASE)
    assert story.acquire("b", most=3, mode=AcquireMode.RECORD_LIMIT) == [(2, 4, 2)]


def test_records_of_a_batch_that_fell_apart_are_acquired_by_themselves() -> None:
    story = Story((0, 9))
    story.acquire()
    story.acknowledged(3, 4, RELEASE)
    assert story.acquire("b") == [(3, 4, 2)]
    assert story.error(3, 3, ACCEPT) is ErrorCode.INVALID_RECORD_STATE


def test_no_more_records_are_in_flight_than_may_be_but_released_ones_among_them_are_acquired() -> (
    None
):
    story = Story((0, 4), (5, 9), (10, 14), settings=ShareSettings(max_record_locks=10))
    assert story.acquire() == [(0, 9, 1)]
    assert story.can_acquire() is False
    assert story.acquire() == []
    story.acknowledged(7, 7, RELEASE)
    assert story.can_acquire() is True
    assert story.acquire("b") == [(7, 7, 2)]
    story.acknowledged(0, 4, ACCEPT)
    assert story.acquire("b", most=3) == [(10, 14, 1)]


def test_records_are_not_available_while_their_release_is_being_stored() -> None:
    story = Story((0, 9))
    story.acquire()
    write = story.acknowledge(0, 9, RELEASE)
    assert story.partition.next_fetch_offset == 10
    assert story.acquire("b") == []
    assert story.end(write)
    assert story.acquire("b") == [(0, 9, 2)]


def test_what_was_compacted_away_after_its_release_is_archived_and_the_start_moves_on() -> None:
    story = Story((0, 4), (5, 9))
    story.acquire(until=0)
    story.acknowledged(0, 4, RELEASE)
    story.log = [(5, 9)]
    assert story.acquire() == [(5, 9, 1)]
    assert story.partition.start_offset == 5


def test_the_start_is_where_the_log_has_its_first_record() -> None:
    story = Story((7, 9), start=2)
    assert story.acquire() == [(7, 9, 1)]
    assert story.partition.start_offset == 7


def test_records_below_the_start_are_not_acquired_with_their_batch() -> None:
    story = Story((0, 9), start=4)
    assert story.acquire() == [(4, 9, 1)]


def test_what_an_aborted_transaction_wrote_is_archived_as_it_is_acquired() -> None:
    story = Story((0, 3), (4, 7), (8, 11))
    assert story.acquire(aborted=[(4, 7)]) == [(0, 3, 1), (8, 11, 1)]
    assert story.states() == [(0, 3, ACQUIRED, 1), (4, 7, ARCHIVED, 1), (8, 11, ACQUIRED, 1)]
    assert story.partition.delivery_complete_count == 4


def test_a_window_full_of_aborted_records_moves_on_without_a_consumer() -> None:
    story = Story((0, 9), (10, 19), settings=ShareSettings(max_record_locks=10))
    assert story.acquire(aborted=[(0, 9)], until=0) == []
    assert story.partition.start_offset == 10
    assert story.acquire() == [(10, 19, 1)]


# Records that fail again and again


def fail(story: Story) -> list[tuple[int, int, int]]:
    """Acquire once, release all of it, and return what it was."""
    acquired = story.acquire()
    for first, last, _ in acquired:
        story.acknowledged(first, last, RELEASE)
    return acquired


def test_a_batch_is_delivered_in_ever_smaller_parts_as_it_fails() -> None:
    """Apache Kafka 4.3.1 delivers offsets 3 to 5 as 3 to 5 twice at the limit of 4.

    Then it delivers 3, 3, and 4 and 5 by themselves.
    """
    story = Story((0, 2), (3, 5), settings=ShareSettings(delivery_count_limit=4), start=3)
    assert [fail(story) for _ in range(2)] == [[(3, 5, 1)], [(3, 5, 2)]]
    assert [fail(story) for _ in range(2)] == [[(3, 3, 3)], [(3, 3, 4)]]
    assert fail(story) == [(4, 4, 3)]


def test_a_batch_that_fails_goes_with_no_other_records() -> None:
    story = Story((0, 4), (5, 9), settings=ShareSettings(delivery_count_limit=6))
    story.acquire(until=0)
    story.acquire()
    story.acknowledged(0, 4, RELEASE)
    for count in (2, 3):
        assert story.acquire(until=0) == [(0, 4, count)]
        story.acknowledged(0, 4, RELEASE)
    story.acknowledged(5, 9, RELEASE)
    assert story.acquire() == [(0, 1, 4)]
    assert story.acquire("b") == [(2, 3, 4)]


def test_records_go_with_others_of_their_batch_where_as_many_are_taken_already() -> None:
    """Apache Kafka 4.3.1 counts the part of a failing batch from the first failed record on.

    More may have gone before it.
    """
    story = Story((0, 6), settings=ShareSettings(delivery_count_limit=6))
    story.acquire()
    story.acknowledged(4, 6, RELEASE)
    assert story.acquire() == [(4, 6, 2)]
    story.acknowledged(4, 6, RELEASE)
    assert story.acquire() == [(4, 6, 3)]
    story.acknowledged(0, 6, RELEASE)
    assert story.acquire() == [(0, 3, 2), (4, 6, 4)]


def test_a_record_is_delivered_as_often_as_it_may_be_and_then_archived() -> None:
    story = Story((0, 0), settings=ShareSettings(delivery_count_limit=3))
    assert [fail(story) for _ in range(3)] == [[(0, 0, 1)], [(0, 0, 2)], [(0, 0, 3)]]
    assert story.partition.start_offset == 1


# Acknowledging


def test_one_type_for_each_offset() -> None:
    story = Story((0, 4))
    story.acquire()
    write = story.acknowledge(0, 4, ACCEPT, ACCEPT, RELEASE, GAP, REJECT)
    assert stored(write) == [(0, 1, 2, 1), (2, 2, 0, 1), (3, 4, 4, 1)]
    assert write is not None
    assert (write.start_offset, write.delivery_complete_count) == (0, 4)
    story.end(write)
    assert story.partition.start_offset == 2
    assert story.partition.delivery_complete_count == 2


@pytest.mark.parametrize(
    ("first", "last", "types"),
    [
        (5, 4, (ACCEPT,)),
        (0, 4, ()),
        (0, 4, (ACCEPT, ACCEPT)),
        (0, 4, (5,)),
        (0, 4, (-1,)),
        (3, 12, (ACCEPT,)),
        (10, 10, (ACCEPT,)),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    first: int, last: int, types: Sequence[AcknowledgeType]
) -> None:
    story = Story((0, 9))
    story.acquire()
    assert story.error(first, last, *types) is ErrorCode.INVALID_REQUEST


def test_nothing_in_flight_can_be_acknowledged_where_nothing_was_acquired() -> None:
    assert Story((0, 9)).error(0, 3, ACCEPT) is ErrorCode.INVALID_RECORD_STATE


def test_all_ranges_of_a_request_are_accepted_or_none() -> None:
    story = Story((0, 4), (5, 9))
    story.acquire(until=0)
    story.acquire("b")
    ranges = [
        AcknowledgedRange(first_offset=first, last_offset=first + 4, types=[ACCEPT])
        for first in (0, 5)
    ]
    before = story.states()
    with pytest.raises(KafkaError):
        story.partition.acknowledge("a", ranges, 0)
    assert story.states() == before
    assert story.acknowledge(0, 4, ACCEPT) is not None


def test_records_that_left_the_window_are_acknowledged_without_effect() -> None:
    """After a log start moved, or a write was repeated, a consumer acknowledges what is done with."""
    story = Story((0, 9))
    story.acquire()
    story.partition.follow_log_start(5)
    assert story.acknowledge(0, 4, ACCEPT) is None
    write = story.acknowledge(0, 9, ACCEPT)
    assert stored(write) == [(5, 9, 2, 1)]


def test_a_renewal_holds_records_longer_and_stores_nothing() -> None:
    """KIP-1222."""
    story = Story((0, 9))
    story.acquire()
    story.now_ms = 20_000
    assert story.acknowledge(0, 3, RENEW) is None
    assert stored(story.expire(10_000)) == [(4, 9, 0, 1)]
    assert stored(story.expire(20_000)) == [(0, 3, 0, 1)]


def test_a_group_may_forbid_renewals() -> None:
    story = Story((0, 9), settings=ShareSettings(is_renew_enabled=False))
    story.acquire()
    assert story.error(0, 3, RENEW) is ErrorCode.INVALID_RECORD_STATE


# Locks and sessions


def test_a_lock_expires_and_the_record_counts_as_delivered() -> None:
    story = Story((0, 9))
    story.acquire()
    assert story.deadline_ms() == LOCK_MS
    assert story.expire(LOCK_MS - 1) is None
    write = story.expire(1)
    assert stored(write) == [(0, 9, 0, 1)]
    assert story.deadline_ms() is None
    assert story.acquire("b") == [(0, 9, 2)]
    story.end(write, is_written=False)
    assert story.states() == [(0, 9, ACQUIRED, 2)]


def test_a_lock_that_expired_while_its_write_failed_is_gone() -> None:
    story = Story((0, 9))
    story.acquire()
    write = story.acknowledge(0, 9, ACCEPT)
    assert story.expire() is None
    story.end(write, is_written=False)
    assert story.partition.next_lock_deadline_ms == LOCK_MS
    assert stored(story.expire(0)) == [(0, 9, 0, 1)]


def test_records_below_the_log_start_are_archived_when_they_are_given_back() -> None:
    story = Story((0, 9))
    story.acquire()
    assert story.partition.follow_log_start(4)
    assert not story.partition.follow_log_start(4)
    write = story.expire()
    assert stored(write) == [(0, 3, 4, 1), (4, 9, 0, 1)]
    assert (story.partition.start_offset, story.partition.delivery_complete_count) == (4, 0)
    story.end(write)
    assert story.states() == [(0, 3, ARCHIVED, 1), (4, 9, AVAILABLE, 1)]


def test_the_start_moves_on_over_records_behind_a_new_log_start_that_are_done_with() -> None:
    """A new leader has loaded states of records at the end of the window, and none of those before
    them.

    The log then begins there.
    """
    story = Story((0, 9), stored=[(0, 0, AVAILABLE.value, 1), (8, 9, ARCHIVED.value, 1)])
    assert story.partition.follow_log_start(8)
    assert (story.partition.start_offset, story.partition.end_offset) == (10, 10)
    assert (story.partition.delivery_complete_count, story.states()) == (0, [])


def test_a_log_start_past_everything_begins_anew() -> None:
    story = Story((0, 9))
    story.acquire()
    story.acknowledged(0, 4, RELEASE)
    story.partition.follow_log_start(20)
    story.log = [(20, 24)]
    assert story.acquire("b") == [(20, 24, 1)]
    assert stored(story.expire()) == [(5, 9, 4, 1), (20, 24, 0, 1)]
    assert story.partition.start_offset == 20


# Loading


def test_gaps_between_stored_batches_are_acquired_again() -> None:
    story = Story((10, 19), (20, 29), (30, 39), start=10, stored=[(20, 24, 2, 1), (30, 34, 0, 1)])
    assert (
        story.partition.start_offset,
        story.partition.end_offset,
        story.partition.delivery_complete_count,
    ) == (10, 35, 5)
    assert story.partition.next_fetch_offset == 10
    assert story.acquire(most=12) == [(10, 19, 1), (25, 29, 1)]
    assert story.partition.next_fetch_offset == 30
    assert story.acquire("b") == [(30, 34, 2), (35, 39, 1)]
    story.acknowledged(10, 19, ACCEPT)
    assert story.partition.start_offset == 25


def test_a_gap_that_the_log_has_too_is_not_waited_for() -> None:
    story = Story((30, 39), start=10, stored=[(30, 39, 2, 1)])
    assert story.partition.next_fetch_offset == 10
    assert story.acquire() == []
    story.log.append((40, 44))
    assert story.acquire() == [(40, 44, 1)]
    assert story.partition.start_offset == 40


def test_what_is_done_with_is_not_loaded() -> None:
    story = Story((0, 9), (10, 19), stored=[(0, 3, 2, 1), (4, 6, 4, 3), (7, 9, 0, 2)])
    assert (story.partition.start_offset, story.partition.next_fetch_offset) == (7, 7)
    assert story.acquire() == [(7, 9, 3), (10, 19, 1)]


@pytest.mark.parametrize(
    "batches",
    [[(3, 9, 0, 1)], [(5, 9, 1, 1)], [(5, 9, 3, 1)], [(9, 5, 0, 1)], [(5, 9, 0, 1), (8, 12, 0, 1)]],
    ids=str,
)
def test_a_stored_state_that_makes_no_sense_is_refused(
    batches: list[tuple[int, int, int, int]],
) -> None:
    with pytest.raises(KafkaError) as caught:
        Story((0, 9), start=5, stored=batches)
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


# What never was


def test_an_acquisition_that_is_undone_was_no_delivery_and_no_batch() -> None:
    story = Story((0, 9), (10, 19))
    story.acquire(until=0)
    story.acknowledged(0, 9, RELEASE)
    assert story.partition.take_new_batch_counts() == [10]
    before, states = story.partition.state(), story.states()
    assert story.acquire("b") == [(0, 9, 2), (10, 19, 1)]
    story.partition.undo_acquisition(before)
    assert (story.states(), story.partition.end_offset, story.partition.next_fetch_offset) == (
        states,
        10,
        0,
    )
    assert story.partition.take_new_batch_counts() == []
    assert story.acquire("c") == [(0, 9, 2), (10, 19, 1)]
    assert story.partition.take_new_batch_counts() == [10]


def test_a_batch_that_is_acquired_in_part_comes_whole() -> None:
    story = Story((0, 9))
    assert story.acquire(most=4, mode=AcquireMode.RECORD_LIMIT) == [(0, 3, 1)]
    assert story.acquire(most=4, mode=AcquireMode.RECORD_LIMIT) == [(4, 7, 1)]
    assert story.partition.take_new_batch_counts() == [10]
