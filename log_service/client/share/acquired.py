"""Reads the acquired records from the bytes of a share fetch.

A response contains whole batches, and other members may have acquired some of their records. This
module returns only the records at acquired offsets. It also finds acquired offsets without a record
(``gaps``), which come from compaction and markers. The offsets of a batch that cannot be read are
put into ``unreadable``, so that the caller can release them, because the cause may pass. If the
checksum of a batch does not match, its header cannot be trusted. In this case all offsets up to the
next batch are unreadable.

Invariant: each acquired offset is reported exactly once: as a record, in ``gaps``, in
``unreadable``, or in the result of ``give_up``.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from log_service.client.consumer.record_rows import rows_of
from log_service.client.consumer.records import ConsumerRecord, Deserializer
from log_service.client.share.records import ShareDeserializationError, ShareRecord, as_share_record
from log_service.common.errors import KafkaError, ProtocolError
from log_service.common.types import TopicPartition
from log_service.records.batch import (
    BatchHeader,
    CorruptBatch,
    OpenBatch,
    is_crc_valid,
    iterate_headers,
    open_batch,
)

MAX_ACQUIRED = 1 << 20
"""Limit of acquired offsets in a response for one partition, against faulty responses.

Brokers stay below it, because ``group.share.max.partition.max.record.locks`` limits their locks.
"""

AcquiredRange = tuple[int, int, int]
"""First offset, last offset (inclusive), delivery count."""


class AcquiredReader:
    """Reads the records of one partition that were acquired with one response."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        records: Any,
        acquired: Sequence[AcquiredRange],
        *,
        check_crcs: bool,
        deserializers: tuple[Deserializer | None, Deserializer | None],
    ) -> None:
        """Store the batches (``records``) and the acquired ranges of one partition.

        Raises ProtocolError if ranges overlap, end before they begin, or have more offsets than can
        be acquired.
        """
        self._topic_partition = topic_partition
        self._view = memoryview(b"" if records is None else records)
        self._check_crcs = check_crcs
        self._deserialize_key, self._deserialize_value = deserializers
        self._due = deque(_offsets(acquired))
        self._headers: list[tuple[int, BatchHeader]] = []
        self._header_error: KafkaError | None = None
        try:
            self._headers.extend(iterate_headers(self._view, is_torn_tail_ok=True))
        except KafkaError as error:
            self._header_error = error
        self._next_batch = 0
        self._end = 0
        self._rows: Iterator[ConsumerRecord] = iter(())
        self._error: KafkaError | None = None
        self.size_bytes = len(self._view)
        self.gaps: list[int] = []
        self.unreadable: list[int] = []

    def read_into(self, taken: list[ShareRecord], max_records: int) -> bool:
        """Append records until ``taken`` holds ``max_records``. Return whether no record is left.

        Raises:
            ShareDeserializationError: earlier records were returned first. The next call continues
                after the record that could not be deserialized.
            KafkaError: CORRUPT_MESSAGE, INVALID_RECORD and others, a batch cannot be read. Its
                offsets are now in ``unreadable``.
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
        """Stop reading, and return the offsets whose records were not returned."""
        left = [offset for offset, _ in self._due]
        self._due.clear()
        pending_error, self._error = self._error, None
        return (
            [pending_error.record.offset, *left]
            if isinstance(pending_error, ShareDeserializationError)
            else left
        )

    def _read_one(self, taken: list[ShareRecord]) -> None:
        """Read one record, or move to the next batch."""
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
        """Move to the next batch, and open it if it has an acquired offset.

        If no batch is left, all remaining offsets are gaps.

        Raises:
            KafkaError: the batch cannot be read, or the bytes after the last one are not a batch.
        """
        if self._next_batch == len(self._headers):
            left = self.give_up()
            if self._header_error is not None:
                self.unreadable += left
                raise self._header_error
            self.gaps += left
            return
        at, header = self._headers[self._next_batch]
        self._next_batch += 1
        behind = self._base_after(header)
        self._end = min(header.next_offset, behind)
        first = self._due[0][0]
        if first >= behind:
            return
        is_needed = not header.is_control and first < self._end
        try:
            if is_needed:
                self._rows = rows_of([self._open(at, header)], self._topic_partition)
            else:  # its rows are empty, so its acquired offsets are gaps
                self._validate(at, header)
        except KafkaError:
            if not self._is_intact(at, header):
                self._end = behind
            self._skip_batch(self.unreadable)
            raise

    def _base_after(self, header: BatchHeader) -> int:
        """Return the base offset of the next batch, or the offset after all acquired ones."""
        if self._next_batch < len(self._headers):
            base_offset = self._headers[self._next_batch][1].base_offset
            if base_offset > header.base_offset:
                return base_offset
        return self._due[-1][0] + 1

    def _skip_batch(self, into: list[int]) -> None:
        """Move the acquired offsets that remain in the present batch to ``into``."""
        self._rows = iter(())
        while self._due and self._due[0][0] < self._end:
            into.append(self._due.popleft()[0])
        self._end = 0

    def _open(self, at: int, header: BatchHeader) -> OpenBatch:
        self._validate(at, header)
        return open_batch(self._view, at, header)

    def _validate(self, at: int, header: BatchHeader) -> None:
        if not self._is_intact(at, header):
            raise CorruptBatch(
                f"{self._topic_partition}: the checksum of the batch at offset {header.base_offset}"
                " does not hold"
            )

    def _is_intact(self, at: int, header: BatchHeader) -> bool:
        return not self._check_crcs or is_crc_valid(self._view[at : at + header.size_bytes])

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
    """Yield the offset and delivery count of each acquired record.

    Raises:
        ProtocolError: ranges overlap, end before they begin, or have too many offsets.
    """
    count, behind = 0, 0
    for first, last, delivery_count in sorted(acquired):
        count += last - first + 1
        if first < behind or last < first or count > MAX_ACQUIRED:
            raise ProtocolError(f"offsets {first} to {last} cannot be acquired behind {behind}")
        behind = last + 1
        for offset in range(first, last + 1):
            yield offset, delivery_count
