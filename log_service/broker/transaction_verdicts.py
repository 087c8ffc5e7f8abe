"""What a client is told of a transaction coordinator's verdict about its partitions (KIP-890).

Decides what the version of a client's request lets the broker do, and which errors such a client can be told. Two requests write to a
transaction by themselves: Produce to any partition, TxnOffsetCommit to one of ``__consumer_offsets``. Their leader asks the coordinator
whether the partition is in the transaction; from version 12 and 5 on it has the partition added instead. Older clients do not know some
codes, or give up on them: they are told others, on which they try again or fail in order.
"""

from enum import Enum

from log_service.common.errors import ErrorCode


class Asker(Enum):
    """What a client can do, by the version of its request."""

    VERIFIES = "has announced its partitions"
    KNOWS_ABORTABLE = "and knows TRANSACTION_ABORTABLE"
    ADDS = "leaves it to the leaders to add partitions"

    @classmethod
    def of_produce(cls, version: int) -> "Asker":
        """Return what a producer of this version of Produce can do."""
        return cls.ADDS if version >= 12 else cls.KNOWS_ABORTABLE if version == 11 else cls.VERIFIES

    @classmethod
    def of_offset_commit(cls, version: int) -> "Asker":
        """Return what a producer of this version of TxnOffsetCommit can do."""
        return cls.ADDS if version >= 5 else cls.KNOWS_ABORTABLE if version == 4 else cls.VERIFIES


_TRANSIENT = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def heard(code: ErrorCode, asker: Asker) -> ErrorCode:
    """Return what the coordinator's error of a partition, or of all, means to the request that asked."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # the brokers' own affair: to the client nothing was verified
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.TRANSACTION_ABORTABLE and asker is Asker.VERIFIES:
        return ErrorCode.INVALID_TXN_STATE
    return code


def told_to_producer(code: ErrorCode, asker: Asker) -> ErrorCode:
    """Return what a Produce response says. NOT_ENOUGH_REPLICAS has every client try again, and none look for another leader."""
    if code in _TRANSIENT or (code is ErrorCode.CONCURRENT_TRANSACTIONS and asker is not Asker.ADDS):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
