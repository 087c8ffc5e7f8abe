"""Where a transactional producer stands, and which calls it takes there.

Decides from calls and error codes alone; knows no network, no clock and no batches. ``transactor`` sends what this decides.

There are two protocols. With ``transaction.version`` 2 (KIP-890) leaders add partitions by themselves, and the response that ends a
transaction brings the epoch of the next. With version 1 the producer announces partitions and groups first and keeps its epoch, except
where something failed: then it asks for the next epoch itself (KIP-360).

Invariants: every change of state is one of ``MOVES``. A failure only leads to a stronger one. What was announced, sent or failed is
forgotten when the transaction ends.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType

from log_service.client.producer.transaction_errors import Meaning, Step, TransactionAbortable, error_of, meaning_of
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition

LEVEL_OF_VERSION_2 = 2
"""The level of the feature ``transaction.version`` from which on leaders add partitions."""


class State(Enum):
    """Where the producer stands."""

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
        State.IN_TRANSACTION: frozenset({State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR}),
        State.COMMITTING: frozenset({State.READY, State.ABORTABLE_ERROR, State.FATAL_ERROR}),
        State.ABORTING: frozenset({State.READY, State.FATAL_ERROR}),
        State.ABORTABLE_ERROR: frozenset({State.ABORTING, State.FATAL_ERROR}),
        State.FATAL_ERROR: frozenset(),
    }
)


class Call(Enum):
    """What the application asks for."""

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
"""In which states a call is taken: one that ended by a timeout or a cancellation may be made again."""

ADVICE: Mapping[State, str] = MappingProxyType(
    {
        State.UNINITIALIZED: "call init_transactions() first, once",
        State.INITIALIZING: "init_transactions() has not ended: call it again",
        State.READY: "no transaction is open: use it inside 'producer.transaction()', or call begin_transaction() first",
        State.IN_TRANSACTION: "a transaction is open: commit or abort it first",
        State.COMMITTING: "the transaction is being committed: call commit_transaction() again where that did not end",
        State.ABORTING: "the transaction is being aborted: call abort_transaction() again where that did not end",
    }
)


class Transactions:
    """The transactions of one producer, one after the other. ``on_move`` is called whenever the state has changed."""

    def __init__(self, transactional_id: str, on_move: Callable[[], None] = lambda: None) -> None:
        self.transactional_id = transactional_id
        self._on_move = on_move
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        self.is_version_2 = False
        self.is_started = False  # the coordinator may know of the open transaction
        self.is_bump_needed = False  # the epoch has to rise before the next transaction
        self._is_confirmed = False  # it does know of it
        self._unannounced: set[TopicPartition] = set()
        self._announced: set[TopicPartition] = set()

    def __repr__(self) -> str:
        return f"<Transactions {self.transactional_id!r} {self.state.value}{'' if self.error is None else f': {self.error}'}>"

    # Calls

    def require(self, call: Call) -> None:
        """Raise unless the call is taken now.

        Raises:
            TransactionAbortable, ProducerFailed, ProducerFenced: what failed before.
            KafkaError: INVALID_TXN_STATE, it is not its turn.
        """
        if self.state in TAKEN[call]:
            return
        if self.error is not None:
            raise type(self.error)(self.error.code, str(self.error))
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{call.value} is refused, producer {self.transactional_id!r}: {ADVICE[self.state]}")

    def start_initializing(self) -> None:
        """``init_transactions`` begins, or is tried again."""
        self.require(Call.INIT)
        self._move(State.INITIALIZING)

    def note_initialized(self) -> None:
        """The coordinator gave a producer id and an epoch; what was open before is ended."""
        self._move(State.READY)

    def begin(self, transaction_version: int) -> None:
        """Begin a transaction, by the protocol of the cluster's level of ``transaction.version``."""
        self.require(Call.BEGIN)
        self.is_version_2 = transaction_version >= LEVEL_OF_VERSION_2
        self._move(State.IN_TRANSACTION)

    def start_commit(self) -> None:
        """``commit_transaction`` begins, or is tried again."""
        self.require(Call.COMMIT)
        self._move(State.COMMITTING)

    def start_abort(self) -> None:
        """``abort_transaction`` begins, or is tried again."""
        self.require(Call.ABORT)
        self._move(State.ABORTING)

    def note_coordinator_ended(self) -> None:
        """The coordinator ended the transaction, and is not asked again: another epoch may have to be got before the next one."""
        self.is_started = False

    def note_ended(self) -> None:
        """The transaction is committed or aborted; the next may begin."""
        self._move(State.READY)
        self.error = None
        self.is_started = self.is_bump_needed = self._is_confirmed = False
        self._announced, self._unannounced = set(), set()

    # What happens to the transaction

    @property
    def is_open(self) -> bool:
        """Whether records may be taken."""
        return self.state is State.IN_TRANSACTION

    @property
    def is_doomed(self) -> bool:
        """Whether what waits to be sent is dropped: it will never be committed."""
        return self.state in {State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR}

    def doom(self) -> KafkaError:
        """Return what the receipts of dropped records say."""
        reason = "the transaction was aborted before the broker had taken the record"
        if self.error is not None:
            reason = f"the transaction failed, and with it every record that the broker had not taken: {self.error}"
        return KafkaError(ErrorCode.TRANSACTION_ABORTABLE, reason)

    def judge(self, step: Step, code: ErrorCode, text: str) -> KafkaError | None:
        """Take what a request was responded to with; returns the error that the caller raises, None where there is none.

        An error that passes is returned, too, and changes nothing.
        """
        meaning = meaning_of(step, code)
        if step is Step.END and code is ErrorCode.INVALID_TXN_STATE and self._is_unknown_to_coordinator:
            meaning = Meaning.DONE
        if meaning is Meaning.DONE:
            return None
        if meaning is Meaning.ABORTABLE and step in {Step.INIT, Step.END} and self.state is not State.COMMITTING:
            meaning = Meaning.FATAL  # there is nothing that could be aborted instead
        error = error_of(meaning, self.transactional_id, code, text)
        if meaning is not Meaning.RETRY:
            self.fail(error)
        return error

    def fail(self, error: KafkaError) -> None:
        """Take an error that ends the transaction, or the producer; where that has ended already the first one stays."""
        if isinstance(error, TransactionAbortable):
            self.is_bump_needed = True
            if State.ABORTABLE_ERROR in MOVES[self.state]:
                self._move(State.ABORTABLE_ERROR)
                self.error = error
        elif self.state is not State.FATAL_ERROR:
            self._move(State.FATAL_ERROR)
            self.error = error

    def note_dropped(self) -> None:
        """A record was given up that had a sequence number: the numbers begin again in the next epoch."""
        self.is_bump_needed = True

    # What the coordinator has to know

    def note_partition(self, topic_partition: TopicPartition) -> None:
        """A record of the open transaction goes to that partition."""
        if self.is_version_2:
            self.is_started = True
        elif topic_partition not in self._announced:
            self._unannounced.add(topic_partition)

    def start_adding_offsets(self) -> None:
        """The coordinator is about to be told that offsets of a group are part of the transaction."""
        self.is_started = True

    def note_offsets_added(self) -> None:
        """The coordinator knows that offsets are part of the transaction."""
        self._is_confirmed = True

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Whether the leader of that partition may be sent records of the transaction."""
        return self.is_version_2 or topic_partition in self._announced

    def start_announcing(self) -> list[TopicPartition]:
        """Return the partitions that the coordinator is to be told of now; from here on it may know of the transaction."""
        if self._unannounced:
            self.is_started = True
        return sorted(self._unannounced)

    @property
    def is_announcement_due(self) -> bool:
        """Whether partitions wait to be announced."""
        return bool(self._unannounced) and self.state in {State.IN_TRANSACTION, State.COMMITTING}

    def note_announced(self, partitions: list[TopicPartition]) -> None:
        """The coordinator has added these partitions."""
        self._is_confirmed = True
        self._announced.update(partitions)
        self._unannounced.difference_update(partitions)

    @property
    def _is_unknown_to_coordinator(self) -> bool:
        """Whether an abort may find nothing to abort: with version 1, where nothing that was announced is known to have been added."""
        return self.state is State.ABORTING and not self.is_version_2 and not self._is_confirmed

    def _move(self, state: State) -> None:
        assert state is self.state or state in MOVES[self.state], f"a producer that is {self.state.value} does not become {state.value}"
        self.state = state
        self._on_move()
