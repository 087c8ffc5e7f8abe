"""A leader checks transactional batches and markers (KIP-98, KIP-890, KIP-1228).

It checks verification, sequences and epochs.
"""

from typing import Any

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import BatchHeader, parse_header
from log_service.records.control import EndOfTransaction
from log_service.storage.producer_state import ProducerState
from log_service.storage.transaction_checks import (
    LAST_EPOCH,
    begin_verification,
    check_client_batch,
    check_marker,
    check_own_batch,
)
from log_service.storage.verifications import ONGOING, UNCHECKED, Verification, Verifications
from tests.unit.storage.context import NOW_MS, LogContext, idempotent

PRODUCER = 7
DAY_MS = 86_400_000


def data(
    sequence: int = 0, *, epoch: int = 0, count: int = 1, is_transactional: bool = True
) -> BatchHeader:
    return parse_header(
        idempotent(PRODUCER, sequence, count, epoch=epoch, is_transactional=is_transactional)
    )


def marker(epoch: int = 0, *, coordinator_epoch: int = 0, version: int = 1) -> EndOfTransaction:
    return EndOfTransaction(
        PRODUCER,
        epoch,
        is_abort=False,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


class Story:
    """One log's producers, and what a leader does with them."""

    def __init__(self) -> None:
        self.producers = ProducerState(expiration_ms=DAY_MS)
        self.end = 0

    def begin(
        self, *, sequence: int = 0, epoch: int = 0, is_version_2: bool = False, now_ms: int = 0
    ) -> Verification:
        return begin_verification(
            self.producers, PRODUCER, epoch, sequence, is_version_2=is_version_2, now_ms=now_ms
        )

    def append(self, header: BatchHeader, shown: Verification) -> None:
        assert check_client_batch(self.producers, header, shown) is None
        self.producers.update(header, self.end)
        self.end += header.last_offset_delta + 1

    def write(self, header: BatchHeader, *, is_version_2: bool = False) -> None:
        shown = self.begin(
            sequence=header.base_sequence, epoch=header.producer_epoch, is_version_2=is_version_2
        )
        self.append(header, shown)

    def mark(self, epoch: int = 0, **more: Any) -> None:
        told = marker(epoch, **more)
        check_marker(
            self.producers.get(PRODUCER),
            told.producer_epoch,
            told.coordinator_epoch,
            told.transaction_version,
        )
        header = parse_header(told.build(timestamp_ms=0, base_offset=self.end, leader_epoch=0))
        self.producers.end_transaction(header, told.coordinator_epoch)
        self.end += 1

    def refusal(self, header: BatchHeader, shown: Verification) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            check_client_batch(self.producers, header, shown)
        return caught.value.code

    def marker_refusal(self, epoch: int, **more: Any) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            self.mark(epoch, **more)
        return caught.value.code


# Verification


@pytest.mark.parametrize("is_version_2", [False, True])
def test_the_first_batch_shows_what_was_verified_and_the_next_ones_need_nothing(
    is_version_2: bool,
) -> None:
    story = Story()
    shown = story.begin(is_version_2=is_version_2)
    assert shown is story.begin(is_version_2=is_version_2), "asked for again, it is the same"
    story.append(data(), shown)
    assert len(story.producers.verifications) == 0
    assert story.begin(sequence=1) is ONGOING
    story.append(data(1), ONGOING)


def test_a_batch_that_comes_after_its_transaction_has_ended_is_refused() -> None:
    story = Story()
    story.write(data())
    story.mark()
    assert story.refusal(data(1), ONGOING) is ErrorCode.INVALID_TXN_STATE
    shown = story.begin(sequence=1)
    story.mark()
    assert story.refusal(data(1), shown) is ErrorCode.INVALID_TXN_STATE, (
        "a marker came while the coordinator was being asked"
    )
    story.append(data(1), UNCHECKED)


def test_a_marker_of_version_2_leaves_the_verification_of_the_next_transaction() -> None:
    story = Story()
    story.write(data(), is_version_2=True)
    shown = story.begin(epoch=1, is_version_2=True)
    story.mark(1, version=2)
    story.append(data(epoch=1), shown)


def test_a_marker_of_version_1_takes_the_verification_of_its_epoch_away() -> None:
    story = Story()
    shown = story.begin(epoch=1)
    story.mark(1)
    assert story.refusal(data(epoch=1), shown) is ErrorCode.INVALID_TXN_STATE


def test_no_batch_overtakes_the_lowest_sequence_that_is_being_verified() -> None:
    story = Story()
    story.write(data(count=3))
    story.mark()
    shown = story.begin(sequence=5)
    assert story.begin(sequence=3) is shown
    assert story.refusal(data(5), shown) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    story.append(data(3), shown)


@pytest.mark.parametrize("sequences", [(5, 3), (3, 5), (3, 3)])
def test_no_batch_of_an_unknown_producer_overtakes_the_lowest_one_in_whatever_order_they_are_asked_for(
    sequences: tuple[int, int],
) -> None:
    story = Story()
    shown, _ = (story.begin(sequence=sequence) for sequence in sequences)
    assert story.refusal(data(5), shown) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    story.append(data(3), shown)


def test_a_later_epoch_begins_its_sequences_anew() -> None:
    verifications = Verifications()
    begun = verifications.begin(PRODUCER, 0, 5, is_version_2=True, now_ms=0)
    assert begun.lowest_sequence == 5
    verifications.begin(PRODUCER, 1, 9, is_version_2=True, now_ms=0)
    assert (begun.epoch, begun.lowest_sequence) == (1, 9)
    verifications.begin(PRODUCER, 0, 1, is_version_2=True, now_ms=0)
    assert begun.lowest_sequence == 9, "what an older epoch sends changes nothing"


def test_with_version_2_an_unknown_producer_begins_with_0() -> None:
    story = Story()
    assert (
        story.refusal(data(3), story.begin(sequence=3, is_version_2=True))
        is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    older = Story()
    older.append(data(3), older.begin(sequence=3))


def test_a_verification_that_nothing_ends_expires() -> None:
    story = Story()
    shown = story.begin(now_ms=1_000)
    story.producers.expire(1_000 + DAY_MS - 1)
    assert story.producers.verifications.get(PRODUCER) is shown
    story.producers.expire(1_000 + DAY_MS)
    assert story.refusal(data(), shown) is ErrorCode.INVALID_TXN_STATE


def test_an_older_epoch_is_not_even_asked_about() -> None:
    story = Story()
    story.write(data(epoch=3))
    with pytest.raises(KafkaError) as caught:
        story.begin(epoch=2)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert story.refusal(data(1, epoch=2), ONGOING) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_coordinators_own_batch_is_asked_for_epoch_and_verification() -> None:
    story = Story()
    shown = story.begin(sequence=-1, epoch=2)
    check_own_batch(story.producers, data(-1, epoch=2), shown)
    for header, error in (
        (data(-1, epoch=2), ErrorCode.INVALID_TXN_STATE),
        (data(-1, epoch=1), ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        story.mark(2)
        with pytest.raises(KafkaError) as caught:
            check_own_batch(story.producers, header, shown)
        assert caught.value.code is error


# Batches


def test_a_repetition_is_known_also_after_its_transaction_has_ended() -> None:
    story = Story()
    story.write(data(count=2))
    story.mark()
    repeated = check_client_batch(story.producers, data(count=2), ONGOING)
    assert repeated is not None
    assert (repeated.first_offset, repeated.last_offset) == (0, 1)


def test_a_batch_outside_of_transactions_waits_for_the_marker() -> None:
    story = Story()
    story.write(data())
    for header in (data(1, is_transactional=False), data(0, epoch=1, is_transactional=False)):
        with pytest.raises(KafkaError) as caught:
            story.producers.check(header)
        assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    story.mark()
    assert story.producers.check(data(1, is_transactional=False)) is None


# Markers


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "refusal"),
    [
        (0, 4, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 5, True, None),
        (1, 6, True, None),
        (2, 4, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, False, None),
        (2, 6, True, None),
    ],
)
def test_which_epochs_a_marker_may_have(
    version: int, epoch: int, refusal: ErrorCode | None, *, is_open: bool
) -> None:
    story = Story()
    story.write(data(epoch=5))
    if not is_open:
        story.mark(5)
    if refusal is None:
        story.mark(epoch, version=version)
        assert story.producers.first_open_offset is None
    else:
        assert story.marker_refusal(epoch, version=version) is refusal


def test_the_last_epoch_may_have_its_own_marker() -> None:
    story = Story()
    story.write(data(epoch=LAST_EPOCH))
    story.mark(LAST_EPOCH, version=2)


def test_a_marker_of_an_older_coordinator_is_fenced() -> None:
    story = Story()
    story.mark(coordinator_epoch=5)
    assert story.marker_refusal(0, coordinator_epoch=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    story.mark(coordinator_epoch=5)


def test_the_next_epoch_begins_with_sequence_0_after_the_marker_of_version_2() -> None:
    story = Story()
    story.write(data(count=4))
    story.mark(1, version=2)
    assert story.refusal(data(4, epoch=1), UNCHECKED) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    story.append(data(epoch=1), UNCHECKED)


# The log


def test_a_log_takes_markers_and_remembers_them_after_a_restart() -> None:
    context = LogContext()
    context.append(idempotent(PRODUCER, 0, 2, is_transactional=True))
    aborting = EndOfTransaction(PRODUCER, 0, is_abort=True, coordinator_epoch=3)
    appended = context.log.append_marker(aborting, leader_epoch=0, now_ms=NOW_MS)
    assert (appended.base_offset, context.log.log_end_offset) == (2, 3)
    assert [tuple(each) for each in context.log.aborted_transactions.ended] == [(PRODUCER, 0, 2, 3)]
    with pytest.raises(KafkaError) as caught:
        context.log.append_marker(
            aborting._replace(coordinator_epoch=2), leader_epoch=0, now_ms=NOW_MS
        )
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert context.log.log_end_offset == 3, "nothing was appended"
    context.append(idempotent(PRODUCER, 2, is_transactional=True))
    for reopen in (context.open, context.reopen_clean):
        log = reopen()
        assert [tuple(each) for each in log.aborted_transactions.ended] == [(PRODUCER, 0, 2, 3)]
        assert log.producer_state.first_open_offset == 3
        entry = log.producer_state.get(PRODUCER)
        assert entry is not None
        assert entry.coordinator_epoch == 3


def test_a_log_that_starts_within_an_open_transaction_is_stable_up_to_its_start() -> None:
    context = LogContext()
    context.append(idempotent(PRODUCER, 0, 2, is_transactional=True))
    context.append_records(1, 1)
    unstable = context.log.producer_state.unstable
    assert unstable is not None
    assert unstable.last_stable_offset(4) == 0
    context.log.advance_log_start_offset(3)
    assert unstable.last_stable_offset(4) == 3
    assert unstable.last_stable_offset(2) == 2


def test_the_last_batch_of_the_first_open_transaction_tells_how_late_it_is() -> None:
    """Restarted from the log, too: no clock says there when a producer wrote."""
    context = LogContext()

    def told() -> int | None:
        return context.log.producer_state.first_open_last_ms

    assert told() is None
    for first_ms, producer_id in ((NOW_MS - 50, PRODUCER), (NOW_MS - 90, PRODUCER + 1)):
        for sequence in range(2):
            context.append(
                idempotent(
                    producer_id, sequence, is_transactional=True, timestamp=first_ms + sequence
                )
            )
    for reopen in (context.open, context.reopen_clean):
        assert told() == NOW_MS - 49, (
            "the second one wrote longer ago, and does not hold readers back"
        )
        reopen()
    context.log.append_marker(
        EndOfTransaction(PRODUCER, 0, is_abort=False, coordinator_epoch=0),
        leader_epoch=0,
        now_ms=NOW_MS,
    )
    assert told() == NOW_MS - 89
