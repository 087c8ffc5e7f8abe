"""Checks of transactional batches and markers before an append (KIP-98, KIP-890, KIP-1228).

A leader decides by the producer's state in its log. The checks change nothing. The rules for a
batch of a client:

- A batch that repeats one of the last five gets the offsets of the first copy, even after its
  transaction has ended.
- The first batch of a transaction must show the verification of this producer (``verifications``),
  else the error is INVALID_TXN_STATE.
- If its epoch is below the producer's, the error is INVALID_PRODUCER_EPOCH.
- If its sequence is above the lowest one that waits for the coordinator, the error is
  OUT_OF_ORDER_SEQUENCE_NUMBER. With transaction version 2, a producer without known batches gets
  the same error for any first sequence except 0.
- Then the rules of every idempotent batch apply (``producer_state``).

A coordinator's own batch has no sequence, so only the epoch and the verification are checked. A
marker must not have an older coordinator epoch or producer epoch. With version 2, each transaction
has its own epoch, and its marker has the next one. Therefore a marker with the producer's own epoch
is too late, unless no transaction is open. The marker may then be a repeated one.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import BatchHeader
from log_service.storage.producer_state import (
    NO_OFFSET,
    ProducerEntry,
    ProducerState,
    RememberedBatch,
    find_repeated,
)
from log_service.storage.verifications import ONGOING, UNCHECKED, Verification

LAST_EPOCH = 2**15 - 1
"""The last epoch, which only markers have. After it, the producer gets a new id."""
TRANSACTION_VERSION_2 = 2


def check_client_batch(
    producers: ProducerState, header: BatchHeader, shown: Verification
) -> RememberedBatch | None:
    """Return the batch that a client's transactional batch repeats, or None if it may be appended.

    Raises:
        KafkaError: INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER.
    """
    entry = producers.get(header.producer_id)
    if entry is not None and header.producer_epoch == entry.epoch:
        repeated = find_repeated(entry.batches, header.base_sequence, header.last_sequence)
        if repeated is not None:
            return repeated
    _check_verified(producers, entry, header, shown)
    _check_lowest_sequence(producers, entry, header)
    return producers.check(header)


def check_own_batch(producers: ProducerState, header: BatchHeader, shown: Verification) -> None:
    """Check a batch that a coordinator of this node appends in a producer's transaction.

    Raises:
        KafkaError: INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH.
    """
    _check_verified(producers, producers.get(header.producer_id), header, shown)


def _check_verified(
    producers: ProducerState, entry: ProducerEntry | None, header: BatchHeader, shown: Verification
) -> None:
    if entry is not None and header.producer_epoch < entry.epoch:
        raise _fenced(header.producer_id, header.producer_epoch, entry.epoch)
    if shown is UNCHECKED or is_open(entry, header.producer_epoch):
        return
    if producers.verifications.get(header.producer_id) is not shown:
        text = (
            f"the transaction of producer {header.producer_id} that the batch belongs to is not"
            " open"
        )
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)


def _check_lowest_sequence(
    producers: ProducerState, entry: ProducerEntry | None, header: BatchHeader
) -> None:
    begun, sequence = producers.verifications.get(header.producer_id), header.base_sequence
    if begun is None:
        return
    if sequence > begun.lowest_sequence:
        text = (
            f"producer {header.producer_id} sends sequence {sequence} while {begun.lowest_sequence}"
            " is being verified"
        )
        raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
    if begun.is_version_2 and sequence != 0 and (entry is None or not entry.batches):
        text = (
            f"producer {header.producer_id} has no batch here and begins with sequence {sequence}"
            " in place of 0"
        )
        raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)


def is_open(entry: ProducerEntry | None, epoch: int) -> bool:
    """Return whether the producer has a transaction open in this epoch."""
    return (
        entry is not None and entry.epoch == epoch and entry.current_txn_first_offset != NO_OFFSET
    )


def begin_verification(
    producers: ProducerState,
    producer_id: int,
    epoch: int,
    sequence: int,
    *,
    is_version_2: bool,
    now_ms: int,
) -> Verification:
    """Return the verification that an append must show.

    If the producer's transaction is open, this is ``ONGOING``, and the coordinator need not be
    asked.

    Raises:
        KafkaError: INVALID_PRODUCER_EPOCH, the producer has a later epoch.
    """
    entry = producers.get(producer_id)
    if entry is not None and epoch < entry.epoch:
        raise _fenced(producer_id, epoch, entry.epoch)
    if is_open(entry, epoch):
        return ONGOING
    return producers.verifications.begin(
        producer_id, epoch, sequence, is_version_2=is_version_2, now_ms=now_ms
    )


def check_marker(
    entry: ProducerEntry | None,
    producer_epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
) -> None:
    """Check a marker of a transaction coordinator against the state of its producer.

    Raises:
        KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
    """
    if entry is None:
        return
    is_late = producer_epoch < entry.epoch
    if transaction_version >= TRANSACTION_VERSION_2 and producer_epoch == entry.epoch != LAST_EPOCH:
        is_late = entry.current_txn_first_offset != NO_OFFSET
    if is_late:
        raise _fenced(entry.producer_id, producer_epoch, entry.epoch)
    if coordinator_epoch < entry.coordinator_epoch:
        text = (
            f"the marker is of coordinator epoch {coordinator_epoch}, one of"
            f" {entry.coordinator_epoch} was here before"
        )
        raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, text)


def _fenced(producer_id: int, epoch: int, known_epoch: int) -> KafkaError:
    text = f"producer {producer_id} has epoch {known_epoch} by now, this is of epoch {epoch}"
    return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
