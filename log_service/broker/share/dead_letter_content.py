"""The content of a dead letter: the record, and headers with its origin and the reason.

If a record cannot be read, or is too large with the new headers, its letter has no copy of it, and
a header says so. The names of the headers are those of KIP-1191. Knows neither logs nor topics.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from log_service.common.errors import KafkaError
from log_service.coordinator.share.in_flight import DeadLetterRange
from log_service.coordinator.share.record_states import ArchiveReason
from log_service.records.batch import iterate_headers, iterate_records
from log_service.records.builder import BatchBuilder
from log_service.records.record import Record, RecordHeader

MAX_BATCH_BYTES = 512 << 10
"""The most bytes of letters that are written together. A larger letter is written alone."""

TOPIC = "__dlq.errors.topic"
PARTITION = "__dlq.errors.partition"
OFFSET = "__dlq.errors.offset"
GROUP = "__dlq.errors.group"
DELIVERY_COUNT = "__dlq.errors.delivery.count"
TIMESTAMP = "__dlq.errors.timestamp"
MESSAGE = "__dlq.errors.message"
OMITTED = "__dlq.errors.omitted"

_MESSAGES = {
    ArchiveReason.REJECTED: "a member rejected it",
    ArchiveReason.DELIVERED_TOO_OFTEN: "it was delivered as often as is allowed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The group and the partition that dead letters come from."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter: a record, its delivery count and the reason."""

    origin: Origin
    offset: int
    delivery_count: int
    reason: ArchiveReason
    record: Record | None
    """The record, or None if it could not be read."""

    @property
    def headers(self) -> tuple[RecordHeader, ...]:
        """The record's own headers, then ours."""
        own = () if self.record is None else self.record.headers
        return (
            *own,
            *self._context(),
            *(((OMITTED, b"the record cannot be read"),) if self.record is None else ()),
        )

    def _context(self) -> Iterator[RecordHeader]:
        yield TOPIC, self.origin.topic.encode()
        yield PARTITION, str(self.origin.partition).encode()
        yield OFFSET, str(self.offset).encode()
        yield GROUP, self.origin.group_id.encode()
        yield DELIVERY_COUNT, str(self.delivery_count).encode()
        if self.record is not None:
            yield TIMESTAMP, str(self.record.timestamp).encode()
        yield MESSAGE, _MESSAGES[self.reason].encode()

    def batch(self, now_ms: int) -> bytearray:
        """Return the batch of this letter alone."""
        return batch_of([self], now_ms)

    def batch_without_copy(self, now_ms: int) -> bytearray:
        """Return the batch of this letter without the record, which is too large for the topic."""
        builder = BatchBuilder()
        builder.append(
            now_ms,
            None,
            None,
            (*self._context(), (OMITTED, b"the record is too large with these headers")),
        )
        return builder.build()


def batch_of(letters: Sequence[Letter], now_ms: int) -> bytearray:
    """Return one batch with the given letters.

    Their timestamp is the time at which the records were given up. Otherwise retention would delete
    an old record's letter at once.
    """
    builder = BatchBuilder(max_size_bytes=MAX_BATCH_BYTES)
    for letter in letters:
        record = letter.record
        builder.append(
            now_ms,
            None if record is None else record.key,
            None if record is None else record.value,
            letter.headers,
        )
    return builder.build()


def letters_in(chunk: bytes, dead: DeadLetterRange, origin: Origin) -> Iterator[Letter]:
    """Yield a letter for each dead record in ``chunk``, which has whole batches.

    Letters of records that cannot be read have no copy of the record.
    """
    for position, header in iterate_headers(chunk):
        first, last = (
            max(header.base_offset, dead.first_offset),
            min(header.last_offset, dead.last_offset),
        )
        if header.is_control or first > last:
            continue
        try:
            records: Iterable[Record] = list(iterate_records(chunk, position))
        except KafkaError:
            for offset in range(first, last + 1):
                yield Letter(
                    origin=origin,
                    offset=offset,
                    delivery_count=dead.delivery_count,
                    reason=dead.reason,
                    record=None,
                )
            continue
        for record in records:
            if first <= record.offset <= last:
                yield Letter(
                    origin=origin,
                    offset=record.offset,
                    delivery_count=dead.delivery_count,
                    reason=dead.reason,
                    record=record,
                )


def grouped(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """Yield letters in groups, each of which is written as one batch.

    A group has at most ``MAX_BATCH_BYTES``, or a single letter.
    """
    group: list[Letter] = []
    size_bytes = 0
    for letter in letters:
        letter_bytes = _size_bytes(letter)
        if group and size_bytes + letter_bytes > MAX_BATCH_BYTES:
            yield group
            group, size_bytes = [], 0
        group.append(letter)
        size_bytes += letter_bytes
    if group:
        yield group


def _size_bytes(letter: Letter) -> int:
    record = letter.record
    own = 0 if record is None else len(record.key or b"") + len(record.value or b"")
    return own + sum(len(name) + len(value or b"") for name, value in letter.headers)
