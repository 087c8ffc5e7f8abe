"""Turns opened batches into records of the application.

With numpy, many records are made at once. ``records.fields`` finds all fields, and only keys and
values are cut out one by one. For few records, or without numpy, a loop makes one record after the
other. Both ways yield the same records. This module knows nothing of positions and transactions.

Invariants: records are made in portions, on demand. An error for a malformed record is raised after
the records before it were returned.
"""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import chain, repeat
from types import ModuleType
from typing import Any

from log_service.client.consumer.records import ConsumerRecord
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.records.batch import OpenBatch
from log_service.records.record import RecordHeader, malformed, read_headers, read_records

MIN_RECORD_COUNT = 256  # for fewer, numpy costs more than a loop
# The fields of a larger batch of tiny records would take many times its size.
MAX_FIELDS_BYTES = 8 << 20
PORTION_RECORDS = 1_024

_new = tuple.__new__
_make = partial(_new, ConsumerRecord)


def rows_of(
    batches: Sequence[OpenBatch], topic_partition: TopicPartition
) -> Iterator[ConsumerRecord]:
    """Return the records of batches that share leader epoch and timestamp type.

    There must be at least one batch.
    """
    record_count = sum(batch.header.record_count for batch in batches)
    size_bytes = sum(batch.size_bytes for batch in batches)
    if record_count >= MIN_RECORD_COUNT and size_bytes <= MAX_FIELDS_BYTES:
        fields = fields_module()
        if fields is not None:
            try:
                return many_rows(fields, batches, topic_partition)
            except KafkaError:
                pass  # the loop returns the records before the malformed one
    return rows_in_turn(batches, topic_partition)


def rows_in_turn(
    batches: Sequence[OpenBatch], topic_partition: TopicPartition
) -> Iterator[ConsumerRecord]:
    """Return the records of batches, made one by one on demand, without numpy."""
    return chain.from_iterable(single_rows(batch, topic_partition) for batch in batches)


@cache
def fields_module() -> ModuleType | None:
    """Return ``records.fields``, which finds the fields of many records, or None without numpy."""
    try:
        from log_service.records import fields  # noqa: PLC0415 - imports numpy, which is optional
    except ImportError:
        return None
    return fields


# One after the other


def single_rows(batch: OpenBatch, topic_partition: TopicPartition) -> Iterator[ConsumerRecord]:
    """Yield the records of a batch, one after the other."""
    header, (topic, number) = batch.header, topic_partition
    kind, epoch = header.timestamp_type, header.partition_leader_epoch
    records = read_records(
        batch.records,
        header.record_count,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        append_timestamp=header.max_timestamp if header.is_append_time else None,
    )
    for offset, timestamp_ms, key, value, headers in records:
        yield _new(
            ConsumerRecord, (topic, number, offset, timestamp_ms, kind, key, value, headers, epoch)
        )


# Many at once


def many_rows(
    module: ModuleType, batches: Sequence[OpenBatch], topic_partition: TopicPartition
) -> Iterator[ConsumerRecord]:
    """Return the records of batches. ``module`` (``records.fields``) finds their fields."""
    first = batches[0].header
    fields = module.find_fields(batches)
    body = bytes(fields.body)
    headers = _all_headers(body, fields) if fields.header_counts.any() else None
    topic, number = topic_partition

    def portion(start: int) -> list[ConsumerRecord]:
        part = slice(start, start + PORTION_RECORDS)
        rows = zip(
            repeat(topic),
            repeat(number),
            fields.offsets[part].tolist(),
            fields.timestamps[part].tolist(),
            repeat(first.timestamp_type),
            _pieces(body, fields.keys, part),
            _pieces(body, fields.values, part),
            repeat(()) if headers is None else headers[part],
            repeat(first.partition_leader_epoch),
        )
        return list(map(_make, rows))

    return chain.from_iterable(map(portion, range(0, len(fields.offsets), PORTION_RECORDS)))


def _pieces(body: bytes, spans: Any, part: slice) -> list[bytes | None]:
    """Cut out the keys or values of the records in ``part``. ``spans`` has their positions."""
    is_null = spans.is_null[part]
    if is_null.all():
        return [None] * len(is_null)
    starts, ends = spans.starts[part].tolist(), spans.ends[part].tolist()
    if not is_null.any():
        return [body[start:end] for start, end in zip(starts, ends, strict=True)]
    return [
        None if null else body[start:end]
        for null, start, end in zip(is_null.tolist(), starts, ends, strict=True)
    ]


def _all_headers(body: bytes, fields: Any) -> list[tuple[RecordHeader, ...]]:
    """Return the headers of each record. Raises as ``read_records``."""
    found: list[tuple[RecordHeader, ...]] = []
    places = zip(
        fields.header_counts.tolist(),
        fields.header_positions.tolist(),
        fields.ends.tolist(),
        strict=True,
    )
    for index, (count, position, end) in enumerate(places):
        if not count:
            found.append(())
            continue
        try:
            headers, reached = read_headers(body, position, end, index)
        except IndexError:
            raise malformed(index, "the batch ends inside it") from None
        if reached != end:
            raise malformed(
                index, f"its fields take {reached - end} bytes more than its length says"
            )
        found.append(headers)
    return found
