"""Numbers the batches of an idempotent producer (KIP-98, KIP-360).

Decides which sequence numbers a batch gets, and when a partition starts at 0 again.

Invariants: the batches of a partition are numbered in the order of their records, without gaps. A
number that was sent stays with its records, unless the broker reports that it never received them.
A partition changes to another producer id or epoch only while none of its batches is in flight. It
then starts at 0 with a single batch. A broker that does not know a producer accepts any number. So
the second batch is sent only after the first was acknowledged. A broker may also lose its state of
the producer. After a broken connection the reason may be a loss of power, which destroys unsynced
data. After a loss of the leadership the broker truncates its log. So a single batch is sent first
over another connection, and after a batch that must be sent again.
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
    """The sequence numbers of one partition, and the producer id and epoch that they belong to."""

    __slots__ = ("_known_over", "acknowledged", "identity", "next_sequence")

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None
        self.acknowledged: ProducerIdentity | None = (
            None  # under which the broker acknowledged a batch of this partition
        )
        self.next_sequence = 0
        self._known_over: ReferenceType[object] | None = (
            None  # weak, because a closed connection holds buffers
        )

    def is_known_over(self, connection: object) -> bool:
        """Return whether the broker acknowledged a batch of this partition over this connection.

        It is false after a batch had to be sent again, until the next acknowledgement.
        """
        return self._known_over is not None and self._known_over() is connection

    def note_known_over(self, connection: object) -> None:
        """Note that the broker acknowledged a batch of this partition over this connection."""
        self._known_over = ref(connection)

    def note_sent_again(self) -> None:
        """Note that a batch of this partition must be sent again.

        The broker that receives it may not know the earlier batches.
        """
        self._known_over = None


class Sequences:
    """Numbers the batches of one producer. ``identity`` is None without a usable producer id."""

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None

    def take_identity(self, identity: ProducerIdentity) -> None:
        """Number batches with this producer id and epoch from now on."""
        self.identity = identity

    def forget_identity(self, producer_id: int) -> None:
        """Forget a producer id that the broker no longer accepts. A newer id stays."""
        if self.identity is not None and self.identity.producer_id == producer_id:
            self.identity = None

    def can_number(self, sequence: PartitionSequence, *, has_batches_in_flight: bool) -> bool:
        """Return whether a batch of the partition may get sequence numbers now."""
        is_known_there = sequence.identity == self.identity == sequence.acknowledged
        return self.identity is not None and (is_known_there or not has_batches_in_flight)

    def note_acknowledged(
        self, sequence: PartitionSequence, batch: ProducerBatch, connection: object
    ) -> None:
        """Note that the broker acknowledged a batch over a connection.

        So the broker knows the producer in that partition.
        """
        sequence.acknowledged = ProducerIdentity(batch.producer_id, batch.producer_epoch)
        sequence.note_known_over(connection)

    def number(self, sequence: PartitionSequence, batch: ProducerBatch) -> None:
        """Give a batch the next sequence numbers. ``can_number`` must be true."""
        assert self.identity is not None, "nothing is numbered before the broker gave a producer id"
        if sequence.identity != self.identity:
            sequence.identity, sequence.next_sequence = self.identity, 0
        batch.number(*self.identity, sequence.next_sequence)
        sequence.next_sequence = next_sequence(sequence.next_sequence, batch.record_count)

    def start_again(
        self,
        sequence: PartitionSequence,
        batches: Iterable[ProducerBatch],
        failed: ProducerIdentity,
    ) -> None:
        """Remove the sequence numbers of ``batches``, so that they get new ones in the next epoch.

        They are the waiting batches of a partition whose first outstanding batch the broker
        refused. The epoch is raised only if it is still that of ``failed``.
        """
        if self.identity == failed:
            next_epoch = failed.producer_epoch + 1
            self.identity = (
                ProducerIdentity(failed.producer_id, next_epoch)
                if next_epoch <= MAX_PRODUCER_EPOCH
                else None
            )
        if sequence.identity == failed:
            sequence.identity = None
        for batch in batches:
            batch.base_sequence = NO_SEQUENCE
