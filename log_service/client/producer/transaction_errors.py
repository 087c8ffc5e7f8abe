"""Errors of transactions, grouped by the action of the application: abort, or close the producer.

This module knows the error codes of transaction coordinators, partition leaders and group
coordinators, and the error texts. ``transaction_state`` decides how the producer's state changes.
"""

from enum import Enum, auto

from log_service.common.errors import ErrorCode, KafkaError


class TransactionAbortable(KafkaError):  # noqa: N818 - it says what can be done
    """The open transaction cannot be committed.

    Abort it, continue reading at the group's offsets, and do the work of the transaction again. If
    this error left ``producer.transaction()``, the transaction is aborted already.
    """

    @property
    def is_retriable(self) -> bool:
        """Always false, because the same call fails until the transaction is aborted."""
        return False


class ProducerFailed(KafkaError):  # noqa: N818 - it says what happened
    """The transactional producer can do nothing more. Close it and open another.

    ``init_transactions`` of the new producer ends an open transaction.
    """

    @property
    def is_retriable(self) -> bool:
        """Always false, because every call fails from now on."""
        return False


class ProducerFenced(ProducerFailed):
    """The coordinator fenced this producer.

    Another producer took the same ``transactional_id``, or a transaction exceeded its timeout. If
    another process now does the work of this one, this process should end. Otherwise close the
    producer and open another.
    """


class Meaning(Enum):
    """The meaning of an error code for the transaction and its producer."""

    DONE = auto()
    RETRY = auto()
    ABORTABLE = auto()
    FENCED = auto()
    FATAL = auto()


class Step(Enum):
    """The requests of a transaction. The meaning of an error code depends on the request."""

    INIT = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    PRODUCE = "Produce"
    END = "EndTxn"


STALE_EPOCHS = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Transient errors of requests to coordinators. ``batch_actions`` has those of produce requests."""
FATAL_FOR_BATCHES = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
ABORTABLE_ANYWHERE = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID})
ABORTABLE_FOR_PARTITIONS = ABORTABLE_ANYWHERE | {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
}
ABORTABLE_FOR_GROUPS = ABORTABLE_ANYWHERE | {
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
ABORTABLE = {
    Step.INIT: frozenset({ErrorCode.TRANSACTION_ABORTABLE}),
    Step.ADD_PARTITIONS: ABORTABLE_FOR_PARTITIONS,
    Step.ADD_OFFSETS: ABORTABLE_FOR_GROUPS,
    Step.COMMIT_OFFSETS: ABORTABLE_FOR_GROUPS,
    Step.END: ABORTABLE_ANYWHERE | {ErrorCode.INVALID_TXN_STATE},
}
"""Errors that require an abort, by request.

INVALID_TXN_STATE on a commit means that the coordinator aborted the transaction after its timeout.
"""
GROUP_WENT_ON = (
    "the consumer's group went on without it: its partitions belong to others, who read these"
    " records again"
)
REASONS = {
    ErrorCode.UNKNOWN_MEMBER_ID: GROUP_WENT_ON,
    ErrorCode.ILLEGAL_GENERATION: GROUP_WENT_ON,
    ErrorCode.REBALANCE_IN_PROGRESS: GROUP_WENT_ON,
    ErrorCode.FENCED_INSTANCE_ID: "another member uses the same group_instance_id",
    ErrorCode.FENCED_MEMBER_EPOCH: GROUP_WENT_ON,
    ErrorCode.STALE_MEMBER_EPOCH: (
        "the group rebalanced meanwhile: ask the consumer for its group_metadata() anew for each"
        " transaction"
    ),
    ErrorCode.INVALID_TXN_STATE: (
        "the coordinator knows of no such transaction: it ended it, or another producer did"
    ),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: (
        "the coordinator has forgotten the producer (transactional.id.expiration.ms)"
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "this user may not WRITE with that transactional_id"
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "transaction_timeout_ms is above the brokers' transaction.max.timeout.ms"
    ),
}


def meaning_of(step: Step, code: ErrorCode) -> Meaning:
    """Return the meaning of an error code in a response (KIP-890, KIP-1050).

    INVALID_PRODUCER_EPOCH from a partition leader only aborts the transaction, because the
    transaction may have timed out. From a coordinator it means that the producer is fenced.
    """
    if code is ErrorCode.NONE:
        return Meaning.DONE
    if step is Step.PRODUCE:
        if code is ErrorCode.PRODUCER_FENCED:
            return Meaning.FENCED
        return Meaning.FATAL if code in FATAL_FOR_BATCHES else Meaning.ABORTABLE
    if code in STALE_EPOCHS:
        return Meaning.FENCED
    if code in RETRIED:
        return Meaning.RETRY
    return Meaning.ABORTABLE if code in ABORTABLE[step] else Meaning.FATAL


def error_of(meaning: Meaning, transactional_id: str, code: ErrorCode, text: str) -> KafkaError:
    """Return the error for the application, with the cause and the remedy in its text.

    ``text`` names the request that failed. A retriable error gets no remedy.
    """
    what = (
        f"{text}: {REASONS[code]} ({code.name})"
        if code in REASONS
        else text
        if code.name in text
        else f"{text}: {code.name}"
    )
    subject = f"transaction of {transactional_id!r}"
    if meaning is Meaning.ABORTABLE:
        return TransactionAbortable(
            code, f"{subject} cannot be committed: {what}. Abort it, and do its work again"
        )
    if meaning is Meaning.FENCED:
        return ProducerFenced(
            code,
            f"producer {transactional_id!r} is fenced: another producer took its transactional_id,"
            f" or its transaction took longer than transaction_timeout_ms ({what}). Close it; open"
            " another one only where no other process does this work",
        )
    if meaning is Meaning.FATAL:
        return ProducerFailed(
            code,
            f"producer {transactional_id!r} can do nothing more: {what}. Close it and open another",
        )
    return KafkaError(code, f"{subject}: {what}")
