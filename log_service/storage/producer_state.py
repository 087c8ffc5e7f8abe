"""Idempotent producers of a log (KIP-98), with the epoch and the last five batches of each.

This module decides whether a batch is new, repeated, out of order or from a fenced producer. The
rules for a batch of a client:

- If its epoch is below the producer's, the error is INVALID_PRODUCER_EPOCH.
- If its first and last sequence equal those of one of the last five batches of this epoch, it is a
  repetition. It gets the offsets of the first copy.
- If its epoch is above the producer's, it must begin at sequence 0, else the error is
  OUT_OF_ORDER_SEQUENCE_NUMBER.
- In the same epoch the sequence must follow the last one (0 follows 2147483647), else the error is
  OUT_OF_ORDER_SEQUENCE_NUMBER.
- A batch of an unknown producer may begin at any sequence. The producer is new, or retention
  deleted its records (KIP-360).
- A batch outside of transactions gets INVALID_TXN_STATE while the producer has an open transaction.

``transaction_checks`` has further rules for transactional batches. This module does not know files
(``producer_snapshots``). About transactions it knows only where each begins and ends.

Invariant: the state is bounded. It holds five batches per producer, and forgets a producer
``producer.id.expiration.ms`` after its last write.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_SEQUENCE
from log_service.records.batch import CONTROL_FLAG, SEQUENCE_COUNT, TRANSACTIONAL_FLAG, BatchHeader
from log_service.storage.unstable_transactions import EndedTransaction, UnstableTransactions
from log_service.storage.verifications import Verifications

REMEMBERED_BATCH_COUNT = 5
NO_OFFSET = -1
_new = tuple.__new__  # faster than a named tuple's own __new__, which is a Python function


class RememberedBatch(NamedTuple):
    """A batch that a client may repeat. Sequences and offsets are inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """The epoch and last batches of one producer, newest last.

    Directly after a marker there are no batches.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "epoch",
        "last_ms",
        "producer_id",
    )

    def __init__(self, producer_id: int, epoch: int, last_ms: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[RememberedBatch] = deque(maxlen=REMEMBERED_BATCH_COUNT)
        self.last_ms = last_ms
        self.coordinator_epoch = -1
        self.current_txn_first_offset = NO_OFFSET

    def __repr__(self) -> str:
        return (
            f"<ProducerEntry {self.producer_id} epoch={self.epoch}"
            f" last={self.batches[-1] if self.batches else None}>"
        )

    @property
    def last_timestamp(self) -> int:
        """The latest timestamp of the last batch, as in DescribeProducers.

        Without a known batch, it is the time of the last write.
        """
        return self.batches[-1].timestamp if self.batches else self.last_ms

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or -1 if it is unknown."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerState:
    """The producers of one log.

    ``unstable`` holds the transactions that readers of committed records wait for, or None before
    the first transaction. ``verifications`` holds the producers whose transaction coordinator is
    being asked. Snapshots do not contain verifications.
    """

    __slots__ = ("_entries", "expiration_ms", "unstable", "verifications")

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self._entries: dict[int, ProducerEntry] = {}
        self.unstable: UnstableTransactions | None = None
        self.verifications = Verifications()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def __repr__(self) -> str:
        return f"<ProducerState producers={len(self)}>"

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return the entry of a producer, or None."""
        return self._entries.get(producer_id)

    def add(self, entry: ProducerEntry) -> None:
        """Add an entry from a snapshot."""
        self._entries[entry.producer_id] = entry

    def check(self, header: BatchHeader) -> RememberedBatch | None:
        """Return the batch that a client's batch repeats, or None if it is new and in order.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        first_sequence, epoch = header.base_sequence, header.producer_epoch
        if epoch == entry.epoch:
            last_sequence = entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE
            if first_sequence == (last_sequence + 1) % SEQUENCE_COUNT:
                if entry.current_txn_first_offset != NO_OFFSET:
                    _check_in_transaction(header)
                return None
            repeated = find_repeated(entry.batches, first_sequence, header.last_sequence)
            if repeated is not None:
                return repeated
            text = (
                f"producer {header.producer_id} sends sequence {first_sequence} after"
                f" {last_sequence} (epoch {epoch})"
            )
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        if epoch < entry.epoch:
            text = (
                f"producer {header.producer_id} has epoch {entry.epoch} by now, the batch is of"
                f" epoch {epoch}"
            )
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
        if first_sequence != 0:
            text = (
                f"producer {header.producer_id} begins epoch {epoch} with sequence {first_sequence}"
                " in place of 0"
            )
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        if entry.current_txn_first_offset != NO_OFFSET:
            _check_in_transaction(header)
        return None

    def update(self, header: BatchHeader, base_offset: int, now_ms: int | None = None) -> None:
        """Apply a batch at ``base_offset`` that was appended or read from the log.

        ``now_ms`` is the time of the producer's last write, from which its expiration counts. It is
        None for a batch read from the log, whose own timestamp is used. A batch that is appended
        now may have an old timestamp, by which the producer would be forgotten at once.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        last_ms = header.max_timestamp if now_ms is None else now_ms
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id, epoch, last_ms)
        elif epoch > entry.epoch:
            entry.epoch = epoch
            entry.batches.clear()
        entry.last_ms = last_ms
        is_control, first_sequence = header.attributes & CONTROL_FLAG, header.base_sequence
        if header.attributes & TRANSACTIONAL_FLAG:
            self.verifications.end(header)
            if not is_control and entry.current_txn_first_offset == NO_OFFSET:
                entry.current_txn_first_offset = base_offset
                self._begin(producer_id, base_offset)
        if first_sequence >= 0 and not is_control:
            delta = header.last_offset_delta
            last_sequence = (first_sequence + delta) % SEQUENCE_COUNT
            fields = (
                first_sequence,
                last_sequence,
                base_offset,
                base_offset + delta,
                header.max_timestamp,
            )
            entry.batches.append(_new(RememberedBatch, fields))

    def end_transaction(
        self, header: BatchHeader, coordinator_epoch: int, now_ms: int | None = None
    ) -> EndedTransaction | None:
        """Apply the marker of a transaction, and return the transaction.

        This replaces ``update`` for markers. Return None if the producer has no open transaction.
        """
        self.update(header, header.base_offset, now_ms)
        entry = self._entries[header.producer_id]
        entry.coordinator_epoch = max(entry.coordinator_epoch, coordinator_epoch)
        entry.current_txn_first_offset = NO_OFFSET
        return (
            None
            if self.unstable is None
            else self.unstable.end(header.producer_id, header.last_offset)
        )

    def _begin(self, producer_id: int, first_offset: int) -> None:
        if self.unstable is None:
            self.unstable = UnstableTransactions()
        self.unstable.begin(producer_id, first_offset)

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction, or None."""
        return None if self.unstable is None else self.unstable.first_open_offset

    @property
    def first_open_last_ms(self) -> int | None:
        """The ``last_timestamp`` of the producer of the oldest open transaction, or None."""
        opened = () if self.unstable is None else self.unstable.open
        entry = self._entries.get(next(iter(opened), -1))
        return None if entry is None else entry.last_timestamp

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset. See ``UnstableTransactions``."""
        return (
            high_watermark
            if self.unstable is None
            else self.unstable.last_stable_offset(high_watermark)
        )

    def remember_for(self, expiration_ms: int) -> None:
        """Let ``expire`` forget producers ``expiration_ms`` after their last write, from now on."""
        self.expiration_ms = expiration_ms

    def expire(self, now_ms: int) -> int:
        """Forget producers whose last write is too old, and return their number.

        A producer with an open transaction stays. Verifications that are too old are dropped, too.
        """
        before_ms = now_ms - self.expiration_ms
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.last_ms <= before_ms and entry.current_txn_first_offset == NO_OFFSET
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        self.verifications.expire(before_ms)
        return len(expired)

    def reset(self, entries: Iterable[ProducerEntry] = ()) -> None:
        """Replace all entries by the entries of a snapshot."""
        self._entries = {entry.producer_id: entry for entry in entries}
        if self.unstable is not None:
            self.unstable.clear()
        still_open = [
            entry for entry in self._entries.values() if entry.current_txn_first_offset != NO_OFFSET
        ]
        for entry in sorted(still_open, key=attrgetter("current_txn_first_offset")):
            self._begin(entry.producer_id, entry.current_txn_first_offset)


def _check_in_transaction(header: BatchHeader) -> None:
    """Refuse a batch outside of transactions while its producer has an open transaction.

    Raises:
        KafkaError: INVALID_TXN_STATE.
    """
    if not header.attributes & TRANSACTIONAL_FLAG:
        text = (
            f"producer {header.producer_id} has a transaction open, and the batch is not part"
            " of one"
        )
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)


def find_repeated(
    batches: Iterable[RememberedBatch], first_sequence: int, last_sequence: int
) -> RememberedBatch | None:
    """Return the remembered batch with these first and last sequences, or None."""
    for batch in batches:
        if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
            return batch
    return None
