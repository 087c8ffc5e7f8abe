"""Search for a record of one batch by its timestamp.

It finds the first record at or after a time, or the first with the latest time. In a batch with
many records no record becomes an object if numpy is installed.
"""

from typing import Any

from log_service.common.types import Buffer
from log_service.records.batch import iterate_records, open_batch, parse_header
from log_service.records.checks import checks_at_once
from log_service.records.limits import MIN_COUNT_AT_ONCE

Found = tuple[int, int] | None
"""Timestamp and offset, or None."""


def first_record_at(batch: Buffer, timestamp: int, start_offset: int) -> Found:
    """Return (timestamp, offset) of the first record at or above two bounds, or None.

    The bounds are ``timestamp`` and ``start_offset``.

    Raises:
        KafkaError: as ``iterate_records``.
    """
    columns = _columns(batch)
    if columns is None:
        for record in iterate_records(batch):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return record.timestamp, record.offset
        return None
    timestamps, offsets = columns
    is_meant = (timestamps >= timestamp) & (offsets >= start_offset)
    index = int(is_meant.argmax())
    return (int(timestamps[index]), int(offsets[index])) if is_meant[index] else None


def latest_record(batch: Buffer) -> Found:
    """Return (timestamp, offset) of the first record with the largest timestamp.

    Return None for a batch without records. The header's timestamp is not used.

    Raises:
        KafkaError: as ``iterate_records``.
    """
    columns = _columns(batch)
    if columns is None:
        latest = max(iterate_records(batch), key=lambda record: record.timestamp, default=None)
        return None if latest is None else (latest.timestamp, latest.offset)
    timestamps, offsets = columns
    index = int(timestamps.argmax())
    return int(timestamps[index]), int(offsets[index])


def _columns(batch: Buffer) -> tuple[Any, Any] | None:
    """Return the timestamps and offsets of all records as arrays.

    Return None without numpy or for few records, because a loop over records is then as good.
    """
    header = parse_header(batch)
    fields = checks_at_once() if header.record_count >= MIN_COUNT_AT_ONCE else None
    if fields is None:
        return None
    found = fields.find_fields((open_batch(memoryview(batch), 0, header),))
    return found.timestamps, found.offsets
