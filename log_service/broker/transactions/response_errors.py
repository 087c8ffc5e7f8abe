"""Error codes for clients if a coordinator does not confirm a transaction's partitions (KIP-890).

The version of a client's request tells which steps the broker may take for it, and which errors the
client understands. This module decides both. Two requests write to a transaction by themselves:
Produce to any partition, TxnOffsetCommit to one of ``__consumer_offsets``. Their leader asks the
coordinator whether the partition is in the transaction. From version 12 of Produce and version 5 of
TxnOffsetCommit on, the leader asks it to add the partition instead. Older clients do not know some
codes, or give up on them. They get other codes, after which they retry or fail in order.
"""

from enum import Enum

from log_service.common.errors import ErrorCode


class Asker(Enum):
    """The parts of KIP-890 that a client supports, by the version of its request."""

    VERIFIES = "has announced its partitions"
    KNOWS_ABORTABLE = "and knows TRANSACTION_ABORTABLE"
    ADDS = "leaves it to the leaders to add partitions"

    @classmethod
    def of_produce(cls, version: int) -> "Asker":
        """Return what a producer with this version of Produce supports."""
        return cls.ADDS if version >= 12 else cls.KNOWS_ABORTABLE if version == 11 else cls.VERIFIES

    @classmethod
    def of_offset_commit(cls, version: int) -> "Asker":
        """Return what a producer with this version of TxnOffsetCommit supports."""
        return cls.ADDS if version >= 5 else cls.KNOWS_ABORTABLE if version == 4 else cls.VERIFIES


_TRANSIENT = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def request_error(code: ErrorCode, asker: Asker) -> ErrorCode:
    """Translate a coordinator's error into one that the client's version understands."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # Internal to the brokers: to the client nothing was verified.
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.TRANSACTION_ABORTABLE and asker is Asker.VERIFIES:
        return ErrorCode.INVALID_TXN_STATE
    return code


def produce_error(code: ErrorCode, asker: Asker) -> ErrorCode:
    """Translate a coordinator's error into one for a Produce response.

    Temporary errors become NOT_ENOUGH_REPLICAS. It makes every client retry, and none look for
    another leader.
    """
    if code in _TRANSIENT or (
        code is ErrorCode.CONCURRENT_TRANSACTIONS and asker is not Asker.ADDS
    ):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
