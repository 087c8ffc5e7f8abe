"""Decides what to do with a batch after its response (KIP-98, KIP-360).

The decision depends only on the error code, the batch, and whether the batch is its partition's
first outstanding one.
"""

from enum import Enum, auto

from log_service.client.producer.delivery import ProducerBatch
from log_service.common.errors import ErrorCode

LOST_IDENTITY = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
NUMBERS_OF_TRANSACTIONS = LOST_IDENTITY | {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}
"""Errors after which a transaction cannot be committed, because a batch may be lost.

The producer gets another epoch only with the end of the transaction.
"""
MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors after which metadata is refreshed before the next attempt."""


class BatchAction(Enum):
    """The possible actions on a batch after its response."""

    COMPLETE = auto()
    RETRY = auto()
    SPLIT = auto()
    NUMBER_ANEW = auto()
    NEW_IDENTITY = auto()
    FAIL = auto()


def action_on(code: ErrorCode, batch: ProducerBatch, *, is_first_outstanding: bool) -> BatchAction:
    """Return the action on a batch whose response has this error code."""
    if code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
        return BatchAction.COMPLETE
    if code is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
        return BatchAction.SPLIT
    if batch.is_transactional and code in NUMBERS_OF_TRANSACTIONS:
        is_behind_another = code not in LOST_IDENTITY and not is_first_outstanding
        return BatchAction.RETRY if is_behind_another else BatchAction.FAIL
    if batch.has_sequence:
        if code in {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}:
            return BatchAction.NUMBER_ANEW if is_first_outstanding else BatchAction.RETRY
        if code in LOST_IDENTITY:
            return BatchAction.NEW_IDENTITY
    return BatchAction.RETRY if code.is_retriable else BatchAction.FAIL
