"""Batches with fewer records, as compaction writes them.

Batches change as in Apache Kafka. Offsets, producer fields, leader epoch and codec stay, so that
readers and producer states notice only gaps. The base timestamp becomes the delete horizon if there
is one (KIP-534), or else the timestamp of the first remaining record. The latest timestamp is that
of the remaining records. A batch that lost all records becomes a header without records, because
the header keeps the producer's last sequence. The caller decides which records are removed.
"""

from collections.abc import Sequence

from log_service.common.types import NO_TIMESTAMP
from log_service.records.batch import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    compute_crc,
)
from log_service.records.compression import compress
from log_service.records.outline import Outline
from log_service.records.varint import INT64_VARINT_BYTES, VARINTS, read_varint


def retain_records(
    header: BatchHeader,
    plain: bytes,
    outline: Outline,
    kept: Sequence[int],
    *,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Return a batch with only the records of indexes ``kept``, at least one.

    ``header`` and ``plain``, the decompressed records, are those of the old batch.
    ``delete_horizon_ms`` sets the time from which the batch's tombstones may be dropped. A horizon
    that is already set stays.

    Raises:
        KafkaError: INVALID_RECORD, a timestamp is malformed.
    """
    if header.delete_horizon_ms is not None:
        delete_horizon_ms = header.delete_horizon_ms
    starts = [outline.ends[index - 1] if index else 0 for index in kept]
    ends = [outline.ends[index] for index in kept]
    deltas = [_timestamp_delta(plain, start) for start in starts]
    base_timestamp = header.base_timestamp
    timestamps = [
        header.max_timestamp if header.is_append_time else base_timestamp + delta
        for delta in deltas
    ]
    base_timestamp = timestamps[0] if delete_horizon_ms is None else delete_horizon_ms
    if base_timestamp == header.base_timestamp and not header.is_append_time:
        parts = [plain[start:end] for start, end in zip(starts, ends, strict=True)]
    else:
        parts = [
            _with_timestamp_delta(plain, start, timestamp - base_timestamp)
            for start, timestamp in zip(starts, timestamps, strict=True)
        ]
    changed = header._replace(
        attributes=header.attributes | (0 if delete_horizon_ms is None else DELETE_HORIZON_FLAG),
        base_timestamp=base_timestamp,
        max_timestamp=max(timestamps),
        record_count=len(parts),
    )
    return _finished(changed, compress(header.compression, b"".join(parts)))


def empty_batch(header: BatchHeader) -> bytearray:
    """Return the batch of ``header`` without any of its records."""
    flags = header.attributes & (APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG)
    assert flags & CODEC_MASK == 0, "what holds nothing is not compressed"
    return _finished(
        header._replace(attributes=flags, base_timestamp=NO_TIMESTAMP, record_count=0), b""
    )


def _finished(header: BatchHeader, body: bytes) -> bytearray:
    batch = bytearray(HEADER_SIZE)
    batch += body
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    CRC.pack_into(batch, CRC_POSITION, compute_crc(batch))
    return batch


def _timestamp_delta(plain: bytes, start: int) -> int:
    _, fields = read_varint(plain, start)
    delta, _ = read_varint(plain, fields + 1, INT64_VARINT_BYTES)
    return delta


def _with_timestamp_delta(plain: bytes, start: int, delta: int) -> bytes:
    """Return the record at ``start`` with another timestamp delta."""
    size, fields = read_varint(plain, start)
    _, rest = read_varint(plain, fields + 1, INT64_VARINT_BYTES)
    changed = plain[fields : fields + 1] + VARINTS[delta] + plain[rest : fields + size]
    return VARINTS[len(changed)] + changed
