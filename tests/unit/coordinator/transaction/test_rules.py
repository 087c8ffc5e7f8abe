"""Each request changes a transactional id by the tables of Kafka's coordinator, cell by cell."""

from itertools import product

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.transaction import rules
from log_service.coordinator.transaction.rules import Producer
from log_service.coordinator.transaction.transaction import (
    ENDING,
    SOURCES,
    Transaction,
    TransactionState,
)
from tests.unit.coordinator.transaction.transaction_story import ORDERS, REFUNDS, TIMEOUT_MS, TXN

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = list(
    TransactionState
)[:6]
STORED = (EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT)
PID, EPOCH, NOW_MS = 7, 5, 9_000
LAST_EPOCH = 32_766

ALLOWED = {
    (EMPTY, EMPTY), (COMPLETE_COMMIT, EMPTY), (COMPLETE_ABORT, EMPTY),
    (EMPTY, ONGOING), (ONGOING, ONGOING), (COMPLETE_COMMIT, ONGOING), (COMPLETE_ABORT, ONGOING),
    (ONGOING, PREPARE_COMMIT),
    (EMPTY, PREPARE_ABORT), (ONGOING, PREPARE_ABORT), (COMPLETE_COMMIT, PREPARE_ABORT), (COMPLETE_ABORT, PREPARE_ABORT),
    (PREPARE_COMMIT, COMPLETE_COMMIT), (PREPARE_ABORT, COMPLETE_ABORT),
}  # fmt: skip


def standing(state: TransactionState, **changes: object) -> Transaction:
    fields: dict[str, object] = {
        "transactional_id": TXN,
        "producer_id": PID,
        "producer_epoch": EPOCH,
        "timeout_ms": TIMEOUT_MS,
    }
    is_open = state in ENDING | {ONGOING}
    fields |= {
        "partitions": frozenset({ORDERS}) if is_open else frozenset(),
        "start_ms": 100 if is_open else -1,
        "last_update_ms": 100,
    }
    return Transaction(state=state, **{**fields, **changes})  # type: ignore[arg-type]


def new_id() -> int:
    return 8


def no_id() -> int:
    raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def producer(epoch: int = EPOCH, producer_id: int = PID) -> Producer:
    return Producer(producer_id=producer_id, producer_epoch=epoch)


def outcome_of(known: Transaction | None, decide: object) -> object:
    """Return the error code, NONE where nothing changed, else the state that follows with its
    epoch.
    """
    assert callable(decide)
    try:
        following = decide()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE if following is known else (following.state, following.producer_epoch)


@pytest.mark.parametrize(("source", "target"), list(product(STORED, STORED)))
def test_a_state_follows_only_those_that_the_table_names(
    source: TransactionState, target: TransactionState
) -> None:
    assert set(SOURCES) == set(STORED)
    known = standing(source)
    if (source, target) in ALLOWED:
        assert known.moved(target, NOW_MS).state is target
    else:
        with pytest.raises(AssertionError, match="cannot move"):
            known.moved(target, NOW_MS)


def test_states_are_called_as_kafka_calls_them() -> None:
    assert [state.label for state in TransactionState] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
    ]  # fmt: skip


# EndTxn

FENCED, WRONG, BUSY, NONE = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NONE,
)
RAISED_ABORT, RAISED_COMMIT = (PREPARE_ABORT, EPOCH + 1), (PREPARE_COMMIT, EPOCH + 1)

RAISING = {  # abort of the epoch before, abort of the current one, commit of the epoch before, commit of the current one
    EMPTY: (FENCED, RAISED_ABORT, FENCED, WRONG),
    COMPLETE_ABORT: (NONE, RAISED_ABORT, WRONG, WRONG),
    COMPLETE_COMMIT: (WRONG, RAISED_ABORT, NONE, WRONG),
    ONGOING: (FENCED, RAISED_ABORT, FENCED, RAISED_COMMIT),
    PREPARE_ABORT: (BUSY, BUSY, BUSY, BUSY),
    PREPARE_COMMIT: (BUSY, BUSY, BUSY, BUSY),
}


@pytest.mark.parametrize("state", STORED, ids=lambda state: state.label)
def test_end_txn_from_version_5_on_goes_by_state_outcome_and_epoch(state: TransactionState) -> None:
    known = standing(state)
    cells = [(is_commit, epoch) for is_commit in (False, True) for epoch in (EPOCH - 1, EPOCH)]
    outcomes = tuple(
        outcome_of(
            known,
            lambda c=is_commit, e=epoch: rules.end_raising_epoch(
                known, producer(e), no_id, is_commit=c, now_ms=NOW_MS
            ),
        )
        for is_commit, epoch in cells
    )
    assert outcomes == RAISING[state]


@pytest.mark.parametrize(
    "state", [EMPTY, ONGOING, COMPLETE_ABORT, COMPLETE_COMMIT], ids=lambda state: state.label
)
@pytest.mark.parametrize("epoch", [EPOCH - 2, EPOCH + 1])
@pytest.mark.parametrize("is_commit", [True, False])
def test_end_txn_from_version_5_on_fences_producers_of_any_other_epoch(
    state: TransactionState, epoch: int, is_commit: bool
) -> None:
    known = standing(state)
    decided = outcome_of(
        known,
        lambda: rules.end_raising_epoch(
            known, producer(epoch), no_id, is_commit=is_commit, now_ms=NOW_MS
        ),
    )
    assert decided is FENCED


def test_an_end_keeps_the_time_at_which_its_transaction_began() -> None:
    for known, start_ms in (
        (standing(ONGOING), 100),
        (standing(EMPTY), NOW_MS),
        (standing(COMPLETE_COMMIT, start_ms=100), NOW_MS),
    ):
        assert (
            rules.end_raising_epoch(
                known, producer(), no_id, is_commit=False, now_ms=NOW_MS
            ).start_ms
            == start_ms
        )


CLASSIC = {  # abort, commit
    EMPTY: (WRONG, WRONG),
    ONGOING: ((PREPARE_ABORT, EPOCH), (PREPARE_COMMIT, EPOCH)),
    COMPLETE_ABORT: (NONE, WRONG),
    COMPLETE_COMMIT: (WRONG, NONE),
    PREPARE_ABORT: (BUSY, BUSY),
    PREPARE_COMMIT: (BUSY, BUSY),
}


@pytest.mark.parametrize("state", STORED, ids=lambda state: state.label)
def test_end_txn_up_to_version_4_keeps_the_epoch(state: TransactionState) -> None:
    known = standing(state)
    outcomes = tuple(
        outcome_of(
            known,
            lambda c=is_commit: rules.end_classic(known, producer(), is_commit=c, now_ms=NOW_MS),
        )
        for is_commit in (False, True)
    )
    assert outcomes == CLASSIC[state]


@pytest.mark.parametrize("state", STORED, ids=lambda state: state.label)
@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_end_txn_up_to_version_4_takes_the_current_epoch_only(
    state: TransactionState, epoch: int
) -> None:
    known = standing(state)
    assert (
        outcome_of(
            known, lambda: rules.end_classic(known, producer(epoch), is_commit=False, now_ms=NOW_MS)
        )
        is FENCED
    )


@pytest.mark.parametrize(
    "state", [EMPTY, ONGOING, COMPLETE_ABORT, COMPLETE_COMMIT], ids=lambda state: state.label
)
def test_another_producer_id_is_told_so_before_its_epoch(state: TransactionState) -> None:
    known, other = standing(state), producer(EPOCH + 9, PID + 1)
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (
        outcome_of(known, lambda: rules.end_classic(known, other, is_commit=True, now_ms=NOW_MS))
        is mapping
    )
    assert (
        outcome_of(
            known,
            lambda: rules.end_raising_epoch(known, other, no_id, is_commit=True, now_ms=NOW_MS),
        )
        is mapping
    )
    assert (
        outcome_of(known, lambda: rules.add_partitions(known, other, [ORDERS], 2, NOW_MS))
        is mapping
    )
    assert (
        outcome_of(
            None, lambda: rules.end_raising_epoch(None, other, no_id, is_commit=True, now_ms=NOW_MS)
        )
        is mapping
    )
    assert (
        outcome_of(None, lambda: rules.add_partitions(None, other, [ORDERS], 2, NOW_MS)) is mapping
    )


def test_the_last_epoch_gives_its_place_to_a_new_producer_id_after_the_markers() -> None:
    known = standing(ONGOING, producer_epoch=LAST_EPOCH)
    prepared = rules.end_raising_epoch(
        known, producer(LAST_EPOCH), new_id, is_commit=True, now_ms=NOW_MS
    )
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (
        PID,
        LAST_EPOCH + 1,
        8,
    )
    assert prepared.completed_identity == (8, 0), (
        "what the producer is told before the markers are written"
    )
    completed = rules.complete(prepared, NOW_MS)
    assert (
        completed.producer_id,
        completed.producer_epoch,
        completed.previous_producer_id,
        completed.next_producer_id,
    ) == (8, 0, PID, -1)
    repeated = rules.end_raising_epoch(
        completed, producer(LAST_EPOCH), no_id, is_commit=True, now_ms=NOW_MS
    )
    assert repeated is completed, (
        "the producer missed the response, and asks as the one that it was"
    )


# InitProducerId


def init(known: Transaction | None, claimed: Producer | None = None) -> tuple[int, int, int]:
    found = rules.first_seen(TXN, 8, TIMEOUT_MS, NOW_MS) if known is None else known
    following = rules.init_producer_id(found, TIMEOUT_MS, claimed, new_id, NOW_MS)
    assert following.state is EMPTY
    assert (following.partitions, following.start_ms) == (frozenset(), -1)
    return following.producer_id, following.producer_epoch, following.last_producer_epoch


@pytest.mark.parametrize("claimed", [None, producer(3, 4)])
def test_an_unknown_id_gets_a_producer_id_with_epoch_0_whatever_the_producer_was(
    claimed: Producer | None,
) -> None:
    assert init(None, claimed) == (8, 0, -1)


@pytest.mark.parametrize(
    "state", [EMPTY, COMPLETE_ABORT, COMPLETE_COMMIT], ids=lambda state: state.label
)
def test_an_id_at_rest_gets_the_next_epoch(state: TransactionState) -> None:
    assert init(standing(state)) == (PID, EPOCH + 1, -1)
    assert init(standing(state), producer()) == (PID, EPOCH + 1, EPOCH)
    again = standing(state, last_producer_epoch=EPOCH - 1)
    assert init(again, producer(EPOCH - 1)) == (PID, EPOCH, EPOCH - 1), "a repeated request"


@pytest.mark.parametrize(
    "claimed",
    [producer(EPOCH - 2), producer(EPOCH + 1), producer(EPOCH, PID - 1), producer(EPOCH, PID + 1)],
)
def test_a_producer_that_is_not_the_current_one_is_fenced(claimed: Producer) -> None:
    known = standing(EMPTY, last_producer_epoch=EPOCH - 1, previous_producer_id=PID - 1)
    assert (
        outcome_of(known, lambda: rules.init_producer_id(known, TIMEOUT_MS, claimed, no_id, NOW_MS))
        is FENCED
    )


def test_a_stranger_with_the_last_epoch_is_fenced_as_any_other() -> None:
    """Only the producer id before the present one may ask with the epoch that used it up."""
    rotated = standing(
        EMPTY, producer_epoch=0, previous_producer_id=PID - 1, last_producer_epoch=LAST_EPOCH
    )
    exhausted = standing(EMPTY, producer_epoch=LAST_EPOCH, previous_producer_id=PID - 1)
    for known in (rotated, exhausted):
        stranger = producer(LAST_EPOCH, PID + 1)
        assert (
            outcome_of(
                known,
                lambda k=known, s=stranger: rules.init_producer_id(
                    k, TIMEOUT_MS, s, new_id, NOW_MS
                ),
            )
            is FENCED
        )
    assert init(rotated, producer(LAST_EPOCH, PID - 1)) == (PID, 0, LAST_EPOCH)


def test_exhausted_epochs_make_a_new_producer_id() -> None:
    known = standing(COMPLETE_COMMIT, producer_epoch=LAST_EPOCH)
    assert init(known) == (8, 0, -1)
    assert init(known, producer(LAST_EPOCH)) == (8, 0, LAST_EPOCH)
    rotated = rules.init_producer_id(known, TIMEOUT_MS, producer(LAST_EPOCH), new_id, NOW_MS)
    assert init(rotated, producer(LAST_EPOCH)) == (8, 0, LAST_EPOCH), (
        "a repeated request of the one before"
    )
    assert outcome_of(
        known, lambda: rules.init_producer_id(known, TIMEOUT_MS, None, no_id, NOW_MS)
    ) is (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_init_waits_for_the_markers_of_a_transaction_and_leaves_an_ongoing_one_to_be_aborted() -> (
    None
):
    for state in ENDING:
        known = standing(state)
        stranger = producer(EPOCH, PID + 1)
        assert (
            outcome_of(
                known,
                lambda k=known, s=stranger: rules.init_producer_id(k, TIMEOUT_MS, s, no_id, NOW_MS),
            )
            is BUSY
        )
    ongoing = standing(ONGOING)
    assert rules.init_producer_id(ongoing, TIMEOUT_MS, None, no_id, NOW_MS) is ongoing


# Aborts that the coordinator begins


@pytest.mark.parametrize(
    ("version", "expected"),
    [(0, (EPOCH + 1, -1, 0)), (1, (EPOCH + 1, -1, 0)), (2, (EPOCH + 1, EPOCH, 2))],
    ids=["TV0", "TV1", "TV2"],
)
def test_an_abort_of_the_coordinator_raises_the_epoch_once(
    version: int, expected: tuple[int, int, int]
) -> None:
    aborted = rules.abort_as_coordinator(standing(ONGOING), version, no_id, NOW_MS)
    assert aborted.state is PREPARE_ABORT
    assert (aborted.producer_epoch, aborted.last_producer_epoch, aborted.client_version) == expected


def test_a_classic_abort_of_the_coordinator_has_no_epoch_behind_that_of_markers() -> None:
    aborted = rules.abort_as_coordinator(
        standing(ONGOING, producer_epoch=LAST_EPOCH + 1), 0, no_id, NOW_MS
    )
    assert aborted.producer_epoch == LAST_EPOCH + 1


# AddPartitionsToTxn


@pytest.mark.parametrize(
    "state", [EMPTY, COMPLETE_ABORT, COMPLETE_COMMIT], ids=lambda state: state.label
)
def test_the_first_partition_begins_a_transaction(state: TransactionState) -> None:
    known = standing(state)
    begun = rules.add_partitions(known, producer(), [ORDERS], 2, NOW_MS)
    assert (begun.state, begun.partitions, begun.start_ms, begun.client_version) == (
        ONGOING,
        frozenset({ORDERS}),
        NOW_MS,
        2,
    )
    more = rules.add_partitions(begun, producer(), [REFUNDS], 2, NOW_MS + 5)
    assert (more.partitions, more.start_ms, more.last_update_ms) == (
        frozenset({ORDERS, REFUNDS}),
        NOW_MS,
        NOW_MS + 5,
    )
    assert rules.add_partitions(more, producer(), [REFUNDS], 2, NOW_MS + 9) is more, (
        "what is there needs no record"
    )


def test_partitions_are_verified_without_being_added() -> None:
    known = standing(ONGOING)
    assert rules.verify_partitions(known, producer(), [ORDERS, REFUNDS]) == {
        ORDERS: NONE,
        REFUNDS: ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert rules.verify_partitions(standing(EMPTY), producer(), [ORDERS]) == {
        ORDERS: ErrorCode.TRANSACTION_ABORTABLE
    }
    for state in ENDING:
        ending = standing(state)
        assert (
            outcome_of(ending, lambda k=ending: rules.verify_partitions(k, producer(), [ORDERS]))
            is BUSY
        )
        assert (
            outcome_of(
                ending, lambda k=ending: rules.verify_partitions(k, producer(EPOCH - 1), [ORDERS])
            )
            is FENCED
        )
        assert (
            outcome_of(
                ending,
                lambda k=ending: rules.add_partitions(k, producer(EPOCH - 1), [ORDERS], 2, NOW_MS),
            )
            is BUSY
        )


# Time


def test_only_an_ongoing_transaction_times_out_and_only_an_id_at_rest_expires() -> None:
    timed_out = {
        state for state in STORED if rules.is_timed_out(standing(state, start_ms=0), TIMEOUT_MS + 1)
    }
    assert timed_out == {ONGOING}
    assert not rules.is_timed_out(standing(ONGOING, start_ms=0), TIMEOUT_MS)
    assert not rules.is_timed_out(standing(ONGOING, start_ms=0, timeout_ms=2**31 - 1), 2**40), (
        "another coordinator ends it (KIP-939)"
    )
    assert {state for state in STORED if rules.is_expired(standing(state), 1_000, 1_100)} == {
        EMPTY,
        COMPLETE_ABORT,
        COMPLETE_COMMIT,
    }
    assert not rules.is_expired(standing(EMPTY), 1_000, 1_099)
