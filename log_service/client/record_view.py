"""What a consumer hands out, and the way from fetched bytes to it: batches are checked, decompressed and opened one by one, when asked for.

Decides which records of an answer are seen (none before the position, no markers, none of aborted transactions). Knows nothing of where the
bytes came from.

Invariants: after any number of records ``position`` is the offset to go on at, ``end_position`` the one behind the whole answer; a batch
that is damaged raises before any of its records is handed out.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from log_service.client.aborted import AbortedFilter
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, TopicPartition
from log_service.records.batch import BatchHeader, CorruptBatch, is_crc_valid, iterate_headers, iterate_records
from log_service.records.record import Record, RecordHeader

Deserializer = Callable[[bytes], Any]
"""Turns the bytes of a key or a value into what the application works with; null stays None and is not handed to it."""


class ConsumerRecord(NamedTuple):
    """A record as the application sees it. ``timestamp_type`` is ``CreateTime`` or ``LogAppendTime``."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: Any
    value: Any
    headers: tuple[RecordHeader, ...]
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record lies."""
        return TopicPartition(self.topic, self.partition)


class RecordDeserializationError(KafkaError):
    """A deserializer failed; ``__cause__`` is what it raised, ``origin`` is ``key`` or ``value``. The position is at the record: reading
    on at ``record.offset + 1`` skips it (KIP-334, KIP-1036). ``record`` has its key and value as bytes."""

    def __init__(self, record: ConsumerRecord, origin: str, cause: Exception) -> None:
        text = f"the {origin} of the record at {record.topic_partition} offset {record.offset} cannot be deserialized: {cause!r}"
        super().__init__(ErrorCode.INVALID_RECORD, f"{text}; seek to {record.offset + 1} to skip it")
        self.record = record
        self.origin = origin

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record lies."""
        return self.record.topic_partition

    @property
    def offset(self) -> int:
        """The offset of the record."""
        return self.record.offset


class LogTruncation(KafkaError):  # noqa: N818 - it says what happened to the log
    """A log was cut back below what had been read of it, and ``auto_offset_reset`` is none (KIP-320).

    ``offset`` is where reading stood, ``end_offset`` where the logs still agree: the place to seek to.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, end_offset: int) -> None:
        text = f"{topic_partition} was truncated to offset {end_offset} after offset {offset} had been read"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        self.topic_partition = topic_partition
        self.offset = offset
        self.end_offset = end_offset


_new = tuple.__new__


class RecordReader:
    """Reads the records of one answer of one partition."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        records: Any,
        position: int,
        *,
        aborted: AbortedFilter | None,
        check_crcs: bool,
        deserializers: tuple[Deserializer | None, Deserializer | None],
    ) -> None:
        self._topic_partition = topic_partition
        self._view = memoryview(records)
        self._aborted = aborted
        self._check_crcs = check_crcs
        self._deserialize_key, self._deserialize_value = deserializers
        self._headers = [(at, header) for at, header in iterate_headers(self._view, is_torn_tail_ok=True) if header.next_offset > position]
        self._next_batch = 0
        self._opened: tuple[BatchHeader, Iterator[Record]] | None = None
        self.position = position
        self.leader_epoch: int = NO_LEADER_EPOCH
        self.end_position = self._headers[-1][1].next_offset if self._headers else position
        self.end_epoch = self._headers[-1][1].partition_leader_epoch if self._headers else NO_LEADER_EPOCH

    def read_into(self, taken: list[ConsumerRecord], max_records: int) -> bool:
        """Append records to ``taken`` until it holds ``max_records``; returns whether nothing is left.

        Raises:
            RecordDeserializationError: ``position`` stays at that record, and the next call begins with it.
            KafkaError: CORRUPT_MESSAGE, INVALID_RECORD: ``position`` stays before what is broken.
        """
        while len(taken) < max_records:
            if self._opened is None and not self._open_next():
                return True
            assert self._opened is not None
            header, records = self._opened
            if self._read_batch(header, records, taken, max_records):
                self._opened = None
                self.position, self.leader_epoch = header.next_offset, header.partition_leader_epoch
        return self._opened is None and self._next_batch == len(self._headers)

    def _open_next(self) -> bool:
        """Open the next batch that the application may see; whether there is one."""
        while self._next_batch < len(self._headers):
            at, header = self._headers[self._next_batch]
            batch = self._view[at : at + header.size_bytes]
            if self._check_crcs and not is_crc_valid(batch):
                raise CorruptBatch(f"{self._topic_partition}: the checksum of the batch at offset {header.base_offset} does not hold")
            self._next_batch += 1
            if self._is_visible(header):
                self._opened = header, iterate_records(batch)
                return True
            self.position, self.leader_epoch = header.next_offset, header.partition_leader_epoch
        return False

    def _is_visible(self, header: BatchHeader) -> bool:
        if self._aborted is None:
            return not header.is_control
        return self._aborted.is_visible(
            header.last_offset, header.producer_id, is_transactional=header.is_transactional, is_control=header.is_control
        )

    def _read_batch(self, header: BatchHeader, records: Iterator[Record], taken: list[ConsumerRecord], max_records: int) -> bool:
        """Take records of the opened batch; whether it is empty now."""
        topic, number = self._topic_partition
        kind, epoch, start = header.timestamp_type, header.partition_leader_epoch, self.position
        is_plain = self._deserialize_key is None and self._deserialize_value is None
        room = max_records - len(taken)
        for offset, timestamp_ms, key, value, headers in records:
            if offset < start:
                continue
            record = _new(ConsumerRecord, (topic, number, offset, timestamp_ms, kind, key, value, headers, epoch))
            if not is_plain:
                record = self._deserialized(record, header, records)
            taken.append(record)
            self.position, self.leader_epoch = offset + 1, epoch
            room -= 1
            if not room:
                return offset == header.last_offset
        return True

    def _deserialized(self, record: ConsumerRecord, header: BatchHeader, records: Iterator[Record]) -> ConsumerRecord:
        key, value, origin = record.key, record.value, "key"
        try:
            if key is not None and self._deserialize_key is not None:
                key = self._deserialize_key(key)
            origin = "value"
            if value is not None and self._deserialize_value is not None:
                value = self._deserialize_value(value)
        except Exception as error:
            again = Record(record.offset, record.timestamp_ms, record.key, record.value, record.headers)
            self._opened = header, chain((again,), records)
            raise RecordDeserializationError(record, origin, error) from error
        return record._replace(key=key, value=value)
