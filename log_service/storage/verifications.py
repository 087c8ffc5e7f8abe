"""Producers of one log for which a transaction coordinator is being asked (KIP-890).

A batch that arrives after its transaction has ended would open a transaction that is never closed.
Readers of committed records would wait for it forever. So the leader asks the coordinator before
the first batch of a transaction, and stores the pending question here. The append must show the
verification that ``begin`` returned. A marker, or another batch of the producer, ends the
verification meanwhile. The append is then refused, because the coordinator's response is out of
date.

This module decides when a verification begins, which sequence it admits, and what ends it. It knows
neither requests nor the coordinator. Nothing is on disk, so the coordinator is asked again after a
restart.

Invariants: a producer has at most one verification. A verification that nothing ends is dropped
``producer.id.expiration.ms`` after it began.
"""

from log_service.records.batch import CONTROL_FLAG, BatchHeader


class Verification:
    """A pending question about one producer. An append must show this same object.

    ``lowest_sequence`` is the lowest first sequence seen. While the batch with this sequence is
    retried, no later batch may overtake it.
    """

    __slots__ = ("begun_ms", "epoch", "is_version_2", "lowest_sequence")

    def __init__(
        self, epoch: int, lowest_sequence: int, begun_ms: int, *, is_version_2: bool
    ) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.begun_ms = begun_ms
        self.is_version_2 = is_version_2

    def __repr__(self) -> str:
        version = 2 if self.is_version_2 else 1
        return (
            f"<Verification epoch={self.epoch} lowest_sequence={self.lowest_sequence}"
            f" version={version}>"
        )


ONGOING = Verification(-1, -1, 0, is_version_2=False)
"""The verification of an append whose transaction is already open. Nothing must be verified."""
UNCHECKED = Verification(-1, -1, 0, is_version_2=False)
"""The verification of an append while ``transaction.partition.verification.enable`` is false."""


class Verifications:
    """The verifications of one log, by producer id."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._begun)

    def get(self, producer_id: int) -> Verification | None:
        """Return the verification of a producer, or None."""
        return self._begun.get(producer_id)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, *, is_version_2: bool, now_ms: int
    ) -> Verification:
        """Return the verification that an append of a batch at ``sequence`` must show.

        Another call returns the same object. A later epoch restarts its sequences.
        """
        begun = self._begun.get(producer_id)
        if begun is None:
            begun = self._begun[producer_id] = Verification(
                epoch, sequence, now_ms, is_version_2=is_version_2
            )
        elif epoch > begun.epoch:
            begun.epoch, begun.lowest_sequence = epoch, sequence
        elif epoch == begun.epoch and sequence < begun.lowest_sequence:
            begun.lowest_sequence = sequence
        return begun

    def end(self, header: BatchHeader) -> None:
        """End the verification, because a transactional batch or a marker was appended.

        A marker of version 2 has the epoch of the next transaction. A verification of this epoch
        belongs to the next transaction and stays.
        """
        begun = self._begun.get(header.producer_id)
        if begun is None:
            return
        is_next = (
            header.attributes & CONTROL_FLAG
            and begun.is_version_2
            and header.producer_epoch == begun.epoch
        )
        if not is_next:
            del self._begun[header.producer_id]

    def expire(self, before_ms: int) -> None:
        """Drop verifications that began at or before ``before_ms``."""
        for producer_id in [
            producer_id for producer_id, begun in self._begun.items() if begun.begun_ms <= before_ms
        ]:
            del self._begun[producer_id]
