"""Every state of a transactional producer meets every call, failure and error code.

The tests are the whole table, not examples.
"""

import pytest

from log_service.client.producer.transaction_errors import (
    ABORTABLE,
    FATAL_FOR_BATCHES,
    RETRIED,
    STALE_EPOCHS,
    Meaning,
    ProducerFailed,
    ProducerFenced,
    Step,
    TransactionAbortable,
    meaning_of,
)
from log_service.client.producer.transaction_state import MOVES, TAKEN, Call, State, Transactions
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
COORDINATOR_STEPS = tuple(step for step in Step if step is not Step.PRODUCE)


def abortable() -> TransactionAbortable:
    return TransactionAbortable(ErrorCode.TRANSACTION_ABORTABLE, "a record was lost")


def producer_in(state: State, *, is_version_2: bool = True) -> Transactions:
    """A producer that came into the state as an application brings it there."""
    transactions = Transactions("copy")
    if state is State.UNINITIALIZED:
        return transactions
    transactions.start_initializing()
    if state is State.INITIALIZING:
        return transactions
    transactions.note_initialized()
    if state is State.READY:
        return transactions
    transactions.begin(2 if is_version_2 else 1)
    if state is State.COMMITTING:
        transactions.start_commit()
    elif state is State.ABORTING:
        transactions.start_abort()
    elif state is State.ABORTABLE_ERROR:
        transactions.fail(abortable())
    elif state is State.FATAL_ERROR:
        transactions.fail(ProducerFenced(ErrorCode.PRODUCER_FENCED, "another one"))
    return transactions


CALLS = {
    Call.INIT: (Transactions.start_initializing, State.INITIALIZING),
    Call.BEGIN: (lambda transactions: transactions.begin(2), State.IN_TRANSACTION),
    Call.SEND: (lambda transactions: transactions.require(Call.SEND), State.IN_TRANSACTION),
    Call.SEND_OFFSETS: (
        lambda transactions: transactions.require(Call.SEND_OFFSETS),
        State.IN_TRANSACTION,
    ),
    Call.COMMIT: (Transactions.start_commit, State.COMMITTING),
    Call.ABORT: (Transactions.start_abort, State.ABORTING),
}


@pytest.mark.parametrize("state", State)
def test_every_state_is_reached(state: State) -> None:
    assert producer_in(state).state is state


@pytest.mark.parametrize("call", Call)
@pytest.mark.parametrize("state", State)
def test_a_call_is_taken_or_refused_with_what_to_do(state: State, call: Call) -> None:
    transactions = producer_in(state)
    make, after = CALLS[call]
    if state in TAKEN[call]:
        make(transactions)
        assert transactions.state is after
        return
    with pytest.raises(KafkaError) as refused:
        make(transactions)
    assert transactions.state is state
    if state is State.ABORTABLE_ERROR:
        assert isinstance(refused.value, TransactionAbortable)
    elif state is State.FATAL_ERROR:
        assert isinstance(refused.value, ProducerFenced)
    else:
        assert refused.value.code is ErrorCode.INVALID_TXN_STATE
        assert "call " in str(refused.value) or "commit or abort it first" in str(refused.value)
    assert not refused.value.is_retriable


@pytest.mark.parametrize("state", State)
def test_a_failure_only_leads_to_a_stronger_one(state: State) -> None:
    transactions = producer_in(state)
    transactions.fail(abortable())
    can_be_aborted = state in {State.IN_TRANSACTION, State.COMMITTING, State.ABORTABLE_ERROR}
    assert transactions.state is (State.ABORTABLE_ERROR if can_be_aborted else state)
    transactions.fail(ProducerFailed(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "first"))
    transactions.fail(ProducerFenced(ErrorCode.PRODUCER_FENCED, "second"))
    assert transactions.state is State.FATAL_ERROR
    assert str(transactions.error) == ("another one" if state is State.FATAL_ERROR else "first")


def test_moves_are_those_of_the_table_and_nothing_leaves_the_end() -> None:
    assert MOVES.keys() == set(State)
    assert MOVES[State.FATAL_ERROR] == set()
    assert all(
        State.FATAL_ERROR in MOVES[state] for state in State if state is not State.FATAL_ERROR
    )
    assert TAKEN.keys() == set(Call)


@pytest.mark.parametrize("state", State)
def test_no_other_move_is_made(state: State) -> None:
    for target in set(State) - MOVES[state] - {state}:
        with pytest.raises(AssertionError, match="does not become"):
            producer_in(state).move_to(target)


# What codes mean (KIP-890, KIP-1050)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
@pytest.mark.parametrize("step", Step)
def test_every_code_of_every_request_has_one_meaning(step: Step, code: ErrorCode) -> None:
    if step is Step.PRODUCE:
        expected = (
            Meaning.FENCED
            if code is ErrorCode.PRODUCER_FENCED
            else Meaning.FATAL
            if code in FATAL_FOR_BATCHES
            else Meaning.ABORTABLE
        )
    elif code in STALE_EPOCHS:
        expected = Meaning.FENCED
    elif code in RETRIED:
        expected = Meaning.RETRY
    else:
        expected = Meaning.ABORTABLE if code in ABORTABLE[step] else Meaning.FATAL
    assert meaning_of(step, code) is expected
    assert meaning_of(step, ErrorCode.NONE) is Meaning.DONE


def test_sets_of_codes_do_not_contradict_each_other() -> None:
    for step in COORDINATOR_STEPS:
        assert not ABORTABLE[step] & (STALE_EPOCHS | RETRIED)
    assert all(code.is_retriable for code in RETRIED)


@pytest.mark.parametrize(
    ("step", "code", "meaning"),
    [
        # It may have timed out: the coordinator says (KIP-588).
        (
            Step.PRODUCE,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            Meaning.ABORTABLE,
        ),
        (Step.PRODUCE, ErrorCode.TRANSACTION_ABORTABLE, Meaning.ABORTABLE),
        (Step.PRODUCE, ErrorCode.REQUEST_TIMED_OUT, Meaning.ABORTABLE),
        (Step.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Meaning.ABORTABLE),
        (Step.END, ErrorCode.INVALID_PRODUCER_EPOCH, Meaning.FENCED),
        (Step.END, ErrorCode.TRANSACTION_ABORTABLE, Meaning.ABORTABLE),
        (Step.END, ErrorCode.INVALID_TXN_STATE, Meaning.ABORTABLE),  # aborted by the coordinator
        (Step.INIT, ErrorCode.CONCURRENT_TRANSACTIONS, Meaning.RETRY),
        (Step.INIT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Meaning.FATAL),
        (Step.ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Meaning.ABORTABLE),
        (Step.ADD_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, Meaning.ABORTABLE),
        (Step.COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION, Meaning.ABORTABLE),
        (Step.COMMIT_OFFSETS, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Meaning.FATAL),
    ],
)
def test_codes_mean_what_kafkas_producer_takes_them_for(
    step: Step, code: ErrorCode, meaning: Meaning
) -> None:
    assert meaning_of(step, code) is meaning


@pytest.mark.parametrize(
    ("state", "step", "after"),
    [
        (State.COMMITTING, Step.END, State.ABORTABLE_ERROR),
        (State.ABORTING, Step.END, State.FATAL_ERROR),
        (State.INITIALIZING, Step.INIT, State.FATAL_ERROR),
        (State.ABORTING, Step.PRODUCE, State.ABORTING),
        (State.IN_TRANSACTION, Step.PRODUCE, State.ABORTABLE_ERROR),
    ],
)
def test_what_cannot_be_aborted_any_more_is_the_end(state: State, step: Step, after: State) -> None:
    transactions = producer_in(state)
    transactions.apply_error(step, ErrorCode.TRANSACTION_ABORTABLE, "somewhere")
    assert transactions.state is after


@pytest.mark.parametrize("step", COORDINATOR_STEPS)
def test_what_passes_changes_nothing(step: Step) -> None:
    transactions = producer_in(State.COMMITTING)
    error = transactions.apply_error(step, ErrorCode.CONCURRENT_TRANSACTIONS, "somewhere")
    assert error is not None
    assert error.is_retriable
    assert (transactions.state, transactions.error) == (State.COMMITTING, None)


# What the coordinator has to know


def test_with_version_1_partitions_are_announced_once_for_each_transaction() -> None:
    transactions = producer_in(State.IN_TRANSACTION, is_version_2=False)
    assert not transactions.is_announcement_due
    transactions.note_partition(ORDERS)
    assert (
        transactions.is_announcement_due,
        transactions.is_started,
        transactions.may_send(ORDERS),
    ) == (True, False, False)
    assert transactions.start_announcing() == [ORDERS]
    assert transactions.is_started
    transactions.note_announced([ORDERS])
    transactions.note_partition(ORDERS)
    assert (transactions.is_announcement_due, transactions.may_send(ORDERS)) == (False, True)
    transactions.start_commit()
    transactions.note_ended()
    transactions.begin(1)
    assert (transactions.is_started, transactions.may_send(ORDERS)) == (False, False)


def test_with_version_2_leaders_add_partitions() -> None:
    transactions = producer_in(State.IN_TRANSACTION)
    assert transactions.may_send(ORDERS)
    transactions.note_partition(ORDERS)
    assert (transactions.is_announcement_due, transactions.is_started) == (False, True)


@pytest.mark.parametrize("is_confirmed", [False, True])
@pytest.mark.parametrize("is_version_2", [False, True])
def test_an_abort_of_what_was_never_added_is_done(is_version_2: bool, is_confirmed: bool) -> None:
    """The coordinator refused AddPartitionsToTxn, and version 1 has no transaction to abort, and
    says so.
    """
    transactions = producer_in(State.IN_TRANSACTION, is_version_2=is_version_2)
    transactions.note_partition(ORDERS)
    if is_confirmed:
        transactions.note_announced(transactions.start_announcing())
    transactions.start_abort()
    error = transactions.apply_error(Step.END, ErrorCode.INVALID_TXN_STATE, "abort")
    assert (error is None) == (not is_version_2 and not is_confirmed)


def test_lost_records_need_another_epoch_until_the_transaction_has_ended() -> None:
    transactions = producer_in(State.IN_TRANSACTION, is_version_2=False)
    transactions.fail(abortable())
    transactions.start_abort()
    assert transactions.is_bump_needed
    transactions.note_ended()
    assert (transactions.is_bump_needed, transactions.error, transactions.state) == (
        False,
        None,
        State.READY,
    )


@pytest.mark.parametrize(
    ("step", "code", "told"),
    [
        (
            Step.END,
            ErrorCode.PRODUCER_FENCED,
            "is fenced: another producer took its transactional_id",
        ),
        (
            Step.COMMIT_OFFSETS,
            ErrorCode.ILLEGAL_GENERATION,
            "the consumer's group went on without it",
        ),
        (
            Step.INIT,
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            "above the brokers' transaction.max.timeout.ms",
        ),
        (
            Step.INIT,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "may not WRITE with that transactional_id",
        ),
    ],
)
def test_errors_say_what_happened_and_what_to_do(step: Step, code: ErrorCode, told: str) -> None:
    error = producer_in(State.IN_TRANSACTION).apply_error(step, code, "somewhere")
    assert error is not None
    assert told in str(error)
    assert code.name in str(error)
    assert "Close it" in str(error) or "Abort it" in str(error)
