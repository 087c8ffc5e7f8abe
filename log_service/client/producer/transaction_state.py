"""The state machine of a transactional producer.

Decides which calls are allowed, from calls and error codes alone. It knows no network, no clock and
no batches. ``transactor`` sends the requests.

There are two protocols. With ``transaction.version`` 2 (KIP-890), leaders add partitions to a
transaction themselves, and the response that ends a transaction has the epoch of the next one. With
version 1, the producer first adds partitions and groups at the coordinator ("announces" them), and
keeps its epoch. After a failure it requests the next epoch itself (KIP-360).

Invariants: every change of state is in ``MOVES``. A failure is replaced only by a more serious one.
Announced partitions, sent records and failures are forgotten when the transaction ends.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType

from log_service.client.producer.transaction_errors import (
    Meaning,
    Step,
    TransactionAbortable,
    error_of,
    meaning_of,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition

LEVEL_OF_VERSION_2 = 2
"""The level of the feature ``transaction.version`` from which on leaders add partitions."""


class State(Enum):
    """States of a transactional producer."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


MOVES: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.UNINITIALIZED: frozenset({State.INITIALIZING, State.FATAL_ERROR}),
        State.INITIALIZING: frozenset({State.READY, State.FATAL_ERROR}),
        State.READY: frozenset({State.IN_TRANSACTION, State.FATAL_ERROR}),
        State.IN_TRANSACTION: frozenset(
            {State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR}
        ),
        State.COMMITTING: frozenset({State.READY, State.ABORTABLE_ERROR, State.FATAL_ERROR}),
        State.ABORTING: frozenset({State.READY, State.FATAL_ERROR}),
        State.ABORTABLE_ERROR: frozenset({State.ABORTING, State.FATAL_ERROR}),
        State.FATAL_ERROR: frozenset(),
    }
)


class Call(Enum):
    """The calls of the application that depend on the state."""

    INIT = "init_transactions()"
    BEGIN = "begin_transaction()"
    SEND = "send()"
    SEND_OFFSETS = "send_offsets_to_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"


TAKEN: Mapping[Call, frozenset[State]] = MappingProxyType(
    {
        Call.INIT: frozenset({State.UNINITIALIZED, State.INITIALIZING}),
        Call.BEGIN: frozenset({State.READY}),
        Call.SEND: frozenset({State.IN_TRANSACTION}),
        Call.SEND_OFFSETS: frozenset({State.IN_TRANSACTION}),
        Call.COMMIT: frozenset({State.IN_TRANSACTION, State.COMMITTING}),
        Call.ABORT: frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING}),
    }
)
"""States in which a call is allowed. A call that timed out or was cancelled may be repeated."""

ADVICE: Mapping[State, str] = MappingProxyType(
    {
        State.UNINITIALIZED: "call init_transactions() first, once",
        State.INITIALIZING: "init_transactions() has not ended: call it again",
        State.READY: (
            "no transaction is open: use it inside 'producer.transaction()', or call"
            " begin_transaction() first"
        ),
        State.IN_TRANSACTION: "a transaction is open: commit or abort it first",
        State.COMMITTING: (
            "the transaction is being committed: call commit_transaction() again where that did"
            " not end"
        ),
        State.ABORTING: (
            "the transaction is being aborted: call abort_transaction() again where that did"
            " not end"
        ),
    }
)


class Transactions:
    """The state of one producer's transactions, one after the other.

    ``on_move`` is called after each change of state.
    """

    def __init__(self, transactional_id: str, on_move: Callable[[], None] = lambda: None) -> None:
        self.transactional_id = transactional_id
        self._on_move = on_move
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        self.is_version_2 = False
        self.is_started = False  # the coordinator may know of the open transaction
        self.is_bump_needed = False  # the epoch has to rise before the next transaction
        self._is_confirmed = False  # the coordinator is known to have added partitions or offsets
        self._unannounced: set[TopicPartition] = set()
        self._announced: set[TopicPartition] = set()

    def __repr__(self) -> str:
        return (
            f"<Transactions {self.transactional_id!r}"
            f" {self.state.value}{'' if self.error is None else f': {self.error}'}>"
        )

    # Calls

    def require(self, call: Call) -> None:
        """Check that the call is allowed in the present state.

        Raises:
            TransactionAbortable, ProducerFailed, ProducerFenced: an earlier failure.
            KafkaError: INVALID_TXN_STATE, the call is not allowed in this state.
        """
        if self.state in TAKEN[call]:
            return
        if self.error is not None:
            raise type(self.error)(self.error.code, str(self.error))
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"{call.value} is refused, producer {self.transactional_id!r}: {ADVICE[self.state]}",
        )

    def start_initializing(self) -> None:
        """Begin ``init_transactions``, or try it again."""
        self.require(Call.INIT)
        self.move_to(State.INITIALIZING)

    def note_initialized(self) -> None:
        """Note that the coordinator returned a producer id and an epoch.

        The coordinator has also ended any transaction that was open before.
        """
        self.move_to(State.READY)

    def begin(self, transaction_version: int) -> None:
        """Begin a transaction, with the protocol of this level of ``transaction.version``."""
        self.require(Call.BEGIN)
        self.is_version_2 = transaction_version >= LEVEL_OF_VERSION_2
        self.move_to(State.IN_TRANSACTION)

    def start_commit(self) -> None:
        """Begin ``commit_transaction``, or try it again."""
        self.require(Call.COMMIT)
        self.move_to(State.COMMITTING)

    def start_abort(self) -> None:
        """Begin ``abort_transaction``, or try it again."""
        self.require(Call.ABORT)
        self.move_to(State.ABORTING)

    def note_coordinator_ended(self) -> None:
        """Note that the coordinator ended the transaction, so that it is not asked to again.

        The producer may still have to request another epoch before the next transaction.
        """
        self.is_started = False

    def note_ended(self) -> None:
        """Note that the transaction is committed or aborted. The next may begin."""
        self.move_to(State.READY)
        self.error = None
        self.is_started = self.is_bump_needed = self._is_confirmed = False
        self._announced, self._unannounced = set(), set()

    # Errors

    @property
    def is_open(self) -> bool:
        """Whether records are accepted."""
        return self.state is State.IN_TRANSACTION

    @property
    def is_doomed(self) -> bool:
        """Whether waiting records are dropped, because they will never be committed."""
        return self.state in {State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR}

    def doom(self) -> KafkaError:
        """Return the error with which dropped records fail."""
        reason = "the transaction was aborted before the broker had taken the record"
        if self.error is not None:
            reason = (
                "the transaction failed, and with it every record that the broker had not taken:"
                f" {self.error}"
            )
        return KafkaError(ErrorCode.TRANSACTION_ABORTABLE, reason)

    def apply_error(self, step: Step, code: ErrorCode, text: str) -> KafkaError | None:
        """Apply the error code of a response, and return the error to raise, or None.

        A retriable error is returned too, but does not change the state.
        """
        meaning = meaning_of(step, code)
        if (
            step is Step.END
            and code is ErrorCode.INVALID_TXN_STATE
            and self._is_unknown_to_coordinator
        ):
            meaning = Meaning.DONE
        if meaning is Meaning.DONE:
            return None
        if (
            meaning is Meaning.ABORTABLE
            and step in {Step.INIT, Step.END}
            and self.state is not State.COMMITTING
        ):
            meaning = Meaning.FATAL  # an abort cannot follow a failed init or abort
        error = error_of(meaning, self.transactional_id, code, text)
        if meaning is not Meaning.RETRY:
            self.fail(error)
        return error

    def fail(self, error: KafkaError) -> None:
        """Apply an error that ends the transaction or the producer.

        Of several errors of the same severity, the first one is kept.
        """
        if isinstance(error, TransactionAbortable):
            self.is_bump_needed = True
            if State.ABORTABLE_ERROR in MOVES[self.state]:
                self.move_to(State.ABORTABLE_ERROR)
                self.error = error
        elif self.state is not State.FATAL_ERROR:
            self.move_to(State.FATAL_ERROR)
            self.error = error

    def note_dropped(self) -> None:
        """Note that a record with a sequence number was given up.

        The next transaction needs a new epoch, in which sequence numbers begin again.
        """
        self.is_bump_needed = True

    # State of the coordinator

    def note_partition(self, topic_partition: TopicPartition) -> None:
        """Note that the open transaction has a record in the partition."""
        if self.is_version_2:
            self.is_started = True
        elif topic_partition not in self._announced:
            self._unannounced.add(topic_partition)

    def start_adding_offsets(self) -> None:
        """Note that a request is sent that adds offsets of a group to the transaction.

        From here on the coordinator may know the transaction.
        """
        self.is_started = True

    def note_offsets_added(self) -> None:
        """Note that the coordinator added offsets to the transaction."""
        self._is_confirmed = True

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Return whether records of the transaction may be sent to the partition."""
        return self.is_version_2 or topic_partition in self._announced

    def start_announcing(self) -> list[TopicPartition]:
        """Return the partitions to announce to the coordinator now.

        From here on the coordinator may know the transaction.
        """
        if self._unannounced:
            self.is_started = True
        return sorted(self._unannounced)

    @property
    def is_announcement_due(self) -> bool:
        """Whether partitions wait to be announced."""
        return bool(self._unannounced) and self.state in {State.IN_TRANSACTION, State.COMMITTING}

    def note_announced(self, partitions: list[TopicPartition]) -> None:
        """Note that the coordinator added these partitions."""
        self._is_confirmed = True
        self._announced.update(partitions)
        self._unannounced.difference_update(partitions)

    @property
    def _is_unknown_to_coordinator(self) -> bool:
        """Whether a transaction is being aborted that the coordinator may not know.

        This happens with version 1 if the coordinator has not confirmed any partition or group.
        """
        return self.state is State.ABORTING and not self.is_version_2 and not self._is_confirmed

    def move_to(self, state: State) -> None:
        """Change the state. Only the moves of ``MOVES`` are possible."""
        assert state is self.state or state in MOVES[self.state], (
            f"a producer that is {self.state.value} does not become {state.value}"
        )
        self.state = state
        self._on_move()
