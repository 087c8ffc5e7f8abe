"""Reads records from fetched bytes.

Batches are checked, decompressed and opened on demand. This module decides which records of a
response are visible, and how many batches are opened at once. Records before the position, markers
and records of aborted transactions are not visible. ``with_control`` makes the markers visible, and
returns all records with their producers. ``record_rows`` makes the record objects.

Invariants: after any number of records, ``position`` is the next offset to read, and
``end_position`` is the offset after the whole response. A damaged batch raises before any of its
records is returned. A malformed record raises after all records before it. With ``skip_corrupt``
neither raises. A warning names the skipped offsets, up to the end of the batch. If the checksum
does not match, the header cannot be trusted. The batch then ends where the next batch begins.
"""

import logging
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice, repeat
from typing import Any

from log_service.client.consumer.aborted import AbortedFilter
from log_service.client.consumer.record_rows import rows_in_turn, rows_of
from log_service.client.consumer.records import (
    ConsumerRecord,
    Deserializer,
    LogRecord,
    RecordDeserializationError,
)
from log_service.common.errors import KafkaError
from log_service.common.types import NO_LEADER_EPOCH, TopicPartition
from log_service.records.batch import (
    BatchHeader,
    CorruptBatch,
    OpenBatch,
    is_crc_valid,
    iterate_headers,
    open_batch,
)

logger = logging.getLogger(__name__)
RUN_BYTES = 1 << 20
"""Decompressed bytes to open at once if there are several batches.

It is large enough to make the cost of each step negligible.
"""


class RecordReader:
    """Reads the records of one partition in one response."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        records: Any,
        position: int,
        *,
        aborted: AbortedFilter | None,
        check_crcs: bool,
        skip_corrupt: bool = False,
        with_control: bool = False,
        use_numpy: bool = True,
        deserializers: tuple[Deserializer | None, Deserializer | None],
    ) -> None:
        self._topic_partition = topic_partition
        self._view = memoryview(records)
        self._aborted = aborted
        self._check_crcs = check_crcs
        self._skip_corrupt = skip_corrupt
        self._with_control = with_control
        self._rows_of = rows_of if use_numpy else rows_in_turn
        self._opened: list[OpenBatch] = []
        self._deserialize_key, self._deserialize_value = deserializers
        self._started = position
        self._headers = list(iterate_headers(self._view, is_torn_tail_ok=True))
        self._headers = [
            one
            for index, one in enumerate(self._headers)
            if one[1].next_offset > position or self._end_of(index) > position
        ]
        self._next_batch = 0
        self._rows: Iterator[ConsumerRecord] | None = None
        self.position = position
        self.leader_epoch: int = NO_LEADER_EPOCH
        self.end_position = self._end_of(len(self._headers) - 1) if self._headers else position
        self.end_epoch = (
            self._headers[-1][1].partition_leader_epoch if self._headers else NO_LEADER_EPOCH
        )

    def read_into(self, taken: list[ConsumerRecord], max_records: int) -> bool:
        """Append records to ``taken`` until it holds ``max_records``.

        Return whether no record of the response is left.

        Raises:
            RecordDeserializationError: ``position`` stays at that record, and the next call begins
                with it.
            KafkaError: CORRUPT_MESSAGE or INVALID_RECORD. ``position`` stays before the broken
                batch or record, unless it is skipped.
        """
        while len(taken) < max_records:
            try:
                if self._rows is None and not self._open_next():
                    return True
                assert self._rows is not None
                if self._read_rows(self._rows, taken, max_records):
                    self._rows = None
                    self._move_past(self._headers[self._next_batch - 1][1])
            except RecordDeserializationError:
                raise
            except KafkaError as error:
                self._leave_broken(error)
        return self._rows is None and self._next_batch == len(self._headers)

    def _read_rows(
        self, rows: Iterator[ConsumerRecord], taken: list[ConsumerRecord], max_records: int
    ) -> bool:
        """Append records of the opened batches. Return whether none of their records is left."""
        before_count = len(taken)
        wanted = islice(rows, max_records - before_count)
        try:
            if self._deserialize_key is None and self._deserialize_value is None:
                taken.extend(wanted)
            else:
                for record in wanted:
                    taken.append(self._deserialized(record, rows))  # noqa: PERF401 - records before one that fails are kept
        finally:
            if len(taken) > before_count:
                self.position, self.leader_epoch = taken[-1].offset + 1, taken[-1].leader_epoch
        return (
            len(taken) < max_records
            or self.position == self._headers[self._next_batch - 1][1].next_offset
        )

    def _open_next(self) -> bool:
        """Open the next visible batches that share leader epoch and timestamp type.

        Returns whether there are any.
        """
        opened: list[OpenBatch] = []
        size_bytes = 0
        while self._next_batch < len(self._headers) and size_bytes < RUN_BYTES:
            at, header = self._headers[self._next_batch]
            if opened and (self._with_control or not _are_alike(opened[0].header, header)):
                break
            try:
                batch = self._open(at, header)
            except KafkaError:
                if opened:
                    break  # raised when its turn comes
                raise
            self._next_batch += 1
            if self._is_visible(header, header.last_offset):
                opened.append(batch)
                size_bytes += batch.size_bytes
            elif not opened:
                self._move_past(header)
        if not opened:
            return False
        self._opened = opened
        self._rows = self._rows_of(opened, self._topic_partition)
        if self._with_control:
            self._rows = map(LogRecord.of, self._rows, repeat(opened[0].header))
        if opened[0].header.base_offset < self.position:
            start = self.position
            self._rows = (record for record in self._rows if record.offset >= start)
        return True

    def _open(self, at: int, header: BatchHeader) -> OpenBatch:
        if not self._is_intact(at, header):
            raise CorruptBatch("its checksum does not hold")
        return open_batch(self._view, at, header)

    def _end_of(self, index: int) -> int:
        """Return the offset after a batch.

        The header of a damaged batch cannot be trusted. If another batch follows, the batch ends
        there. Otherwise the header is trusted if its counts of records and offsets are equal. If
        they are not, return the smallest offset that makes progress. A fetch from there returns the
        batch again, together with the batches after it.
        """
        at, header = self._headers[index]
        next_base = (
            self._headers[index + 1][1].base_offset
            if index + 1 < len(self._headers)
            else header.base_offset
        )
        is_last = next_base <= header.base_offset
        if self._is_intact(at, header):
            return header.next_offset if is_last else min(header.next_offset, next_base)
        if not is_last:
            return next_base
        least = max(header.base_offset, self._started) + 1
        return (
            max(header.next_offset, least)
            if header.record_count == header.last_offset_delta + 1
            else least
        )

    def _is_intact(self, at: int, header: BatchHeader) -> bool:
        return not self._check_crcs or is_crc_valid(self._view[at : at + header.size_bytes])

    def _leave_broken(self, error: KafkaError) -> None:
        """Move past the unreadable batch and log it, if such batches are skipped.

        Raises:
            KafkaError: unreadable batches are not skipped.
        """
        broken = 0
        if self._rows is None:
            header = self._headers[self._next_batch][1]
            end = self._end_of(self._next_batch)
        else:
            broken = next(
                (index for index, batch in enumerate(self._opened) if self._is_broken(batch)),
                len(self._opened) - 1,
            )
            header = self._opened[broken].header
            end = header.next_offset
        where = (
            f"{self._topic_partition}: the batch at offsets {header.base_offset} to {end - 1}"
            f" cannot be read: {error}"
        )
        if not self._skip_corrupt:
            remedy = (
                f"seek to offset {end}, or set skip_corrupt_batches (tidelog consume"
                " --skip-corrupt)"
            )
            raise KafkaError(error.code, f"{where}; to read on behind it, {remedy}") from error
        first_offset = max(self.position, header.base_offset)
        if first_offset < end:  # otherwise all records were returned before the bad bytes
            logger.warning("%s; offsets %d to %d are skipped", where, first_offset, end - 1)
        if self._rows is None:
            self._skip_unopened(header, end)
        else:
            self._skip_opened(broken)

    def _skip_unopened(self, header: BatchHeader, end: int) -> None:
        self._is_visible(header, end - 1)  # a marker ends its transaction even if it cannot be read
        self._next_batch += 1
        self.position, self.leader_epoch = max(self.position, end), header.partition_leader_epoch

    def _skip_opened(self, broken: int) -> None:
        header, self._opened = self._opened[broken].header, self._opened[broken + 1 :]
        if self._opened:
            self._rows = self._rows_of(self._opened, self._topic_partition)
        else:
            self._rows, header = None, self._headers[self._next_batch - 1][1]
        self._move_past(header)

    def _is_broken(self, batch: OpenBatch) -> bool:
        """Return whether an opened batch has unreadable records.

        A batch before the position has none, because all its records were returned.
        """
        if batch.header.next_offset < self.position:
            return False
        try:
            deque(self._rows_of([batch], self._topic_partition), maxlen=0)
        except KafkaError:
            return True
        return False

    def _move_past(self, header: BatchHeader) -> None:
        self.position, self.leader_epoch = header.next_offset, header.partition_leader_epoch

    def _is_visible(self, header: BatchHeader, last_offset: int) -> bool:
        is_shown = header.is_control and self._with_control
        if self._aborted is None:
            return is_shown or not header.is_control
        is_committed = self._aborted.is_visible(
            last_offset,
            header.producer_id,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )
        return is_shown or is_committed

    def _deserialized(
        self, record: ConsumerRecord, rows: Iterator[ConsumerRecord]
    ) -> ConsumerRecord:
        if isinstance(record, LogRecord) and record.is_control:
            return record
        key, value, origin = record.key, record.value, "key"
        try:
            if key is not None and self._deserialize_key is not None:
                key = self._deserialize_key(key)
            origin = "value"
            if value is not None and self._deserialize_value is not None:
                value = self._deserialize_value(value)
        except Exception as error:
            self._rows = chain((record,), rows)
            raise RecordDeserializationError(record, origin, error) from error
        return record._replace(key=key, value=value)


def _are_alike(one: BatchHeader, other: BatchHeader) -> bool:
    return (
        one.partition_leader_epoch == other.partition_leader_epoch
        and one.is_append_time is other.is_append_time
    )
