"""Batches with fewer records: what compaction writes.

Decides how a batch changes when records leave it: offsets, producer fields, leader epoch and latest timestamp stay, so that neither readers
nor producers' states notice more than gaps; a batch without records keeps its header, which remembers a producer's last sequence. The
kept records are copied as bytes. Which records leave is the caller's to know.
"""

from collections.abc import Callable, Iterator

from log_service.common.types import Buffer
from log_service.records.batch import (
    CRC,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    BatchHeader,
    compute_crc,
    parse_header,
    plain_records,
    replace_records,
)
from log_service.records.compression import MAX_DECOMPRESSED_BYTES, Codec, compress
from log_service.records.record import Record, read_records
from log_service.records.varint import INT64_VARINT_BYTES, VARINTS, read_varint


def retain_records(
    buffer: Buffer,
    position: int,
    is_retained: Callable[[Record], bool],
    *,
    delete_horizon_ms: int | None = None,
    max_size_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytearray:
    """Return the batch at ``position`` with only the records that ``is_retained``; its count says whether any are left.

    ``delete_horizon_ms`` sets the time from which the batch's tombstones may be dropped (KIP-534); the records keep their timestamps.

    Raises:
        KafkaError: as ``plain_records`` and ``read_records``.
    """
    header, plain = plain_records(buffer, position, max_size_bytes=max_size_bytes)
    shift_ms = 0 if delete_horizon_ms is None else header.base_timestamp - delete_horizon_ms
    records = read_records(plain, header.record_count, base_offset=header.base_offset, base_timestamp=header.base_timestamp)
    kept = [
        _shifted(fields, shift_ms)
        for fields, record in zip(_fields(plain, header.record_count), records, strict=True)
        if is_retained(record)
    ]
    codec = header.compression if kept else Codec.NONE
    body = compress(codec, b"".join(kept))
    batch = replace_records(memoryview(buffer)[position : position + header.size_bytes], codec, body, record_count=len(kept))
    if delete_horizon_ms is not None:
        _set_delete_horizon(batch, parse_header(batch), delete_horizon_ms)
    return batch


def _fields(plain: bytes, record_count: int) -> Iterator[bytes]:
    """Yield each record without its length."""
    end = 0
    for _ in range(record_count):
        size, start = read_varint(plain, end)
        end = start + size
        yield plain[start:end]


def _shifted(fields: bytes, shift_ms: int) -> bytes:
    """Return a record with its length, its timestamp delta moved by ``shift_ms``."""
    if shift_ms:
        delta, position = read_varint(fields, 1, INT64_VARINT_BYTES)
        fields = fields[:1] + VARINTS[delta + shift_ms] + fields[position:]
    return VARINTS[len(fields)] + fields


def _set_delete_horizon(batch: bytearray, header: BatchHeader, delete_horizon_ms: int) -> None:
    changed = header._replace(attributes=header.attributes | DELETE_HORIZON_FLAG, base_timestamp=delete_horizon_ms)
    HEADER.pack_into(batch, 0, *changed)
    CRC.pack_into(batch, CRC_POSITION, compute_crc(batch))
