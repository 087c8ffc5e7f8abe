"""Building record batches, record by record or all at once.

The module only decides the layout. The base offset is 0 by default, deltas are relative to the
first record's timestamp, and the checksum covers the finished bytes. The caller decides when a
batch is full and when it is sent. ``has_room_for`` counts uncompressed bytes, because the
compressed size is not known before compressing.

Invariants: an append takes one join and two extensions of one buffer. An uncompressed batch is
never copied, because it is finished in place.
"""

from collections.abc import Iterable, Sequence

from log_service.common.types import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Buffer,
)
from log_service.records.batch import (
    APPEND_TIME_FLAG,
    CONTROL_FLAG,
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    compute_crc,
)
from log_service.records.compression import Codec, compress
from log_service.records.record import (
    MAX_RECORD_OVERHEAD_BYTES,
    NewRecord,
    RecordHeader,
    encode_headers,
    max_headers_bytes,
)
from log_service.records.varint import VARINTS

DEFAULT_MAX_SIZE_BYTES = 16 * 1024
"""``batch.size``, the uncompressed size up to which a batch accepts records."""

MAX_BATCH_BYTES = (1 << 31) - 1
"""Largest value of a batch's length field."""

_NULL = VARINTS[-1]


class BatchBuilder:
    """Collector of records for one batch. ``build`` may be called only once."""

    __slots__ = (
        "_buffer",
        "base_timestamp",
        "codec",
        "level",
        "max_size_bytes",
        "max_timestamp",
        "record_count",
    )

    def __init__(
        self,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES,
    ) -> None:
        self._buffer = bytearray(HEADER_SIZE)
        self.codec = codec
        self.level = level
        self.max_size_bytes = max_size_bytes
        self.record_count = 0
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP

    def __len__(self) -> int:
        return self.record_count

    def __repr__(self) -> str:
        return (
            f"<BatchBuilder {self.codec.name.lower()} records={self.record_count}"
            f" size={self.estimated_size_bytes}>"
        )

    @property
    def estimated_size_bytes(self) -> int:
        """Uncompressed size of the batch in bytes.

        It is exact for codec none, and otherwise a bound for text-like records.
        """
        return len(self._buffer)

    def has_room_for(
        self, key: Buffer | None, value: Buffer | None, headers: Sequence[RecordHeader] = ()
    ) -> bool:
        """Return whether a record fits below ``max_size_bytes``. The first record always fits."""
        if self.record_count == 0:
            return True
        size_bytes = len(self._buffer) + MAX_RECORD_OVERHEAD_BYTES
        if key:
            size_bytes += len(key)
        if value:
            size_bytes += len(value)
        if headers:
            size_bytes += max_headers_bytes(headers)
        return size_bytes <= self.max_size_bytes

    def append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[RecordHeader] = (),
    ) -> int:
        """Add a record and return its offset relative to the batch.

        The record is added even if ``has_room_for`` is false.
        """
        offset_delta = self.record_count
        if offset_delta == 0:
            self.base_timestamp = self.max_timestamp = timestamp_ms
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        if key is None:
            key_length, key = _NULL, b""
        else:
            key_length = VARINTS[len(key)]
        if value is None:
            value_length, value = _NULL, b""
        else:
            value_length = VARINTS[len(value)]
        timestamp_delta = VARINTS[timestamp_ms - self.base_timestamp]
        tail = encode_headers(headers) if headers else b"\0"
        record = b"".join(
            (
                b"\0",
                timestamp_delta,
                VARINTS[offset_delta],
                key_length,
                key,
                value_length,
                value,
                tail,
            )
        )
        buffer = self._buffer
        buffer += VARINTS[len(record)]
        buffer += record
        self.record_count = offset_delta + 1
        return offset_delta

    def append_within(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader] = (),
    ) -> int:
        """Add a record and return the uncompressed size of the batch, or 0 if there is no room.

        The first record always fits. This is ``has_room_for`` and ``append`` in one call, for
        producers.
        """
        offset_delta = self.record_count
        timestamp_delta = timestamp_ms - self.base_timestamp if offset_delta else 0
        if key is None:
            key_length, key = _NULL, b""
        else:
            key_length = VARINTS[len(key)]
        if value is None:
            value_length, value = _NULL, b""
        else:
            value_length = VARINTS[len(value)]
        tail = encode_headers(headers) if headers else b"\0"
        record = b"".join(
            (
                b"\0",
                VARINTS[timestamp_delta],
                VARINTS[offset_delta],
                key_length,
                key,
                value_length,
                value,
                tail,
            )
        )
        length = VARINTS[len(record)]
        buffer = self._buffer
        size_bytes = len(buffer) + len(length) + len(record)
        if offset_delta == 0:
            self.base_timestamp = self.max_timestamp = timestamp_ms
        elif size_bytes > self.max_size_bytes:
            return 0
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        buffer += length
        buffer += record
        self.record_count = offset_delta + 1
        return size_bytes

    def append_values(
        self,
        timestamp_ms: int,
        values: Iterable[bytes | None],
        headers: Sequence[RecordHeader] = (),
        limit_bytes: int = MAX_BATCH_BYTES,
    ) -> int:
        """Add values without keys, and return how many were added.

        It stops once the batch has reached ``limit_bytes`` or the next value does not fit. The
        batch must have a record already. Bytes that the records share are encoded once.
        """
        assert self.record_count > 0, "the first record of a batch fits whatever its size"
        first_delta = offset_delta = self.record_count
        before = b"\0" + VARINTS[timestamp_ms - self.base_timestamp]
        after = encode_headers(headers) if headers else b"\0"
        fixed_bytes = len(before) + len(_NULL) + len(after)
        size_bytes, room_bytes = len(self._buffer), self.max_size_bytes
        parts: list[bytes] = []
        for value in values:
            if value is None:
                length, content = _NULL, b""
            else:
                length, content = VARINTS[len(value)], value
            offset = VARINTS[offset_delta]
            record_bytes = fixed_bytes + len(offset) + len(length) + len(content)
            size = VARINTS[record_bytes]
            grown_bytes = size_bytes + len(size) + record_bytes
            if size_bytes >= limit_bytes or grown_bytes > room_bytes:
                break
            parts += (size, before, offset, _NULL, length, content, after)
            size_bytes = grown_bytes
            offset_delta += 1
        self._buffer += b"".join(parts)
        self.record_count = offset_delta
        if offset_delta > first_delta and timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        return offset_delta - first_delta

    def build(
        self,
        *,
        base_offset: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        leader_epoch: int = NO_LEADER_EPOCH,
        append_time_ms: int | None = None,
    ) -> bytearray:
        """Return the finished batch.

        The builder must not be used again.

        ``append_time_ms`` becomes the timestamp of every record (LogAppendTime).
        """
        assert self.record_count > 0, "a batch has at least one record"
        batch, self._buffer = self._buffer, bytearray()
        if self.codec is not Codec.NONE:
            batch[HEADER_SIZE:] = compress(self.codec, memoryview(batch)[HEADER_SIZE:], self.level)
        attributes = (
            self.codec
            | (TRANSACTIONAL_FLAG if is_transactional else 0)
            | (CONTROL_FLAG if is_control else 0)
            | (APPEND_TIME_FLAG if append_time_ms is not None else 0)
        )
        HEADER.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - LOG_OVERHEAD,
            leader_epoch,
            MAGIC,
            0,
            attributes,
            self.record_count - 1,
            self.base_timestamp,
            self.max_timestamp if append_time_ms is None else append_time_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            self.record_count,
        )
        CRC.pack_into(batch, CRC_POSITION, compute_crc(batch))
        return batch


def build_batch(
    records: Iterable[NewRecord | tuple[int, Buffer | None, Buffer | None]],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
    append_time_ms: int | None = None,
) -> bytes:
    """Return one batch of at least one record.

    A record is (timestamp_ms, key, value) or (timestamp_ms, key, value, headers).
    """
    builder = BatchBuilder(codec, level)
    for record in records:
        builder.append(*record)
    batch = builder.build(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
        leader_epoch=leader_epoch,
        append_time_ms=append_time_ms,
    )
    return bytes(batch)
