"""What a broker's response means for a batch: settled, sent again, split in two, numbered anew, or given up (KIP-98, KIP-360).

Decides from the error code and the batch alone; knows neither queues nor network.
"""

from enum import Enum, auto

from log_service.client.producer.delivery import ProducerBatch
from log_service.common.errors import ErrorCode

LOST_IDENTITY = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
NUMBERS_OF_TRANSACTIONS = LOST_IDENTITY | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
"""After these a transaction cannot be committed: a batch of it may be lost. Only its end brings another epoch."""
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
"""After these the view of the cluster is asked for again before the next try."""


class Verdict(Enum):
    """What becomes of a batch whose response came."""

    COMPLETE = auto()
    RETRY = auto()
    SPLIT = auto()
    NUMBER_ANEW = auto()
    NEW_IDENTITY = auto()
    FAIL = auto()


def judge(code: ErrorCode, batch: ProducerBatch, *, is_first_outstanding: bool) -> Verdict:
    """Say what an error code means for a batch."""
    if code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
        return Verdict.COMPLETE
    if code is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
        return Verdict.SPLIT
    if batch.is_transactional and code in NUMBERS_OF_TRANSACTIONS:
        is_behind_another = code not in LOST_IDENTITY and not is_first_outstanding
        return Verdict.RETRY if is_behind_another else Verdict.FAIL
    if batch.has_sequence:
        if code in {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}:
            return Verdict.NUMBER_ANEW if is_first_outstanding else Verdict.RETRY
        if code in LOST_IDENTITY:
            return Verdict.NEW_IDENTITY
    return Verdict.RETRY if code.is_retriable else Verdict.FAIL
