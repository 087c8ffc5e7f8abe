"""One transactional id: its producer, its state, and the partitions of its transaction.

This file decides which state may follow which. A value never changes. ``moved`` returns the next
value, and refuses a transition that the table does not have. Every field except the last producer
epoch is stored. Therefore only the coordinator that responded to an InitProducerId request
recognizes a retry of this request.

Source: KIP-98; KIP-360 (previous producer id, last epoch); KIP-890 (next producer id, client
version).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from log_service.common.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

NO_START_MS = -1
MAX_EPOCH = 32_767
"""The last epoch. Only markers use it.

The last epoch of a producer is one less, so that the coordinator can always fence the producer.
"""
NEVER_TIMES_OUT_MS = 2**31 - 1
"""The timeout of a transaction that an external coordinator ends (KIP-939)."""

CLASSIC_VERSION = 0
EPOCH_BUMP_VERSION = 2
"""From this version on, each end of a transaction raises the producer's epoch (KIP-890)."""


class TransactionState(IntEnum):
    """The state of a transactional id. The numbers are stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The state's name for admin clients."""
        return _NAMES[self]


_NAMES = {
    state: "".join(word.capitalize() for word in state.name.split("_"))
    for state in TransactionState
}

_EMPTY, _ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT, _COMPLETE_COMMIT, _COMPLETE_ABORT = (
    TransactionState(number) for number in range(6)
)

AT_REST = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})
"""States without an open transaction. A transaction may begin, and the id may expire."""
ENDING = frozenset({_PREPARE_COMMIT, _PREPARE_ABORT})
"""States in which the outcome is stored and markers are being written."""

SOURCES: Mapping[TransactionState, frozenset[TransactionState]] = MappingProxyType(
    {
        _EMPTY: AT_REST,
        _ONGOING: AT_REST | {_ONGOING},
        _PREPARE_COMMIT: frozenset({_ONGOING}),
        _PREPARE_ABORT: AT_REST | {_ONGOING},
        _COMPLETE_COMMIT: frozenset({_PREPARE_COMMIT}),
        _COMPLETE_ABORT: frozenset({_PREPARE_ABORT}),
    }
)
"""The states from which each state may be reached.

An id that expires has no state any more. A fence moves directly to PREPARE_ABORT.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The value of a transactional id.

    Times are wall-clock milliseconds. ``start_ms`` is -1 while no transaction has begun.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    last_update_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_START_MS
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = CLASSIC_VERSION

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epochs left for producers."""
        return self.producer_epoch >= MAX_EPOCH - 1

    @property
    def is_ending(self) -> bool:
        """Whether the markers of the transaction are being written.

        Until all are written, requests cannot change the state of the transactional id.
        """
        return self.state in ENDING

    @property
    def is_commit(self) -> bool:
        """Whether an ending transaction is committed."""
        return self.state is TransactionState.PREPARE_COMMIT

    @property
    def completed_identity(self) -> tuple[int, int]:
        """The producer id and epoch after an ending transaction is complete.

        If the epochs of the old producer id are used up, a new producer id is returned.
        """
        return (
            (self.producer_id, self.producer_epoch)
            if self.next_producer_id == NO_PRODUCER_ID
            else (self.next_producer_id, 0)
        )

    def moved(self, state: TransactionState, now_ms: int, **changes: Any) -> "Transaction":
        """Return the value after a transition to ``state``, with ``changes``.

        ``SOURCES`` must allow the transition. The current producer id becomes the previous one.
        """
        assert self.state in SOURCES[state], (
            f"{self.transactional_id} cannot move from {self.state.label} to {state.label}"
        )
        return replace(
            self,
            state=state,
            last_update_ms=now_ms,
            previous_producer_id=self.producer_id,
            **changes,
        )
