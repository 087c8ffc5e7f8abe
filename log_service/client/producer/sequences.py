"""Sequence numbers of an idempotent producer (KIP-98, KIP-360): which batch carries which, and when a partition has to start again.

Knows no network and no clock.

Invariants: a partition's batches are numbered in the order in which their records were sent, without gaps. A number that was sent stays
with its records until the broker has said that it never saw them. A partition changes to another producer id or epoch only while none of
its batches is in flight, and then starts at 0 with one batch: a broker that does not know a producer takes any number, so the second batch
leaves only when the first was acknowledged. What a broker knew may be gone with its connection (a loss of power takes what was not synced)
or with its leadership (logs are cut): over another connection, and after a batch that has to be sent again, one batch leaves alone, too.
"""

from collections.abc import Iterable
from typing import NamedTuple
from weakref import ReferenceType, ref

from log_service.client.producer.delivery import ProducerBatch
from log_service.common.types import NO_SEQUENCE
from log_service.records.batch import next_sequence

MAX_PRODUCER_EPOCH = 32_767


class ProducerIdentity(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    producer_epoch: int


class PartitionSequence:
    """The numbering of one partition."""

    __slots__ = ("_known_over", "acknowledged", "identity", "next_sequence")

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None
        self.acknowledged: ProducerIdentity | None = None  # under which the broker took something of this partition
        self.next_sequence = 0
        self._known_over: ReferenceType[object] | None = None  # weak: a closed connection has buffers

    def is_known_over(self, connection: object) -> bool:
        """Whether the broker at the other end took a batch of this partition over this connection, and nothing was sent again since."""
        return self._known_over is not None and self._known_over() is connection

    def note_known_over(self, connection: object) -> None:
        """Note that the broker at the other end took a batch of this partition."""
        self._known_over = ref(connection)

    def note_sent_again(self) -> None:
        """Note that a batch of this partition has to be sent again: the broker that gets it may know nothing of those before."""
        self._known_over = None


class Sequences:
    """The numbering of one producer. ``identity`` is None until the broker gave one, and after it became unusable."""

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None

    def take_identity(self, identity: ProducerIdentity) -> None:
        """Number with what the broker gave."""
        self.identity = identity

    def forget_identity(self, producer_id: int) -> None:
        """Forget a producer id that the broker does not take any more; another that was given meanwhile stays."""
        if self.identity is not None and self.identity.producer_id == producer_id:
            self.identity = None

    def can_number(self, sequence: PartitionSequence, *, has_batches_in_flight: bool) -> bool:
        """Whether a batch of that partition may be numbered (or sent again) now."""
        is_known_there = sequence.identity == self.identity == sequence.acknowledged
        return self.identity is not None and (is_known_there or not has_batches_in_flight)

    def note_acknowledged(self, sequence: PartitionSequence, batch: ProducerBatch, connection: object) -> None:
        """Note that the broker took a batch over a connection: it knows the producer in that partition now."""
        sequence.acknowledged = ProducerIdentity(batch.producer_id, batch.producer_epoch)
        sequence.note_known_over(connection)

    def number(self, sequence: PartitionSequence, batch: ProducerBatch) -> None:
        """Number a batch that has no number yet; ``can_number`` said yes."""
        assert self.identity is not None, "nothing is numbered before the broker gave a producer id"
        if sequence.identity != self.identity:
            sequence.identity, sequence.next_sequence = self.identity, 0
        batch.number(*self.identity, sequence.next_sequence)
        sequence.next_sequence = next_sequence(sequence.next_sequence, batch.record_count)

    def start_again(self, sequence: PartitionSequence, batches: Iterable[ProducerBatch], failed: ProducerIdentity) -> None:
        """Number all waiting batches anew, under another epoch, because the broker refused the partition's first outstanding batch.

        The epoch rises only if it is still the one of ``failed``.
        """
        if self.identity == failed:
            next_epoch = failed.producer_epoch + 1
            self.identity = ProducerIdentity(failed.producer_id, next_epoch) if next_epoch <= MAX_PRODUCER_EPOCH else None
        if sequence.identity == failed:
            sequence.identity = None
        for batch in batches:
            batch.base_sequence = NO_SEQUENCE
