"""Which producers of one log a transaction coordinator is being asked about, before the first batch of a transaction (KIP-890).

A batch that arrives late, after its transaction has ended, would open a transaction that stays open: readers of committed records would
wait behind it for ever. So the leader asks the coordinator before the first batch of a transaction, and notes here that it asks. The append
has to show what ``begin`` returned. A marker, or another batch of the producer, takes the note away in the meantime, and then the append is
refused: what the coordinator said is not true any more.

Decides when a note begins, which sequence it lets in, and what ends it. Knows neither requests nor the coordinator. Nothing of it is on the
disk: a restart asks again.

Invariants: at most one note for a producer; a note that nothing ends goes ``producer.id.expiration.ms`` after it began.
"""

from log_service.records.batch import CONTROL_FLAG, BatchHeader


class Verification:
    """One producer that the coordinator is asked about; the object itself is what an append has to show.

    ``lowest_sequence`` is the lowest first sequence seen: while the batch that has it is tried again, no later one may overtake it.
    """

    __slots__ = ("begun_ms", "epoch", "is_version_2", "lowest_sequence")

    def __init__(self, epoch: int, lowest_sequence: int, begun_ms: int, *, is_version_2: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.begun_ms = begun_ms
        self.is_version_2 = is_version_2

    def __repr__(self) -> str:
        version = 2 if self.is_version_2 else 1
        return f"<Verification epoch={self.epoch} lowest_sequence={self.lowest_sequence} version={version}>"


ONGOING = Verification(-1, -1, 0, is_version_2=False)
"""What an append shows whose transaction was open when it was asked for: there is nothing to verify."""
UNCHECKED = Verification(-1, -1, 0, is_version_2=False)
"""What an append shows where ``transaction.partition.verification.enable`` is false."""


class Verifications:
    """Those of one log, by producer id."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._begun)

    def get(self, producer_id: int) -> Verification | None:
        """Return the note of a producer."""
        return self._begun.get(producer_id)

    def begin(self, producer_id: int, epoch: int, sequence: int, *, is_version_2: bool, now_ms: int) -> Verification:
        """Return what the append of a batch that begins at ``sequence`` has to show; the same as before where it is asked for again.

        A later epoch begins its sequences anew.
        """
        begun = self._begun.get(producer_id)
        if begun is None:
            begun = self._begun[producer_id] = Verification(epoch, sequence, now_ms, is_version_2=is_version_2)
        elif epoch > begun.epoch:
            begun.epoch, begun.lowest_sequence = epoch, sequence
        elif epoch == begun.epoch and sequence < begun.lowest_sequence:
            begun.lowest_sequence = sequence
        return begun

    def end(self, header: BatchHeader) -> None:
        """Take note of a transactional batch, or a marker, that was appended.

        A marker of version 2 has the epoch of the transaction behind it. A note of that epoch is of that transaction, and stays.
        """
        begun = self._begun.get(header.producer_id)
        if begun is None:
            return
        is_next = header.attributes & CONTROL_FLAG and begun.is_version_2 and header.producer_epoch == begun.epoch
        if not is_next:
            del self._begun[header.producer_id]

    def expire(self, before_ms: int) -> None:
        """Forget what began at or before a time."""
        for producer_id in [producer_id for producer_id, begun in self._begun.items() if begun.begun_ms <= before_ms]:
            del self._begun[producer_id]
