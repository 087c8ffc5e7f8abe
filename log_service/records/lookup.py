"""Finding records by their timestamp: what ListOffsets asks of a log.

Decides which record stands for a time. Batches whose latest timestamp lies before the time are skipped by their header. At most one batch
is opened, unless a header claims a timestamp that none of its records has.
"""

from typing import NamedTuple

from log_service.common.types import NO_TIMESTAMP, Buffer
from log_service.records.batch import BatchHeader, iterate_headers, iterate_records
from log_service.records.compression import MAX_DECOMPRESSED_BYTES


class FoundRecord(NamedTuple):
    """Where a record is, its timestamp, and the leader epoch of its batch."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_first_record_at_or_after(
    buffer: Buffer, timestamp: int, *, start_offset: int = 0, max_size_bytes: int = MAX_DECOMPRESSED_BYTES
) -> FoundRecord | None:
    """Return the first record with a timestamp of at least ``timestamp`` and an offset of at least ``start_offset``.

    ``buffer`` holds batches back to back; a last one that is cut off is not looked at.

    Raises:
        KafkaError: as ``iterate_headers`` and ``iterate_records``.
    """
    for position, header in iterate_headers(buffer, is_torn_tail_ok=True):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        for record in iterate_records(buffer, position, max_size_bytes=max_size_bytes):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return FoundRecord(record.offset, record.timestamp, header.partition_leader_epoch)
    return None


def max_timestamp_record(buffer: Buffer, *, max_size_bytes: int = MAX_DECOMPRESSED_BYTES) -> FoundRecord | None:
    """Return the first record that has the latest timestamp of all (KIP-734); None where no record has a timestamp.

    ``buffer`` holds batches back to back; a last one that is cut off is not looked at. Headers are believed: only the first batch that
    claims the latest timestamp is opened, and where none of its records has it, its last offset is returned.

    Raises:
        KafkaError: as ``iterate_headers`` and ``iterate_records``.
    """
    latest: tuple[int, BatchHeader] | None = None
    for position, header in iterate_headers(buffer, is_torn_tail_ok=True):
        if header.max_timestamp > (latest[1].max_timestamp if latest else NO_TIMESTAMP):
            latest = position, header
    if latest is None:
        return None
    position, header = latest
    for record in iterate_records(buffer, position, max_size_bytes=max_size_bytes):
        if record.timestamp == header.max_timestamp:
            return FoundRecord(record.offset, record.timestamp, header.partition_leader_epoch)
    return FoundRecord(header.last_offset, header.max_timestamp, header.partition_leader_epoch)
