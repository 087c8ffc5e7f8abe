"""The effect of each request on a transactional id: its next value, or an error.

This file holds all decisions of Kafka's coordinator about one transactional id, without log, clock
and markers. The version of a request selects the rules (KIP-890). EndTxn from version 5 on and
AddPartitionsToTxn from version 4 on use the rules of transaction version 2. All others use the
classic rules. Only an abort that the coordinator itself begins depends on the transaction version
of the cluster.

Invariants: A function returns its argument if the request changes nothing. While markers are being
written, requests get CONCURRENT_TRANSACTIONS before their producer is checked, because the end of
the transaction may give the producer another id. Only markers have an epoch above 32766.

Errors are KafkaErrors. For old versions, the handlers replace PRODUCER_FENCED by
INVALID_PRODUCER_EPOCH.

Source: KIP-98, KIP-360, KIP-588, KIP-890, and the 4.3 coordinator's tables.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from log_service.coordinator.transaction.transaction import (
    AT_REST,
    CLASSIC_VERSION,
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    NEVER_TIMES_OUT_MS,
    NO_START_MS,
    Transaction,
    TransactionState,
)

NewProducerId = Callable[[], int]
"""Returns an unused producer id.

Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, there is no unused id yet.
"""

_COMPLETED = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """The identity of a producer: the producer id and epoch in its request."""

    producer_id: int
    producer_epoch: int


# InitProducerId


def init_producer_id(
    known: Transaction,
    timeout_ms: int,
    claimed: Producer | None,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Transaction:
    """Return the transactional id with an epoch that fences earlier producers.

    ``claimed`` is the producer's previous identity, or None for a new producer. An ongoing
    transaction is returned unchanged. The coordinator must then abort it, and the producer must
    send the request again.

    Raises:
        KafkaError: CONCURRENT_TRANSACTIONS, PRODUCER_FENCED, or there is no unused producer id yet.
    """
    _refuse_while_ending(known)
    if claimed is not None and not _may_be(known, claimed):
        raise fenced(known, claimed)
    if known.state is TransactionState.ONGOING:
        return known
    fresh = {"timeout_ms": timeout_ms, "partitions": frozenset(), "start_ms": NO_START_MS}
    if known.is_exhausted and (claimed is None or claimed.producer_epoch == known.producer_epoch):
        kept = NO_PRODUCER_EPOCH if claimed is None else known.producer_epoch
        return _empty(
            known,
            now_ms,
            fresh,
            producer_id=new_producer_id(),
            producer_epoch=0,
            last_producer_epoch=kept,
        )
    return _empty(known, now_ms, fresh, **raised_epoch(known, claimed))


def first_seen(
    transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int
) -> Transaction:
    """Return a new transactional id.

    It has no epoch yet. InitProducerId sets the first epoch.
    """
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        timeout_ms=timeout_ms,
        last_update_ms=now_ms,
    )


def _empty(known: Transaction, now_ms: int, fresh: dict[str, Any], **changes: Any) -> Transaction:
    return known.moved(TransactionState.EMPTY, now_ms, **fresh, **changes)


def _may_be(known: Transaction, claimed: Producer) -> bool:
    """Return whether a producer may own the transactional id.

    The current producer may. The previous producer may too, if it had used up its epochs and missed
    the response with its new producer id.
    """
    if known.producer_epoch == NO_PRODUCER_EPOCH or claimed.producer_id == known.producer_id:
        return True
    return (
        claimed.producer_id == known.previous_producer_id
        and claimed.producer_epoch >= MAX_EPOCH - 1
    )


def raised_epoch(known: Transaction, claimed: Producer | None) -> dict[str, int]:
    """Return the new epochs of an id whose producer begins, by field of ``Transaction``.

    For a repeated request, nothing changes and the result is empty.

    Raises:
        KafkaError: PRODUCER_FENCED, another producer with the same id has begun since.
    """
    epoch = known.producer_epoch
    if claimed is None:
        return {"producer_epoch": epoch + 1, "last_producer_epoch": NO_PRODUCER_EPOCH}
    if epoch in {NO_PRODUCER_EPOCH, claimed.producer_epoch}:
        return {"producer_epoch": epoch + 1, "last_producer_epoch": epoch}
    if claimed.producer_epoch == known.last_producer_epoch:
        return {}  # a retry after a lost response, with no other producer in between
    raise fenced(known, claimed)


# AddPartitionsToTxn and AddOffsetsToTxn


def add_partitions(
    known: Transaction | None,
    producer: Producer,
    partitions: Iterable[TopicPartition],
    client_version: int,
    now_ms: int,
) -> Transaction:
    """Return the transaction with more partitions. If needed, the transaction begins.

    If it already has all partitions, the argument itself is returned.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS or PRODUCER_FENCED.
    """
    known = _known(known, producer)
    _refuse_while_ending(known)
    _check_producer(known, producer)
    added = frozenset(partitions)
    if known.state is TransactionState.ONGOING and added <= known.partitions:
        return known
    start_ms = now_ms if known.state in AT_REST else known.start_ms
    return known.moved(
        TransactionState.ONGOING,
        now_ms,
        partitions=known.partitions | added,
        start_ms=start_ms,
        client_version=client_version,
    )


def verify_partitions(
    known: Transaction | None, producer: Producer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Return NONE for each partition of the producer's transaction, else TRANSACTION_ABORTABLE.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
    """
    known = _known(known, producer)
    _check_producer(known, producer)
    _refuse_while_ending(known)
    return {
        each: ErrorCode.NONE if each in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for each in partitions
    }


# EndTxn


def end_classic(
    known: Transaction | None, producer: Producer, *, is_commit: bool, now_ms: int
) -> Transaction:
    """End a transaction for EndTxn up to version 4. The epoch does not change.

    If the transaction has already ended with this outcome, the argument itself is returned.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or
            INVALID_TXN_STATE.
    """
    known = _known(known, producer)
    _check_producer(known, producer)
    _refuse_while_ending(known)
    if known.state is TransactionState.ONGOING:
        return known.moved(_prepared(is_commit=is_commit), now_ms, client_version=CLASSIC_VERSION)
    if known.state is (
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    ):
        return known
    raise wrong_state(known, is_commit=is_commit)


def end_raising_epoch(
    known: Transaction | None,
    producer: Producer,
    new_producer_id: NewProducerId,
    *,
    is_commit: bool,
    now_ms: int,
) -> Transaction:
    """End a transaction for EndTxn from version 5 on, and raise the epoch.

    For a repeated request with the same outcome, the argument itself is returned. A request is a
    repeated one if it has the previous epoch, or the last epoch of the previous producer id. A
    producer may abort although nothing has begun, because it cannot know whether its first request
    arrived.

    Raises:
        KafkaError: the errors of ``end_classic``, or there is no unused producer id yet.
    """
    if known is None:
        raise _unknown(producer)
    _refuse_while_ending(known)
    is_overflowed = _is_overflowed(known, producer)
    if known.producer_id != producer.producer_id and not is_overflowed:
        raise _unknown(producer)
    is_repeated = is_overflowed or known.producer_epoch == producer.producer_epoch + 1
    if is_repeated:
        return _repeated_end(known, producer, is_commit=is_commit)
    if known.producer_epoch != producer.producer_epoch:
        raise fenced(known, producer)
    if known.state is not TransactionState.ONGOING and is_commit:
        raise wrong_state(known, is_commit=is_commit)
    return _prepare_raising_epoch(known, new_producer_id, is_commit=is_commit, now_ms=now_ms)


def _is_overflowed(known: Transaction, producer: Producer) -> bool:
    return (known.previous_producer_id, 0) == (
        producer.producer_id,
        known.producer_epoch,
    ) and producer.producer_epoch == MAX_EPOCH - 1


def _repeated_end(known: Transaction, producer: Producer, *, is_commit: bool) -> Transaction:
    if known.state is (
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    ):
        return known
    if known.state in {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}:
        raise wrong_state(known, is_commit=is_commit)
    raise fenced(known, producer)


def abort_as_coordinator(
    known: Transaction, server_version: int, new_producer_id: NewProducerId, now_ms: int
) -> Transaction:
    """Abort an ongoing transaction that timed out, or whose producer was replaced.

    The epoch is raised to fence the producer.
    """
    assert known.state is TransactionState.ONGOING, (
        f"{known.transactional_id} is {known.state.label}"
    )
    if server_version >= EPOCH_BUMP_VERSION:
        return _prepare_raising_epoch(known, new_producer_id, is_commit=False, now_ms=now_ms)
    epoch = min(known.producer_epoch + 1, MAX_EPOCH)
    changes = {
        "producer_epoch": epoch,
        "last_producer_epoch": NO_PRODUCER_EPOCH,
        "client_version": CLASSIC_VERSION,
    }
    return known.moved(TransactionState.PREPARE_ABORT, now_ms, **changes)


def _prepare_raising_epoch(
    known: Transaction, new_producer_id: NewProducerId, *, is_commit: bool, now_ms: int
) -> Transaction:
    """Return the transaction with its outcome and a raised epoch.

    If the raised epoch is the last one, the producer gets a new id after the markers are written.
    """
    return known.moved(
        _prepared(is_commit=is_commit),
        now_ms,
        producer_epoch=min(known.producer_epoch + 1, MAX_EPOCH),
        last_producer_epoch=known.producer_epoch,
        next_producer_id=new_producer_id() if known.is_exhausted else NO_PRODUCER_ID,
        start_ms=known.start_ms if known.state is TransactionState.ONGOING else now_ms,
        client_version=EPOCH_BUMP_VERSION,
    )


def _prepared(*, is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def complete(known: Transaction, now_ms: int) -> Transaction:
    """Return the value of an ending transaction after all its markers have been written."""
    producer_id, producer_epoch = known.completed_identity
    return known.moved(
        _COMPLETED[known.state],
        now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


# Time


def is_timed_out(known: Transaction, now_ms: int) -> bool:
    """Whether an ongoing transaction has exceeded its producer's timeout."""
    is_bounded = known.timeout_ms != NEVER_TIMES_OUT_MS
    return (
        known.state is TransactionState.ONGOING
        and is_bounded
        and known.start_ms + known.timeout_ms < now_ms
    )


def is_expired(known: Transaction, expiration_ms: int, now_ms: int) -> bool:
    """Whether an id was unused for at least ``expiration_ms``."""
    return known.state in AT_REST and known.last_update_ms <= now_ms - expiration_ms


# Refusals


def fenced(known: Transaction, producer: Producer) -> KafkaError:
    """Return PRODUCER_FENCED, with the current epoch of the transactional id."""
    text = (
        f"transactional id {known.transactional_id!r} has producer epoch {known.producer_epoch},"
        f" the request {producer.producer_epoch}: another producer was started with the same id"
    )
    return KafkaError(ErrorCode.PRODUCER_FENCED, text)


def wrong_state(known: Transaction, *, is_commit: bool) -> KafkaError:
    """Return INVALID_TXN_STATE, with the state that does not allow the outcome."""
    wish = "commit" if is_commit else "abort"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"transactional id {known.transactional_id!r} is {known.state.label}: it cannot {wish}",
    )


def _unknown(producer: Producer) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"the transactional id has another producer id than {producer.producer_id}",
    )


def _known(known: Transaction | None, producer: Producer) -> Transaction:
    if known is None:
        raise _unknown(producer)
    return known


def _check_producer(known: Transaction, producer: Producer) -> None:
    if known.producer_id != producer.producer_id:
        raise _unknown(producer)
    if known.producer_epoch != producer.producer_epoch:
        raise fenced(known, producer)


def _refuse_while_ending(known: Transaction) -> None:
    if known.is_ending:
        text = (
            f"the markers of transactional id {known.transactional_id!r} are being written; ask"
            " again"
        )
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, text)
