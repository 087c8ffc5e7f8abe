"""A record batch, magic 2, as a header over bytes in place and records on demand.

The module knows the layout, the checksum and the fields that a leader stamps. It knows nothing of
files, requests and topics. The layout (KIP-98; big-endian): base_offset i64, batch_length i32
(bytes after this field), partition_leader_epoch i32, magic i8, crc u32 (CRC-32C of everything after
it), attributes i16, last_offset_delta i32, base_timestamp i64, max_timestamp i64, producer_id i64,
producer_epoch i16, base_sequence i32, record_count i32, then the records, compressed as one block.

Invariants: base_offset and partition_leader_epoch lie outside the checksum, so that a leader stamps
them without computing it again. Headers are read with one unpacking and never copy the records.
Bytes that are not a batch raise ``CorruptBatch``.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import NamedTuple

from log_service.common.crc32c import crc32c
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_PRODUCER_ID, NO_SEQUENCE, Buffer
from log_service.records.compression import MAX_DECOMPRESSED_BYTES, Codec, decompress
from log_service.records.record import Record, read_records

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
MAGIC = 2
LOG_OVERHEAD = 12
"""Bytes that batch_length does not count: base_offset and batch_length."""
MIN_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD

EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35
PRODUCER_POSITION = 43

CODEC_MASK = 0x07
APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

_CODECS = tuple(Codec)
SEQUENCE_COUNT = 1 << 31
"""Number of sequences of a producer. After the last one comes 0."""
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_PRODUCER = Struct(">qhi")
_unpack_header = HEADER.unpack_from
_new = tuple.__new__


class CorruptBatch(KafkaError):  # noqa: N818 - it names the bytes, as the error code does
    """Bytes that are not a record batch, or do not match their checksum: CORRUPT_MESSAGE."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, reason)


class BatchHeader(NamedTuple):
    """The fields of a batch before its records, as on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch in bytes."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, inclusive. Compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number of the codec. No codec may have this number."""
        return self.attributes & CODEC_MASK

    @property
    def compression(self) -> Codec:
        """The codec.

        Raises:
            KafkaError: UNSUPPORTED_COMPRESSION_TYPE, no codec has this number.
        """
        number = self.attributes & CODEC_MASK
        if number > Codec.ZSTD:
            text = (
                f"the batch at offset {self.base_offset} names compression codec {number}, which"
                " does not exist"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
        return _CODECS[number]

    @property
    def is_append_time(self) -> bool:
        """Whether all records have max_timestamp as their timestamp (LogAppendTime).

        Otherwise each record has its own timestamp (CreateTime).
        """
        return self.attributes & APPEND_TIME_FLAG != 0

    @property
    def timestamp_type(self) -> str:
        """``CreateTime`` or ``LogAppendTime``, as in ``message.timestamp.type``."""
        return "LogAppendTime" if self.attributes & APPEND_TIME_FLAG else "CreateTime"

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction of producer_id."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are markers that applications never see."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time when compaction may drop the batch's tombstones and markers, or None (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, or -1. After sequence 2147483647 comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_COUNT


def next_sequence(sequence: int, record_count: int = 1) -> int:
    """Return the sequence ``record_count`` after ``sequence``. After 2147483647 comes 0."""
    return (sequence + record_count) % SEQUENCE_COUNT


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at ``position``, without checking the checksum or the records.

    Raises:
        CorruptBatch: fewer bytes than a header, another magic, an impossible length or count.
    """
    try:
        fields = _unpack_header(buffer, position)
    except StructError:
        text = (
            f"{len(buffer) - position} bytes at position {position} where a batch header takes"
            f" {HEADER_SIZE}"
        )
        raise CorruptBatch(text) from None
    header = _new(BatchHeader, fields)
    if fields[3] != MAGIC or fields[1] < MIN_BATCH_LENGTH or fields[6] < 0 or fields[12] < 0:
        # Last offset delta, record count.
        raise CorruptBatch(_header_fault(header, position))
    return header


def _header_fault(header: BatchHeader, position: int) -> str:
    where = f"the batch at position {position} (base offset {header.base_offset})"
    if header.magic != MAGIC:
        return f"{where} has magic {header.magic}; only {MAGIC} is read"
    if header.batch_length < MIN_BATCH_LENGTH:
        return f"{where} has length {header.batch_length}, less than its header"
    return (
        f"{where} has {header.record_count} records and last offset delta"
        f" {header.last_offset_delta}"
    )


def _cut_off(header: BatchHeader, position: int, there_bytes: int) -> CorruptBatch:
    text = (
        f"the batch at position {position} announces {header.size_bytes} bytes, {there_bytes} are"
        " there"
    )
    return CorruptBatch(text)


def iterate_headers(
    buffer: Buffer, *, is_torn_tail_ok: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of consecutive batches.

    With ``is_torn_tail_ok`` the iteration ends before a last batch that is cut off, as a fetch of
    limited size returns it.

    Raises:
        CorruptBatch: bytes are not a header, or the last batch is cut off and that is not allowed.
    """
    position, end = 0, len(buffer)
    while position < end:
        if end - position < HEADER_SIZE and is_torn_tail_ok:
            return
        header = parse_header(buffer, position)
        next_position = position + header.batch_length + LOG_OVERHEAD
        if next_position > end:
            if is_torn_tail_ok:
                return
            raise _cut_off(header, position, end - position)
        yield position, header
        position = next_position


def iterate_usable_headers(buffer: Buffer, leader_epoch: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of whole batches that a leader sent in ``leader_epoch``.

    The iteration ends before the first batch of a later epoch.

    Raises:
        CorruptBatch: bytes are not a header.
    """
    for position, header in iterate_headers(buffer, is_torn_tail_ok=True):
        if header.partition_leader_epoch > leader_epoch:
            return
        yield position, header


def batch_view(buffer: Buffer, position: int = 0) -> memoryview:
    """Return the bytes of the one batch at ``position``.

    Raises:
        CorruptBatch: there is no whole batch.
    """
    header = parse_header(buffer, position)
    view = memoryview(buffer)[position : position + header.size_bytes]
    if len(view) < header.size_bytes:
        raise _cut_off(header, position, len(view))
    return view


# Checksum


def compute_crc(batch: Buffer) -> int:
    """Return the CRC-32C of a batch, from its attributes on.

    ``batch`` holds the batch and nothing else.
    """
    return crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])


def is_crc_valid(batch: Buffer) -> bool:
    """Return whether the checksum of a batch matches its bytes.

    ``batch`` holds the batch and nothing else.
    """
    (crc,) = CRC.unpack_from(batch, CRC_POSITION)
    return bool(crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]) == crc)


# Fields that a leader stamps


def stamp(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write the base offset and the leader epoch into the batch at ``position``.

    The checksum does not cover these fields.
    """
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + EPOCH_POSITION, leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Make ``timestamp_ms`` the timestamp of every record of the batch at ``position``.

    This is LogAppendTime. The checksum is renewed.

    Raises:
        CorruptBatch: there is no whole batch.
    """
    batch = batch_view(buffer, position)
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, attributes | APPEND_TIME_FLAG)
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_POSITION, timestamp_ms)
    CRC.pack_into(batch, CRC_POSITION, compute_crc(batch))


def stamp_producer(
    buffer: bytearray | memoryview,
    position: int,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> None:
    """Replace the producer id, epoch and base sequence of the batch at ``position``.

    The checksum is renewed. A batch must be stamped again if its producer gets a new epoch.

    Raises:
        CorruptBatch: there is no whole batch.
    """
    batch = batch_view(buffer, position)
    _PRODUCER.pack_into(batch, PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    CRC.pack_into(batch, CRC_POSITION, compute_crc(batch))


def replace_records(batch: Buffer, codec: Codec, compressed: bytes) -> bytearray:
    """Return a batch with the same records in another compression.

    The header keeps all fields but length, codec and checksum. ``compressed`` holds the batch's
    records compressed by ``codec``. Their count and their deltas are unchanged.
    """
    header = parse_header(batch)
    replaced = bytearray(HEADER_SIZE)
    replaced += compressed
    fields = header._replace(
        batch_length=len(replaced) - LOG_OVERHEAD,
        attributes=header.attributes & ~CODEC_MASK | codec,
    )
    HEADER.pack_into(replaced, 0, *fields)
    CRC.pack_into(replaced, CRC_POSITION, compute_crc(replaced))
    return replaced


# Records


class OpenBatch(NamedTuple):
    """A batch's header and its decompressed records, between two positions of a buffer."""

    header: BatchHeader
    buffer: Buffer
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Size of the records in bytes."""
        return self.end - self.start

    @property
    def records(self) -> bytes:
        """The records as separate bytes."""
        return bytes(memoryview(self.buffer)[self.start : self.end])


def open_batch(
    view: memoryview,
    position: int,
    header: BatchHeader,
    max_size_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> OpenBatch:
    """Return the records of the whole batch at ``position``, in place or decompressed.

    ``header`` is the header that was read there.

    Raises:
        KafkaError: as ``compression.decompress``.
    """
    start, end = position + HEADER_SIZE, position + header.size_bytes
    codec = header.compression
    if codec is Codec.NONE:
        return OpenBatch(header, view, start, end)
    plain = decompress(codec, view[start:end], max_size_bytes)
    return OpenBatch(header, plain, 0, len(plain))


def plain_records(
    buffer: Buffer, position: int = 0, *, max_size_bytes: int = MAX_DECOMPRESSED_BYTES
) -> tuple[BatchHeader, bytes]:
    """Return the header of the batch at ``position`` and its decompressed records.

    Raises:
        KafkaError: CorruptBatch, there is no whole batch; or as ``compression.decompress``.
    """
    header = parse_header(buffer, position)
    body = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    if len(body) != header.batch_length - MIN_BATCH_LENGTH:
        raise _cut_off(header, position, HEADER_SIZE + len(body))
    return header, decompress(header.compression, body, max_size_bytes)


def iterate_records(
    buffer: Buffer, position: int = 0, *, max_size_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """Yield the records of the batch at ``position``, also the markers of a control batch.

    The caller verifies the checksum. The batch is decompressed when the caller requests the first
    record, into at most ``max_size_bytes``.

    Raises:
        KafkaError: CorruptBatch, there is no whole batch; INVALID_RECORD, a record is malformed; or
            as ``compression.decompress``.
    """
    header, plain = plain_records(buffer, position, max_size_bytes=max_size_bytes)
    yield from read_records(
        plain,
        header.record_count,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        append_timestamp=header.max_timestamp if header.is_append_time else None,
    )


def looks_transactional(records: Buffer | None) -> bool:
    """Return whether the attributes of an unchecked batch say that it belongs to a transaction.

    Return false for None, and for fewer bytes than a header has.
    """
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_FLAG)
    )
