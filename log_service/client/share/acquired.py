"""Read the acquired records from the bytes of a share fetch.

A response has whole batches, and parts of them may belong to other members. This module decides
which records are returned (only those at acquired offsets) and which acquired offsets have no
record (compaction, markers). The offsets of an unreadable batch are released, so that a transient
fault does not lose them. Knows nothing of sessions and of the application.

Invariant: each acquired offset comes out exactly once: as a record, in ``gaps``, in ``unreadable``,
or in the result of ``give_up``.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from log_service.client.consumer.record_rows import rows_of
from log_service.client.consumer.records import ConsumerRecord, Deserializer
from log_service.client.share.records import ShareDeserializationError, ShareRecord, as_share_record
from log_service.common.errors import KafkaError, ProtocolError
from log_service.common.types import TopicPartition
from log_service.records.batch import BatchHeader, CorruptBatch, OpenBatch, is_crc_valid, iterate_headers, open_batch

MAX_ACQUIRED = 1 << 20
"""Limit of acquired offsets in a response for one partition.

A broker has fewer locks (``group.share.max.partition.max.record.locks``), with room for its
batches.
"""

AcquiredRange = tuple[int, int, int]
"""First offset, last offset (inclusive), delivery count."""


class AcquiredReader:
    """Reads the records that one response acquired of one partition."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        records: Any,
        acquired: Sequence[AcquiredRange],
        *,
        check_crcs: bool,
        deserializers: tuple[Deserializer | None, Deserializer | None],
    ) -> None:
        """Take a response.

        Raises ProtocolError: its ranges overlap, run backwards, or name more offsets than can be
        acquired.
        """
        self._topic_partition = topic_partition
        self._view = memoryview(b"" if records is None else records)
        self._check_crcs = check_crcs
        self._deserialize_key, self._deserialize_value = deserializers
        self._due = deque(_offsets(acquired))
        self._batches = iterate_headers(self._view, is_torn_tail_ok=True)
        self._batch: BatchHeader | None = None
        self._rows: Iterator[ConsumerRecord] = iter(())
        self._error: KafkaError | None = None
        self.size_bytes = len(self._view)
        self.gaps: list[int] = []
        self.unreadable: list[int] = []

    def read_into(self, taken: list[ShareRecord], max_records: int) -> bool:
        """Append records until ``taken`` holds ``max_records``. Returns whether nothing is left.

        Raises:
            ShareDeserializationError: earlier records were returned first. The next call continues
                behind the record.
            KafkaError: CORRUPT_MESSAGE, INVALID_RECORD and others. The offsets of that batch are
                now in ``unreadable``.
        """
        before_count = len(taken)
        try:
            while self._error is None and self._due and len(taken) < max_records:
                self._read_one(taken)
        except KafkaError as error:
            self._error = error
        if self._error is not None and len(taken) == before_count:
            failure, self._error = self._error, None
            raise failure
        return not self._due and self._error is None

    def give_up(self) -> list[int]:
        """Return the remaining offsets, and read no more records."""
        left = [offset for offset, _ in self._due]
        self._due.clear()
        untold, self._error = self._error, None
        return [untold.record.offset, *left] if isinstance(untold, ShareDeserializationError) else left

    def _read_one(self, taken: list[ShareRecord]) -> None:
        """Take one record, or move to the next batch."""
        try:
            record = next(self._rows, None)
        except KafkaError:
            self._skip_batch(self.unreadable)
            raise
        if record is None:
            self._skip_batch(self.gaps)
            self._open_next()
            return
        while self._due and self._due[0][0] < record.offset:
            self.gaps.append(self._due.popleft()[0])
        if self._due and self._due[0][0] == record.offset:
            _, count = self._due.popleft()
            taken.append(self._deserialized(as_share_record(record, count)))

    def _open_next(self) -> None:
        """Open the next batch that has an acquired offset.

        If no batch is left, all remaining offsets are gaps.
        """
        try:
            entry = next(self._batches, None)
        except KafkaError:
            self.unreadable += self.give_up()
            raise
        if entry is None:
            self.gaps += self.give_up()
            return
        at, self._batch = entry
        is_needed = not self._batch.is_control and self._due[0][0] < self._batch.next_offset
        if not is_needed:
            return  # its rows are empty, so its acquired offsets are gaps
        try:
            self._rows = rows_of([self._open(at, self._batch)], self._topic_partition)
        except KafkaError:
            self._skip_batch(self.unreadable)
            raise

    def _skip_batch(self, into: list[int]) -> None:
        """Move the remaining offsets of the batch to ``into``."""
        self._rows = iter(())
        while self._batch is not None and self._due and self._due[0][0] < self._batch.next_offset:
            into.append(self._due.popleft()[0])
        self._batch = None

    def _open(self, at: int, header: BatchHeader) -> OpenBatch:
        if self._check_crcs and not is_crc_valid(self._view[at : at + header.size_bytes]):
            raise CorruptBatch(f"{self._topic_partition}: the checksum of the batch at offset {header.base_offset} does not hold")
        return open_batch(self._view, at, header)

    def _deserialized(self, record: ShareRecord) -> ShareRecord:
        key, value, origin = record.key, record.value, "key"
        try:
            if key is not None and self._deserialize_key is not None:
                key = self._deserialize_key(key)
            origin = "value"
            if value is not None and self._deserialize_value is not None:
                value = self._deserialize_value(value)
        except Exception as error:
            raise ShareDeserializationError(record, origin, error) from error
        return record._replace(key=key, value=value)


def _offsets(acquired: Sequence[AcquiredRange]) -> Iterator[tuple[int, int]]:
    """Yield offset and delivery count of each acquired record. Raises ProtocolError."""
    count, behind = 0, 0
    for first, last, delivery_count in sorted(acquired):
        count += last - first + 1
        if first < behind or last < first or count > MAX_ACQUIRED:
            raise ProtocolError(f"offsets {first} to {last} cannot be acquired behind {behind}")
        behind = last + 1
        for offset in range(first, last + 1):
            yield offset, delivery_count
